# SPDX-License-Identifier: Apache-2.0
"""From the events of one core to passes of ranges, interrupts and tasks.

All of it works on columns, so that ten million events take seconds. Nothing is guessed: where the
board has dropped events, what began before and ended after is left out and counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from boardprof.results.probes.core_events import CoreClock, Ints
from boardprof.results.probes.events import Events, ProbeNames, gap, join
from boardprof_protocol.codes import ProbeKind, TraceId

UNKNOWN_TASK = -1
"""Before the first switch, and after dropped events until the next one."""


@dataclass(frozen=True)
class ProbeCosts:
    """What probes cost, in ticks of the trace clock, as the board has measured it."""

    empty: float = 0  # what a range with nothing in it counts; a mean like the next four
    mark: float = 0  # what a record without a value takes of the code around it
    value: float = 0  # the same with a value
    range: float = 0  # the same of the begin or the end of a range
    late: float | None = 0  # what a late record takes beyond `Events.took`; None if not known
    slot: int = 0  # what the statistics of an empty range count for each pass
    interrupt: int | None = None  # what it takes outside of its own two marks; None if not known


@dataclass(frozen=True)
class Passes:
    """Passes of ranges or interrupts, in the order of their begins."""

    number: Ints  # of the name; for an interrupt without a name, its own number
    named: npt.NDArray[np.bool_]  # whether ``number`` is that of a name
    begin: Ints  # ticks since recording began
    end: Ints
    task: Ints  # that ran; `UNKNOWN_TASK` if not known
    level: Ints  # 0 in a task, else how many interrupts were nested
    own: Ints  # ticks in which the range's task or interrupt itself ran
    net: Ints  # ``own`` without what probes and the entries of interrupts took
    interrupts: Ints  # that came within it
    at: Ints  # indices of the events with which they begin

    def __len__(self) -> int:
        """Return how many passes there are."""
        return len(self.begin)

    def of(self, number: int) -> npt.NDArray[np.bool_]:
        """Return which passes are those of a name."""
        found: npt.NDArray[np.bool_] = self.named & (self.number == number)
        return found

    def outermost(self, which: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Return which passes are not within another of these, as in a recursion of one task."""
        where = np.flatnonzero(which)
        found = np.zeros(len(which), np.bool_)
        context = np.stack([self.level, np.where(self.level > 0, UNKNOWN_TASK, self.task)])
        for at in _groups(where, context[:, where]):
            ended = np.maximum.accumulate(self.end[at])
            found[at[0]] = True
            found[at[1:]] = self.begin[at[1:]] >= ended[:-1]
        return found


@dataclass(frozen=True)
class Diagnostics:
    """What did not fit together."""

    dropped: int = 0  # events that the board has dropped
    gaps: int = 0  # how often it has dropped some
    unsure: int = 0  # events that were left out, since the clock may have wrapped
    unsure_gaps: int = 0  # how often that was so
    # ends by name: recording began within a pass, or the begin was dropped
    without_begin: Mapping[str, int] = field(default_factory=dict)
    without_end: Mapping[str, int] = field(default_factory=dict)  # begins by name


