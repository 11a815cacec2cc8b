# SPDX-License-Identifier: Apache-2.0
"""The host's side of the protocol as a state machine, free of input, output and clock.

Whoever drives it passes the time in and carries the bytes. One request is under way at a time: it
is sent again until its reply comes, and the board answers a duplicate with the reply it has kept,
so that nothing runs twice (SPEC.md 4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from boardprof.link.rtt import RttEstimate
from boardprof_protocol.codes import PROTOCOL_VERSION, FrameKind
from boardprof_protocol.frame import (
    OVERHEAD,
    Cobs,
    Frame,
    FrameDecoder,
    encode_fields,
    header,
    result_body,
)

__all__ = ["NIL", "Channel", "Progress", "Reply", "RpcClient"]

_REPLIES = frozenset(map(int, {FrameKind.RESULT, FrameKind.ERROR, FrameKind.NO_SESSION}))
_GREETINGS = frozenset(map(int, {FrameKind.WELCOME, FrameKind.BUSY}))
_HELLO, _WELCOME = int(FrameKind.HELLO), int(FrameKind.WELCOME)
_NAK, _PROGRESS = int(FrameKind.NAK), int(FrameKind.PROGRESS)
_BUSY = int(FrameKind.BUSY)
_CHANNEL = frozenset(map(int, {FrameKind.DATA, FrameKind.ACK}))
_CALL, _RESULT = int(FrameKind.CALL), int(FrameKind.RESULT)
_FIRST = PROTOCOL_VERSION << 4
_RESULT_FIRST = _FIRST | _RESULT
NIL = b"\xc0"
"""The body of a RESULT that returns nothing: msgpack's nil."""

_NEVER = float("inf")
_ALIVE_RESEND_S = 5.0
"""A board that has said PROGRESS has the request: ask again only in case its reply was lost."""


class Reply(NamedTuple):
    """What ends a request: the frame's kind and body, and how often the request was sent."""

    kind: int
    body: bytes
    sent: int


class Progress(NamedTuple):
    """The board is alive and at work; ``body`` is msgpack ``[done, total]``."""

    body: bytes


class Channel(Protocol):
    """What `RpcClient` carries beside its requests (SPEC.md 4.5); ``link.channel`` has them.

    Attributes:
        sequence: of the CALL that opened it: the number of its frames.
    """

    sequence: int

    @property
    def next_at_s(self) -> float:
        """When `outgoing` next has something, unless a frame comes first."""

    def receive(self, frame: Frame, now_s: float) -> None:
        """Take a DATA or ACK of this channel."""

    def damaged(self, now_s: float) -> None:
        """Take note that the board got something that it could not read."""

    def outgoing(self, now_s: float, *, timed: bool = True) -> bytes:
        """Return the encoded frames to be sent now; with ``timed`` false no time-out counts."""


class _Request:
    """The request under way. The defaults are the class's: most requests never change them."""

    sent = 0
    resend_at_s = 0.0
    alive = False
    damaged = False
    cancel = b""
    cancels = 0
    sent_at_s = 0.0
    answer = b"\0"  # how the RESULT begins; nothing begins like that
    nil: bytes | None = None  # a RESULT that returns nothing, as it stands on the line

    def __init__(self, kind: int, sequence: int, encoded: bytes, silence_s: float) -> None:
        self.kind = kind
        self.sequence = sequence
        self.encoded = encoded
        self.silence_s = silence_s

    @property
    def alive_resend_s(self) -> float:
        """How long to wait after PROGRESS."""
        return min(_ALIVE_RESEND_S, self.silence_s / 2)


