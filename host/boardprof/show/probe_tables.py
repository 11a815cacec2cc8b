# SPDX-License-Identifier: Apache-2.0
"""A run of probes as text: its ranges, interrupts, tasks and memory, and what does not fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields

from boardprof.base.errors import UsageError
from boardprof.results.probes.figures import (
    Interval,
    RangeFigures,
    interrupt_figures,
    is_known,
    range_figures,
)
from boardprof.results.probes.heap import BEFORE, UNKNOWN_CALLER, CallSite, Heap, heap_of
from boardprof.results.probes.run import ProbeRun, Task, doubts_of, task_name
from boardprof.results.probes.timeline import UNKNOWN_TASK, Timeline
from boardprof.show.cells import plural
from boardprof.show.layout import Column, Page, Table, plain
from boardprof_protocol.codes import TraceId


def probe_run_page(run: ProbeRun) -> Page:
    """Return the summary of a run."""
    lines = run.timelines()
    timelines = list(lines.values())
    span = max((line.end for line in timelines), default=0)
    # Of passes across dropped events nothing is known, so there is no share of the time.
    whole = 0 if any(line.dropped or line.unsure_gaps for line in timelines) else span
    page: list[Table | str] = []
    ranges = range_figures(run, timelines)
    if ranges:
        page.append(_table("Range", run, ranges, whole))
    else:
        page.append("No range has ended in this recording.")
    if interrupts := interrupt_figures(timelines):
        page += ["", _table("Interrupt", run, interrupts, whole)]
    if span and any(set(line.task_ticks()) - {UNKNOWN_TASK} for line in timelines):
        page += ["", _tasks(run.tasks, timelines, span)]
    return [*page, "", *_notes(run, timelines, span)]


def _table(title: str, run: ProbeRun, rows: Sequence[RangeFigures], span: int) -> Table:
    unit = run.clock.unit
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


def _notes(run: ProbeRun, timelines: Sequence[Timeline], span: int) -> Iterator[str]:
    clock, facts = run.clock, run.facts
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
        cost = values * run.costs.value + (events - values) * run.costs.mark
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
    yield from doubts_of(run, timelines)


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
        ranges = [(each.name, f"{each.passes:,}", each.ticks) for each in interval.ranges]
        page.append(table("Range", ranges, interval.ticks))
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


# -- memory ------------------------------------------------------------------------------------

WITHOUT_MEMORY = (  # what to try if a run has no event of memory
    "record malloc and free (trace --heap, or BP_CFG_TRACE_HEAP), or put BP_ALLOC and BP_FREE into "
    "functions that take memory and give it back"
)


def render_memory(run: ProbeRun, places: Mapping[int, str] | None = None) -> str:
    """Return the memory of a run by call site; ``places`` has file and line of callers."""
    heap = heap_of(run.timelines().values())
    if heap is None:
        raise UsageError(
            f"The recording of {run.facts.board} says nothing of memory.", hint=WITHOUT_MEMORY
        )
    return plain(memory_page(heap, places or {}))


def memory_page(heap: Heap, places: Mapping[int, str]) -> Page:
    """Return the call sites, that with the most live bytes at the peak first, and notes."""
    by_name: dict[str, CallSite] = {}
    for each in heap.sites:
        name = _site_name(each, places)
        by_name[name] = _sum(by_name[name], each) if name in by_name else each
    rows = sorted(by_name.items(), key=lambda row: (-row[1].at_peak, -row[1].bytes, row[0]))
    headers = {
        "At peak (bytes)": "at_peak",
        "At end (bytes)": "at_end",
        "Blocks at end": "blocks_at_end",
        "Taken (bytes)": "bytes",
        "Blocks": "blocks",
    }
    columns = [
        Column(header, [f"{getattr(site, name):,}" for _, site in rows])
        for header, name in headers.items()
    ]
    names = Column("Call site", [name for name, _ in rows], is_text=True)
    return [Table([names, *columns]), "", *_memory_notes(heap)]


def _sum(one: CallSite, other: CallSite) -> CallSite:
    numbers = [each.name for each in fields(CallSite) if each.name != "caller"]
    sums = {name: getattr(one, name) + getattr(other, name) for name in numbers}
    return CallSite(one.caller, **sums)


def _site_name(site: CallSite, places: Mapping[int, str]) -> str:
    """Return file and line of a call site, else its address."""
    if site.caller == UNKNOWN_CALLER:
        return "(not known)"
    if site.caller == BEFORE:
        return "(before recording)"
    return places.get(site.caller) or f"{site.caller:#x}"


def _memory_notes(heap: Heap) -> Iterator[str]:
    yield (
        f"Peak {heap.peak:,} bytes; {heap.at_end:,} bytes live at the end. "
        f"{plural(heap.blocks, 'block')} taken, {heap.freed:,} given back."
    )
    if heap.before is not None and not heap.before.blocks:
        yield "No block existed before recording."
    elif heap.before is not None:
        yield (
            f"{plural(heap.before.blocks, 'block')} of {heap.before.bytes:,} bytes existed before "
            f"recording, {heap.freed_before:,} of these given back."
        )
    if heap.freed_unknown:
        yield (
            f"{plural(heap.freed_unknown, 'block')} given back that recording did not see taken: "
            "they existed before it, a shared C library took them, or the event was dropped."
        )
    if heap.lost:
        yield f"{plural(heap.lost, 'block')} with dropped events: their bytes are not exact."
    if heap.dropped:
        yield f"{plural(heap.dropped, 'event')} dropped: the figures of memory are not exact."
    if heap.failed:
        yield f"{plural(heap.failed, 'time')} there was no memory."
