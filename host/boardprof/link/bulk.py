# SPDX-License-Identifier: Apache-2.0
"""A session's channels: whole blocks of the board's memory, and streams (SPEC.md 4.5 and 5.5)."""

from __future__ import annotations

from collections.abc import Callable

from boardprof.decode.dictionary import Dictionary
from boardprof.errors import FrameError, RpcError, UsageError
from boardprof.link.channel import LEAST_FRAME, Receiver, Upload
from boardprof.link.handshake import Welcome
from boardprof.link.session import Session
from boardprof_protocol.codes import ErrorCode

Progress = Callable[[int, int], None]
"""Called with (bytes done, bytes in all)."""

_FAST_CREDIT = 1 << 20
_SLOW_CREDIT = 1 << 14
"""On a line with a baud rate: four long frames, so that losing one costs little."""

_SLOW_FRAME = 1 << 12
_STREAM_CREDIT = 1 << 16
_OPENERS = ("bp.download", "bp.upload", "bp.stream")


class Channels:
    """Opens channels of a session, one at a time, and closes those that were left open."""

    def __init__(self, session: Session, welcome: Welcome, dictionary: Dictionary) -> None:
        """Offer what the board's dictionary lists."""
        self._session = session
        self._mtu_rx = welcome.mtu_rx
        self._ids = {f.name: f.id for f in dictionary.functions if f.name.startswith("bp.")}
        self._open: int | None = None  # the number of a channel that the board may hold open
        self._codec: str | None = None

    def offers(self, opener: str) -> bool:
        """Whether the agent has the function ``opener`` and no stream is open."""
        return opener in self._ids and "bp.finish" in self._ids and self._session.channel is None

    @property
    def codec(self) -> str:
        """Name of the codec for bulk data; "" before the first use."""
        return self._codec or ""

    def download(
        self, handle: int, offset: int, length: int, on_progress: Progress | None = None
    ) -> bytes:
        """Return ``length`` bytes, 1 or more, of the block from ``offset``.

        Raises:
            FrameError: the data differs from what the board sent; none of it is returned.
            RpcError, BoardTimeoutError, DeviceResetError, LinkError: see `Session.carry`.
        """
        client = self._session.client
        credit = _SLOW_CREDIT if client.byte_time_s else _FAST_CREDIT
        channel = Receiver(client, self._next(), credit, length)
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
        self, handle: int, offset: int, content: bytes, on_progress: Progress | None = None
    ) -> None:
        """Write ``content``, 1 byte or more, to the block at ``offset``; raises as `download`."""
        client = self._session.client
        frame = max(min(self._mtu_rx, _SLOW_FRAME if client.byte_time_s else 65535), LEAST_FRAME)
        window = _SLOW_CREDIT if client.byte_time_s else _FAST_CREDIT
        channel = Upload(client, self._next(), content, frame_bytes=frame, window=window)
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
        """Open a stream from the board.

        Raises:
            UsageError: the agent has none.
            RpcError: another channel is open.
        """
        if "bp.stream" not in self._ids:
            raise UsageError(
                "The board's agent does not support streams.", hint="set stream in board.toml"
            )
        channel = Receiver(self._session.client, self._next(), _STREAM_CREDIT)
        self._opened(channel, "bp.stream")
        return channel

    def finish(self) -> tuple[int, int, int]:
        """Close the channel; return its bytes modulo 2³², their CRC-32 and the bytes dropped.

        Raises:
            RpcError: the board has closed it, since its block was freed.
        """
        assert self._open is not None, "whoever closes a channel has opened one"
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
        if self._session.channel is not None:
            raise UsageError("A stream of the board is already open.", hint="close it first")
        if self._codec is None:
            from boardprof.link.codec import load_codec  # later: most sessions send no blocks

            self._session.client.decoder.cobs, self._codec = load_codec()
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

    def _carry(self, channel: Receiver | Upload, name: str, on_progress: Progress | None) -> None:
        try:
            self._session.carry(channel, name, on_progress)
        finally:
            self._session.drop_channel()
