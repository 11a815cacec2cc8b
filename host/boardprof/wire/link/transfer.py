# SPDX-License-Identifier: Apache-2.0
"""Channels as state machines, without I/O and clock: bulk and streams (SPEC.md 4.5).

Numbered bytes go one way, in windows that the receiver can hold, and acknowledgements the other.
The board reacts only; the host keeps the time for both. `Requests` carries a channel's frames
beside its own.
"""

from __future__ import annotations

import struct
import zlib
from collections import deque
from dataclasses import dataclass

from boardprof.wire.link.requests import Requests
from boardprof_protocol.codes import AckFlag, FrameKind
from boardprof_protocol.frame import Frame, body_capacity

LEAST_FRAME = 64
"""Encoded bytes of a frame that every board can take: the least MTU."""

_DATA = struct.Struct("<I")
_ACK = struct.Struct("<IIB")
_DATA_ROOM = 32  # bytes of an encoded DATA frame that are not its content, COBS's own aside
_MODULUS = 1 << 32
_NEVER = float("inf")
_LONGEST_WAIT_S = 1.0


class _Timer:
    """The channel's time-out: that of calls, doubled with each that brought nothing."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._factor = 1
        self.at_s = _NEVER
        self.count = 0  # of time-outs since something new came, or the board took something

    def start(self, from_s: float) -> None:
        rtt = self._requests.rtt
        longest_s = max(_LONGEST_WAIT_S, rtt.floor_s)
        self.at_s = from_s + max(rtt.timeout_s, min(self._factor * rtt.timeout_s, longest_s))

    def progressed(self) -> None:
        self._factor, self.count = 1, 0

    def expired(self) -> None:
        self._factor, self.count = min(2 * self._factor, 64), self.count + 1

    def stop(self) -> None:
        self.at_s = _NEVER


class Receiver:
    """Takes numbered bytes from the board: a block of known length, or a stream without an end."""

    def __init__(
        self, requests: Requests, sequence: int, credit: int, length: int | None = None
    ) -> None:
        """Prepare; nothing is asked for before `begin`.

        ``credit``: bytes that the board may have on the way, of a stream also those that nobody has
        taken yet.
        """
        self.sequence = sequence  # of the CALL that opens the channel
        self.length = length  # None for a stream
        self.position = 0
        self.crc = 0
        self._requests = requests
        self._credit = credit
        self._chunks: deque[bytes] = deque()
        self.waiting = 0  # bytes that `take` would return
        self._used = 0  # encoded bytes since the last ACK
        self._asked = False  # when to ask for missing bytes
        self._ack_due = False
        self._resend = False
        self._told = 0  # the credit of the last ACK
        self._acked: deque[tuple[int, int]] = deque([(0, 0)], maxlen=256)
        self.timer = _Timer(requests)

    def begin(self, now_s: float) -> None:
        """Let the board send: the channel is open."""
        self._ack_due = True
        self.timer.start(now_s)

    @property
    def done(self) -> bool:
        """Whether all of the block is here and the board has been told so, once at least."""
        return self.position == self.length and not self._ack_due

    @property
    def next_at_s(self) -> float:
        """When `outgoing` next has something, unless a frame comes first."""
        return 0.0 if self._ack_due else self.timer.at_s

    def take(self) -> bytes:
        """Return and forget what has arrived, in order."""
        content = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        self.waiting = 0
        if self.length is None and 2 * (self._credit - self._told) >= self._credit:
            self._ack_due = True  # there is room again
        return content

    def crc_at(self, position: int) -> int | None:
        """Return the CRC-32 of the first ``position`` bytes (modulo 2³²), if acknowledged there."""
        known = {offset % _MODULUS: crc for offset, crc in self._acked}
        return known.get(position)

    def receive(self, frame: Frame, now_s: float) -> None:
        """Take a DATA frame; what is not the next byte is discarded."""
        size = len(frame.body) - _DATA.size
        if frame.kind != FrameKind.DATA or size <= 0 or self.timer.at_s == _NEVER:
            return
        (offset,) = _DATA.unpack_from(frame.body)
        ahead = offset - self.position
        room = self._room
        if self.length is None:  # a stream's numbers go round
            ahead = (ahead + _MODULUS // 2) % _MODULUS - _MODULUS // 2
        else:
            room = self.length - self.position
        if ahead + size > room:
            return
        if ahead > 0:
            if not self._asked:
                self._asked = self._resend = self._ack_due = True
        elif ahead <= -size:
            self._ack_due = True  # the board has not heard that it is here
        else:
            self._append(frame.body[_DATA.size - ahead :])
        self.timer.start(now_s)

    def _append(self, content: bytes) -> None:
        self._chunks.append(content)
        self.waiting += len(content)
        self.position += len(content)
        self.crc = zlib.crc32(content, self.crc)
        self._asked = False
        self.timer.progressed()
        self._used += len(content) + _DATA_ROOM
        if 2 * self._used >= self._told or self.position == self.length:
            self._ack_due = True

    def damaged(self) -> None:
        """Acknowledge again: the board may have missed it."""
        self._ack_due = True

    @property
    def _room(self) -> int:
        return self._credit if self.length is not None else max(self._credit - self.waiting, 0)

    def outgoing(self, now_s: float, *, timed: bool = True) -> bytes:
        """Return the ACK that is due, or nothing; not ``timed`` while the board works on a call."""
        if timed and now_s >= self.timer.at_s:
            self.timer.expired()
            self._resend = self._ack_due = True
        if not self._ack_due:
            return b""
        room = self._room
        body = _ACK.pack(self.position % _MODULUS, room, AckFlag.RESEND if self._resend else 0)
        self._acked.append((self.position, self.crc))
        self._told, self._used = room, 0
        self._ack_due = self._resend = False
        self.timer.start(now_s)
        if self.position == self.length:
            self.timer.stop()
        return self._requests.encode(FrameKind.ACK, self.sequence, body)


@dataclass(frozen=True, slots=True)
class _Sent:
    """A DATA frame in flight: the number of the byte after it, its length and its send time."""

    end: int
    encoded: int
    left_at_s: float


class Upload:
    """Gives the bytes of a block to the board, as many at a time as it has room for.

    Go-back-N: the board takes them in order only, so whatever was sent after a lost frame is sent
    again. If that does not help either, less is sent at a time: the board may have reported more
    room than it has.
    """

    def __init__(
        self, requests: Requests, sequence: int, content: bytes, *, frame_bytes: int, window: int
    ) -> None:
        """Prepare to send 1 byte or more; the board's first ACK begins.

        ``frame_bytes``: longest encoded frame. ``window``: most encoded bytes on the way.
        """
        self.sequence = sequence
        self.position = 0  # bytes that the board has acknowledged
        self.length = len(content)
        self._requests = requests
        self.crc = zlib.crc32(content)
        self._content = content
        self._frame_bytes = frame_bytes
        self._window = self._limit = window
        self._credit = 0
        self._sent = 0  # number of the next byte to send
        self._highest = 0  # the same, before anything was sent again
        self._flight: deque[_Sent] = deque()
        self._flying = 0  # encoded bytes in _flight
        self._ghosts = 0  # those of frames that are given up, but may still be on the way
        self._gone_back = False  # since the board last took something new
        self._line_free_s = 0.0
        self._probe = False
        self.timer = _Timer(requests)

    def begin(self, now_s: float) -> None:
        """Start the time-out: the channel is open."""
        if self.timer.at_s == _NEVER and not self.done:
            self.timer.start(now_s)

    @property
    def done(self) -> bool:
        """Whether the board has all."""
        return self.position == self.length

    @property
    def next_at_s(self) -> float:
        """When `outgoing` next has something, unless a frame comes first."""
        return 0.0 if self._next_size() else self.timer.at_s

    def receive(self, frame: Frame, now_s: float) -> None:
        """Take an ACK; one that is late, or of bytes that were never sent, means nothing."""
        if frame.kind != FrameKind.ACK or len(frame.body) < _ACK.size:
            return
        offset, credit, flags = _ACK.unpack_from(frame.body)
        if not self.position <= offset <= self._highest:
            return
        self._credit = credit
        if offset > self.position:
            self._advance(offset)
        if flags & AckFlag.RESEND and not self._gone_back:
            self._go_back()
        if self.done:
            self.timer.stop()
        else:
            self.timer.start(max(now_s, self._flight[0].left_at_s if self._flight else now_s))

    def _advance(self, offset: int) -> None:
        self._limit = min(self._window, self._limit + (offset - self.position) // 4)
        self.position = offset
        self._sent = max(self._sent, offset)
        while self._flight and self._flight[0].end <= offset:
            self._flying -= self._flight.popleft().encoded
        self._gone_back = False
        self._ghosts = 0  # they came before the frame that was now acknowledged
        self.timer.progressed()

    def damaged(self) -> None:
        """Send again what is not acknowledged: one of these frames it was, most likely."""
        if self._flight:
            self._go_back()

    def _go_back(self) -> None:
        if self._gone_back and self._flying > LEAST_FRAME:
            self._limit = max(min(self._limit, self._flying) // 2, LEAST_FRAME)
        if self._flight:  # the first is lost for sure; the others may yet fill the board's buffer
            self._ghosts = self._flying - self._flight[0].encoded
        self._flight.clear()
        self._flying = 0
        self._sent = self.position
        self._gone_back = True

    def _next_size(self) -> int:
        """Return how many bytes of content the next frame may have, 0 for none now."""
        left = self.length - self._sent
        limit = min(self._credit, self._limit)
        longest = min(self._frame_bytes, max(limit // 2, LEAST_FRAME))  # two on the way: no pause
        room = limit - self._flying - self._ghosts
        size = min(body_capacity(min(longest, room)) - _DATA.size, left) if room > 0 else 0
        if self._probe:
            return max(size, min(1, left))
        # Send a small frame only at the end; otherwise wait for the room of the next ACK.
        whole = size == left or room >= longest or not (self._flying or self._ghosts)
        return size if size > 0 and whole else 0

    def outgoing(self, now_s: float, *, timed: bool = True) -> bytes:
        """Return the DATA frames for which there is room."""
        if timed and now_s >= self.timer.at_s:
            self.timer.expired()
            self._go_back()
            self._ghosts = 0
            # The first ACK, or one that made room, was lost: one byte brings the next.
            self._probe = True
            self.timer.start(now_s)
        frames = []
        while size := self._next_size():
            frames.append(self._frame(size, now_s))
            self._probe = False
        return b"".join(frames)

    def _frame(self, size: int, now_s: float) -> bytes:
        body = _DATA.pack(self._sent) + self._content[self._sent : self._sent + size]
        encoded = self._requests.encode(FrameKind.DATA, self.sequence, body)
        self._line_free_s = (
            max(self._line_free_s, now_s) + len(encoded) * self._requests.byte_time_s
        )
        if not self._flight:
            self.timer.start(self._line_free_s)
        self._sent += size
        self._highest = max(self._highest, self._sent)
        self._flight.append(_Sent(self._sent, len(encoded), self._line_free_s))
        self._flying += len(encoded)
        return encoded
