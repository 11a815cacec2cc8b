# SPDX-License-Identifier: Apache-2.0
"""The Chrome trace format, which Perfetto, chrome://tracing and speedscope open; a Report in it.

These programs read ambiguous parts of the format differently, so only a small part of it is used:
complete events (phase X) and instants, sorted by time in each track. Slices that overlap without
nesting go to a second lane of their track, because Perfetto leaves them out otherwise.

A Report has its samples end to end in run order. Only the lengths and the order are real, because a
Report does not say when a sample began. If a device has no time, the length of its samples is their
instructions or ticks, each drawn as 1 us; the device's name and the metadata say so.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NamedTuple

from boardprof import __version__
from boardprof.base.errors import UsageError
from boardprof.base.metrics import Duration, raw_of
from boardprof.results.report.calls import Calls
from boardprof.results.report.profile import Profile
from boardprof.results.report.report import Report
from boardprof.results.row_origins import profiles_of
from boardprof.show.cells import KEY_COLUMNS
from boardprof.show.flame_graph import Stacks, stacks_of, weights_of

OWN_KEYS = ("schemaVersion", "displayTimeUnit", "traceEvents")  # of a file, besides its metadata
_ENCODE = json.JSONEncoder(allow_nan=False).encode
_MOST = (1 << 63) - 1  # largest integer that all readers accept
_ORDER = "samples in run order, end to end; when each began was not recorded"
_PROFILE_ORDER = "a call path once, as long as all calls on it together; not in the order of time"
_TEXTS = ("Argument Shapes", "Flags")
_MOST_NS = (1 << 53) - 1  # largest time in ns that is exact as a float, as which readers parse it


class Track(NamedTuple):
    """The place of an event: a process, such as a board, and a thread in it."""

    process: str
    thread: str = ""


class TraceEvent(NamedTuple):
    """One event of a trace."""

    name: str
    start_us: float  # from the beginning of the trace; finite
    duration_us: float | None  # None for an instant
    track: Track
    args: Mapping[str, object] = {}  # nothing changes it; what JSON cannot hold is text
    category: str = ""


def chrome_trace(events: Iterable[TraceEvent], *, metadata: Mapping[str, object]) -> str:
    """Return events in any order as the text of a trace file, with further ``metadata``."""
    return trace_text(_entries(events), metadata=metadata)


def trace_text(entries: Iterable[str], *, metadata: Mapping[str, object]) -> str:
    """Return a trace file of entries in JSON: names first, then events in the order of time."""
    for key in metadata:
        if key in OWN_KEYS:
            raise UsageError(
                f"{key!r} cannot be a key of metadata: the trace format uses it.",
                hint=f"another name, such as {'my_' + key!r}",
            )
    head = _ENCODE({"schemaVersion": 1, "displayTimeUnit": "ns"}).strip("{}")
    texts = [head, '"traceEvents": [\n' + ",\n".join(entries) + "\n]"]
    if metadata:
        texts.append(json_text(metadata)[1:-1])
    return "{" + ",\n".join(texts) + "}\n"


def json_text(value: object) -> str:
    """Return any value as JSON that every reader accepts."""
    return _ENCODE(_plain(value))


def track_names(process_id: int, process: str, threads: Mapping[int, str]) -> list[str]:
    """Return the entries that name a process, and its threads by their numbers."""
    names = [("process_name", 0, process), *(("thread_name", *each) for each in threads.items())]
    return [
        _ENCODE({"ph": "M", "name": what, "pid": process_id, "tid": thread, "args": {"name": name}})
        for what, thread, name in names
    ]


def _entries(events: Iterable[TraceEvent]) -> Iterator[str]:
    """Yield the names of all lanes, then the events in the order of time."""
    tracks: dict[str, dict[str, list[_Slice]]] = {}
    for event in events:
        threads = tracks.setdefault(event.track.process, {})
        threads.setdefault(event.track.thread, []).append(_slice(event))
    entries: list[tuple[tuple[int, int], str]] = []
    number = 0
    for process_id, (process, threads) in enumerate(tracks.items(), 1):
        names: dict[int, str] = {}
        for thread, slices in threads.items():
            slices.sort(key=lambda each: each.order)
            lanes, _ = nesting([each.start_ns for each in slices], [each.end_ns for each in slices])
            first = number + 1
            for lane in range(max(lanes) + 1):
                number += 1
                names[number] = f"{thread} ({lane + 1})" if lane else thread
            for each, lane in zip(slices, lanes, strict=True):
                entries.append((each.order, _ENCODE(each.entry(process_id, first + lane))))
        yield from track_names(process_id, process, names)
    entries.sort(key=itemgetter(0))
    yield from map(itemgetter(1), entries)


class _Slice(NamedTuple):
    """An event in whole nanoseconds, so that rounding cannot change how slices nest."""

    event: TraceEvent
    start_ns: int
    end_ns: int

    @property
    def order(self) -> tuple[int, int]:
        """Key to sort by begin; of two that begin together, the longer one comes first."""
        return self.start_ns, -self.end_ns

    def entry(self, process_id: int, thread_id: int) -> dict[str, object]:
        event = self.event
        entry: dict[str, object] = {
            "ph": "i" if event.duration_us is None else "X",
            "name": event.name,
            "pid": process_id,
            "tid": thread_id,
            "ts": microseconds(self.start_ns),
        }
        if event.duration_us is None:
            entry["s"] = "t"  # its scope is its thread
        else:
            entry["dur"] = microseconds(self.end_ns - self.start_ns)
        if event.category:
            entry["cat"] = event.category
        if event.args:
            entry["args"] = _plain(event.args)
        return entry


def microseconds(ns: int) -> float:
    """Return nanoseconds as us, as a float that is written with three decimals at most."""
    return round(ns / 1000, 3)


def _slice(event: TraceEvent) -> _Slice:
    duration_us = event.duration_us or 0.0
    if not (math.isfinite(event.start_us) and math.isfinite(duration_us) and duration_us >= 0):
        raise ValueError(f"{event.name!r} begins at {event.start_us} us, for {duration_us} us")
    start_ns = round(event.start_us * 1000)
    return _Slice(event, start_ns, round((event.start_us + duration_us) * 1000))


def nesting(begins: Sequence[int], ends: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return each slice's lane, so that slices nest in it, and the index of the one around it."""
    # Of two slices that begin together the longer one comes first. The index is -1 if there is
    # none.
    lanes: list[list[tuple[int, int]]] = []  # of each, the ends and indices of open slices
    lane, parent = [0] * len(begins), [-1] * len(begins)
    for index, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        number = 0
        while number < len(lanes) and not _takes(lanes[number], begin, end):
            number += 1
        if number == len(lanes):
            lanes.append([])
        open_ones = lanes[number]
        lane[index] = number
        if open_ones:
            parent[index] = open_ones[-1][1]
        open_ones.append((end, index))
    return lane, parent


