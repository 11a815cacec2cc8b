# SPDX-License-Identifier: Apache-2.0
"""A run of probes as what programs for traces draw: tracks of slices, marks, and counters.

Slices of a track that overlap without nesting go to further lanes, because no program can draw them
otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

import numpy as np
import numpy.typing as npt

from boardprof.base.errors import UsageError
from boardprof.results.probes.core_events import Ints
from boardprof.results.probes.events import VALUES, ProbeName
from boardprof.results.probes.heap import Heap, heap_of
from boardprof.results.probes.run import ProbeRun, Task, task_name
from boardprof.results.probes.timeline import UNKNOWN_TASK, Passes, Timeline
from boardprof.show.chrome_trace import nesting
from boardprof_protocol.codes import ProbeKind, TraceId

DROPPED = "events dropped"  # name of a mark where the board has dropped some, and of their counter
_NS = 10**9


@dataclass(frozen=True)
class Lane:
    """Slices that nest, in the order of their begins; of equal ones the longer comes first."""

    begin: Ints
    end: Ints
    name: Ints  # numbers in `ProbeTracks.names`
    parent: Ints  # index of the slice around it, -1 if there is none
    own: Ints  # ticks that it had the core, what is nested in it included

    def edges(self) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """Return each begin and end as the index of its slice, and whether it is a begin."""
        # Each end belongs to the last open begin.
        which = np.arange(len(self.begin))
        is_empty = self.begin == self.end
        index = np.concatenate([which, which])
        is_begin = np.repeat([True, False], len(which))
        time = np.concatenate([self.begin, self.end])
        # At one time: ends of earlier slices, the inner ones first; then begins; then empty slices.
        empty = np.concatenate([is_empty, is_empty])
        phase = np.where(empty, 2, is_begin)
        place = np.where(empty, 2 * index + ~is_begin, np.where(is_begin, index, -index))
        order = np.lexsort((place, phase, time))
        return index[order], is_begin[order]


class TrackKind(Enum):
    """What a track is of."""

    CORE = "core"
    TASK = "task"
    INTERRUPT = "interrupt"


@dataclass(frozen=True)
class Track:
    """Slices and marks of a core, a task or an interrupt; names are those of `ProbeTracks`."""

    core: int
    kind: TrackKind
    title: str
    lanes: tuple[Lane, ...]
    mark_time: Ints
    mark_name: Ints


@dataclass(frozen=True)
class Counter:
    """A number over time: ``value`` after each change."""

    core: int
    title: str
    unit: str  # "" if not known
    time: Ints
    value: npt.NDArray[np.float64]
    is_whole: bool = True


@dataclass
class ProbeTracks:
    """What there is to draw; times are ns, or ticks of a clock whose rate is not known."""

    run: ProbeRun
    timelines: dict[int, Timeline] = field(init=False)
    names: list[str] = field(init=False, default_factory=list)
    tracks: list[Track] = field(init=False, default_factory=list)  # a core's own first
    counters: list[Counter] = field(init=False, default_factory=list)  # live memory, drops too

    def __post_init__(self) -> None:
        """Put the run's events on tracks; a damaged run is a DecodeError."""
        self._numbers: dict[str, int] = {}
        self.timelines = self.run.timelines()
        for core, timeline in self.timelines.items():
            self.tracks += _Core(self, core, timeline).tracks()
            self.counters += self._values(core, timeline)
        if self.heap is not None:
            time, live = self.times(self.heap.time), self.heap.live.astype(np.float64)
            self.counters.append(Counter(min(self.timelines), "live memory", "bytes", time, live))

    @cached_property
    def heap(self) -> Heap | None:
        """What happened to memory."""
        return heap_of(self.timelines.values())

    @property
    def unit(self) -> str:
        """What times are: ``ns``, or the clock's unit if its rate is not known."""
        return "ns" if self.run.clock.hz else self.run.clock.unit

    @property
    def unit_note(self) -> str:
        """What programs must be told that think of all times as ns; "" if they are."""
        return "" if self.run.clock.hz else f"times are {self.run.clock.unit}, not ns"

    def rows(self, core: int) -> Iterator[tuple[str, Lane | None, Track | None]]:
        """Yield title and slices of each lane of a core, and the track whose marks are on it."""
        for track in self.tracks:
            if track.core == core:
                yield track.title, next(iter(track.lanes), None), track
                for number, lane in enumerate(track.lanes[1:], 2):
                    yield f"{track.title} ({number})", lane, None

    def process(self, core: int) -> str:
        """Return the title of a core's tracks."""
        note = f" ({self.unit_note})" if self.unit_note else ""
        return f"{self.run.facts.board}, core {core}{note}"

    @property
    def end(self) -> int:
        """When recording ended."""
        ends = [each.common(np.array([each.end])) for each in self.timelines.values()]
        return int(self.times(np.max(ends, axis=0))[0]) if ends else 0

    def times(self, ticks: Ints) -> Ints:
        """Return ticks of the trace clock as times, rounded to the nearest one."""
        hz = self.run.clock.hz
        if not hz:
            return ticks
        # Without floats and without overflow: the rest is less than 2^32, its product than 2^62.
        return ticks // hz * _NS + (ticks % hz * _NS + hz // 2) // hz

    def name(self, text: str) -> int:
        """Return the number of a name."""
        if text not in self._numbers:
            self._numbers[text] = len(self.names)
            self.names.append(text)
        return self._numbers[text]

    def _values(self, core: int, timeline: Timeline) -> Iterator[Counter]:
        events = timeline.events
        for name in timeline.names.of_kind(*VALUES):
            mine = events.number == name.number
            if mine.any():
                time = self.times(timeline.common(events.time[mine]))
                value = _numbers_of(name, events.value[mine])
                yield Counter(core, name.text, "", time, value, name.kind != ProbeKind.F32)
        time, dropped = gaps_of(timeline)
        if len(time):
            total = np.cumsum(dropped).astype(np.float64)
            yield Counter(core, DROPPED, "events", self.times(timeline.common(time)), total)


