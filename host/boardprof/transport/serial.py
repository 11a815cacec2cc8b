# SPDX-License-Identifier: Apache-2.0
"""A serial line or pty, opened and locked by pyserial."""

from __future__ import annotations

import errno
import os
import termios

from boardprof.errors import BoardError, BusyError, UsageError
from boardprof.processes import described, lock_holders, openers
from boardprof.transport.base import DescriptorTransport

_PTY = "/dev/pts/"

BITS_PER_BYTE = 10
"""8N1: a start bit, eight bits, a stop bit."""


def connect_serial(device: str, baud: int) -> DescriptorTransport:
    """Open ``device`` for this process alone.

    Args:
        device: a path such as ``/dev/ttyACM0``.
        baud: bits a second on the wire.

    Raises:
        BoardError: the device does not exist, or access is denied; the message says which.
        BusyError: another program has it open; the message names it.
        UsageError: the device does not support the rate.
    """
    import serial  # not needed to show help or to run an emulated board

    try:
        line = serial.Serial(device, baud, timeout=0, write_timeout=0, exclusive=True)
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"{device} cannot run at {baud} baud: {error}.",
            hint="give the board's rate with --baud",
        ) from error
    except (serial.SerialException, OSError, termios.error) as error:
        raise _explain(device, error) from error
    is_pty = os.path.realpath(device).startswith(_PTY)
    # Not every program locks, and two that read take each other's bytes. Who has the other end of a
    # pseudo-terminal may well have this one open, too.
    if not is_pty and (others := openers(device)):
        line.close()
        raise _busy(device, others)
    # A pseudo-terminal has a rate, but no wire, so the rate has no effect.
    byte_time_s = 0.0 if is_pty else BITS_PER_BYTE / line.baudrate
    return DescriptorTransport(line.fileno(), device, line.close, byte_time_s=byte_time_s)


def _busy(device: str, holders: list[int]) -> BusyError:
    owner = described(holders) or "another program"
    return BusyError(
        f"{device} is busy: {owner} has it open.",
        owner=owner,
        hint=f"close it; `fuser -v {device}` shows every program that has it open",
    )


def _explain(device: str, error: Exception) -> BoardError:
    number = getattr(error, "errno", None)
    for cause in (error, error.__context__):  # pyserial keeps only the text of some
        if number is None and isinstance(cause, termios.error):
            number = cause.args[0]
    if number == errno.ENOENT:
        return BoardError(
            f"Port {device} does not exist.",
            hint="plug in the board, and look under /dev/serial/by-id",
        )
    if number == errno.EACCES:
        return BoardError(
            f"No permission to open {device}.",
            hint="sudo usermod -aG dialout $USER, then log in again",
        )
    if number in (errno.EAGAIN, errno.EBUSY):
        return _busy(device, lock_holders(device) or openers(device))
    if number == errno.ENOTTY:
        return BoardError(
            f"{device} is not a serial port.", hint="give a device path or socket://HOST:PORT"
        )
    reason = os.strerror(number) if isinstance(number, int) else str(error)
    return BoardError(
        f"{device} cannot be opened as a serial port: {reason}.",
        hint="give a device path or socket://HOST:PORT; if this is the board's port, plug it in "
        "again",
    )
