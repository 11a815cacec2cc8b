# SPDX-License-Identifier: Apache-2.0
"""A session's channels: whole blocks of the board's memory, and streams (SPEC.md 4.5 and 5.5)."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Self

from boardprof.base.errors import BoardprofError, FrameError, RpcError, UsageError, agent_option
from boardprof.wire.decode.dictionary import Dictionary
from boardprof.wire.link.line import OnProgress
from boardprof.wire.link.replies import Welcome
from boardprof.wire.link.session import Session
from boardprof.wire.link.transfer import LEAST_FRAME, Receiver, Upload
from boardprof_protocol.codes import ErrorCode
from boardprof_protocol.frame import Cobs

__all__ = ["Stream"]

_FAST_CREDIT = 1 << 20
_SLOW_CREDIT = 1 << 14
"""On a line with a baud rate: four long frames, so that losing one costs little."""

_SLOW_FRAME = 1 << 12
_STREAM_CREDIT = 1 << 16
_SETTLE_S = 0.2  # how long the last bytes are waited for when a stream is closed, at least
_LONGEST_SETTLE_S = 2.0  # the same, as long as some come


class Channels:
    """Opens channels of a session, one at a time, and closes those that were left open."""

    def __init__(
        self,
        session: Session,
        welcome: Welcome,
        dictionary: Dictionary,
        load_cobs: Callable[[], Cobs] = Cobs,
    ) -> None:
        """Offer what the board's dictionary lists; ``load_cobs`` returns COBS for long frames."""
        self._session = session
        self._mtu_rx = welcome.mtu_rx
        self._ids = {f.name: f.id for f in dictionary.functions if f.name.startswith("bp.")}
        self._open: int | None = None  # the number of a channel that the board may hold open
        self._load_cobs: Callable[[], Cobs] | None = load_cobs

    def offers(self, opener: str) -> bool:
        """Whether the agent has the function ``opener`` and no stream is open."""
        return (
            opener in self._ids
            and "bp.finish" in self._ids
            and self._session.requests.channel is None
        )

    def download(
        self, handle: int, offset: int, length: int, on_progress: OnProgress | None = None
    ) -> bytes:
        """Return ``length`` bytes, 1 or more, of the block from ``offset``."""
        requests = self._session.requests
        credit = _SLOW_CREDIT if requests.byte_time_s else _FAST_CREDIT
        channel = Receiver(requests, self._next(), credit, length)
        self._opened(channel, "bp.download", handle, offset, length)
        self._carry(channel, "bp.download", on_progress)
        content = channel.take()
        sent, crc, _ = self.finish()
        if sent != length or channel.crc != crc:
            raise FrameError(
                f"The data read from the board is damaged: {length} bytes arrived, the board sent "
                f"{sent}, and the CRC differs.",
                hint="read again; if it happens again, the board's memory changes during the read",
            )
        return content

    def upload(
        self, handle: int, offset: int, content: bytes, on_progress: OnProgress | None = None
    ) -> None:
        """Write ``content``, 1 byte or more, to the block at ``offset``; raises as `download`."""
        requests = self._session.requests
        frame = max(min(self._mtu_rx, _SLOW_FRAME if requests.byte_time_s else 65535), LEAST_FRAME)
        window = _SLOW_CREDIT if requests.byte_time_s else _FAST_CREDIT
        channel = Upload(requests, self._next(), content, frame_bytes=frame, window=window)
        self._opened(channel, "bp.upload", handle, offset, len(content))
        self._carry(channel, "bp.upload", on_progress)
        taken, crc, _ = self.finish()
        if taken != len(content) or crc != channel.crc:
            raise FrameError(
                f"The data written to the board is damaged: {taken} of {len(content)} bytes "
                "arrived, and the CRC differs.",
                hint="write again",
            )

    def stream(self) -> Receiver:
        """Open a stream from the board."""
        if "bp.stream" not in self._ids:
            raise UsageError(
                "The board's agent does not support streams.",
                hint=f"compile it with {agent_option('stream', 4096)}",
            )
        channel = Receiver(self._session.requests, self._next(), _STREAM_CREDIT)
        self._opened(channel, "bp.stream")
        return channel

    def finish(self) -> tuple[int, int, int]:
        """Close the channel; return its bytes modulo 2³², their CRC-32 and the bytes dropped."""
        assert self._open is not None, "close() without open()"
        self._session.drop_channel()
        fields = self._session.invoke(self._ids["bp.finish"], "bp.finish", self._open)
        self._open = None
        if not (
            isinstance(fields, list)
            and len(fields) >= 3
            and all(type(field) is int for field in fields[:3])
        ):
            raise FrameError(f"bp.finish returned {fields!r:.60}, not [bytes, crc, dropped].")
        return fields[0], fields[1], fields[2]

    def _next(self) -> int:
        """Close a channel that an interruption or error left open; return the next one's number."""
        if self._session.requests.channel is not None:
            raise UsageError("A stream of the board is already open.", hint="close it first")
        if self._load_cobs is not None:
            self._session.requests.decoder.cobs = self._load_cobs()
            self._load_cobs = None
        if self._open is not None:
            try:
                self.finish()
            except RpcError as error:
                if error.code != ErrorCode.BAD_HANDLE:
                    raise
                self._open = None  # it had never been opened
        return self._session.next_sequence

    def _opened(self, channel: Receiver | Upload, opener: str, *values: int) -> None:
        self._open = channel.sequence
        try:
            self._session.open_channel(channel, self._ids[opener], opener, *values)
        except RpcError:
            self._open = None  # refused: nothing is open
            raise

    def _carry(self, channel: Receiver | Upload, name: str, on_progress: OnProgress | None) -> None:
        try:
            self._session.carry(channel, name, on_progress)
        finally:
            self._session.drop_channel()


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
        with session.exclusive("a stream"):
            self._receiver = channels.stream()
        self._is_open = True

    def read(self, timeout_s: float | None = None) -> bytes:
        """Return the received data; wait up to ``timeout_s`` for the first byte, then return b"".

        Args:
            timeout_s: seconds; the stream's own when None, 0 does not wait.

        Raises:
            LinkError: the connection is lost.
        """
        with self._session.exclusive("a stream's read"):
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
        with self._session.exclusive("a stream"):
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
        wait_s = min(max(_SETTLE_S, 3 * self._session.requests.rtt.timeout_s), _LONGEST_SETTLE_S)
        self._session.listen(wait_s, lambda: self._receiver.position != before, "a stream")
        return self._receiver.position != before

    def __enter__(self) -> Self:
        """Return the stream."""
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Close the stream. After another error, ignore further errors."""
        if error is None:
            self.close()
        elif isinstance(error, Exception):
            with contextlib.suppress(BoardprofError):
                self.close()
        else:  # an interruption; the board learns of it at the next use
            self._is_open = False
            self._session.drop_channel()
