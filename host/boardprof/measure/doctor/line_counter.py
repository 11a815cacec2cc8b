# SPDX-License-Identifier: Apache-2.0
"""A transport that counts its traffic: frames, damage, requests without an answer."""

from __future__ import annotations

from dataclasses import dataclass

from boardprof.wire.transport.base import Transport
from boardprof_protocol.codes import AckFlag, FrameKind
from boardprof_protocol.frame import BadFrame, Frame, decode_frame
from boardprof_protocol.messages import DATA

_REPLIES = frozenset({FrameKind.WELCOME, FrameKind.RESULT, FrameKind.ERROR, FrameKind.NO_SESSION})
_HELD_BACK = 1 << 17
"""Most bytes to keep without a delimiter; no frame is as long."""


@dataclass
class LineCounts:
    """The traffic since the session began."""

    sent: int = 0  # frames
    received: int = 0  # frames, but for damaged ones
    naks: int = 0  # frames to the board that it could not read
    gaps_to_board: int = 0  # times that the board asked for bulk data again
    unreadable: int = 0  # pieces from the board that were neither frames nor text
    gaps_to_host: int = 0  # how often bulk data from the board continued after a gap
    unanswered: int = 0  # requests whose answers never came, whichever way lost a frame
    again: int = 0  # requests that were sent once more
    console_bytes: int = 0  # text between the frames

    @property
    def damaged_to_board(self) -> int:
        """Frames that arrived damaged at the board, as reported by the board."""
        return max(self.naks, self.gaps_to_board)

    @property
    def damaged_to_host(self) -> int:
        """Frames that arrived damaged here, or that others show to be missing."""
        return max(self.unreadable, self.gaps_to_host)

    @property
    def lost(self) -> int:
        """Requests or answers that were lost and left no trace on either side."""
        return max(0, self.unanswered - self.naks - self.unreadable)

    @property
    def faults(self) -> int:
        """All of these; 0 on a clean line."""
        return self.damaged_to_board + self.damaged_to_host + self.lost


class CountingTransport:
    """Wraps another transport; ``counts`` has its traffic."""

    def __init__(self, inner: Transport) -> None:
        """Wrap a transport, which is closed with this one."""
        self.name, self.byte_time_s = inner.name, inner.byte_time_s
        self.counts = LineCounts()
        self._inner = inner
        self._rest = b""
        self._open: dict[tuple[int, int], int] = {}  # (session, sequence) -> answers due
        self._last: tuple[int, int, int] | None = None
        self._next_offset: dict[tuple[int, int], int] = {}
        self._whole: dict[tuple[int, int], int] = {}  # bytes received without a gap from 0 on

    def write(self, data: bytes, timeout_s: float) -> None:
        """See `Transport.write`."""
        self._inner.write(data, timeout_s)
        for piece in filter(None, data.split(b"\0")):
            self._sent(decode_frame(piece))

    def _sent(self, frame: Frame) -> None:
        self.counts.sent += 1
        if frame.kind not in (FrameKind.HELLO, FrameKind.CALL):
            return
        key = (frame.session, frame.sequence)
        self._open[key] = self._open.get(key, 0) + 1
        self.counts.unanswered += 1
        self.counts.again += (frame.kind, *key) == self._last
        self._last = (frame.kind, *key)

    def read(self, timeout_s: float) -> bytes:
        """See `Transport.read`."""
        data = self._inner.read(timeout_s)
        *pieces, self._rest = (self._rest + data).split(b"\0")
        for piece in filter(None, pieces):
            try:
                self._received(decode_frame(piece))
            except BadFrame:
                self._strange(piece)
        if len(self._rest) > _HELD_BACK:
            self._strange(self._rest)
            self._rest = b""
        return data

    def _received(self, frame: Frame) -> None:
        self.counts.received += 1
        key = (frame.session, frame.sequence)
        if frame.kind == FrameKind.NAK:
            self.counts.naks += 1
        elif frame.kind == FrameKind.DATA:
            self._data(key, frame.body)
        elif frame.kind == FrameKind.ACK and len(frame.body) > 8:
            self.counts.gaps_to_board += bool(frame.body[8] & AckFlag.RESEND)
        elif frame.kind in _REPLIES and self._open.get(key, 0) > 0:
            self._open[key] -= 1
            self.counts.unanswered -= 1

    def _data(self, key: tuple[int, int], body: bytes) -> None:
        """Note where the board's data continues; one gap counts once.

        If one side was slow, data is sent again needlessly, until the host acknowledges that it has
        more. The jump from there to where the board continues is not a gap.
        """
        offset = int.from_bytes(body[: DATA.size], "little")
        end, whole = offset + len(body) - DATA.size, self._whole.get(key, 0)
        if offset > max(whole, self._next_offset.get(key, 0)):
            self.counts.gaps_to_host += 1
        self._next_offset = {key: end}
        self._whole = {key: max(whole, end) if offset <= whole else whole}

    def _strange(self, piece: bytes) -> None:
        try:
            text = piece.decode()
        except UnicodeDecodeError:
            self.counts.unreadable += 1
            return
        if all(char.isprintable() or char in "\t\n\r\x1b" for char in text):
            self.counts.console_bytes += len(piece)
        else:
            self.counts.unreadable += 1

    def printed(self) -> str:
        """See `Transport.printed`."""
        return self._inner.printed()

    def close(self) -> None:
        """See `Transport.close`."""
        self._inner.close()
