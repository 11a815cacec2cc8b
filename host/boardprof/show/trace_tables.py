# SPDX-License-Identifier: Apache-2.0
"""A recording of probes as text: its ranges, interrupts and tasks, and what does not fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from boardprof.results.probes.doubts import doubts_of
from boardprof.results.probes.heap import heap_of
from boardprof.results.probes.interval import Interval, is_known
from boardprof.results.probes.recording import ProbeRecording, Task, task_name
from boardprof.results.probes.timeline import UNKNOWN_TASK, Timeline
from boardprof.show.cells import plural
from boardprof.show.layout import Column, Page, Table
from boardprof_protocol.codes import ProbeKind, TraceId


@dataclass(frozen=True)
class RangeFigures:
    """A range's passes in ticks of the trace clock.

    Attributes:
        name: of the range or interrupt.
        count: passes.
        mean: of one pass.
        least: the shortest pass.
        most: the longest one.
        total: of all, without passes that are within others of the same range.
        lost: passes that are not counted, because they overlapped others.
    """

    name: str
    count: int
    mean: float
    least: int
    most: int
    total: int
    lost: int = 0


def range_figures(recording: ProbeRecording, timelines: Sequence[Timeline]) -> list[RangeFigures]:
    """Return the ranges with a pass, the one that takes most in total first.

    The figures are those of events if there are any, else the board's statistics. What other tasks,
    interrupts and probes took is left out of events, and what a probe takes out of statistics.
    """
    found = []
    slots = {slot.number: slot for slot in recording.slots}
    for name in recording.names.of_kind(ProbeKind.RANGE):
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
            cost = recording.costs.slot
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


def recording_page(recording: ProbeRecording) -> Page:
    """Return a recording's summary."""
    lines = recording.timelines()
    timelines = list(lines.values())
    span = max((line.end for line in timelines), default=0)
    # Of passes across dropped events nothing is known, so there is no share of the time.
    whole = 0 if any(line.dropped or line.unsure_gaps for line in timelines) else span
    page: list[Table | str] = []
    ranges = range_figures(recording, timelines)
    if ranges:
        page.append(_table("Range", recording, ranges, whole))
    else:
        page.append("No range has ended in this recording.")
    if interrupts := interrupt_figures(timelines):
        page += ["", _table("Interrupt", recording, interrupts, whole)]
    if span and any(set(line.task_ticks()) - {UNKNOWN_TASK} for line in timelines):
        page += ["", _tasks(recording.tasks, timelines, span)]
    return [*page, "", *_notes(recording, timelines, span)]


def _table(title: str, recording: ProbeRecording, rows: Sequence[RangeFigures], span: int) -> Table:
    unit = recording.clock.unit
    columns = [
        Column(title, [each.name for each in rows], is_text=True),
        Column("Passes", [f"{each.count:,}" for each in rows]),
        Column(f"Mean ({unit})", [_number(each.mean) for each in rows]),
        Column("Min", [f"{each.least:,}" if each.count else "" for each in rows]),
        Column("Max", [f"{each.most:,}" if each.count else "" for each in rows]),
    ]
    if any(each.lost for each in rows):
        columns.append(Column("Not counted", [f"{each.lost:,}" for each in rows]))
    if span:
        columns.append(Column("Share", [f"{100 * each.total / span:.1f} %" for each in rows]))
    return Table(columns)


def _number(value: float) -> str:
    if value != value:  # no pass
        return ""
    return f"{value:,.0f}" if value == round(value) or value >= 1000 else f"{value:,.1f}"


def _tasks(tasks: Sequence[Task], timelines: Sequence[Timeline], span: int) -> Table:
    ticks: dict[int, int] = {}
    for line in timelines:
        for task, time in line.task_ticks().items():
            ticks[task] = ticks.get(task, 0) + time
    rows = sorted(ticks.items(), key=lambda each: -each[1])
    whole = span * len(timelines)
    columns = [
        Column("Task", [task_name(task, tasks) for task, _ in rows], is_text=True),
        Column("Time", [f"{time:,}" for _, time in rows]),
        Column("Share", [f"{100 * time / whole:.1f} %" for _, time in rows]),
    ]
    stacks = {each.number: each for each in tasks if each.used is not None}
    if stacks:
        used = [stacks.get(task) for task, _ in rows]
        columns += [
            Column("Stack used", [f"{each.used:,} B" if each else "" for each in used]),
            Column("of", [f"{each.stack:,} B" if each else "" for each in used]),
        ]
    return Table(columns)


def _notes(recording: ProbeRecording, timelines: Sequence[Timeline], span: int) -> Iterator[str]:
    clock, facts = recording.clock, recording.facts
    events = sum(int((line.events.number != TraceId.DROPPED).sum()) for line in timelines)
    rate = f", {span / clock.hz:.3g} s" if clock.hz and facts.clock_kind != "simulated" else ""
    simulated = ", simulated" if facts.clock_kind == "simulated" else ""
    if timelines:
        yield (
            f"{plural(events, 'event')} in {span:,} {clock.unit} of {clock.source}{rate}"
            f"{simulated}, on {facts.board}."
        )
    if span and events:
        values = sum(int(line.has_value.sum()) for line in timelines)
        cost = values * recording.costs.value + (events - values) * recording.costs.mark
        yield f"Probes took {100 * cost / span:.2g} % of the time; it is left out of ranges."
    if heap := heap_of(timelines):
        yield (
            f"Memory: {heap.peak:,} bytes at the peak, {heap.at_end:,} at the end. By call site: "
            "boardprof export memory TRACE."
        )
    errors = [line.clock.error for line in timelines]
    if None in errors:
        yield "How the clocks of the cores relate is not known: compare no times of two cores."
    elif any(errors):
        error = max(error for error in errors if error is not None)
        yield f"Times of different cores agree within {error:,.0f} {clock.unit}."
    yield from doubts_of(recording, timelines)


def interval_page(interval: Interval) -> Page:
    """Return what an interval has."""

    def table(title: str, rows: Sequence[tuple[str, str, int]], whole: int) -> Table:
        return Table(
            [
                Column(title, [name for name, _, _ in rows], is_text=True),
                Column("Share", [f"{100 * ticks / max(whole, 1):.1f} %" for _, _, ticks in rows]),
                Column("Passes", [passes for _, passes, _ in rows]),
            ]
        )

    page: list[Table | str] = []
    if interval.ranges:
        page.append(
            table(
                "Range",
                [(each.name, f"{each.passes:,}", each.ticks) for each in interval.ranges],
                interval.ticks,
            )
        )
    if is_known(interval.tasks):
        tasks = sorted(interval.tasks.items(), key=lambda each: -each[1])
        rows = [(task_name(task, interval.named), "", ticks) for task, ticks in tasks]
        rows.append(("(interrupts)", "", interval.interrupts))
        # Of the time that the events cover: those of the last moments may not have come yet.
        page.append(table("Task", rows, sum(ticks for _, _, ticks in rows)))
    if not page:
        page.append("No range has ended in this interval.")
    if interval.dropped:
        page.append(f"{plural(interval.dropped, 'event')} dropped so far; tasks miss them.")
    return page
