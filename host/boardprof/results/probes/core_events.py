# SPDX-License-Identifier: Apache-2.0
"""From the blocks of one core to its events on its own clock, and how the cores' clocks relate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from boardprof.base.errors import DecodeError, option
from boardprof.results.probes.events import (
    Events,
    ProbeNames,
    TraceBlock,
    decode_words,
    gap,
    gather,
)
from boardprof_protocol.codes import TraceId

Ints = npt.NDArray[np.integer[Any]]  # integers: int64, or narrower ones where there are many
WRAP = 1 << 32  # the trace clock has 32 bits, unless the agent tells how often these have wrapped

_AT_ONCE = 50_000
"""Words of blocks that are decoded together: each time takes as long as thousands of words, and a
piece of `decode_words` has some more."""

_LONGEST = 1 << 61  # ticks; more than any board counts


@dataclass(frozen=True)
class Syncs:
    """When a core has read the ticks that all cores share."""

    time: Ints  # ticks of the core's clock
    took: Ints  # the shared ticks were read at most this long after ``time``
    shared: npt.NDArray[np.uint64]


@dataclass(frozen=True)
class CoreEvents:
    """What one core has recorded."""

    events: Events  # without those that relate its clock to that of other cores
    syncs: Syncs  # what these say
    # ticks until the stop, else until the last block was made, which may be too early by the age of
    # the last event if another core made it
    end: int
    dropped: int  # events, so far
    unsure: int  # events that were left out, since the clock may have wrapped between them
    is_whole: bool  # whether its first block is the first one of the recording
    has_own_end: bool  # whether its own clock was read for ``end``
    # from first to last block: ticks of the clock read for them, and shared ticks
    blocks: tuple[int, int]


def events_of_core(
    core: int,
    blocks: Sequence[TraceBlock],
    names: ProbeNames,
    per_tick: float = 0,
    stopped: int | None = None,
) -> CoreEvents:
    """Put the blocks of a core together, which are in the order in which they came.

    ``per_tick``: at most how much the clock counts in a tick of the port; 0 if not known.
    ``stopped``: the clock when recording was stopped; None if not known.
    """
    pieces = _Pieces(core, blocks, names, per_tick)
    most = sum(len(block.words) for block in blocks) + len(blocks)  # a gap has no words
    joined = gather(pieces, most)
    first, last = blocks[0], blocks[-1]
    end = (int(joined.time[-1]) if len(joined) else 0) + pieces.idle
    if stopped is not None and last.is_last and not last.other_clock:
        end -= min((last.now - stopped) % WRAP, pieces.idle)
    events, syncs = _without_syncs(joined)
    return CoreEvents(
        events,
        syncs,
        end,
        last.dropped,
        pieces.unsure,
        first.sequence == 0,
        not last.other_clock,
        (pieces.elapsed, last.ticks - first.ticks),
    )


def _without_syncs(events: Events) -> tuple[Events, Syncs]:
    is_sync = events.number == TraceId.SYNC
    found = np.flatnonzero(is_sync[:-2] & is_sync[1:-1] & ~is_sync[2:])
    high, low = (events.value[found + i].astype(np.uint64) for i in (0, 1))
    syncs = Syncs(
        events.time[found + 2], events.took[found + 2].astype(np.int64), high << np.uint64(32) | low
    )
    return events.where(~is_sync) if is_sync.any() else events, syncs


_LONG = WRAP // 16
"""Between two blocks, so that they are decoded apart: the agent sends one after twice of that."""


class _Pieces:
    """The events of a core up to the ends of whole blocks.

    From one to the next, their times must add up to what the clock has counted. With the names of
    another image they would not.

    The clock may wrap between two events. Blocks in between show how often. Without any, the port's
    ticks show that it may have wrapped. As the place is not known, all events between these two
    blocks are left out. DROPPED stands there instead, with the value 0.
    """

    def __init__(
        self, core: int, parts: Sequence[TraceBlock], names: ProbeNames, per_tick: float
    ) -> None:
        self._core, self._parts, self._names, self._per_tick = core, parts, names, per_tick
        self.idle = self.unsure = 0  # ticks after the last event; events that were left out
        self.elapsed = 0  # ticks from the first block to the last one

    def __iter__(self) -> Iterator[Events]:
        """Yield the events."""
        due = self._due()
        words = decoded = self._parts[0].sequence
        now = passed = passed_to_seen = 0
        before: TraceBlock | None = None
        seen: TraceBlock | None = None  # the first block made after the last event of a piece
        waiting: list[npt.NDArray[np.uint32]] = []
        for index, part in enumerate(self._parts):
            if part.sequence != words % WRAP:
                raise DecodeError(
                    f"Events of core {self._core} are missing: a block begins with word "
                    f"{part.sequence}, and {words} words came before it.",
                    hint="record again",
                )
            words += len(part.words)
            waiting.append(part.words)
            step = (part.now - self._parts[max(index - 1, 0)].now) % WRAP
            passed += step
            self.elapsed += step
            if seen is None or part.last != seen.last or part.other_clock:
                seen, passed_to_seen = part, passed
            is_due = before is None or words - decoded >= _AT_ONCE or index in due
            if not ((part.whole and is_due) or part is self._parts[-1]):
                continue
            events = decode_words(np.concatenate(waiting), self._names)
            pieces = [events]
            if not part.whole or before is None:
                self.idle = _age(part)
            else:
                # Reading a large ring may take so long that the clock wraps after its last event.
                rest = passed - passed_to_seen
                pieces = [
                    self._checked(events, before, seen, passed_to_seen, words),
                    self._checked(events.where(slice(0)), seen, part, rest, words),
                ]
            for each in pieces:
                each.time[:] += now
                yield each
                now = int(each.time[-1]) if len(each) else now
            if now > _LONGEST:
                raise DecodeError(
                    f"The clock of core {self._core} has run for centuries, as its events say.",
                    hint=f"give the image that runs on the board ({option('--image')})",
                )
            waiting, decoded, passed, before, seen = [], words, 0, part, None

    def _due(self) -> set[int]:
        """Return the whole blocks at which a piece ends: those around a long time, and the last."""
        whole = [index for index, part in enumerate(self._parts) if part.whole]
        due = set(whole[-1:])
        for before, after in pairwise(whole):
            first, second = self._parts[before], self._parts[after]
            if (second.now - first.now) % WRAP >= _LONG or self._most(first, second) >= WRAP:
                due |= {before, after}
        return due

    def _most(self, first: TraceBlock, second: TraceBlock) -> float:
        """Return at most how much the clock has counted between two blocks; 0 if not known."""
        return (second.ticks - first.ticks) * self._per_tick

    def _checked(
        self, events: Events, before: TraceBlock, after: TraceBlock, passed: int, words: int
    ) -> Events:
        """Return the events between two blocks, with times that agree with the blocks' clocks.

        ``events`` have times from the last event of ``before`` on. ``passed`` is too little if the
        clock has wrapped between two blocks.
        """
        took = int(events.time[-1]) if len(events) else 0
        if (took - (after.last - before.last)) % WRAP:
            raise DecodeError(
                f"The events of core {self._core} contradict the board's clock after {words} "
                "words.",
                hint=f"give the image that runs on the board ({option('--image')})",
            )
        left = _age(after) if len(events) else self.idle + passed
        missing = self.idle + passed - left - took
        if after.other_clock:  # its clock runs a little differently, so that only wraps count
            missing = (missing + WRAP // 4) // WRAP * WRAP
        by_events = took + left - self.idle
        self.idle = left
        if self._most(before, after) >= max(by_events, passed) + WRAP or (
            missing > 0 and passed >= WRAP
        ):
            self.unsure += len(events)
            return gap(took)
        if missing > 0:  # before the first event: after it there was no time for that
            events.time[:] += missing
        return events


def _age(block: TraceBlock) -> int:
    """Return how old the last record was when a block was made; 0 if its core's clock says not."""
    return 0 if block.other_clock else (block.now - block.last) % WRAP


