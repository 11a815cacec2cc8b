# SPDX-License-Identifier: Apache-2.0
"""From the events of one core to passes of ranges, interrupts and tasks.

All of it works on columns, a million events at a time, so that fifty million events take seconds,
and little more memory than the events and their passes. Nothing is guessed: where the board has
dropped events, what began before and ended after is left out and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from boardprof.results.probes.core_events import CoreClock, Ints
from boardprof.results.probes.events import Events, ProbeNames, gap, join
from boardprof_protocol.codes import ProbeKind, TraceId

_AT_ONCE = 1 << 20
"""Events that are put together at once: what lies between takes no memory for all of them."""

UNKNOWN_TASK = -1  # before the first switch, and after dropped events until the next one


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
        for at in _groups(where, self.level[where], self.task[where]):
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
        last = int(events.time[-1]) if len(events) else 0
        self.events = join([events, gap(last, self.untold)]) if self.untold else events
        self.names = names
        self.costs = costs
        self.end = max(last, end or 0)  # not before the last event
        self.task_before = task_before
        self.unsure = unsure
        self.clock = clock  # relates times to those of other cores
        self.dropped = max(dropped, told + self.events.dropped)
        self._without_begin: Counter[str] = Counter()
        self._without_end: Counter[str] = Counter()

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
        dropped = self.events.number == TraceId.DROPPED
        return np.cumsum(dropped, dtype=np.int32) if dropped.any() else _same(0, len(dropped))

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
        count = len(self.events)
        if not self._interrupt_step.any():
            return _same(0, count)
        found: Ints = np.empty(count, np.int16)
        before, since = 0, -1
        for part in _parts(count):
            segment = self._segment[part]
            depth = _depth(self._interrupt_step[part], segment, before, since)
            if depth.max() > np.iinfo(found.dtype).max:
                found = found.astype(np.int64)
            found[part] = depth
            before, since = int(depth[-1]), int(segment[-1])
        return found

    @cached_property
    def task(self) -> Ints:
        """The task that has the core after each event."""
        number = self.events.number
        known = np.flatnonzero((number == TraceId.TASK) | (number == TraceId.DROPPED))
        if not len(known):
            return _same(self.task_before, len(number))
        is_task = number[known] == TraceId.TASK
        value = np.where(is_task, self.events.whole(known), UNKNOWN_TASK)
        times = np.diff(known, prepend=0, append=len(number))
        return np.repeat(np.concatenate([[self.task_before], value]), times)

    @cached_property
    def _after(self) -> Ints:
        """Ticks from each event to the next one."""
        return np.diff(self.events.time, append=self.end)

    # -- ranges -------------------------------------------------------------------------------

    @cached_property
    def ranges(self) -> Passes:
        """All complete passes of ranges."""
        return self._passes(self._pairs_of_ranges(), self.costs.empty)

    def _pairs_of_ranges(self) -> list[tuple[Ints, Ints]]:
        """Return the indices of begins and ends of ranges, those of one context together."""
        streams: dict[tuple[int, int, int], _Stream] = {}
        for part in _parts(len(self.events)):
            range_of = self._range_of[self.events.number[part]]
            for name in np.flatnonzero(np.bincount(range_of)).tolist():
                where = np.flatnonzero(range_of == name) + part.start
                for at in _groups(where, self.level[where], self.task[where]) if name else ():
                    key = (name, *self._context(int(at[0])))
                    step = np.where(self.events.number[at] == name, 1, -1).astype(np.int8)
                    streams.setdefault(key, _Stream()).add(at, step, self._segment[at])
        pairs: dict[tuple[int, int], list[tuple[Ints, Ints]]] = {}
        for key in sorted(streams):
            (number, *context), stream = key, streams.pop(key)
            text = self.names.by_number[number].text
            self._without_begin[text] += stream.without_begin
            self._without_end[text] += stream.without_end
            pairs.setdefault((context[0], context[1]), []).append(stream.pairs())
        joined = (
            (_joined([begin for begin, _ in each]), _joined([end for _, end in each]))
            for each in pairs.values()
        )
        return [(begin, end) for begin, end in joined if len(begin)]

    @cached_property
    def _range_of(self) -> npt.NDArray[np.uint16]:
        """For each number, that of the range which it begins or ends; else 0."""
        found = np.zeros(max(self.names.end, 16), np.uint16)
        for name in self.names.of_kind(ProbeKind.RANGE):
            found[[name.number, name.number + 1]] = name.number
        return found

    def _context(self, event: int) -> tuple[int, int]:
        """Return the level of an event, and its task if no interrupt had the core."""
        level = int(self.level[event])
        return level, int(self.task[event]) if level == 0 else UNKNOWN_TASK

    @cached_property
    def interrupts(self) -> Passes:
        """All complete interrupts."""
        stream = _Stream()
        for part in _parts(len(self.events)):
            where = np.flatnonzero(self._interrupt_step[part]) + part.start
            if len(where):
                stream.add(where, self._interrupt_step[where], self._segment[where])
        begin, end = stream.pairs()
        self._without_begin["interrupts"] += stream.without_begin
        self._without_end["interrupts"] += stream.without_end
        groups = _groups(np.arange(len(begin)), self.level[begin], self.task[begin])
        # Between its two marks there is what one of them takes.
        return self._passes([(begin[at], end[at]) for at in groups], self.costs.mark)

    def _passes(self, pairs: list[tuple[Ints, Ints]], empty: float) -> Passes:
        """Return passes from the indices of their begins and ends, those of a context together.

        The list is used up, since there may be many.
        """
        found: list[tuple[Ints, ...]] = []
        while pairs:
            begin, end = _sorted(*pairs.pop())
            level = _same(int(self.level[begin[0]]), len(begin))
            task = _same(int(self.task[begin[0]]), len(begin))
            if level[0] > 0:  # an interrupt may come in any task
                task = self.task[begin]
            found.append((begin, end, level, task, *self._costs_of(begin, end, empty)))
        joined = [_joined([columns[i] for columns in found]) for i in range(7)]
        if len(found) > 1:
            order = np.argsort(joined[0], kind="stable")
            joined = [column[order] for column in joined]
        begin, end, level, task, own, net, came = joined
        number = _taken(self.events.number, begin)
        named: npt.NDArray[np.bool_] = number != TraceId.INTERRUPT_ENTER
        if named.all():
            named = np.broadcast_to(np.True_, named.shape)
        else:
            number = np.where(named, number, _taken(self.events.value, begin)).astype(np.int64)
        return Passes(
            number,
            named,
            _taken(self.events.time, begin),
            _taken(self.events.time, end),
            task,
            level,
            own,
            net,
            came,
            begin,
        )

    def _costs_of(self, begin: Ints, end: Ints, empty: float) -> tuple[Ints, Ints, Ints]:
        """Return ticks and net ticks of passes of one context, and the interrupts in each."""
        count = len(begin)
        own, probes = np.zeros(count, np.int64), np.zeros(count)
        has_interrupts = self._interrupt_step.any()
        came = np.zeros(count, np.int64) if has_interrupts else _same(0, count)
        by_end = None if (end[1:] >= end[:-1]).all() else np.argsort(end, kind="stable")
        ends = end if by_end is None else end[by_end]
        level, task = self._context(int(begin[0]))
        done = 0, 0
        for first, ran, taken, entered in self._sums(level, task):
            after = first + len(ran) - 1
            stop = begin.dtype.type(after)  # or a column would be copied
            stops = int(np.searchsorted(begin, stop)), int(np.searchsorted(ends, stop))
            some, at = slice(done[0], stops[0]), begin[done[0] : stops[0]] - first
            own[some] -= ran[at]
            probes[some] -= taken[at + 1]
            last: Any = slice(done[1], stops[1])
            place = ends[last] - first
            if by_end is not None:
                last = by_end[last]
            own[last] += ran[place]
            probes[last] += taken[place]
            if has_interrupts:
                came[some] -= entered[at]
                came[last] += entered[place]
            done = stops
        net = np.empty(count, np.int64)
        for part in _parts(count):
            # What a late record takes in addition, it takes after it has read the clock.
            inner = probes[part] + self._late(begin[part])
            left = own[part] - empty - inner - came[part] * (self.costs.interrupt or 0)
            net[part] = np.rint(left).astype(np.int64)
        return own, net, came

    def _late(self, events: slice | Ints) -> npt.NDArray[np.float64]:
        """Return what events took in addition, because they were late."""
        late = self.events.late[events]
        if not late.any():
            return np.zeros(len(late))
        more = self.events.took[events].astype(np.float64) + (self.costs.late or 0)
        return np.where(late, more, 0.0)

    def _sums(
        self, level: int, task: int
    ) -> Iterator[tuple[int, Ints, npt.NDArray[np.float64], Ints]]:
        """Yield sums before each event in a context: its ticks, those of probes, interrupts.

        They come in parts: the index of the first event, and the sums before it, before the next
        one, and so on until after the last one.
        """
        had = False
        ran, taken, entered = np.zeros(1, np.int64), np.zeros(1), np.zeros(1, np.int64)
        for part in _parts(len(self.events)):
            runs = self.level[part] == level
            if level == 0:
                runs &= self.task[part] == task
            before = np.concatenate([[had], runs[:-1]])
            had = bool(runs[-1])
            number, step = self.events.number[part], self._interrupt_step[part]
            cost = np.where(self._values[number], self.costs.value, self.costs.mark)
            cost = np.where(self._range_of[number] > 0, self.costs.range, cost)
            # What a late record takes in addition comes after it: of an interrupt's end, in the
            # task.
            cost = np.where(before & (step <= 0), cost, 0) + np.where(runs, self._late(part), 0.0)
            following = self.events.time[part.start + 1 : part.stop + 1]
            if part.stop >= len(self.events):
                following = np.append(following, self.end)
            after = np.where(runs, following - self.events.time[part], 0)
            ran, taken = _sums_from(ran[-1:], after), _sums_from(taken[-1:], cost)
            entered = _sums_from(entered[-1:], (step > 0) & before)
            yield part.start, ran, taken, entered

    @cached_property
    def _values(self) -> npt.NDArray[np.bool_]:
        """Whether the event of each number has a value."""
        values = np.zeros(max(self.names.end, 256), np.bool_)
        values[:256] = self.names.has_value
        return values

    @property
    def has_value(self) -> npt.NDArray[np.bool_]:
        """Whether each event has a value."""
        found: npt.NDArray[np.bool_] = self._values[self.events.number]
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
            dict(+self._without_begin),
            dict(+self._without_end),
        )


# -- pairs --------------------------------------------------------------------------------------


class _Stream:
    """Begins and ends in one context. Each end belongs to the last open begin."""

    def __init__(self) -> None:
        """Begin without events."""
        self._begins: list[Ints] = []
        self._ends: list[Ints] = []
        self._open = np.zeros(0, np.int64)  # begins without an end so far, all of one segment
        self._of = -1  # that segment
        self.without_begin = self._lost = 0

    @property
    def without_end(self) -> int:
        """How many begins have no end."""
        return self._lost + len(self._open)

    def add(self, at: Ints, step: npt.NDArray[np.int8], segment: Ints) -> None:
        """Add the next events, at least one: their indices, and 1 for begins, -1 for ends."""
        kept = max(0, len(self._open) - int((step < 0).sum()))  # no end can belong to these
        before = len(self._open) - kept
        at = np.concatenate([self._open[kept:], at])
        step = np.concatenate([np.ones(before, np.int8), step])
        segment = np.concatenate([np.full(before, self._of, segment.dtype), segment])
        begin, end, opened, without_begin = _match(step, segment)
        self._begins.append(_narrow(at[begin]))
        self._ends.append(_narrow(at[end]))
        self.without_begin += without_begin
        last = int(segment[-1])
        still = opened[segment[opened] == last]
        kept_open = self._open[:kept] if self._of == last else self._open[:0]
        self._lost += len(opened) - len(still) + kept - len(kept_open)
        self._open, self._of = np.concatenate([kept_open, at[still]]), last

    def pairs(self) -> tuple[Ints, Ints]:
        """Return the indices of begins, and of their ends."""
        return _joined(self._begins), _joined(self._ends)


def _parts(count: int) -> Iterator[slice]:
    """Yield the parts of a column that are looked at at once."""
    for first in range(0, count, _AT_ONCE):
        yield slice(first, min(first + _AT_ONCE, count))


def _same(value: int, count: int) -> Ints:
    """Return a column of equal values, which takes no memory."""
    return np.broadcast_to(np.int64(value), count)


def _narrow(indices: Ints) -> Ints:
    """Return indices with 32 bits, if these are enough."""
    return indices if len(indices) and indices.max() >= 1 << 31 else indices.astype(np.int32)


def _taken(values: Ints, at: Ints) -> Ints:
    """Return the values at narrow indices, which numpy would widen all at once."""
    found = np.empty(len(at), values.dtype)
    for part in _parts(len(at)):
        found[part] = values[at[part]]
    return found


def _sorted(begin: Ints, end: Ints) -> tuple[Ints, Ints]:
    if (begin[1:] >= begin[:-1]).all():
        return begin, end
    order = np.argsort(begin, kind="stable")
    return begin[order], end[order]


def _depth(step: npt.NDArray[np.int8], segment: Ints, before: int = 0, since: int = -1) -> Ints:
    """Return how many are open after each step; 0 at the beginning of each segment.

    ``before`` were open before the first step, if that is in the segment ``since``, too.
    """
    total = before + np.cumsum(step, dtype=np.int64)
    segment = segment.astype(np.int64)
    first = np.diff(segment, prepend=since) != 0
    base = np.zeros(len(step), np.int64)
    base[first] = (total - step)[first]
    starts = np.maximum.accumulate(np.where(first, np.arange(len(step)), 0))
    total -= base[starts]
    # More ends than begins: what had begun before is left out. The offset keeps segments apart.
    apart = segment * (2 * len(step) + 2 + before)
    lowest = np.minimum.accumulate(np.minimum(total, 0) - apart) + apart
    return total - lowest


def _match(step: npt.NDArray[np.int8], segment: Ints) -> tuple[Ints, Ints, Ints, int]:
    """Return begins and their ends, begins without an end, and how many ends have no begin."""
    is_begin = step > 0
    if not (is_begin[1::2].any() or segment[0] != segment[-1]) and is_begin[::2].all():
        begin, end = np.arange(0, len(step) - 1, 2), np.arange(1, len(step), 2)
        return begin, end, np.arange(2 * len(begin), len(step)), 0
    depth = _depth(step, segment)
    before = np.concatenate([[0], depth[:-1]])
    before[1:][np.diff(segment) != 0] = 0
    orphan = ~is_begin & (before == 0)
    level = np.where(is_begin, depth, depth + 1)
    order = np.flatnonzero(~orphan)
    for key in (level, segment - segment[0]):
        order = order[_order_of(key[order])]
    same = (level[order][1:] == level[order][:-1]) & (segment[order][1:] == segment[order][:-1])
    paired = np.flatnonzero(is_begin[order][:-1] & ~is_begin[order][1:] & same)
    begin, end = order[paired], order[paired + 1]
    is_begin[begin] = False
    return begin, end, np.flatnonzero(is_begin), int(orphan.sum())


def _order_of(values: Ints) -> npt.NDArray[np.intp]:
    """Return the indices of values from 0 in ascending order; equal ones keep theirs.

    Numbers of 16 bits are sorted ten times as fast.
    """
    most = int(values.max()) if len(values) else 0
    return np.argsort(values.astype(np.min_scalar_type(most)), kind="stable")


def _groups(where: Ints, level: Ints, task: Ints) -> list[Ints]:
    """Return indices by the context of each: its level, and at level 0 its task; in their order."""
    if not len(where):
        return []
    # One number for both, as sorting pairs takes ten times as long: no task is below -1.
    key = np.where(level > 0, UNKNOWN_TASK - level.astype(np.int64), task)
    if (key == key[0]).all():
        return [where]
    _, group = np.unique(key, return_inverse=True)
    order = _order_of(group)
    cuts = np.flatnonzero(np.diff(group[order])) + 1
    return np.split(where[order], cuts)


def _sums_from(first: npt.NDArray[Any], values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a sum, and it with each of the values added, one after the other."""
    return np.cumsum(np.concatenate([first, values]), dtype=first.dtype)


def _joined(pieces: Sequence[Ints]) -> Ints:
    if len(pieces) == 1:
        return pieces[0]
    return np.concatenate(pieces) if pieces else np.zeros(0, np.int64)
