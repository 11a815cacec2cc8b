# SPDX-License-Identifier: Apache-2.0
"""A line that damages what passes, for tests of whatever has to stand a bad cable.

::

    from boardprof.measure.connect import attach
    from boardprof.wire.transport.faults import Faults, FaultyTransport, FlipBit, Planned, Way

    line = FaultyTransport(connect_tcp("socket://127.0.0.1:4321", 10), Faults(seed=7, frames=0.01))
    board = attach(spec, line)
    ...
    print(line.faults.log)

    # or: the third frame to the board has a flipped bit, and all others pass
    Faults([Planned(Way.TO_BOARD, 3, FlipBit(17))])

`Faults` is a pure model: bytes in, (delay, bytes) out, drawn from a seed. `FaultyTransport` waits
out the delays. A line has two ways, and what happens on one depends on that way's bytes alone,
however they were cut into reads. Two models with the same seed and plan that are given the same
bytes do the same.

A *frame* is here what ends at a delimiter: leading zeros, one or more other bytes, one zero. Text
beside the frames counts as one where a delimiter ends it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from operator import itemgetter

from boardprof.base.errors import LinkError
from boardprof.wire.transport.base import Transport, WrappedTransport

__all__ = ["ALL_FAULTS", "Cut", "Delay", "DropByte", "DropLeading", "DropTrailing", "Duplicate"]
__all__ += ["Fault", "FaultRecord", "Faults", "FaultyTransport", "FlipBit", "Glue", "Inject"]
__all__ += ["LateDuplicate", "Lose", "Planned", "Truncate", "Way"]

_DELIMITER = b"\0"
_LONGEST = 1 << 17
"""Bytes without a delimiter that are kept back, at most: no frame is as long."""

_NOISE = (b"boot: clock at 48 MHz\r\n", b"sensor: 21.5 C\n", b">>> ", b"\x1b[0m", b"\xff\x7f\x80")


class Way(Enum):
    """A direction of the line."""

    TO_BOARD = "to the board"
    TO_HOST = "to the host"


class Fault:
    """What happens to a frame."""


@dataclass(frozen=True)
class Lose(Fault):
    """The whole frame is lost."""


@dataclass(frozen=True)
class FlipBit(Fault):
    """Bit ``bit`` is flipped, counted from the least of the first byte, delimiters included.

    A position after the frame's end has no effect. This holds for all positions.
    """

    bit: int


@dataclass(frozen=True)
class DropByte(Fault):
    """Byte ``index`` is lost, delimiters included."""

    index: int


@dataclass(frozen=True)
class DropLeading(Fault):
    """The delimiters before the frame are lost; it may have none."""


@dataclass(frozen=True)
class DropTrailing(Fault):
    """The delimiter after the frame is lost."""


@dataclass(frozen=True)
class Glue(Fault):
    """All delimiters between this frame and the next one are lost."""


@dataclass(frozen=True)
class Duplicate(Fault):
    """The frame comes twice in a row."""


@dataclass(frozen=True)
class Delay(Fault):
    """The frame comes ``delay_s`` seconds late; what follows may overtake it."""

    delay_s: float


@dataclass(frozen=True)
class LateDuplicate(Fault):
    """The frame comes in time, and once more ``delay_s`` seconds later, after others."""

    delay_s: float


@dataclass(frozen=True)
class Truncate(Fault):
    """Only the first ``length`` bytes come."""

    length: int


@dataclass(frozen=True)
class Inject(Fault):
    """``text`` comes before byte ``at`` of the frame: 0 is before it, its length after it."""

    text: bytes
    at: int = 0


@dataclass(frozen=True)
class Cut(Fault):
    """The first ``length`` bytes come, and then the line is gone for good, both ways."""

    length: int = 0


_Draw = Callable[[random.Random, int, float], Fault]

_DRAWN: dict[type[Fault], _Draw] = {
    Lose: lambda rng, length, delay_s: Lose(),
    FlipBit: lambda rng, length, delay_s: FlipBit(rng.randrange(8 * length)),
    DropByte: lambda rng, length, delay_s: DropByte(rng.randrange(length)),
    DropLeading: lambda rng, length, delay_s: DropLeading(),
    DropTrailing: lambda rng, length, delay_s: DropTrailing(),
    Glue: lambda rng, length, delay_s: Glue(),
    Duplicate: lambda rng, length, delay_s: Duplicate(),
    Delay: lambda rng, length, delay_s: Delay(rng.uniform(0, delay_s)),
    LateDuplicate: lambda rng, length, delay_s: LateDuplicate(rng.uniform(0, delay_s)),
    Truncate: lambda rng, length, delay_s: Truncate(rng.randrange(length)),
    Inject: lambda rng, length, delay_s: Inject(rng.choice(_NOISE), rng.randrange(length + 1)),
    Cut: lambda rng, length, delay_s: Cut(rng.randrange(length)),
}

ALL_FAULTS: tuple[type[Fault], ...] = tuple(kind for kind in _DRAWN if kind is not Cut)
"""The default faults: everything that a session must survive."""


@dataclass(frozen=True)
class Planned:
    """One fault of an explicit plan.

    Attributes:
        way: the direction of the frame.
        frame: which one, counted from 1; with ``kind``, among the frames of that kind.
        fault: what happens to it.
        kind: low four bits of the frame's first byte (SPEC.md 2); None counts all frames.
    """

    way: Way
    frame: int
    fault: Fault
    kind: int | None = None


@dataclass(frozen=True)
class FaultRecord:
    """A fault that was done.

    Attributes:
        way: the direction.
        frame: number of the frame in that direction, counted from 1.
        length: its bytes as they came, delimiters included.
        fault: what was done to it.
    """

    way: Way
    frame: int
    length: int
    fault: Fault


@dataclass
class _Lane:
    """One direction: what is kept back, what has passed, and its own random numbers."""

    way: Way
    rng: random.Random
    planned: list[Planned]
    rest: bytes = b""
    frames: int = 0
    glued: bool = False
    by_kind: dict[int, int] = field(default_factory=dict)

    def take(self, data: bytes) -> Iterator[bytes]:
        """Return each frame that ``data`` completes."""
        *pieces, rest = (self.rest + data).split(_DELIMITER)
        lead = b""
        for piece in pieces:
            if piece:
                yield lead + piece + _DELIMITER
                lead = b""
            else:
                lead += _DELIMITER
        self.rest = lead + rest


class Faults:
    """A line's faults, by plan and by chance.

    Attributes:
        log: the faults that were done, in order.
        is_cut: the line is gone; nothing passes any more.
    """

    def __init__(
        self,
        plan: Iterable[Planned] = (),
        *,
        seed: int = 0,
        frames: float = 0.0,
        kinds: Sequence[type[Fault]] = ALL_FAULTS,
        delay_s: float = 0.05,
    ) -> None:
        """Prepare the faults of one line.

        Args:
            plan: what happens to which frame.
            seed: of the random numbers; each direction has a sequence of its own.
            frames: fraction of the frames that are damaged by chance, 0..1.
            kinds: the faults to draw from, each as likely as the others.
            delay_s: longest delay that is drawn, seconds.

        Raises:
            ValueError: ``frames`` is out of range, or there is nothing to draw from.
        """
        if not 0.0 <= frames <= 1.0 or not kinds:
            raise ValueError("frames is a fraction, 0 to 1, and kinds has one fault or more")
        self.seed, self.frames, self.kinds, self.delay_s = seed, frames, tuple(kinds), delay_s
        self.log: list[FaultRecord] = []
        self.is_cut = False
        planned = list(plan)
        self._lanes = {
            way: _Lane(
                way,
                random.Random(f"{seed} {way.name}"),
                [entry for entry in planned if entry.way is way],
            )
            for way in Way
        }

    def add(self, way: Way, fault: Fault, *, kind: int | None = None, later: int = 0) -> None:
        """Plan ``fault`` for the next frame on its way, or the next one of that ``kind``.

        With ``later`` it is not the next one, but that many frames after it.
        """
        lane = self._lanes[way]
        passed = lane.frames if kind is None else lane.by_kind.get(kind, 0)
        lane.planned.append(Planned(way, passed + 1 + later, fault, kind))

    @property
    def pending(self) -> int:
        """How many faults of the plan have not been done, for want of their frames."""
        return sum(len(lane.planned) for lane in self._lanes.values())

    def passed(self, way: Way) -> int:
        """Return how many frames were given to that direction, damaged ones included."""
        return self._lanes[way].frames

    def to_board(self, data: bytes) -> list[tuple[float, bytes]]:
        """Take bytes that the host sent; see `through`."""
        return self.through(Way.TO_BOARD, data)

    def to_host(self, data: bytes) -> list[tuple[float, bytes]]:
        """Take bytes that the board sent; see `through`."""
        return self.through(Way.TO_HOST, data)

    def through(self, way: Way, data: bytes) -> list[tuple[float, bytes]]:
        """Take bytes and return what comes out: pairs of a delay in seconds and bytes.

        A frame is kept back until it is whole. Pairs without a delay come in this order.
        """
        lane = self._lanes[way]
        out: list[tuple[float, bytes]] = []
        for frame in lane.take(data):
            if self.is_cut:
                break
            out += self._one(lane, frame)
        if len(lane.rest) > _LONGEST:
            out.append((0.0, self.held_back(way)))
        return [(delay_s, piece) for delay_s, piece in out if piece]

    def held_back(self, way: Way) -> bytes:
        """Return and forget what waits for its delimiter: right when no more is expected."""
        lane = self._lanes[way]
        rest, lane.rest = lane.rest, b""
        return b"" if self.is_cut else rest

    def idle_to_host(self) -> bytes:
        """Return and forget text for the host that waits for a delimiter.

        Whoever drives the line calls this when nothing more has come for a while, so that a
        prompt or a boot message is seen although no frame follows it. What may be a frame that is
        still on its way stays.
        """
        rest = self._lanes[Way.TO_HOST].rest.lstrip(_DELIMITER)
        is_text = all(byte >= 0x20 or byte in b"\t\n\r\x1b" for byte in rest)
        return self.held_back(Way.TO_HOST) if rest and is_text else b""

    def _one(self, lane: _Lane, frame: bytes) -> list[tuple[float, bytes]]:
        lane.frames += 1
        # The first group's code comes before the first byte, which is never zero.
        piece = frame.lstrip(_DELIMITER)
        kind = piece[1] & 15 if len(piece) > 2 else -1
        lane.by_kind[kind] = lane.by_kind.get(kind, 0) + 1
        if lane.glued:
            frame, lane.glued = piece, False
        fault = self._planned(lane, kind) or self._drawn(lane, len(frame))
        if fault is None:
            return [(0.0, frame)]
        self.log.append(FaultRecord(lane.way, lane.frames, len(frame), fault))
        lane.glued = isinstance(fault, Glue)
        self.is_cut = isinstance(fault, Cut)
        return _done(fault, frame)

    def _planned(self, lane: _Lane, kind: int) -> Fault | None:
        for entry in lane.planned:
            passed = lane.frames if entry.kind is None else lane.by_kind[kind]
            if entry.frame == passed and entry.kind in (None, kind):
                lane.planned.remove(entry)
                return entry.fault
        return None

    def _drawn(self, lane: _Lane, length: int) -> Fault | None:
        if not self.frames or lane.rng.random() >= self.frames:
            return None
        return _DRAWN[lane.rng.choice(self.kinds)](lane.rng, length, self.delay_s)


def _done(fault: Fault, frame: bytes) -> list[tuple[float, bytes]]:
    match fault:
        case Duplicate():
            return [(0.0, frame), (0.0, frame)]
        case Delay(delay_s):
            return [(delay_s, frame)]
        case LateDuplicate(delay_s):
            return [(0.0, frame), (delay_s, frame)]
        case _:
            return [(0.0, _changed(fault, frame))]


def _changed(fault: Fault, frame: bytes) -> bytes:
    match fault:
        case FlipBit(bit):
            flipped = [byte ^ 1 << bit % 8 for byte in frame[bit // 8 :][:1]]
            return frame[: bit // 8] + bytes(flipped) + frame[bit // 8 + 1 :]
        case DropByte(index):
            return frame[:index] + frame[index + 1 :]
        case DropLeading():
            return frame.lstrip(_DELIMITER)
        case DropTrailing() | Glue():
            return frame[:-1]
        case Truncate(length) | Cut(length):
            return frame[:length]
        case Inject(text, at):
            return frame[:at] + text + frame[at:]
        case _:
            return b""


_Queue = list[tuple[float, bytes]]
"""Bytes that are due later, with their times."""


def _take_due(queue: _Queue, now_s: float) -> bytes:
    due = sorted((each for each in queue if each[0] <= now_s), key=itemgetter(0))
    queue[:] = [each for each in queue if each[0] > now_s]
    return b"".join(data for _, data in due)


class FaultyTransport(WrappedTransport):
    """Another transport, with faults on the way. It takes the place of any transport.

    What is delayed on its way to the board is sent when its time has come and the host reads or
    writes: there is no thread.

    Attributes:
        faults: the model; its ``log`` tells what was done.
    """

    def __init__(
        self, inner: Transport, faults: Faults, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Wrap a transport.

        Args:
            inner: the line itself; closed with this one.
            faults: what happens to the frames.
            clock: seconds that only grow; ``inner`` must wait by the same clock.
        """
        super().__init__(inner)
        self.faults = faults
        self._clock = clock
        self._to_board: _Queue = []
        self._to_host: _Queue = []

    def write(self, data: bytes, timeout_s: float) -> None:
        """Send ``data`` as far as it survives; see `Transport.write`."""
        for delay_s, piece in self.faults.to_board(data):
            self._to_board.append((self._clock() + delay_s, piece))
        self._forward(timeout_s)
        self._check()

    def read(self, timeout_s: float) -> bytes:
        """Return what has come through; see `Transport.read`."""
        deadline = self._clock() + timeout_s
        while True:
            now = self._clock()
            self._forward(max(deadline - now, 0.0))
            if data := _take_due(self._to_host, now):
                return data
            self._check()
            until = min([deadline, *(due_s for due_s, _ in self._to_host + self._to_board)])
            arrived = self._inner.read(max(until - now, 0.0))
            for delay_s, piece in self.faults.to_host(arrived):
                self._to_host.append((self._clock() + delay_s, piece))
            if self._clock() >= deadline:  # also where all that comes is lost
                late = _take_due(self._to_host, self._clock())
                return late or (b"" if arrived else self.faults.idle_to_host())

    def _forward(self, timeout_s: float) -> None:
        if data := _take_due(self._to_board, self._clock()):
            self._inner.write(data, timeout_s)

    def _check(self) -> None:
        if self.faults.is_cut:
            self._inner.close()
            raise LinkError(
                f"The connection to {self.name} is lost: the fault plan cut it.",
                hint="connect again",
            )
