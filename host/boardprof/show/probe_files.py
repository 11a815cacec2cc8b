# SPDX-License-Identifier: Apache-2.0
"""A run of probes for other programs: Perfetto, chrome://tracing, speedscope, and flame graphs."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np

from boardprof import __version__
from boardprof.base.errors import UsageError
from boardprof.base.printable import bounded
from boardprof.results.probes.core_events import Ints
from boardprof.results.probes.run import ProbeRun
from boardprof.show.chrome_trace import json_text, microseconds, trace_text, track_names
from boardprof.show.flame_graph import frame_text, speedscope_text
from boardprof.show.html import asset, filled_page, inert, isolated, tables_html
from boardprof.show.probe_tables import memory_page, probe_run_page
from boardprof.show.probe_tracks import (
    Counter,
    Lane,
    ProbeTracks,
    Track,
    TrackKind,
    check_events,
    task_title,
)
from boardprof.show.protobuf import double, message, number, text, varint, varints

# -- Perfetto ----------------------------------------------------------------------------------
# Field numbers are those of Perfetto's ``protos/perfetto/trace``. The trace has one sequence of
# packets, which names each slice and mark by a number.

_PACKET = 1  # of Trace
_CLOCK_SNAPSHOT, _SEQUENCE_ID, _TRACK_EVENT, _INTERNED, _FLAGS = 6, 10, 11, 12, 13
_TRACK_DESCRIPTOR = 60  # of TracePacket
_TIMESTAMP_KEY = b"\x40"  # its field 8, a varint

_SEQUENCE = number(_SEQUENCE_ID, 1)
_CLEARED, _NEEDS_NAMES = 1, 2  # SEQ_INCREMENTAL_STATE_CLEARED, SEQ_NEEDS_INCREMENTAL_STATE
_REALTIME, _BOOTTIME = 1, 6  # builtin clocks; times are those of BOOTTIME unless a packet says more

_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4  # TrackEvent.Type
_TYPE, _NAME, _TRACK, _INTEGER, _DOUBLE = 9, 10, 11, 30, 44  # of TrackEvent

_COUNT, _BYTES = 2, 3  # CounterDescriptor.Unit
_EXPLICIT = 3  # TrackDescriptor.ChildTracksOrdering

# What is before an event's packet, by its length; none is longer.
_HEADS = [varint(_PACKET << 3 | 2) + varint(length) for length in range(128)]


def render_perfetto(run: ProbeRun) -> bytes:
    """Return a run for ui.perfetto.dev and Perfetto's trace processor."""
    check_events(run)
    return b"".join(_packets(ProbeTracks(run)))


def _packets(drawing: ProbeTracks) -> Iterator[bytes]:
    yield _packet(_clocks(drawing.run.facts.unix_us))
    names = (
        message(2, number(1, i), text(2, name)) for i, name in enumerate(drawing.names, 1)
    )  # InternedData.event_names
    yield _packet(number(_FLAGS, _CLEARED), message(_INTERNED, *names))
    uuid = 0
    for core in drawing.timelines:
        uuid += 1
        root = uuid
        yield _descriptor(root, drawing.process(core), number(11, _EXPLICIT))
        rank = 0
        for title, lane, track in drawing.rows(core):
            uuid, rank = uuid + 1, rank + 1
            yield _descriptor(uuid, title, *_child(root, rank))
            if lane is not None:
                yield from _slices(lane, uuid)
            if track is not None:
                yield from _marks(track, uuid)
        for counter in drawing.counters:
            if counter.core == core:
                uuid, rank = uuid + 1, rank + 1
                unit = message(8, *_unit(counter.unit))
                yield _descriptor(uuid, counter.title, *_child(root, rank), unit)
                yield from _values(counter, uuid)


def _packet(*content: bytes) -> bytes:
    return message(_PACKET, *content, _SEQUENCE)