# -- clocks of several cores -------------------------------------------------------------------

# Each core tells now and then what the ticks were that all cores share. A straight line through
# these pairs relates its clock to the ticks, and so to the clock of another core.

_UNKNOWN_DRIFT = 2e-4
"""By how much two clocks may differ that are the same by design: two crystals of 100 ppm each."""


@dataclass(frozen=True)
class CoreClock:
    """How a core's clock relates to the common clock, which is that of one of the cores."""

    shift: int = 0  # added to the core's times so that they agree at ``at``
    at: int = 0  # in ticks
    drift: float = 0.0  # ticks that the common clock is ahead after a tick of this one
    error: float | None = 0.0  # how far off common times may be, in ticks; None if unrelated

    def common(self, times: Ints) -> Ints:
        """Return shifted times of the core on the common clock; they keep their order."""
        if not self.drift and not self.shift:
            return times
        found: Ints = times + np.rint((times - self.at) * self.drift).astype(np.int64)
        return np.maximum(found, 0)  # they may be off by the error


@dataclass(frozen=True)
class _Line:
    """``ticks = middle_ticks + rate * (time - middle)``."""

    middle: int
    middle_ticks: float
    rate: float
    error: float  # how far off it may be where the pairs are, in ticks of the core
    drift: float  # how much further for each tick before the first pair or after the last
    pairs: tuple[float, float]  # the shared ticks of the first pair and of the last one
    events: tuple[float, float]  # the same of the first event and of the last one


