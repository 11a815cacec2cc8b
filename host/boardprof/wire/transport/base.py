# SPDX-License-Identifier: Apache-2.0
"""The interface of transports, a stream on a file descriptor, and transports of other packages."""

from __future__ import annotations

import errno
import os
import select
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from boardprof.base.errors import BoardError, BoardprofError, BoardTimeoutError, LinkError
from boardprof.base.packages import named_function

if TYPE_CHECKING:
    import socket

__all__ = ["Clocked", "DescriptorTransport", "Emulator", "Transport", "unknown_time"]

_READ_SIZE = 1 << 16


class Transport(Protocol):
    """A byte stream to one board, with deadlines both ways."""

    name: str
    """The port as a user would name it, e.g. ``socket://127.0.0.1:4321``."""

    byte_time_s: float
    """Seconds that one byte takes on the wire; 0 if the rate is not a limit."""

    def write(self, data: bytes, timeout_s: float) -> None:
        """Send all of ``data``.

        Raises:
            BoardTimeoutError: the line took no bytes for ``timeout_s``.
            LinkError: the line is gone.
        """

    def read(self, timeout_s: float) -> bytes:
        """Return what has arrived; wait up to ``timeout_s`` for the first byte, then return b"".

        Raises:
            LinkError: the line is gone.
        """

    def printed(self) -> str:
        """Return what the program at the other end printed elsewhere, or ""."""

    def close(self) -> None:
        """Let go of the line and of whatever was started for it. May be called twice."""


@runtime_checkable
class Clocked(Protocol):
    """A transport that can report the board's time without asking the board."""

    def board_s(self) -> float | None:
        """Return the seconds on the board's own clock, possibly late. None if unknown."""


@runtime_checkable
class Emulator(Clocked, Protocol):
    """The line to an emulator that was started here, and ends when the line is closed."""

    def pc(self) -> int | None:
        """Return the address of the board's current instruction. None if unknown.

        An emulator that reports it only by ending has ended then, and the connection is lost.
        """


class WrappedTransport:
    """Another transport, which is closed with this one; a subclass changes what passes."""

    def __init__(self, inner: Transport) -> None:
        """Wrap an open line."""
        self.name, self.byte_time_s = inner.name, inner.byte_time_s
        self.printed: Callable[[], str] = inner.printed
        self.close: Callable[[], None] = inner.close
        self._inner = inner


def unknown_time() -> None:
    """Return None, as the board's time where it is not told."""