def _clocks(began_us: int | None) -> bytes:
    """Return when the trace's time 0 was, if it is known."""
    clocks = [message(1, number(1, _BOOTTIME), number(2, 0))]
    if began_us is not None:
        clocks.append(message(1, number(1, _REALTIME), number(2, began_us * 1000)))
    return message(_CLOCK_SNAPSHOT, *clocks, number(2, _BOOTTIME))


def _descriptor(uuid: int, name: str, *more: bytes) -> bytes:
    return _packet(message(_TRACK_DESCRIPTOR, number(1, uuid), text(2, name), *more))


def _child(parent: int, rank: int) -> tuple[bytes, bytes]:
    return number(5, parent), number(12, rank)


def _unit(unit: str) -> list[bytes]:
    if unit == "bytes":
        return [number(3, _BYTES)]
    return [number(3, _COUNT), text(6, unit)] if unit else []


def _slices(lane: Lane, uuid: int) -> Iterator[bytes]:
    which, is_begin = lane.edges()
    times = np.where(is_begin, lane.begin[which], lane.end[which])
    names = np.where(is_begin, lane.name[which] + 1, 0)
    ends = {0: _event(uuid, _END)}
    known = np.unique(lane.name) + 1
    begins = {name: _event(uuid, _BEGIN, number(_NAME, name)) for name in known.tolist()}
    return _timed(times, map((ends | begins).__getitem__, names.tolist()))


def _marks(track: Track, uuid: int) -> Iterator[bytes]:
    names = (track.mark_name + 1).tolist()
    known = {name: _event(uuid, _INSTANT, number(_NAME, name)) for name in set(names)}
    return _timed(track.mark_time, map(known.__getitem__, names))


def _values(counter: Counter, uuid: int) -> Iterator[bytes]:
    if counter.is_whole:
        values = (number(_INTEGER, value) for value in counter.value.astype(np.int64).tolist())
    else:
        values = (double(_DOUBLE, value) for value in counter.value.tolist())
    return _timed(counter.time, (_event(uuid, _COUNTER, value) for value in values))


def _event(uuid: int, kind: int, *more: bytes) -> bytes:
    event = message(_TRACK_EVENT, number(_TYPE, kind), number(_TRACK, uuid), *more)
    return _SEQUENCE + number(_FLAGS, _NEEDS_NAMES) + event


def _timed(times: Ints, events: Iterable[bytes]) -> Iterator[bytes]:
    for time, event in zip(varints(times), events, strict=True):
        yield b"%b%b%b%b" % (_HEADS[1 + len(time) + len(event)], _TIMESTAMP_KEY, time, event)


# -- Chrome --------------------------------------------------------------------------------------


_Entry: TypeAlias = tuple[
    int, str
]  # begin, and the entry in JSON, made at once: there are millions


def render_probe_chrome(run: ProbeRun) -> str:
    """Return a run for chrome://tracing and similar programs, with a process for each core."""
    check_events(run)
    drawing = ProbeTracks(run)
    texts = [json_text(name) for name in drawing.names]
    names: list[str] = []
    entries: list[_Entry] = []
    thread = 0
    for core in drawing.timelines:
        titles = {}
        for title, lane, track in drawing.rows(core):
            thread += 1
            titles[thread] = title
            place = f'"pid": {core + 1}, "tid": {thread}'
            if lane is not None:
                entries += _chrome_slices(lane, texts, place)
            if track is not None:
                entries += _chrome_marks(track, texts, place)
        names += track_names(core + 1, drawing.process(core), titles)
    for counter in drawing.counters:
        entries += _chrome_values(counter)
    entries.sort(key=itemgetter(0))  # those of a lane keep their order
    metadata = {
        "boardprof": __version__,
        "boardprof_time_base": drawing.unit_note or "time",
        "boardprof_began": run.facts.time,
    }
    return trace_text(chain(names, map(itemgetter(1), entries)), metadata=metadata)


def _chrome_slices(lane: Lane, names: Sequence[str], place: str) -> Iterator[_Entry]:
    columns = (column.tolist() for column in (lane.begin, lane.end - lane.begin, lane.name))
    for begin, length, name in zip(*columns, strict=True):
        times = f'"ts": {microseconds(begin)}, "dur": {microseconds(length)}'
        yield begin, f'{{"ph": "X", "name": {names[name]}, {place}, {times}}}'