class _Rate(NamedTuple):
    """Shared ticks in a tick of a core; ``unknown`` is a share of it."""

    rate: float
    unknown: float


def related_clocks(cores: Mapping[int, CoreEvents]) -> dict[int, CoreClock]:
    """Relate the clocks of cores to that of the first one that has told of the shared ticks.

    One whose blocks were made on the core itself goes first: its times begin with the recording.
    """
    if len(cores) < 2:
        return {core: CoreClock() for core in cores}
    unrelated = {core: CoreClock(error=None) for core in cores}
    able = [core for core, each in cores.items() if len(each.syncs.time)]
    rate = _rate_of(list(cores.values()))
    if rate is None or not able or not all(each.is_whole for each in cores.values()):
        return unrelated
    base = min(int(cores[core].syncs.shared[0]) for core in able)
    lines = {core: line for core in able if (line := _line(cores[core], base, rate))}
    reference = min(able, key=lambda core: (not cores[core].has_own_end, core))
    if reference not in lines:
        return unrelated
    to = lines[reference]
    first = 0 if cores[reference].has_own_end else -int(cores[reference].events.time[0])
    span = (
        min(line.events[0] for line in lines.values()),
        max(line.events[1] for line in lines.values()),
    )
    found = unrelated
    for core, line in lines.items():
        there = to.middle + (line.middle_ticks - to.middle_ticks) / to.rate + first
        at = round(there)
        drift = 0.0 if core == reference else line.rate / to.rate - 1
        error = 0.0 if core == reference else _error(line, span) + _error(to, span) + 1
        found[core] = CoreClock(at - line.middle, at, drift, error)
    return found


def _error(line: _Line, span: tuple[float, float]) -> float:
    """Return how far off a line may be anywhere in a time."""
    outside = max(line.pairs[0] - span[0], span[1] - line.pairs[1], 0) / line.rate
    return line.error + line.drift * outside


def _rate_of(cores: Sequence[CoreEvents]) -> _Rate | None:
    """Return the rate in the longest time between two pairs, or two blocks, of a core."""
    told = [each.blocks for each in cores]
    told += [
        (_span(each.syncs.time), _span(each.syncs.shared)) for each in cores if len(each.syncs.time)
    ]
    span, ticks = max(told, key=lambda each: each[1])
    return _Rate(ticks / span, 1 / ticks) if span > 0 and ticks > 0 else None


def _span(times: npt.NDArray[Any]) -> int:
    return int(times[-1]) - int(times[0])


def _line(core: CoreEvents, base: int, common: _Rate) -> _Line | None:
    """Return the line through a core's pairs: with the common rate if that fits, else with its own.

    A pair says that the shared ticks were ``shared`` to ``shared + 1`` at a time from ``time`` to
    ``time + took``. Returns None if the pairs contradict each other.
    """
    syncs, rate = core.syncs, common.rate
    if (syncs.shared[1:] < syncs.shared[:-1]).any() or int(syncs.shared[0]) < base:
        return None
    took = syncs.took.astype(np.float64)
    middle = (int(syncs.time[0]) + int(syncs.time[-1])) // 2
    time = (syncs.time - middle) + took / 2
    ticks = (syncs.shared - np.uint64(base)).astype(np.float64) + 0.5
    unknown = float((took / 2 + 0.5 / rate).max())
    span = _span(syncs.time)
    error, centre = _misfit(time, ticks, rate)
    assumed = max(_UNKNOWN_DRIFT, common.unknown)
    drift = min(assumed, 2 * (error + unknown) / span) if span else assumed
    if error > unknown and span:
        rate = float(np.polyfit(time, ticks, 1)[0])
        if not rate > 0:
            return None
        error, centre = _misfit(time, ticks, rate)
        drift = 2 * (error + unknown) / span
    events = core.events.time
    at_first, at_last = (centre + rate * (int(events[i]) - middle) for i in (0, -1))
    pairs = float(ticks[0]), float(ticks[-1])
    return _Line(middle, centre, rate, error + unknown, drift, pairs, (at_first, at_last))


def _misfit(
    time: npt.NDArray[np.float64], ticks: npt.NDArray[np.float64], rate: float
) -> tuple[float, float]:
    """Return the largest error of the best line of a rate, in ticks of the core, and its height."""
    left = ticks - rate * time
    least, most = float(left.min()), float(left.max())
    return (most - least) / 2 / rate, (most + least) / 2
