# SPDX-License-Identifier: Apache-2.0
"""What running firmware did in one interval of time: ranges by statistics, tasks by events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from boardprof.results.probes.core_events import WRAP
from boardprof.results.probes.recording import ProbeRecording, Slot, Task
from boardprof.results.probes.timeline import UNKNOWN_TASK, Timeline


@dataclass(frozen=True)
class RangeShare:
    """What a range took in an interval.

    Attributes:
        name: of the range.
        passes: that ended in it.
        ticks: of all of them, without what the statistics cost.
    """

    name: str
    passes: int
    ticks: int


@dataclass(frozen=True)
class Interval:
    """What happened in an interval.

    Attributes:
        ticks: of the trace clock that it lasted.
        ranges: with a pass, the one that takes most first.
        tasks: how long each task had the core; empty without events.
        interrupts: how long interrupts had it.
        dropped: events that found no room since recording began.
        named: the tasks that have names.
    """

    ticks: int
    ranges: Sequence[RangeShare]
    tasks: Mapping[int, int] = field(default_factory=dict)
    interrupts: int = 0
    dropped: int = 0
    named: Sequence[Task] = ()


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

    def next(self, recording: ProbeRecording, before: int, now: int) -> Interval:
        """Return the interval up to now.

        The statistics were read between two looks at the clock. An interval lasts from the look
        before to the look after, so that ranges never take more than all of it.

        Args:
            recording: the events since the last interval, and the statistics since the start.
            before: the trace clock, 32 bits, before the statistics were read.
            now: likewise after that.
        """
        self.look(now)
        ticks, self._passed = self._passed, (now - before) % WRAP
        ranges = sorted(self._ranges(recording), key=lambda each: -each.ticks)
        tasks: dict[int, int] = {}
        interrupts = dropped = 0
        for core, line in recording.timelines(self._task, self._told).items():
            for task, time in line.task_ticks().items():
                tasks[task] = tasks.get(task, 0) + time
            interrupts += line.interrupt_ticks()
            dropped += line.dropped
            self._task[core] = _last_task(line)
            told = line.events.dropped - line.untold
            self._told[core] = self._told.get(core, 0) + told
        return Interval(ticks, ranges, tasks, interrupts, dropped, recording.tasks)

    def _ranges(self, recording: ProbeRecording) -> list[RangeShare]:
        found = []
        for slot in recording.slots:
            before = self._slots.get(slot.number)
            passes = slot.count - (before.count if before else 0)
            total = slot.sum - (before.sum if before else 0)
            self._slots[slot.number] = slot
            if passes > 0:
                name = recording.names.by_number[slot.number].text
                found.append(RangeShare(name, passes, total - passes * recording.costs.slot))
        return found


def _last_task(line: Timeline) -> int:
    return int(line.task[-1]) if len(line.events) else line.task_before


def is_known(tasks: Mapping[int, int]) -> bool:
    """Return whether any task is known: the firmware tells of its switches."""
    return any(task != UNKNOWN_TASK for task in tasks)