def _chrome_marks(track: Track, names: Sequence[str], place: str) -> Iterator[_Entry]:
    for time, name in zip(track.mark_time.tolist(), track.mark_name.tolist(), strict=True):
        when = f'"s": "t", "ts": {microseconds(time)}'
        yield time, f'{{"ph": "i", "name": {names[name]}, {place}, {when}}}'


def _chrome_values(counter: Counter) -> Iterator[_Entry]:
    finite = np.isfinite(counter.value)
    values = counter.value[finite]
    head = f'{{"ph": "C", "name": {json_text(counter.title)}, "pid": {counter.core + 1}'
    key = json_text(counter.unit or "value")
    shown = (values.astype(np.int64) if counter.is_whole else values).tolist()
    for time, value in zip(counter.time[finite].tolist(), shown, strict=True):
        yield time, f'{head}, "ts": {microseconds(time)}, "args": {{{key}: {value!r}}}}}'


# -- stacks --------------------------------------------------------------------------------------


def render_probe_speedscope(run: ProbeRun) -> str:
    """Return a run for speedscope: a profile for each track, in the order of time."""
    drawing = ProbeTracks(run)
    _check(drawing)
    frames = [{"name": bounded(name)} for name in drawing.names]
    unit = "" if drawing.run.clock.hz else f" ({drawing.unit})"
    profiles = [
        {
            "type": "evented",
            "name": f"core {core}: {title}{unit}",
            "unit": "nanoseconds" if drawing.run.clock.hz else "none",
            "startValue": 0,
            "endValue": drawing.end,
            "events": _edges(lane),
        }
        for core in drawing.timelines
        for title, lane, _ in drawing.rows(core)
        if lane is not None
    ]
    return speedscope_text(bounded(run.facts.board), frames, profiles)


def _check(drawing: ProbeTracks) -> None:
    check_events(drawing.run)
    if not any(track.lanes for track in drawing.tracks):
        raise UsageError(
            f"The recording of {drawing.run.facts.board} has no complete pass of a range: "
            "there is nothing to draw.",
            hint="put BP_RANGE_BEGIN and BP_RANGE_END around code that runs while you record",
        )


def _edges(lane: Lane) -> list[dict[str, Any]]:
    which, is_begin = lane.edges()
    times = np.where(is_begin, lane.begin[which], lane.end[which])
    columns = (column.tolist() for column in (is_begin, lane.name[which], times))
    return [
        {"type": "O" if opens else "C", "frame": name, "at": time}
        for opens, name, time in zip(*columns, strict=True)
    ]


def render_probe_collapsed(run: ProbeRun) -> str:
    """Return collapsed stacks: core, task or interrupt, then ranges, and the innermost's ticks."""
    # What other tasks, interrupts and inner ranges took is not in them. So the sum is that of the
    # core, unless ranges overlap without nesting, which counts twice.
    drawing = ProbeTracks(run)
    _check(drawing)
    sums: dict[_Path, int] = {}
    for core, line in drawing.timelines.items():
        for task, ticks in line.task_ticks().items():
            sums[f"core {core}", task_title(task, run.tasks)] = ticks
    for track in drawing.tracks:
        base = (f"core {track.core}", track.title)
        for lane in track.lanes if track.kind != TrackKind.CORE else ():
            _add(sums, base if track.kind == TrackKind.TASK else base[:1], lane, drawing.names)
    return "".join(
        f"{';'.join(map(frame_text, stack))} {own}\n" for stack, own in sums.items() if own > 0
    )


_Path: TypeAlias = tuple[str, ...]


