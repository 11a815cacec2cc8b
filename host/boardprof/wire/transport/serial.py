# SPDX-License-Identifier: Apache-2.0
"""Serial ports, ptys and what else pyserial reaches; USB ports that come back at another path."""

from __future__ import annotations

import errno
import os
import re
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from boardprof.base.connection import BRACKETS, FORMS, ControlLines, host_and_port
from boardprof.base.errors import (
    BoardError,
    BoardTimeoutError,
    BusyError,
    LinkError,
    UsageError,
    option,
)
from boardprof.base.processes import described, lock_holders, openers
from boardprof.wire.transport.base import DescriptorTransport, Transport

try:
    import termios

    _REFUSED: type[Exception] = termios.error
except ModuleNotFoundError:  # not a POSIX system: a port has a name, not a file
    termios = None  # type: ignore[assignment]
    _REFUSED = OSError

if TYPE_CHECKING:
    from serial.tools.list_ports_common import ListPortInfo

_PTY = "/dev/pts/"

BITS_PER_BYTE = 10
"""8N1: a start bit, eight bits, a stop bit."""


class UsbLine:
    """A serial port of a USB device, which may be unplugged and come back at another path.

    The call under way fails. The next one finds the port by its serial number; the session then
    tells whether the board has kept its state.
    """

    def __init__(self, line: Transport, again: Callable[[], Transport]) -> None:
        """Wrap an open line; ``again`` opens it wherever it is now."""
        self.name = line.name
        self.byte_time_s = line.byte_time_s
        self._line: Transport | None = line
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

    def _opened(self) -> Transport:
        if self._line is None:
            why = "is closed" if self._is_closed else "was lost in an earlier call"
            raise LinkError(f"{self.name} {why}", hint="connect again")
        return self._line

    def _let_go(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            line.close()


def connect_serial(device: str, baud: int, lines: ControlLines | None = None) -> Transport:
    """Open ``device`` for this process alone; a known USB port by its serial number (`UsbLine`)."""
    line = _open(device, baud, lines or ControlLines())
    if line.name not in _known:
        return line
    # The reset pulse is for the beginning.
    kept = ControlLines() if lines is None else replace(lines, reset="")
    return UsbLine(line, lambda: _open(device, baud, kept))


def _open(device: str, baud: int, lines: ControlLines) -> DescriptorTransport | PyserialTransport:
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
            hint=f"give the board's rate with {option('--baud')}",
        ) from error
    except (serial.SerialException, OSError, _REFUSED) as error:
        raise _explain(device, error) from error
    if termios is None:
        line.timeout, line.write_timeout = _LOOK_S, _WRITE_S
        return PyserialTransport(line, device, BITS_PER_BYTE / line.baudrate)
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
        if number is None and isinstance(cause, _REFUSED):
            number = cause.args[0]
    if number == errno.ENOENT:
        is_address = ":" in device and "/" not in device
        return BoardError(
            f"Port {device} does not exist.",
            hint=f"give HOST:PORT; {BRACKETS}"
            if is_address
            else "plug in the board, and look under /dev/serial/by-id",
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


# -- ports that only pyserial can reach: rfc2217:// and spy:// ------------------------------------

_MOST = 1 << 16
_LOOK_S = 0.02
"""A read waits this long at a time: to change it, pyserial sets up the whole port again."""

_WRITE_S = 5.0  # longest wait of a write, which pyserial's rfc2217:// has on its socket


class PyserialTransport:
    """A stream on one of pyserial's objects, which need not have a file descriptor."""

    def __init__(self, line: Any, name: str, byte_time_s: float) -> None:
        """Wrap an open line of pyserial."""
        self.name = name
        self.byte_time_s = byte_time_s
        self._line = line

    def write(self, data: bytes, timeout_s: float) -> None:
        """Send all of ``data``; see `Transport.write`."""
        import serial

        try:
            self._opened().write(data)  # within _WRITE_S
        except serial.SerialTimeoutException as error:
            raise BoardTimeoutError(
                f"{self.name} accepted no bytes for {_WRITE_S:.3g} s: nothing reads at the other "
                "end.",
                hint="check the cable and flow control, or reset the board",
            ) from error
        except (serial.SerialException, OSError) as error:
            raise self._lost(error) from error

    def read(self, timeout_s: float) -> bytes:
        """Return what has arrived; see `Transport.read`."""
        import serial

        deadline = time.monotonic() + timeout_s
        try:
            line = self._opened()
            first: bytes = line.read(1)
            while not first and time.monotonic() < deadline:
                first = line.read(1)
            rest: bytes = line.read(min(line.in_waiting, _MOST)) if first else b""
        except (serial.SerialException, OSError) as error:
            raise self._lost(error) from error
        return first + rest

    def printed(self) -> str:
        """Return "": there is only the line."""
        return ""

    def close(self) -> None:
        """Let go of the line; see `Transport.close`."""
        line, self._line = self._line, None
        if line is not None:
            line.close()
            log = getattr(getattr(line, "formatter", None), "output", None)
            if log not in (None, sys.stderr):  # spy:// leaves its file open
                log.close()

    def _opened(self) -> Any:
        if self._line is None:
            raise LinkError(f"{self.name} is closed", hint="connect again")
        return self._line

    def _lost(self, error: Exception) -> LinkError:
        return LinkError(
            f"The connection to {self.name} is lost: {error}.",
            hint="check that the board and its serial server are running, and connect again",
        )


def connect_pyserial(port: str, baud: int, lines: ControlLines) -> PyserialTransport:
    """Open ``rfc2217://HOST:PORT``, or ``spy://DEVICE``, by pyserial's ``serial_for_url``."""
    import serial

    is_far = port.startswith("rfc2217://")
    if is_far and host_and_port(port.removeprefix("rfc2217://").partition("?")[0]) is None:
        raise UsageError(f"{port} is not a port.", hint=f"rfc2217://HOST:PORT; {BRACKETS}")
    try:
        line = serial.serial_for_url(port, baud, do_not_open=True, timeout=_LOOK_S)
        if not is_far:
            line.write_timeout = _WRITE_S
            line.exclusive = True
        open_line(line, lines)
    except ValueError as error:
        raise UsageError(
            f"{port} cannot be opened at {baud} baud: {error}.",
            hint=f"check the URL, and {option('--baud')}",
        ) from error
    except (serial.SerialException, OSError) as error:
        raise BoardError(
            f"No board at {port}: {error}.", hint="check that the server runs, and its address"
        ) from error
    return PyserialTransport(line, port, 10 / line.baudrate)


_PULSE_S = 0.1


def open_line(line: Any, lines: ControlLines) -> None:
    """Open a line of pyserial with its control lines, and reset the board if asked to."""
    states = {"dtr": lines.dtr, "rts": lines.rts}
    wanted = {name: state for name, state in states.items() if state is not None}
    for name, state in wanted.items():  # before the port opens, so that no other state is seen
        setattr(line, name, state)
    line.open()
    try:
        for name, state in wanted.items():  # pyserial ignores at first that a port has no lines
            setattr(line, name, state)
        if lines.reset:
            before = getattr(line, lines.reset)
            setattr(line, lines.reset, not before)
            time.sleep(_PULSE_S)
            setattr(line, lines.reset, before)
    except OSError as error:
        line.close()
        names = [name.upper() for name in dict.fromkeys([*wanted, lines.reset]) if name]
        raise UsageError(
            f"{line.port} has no control lines: {' and '.join(names)} cannot be set.",
            hint="leave out --dtr, --rts and --reset-pulse",
        ) from error


# -- USB ports by their serial numbers, which stay when a port gets another path -------------------


_UsbPort = tuple[int, int, str, str]
"""Vendor, product, serial number, and the interface: a device may have several ports."""

_known: dict[str, _UsbPort] = {}
"""Of the ports that this process has opened, by the path that they had then."""


def listed_ports() -> list[ListPortInfo]:
    """Return this machine's serial ports, as pyserial finds them, by path."""
    from serial.tools import list_ports  # later: only a search for ports needs it

    return sorted(list_ports.comports(), key=lambda port: port.device)


_VENDORS: Final = frozenset(
    {
        *(0x03EB, 0x04D8),  # Microchip, Atmel
        *(0x0403, 0x067B, 0x10C4, 0x1A86),  # FTDI, Prolific, Silicon Labs, WCH: bridges to a UART
        0x0451,  # Texas Instruments
        *(0x045B, 0x04B4, 0x058B),  # Renesas, Cypress, Infineon
        *(0x0483, 0x0D28, 0x1366),  # STMicroelectronics, Arm's DAPLink, SEGGER
        *(0x1915, 0x1FC9, 0x28E9),  # Nordic, NXP, GigaDevice
        *(0x2341, 0x2A03, 0x239A, 0x16C0),  # Arduino, Adafruit, PJRC
        *(0x1B4F, 0x2886),  # SparkFun, Seeed
        *(0x2E8A, 0x303A),  # Raspberry Pi, Espressif
    }
)
"""USB vendors whose chips connect boards: `usb.ids` names them."""


def may_be_board(port: ListPortInfo) -> bool:
    """Tell whether a board may be at a port that nobody has named.

    Others are not opened: bytes and control lines can start or stop what is connected there.
    """
    return port.vid in _VENDORS


def remember(path: str, now: str) -> None:
    """Keep the identity of an opened USB port with a serial number, by the caller's ``path``."""
    for port in listed_ports():
        identity = _identity(port)
        if identity is not None and os.path.realpath(port.device) == os.path.realpath(now):
            _known[path] = _known[now] = identity


def current_path(path: str) -> str:
    """Return where a port is now: at another path if it was opened before and has moved."""
    identity = _known.get(path)
    if identity is None:
        return path
    now = [port.device for port in listed_ports() if _identity(port) == identity]
    real = os.path.realpath(path)
    if not now or any(os.path.realpath(each) == real for each in now):
        return path
    return now[0]


def path_like(url: str) -> str:
    """Return the path of the port that ``hwgrep://REGEX[&n=N]`` finds, as pyserial defines it."""
    from serial.tools import list_ports

    expression, *options = url.removeprefix("hwgrep://").split("&")
    number = 1
    for each in options:
        name, _, text = each.partition("=")
        if name != "n" or not text.isdecimal() or int(text) < 1:
            raise UsageError(f"{url}: {each} is not an option.", hint="n=2 takes the second port")
        number = int(text)
    try:
        found = sorted(port.device for port in list_ports.grep(expression))
    except re.error as error:
        raise UsageError(f"{url}: {error}.", hint="give a regular expression") from error
    if len(found) < number:
        there = ", ".join(port.device for port in listed_ports()) or "none"
        raise BoardError(
            f"No board at {url}: {len(found)} of this machine's serial ports match ({there}).",
            hint="`boardprof devices` shows them",
        )
    return found[number - 1]


def _identity(port: ListPortInfo) -> _UsbPort | None:
    if port.vid is None or port.pid is None or not port.serial_number:
        return None
    return port.vid, port.pid, port.serial_number, port.interface or ""
