# SPDX-License-Identifier: Apache-2.0
"""The host's side of the protocol as state machines, without I/O and clock: requests and console.

The caller passes in the time and moves the bytes. One request is under way at a time: it
is sent again until its reply comes, and the board answers a duplicate with the reply it has kept,
so that nothing runs twice (SPEC.md 4).
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from boardprof_protocol.codes import PROTOCOL_VERSION, FrameKind
from boardprof_protocol.frame import OVERHEAD, Frame, FrameDecoder, encode_frame

_ANSWERS = {
    FrameKind.HELLO: frozenset({FrameKind.WELCOME, FrameKind.BUSY}),
    FrameKind.CALL: frozenset(
        {FrameKind.RESULT, FrameKind.ERROR, FrameKind.NO_SESSION, FrameKind.PROGRESS}
    ),
}
"""Kinds of frames that may answer a request, by its kind; PROGRESS does not end it."""

_NEVER = float("inf")
_ALIVE_RESEND_S = 5.0
"""A board that has said PROGRESS has the request: ask again only in case its reply was lost."""


class Channel(Protocol):
    """What `Requests` carries beside its requests (SPEC.md 4.5); see ``transfer.py``."""

    sequence: int  # of the CALL that opened it: the number of its frames

    @property
    def next_at_s(self) -> float:
        """When `outgoing` next has something, unless a frame comes first."""

    def receive(self, frame: Frame, now_s: float) -> None:
        """Take a DATA or ACK of this channel."""

    def damaged(self) -> None:
        """Take note that the board received a damaged frame."""

    def outgoing(self, now_s: float, *, timed: bool = True) -> bytes:
        """Return the encoded frames to be sent now; with ``timed`` false no time-out counts."""


class RttEstimate:
    """Retransmission time-out as in RFC 6298, with a floor that suits the line."""

    def __init__(self, floor_s: float) -> None:
        """Begin with a time-out of 250 ms, until something has been measured."""
        self.floor_s = floor_s  # two frame times and 20 ms
        self.timeout_s = 0.25  # how long to wait now before asking again
        self._smoothed_s: float | None = None
        self._variation_s = 0.0

    def measured(self, rtt_s: float) -> None:
        """Take the round trip of a request that was sent once (Karn's rule: no other counts)."""
        if self._smoothed_s is None:
            self._smoothed_s, self._variation_s = rtt_s, rtt_s / 2
        else:
            self._variation_s += (abs(self._smoothed_s - rtt_s) - self._variation_s) / 4
            self._smoothed_s += (rtt_s - self._smoothed_s) / 8
        self.timeout_s = max(self._smoothed_s + 4 * self._variation_s, self.floor_s)

    def expired(self) -> None:
        """Back off: double, up to a second or the floor; what is longer already stays."""
        ceiling_s = max(1.0, self.floor_s)
        self.timeout_s = max(self.timeout_s, min(2 * self.timeout_s, ceiling_s))


_ENOUGH_VALUES = 200  # values of bytes in frames that have arrived, after which no more are noted


@dataclass
class _Request:
    """The request under way and its state."""

    kind: FrameKind
    sequence: int
    encoded: bytes
    silence_s: float
    begin_s: float
    resend_at_s: float
    alive: bool = False
    damaged: bool = False
    cancel: bytes = b""
    cancels: int = 0

    def within(self, wait_s: float) -> float:
        """Return a wait after which there is still time for an answer.

        Slow replies make the line's time-out long. A board that was reset meanwhile tells so only
        when it is asked again.
        """
        return min(wait_s, self.silence_s / 2)


@dataclass
class Requests:
    """One session's requests, and at most one channel beside them."""

    session: int  # 16-bit id, 1..65535, the host's choice
    byte_time_s: float = 0.0  # seconds per byte on the wire; 0 if the rate is not a limit
    naks: int = 0  # damaged frames that the board received
    channel: Channel | None = None  # gets the DATA and ACK frames of its number
    arrived: set[int] = field(default_factory=set)  # values of bytes that the line has passed
    rtt: RttEstimate = field(init=False)
    sent: int = 0
    echoes: bool = False  # a HELLO has come back: the line returns what is sent
    taken_by: bytes | None = None  # body of the BUSY from another host's takeover; it ends reading
    decoder: FrameDecoder = field(default_factory=FrameDecoder)
    _request: _Request | None = None

    def __post_init__(self) -> None:
        """Begin with the floor of a line whose frames have up to 256 bytes."""
        self.rtt = RttEstimate(floor_s=0.0)
        self.expect_frames(256)

    def expect_frames(self, mtu: int) -> None:
        """Fit the time-out's floor to frames of up to ``mtu`` bytes: two of them and 20 ms."""
        self.rtt.floor_s = 2 * mtu * self.byte_time_s + 0.02

    def encode(self, kind: int, sequence: int, body: bytes = b"") -> bytes:
        """Return a frame of this session as it is sent."""
        return encode_frame(Frame(kind, self.session, sequence, body), self.decoder.cobs)

    def request(
        self,
        kind: FrameKind,
        sequence: int,
        encoded: bytes,
        sent_at_s: float,
        silence_s: float = _NEVER,
    ) -> None:
        """Take note of a request that was just sent, for the first time.

        After PROGRESS the host asks again before ``silence_s`` is over.
        """
        request = _Request(kind, sequence, encoded, silence_s, sent_at_s, sent_at_s)
        request.resend_at_s += request.within(self.rtt.timeout_s) + len(encoded) * self.byte_time_s
        self._request = request
        self.sent = 1

    def cancel(self, now_s: float) -> bool:
        """Ask the board to end the CALL under way (SPEC.md 4.6); return whether there is one."""
        request = self._request
        if request is None or request.kind != FrameKind.CALL:
            return False
        if not request.cancel:
            request.cancel = self.encode(FrameKind.CANCEL, request.sequence)
            request.resend_at_s = now_s
        return True

    def outgoing(self, now_s: float) -> bytes:
        """Return what is to be sent now: the request if it is due again, what the channel has."""
        request = self._request
        encoded = b""
        if request is not None and now_s >= request.resend_at_s:
            encoded = self._resend(request, now_s)
        if self.channel is not None:
            # A board at work on a call is silent, and may have no room for more of our frames.
            encoded += self.channel.outgoing(now_s, timed=request is None)
        return encoded

    def _resend(self, request: _Request, now_s: float) -> bytes:
        encoded = request.encoded
        if request.cancel:
            # CANCEL alone at first: the board has the CALL. Nor is its sending a time-out. Later
            # ones take the CALL along, whose reply may have been lost.
            encoded = request.encoded + request.cancel if request.cancels else request.cancel
            request.cancels += 1
        if not request.damaged and request.cancels != 1:
            self.rtt.expired()
        request.damaged = False
        self.sent += 1
        alive = request.alive and not request.cancel
        wait_s = request.within(_ALIVE_RESEND_S if alive else self.rtt.timeout_s)
        request.resend_at_s = now_s + wait_s + len(encoded) * self.byte_time_s
        return encoded

    @property
    def next_at_s(self) -> float:
        """When `outgoing` next has something, unless something comes first."""
        if self._request is not None:
            return self._request.resend_at_s
        return self.channel.next_at_s if self.channel is not None else _NEVER

    def receive(self, data: bytes, now_s: float) -> Sequence[Frame]:
        """Take bytes; return the request's frames: PROGRESS, and the one that ends it."""
        frames = []
        for frame in self.decoder.feed(data):
            request = self._request
            if request is not None and self._is_answer(frame, request):
                frames.append(frame)
                if frame.kind == FrameKind.PROGRESS:
                    request.alive = True  # the board works on it, so the next retry can wait
                    if not request.cancel:
                        request.resend_at_s = now_s + request.within(_ALIVE_RESEND_S)
                else:
                    self._end(request, now_s)
            else:
                self._take_other(frame, now_s)
        return frames

    def _is_answer(self, frame: Frame, request: _Request) -> bool:
        kind, session, sequence, _, version = frame
        return (
            sequence == request.sequence
            and session == self.session
            and kind in _ANSWERS[request.kind]
            and (version == PROTOCOL_VERSION or kind == FrameKind.WELCOME)
        )

    @property
    def pending(self) -> bytes:
        """The request under way, as it is sent; empty if there is none."""
        return b"" if self._request is None else self._request.encoded

    def _end(self, request: _Request, now_s: float) -> None:
        if len(self.arrived) < _ENOUGH_VALUES:
            self.arrived.update(request.encoded)
        if self.sent == 1 and not request.alive:
            self.rtt.measured(now_s - request.begin_s)
        self._request = None

    def _take_other(self, frame: Frame, now_s: float) -> None:
        kind, session, sequence, body, version = frame
        if version != PROTOCOL_VERSION:
            return
        if kind == FrameKind.NAK and session in (self.session, 0):
            if len(self.arrived) < _ENOUGH_VALUES:
                self.arrived.update(encode_frame(frame))
            self._damaged(now_s)
        elif kind == FrameKind.BUSY and session == 0:
            self.taken_by = body
        elif session == self.session:
            if kind == FrameKind.HELLO and self._request is not None:
                self.echoes |= sequence == self._request.sequence
            elif self.channel is not None and sequence == self.channel.sequence:
                self.channel.receive(frame, now_s)

    def _damaged(self, now_s: float) -> None:
        """Send everything again: it is unknown which frame arrived damaged."""
        if self._request is None and self.channel is None:
            return
        self.naks += 1
        if self._request is not None:
            self._request.damaged = True
            soon_s = now_s + OVERHEAD * self.byte_time_s
            self._request.resend_at_s = min(self._request.resend_at_s, soon_s)
        if self.channel is not None:
            self.channel.damaged()

    @property
    def waits(self) -> bool:
        """Whether a request is under way."""
        return self._request is not None

    def forget(self) -> None:
        """Give up the request under way; a late reply to it is ignored."""
        self._request = None


KEPT_BYTES = 1 << 16
"""How many bytes of text are kept: the last ones."""

_QUIET_S = 0.1
"""Seconds after which an unfinished line is given out: it may be a prompt."""

_BINARY = re.compile(r"[\x00-\x06\x0e-\x1a\x1c-\x1f]")
"""Matches control characters that texts do not have."""

_LONGEST_LINE = 4096
"""Longest line, in characters; longer text is given out in pieces."""


class Console:
    """The board's console: keeps the end of what was not a frame, and cuts it into lines."""

    def __init__(
        self,
        frames: FrameDecoder,
        on_line: Callable[[str], None] | None = None,
        printed: Callable[[], str] = str,
    ) -> None:
        """Begin with nothing printed; ``printed`` as `Transport.printed`."""
        self._frames = frames
        self.on_line = on_line  # gets each line, without its line end
        self.printed_at_s = -_NEVER  # when bytes last came
        self._printed = printed
        self._followed = len(printed()) if on_line is not None else 0  # characters of it
        self.quiet_at_s = _NEVER  # when a begun line is given out
        self._kept = bytearray()
        self._line = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def take(self, now_s: float, *, everything: bool = False) -> None:
        """Take what the frames' decoder has left; ``everything``: also what may begin a frame."""
        if not (everything or self._frames.has_text or now_s >= self.quiet_at_s):
            return
        if text := self._frames.take_console(everything=everything, lines=True):
            self.printed_at_s = now_s
            self.feed(text, now_s)
        elif now_s >= self.quiet_at_s:
            self.flush()

    def take_all(self, now_s: float) -> str:
        """Take and give out all that is there; return it as text."""
        self.take(now_s, everything=True)
        self.flush()
        return self.text

    def feed(self, data: bytes, now_s: float) -> None:
        """Take what was printed, in whatever pieces, and give out the lines that it ends."""
        self._kept += data
        del self._kept[:-KEPT_BYTES]
        if self.on_line is None:
            return
        *lines, rest = (self._line + self._decoder.decode(data)).split("\n")
        while len(rest) > _LONGEST_LINE:
            lines.append(rest[:_LONGEST_LINE])
            rest = rest[_LONGEST_LINE:]
        self._line = rest
        self.quiet_at_s = now_s + _QUIET_S if rest else _NEVER
        for line in lines:
            self.on_line(line.removesuffix("\r"))

    def follow(self, now_s: float) -> None:
        """Take what was printed elsewhere, if there is a listener."""
        if self.on_line is not None and (text := self.unfollowed):
            self._followed += len(text)
            self.feed(text.encode(), now_s)

    def end_call(self, now_s: float) -> None:
        """Give out all that was printed during a call that has ended."""
        if self.on_line is not None:
            self.follow(now_s)
            self.flush()

    @property
    def unfollowed(self) -> str:
        """What was printed elsewhere and not taken."""
        return self._printed()[self._followed :]

    def flush(self) -> None:
        """Give out the line that was begun, if there is one."""
        line, self._line = self._line, ""
        self.quiet_at_s = _NEVER
        if line and self.on_line is not None:
            self.on_line(line.removesuffix("\r"))

    @property
    def data(self) -> bytes:
        """The end of all that was printed, as it came."""
        return bytes(self._kept)

    @property
    def text(self) -> str:
        """The end of all that was printed; of lines that are not text, only their number."""
        lines = self._kept.decode(errors="replace").splitlines(keepends=True)
        text = [line for line in lines if not _BINARY.search(line)]
        if left := len(lines) - len(text):
            shown = "line" if left == 1 else "lines"
            text.insert(0, f"({left} {shown} of binary data: damaged frames, or output)\n")
        return "".join(text)
