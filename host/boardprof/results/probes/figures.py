# SPDX-License-Identifier: Apache-2.0
"""What ranges, interrupts and tasks took: in a whole run, in intervals, and as rows of a Report."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from boardprof.base.errors import DecodeError, UsageError
from boardprof.base.metrics import Count, raw_of
from boardprof.results.probes.core_events import WRAP, Ints
from boardprof.results.probes.run import ProbeRun, Slot, Task, doubts_of, read_run
from boardprof.results.probes.timeline import UNKNOWN_TASK, Timeline
from boardprof.results.record import Device, Record, SampleRecord
from boardprof.results.report.assemble import assemble, rows_of
from boardprof.results.report.calls import (
    DURATION,
    IN_PLACE,
    IN_PLACE_MEAN,
    IN_PLACE_SUMS,
    PERTURBATION,
    SHARE,
    Calls,
    Column,
    Numbers,
    Repeated,
    Row,
)
from boardprof.results.report.measurement import Measurement, PassResult
from boardprof.results.report.report import Report
from boardprof.wire.decode.dictionary import CollectorInfo, CounterInfo
from boardprof.wire.decode.samples import Reading, Sample
from boardprof_protocol.blob import encode_blob
from boardprof_protocol.codes import CounterStatus, ProbeKind
from boardprof_protocol.trace import PASSES


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
        pairs = [*zip(passes, mine, strict=True)]
        nets = np.concatenate([np.zeros(0, np.int64), *(each.net[which] for each, which in pairs)])
        slot = slots.get(name.number)
        if len(nets):
            total = sum(int(each.net[each.outermost(which)].sum()) for each, which in pairs)
            found.append(replace(_figures(name.text, nets), total=total))
        elif slot is not None and (slot.count or slot.lost):
            cost = run.costs.slot
            mean, total = slot.mean - cost, slot.sum - cost * slot.count
            ends = slot.least - cost, slot.most - cost
            found.append(RangeFigures(name.text, slot.count, mean, *ends, total, slot.lost))
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
            self._task[core] = int(line.task[-1]) if len(line.events) else line.task_before
            told = line.events.dropped - line.untold
            self._told[core] = self._told.get(core, 0) + told
        return Interval(ticks, ranges, tasks, interrupts, dropped, run.tasks)

    def _ranges(self, run: ProbeRun) -> list[RangeShare]:
        found = []
        for slot in run.slots:
            before = self._slots.get(slot.number, replace(slot, count=0, sum=0))
            passes, total = slot.count - before.count, slot.sum - before.sum
            self._slots[slot.number] = slot
            if passes > 0:
                name = run.names.by_number[slot.number].text
                found.append(RangeShare(name, passes, total - passes * run.costs.slot))
        return found


def is_known(tasks: Mapping[int, int]) -> bool:
    """Return whether any task is known: the firmware tells of its switches."""
    return any(task != UNKNOWN_TASK for task in tasks)


_BITS = 64

_PASS = struct.Struct("<QQQB")  # a layout of `PASSES`; struct is twenty times as fast as construct


# -- rows of a Report --------------------------------------------------------------------------

# A row is like that of a called function: a pass is a sample. Its window is the pass from begin to
# end; other tasks, interrupts and inner probes are left out of it, and the calibration is a range
# with nothing in it. Ranges that only have statistics have one sample, of all passes together.


def report_of(run: ProbeRun) -> Report:
    """Return the Report of a run's ranges."""
    return _report(run, [*run.timelines().values()], f"The recording of {run.facts.board}")


def report_of_file(file: str) -> Report:
    """Return the Report of a file with a recording."""
    run = read_run(file)
    timelines = [*run.timelines().values()]
    run = replace(run, content=b"")  # it may be large
    return _report(run, timelines, file)


