# SPDX-License-Identifier: Apache-2.0
"""Serial ports that only pyserial can reach: ``rfc2217://`` and ``spy://``."""

from __future__ import annotations

import sys
import time
from typing import Any

from boardprof.base.connection import ControlLines
from boardprof.base.errors import BoardError, BoardTimeoutError, LinkError, UsageError

_MOST = 1 << 16
_LOOK_S = 0.02
"""A read waits this long at a time: to change it, pyserial sets up the whole port again."""

_WRITE_S = 5.0
"""Longest wait of a write, which pyserial's rfc2217:// has on its socket."""


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
    """Open a port by pyserial's ``serial_for_url``.

    Args:
        port: ``rfc2217://HOST:PORT``, or ``spy://DEVICE``, which logs all bytes to a file.
        baud: bits a second.
        lines: what to do with the control lines.

    Raises:
        UsageError: pyserial does not know the URL, or the rate.
        BoardError: it cannot be opened.
    """
    import serial

    try:
        line = serial.serial_for_url(port, baud, do_not_open=True, timeout=_LOOK_S)
        if not port.startswith("rfc2217://"):
            line.write_timeout = _WRITE_S
            line.exclusive = True
        open_line(line, lines)
    except ValueError as error:
        raise UsageError(
            f"{port} cannot be opened at {baud} baud: {error}.", hint="check the URL, and --baud"
        ) from error
    except (serial.SerialException, OSError) as error:
        raise BoardError(
            f"No board at {port}: {error}.", hint="check that the server runs, and its address"
        ) from error
    return PyserialTransport(line, port, 10 / line.baudrate)


_PULSE_S = 0.1


def open_line(line: Any, lines: ControlLines) -> None:
    """Open a line of pyserial with its control lines, and reset the board if asked to.

    Raises:
        UsageError: the port is open, but does not have these lines.
    """
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