def _numbers_of(name: ProbeName, value: npt.NDArray[np.uint32]) -> npt.NDArray[np.float64]:
    kinds = {ProbeKind.I32: np.dtype(np.int32), ProbeKind.F32: np.dtype(np.float32)}
    with np.errstate(invalid="ignore"):  # a float may be any NaN
        return value.view(kinds.get(name.kind, np.dtype(np.uint32))).astype(np.float64)


def check_events(run: ProbeRun) -> None:
    """Check that a run has events, not statistics alone."""
    if not run.content:
        raise UsageError(
            f"The recording of {run.facts.board} has statistics and no events: "
            "there is nothing to draw.",
            hint="record without --no-events, or export html, table or csv",
        )


def gaps_of(timeline: Timeline) -> tuple[Ints, Ints]:
    """Return when the board has dropped events, and how many each time."""
    events = timeline.events
    mine = events.number == TraceId.DROPPED
    return events.time[mine], events.value[mine].astype(np.int64)


def task_title(task: int, tasks: Sequence[Task]) -> str:
    """Return how a task is shown; code whose task is not known is shown as one, too."""
    if task == UNKNOWN_TASK:
        return "code"
    return f"task {task_name(task, tasks)}" if task else task_name(task)


class _Core:
    def __init__(self, drawing: ProbeTracks, core: int, timeline: Timeline) -> None:
        self._drawing, self._core, self._timeline = drawing, core, timeline
        self._marks = np.isin(
            timeline.events.number, [n.number for n in timeline.names.of_kind(ProbeKind.MARK)]
        )

    def tracks(self) -> Iterator[Track]:
        line = self._timeline
        yield self._own()
        ranges, in_task = line.ranges, line.ranges.level == 0
        tasks = np.union1d(ranges.task[in_task], line.task[self._marks & (line.level == 0)])
        for task in [*tasks[tasks != UNKNOWN_TASK].tolist(), UNKNOWN_TASK]:
            mine = np.flatnonzero(in_task & (ranges.task == task))
            marks = self._marks & (line.level == 0) & (line.task == task)
            if len(mine) or marks.any():
                title = task_title(task, self._drawing.run.tasks)
                yield self._track(TrackKind.TASK, title, self._columns(ranges, mine), marks)
        yield from self._interrupts()

    def _times(self, ticks: Ints) -> Ints:
        return self._drawing.times(self._timeline.common(ticks))

    def _track(
        self, kind: TrackKind, title: str, slices: list[Ints], marks: npt.NDArray[np.bool_]
    ) -> Track:
        events = self._timeline.events
        return Track(
            self._core,
            kind,
            title,
            lanes_of(*slices),
            self._times(events.time[marks]),
            self._names(events.number[marks].astype(np.int64)),
        )

    def _own(self) -> Track:
        """Return the track that shows what has the core: a task or an interrupt."""
        line = self._timeline
        events, owner = line.events, self._owner
        change = np.flatnonzero(np.diff(owner, prepend=-1) != 0)
        begin = events.time[change]
        end = np.append(begin[1:], line.end)
        known = (owner[change] >= 0) & (end > begin)
        columns = [begin[known], end[known], owner[change][known], (end - begin)[known]]
        gaps, _ = gaps_of(line)
        time = self._times
        lane = lanes_of(time(columns[0]), time(columns[1]), columns[2], columns[3])
        dropped = np.full(len(gaps), self._drawing.name(DROPPED) if len(gaps) else 0)
        return Track(self._core, TrackKind.CORE, "what runs", lane, time(gaps), dropped)

    @cached_property
    def _owner(self) -> Ints:
        """The name of what has the core after each event; -1 if it is not known."""
        line, drawing = self._timeline, self._drawing
        inside = line.level > 0
        tasks, which = np.unique(line.task[~inside], return_inverse=True)
        titles = [
            -1 if task == UNKNOWN_TASK else drawing.name(task_title(task, drawing.run.tasks))
            for task in tasks.tolist()
        ]
        owner = np.array(self._interrupt)
        owner[~inside] = np.array([*titles, -1], np.int64)[which]
        return owner

    @cached_property
    def _interrupt(self) -> Ints:
        """The name of the innermost interrupt after each event; -1 outside of all."""
        line = self._timeline
        events, level = line.events, line.level
        found = np.full(len(events), -1, np.int64)
        before = np.concatenate([[0], level[:-1]])
        where = np.arange(len(events))
        is_enter = level > before
        name = np.full(len(events), -1, np.int64)
        numbered = is_enter & (events.number == TraceId.INTERRUPT_ENTER)
        named = is_enter & ~numbered
        name[named] = self._names(events.number[named].astype(np.int64))
        for number in np.unique(events.value[numbered]).tolist():
            name[numbered & (events.value == number)] = self._drawing.name(f"interrupt {number}")
        for depth in range(1, int(level.max(initial=0)) + 1):
            last = np.maximum.accumulate(np.where(is_enter & (level == depth), where, 0))
            mine = level == depth
            found[mine] = name[last[mine]]
        return found

    def _interrupts(self) -> Iterator[Track]:
        line = self._timeline
        passes, ranges = line.interrupts, line.ranges
        inner = np.flatnonzero(ranges.level > 0)
        inner_name = self._interrupt[ranges.at[inner]]
        pass_name = self._pass_names(passes)
        marked = np.where(self._marks & (line.level > 0), self._interrupt, -1)
        for name in np.unique(np.concatenate([pass_name, inner_name, marked[marked >= 0]])):
            own = self._columns(passes, np.flatnonzero(pass_name == name), int(name))
            more = self._columns(ranges, inner[inner_name == name])
            slices = [np.concatenate(pair) for pair in zip(own, more, strict=True)]
            title = self._drawing.names[int(name)]
            yield self._track(TrackKind.INTERRUPT, title, slices, marked == name)

    def _pass_names(self, passes: Passes) -> Ints:
        found = np.zeros(len(passes), np.int64)
        found[passes.named] = self._names(passes.number[passes.named])
        for number in np.unique(passes.number[~passes.named]).tolist():
            name = self._drawing.name(f"interrupt {number}")
            found[~passes.named & (passes.number == number)] = name
        return found

    def _columns(self, passes: Passes, which: Ints, name: int | None = None) -> list[Ints]:
        """Return begin, end, name and own ticks of some passes."""
        time = self._times
        names = self._names(passes.number[which]) if name is None else np.full(len(which), name)
        return [time(passes.begin[which]), time(passes.end[which]), names, passes.own[which]]

    def _names(self, numbers: Ints) -> Ints:
        """Return the names of probes in `ProbeTracks.names`."""
        by_number = self._timeline.names.by_number
        found, which = np.unique(numbers, return_inverse=True)
        texts = [self._drawing.name(by_number[number].text) for number in found.tolist()]
        return np.array(texts, np.int64)[which]


def lanes_of(begin: Ints, end: Ints, name: Ints, own: Ints) -> tuple[Lane, ...]:
    """Distribute slices to as few lanes as possible, so that they nest in each of them."""
    order = np.lexsort((-end, begin))
    columns = [column[order] for column in (begin, end, name, own)]
    nested = nesting(columns[0].tolist(), columns[1].tolist())
    lane, parent = (np.array(each, np.int64) for each in nested)
    found = []
    for number in range(int(lane.max(initial=-1)) + 1):
        mine = np.flatnonzero(lane == number)
        new_index = np.full(len(lane) + 1, -1, np.int64)
        new_index[mine] = np.arange(len(mine))
        b, e, n, o = (column[mine] for column in columns)
        found.append(Lane(b, e, n, new_index[parent[mine]], o))
    return tuple(found)
