# SPDX-License-Identifier: Apache-2.0
"""What ranges, interrupts and tasks took: in a whole run, and in intervals of one that goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from boardprof.results.probes.core_events import WRAP
from boardprof.results.probes.run import ProbeRun, Slot, Task
from boardprof.results.probes.timeline import UNKNOWN_TASK, Timeline
from boardprof_protocol.codes import ProbeKind


@dataclass(frozen=True)
class RangeFigures:
    """The passes of a range or an interrupt, in ticks of the trace clock."""

    name: str
    count: int  # passes
    mean: float
    least: int
    most: int
    total: int  # of all, without passes that are within others of the same range
    lost: int = 0  # passes that are not counted, because they overlapped others


def range_figures(run: ProbeRun, timelines: Sequence[Timeline]) -> list[RangeFigures]:
    """Return the ranges with a pass by events, else by statistics, the largest total first.

    What other tasks, interrupts and probes took is left out of events, and what a probe takes out
    of statistics.
    """
    found = []
    slots = {slot.number: slot for slot in run.slots}
    for name in run.names.of_kind(ProbeKind.RANGE):
        passes = [line.ranges for line in timelines]
        mine = [each.of(name.number) for each in passes]
        nets = np.concatenate(
            [each.net[which] for each, which in zip(passes, mine, strict=True)]
            or [np.zeros(0, np.int64)]
        )
        slot = slots.get(name.number)
        if len(nets):
            total = sum(
                int(each.net[each.outermost(which)].sum())
                for each, which in zip(passes, mine, strict=True)
            )
            found.append(replace(_figures(name.text, nets), total=total))
        elif slot is not None and (slot.count or slot.lost):
            cost = run.costs.slot
            total = slot.sum - cost * slot.count
            mean = slot.mean - cost
            least, most = slot.least - cost, slot.most - cost
            found.append(RangeFigures(name.text, slot.count, mean, least, most, total, slot.lost))
    return sorted(found, key=lambda each: -each.total)


def interrupt_figures(timelines: Sequence[Timeline]) -> list[RangeFigures]:
    """Return the interrupts, likewise; those without a name go by their number."""
    nets: dict[str, list[npt.NDArray[np.int64]]] = {}
    for line in timelines:
        passes = line.interrupts
        kinds = np.unique(np.stack([passes.named, passes.number]), axis=1).T
        for named, number in kinds.tolist():
            text = line.names.by_number[number].text if named else f"interrupt {number}"
            mine = (passes.named == bool(named)) & (passes.number == number)
            nets.setdefault(text, []).append(passes.net[mine])
    found = [_figures(name, np.concatenate(each)) for name, each in nets.items()]
    return sorted(found, key=lambda each: -each.total)


def _figures(name: str, nets: npt.NDArray[np.int64]) -> RangeFigures:
    return RangeFigures(
        name, len(nets), float(nets.mean()), int(nets.min()), int(nets.max()), int(nets.sum())
    )


# -- intervals ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class RangeShare:
    """What the passes of a range that ended in an interval took, without what statistics cost."""

    name: str
    passes: int
    ticks: int


@dataclass(frozen=True)
class Interval:
    """What happened in an interval."""

    ticks: int  # of the trace clock that it lasted
    ranges: Sequence[RangeShare]  # with a pass, the one that takes most first
    tasks: Mapping[int, int] = field(default_factory=dict)  # ticks of each; empty without events
    interrupts: int = 0  # ticks for which interrupts had the core
    dropped: int = 0  # events that found no room since recording began
    named: Sequence[Task] = ()  # the tasks that have names


class Intervals:
    """Makes intervals of what was recorded since the last one."""

    def __init__(self, began: int) -> None:
        """Begin with the trace clock's 32 bits."""
        self._clock = began
        self._passed = 0
        self._slots: dict[int, Slot] = {}
        self._task: dict[int, int] = {}
        self._told: dict[int, int] = {}

    def look(self, now: int) -> None:
        """Take the trace clock's 32 bits, before they wrap."""
        self._passed += (now - self._clock) % WRAP
        self._clock = now

    def next(self, run: ProbeRun, before: int, now: int) -> Interval:
        """Return the interval up to now; ``before`` and ``now`` are the trace clock, 32 bits.

        It lasts from the look at the clock before the statistics were read to the look after that,
        so that ranges never take more than all of it. ``run`` has the events since the last
        interval, and the statistics since the start.
        """
        self.look(now)
        ticks, self._passed = self._passed, (now - before) % WRAP
        ranges = sorted(self._ranges(run), key=lambda each: -each.ticks)
        tasks: dict[int, int] = {}
        interrupts = dropped = 0
        for core, line in run.timelines(self._task, self._told).items():
            for task, time in line.task_ticks().items():
                tasks[task] = tasks.get(task, 0) + time
            interrupts += line.interrupt_ticks()
            dropped += line.dropped
            self._task[core] = _last_task(line)
            told = line.events.dropped - line.untold
            self._told[core] = self._told.get(core, 0) + told
        return Interval(ticks, ranges, tasks, interrupts, dropped, run.tasks)

    def _ranges(self, run: ProbeRun) -> list[RangeShare]:
        found = []
        for slot in run.slots:
            before = self._slots.get(slot.number)
            passes = slot.count - (before.count if before else 0)
            total = slot.sum - (before.sum if before else 0)
            self._slots[slot.number] = slot
            if passes > 0:
                name = run.names.by_number[slot.number].text
                found.append(RangeShare(name, passes, total - passes * run.costs.slot))
        return found


def _last_task(line: Timeline) -> int:
    return int(line.task[-1]) if len(line.events) else line.task_before


def is_known(tasks: Mapping[int, int]) -> bool:
    """Return whether any task is known: the firmware tells of its switches."""
    return any(task != UNKNOWN_TASK for task in tasks)