def _report(run: ProbeRun, timelines: list[Timeline], what: str) -> Report:
    """Return the Report of a run's timelines, which are used up; ``what`` it is, for errors."""
    doubts = " ".join(doubts_of(run, timelines))
    ranges = (line.ranges for line in timelines)
    passes = [(each.number, each.begin, each.end, each.net) for each in ranges]
    timelines.clear()  # they take more memory than the passes
    found = list(_measurements(run, passes))
    if not found:
        hint = "put BP_RANGE_BEGIN and BP_RANGE_END around code that runs while you record"
        if any(slot.lost for slot in run.slots):
            hint = "record events: statistics do not count passes that overlap"
        raise UsageError(f"{what} has no complete pass of a range.", hint=hint)
    report = _with_all_passes(run, assemble([each.measurement for each in found]), found)
    if doubts:
        report.configuration[f"{run.facts.board} probes"] = doubts.removesuffix(".")
    return report


# A recording may have millions of passes. So only those that decide about the configuration become
# samples of a measurement; the Report's rows are made of columns, and its record of the passes.


@dataclass(frozen=True)
class _Range:
    """A row of the figures: the measurement of some passes, and all of them."""

    measurement: Measurement
    passes: _PassSamples | None = None  # None if the measurement has all


_Columns: TypeAlias = tuple[Ints, Ints, Ints, Ints]  # numbers of ranges, begins, ends, net ticks


def _measurements(run: ProbeRun, passes: Sequence[_Columns]) -> Iterator[_Range]:
    """Yield the ranges with a complete pass; those of several cores are put together."""
    slots = {slot.number: slot for slot in run.slots if slot.count}
    for name in run.names.of_kind(ProbeKind.RANGE):
        mine = [number == name.number for number, *_ in passes]
        if any(each.any() for each in mine):
            columns = [_taken([p[i] for p in passes], mine) for i in (1, 2, 3)]
            yield _of_passes(run, name.text, _PassSamples(run, *columns))
        elif name.number in slots:
            yield _Range(_of_slot(run, name.text, slots[name.number]))


def _taken(columns: Sequence[Ints], mine: Sequence[npt.NDArray[np.bool_]]) -> Ints:
    """Return chosen values of columns, without a copy if these are all of one."""
    if len(columns) == 1:
        return columns[0] if mine[0].all() else columns[0][mine[0]]
    return np.concatenate([values[which] for values, which in zip(columns, mine, strict=True)])


class _PassSamples(Sequence[SampleRecord]):
    """The passes of a range as samples of a record, each made when it is looked at."""

    def __init__(self, run: ProbeRun, begin: Ints, end: Ints, net: Ints) -> None:
        self._run = run
        self._begin, self._end, self.net = begin, end, net
        self.empty = round(run.costs.empty)

    @property
    def took(self) -> npt.NDArray[np.bool_]:
        """Whether each pass counted something, with the probes' own ticks."""
        found: npt.NDArray[np.bool_] = self.net != -self.empty
        return found

    def sample(self, index: int) -> Sample:
        """Return a pass as a sample of a measurement."""
        begin, end = int(self._begin[index]), int(self._end[index])
        return _sample(self._run, begin, end, end - begin - self.empty - int(self.net[index]))

    def __len__(self) -> int:
        return len(self.net)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        found = self.sample(index)
        return SampleRecord({name: each.value for name, each in found.readings.items()}, found.raw)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        pairs = zip(self, other, strict=False)
        return len(self) == len(other) and all(mine == theirs for mine, theirs in pairs)

    __hash__ = None  # type: ignore[assignment]  # as of a list


def _of_passes(run: ProbeRun, name: str, passes: _PassSamples) -> _Range:
    samples = tuple(map(passes.sample, sorted({0, *_ends(passes)})))
    empty = _sample(run, 0, passes.empty, 0)
    total = _sample(run, 0, int(passes.net.sum()) + passes.empty * len(passes), 0)
    return _Range(_measurement(run, name, 1, samples, empty, totals=(total,)), passes)


