# SPDX-License-Identifier: Apache-2.0
"""A serial line or pty, opened and locked by pyserial."""

from __future__ import annotations

import errno
import os
import termios
from collections.abc import Callable
from dataclasses import replace

from boardprof.base.connection import FORMS, ControlLines
from boardprof.base.errors import BoardError, BusyError, LinkError, UsageError
from boardprof.base.processes import described, lock_holders, openers
from boardprof.wire.transport.base import DescriptorTransport, Transport
from boardprof.wire.transport.pyserial_line import open_line
from boardprof.wire.transport.usb_ports import current_path, is_usb, remember

_PTY = "/dev/pts/"

BITS_PER_BYTE = 10
"""8N1: a start bit, eight bits, a stop bit."""


class UsbLine:
    """A serial port of a USB device, which may be unplugged and come back at another path.

    The call under way fails. The next one finds the port by its serial number; the session then
    tells whether the board has kept its state.
    """

    def __init__(self, line: DescriptorTransport, again: Callable[[], DescriptorTransport]) -> None:
        """Wrap an open line.

        Args:
            line: the port.
            again: opens it again, wherever it is now.
        """
        self.name = line.name
        self.byte_time_s = line.byte_time_s
        self._line: DescriptorTransport | None = line
        self._again = again
        self._is_closed = False

    def write(self, data: bytes, timeout_s: float) -> None:
        """Send all of ``data``; see `Transport.write`. Opens the port again if it was lost."""
        if self._line is None and not self._is_closed:
            try:
                self._line = self._again()
            except BoardError as error:
                raise LinkError(
                    f"The connection to {self.name} is lost, and the port has not come back: "
                    f"{error.message}",
                    hint="plug in the board and call again",
                ) from error
            self.name = self._line.name
        try:
            self._opened().write(data, timeout_s)
        except LinkError:
            self._let_go()
            raise

    def read(self, timeout_s: float) -> bytes:
        """Return what has arrived; see `Transport.read`."""
        try:
            return self._opened().read(timeout_s)
        except LinkError:
            self._let_go()
            raise

    def printed(self) -> str:
        """Return "": there is only the line."""
        return ""

    def close(self) -> None:
        """Let go of the line; see `Transport.close`."""
        self._is_closed = True
        self._let_go()

    def _opened(self) -> DescriptorTransport:
        if self._line is None:
            why = "is closed" if self._is_closed else "was lost in an earlier call"
            raise LinkError(f"{self.name} {why}", hint="connect again")
        return self._line

    def _let_go(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            line.close()


def connect_serial(device: str, baud: int, lines: ControlLines | None = None) -> Transport:
    """Open ``device`` for this process alone.

    A USB port that this process had open before may have another path by now. It is then found by
    its serial number, also after it was unplugged; see `UsbLine`.

    Args:
        device: a path such as ``/dev/ttyACM0``.
        baud: bits a second on the wire.
        lines: what to do with the control lines.

    Raises:
        BoardError: the device does not exist, or access is denied; the message says which.
        BusyError: another program has it open; the message names it.
        UsageError: the device does not support the rate.
    """
    line = _open(device, baud, lines or ControlLines())
    if not is_usb(line.name):
        return line
    # The reset pulse is for the beginning.
    kept = ControlLines() if lines is None else replace(lines, reset="")
    return UsbLine(line, lambda: _open(device, baud, kept))


def _open(device: str, baud: int, lines: ControlLines) -> DescriptorTransport:
    import serial  # not needed to show help or to run an emulated board

    if not device:
        raise UsageError("The port is empty.", hint=f"give {FORMS}")
    given, device = device, current_path(device)
    try:
        line = serial.Serial(None, baud, timeout=0, write_timeout=0, exclusive=True)
        line.port = device
        open_line(line, lines)
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
    remember(given, device)
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
        return BoardError(f"{device} is not a serial port.", hint=f"give {FORMS}")
    reason = os.strerror(number) if isinstance(number, int) else str(error)
    return BoardError(
        f"{device} cannot be opened as a serial port: {reason}.",
        hint=f"give {FORMS}; if this is the board's port, plug it in again",
    )