def _takes(open_ones: list[tuple[int, int]], begin: int, end: int) -> bool:
    """Tell whether a slice that begins after all others nests in the open ones; close some."""
    while open_ones and open_ones[-1][0] <= begin:
        open_ones.pop()
    return not open_ones or end <= open_ones[-1][0]


def _plain(value: Any) -> object:
    """Return a value as JSON can hold it and every reader accepts it."""
    if value is None or value is True or value is False or isinstance(value, str):
        return value
    if isinstance(value, int):
        return value if -_MOST <= value <= _MOST else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value)


# -- a Report ----------------------------------------------------------------------------------


def render_chrome(report: Report) -> str:
    """Return ``report`` in the Chrome trace format, for Perfetto and similar programs."""
    stacks = Stacks(report.calls)
    bases = [_base(report.calls, stacks, device) for device in range(len(stacks.devices))]
    events = list(_samples(report.calls, stacks, bases))
    if not events:
        raise UsageError("The Report has no Counts and no Durations: there is nothing to draw.")
    told = {name: base.text for name, base in zip(stacks.devices, bases, strict=True)}
    profiles = list(profiles_of(report))
    for row in profiles:
        title, how = f"{row.title} on {row.device}", row.profile.sampled
        counted = f"samples of {how.calls:,} calls" if how else f"{row.profile.metric} of one call"
        told[title] = f"{counted}, not time: one is drawn as 1 us"
        events += _call_paths(row.profile, Track(f"{title} ({counted}, not time)", "call paths"))
    metadata = {
        "boardprof": __version__,
        "boardprof_time_base": told,
        "boardprof_order": _ORDER,
        "boardprof_configuration": {k: raw_of(v) for k, v in report.configuration.items()},
        **({"boardprof_profiles": _PROFILE_ORDER} if profiles else {}),
    }
    return chrome_trace(events, metadata=metadata)


