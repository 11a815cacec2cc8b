# SPDX-License-Identifier: Apache-2.0
"""The host's side of the protocol as a state machine, free of input, output and clock.

Whoever drives it passes the time in and carries the bytes. One request is under way at a time: it
is sent again until its reply comes, and the board answers a duplicate with the reply it has kept,
so that nothing runs twice (SPEC.md 4).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from boardprof_protocol.codes import PROTOCOL_VERSION, FrameKind
from boardprof_protocol.frame import OVERHEAD, Frame, FrameDecoder, encode_frame

__all__ = ["Progress", "Reply", "RpcClient", "RttEstimate"]

_REPLIES = frozenset({FrameKind.WELCOME, FrameKind.RESULT, FrameKind.ERROR, FrameKind.NO_SESSION})
_ALIVE_RESEND_S = 5.0
"""A board that has said PROGRESS has the request: ask again only in case its reply was lost."""


@dataclass
class RttEstimate:
    """Retransmission time-out as in RFC 6298, with a floor that suits the line.

    Attributes:
        floor_s: never wait less: two frame times and 20 ms.
        timeout_s: what to wait now.
    """

    floor_s: float
    timeout_s: float = 0.25
    _smoothed_s: float | None = None
    _variation_s: float = 0.0

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


@dataclass(frozen=True)
class Reply:
    """The frame that ends a request, and how often the request was sent."""

    frame: Frame
    sent: int


@dataclass(frozen=True)
class Progress:
    """The board is alive and at work; ``body`` is msgpack ``[done, total]``."""

    body: bytes


@dataclass
class _Request:
    frame: Frame
    sent: int = 0
    sent_at_s: float = 0.0
    resend_at_s: float = 0.0
    alive: bool = False
    damaged: bool = False


@dataclass
class RpcClient:
    """One session's requests.

    Attributes:
        session: 16-bit id, 1..65535, the host's choice.
        byte_time_s: seconds a byte takes on the wire, 0 where that is no limit.
        naks: frames that the board could not read.
    """

    session: int
    byte_time_s: float = 0.0
    naks: int = 0
    _decoder: FrameDecoder = field(default_factory=FrameDecoder)
    _request: _Request | None = None
    _rtt: RttEstimate = field(init=False)

    def __post_init__(self) -> None:
        """Begin with the floor of a line whose frames have up to 256 bytes."""
        self._rtt = RttEstimate(floor_s=0.0)
        self.expect_frames(256)

    def expect_frames(self, mtu: int) -> None:
        """Fit the time-out's floor to frames of up to ``mtu`` bytes: two of them and 20 ms."""
        self._rtt.floor_s = 2 * mtu * self.byte_time_s + 0.02

    def request(self, kind: FrameKind, sequence: int, body: bytes) -> None:
        """Begin a request; `outgoing` has its bytes."""
        self._request = _Request(Frame(kind, self.session, sequence, body))

    def outgoing(self, now_s: float) -> bytes:
        """Return what is to be sent now: the request when it is due, or nothing."""
        request = self._request
        if request is None or now_s < request.resend_at_s:
            return b""
        if request.sent and not request.damaged:
            self._rtt.expired()
        request.damaged = False
        request.sent += 1
        request.sent_at_s = now_s
        encoded = encode_frame(request.frame)
        wait_s = _ALIVE_RESEND_S if request.alive else self._rtt.timeout_s
        request.resend_at_s = now_s + wait_s + len(encoded) * self.byte_time_s
        return encoded

    @property
    def next_at_s(self) -> float:
        """When `outgoing` next has something, unless a reply comes first."""
        return self._request.resend_at_s if self._request else float("inf")

    def receive(self, data: bytes, now_s: float) -> list[Reply | Progress]:
        """Take bytes that arrived; return what they mean for the request under way."""
        events: list[Reply | Progress] = []
        for frame in self._decoder.feed(data):
            event = self._event(frame, now_s)
            if event is not None:
                events.append(event)
        return events

    def _event(self, frame: Frame, now_s: float) -> Reply | Progress | None:
        request = self._request
        if request is None or frame.session not in (self.session, 0):
            return None
        if frame.version != PROTOCOL_VERSION and frame.kind != FrameKind.WELCOME:
            return None
        if frame.kind == FrameKind.NAK:
            # Something that we sent arrived damaged; all that can be is the request.
            self.naks += 1
            request.damaged = True
            request.resend_at_s = min(request.resend_at_s, now_s + OVERHEAD * self.byte_time_s)
            return None
        if frame.sequence != request.frame.sequence or frame.session != self.session:
            return None
        if frame.kind == FrameKind.PROGRESS:
            request.alive = True
            request.resend_at_s = now_s + _ALIVE_RESEND_S
            return Progress(frame.body)
        if frame.kind not in _REPLIES or (
            (frame.kind == FrameKind.WELCOME) != (request.frame.kind == FrameKind.HELLO)
        ):
            return None
        if request.sent == 1 and not request.alive:
            self._rtt.measured(now_s - request.sent_at_s)
        self._request = None
        return Reply(frame, request.sent)

    def console(self, *, everything: bool = False) -> bytes:
        """Return and forget bytes that were no frames; see `FrameDecoder.take_console`."""
        return self._decoder.take_console(everything=everything)