class Timeline:
    """The events of one core, put together."""

    def __init__(
        self,
        events: Events,
        names: ProbeNames,
        costs: ProbeCosts,
        end: int | None = None,
        dropped: int = 0,
        task_before: int = UNKNOWN_TASK,
        unsure: int = 0,
        clock: CoreClock = CoreClock(),  # noqa: B008
        told: int = 0,
    ) -> None:
        """Put events together; ``told`` of the dropped ones were told in earlier events.

        The board tells in an event how many it has dropped, as soon as there is room. If there was
        none until the end, DROPPED is added here, as nothing is known of what came after the last
        event.
        """
        self.untold = max(0, dropped - told - events.dropped)  # events that no event tells of
        if self.untold:
            last = int(events.time[-1]) if len(events) else 0
            events = join([events, gap(last, self.untold)])
        self.events = events
        self.names = names
        self.costs = costs
        last = int(events.time[-1]) if len(events) else 0
        self.end = max(last, end if end is not None else last)  # not before the last event
        self.task_before = task_before
        self.unsure = unsure
        self.clock = clock  # relates times to those of other cores
        self.dropped = max(dropped, told + events.dropped)
        self._without_begin: dict[str, int] = {}
        self._without_end: dict[str, int] = {}

    def common(self, times: Ints) -> Ints:
        """Return times of this core on the clock that all cores have in common."""
        return self.clock.common(times)

    @property
    def unsure_gaps(self) -> int:
        """In how many places events were left out, since the clock may have wrapped."""
        return int((self._dropped_events == 0).sum())

    @property
    def _dropped_events(self) -> npt.NDArray[np.uint32]:
        found: npt.NDArray[np.uint32] = self.events.value[self.events.number == TraceId.DROPPED]
        return found

    # -- what runs after each event -----------------------------------------------------------

    @cached_property
    def _segment(self) -> Ints:
        """How often events were dropped before each event, itself included."""
        return np.cumsum(self.events.number == TraceId.DROPPED)

    @cached_property
    def _interrupt_step(self) -> npt.NDArray[np.int8]:
        """1 where an interrupt begins, -1 where one ends."""
        step = np.zeros(max(self.names.end, 16), np.int8)
        step[TraceId.INTERRUPT_ENTER], step[TraceId.INTERRUPT_EXIT] = 1, -1
        for name in self.names.of_kind(ProbeKind.INTERRUPT):
            step[name.number], step[name.number + 1] = 1, -1
        found: npt.NDArray[np.int8] = step[self.events.number]
        return found

    @cached_property
    def level(self) -> Ints:
        """How many interrupts are nested after each event."""
        return _depth(self._interrupt_step, self._segment)

    @cached_property
    def task(self) -> Ints:
        """The task that has the core after each event."""
        number = self.events.number
        known = (number == TraceId.TASK) | (number == TraceId.DROPPED)
        value = np.where(number == TraceId.TASK, self.events.value.astype(np.int64), UNKNOWN_TASK)
        last = np.maximum.accumulate(np.where(known, np.arange(len(number)), -1))
        return np.where(last < 0, self.task_before, value[np.maximum(last, 0)])

    @cached_property
    def _after(self) -> Ints:
        """Ticks from each event to the next one."""
        return np.diff(self.events.time, append=self.end)

    # -- ranges -------------------------------------------------------------------------------

    @cached_property
    def ranges(self) -> Passes:
        """All complete passes of ranges."""
        numbers = self.names.of_kind(ProbeKind.RANGE)
        where = np.flatnonzero(self._is_range)
        begins, ends = [], []
        number = self.events.number[where]
        context = np.stack([self.level[where], self.task[where]])
        context[1, context[0] > 0] = UNKNOWN_TASK
        for name in numbers:
            mine = (number == name.number) | (number == name.number + 1)
            for at in _groups(where[mine], context[:, mine]):
                step = np.where(self.events.number[at] == name.number, 1, -1).astype(np.int8)
                pairs = _match(step, self._segment[at])
                begins.append(at[pairs.begin])
                ends.append(at[pairs.end])
                _count(self._without_begin, name.text, pairs.without_begin)
                _count(self._without_end, name.text, pairs.without_end)
        return self._passes(_joined(begins), _joined(ends), True, self.costs.empty)

    @cached_property
    def _is_range(self) -> npt.NDArray[np.bool_]:
        """Which events begin or end a range."""
        found = np.zeros(max(self.names.end, 16), np.bool_)
        for name in self.names.of_kind(ProbeKind.RANGE):
            found[[name.number, name.number + 1]] = True
        taken: npt.NDArray[np.bool_] = found[self.events.number]
        return taken

    @cached_property
    def interrupts(self) -> Passes:
        """All complete interrupts."""
        where = np.flatnonzero(self._interrupt_step)
        step = self._interrupt_step[where]
        pairs = _match(step, self._segment[where])
        _count(self._without_begin, "interrupts", pairs.without_begin)
        _count(self._without_end, "interrupts", pairs.without_end)
        begin, end = where[pairs.begin], where[pairs.end]
        named = self.events.number[begin] != TraceId.INTERRUPT_ENTER
        # Between its two marks there is what one of them takes.
        return self._passes(begin, end, named, self.costs.mark)

    def _passes(
        self, begin: Ints, end: Ints, named: bool | npt.NDArray[np.bool_], empty: float
    ) -> Passes:
        order = np.argsort(begin, kind="stable")
        begin, end = begin[order], end[order]
        all_named = np.broadcast_to(np.asarray(named), begin.shape)
        all_named = all_named[order] if all_named.size else all_named
        level, task = self.level[begin], self.task[begin]
        own, net = np.zeros_like(begin), np.zeros_like(begin)
        came = np.zeros_like(begin)
        context = np.stack([level, np.where(level > 0, UNKNOWN_TASK, task)])
        late = self._late
        for at in _groups(np.arange(len(begin)), context):
            ran, probes, entered = self._sums(int(level[at[0]]), int(task[at[0]]))
            own[at] = ran[end[at]] - ran[begin[at]]
            came[at] = entered[end[at]] - entered[begin[at]]
            # What a late record takes in addition, it takes after it has read the clock.
            inner = probes[end[at]] - probes[begin[at] + 1] + late[begin[at]]
            left = own[at] - empty - inner - came[at] * (self.costs.interrupt or 0)
            net[at] = np.rint(left).astype(np.int64)
        times, number = self.events.time, self.events.number.astype(np.int64)
        own_number = self.events.value[begin].astype(np.int64)
        return Passes(
            np.where(all_named, number[begin], own_number),
            all_named,
            times[begin],
            times[end],
            task,
            level,
            own,
            net,
            came,
            begin,
        )

    @cached_property
    def _late(self) -> npt.NDArray[np.float64]:
        """What each event took in addition, because it was late."""
        more = self.events.took.astype(np.float64) + (self.costs.late or 0)
        return np.where(self.events.late, more, 0.0)

    def _sums(self, level: int, task: int) -> tuple[Ints, npt.NDArray[np.float64], Ints]:
        """Return sums before each event in a context: its ticks, those of probes, interrupts."""
        runs = self.level == level
        if level == 0:
            runs &= self.task == task
        before = np.concatenate([[False], runs[:-1]])
        cost = np.where(self.has_value, self.costs.value, self.costs.mark)
        cost = np.where(self._is_range, self.costs.range, cost)
        enters = (self._interrupt_step > 0) & before
        # What a late record takes in addition comes after it: of an interrupt's end, in the task.
        late = np.where(runs, self._late, 0.0)
        return (
            _sum_before(np.where(runs, self._after, 0)),
            _sum_before(np.where(before & (self._interrupt_step <= 0), cost, 0) + late),
            _sum_before(enters),
        )

    @cached_property
    def has_value(self) -> npt.NDArray[np.bool_]:
        """Whether each event has a value."""
        values = np.zeros(max(self.names.end, 256), np.bool_)
        values[:256] = self.names.has_value
        found: npt.NDArray[np.bool_] = values[self.events.number]
        return found

    # -- tasks --------------------------------------------------------------------------------

    def task_ticks(self) -> dict[int, int]:
        """Return for each task how long it had the core, without interrupts."""
        found: dict[int, int] = {}
        outside = self.level == 0
        for task in np.unique(self.task):
            mine = outside & (self.task == task)
            found[int(task)] = int(self._after[mine].sum())
        before = int(self.events.time[0]) if len(self.events) else self.end
        if before:
            found[self.task_before] = found.get(self.task_before, 0) + before
        return found

    def interrupt_ticks(self) -> int:
        """Return how long interrupts had the core."""
        return int(self._after[self.level > 0].sum())

    @property
    def diagnostics(self) -> Diagnostics:
        """What did not fit together."""
        _ = self.ranges, self.interrupts
        return Diagnostics(
            self.dropped,
            int((self._dropped_events > 0).sum()),
            self.unsure,
            self.unsure_gaps,
            dict(self._without_begin),
            dict(self._without_end),
        )