def _ends(passes: _PassSamples) -> Iterator[int]:
    """Yield the passes with the least and the most of their own, and of the probes."""
    took = np.flatnonzero(passes.took)[:1]
    usual = passes.empty / (passes.net[took] + passes.empty) if len(took) else np.zeros(1)
    found: list[list[tuple[float, int]]] = [[], [], [], []]
    for first in range(0, len(passes), _ROWS_AT_ONCE):
        net = passes.net[first : first + _ROWS_AT_ONCE]
        raw = net + passes.empty
        share = np.divide(passes.empty, raw, out=np.full(len(raw), usual[0]), where=raw != 0)
        for ends, values in zip(found, (net, -net, share, -share), strict=True):
            at = int(values.argmin())
            ends.append((values[at].item(), first + at))
    yield from (min(ends)[1] for ends in found)


_ROWS_AT_ONCE = 1 << 20


def _with_all_passes(run: ProbeRun, report: Report, ranges: Sequence[_Range]) -> Report:
    """Return a Report of some passes with the rows and samples of all."""
    totals, record = report.device_metrics[run.facts.board], report.record or Record()
    records = []
    for each, stored in zip(ranges, record.measurements, strict=True):
        if each.passes is not None:
            samples = cast("tuple[SampleRecord, ...]", each.passes)
            windows = replace(stored.passes[0], samples=samples, totals=samples)
            stored = replace(stored, passes=(windows,))
        records.append(stored)
    return Report(
        _calls([_Rows.of(each, totals) for each in ranges]),
        report.device_metrics,
        report.configuration,
        record=replace(record, measurements=tuple(records)),
    )


@dataclass(frozen=True)
class _Rows:
    """The rows of a range, many at once: one for each pass, or one of all."""

    count: int
    layouts: dict[bool, tuple[str, ...]]  # of passes that took something, and of others
    row: Row  # one that has all columns
    range: _Range
    whole: float  # what all ranges of the board took

    @classmethod
    def of(cls, found: _Range, totals: Row) -> _Rows:
        measurement, passes = found.measurement, found.passes
        if passes is None:
            [row] = rows_of(measurement, totals, False)
            return cls(1, {True: tuple(row)}, row, found, 0.0)
        whole = float(raw_of(totals.get(measurement.counters[0], Count(0))))
        took, rows = passes.took, {}
        for kind in dict.fromkeys((bool(took[0]), not took[0])):
            if len(at := np.flatnonzero(took == kind)[:1]):
                windows = replace(measurement.passes[0], samples=(passes.sample(int(at[0])),))
                [rows[kind]] = rows_of(replace(measurement, passes=(windows,)), totals, False)
        layouts = {kind: tuple(row) for kind, row in rows.items()}
        return cls(len(passes), layouts, rows.get(True, rows.get(False, {})), found, whole)

    def numbers(self, name: str, some: slice) -> npt.NDArray[Any]:
        """Return the values of a column for some rows."""
        passes, measurement = self.range.passes, self.range.measurement
        first = self.row.get(name, Count(0))
        if passes is not None:
            net, counter = passes.net[some], measurement.counters[0]
            if name == counter:
                return net
            if name == DURATION:
                return net * 1e6 / measurement.samples[0].readings[counter].hz
            if name == SHARE:
                return 100.0 * net / self.whole
            if name == PERTURBATION:
                raw = net + passes.empty
                return 100.0 * (raw - net) / np.where(raw == 0, 1, raw)
        return np.full(len(range(self.count)[some]), raw_of(first))

    def numbers_of_layouts(self, known: Mapping[tuple[str, ...], int]) -> npt.NDArray[np.uint8]:
        """Return the number of each row's layout."""
        if len(self.layouts) == 1 or self.range.passes is None:
            return np.full(self.count, known[next(iter(self.layouts.values()))], np.uint8)
        usual, other = (np.uint8(known[self.layouts[took]]) for took in (True, False))
        return np.where(self.range.passes.took, usual, other)