@dataclass
class RpcClient:
    """One session's requests, and at most one channel beside them.

    Attributes:
        session: 16-bit id, 1..65535, the host's choice.
        byte_time_s: seconds a byte takes on the wire, 0 where that is no limit.
        naks: frames that the board could not read.
        channel: gets the DATA and ACK frames of its number; None: nobody does.
        rtt: the time-out, for channels too.
        has_text: whether `console` may have something.
        echoes: whether a HELLO has come back: the line returns what is sent.
        taken_by: body of the BUSY by which the agent told that another host has taken the board
            over; None: it has not. The line ends behind it.
    """

    session: int
    byte_time_s: float = 0.0
    naks: int = 0
    channel: Channel | None = None
    rtt: RttEstimate = field(init=False)
    has_text: bool = False
    echoes: bool = False
    taken_by: bytes | None = None
    _decoder: FrameDecoder = field(default_factory=FrameDecoder)
    _request: _Request | None = None

    def __post_init__(self) -> None:
        """Begin with the floor of a line whose frames have up to 256 bytes."""
        self.rtt = RttEstimate(floor_s=0.0)
        self.expect_frames(256)

    def expect_frames(self, mtu: int) -> None:
        """Fit the time-out's floor to frames of up to ``mtu`` bytes: two of them and 20 ms."""
        self.rtt.floor_s = 2 * mtu * self.byte_time_s + 0.02

    @property
    def cobs(self) -> Cobs:
        """What encodes and decodes frames; may be replaced by a faster one at any time."""
        return self._decoder.cobs

    @cobs.setter
    def cobs(self, cobs: Cobs) -> None:
        self._decoder.cobs = cobs

    def encode(self, kind: int, sequence: int, body: bytes = b"") -> bytes:
        """Return a frame of this session as it stands on the line."""
        return encode_fields(_FIRST | kind, self.session, sequence, body, self._decoder.cobs)

    def request(self, kind: int, sequence: int, body: bytes, silence_s: float = _NEVER) -> bytes:
        """Begin a request; return its bytes.

        Whoever sends them at once says so by `sent`; else `outgoing` has them.

        Args:
            kind: of the frame.
            sequence: its number.
            body: of the frame.
            silence_s: how long the host waits after PROGRESS: it asks again before that is over.
        """
        encoded = encode_fields(_FIRST | kind, self.session, sequence, body, self._decoder.cobs)
        self._request = _Request(kind, sequence, encoded, silence_s)
        return encoded

    def sent(self, at_s: float) -> None:
        """Take note that the request was sent, for the first time.

        Nothing is hurried here, for the board is at it now: what `result` will compare is prepared.
        """
        request = self._request
        assert request is not None
        request.sent = 1
        request.sent_at_s = at_s
        wait_s = self.rtt.timeout_s + len(request.encoded) * self.byte_time_s
        request.resend_at_s = at_s + wait_s
        if request.kind == _CALL:
            session, sequence = self.session, request.sequence
            request.answer = header(_RESULT_FIRST, session, sequence)
            request.nil = encode_fields(_RESULT_FIRST, session, sequence, NIL, self._decoder.cobs)

    def cancel(self, now_s: float) -> bool:
        """Ask the board to end the CALL under way (SPEC.md 4.6); return whether there is one."""
        request = self._request
        if request is None or request.kind != _CALL or not request.sent:
            return False
        if not request.cancel:
            request.cancel = self.encode(FrameKind.CANCEL, request.sequence)
            request.resend_at_s = now_s
        return True

    def outgoing(self, now_s: float) -> bytes:
        """Return what is to be sent now: the request when it is due, what the channel has."""
        request = self._request
        encoded = b""
        if request is not None and now_s >= request.resend_at_s:
            if request.sent:
                encoded = self._again(request, now_s)
            else:
                encoded = request.encoded
                self.sent(now_s)
        if self.channel is not None:
            # A board at work on a call is silent, and may have no room for more of our frames.
            encoded += self.channel.outgoing(now_s, timed=request is None)
        return encoded

    def _again(self, request: _Request, now_s: float) -> bytes:
        encoded = request.encoded
        if request.cancel:
            # CANCEL alone at first: the board has the CALL. Nor is its sending a time-out. Later
            # ones take the CALL along, whose reply may have been lost.
            encoded = request.encoded + request.cancel if request.cancels else request.cancel
            request.cancels += 1
        if not request.damaged and request.cancels != 1:
            self.rtt.expired()
        request.damaged = False
        request.sent += 1
        request.sent_at_s = now_s
        alive = request.alive and not request.cancel
        wait_s = request.alive_resend_s if alive else self.rtt.timeout_s
        request.resend_at_s = now_s + wait_s + len(encoded) * self.byte_time_s
        return encoded

    @property
    def next_at_s(self) -> float:
        """When `outgoing` next has something, unless something comes first."""
        if self._request is not None:
            return self._request.resend_at_s
        return self.channel.next_at_s if self.channel is not None else _NEVER

    def result(self, data: bytes, now_s: float) -> bytes | None:
        """Take bytes that arrived if they are what most calls get: one RESULT and nothing else.

        Returns:
            Its body, which ends the request; None: nothing was taken, `receive` is to have it.
        """
        request = self._request
        if request is None or request.sent != 1 or self.has_text:
            return None
        body = NIL if data == request.nil else result_body(data, request.answer)
        if body is not None:
            if not request.alive:
                self.rtt.measured(now_s - request.sent_at_s)
            self._request = None
        return body

    def receive(self, data: bytes, now_s: float) -> Sequence[Reply | Progress]:
        """Take bytes that arrived; return what they mean for the request under way."""
        events = []
        for frame in self._decoder.feed(data):
            event = self._event(frame, now_s)
            if event is not None:
                events.append(event)
        self.has_text = self._decoder.has_text
        return events

    def _event(self, frame: Frame, now_s: float) -> Reply | Progress | None:
        kind, session, sequence, body, version = frame
        if version != PROTOCOL_VERSION and kind != _WELCOME:
            return None
        if kind == _NAK and session in (self.session, 0):
            self._damaged(now_s)
            return None
        if session != self.session:
            if kind == _BUSY and session == 0:
                self.taken_by = body
            return None
        request = self._request
        if kind in _CHANNEL:
            if self.channel is not None and sequence == self.channel.sequence:
                self.channel.receive(frame, now_s)
            return None
        if request is None or sequence != request.sequence:
            return None
        if kind == _PROGRESS:
            request.alive = True
            if not request.cancel:
                request.resend_at_s = now_s + request.alive_resend_s
            return Progress(body)
        if kind not in (_GREETINGS if request.kind == _HELLO else _REPLIES):
            self.echoes |= kind == _HELLO
            return None
        if request.sent == 1 and not request.alive:
            self.rtt.measured(now_s - request.sent_at_s)
        self._request = None
        return Reply(kind, body, request.sent)

    def _damaged(self, now_s: float) -> None:
        """Send again: nobody knows which of the things that we sent arrived damaged."""
        if self._request is None and self.channel is None:
            return
        self.naks += 1
        if self._request is not None:
            self._request.damaged = True
            soon_s = now_s + OVERHEAD * self.byte_time_s
            self._request.resend_at_s = min(self._request.resend_at_s, soon_s)
        if self.channel is not None:
            self.channel.damaged(now_s)

    @property
    def waits(self) -> bool:
        """Whether a request is under way."""
        return self._request is not None

    def forget(self) -> None:
        """Give the request under way up; a late reply to it is ignored."""
        self._request = None

    def console(self, *, everything: bool = False, lines: bool = False) -> bytes:
        """Return and forget bytes that were no frames; see `FrameDecoder.take_console`."""
        text = self._decoder.take_console(everything=everything, lines=lines)
        self.has_text = self._decoder.has_text
        return text
