# SPDX-License-Identifier: Apache-2.0
"""How the clocks of several cores relate: an offset and a drift, and how far off they may be.

Each core tells now and then what the ticks were that all cores share. A straight line through these
pairs relates its clock to the ticks, and so to the clock of another core.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from boardprof.results.probes.core_events import CoreEvents, Ints, Syncs

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
    told += [(_span(each.syncs), _ticks(each.syncs)) for each in cores if len(each.syncs.time)]
    span, ticks = max(told, key=lambda each: each[1])
    return _Rate(ticks / span, 1 / ticks) if span > 0 and ticks > 0 else None


def _span(syncs: Syncs) -> int:
    return int(syncs.time[-1]) - int(syncs.time[0])


def _ticks(syncs: Syncs) -> int:
    return int(syncs.shared[-1]) - int(syncs.shared[0])


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
    span = _span(syncs)
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
