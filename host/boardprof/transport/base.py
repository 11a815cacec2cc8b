# SPDX-License-Identifier: Apache-2.0
"""What a transport is, and the one that the others are made of: a stream on a descriptor."""

from __future__ import annotations

import math
import os
import select
import time
from collections.abc import Callable
from typing import Protocol

from boardprof.errors import BoardTimeoutError, LinkError

__all__ = ["DescriptorTransport", "Transport"]

_READ_SIZE = 1 << 16


def _wait(descriptor: int, events: int, timeout_s: float) -> bool:
    """Wait for a descriptor; poll, since select refuses those from 1024 on."""
    poll = select.poll()
    poll.register(descriptor, events)
    return bool(poll.poll(math.ceil(timeout_s * 1000.0)))


class Transport(Protocol):
    """A byte stream to one board, with deadlines both ways."""

    name: str
    """The port as a user would name it, e.g. ``socket://127.0.0.1:4321``."""

    byte_time_s: float
    """Seconds that one byte takes on the wire; 0 where that is no limit."""

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
        """Return what the program behind the line has printed elsewhere; "" where there is none."""

    def close(self) -> None:
        """Let go of the line and of whatever was started for it. May be called twice."""


class DescriptorTransport:
    """A stream on a file descriptor: socket, serial line or pty.

    ``poll`` and ``os.read`` on purpose: the readers of pyserial and its ``in_waiting`` idiom take
    byte by byte what arrives in blocks.
    """

    def __init__(
        self,
        descriptor: int,
        name: str,
        close: Callable[[], None],
        *,
        byte_time_s: float = 0.0,
        explain_loss: Callable[[], str] = str,
        printed: Callable[[], str] = str,
    ) -> None:
        """Wrap an open descriptor.

        Args:
            descriptor: readable and writable.
            name: the port, for messages.
            close: releases the descriptor and all that belongs to it.
            byte_time_s: seconds a byte takes on the wire.
            explain_loss: what to add to the message when the line is gone, e.g. what the
                emulator printed before it ended.
            printed: see `Transport.printed`.
        """
        os.set_blocking(descriptor, False)
        self.name = name
        self.byte_time_s = byte_time_s
        self._descriptor = descriptor
        self._close: Callable[[], None] | None = close
        self._explain_loss = explain_loss
        self.printed = printed

    def write(self, data: bytes, timeout_s: float) -> None:
        """Send all of ``data``; see `Transport.write`."""
        view = memoryview(data)
        deadline = time.monotonic() + timeout_s
        while view:
            try:
                view = view[os.write(self._open_descriptor(), view) :]
                deadline = time.monotonic() + timeout_s
            except BlockingIOError:
                self._await_room(deadline - time.monotonic(), timeout_s)
            except OSError as error:
                raise self._lost(error) from error

    def _await_room(self, left_s: float, timeout_s: float) -> None:
        if left_s <= 0:
            raise BoardTimeoutError(
                f"{self.name} took no bytes for {timeout_s:.3g} s: nobody reads at the far end.",
                hint="check the cable and flow control, or reset the board",
            )
        _wait(self._descriptor, select.POLLOUT, left_s)

    def read(self, timeout_s: float) -> bytes:
        """Return what has arrived; see `Transport.read`."""
        descriptor = self._open_descriptor()
        if not _wait(descriptor, select.POLLIN, max(timeout_s, 0.0)):
            return b""
        try:
            data = os.read(descriptor, _READ_SIZE)
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
        if close is not None:
            close()

    def _open_descriptor(self) -> int:
        if self._close is None:
            raise LinkError(f"{self.name} is closed", hint="connect again")
        return self._descriptor

    def _lost(self, error: OSError | None) -> LinkError:
        why = error.strerror if error is not None and error.strerror else "the other end closed it"
        seen = self._explain_loss()
        return LinkError(
            f"The line {self.name} is gone: {why}." + (f"\n{seen}" if seen else ""),
            hint="check that the board or its emulator is still running, and connect again",
        )