def _calls(parts: Sequence[_Rows]) -> Calls:
    """Return the rows of all ranges, whose columns are computed when they are looked at."""
    layouts = {layout: 0 for part in parts for layout in part.layouts.values()}
    layouts = {layout: number for number, layout in enumerate(layouts)}
    layout_of = np.concatenate([part.numbers_of_layouts(layouts) for part in parts])
    kinds = {name: type(part.row[name]) for part in parts for name in part.row}
    columns = {}
    for name in dict.fromkeys(name for layout in layouts for name in layout):
        have = [name in layout for layout in layouts]
        rows = None if all(have) else np.flatnonzero(np.array(have)[layout_of])
        given: Sequence[Any]
        if kinds[name] is str:
            own = [part for part in parts if name in part.row]
            given = Repeated([(raw_of(part.row[name]), part.count) for part in own])
        else:
            given = _numbers(parts, name)
            if rows is not None:
                given = array("q" if kinds[name] is Count else "d", given.array()[rows].tobytes())
        index = None if rows is None else array("q", rows.tobytes())
        columns[name] = Column(kinds[name], given, index, len(layout_of))
    return Calls.of_columns(columns, (*layouts,), array("B", layout_of.tobytes()))


def _numbers(parts: Sequence[_Rows], name: str) -> Numbers:
    firsts = [0, *accumulate(part.count for part in parts)]

    def compute(first: int, end: int) -> npt.NDArray[Any]:
        pieces = [
            part.numbers(name, slice(max(first - begin, 0), max(end - begin, 0)))
            for begin, part in zip(firsts, parts, strict=False)
            if begin < end and first < begin + part.count
        ]
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces or [np.zeros(0)])

    return Numbers(firsts[-1], compute)


def _of_slot(run: ProbeRun, name: str, slot: Slot) -> Measurement:
    empty = _sample(run, 0, run.costs.slot * slot.count, 0)
    sums = (_sample(run, 0, slot.sum, 0),)
    label = IN_PLACE_SUMS if slot.least == slot.most else IN_PLACE_MEAN
    return _measurement(run, name, slot.count, sums, empty, label)


def _sample(run: ProbeRun, begin: int, end: int, away: int) -> Sample:
    layout = PASSES[run.clock.unit]
    counter = layout.counters[0]
    reading = Reading(end - begin - away, counter.unit, run.clock.hz)
    if not 0 <= begin <= end or away < 0:
        raise DecodeError(
            f"A pass from {begin} to {end} with {away} ticks of other code cannot be.",
            hint="trace the firmware again: the file is damaged",
        )
    body = _PASS.pack(begin, end, away, 1)
    return Sample({counter.name: reading}, encode_blob(layout.schema_id, layout.version, body))


def _measurement(
    run: ProbeRun,
    name: str,
    number: int,
    samples: tuple[Sample, ...],
    empty: Sample,
    label: str = IN_PLACE,
    totals: tuple[Sample, ...] = (),
) -> Measurement:
    facts, layout = run.facts, PASSES[run.clock.unit]
    counter = layout.counters[0]
    what, hz = run.clock.source, run.clock.hz
    info = CounterInfo(counter.name, what, _BITS, hz, 0, False, CounterStatus.OK, 0)
    collector = CollectorInfo(0, layout.name, layout.schema_id, layout.version, layout.crc, (info,))
    device = Device(
        name=facts.board,
        clock_kind=facts.clock_kind,
        emulated=facts.emulated,
        port=facts.port,
        agent_version=facts.agent_version,
        build_id=facts.build_id,
        boot_id=facts.boot_id,
        collectors=(collector,),
        clock_given=True,
    )
    windows = PassResult(samples, (empty,), totals or samples, mask=1)
    return Measurement(name, device, number, 0, (windows,), flags=facts.flags, label=label)