# -- pairs --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Pairs:
    """Indices of begins and of their ends, and how many have no partner."""

    begin: Ints
    end: Ints
    without_begin: int
    without_end: int


def _depth(step: npt.NDArray[np.int8], segment: Ints) -> Ints:
    """Return how many are open after each step; 0 at the beginning of each segment."""
    total = np.cumsum(step, dtype=np.int64)
    first = np.concatenate([[True], np.diff(segment) != 0])[: len(step)]
    base = np.zeros(len(step), np.int64)
    base[first] = (total - step)[first]
    starts = np.maximum.accumulate(np.where(first, np.arange(len(step)), 0))
    total -= base[starts]
    # More ends than begins: what had begun before is left out. The offset keeps segments apart.
    apart = segment * (2 * len(step) + 2)
    lowest = np.minimum.accumulate(np.minimum(total, 0) - apart) + apart
    return total - lowest


def _match(step: npt.NDArray[np.int8], segment: Ints) -> _Pairs:
    """Find the end of each begin."""
    depth = _depth(step, segment)
    before = np.concatenate([[0], depth[:-1]])
    before[1:][np.diff(segment) != 0] = 0
    is_begin = step > 0
    orphan = ~is_begin & (before == 0)
    level = np.where(is_begin, depth, depth + 1)
    kept = np.flatnonzero(~orphan)
    order = kept[np.lexsort((level[kept], segment[kept]))]  # stable: else in their own order
    same = (level[order][1:] == level[order][:-1]) & (segment[order][1:] == segment[order][:-1])
    paired = np.flatnonzero(is_begin[order][:-1] & ~is_begin[order][1:] & same)
    begin, end = order[paired], order[paired + 1]
    return _Pairs(begin, end, int(orphan.sum()), int(is_begin.sum()) - len(begin))


def _groups(where: Ints, context: Ints) -> list[Ints]:
    """Return indices by equal columns of ``context``, level and task, each group in order."""
    if not len(where):
        return []
    level, task = context
    # One number for both, as sorting pairs takes ten times as long: a task has 32 bits, or is -1.
    key = level * (1 << 33) + task
    if (key == key[0]).all():
        return [where]
    _, group = np.unique(key, return_inverse=True)
    group = group.astype(np.min_scalar_type(int(group.max())))
    order = np.argsort(group, kind="stable")
    cuts = np.flatnonzero(np.diff(group[order])) + 1
    return np.split(where[order], cuts)


def _sum_before(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the sum of all values before each index, and of all."""
    kind = np.float64 if values.dtype.kind == "f" else np.int64
    return np.concatenate([np.zeros(1, kind), np.cumsum(values, dtype=kind)])


def _joined(pieces: list[Ints]) -> Ints:
    return np.concatenate(pieces) if pieces else np.zeros(0, np.int64)


def _count(counts: dict[str, int], name: str, more: int) -> None:
    if more:
        counts[name] = counts.get(name, 0) + more