class _Base(NamedTuple):
    """The column that gives the length of a device's samples."""

    column: str | None
    is_time: bool

    @property
    def text(self) -> str:
        if self.column is None:
            return "nothing to draw"
        return "time" if self.is_time else f"{self.column}, not time: one is drawn as 1 us"


def _base(calls: Calls, stacks: Stacks, device: int) -> _Base:
    column = next(iter(stacks.columns[device]), None)
    times = set() if column is None else stacks.devices_with(calls.column(column).of(Duration))
    return _Base(column, device in times)


def _samples(calls: Calls, stacks: Stacks, bases: Sequence[_Base]) -> Iterator[TraceEvent]:
    """Yield the samples that have a length, each device's in order."""
    columns = {base.column for base in bases if base.column is not None}
    weights = {name: weights_of(calls.column(name)) for name in columns}
    notes = ["" if base.is_time else f" ({base.column}, not time)" for base in bases]
    tracks = [
        Track(name + note, "samples") for name, note in zip(stacks.devices, notes, strict=True)
    ]
    at_ns = [0] * len(bases)
    rows = zip(stacks.device_of, stacks.stack_of, calls, strict=True)
    for row, (device, stack, values) in enumerate(rows):
        base = bases[device].column
        weight = None if base is None else weights[base][row]
        if weight is None:
            continue
        begin_ns = at_ns[device]
        at_ns[device] = end_ns = begin_ns + round(weight * 1000)
        if end_ns > _MOST_NS:
            raise UsageError(
                f"The samples on {stacks.devices[device]} are too long for a trace: {base} adds up "
                "to more than 2**53 ns.",
                hint="export to speedscope instead, or export fewer samples",
            )
        args = {name: raw_of(each) for name, each in values.items() if name not in KEY_COLUMNS}
        args |= {name: raw_of(values[name]) for name in _TEXTS if name in values}
        name, length_us = stacks.frames[stack][0], (end_ns - begin_ns) / 1000
        yield TraceEvent(name, begin_ns / 1000, length_us, tracks[device], args, "sample")


# A profile does not say in which order things happened. So each function stands once on a call
# path, and is as long as all of its calls together, the longest first.


@dataclass
class _Path:
    name: str
    file: str = ""
    own: int = 0
    total: int = 0
    children: dict[str, _Path] = field(default_factory=dict)


def _call_paths(profile: Profile, track: Track) -> Iterator[TraceEvent]:
    """Yield the functions of a profile on their call paths, parents first."""
    root, metric = _Path(""), profile.metric
    for stack, cost in stacks_of(profile).items():
        place = root
        for frame in stack:
            name = frame.function
            place = place.children.setdefault(name, _Path(name, frame.file))
            place.total += cost
        place.own += cost
    left = [(root, 0)]  # no recursion: paths may be deeper than Python's stack
    while left:
        path, at = left.pop()
        if path is not root:
            args = {metric: path.total, f"{metric} of its own": path.own, "file": path.file}
            yield TraceEvent(path.name, at, path.total, track, args, "profile")
        for child in sorted(path.children.values(), key=lambda each: (-each.total, each.name)):
            left.append((child, at))
            at += child.total