class DescriptorTransport:
    """A stream on a file descriptor (serial line or pty) or a socket.

    ``poll`` and ``os.read`` on purpose: the readers of pyserial and its ``in_waiting`` idiom take
    byte by byte what arrives in blocks, and ``select`` refuses descriptors from 1024 on. Only
    where there is no ``poll``, as on Windows, ``select`` serves for sockets.
    """

    def __init__(
        self,
        line: int | socket.socket,
        name: str,
        close: Callable[[], None],
        *,
        byte_time_s: float = 0.0,
        explain_loss: Callable[[], str] = str,
        has_ended: Callable[[], bool] = bool,
        printed: Callable[[], str] = str,
        board_s: Callable[[], float | None] = unknown_time,
        commands: Sequence[Sequence[str]] = (),
        cpu: str = "",
    ) -> None:
        """Wrap an open descriptor.

        Args:
            line: readable and writable.
            name: the port, for messages.
            close: releases the descriptor and all that belongs to it.
            byte_time_s: seconds a byte takes on the wire.
            explain_loss: what to add to the message when the line is gone, e.g. what the
                emulator printed before it ended.
            has_ended: whether the reason is that the program at the other end has ended.
            printed: see `Transport.printed`.
            board_s: see `Clocked.board_s`.
            commands: command lines of programs that are known to be at the other end.
            cpu: of the machine at the other end, as `cpu_name` has it; "" if not known.
        """
        self.name = name
        self.byte_time_s = byte_time_s
        self._take: Callable[[int], bytes]
        self._put: Callable[[Any], int]
        if isinstance(line, int):
            os.set_blocking(line, False)
            self._take, self._put = partial(os.read, line), partial(os.write, line)
        else:
            line.setblocking(False)
            self._take, self._put = line.recv, line.send
        self._has_bytes, self._has_room = _waiting(line)
        self._close: Callable[[], None] | None = close
        self._explain_loss = explain_loss
        self._has_ended = has_ended
        self.printed = printed
        self.board_s = board_s
        self.commands = commands
        self.cpu = cpu

    def write(self, data: bytes, timeout_s: float) -> None:
        """Send all of ``data``; see `Transport.write`."""
        try:
            written = self._put(data)
        except BlockingIOError:
            written = 0
        except OSError as error:
            raise self._lost(error) from error
        if written < len(data):
            self._write_rest(memoryview(data)[written:], timeout_s)

    def _write_rest(self, view: memoryview, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while view:
            self._await_room(deadline - time.monotonic(), timeout_s)
            try:
                view = view[self._put(view) :]
                deadline = time.monotonic() + timeout_s
            except BlockingIOError:
                pass
            except OSError as error:
                raise self._lost(error) from error

    def _await_room(self, left_s: float, timeout_s: float) -> None:
        if left_s <= 0:
            raise BoardTimeoutError(
                f"{self.name} accepted no bytes for {timeout_s:.3g} s: nothing reads at the other "
                "end.",
                hint="check the cable and flow control, or reset the board",
            )
        self._has_room(left_s)

    def read(self, timeout_s: float) -> bytes:
        """Return what has arrived; see `Transport.read`."""
        if self._close is None:
            raise self._lost(None)
        if not self._has_bytes(timeout_s):
            return b""
        try:
            data = self._take(_READ_SIZE)
        except BlockingIOError:
            return b""
        except OSError as error:
            raise self._lost(error) from error
        if not data:
            raise self._lost(None)
        return data

    def close(self) -> None:
        """Let go of the line; see `Transport.close`."""
        close, self._close = self._close, None
        self._put = _closed  # its number may soon be another file's
        if close is not None:
            close()

    def _lost(self, error: OSError | None) -> LinkError:
        if self._close is None:
            return LinkError(f"{self.name} is closed", hint="connect again")
        why = error.strerror if error is not None and error.strerror else "the other end closed it"
        seen = self._explain_loss()
        lost = LinkError(
            f"The connection to {self.name} is lost: {why}." + (f"\n{seen}" if seen else ""),
            hint="check that the board or its emulator is still running, and connect again",
        )
        lost.ended = seen if self._has_ended() else ""
        return lost


def _closed(data: object) -> int:
    raise OSError(errno.EBADF, os.strerror(errno.EBADF))


def _waiting(line: int | socket.socket) -> tuple[Callable[[float], object], ...]:
    """Return functions that wait for bytes to come, and for room to send, up to some seconds."""
    if not hasattr(select, "poll"):
        return (
            lambda timeout_s: select.select([line], [], [], max(timeout_s, 0.0))[0],
            lambda timeout_s: select.select([], [line], [], max(timeout_s, 0.0))[1],
        )
    readable, writable = select.poll(), select.poll()
    readable.register(line, select.POLLIN)
    writable.register(line, select.POLLOUT)
    return (
        lambda timeout_s: readable.poll(timeout_s * 1000.0 if timeout_s > 0.0 else 0),  # rounds up
        lambda timeout_s: writable.poll(timeout_s * 1000.0),
    )


Connect = Callable[[str, float], Transport]


_METHODS = ("write", "read", "printed", "close")
_FACTS: dict[str, type | tuple[type, ...]] = {"name": str, "byte_time_s": (int, float)}
"""What `Transport` has besides its methods."""


def packages_transport(port: str) -> Connect | None:
    """Return the function that connects to ports of this scheme. None if no package knows it.

    Its exceptions other than `BoardprofError` become a `BoardError` that names the package.

    Raises:
        UsageError: the package cannot be used.
    """
    scheme = port.partition("://")[0]
    found = named_function("transports", scheme, f"The transport {scheme}://")
    if found is None:
        return None
    connect: Connect = found.function

    def told(port: str, timeout_s: float) -> Transport:
        try:
            made = connect(port, timeout_s)
            lacks = [each for each in _METHODS if not callable(getattr(made, each, None))]
            lacks += [
                each for each in _FACTS if not isinstance(getattr(made, each, None), _FACTS[each])
            ]
            if lacks:
                raise TypeError(f"{made!r:.60} is not a transport: it has no {', '.join(lacks)}")
        except BoardprofError:
            raise
        except Exception as error:
            raise BoardError(f"No board at {port}: {found.place} says {error!r}.") from error
        for each in _METHODS:
            setattr(made, each, _guarded(getattr(made, each), each, found.place))
        return made

    return told


def _guarded(method: Callable[..., object], name: str, place: str) -> Callable[..., object]:
    """Return another package's method, whose faults are those of a line."""

    def call(*values: object) -> object:
        try:
            result = method(*values)
            if name == "read" and not isinstance(result, bytes):
                raise TypeError(f"{result!r:.60} is not bytes")
        except BoardprofError:
            raise
        except Exception as error:
            raise LinkError(f"{name} of {place} says {error!r}.") from error
        return result

    return call