def _add(sums: dict[_Path, int], base: _Path, lane: Lane, names: Sequence[str]) -> None:
    """Add the slices of a lane: what one took, the one around it did not take itself."""
    paths: list[_Path] = []
    columns = (column.tolist() for column in (lane.name, lane.parent, lane.own))
    for name, parent, own in zip(*columns, strict=True):
        around = base if parent < 0 else paths[parent]
        paths.append((*around, names[name]))
        sums[paths[-1]] = sums.get(paths[-1], 0) + own
        if around in sums:
            sums[around] -= own


# -- a page -----------------------------------------------------------------------------------

MOST_EVENTS = 200_000  # more would make a page of many megabytes
_SIMULATED = '<p class="clocks"><span class="tag caution">Simulated clock: no wall time</span></p>'


def render_probe_page(run: ProbeRun, places: Mapping[int, str] | None = None) -> str:
    """Return a run as an HTML page; ``places`` has file and line of callers that took memory."""
    drawing = ProbeTracks(run)
    count = sum(len(each.events) for each in drawing.timelines.values())
    if count > MOST_EVENTS:
        raise UsageError(
            f"The recording has {count:,} events. A page can have {MOST_EVENTS:,}.",
            hint="boardprof export perfetto, and open it in ui.perfetto.dev",
        )
    facts = run.facts
    parts = [facts.time, f"build {facts.build_id}" if facts.build_id else "", facts.port]
    memory = "" if drawing.heap is None else tables_html(memory_page(drawing.heap, places or {}))
    return filled_page(
        "timeline.html",
        asset("page.css"),
        asset("timeline.js"),
        title=html.escape(f"{bounded(facts.board)} \N{MIDDLE DOT} boardprof trace"),
        heading=isolated(facts.board),
        facts=" \N{MIDDLE DOT} ".join(isolated(part) for part in parts if part),
        notes=_SIMULATED if facts.clock_kind == "simulated" else "",
        memory=_section("Memory", memory) if memory else "",
        tables=_section("Ranges, interrupts and tasks", tables_html(probe_run_page(run))),
        view=inert(json.dumps(_view(run, drawing), separators=(",", ":"), allow_nan=False)),
    )


def _section(title: str, content: str) -> str:
    return f"<section>\n<h2>{title}</h2>\n{content}\n</section>"


# -- data for the script ---------------------------------------------------------------------


def _view(run: ProbeRun, drawing: ProbeTracks) -> dict[str, Any]:
    """Return the page's data as plain JSON; times are differences to the one before."""
    return {
        "unit": drawing.unit,
        "clock": " of the simulated clock"
        if drawing.unit == "ns" and run.facts.clock_kind == "simulated"
        else "",
        "end": drawing.end,
        "names": [bounded(name) for name in drawing.names],
        "tracks": [
            *(
                {
                    "title": _title(drawing, each),
                    "lanes": [_lane(lane) for lane in each.lanes],
                    "marks": [_steps(each.mark_time), each.mark_name.tolist()],
                }
                for each in drawing.tracks
                if each.lanes or each.mark_time.size
            ),
            *(_counter(drawing, each) for each in drawing.counters),
        ],
    }


def _title(drawing: ProbeTracks, each: Track | Counter) -> str:
    where = f"core {each.core}: " if len(drawing.timelines) > 1 else ""
    return where + bounded(each.title)


def _lane(lane: Lane) -> list[list[int]]:
    depths: list[int] = []
    for parent in lane.parent.tolist():
        depths.append(0 if parent < 0 else depths[parent] + 1)
    return [_steps(lane.begin), (lane.end - lane.begin).tolist(), lane.name.tolist(), depths]


def _counter(drawing: ProbeTracks, counter: Counter) -> dict[str, Any]:
    values = (counter.value.astype(np.int64) if counter.is_whole else counter.value).tolist()
    finite = np.isfinite(counter.value).tolist()
    shown = [value if ok else None for value, ok in zip(values, finite, strict=True)]
    return {
        "title": _title(drawing, counter),
        "unit": counter.unit,
        "lanes": [],
        "values": [_steps(counter.time), shown],
    }


def _steps(times: Ints) -> list[int]:
    steps: list[int] = np.diff(times, prepend=0).tolist()
    return steps
