# SPDX-License-Identifier: Apache-2.0
"""A stream: data that the board's functions write, delivered during and between calls."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from boardprof.base.errors import BoardprofError, FrameError
from boardprof.wire.link.bulk import Channels
from boardprof.wire.link.session import Session

__all__ = ["Stream"]

_SETTLE_S = 0.2
"""How long the last bytes are waited for when a stream is closed, at least."""

_LONGEST_SETTLE_S = 2.0
"""The same, as long as some come."""


class Stream:
    """Bytes from the board, in order and without gaps, except for records that found no room on it.

    Use it by ``with`` and from the thread that calls the board's functions. What comes during a
    call is kept until it is read.

    Attributes:
        dropped: bytes that found no room on the board; None until the stream is closed.
    """

    def __init__(self, channels: Channels, session: Session, timeout_s: float) -> None:
        """Open it; see `Board.stream`."""
        self.dropped: int | None = None
        self.timeout_s = timeout_s
        self._channels = channels
        self._session = session
        with session.turn("a stream"):
            self._receiver = channels.stream()
        self._is_open = True

    def read(self, timeout_s: float | None = None) -> bytes:
        """Return the received data; wait up to ``timeout_s`` for the first byte, then return b"".

        Args:
            timeout_s: seconds; the stream's own when None, 0 does not wait.

        Raises:
            LinkError: the connection is lost.
        """
        with self._session.turn("a stream's read"):
            if self._is_open and not self._receiver.waiting:
                wait_s = self.timeout_s if timeout_s is None else timeout_s
                self._session.listen(wait_s, lambda: self._receiver.waiting > 0, "a stream's read")
            return self._receiver.take()

    def __iter__(self) -> Iterator[bytes]:
        """Yield data until none arrives for the stream's `timeout_s` or it is closed."""
        while content := self.read():
            yield content

    def close(self) -> None:
        """Take what is still on its way, and end the stream; what was not read stays readable.

        Raises:
            FrameError: the data differs from what the board sent.
        """
        with self._session.turn("a stream"):
            if self._is_open:
                self._is_open = False
                self._finish()

    def _finish(self) -> None:
        receiver = self._receiver
        try:
            # Bounded: a source that goes on by itself would keep us here.
            deadline = time.monotonic() + _LONGEST_SETTLE_S
            while self._has_more() and time.monotonic() < deadline:
                pass
        except BaseException:
            self._session.drop_channel()
            raise
        sent, crc, self.dropped = self._channels.finish()
        if receiver.crc_at(sent) != crc:
            raise FrameError("The stream's data differs from what the board sent: the CRC differs.")

    def _has_more(self) -> bool:
        before = self._receiver.position
        # On a slow line the board resends lost data only after some time-outs.
        wait_s = min(max(_SETTLE_S, 3 * self._session.client.rtt.timeout_s), _LONGEST_SETTLE_S)
        self._session.listen(wait_s, lambda: self._receiver.position != before, "a stream")
        return self._receiver.position != before

    def __enter__(self) -> Self:
        """Return the stream."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the stream. After another error, ignore further errors."""
        if error is None:
            self.close()
        elif isinstance(error, Exception):
            with contextlib.suppress(BoardprofError):
                self.close()
        else:  # an interruption; the board learns of it at the next use
            self._is_open = False
            self._session.drop_channel()
