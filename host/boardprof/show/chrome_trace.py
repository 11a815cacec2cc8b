# SPDX-License-Identifier: Apache-2.0
"""The Chrome trace format, which Perfetto, chrome://tracing and speedscope open; a Report in it.

These programs read ambiguous parts of the format differently, so only a small part of it is used:
complete events (phase X) and instants, sorted by time in each track. Times are from the beginning
of the trace, in us with three decimals. Slices that overlap without nesting go to a second lane of
their track, because Perfetto leaves them out otherwise.

A Report has a track for each device, with its samples end to end in run order. Only the lengths and
the order are real, because a Report does not say when a sample began. If a device has no time, the
length of its samples is their instructions or ticks, each drawn as 1 us. The device's name, and
``boardprof_time_base`` in the metadata, say so. Its entries are written as text, column by column,
because Reports may have many rows. Each profile in it has a track of its own.
"""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

from boardprof import __version__
from boardprof.base.errors import UsageError
from boardprof.base.metrics import Duration, raw_of
from boardprof.results.report.calls import Calls
from boardprof.results.report.columns import Column
from boardprof.results.report.profile import Profile
from boardprof.results.report.report import Report
from boardprof.results.row_origins import ProfiledRow, profiles_of
from boardprof.show.cells import KEY_COLUMNS
from boardprof.show.flame_graph import Stacks, stacks_of, weights_of

OWN_KEYS = ("schemaVersion", "displayTimeUnit", "traceEvents")
"""Keys of a trace file besides its metadata."""

_ENCODE = json.JSONEncoder(allow_nan=False).encode
_MOST = (1 << 63) - 1
"""Largest integer that all readers accept."""

_ORDER = "samples in run order, end to end; when each began was not recorded"
_PROFILE_ORDER = "a call path once, as long as all calls on it together; not in the order of time"
_DRAWN_NS = 1000
"""What a count of one in a profile is drawn as, in ns."""

_TEXTS = ("Argument Shapes", "Flags")
_MOST_NS = (1 << 53) - 1
"""Largest time in ns that is exact as a float, as which readers parse it."""


class Track(NamedTuple):
    """The place of an event: a process, and a thread in it.

    Attributes:
        process: such as a board, or the host's process.
        thread: such as a thread, or the samples of a function.
    """

    process: str
    thread: str = ""


@dataclass(frozen=True)
class TraceEvent:
    """One event of a trace.

    Attributes:
        name: any text.
        start_us: from the beginning of the trace, us; finite.
        duration_us: us, >= 0; None for an instant.
        track: its place.
        args: further facts to show; values that JSON cannot hold become text.
        category: to filter by; "" if absent.
    """

    name: str
    start_us: float
    duration_us: float | None
    track: Track
    args: Mapping[str, object] = field(default_factory=dict)
    category: str = ""


def chrome_trace(events: Iterable[TraceEvent], *, metadata: Mapping[str, object]) -> str:
    """Return events as the text of a trace file.

    Args:
        events: in any order; tracks have the order of their first events.
        metadata: further keys of the file, such as the origin of the events.

    Raises:
        UsageError: a key of ``metadata`` is one of the format's own.
        ValueError: a time is not finite, or a duration negative.
    """
    return trace_text(map(_ENCODE, _entries(list(events))), metadata=metadata)


def trace_text(entries: Iterable[str], *, metadata: Mapping[str, object]) -> str:
    """Return a trace file of entries in JSON: names first, then events in the order of time.

    Raises:
        UsageError: a key of ``metadata`` is one of the format's own.
    """
    for key in metadata:
        if key in OWN_KEYS:
            raise UsageError(
                f"{key!r} cannot be a key of metadata: the trace format uses it.",
                hint=f"another name, such as {'my_' + key!r}",
            )
    head = {"schemaVersion": 1, "displayTimeUnit": "ns"}
    tail = {key: _plain(value) for key, value in metadata.items()}
    texts = [_members(head), '"traceEvents": [\n' + ",\n".join(entries) + "\n]"]
    if tail:
        texts.append(_members(tail))
    return "{" + ",\n".join(texts) + "}\n"


def json_text(value: object) -> str:
    """Return any value as JSON that every reader accepts."""
    return _ENCODE(_plain(value))


def track_names(process_id: int, process: str, threads: Mapping[int, str]) -> list[str]:
    """Return the entries that name a process, and its threads by their numbers."""
    names = [_name("process_name", process_id, 0, process)]
    names += [_name("thread_name", process_id, number, name) for number, name in threads.items()]
    return list(map(_ENCODE, names))


def _members(content: Mapping[str, object]) -> str:
    return _ENCODE(content)[1:-1]


def _entries(events: Sequence[TraceEvent]) -> list[dict[str, object]]:
    """Return the names of all lanes, then the events in the order of time."""
    processes: dict[str, int] = {}
    names: list[dict[str, object]] = []
    entries: list[tuple[tuple[int, int], dict[str, object]]] = []
    thread_id = 0
    for track, on_track in _by_track(events).items():
        process_id = processes.setdefault(track.process, len(processes) + 1)
        if process_id not in {name["pid"] for name in names}:
            names.append(_name("process_name", process_id, 0, track.process))
        for number, lane in enumerate(_lanes(on_track), start=1):
            thread_id += 1
            text = track.thread if number == 1 else f"{track.thread} ({number})"
            names.append(_name("thread_name", process_id, thread_id, text))
            entries += [(slice_.order, slice_.entry(process_id, thread_id)) for slice_ in lane]
    entries.sort(key=lambda entry: entry[0])
    return [*names, *(entry for _, entry in entries)]


def _name(what: str, process_id: int, thread_id: int, text: str) -> dict[str, object]:
    return {"ph": "M", "name": what, "pid": process_id, "tid": thread_id, "args": {"name": text}}


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
        """Return the event as an entry of the file."""
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


def _by_track(events: Sequence[TraceEvent]) -> dict[Track, list[_Slice]]:
    tracks: dict[Track, list[_Slice]] = {}
    for event in events:
        tracks.setdefault(event.track, []).append(_slice(event))
    processes = list(dict.fromkeys(track.process for track in tracks))
    return dict(sorted(tracks.items(), key=lambda item: processes.index(item[0].process)))


class _Lane:
    """Slices in the order of time, each after or within the previous one."""

    def __init__(self) -> None:
        """Create an empty lane."""
        self.slices: list[_Slice] = []
        self._ends: list[int] = []  # of the open slices, the innermost last

    def takes(self, slice_: _Slice) -> bool:
        """Tell whether a slice that begins after all others nests."""
        ends = self._ends
        while ends and ends[-1] <= slice_.start_ns:
            ends.pop()
        return not ends or slice_.end_ns <= ends[-1]

    def add(self, slice_: _Slice) -> None:
        """Append a slice that it takes."""
        self.slices.append(slice_)
        if slice_.event.duration_us is not None:
            self._ends.append(slice_.end_ns)


def _lanes(slices: Sequence[_Slice]) -> list[list[_Slice]]:
    """Distribute the slices of a track to as few lanes as possible, so that they nest in each."""
    lanes: list[_Lane] = []
    for slice_ in sorted(slices, key=lambda s: s.order):
        lane = next((lane for lane in lanes if lane.takes(slice_)), None)
        if lane is None:
            lane = _Lane()
            lanes.append(lane)
        lane.add(slice_)
    return [lane.slices for lane in lanes]


def _plain(value: Any) -> object:
    """Return a value as JSON can hold it and every reader accepts it."""
    if isinstance(value, str | bool) or value is None:
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
    """Return ``report`` in the Chrome trace format, for Perfetto and similar programs.

    Raises:
        UsageError: no sample has a length that can be drawn.
    """
    tracks = _Tracks(report.calls)
    samples = list(tracks.samples())
    if not samples:
        raise UsageError("The Report has no Counts and no Durations: there is nothing to draw.")
    profiles = _ProfileTracks(report, len(tracks.bases) + 1)
    samples += profiles.slices()
    samples.sort(key=itemgetter(0, 1))
    metadata = {
        "boardprof": __version__,
        "boardprof_time_base": {**tracks.bases, **profiles.bases},
        "boardprof_order": _ORDER,
        "boardprof_configuration": {k: raw_of(v) for k, v in report.configuration.items()},
    }
    if profiles.bases:
        metadata["boardprof_profiles"] = _PROFILE_ORDER
    names = chain(tracks.names(), profiles.names())
    return trace_text(chain(names, map(itemgetter(2), samples)), metadata=metadata)


class _Tracks:
    """The samples of each device, end to end."""

    def __init__(self, calls: Calls) -> None:
        """Choose the column that gives the length of each device's samples."""
        self._calls = calls
        self._stacks = stacks = Stacks(calls)
        self._base = [next(iter(names), None) for names in stacks.columns]
        self._is_time = [
            base is not None and device in stacks.devices_with(calls.column(base).of(Duration))
            for device, base in enumerate(self._base)
        ]
        self._numbers: dict[int, int] = {}

    @property
    def bases(self) -> dict[str, str]:
        """The meaning of lengths on each device."""
        texts = map(_base_text, self._base, self._is_time)
        return dict(zip(self._stacks.devices, texts, strict=True))

    def names(self) -> Iterator[str]:
        """Yield the entries that name the tracks of all samples yielded so far."""
        for device, number in self._numbers.items():
            name = self._stacks.devices[device]
            if not self._is_time[device]:
                name = f"{name} ({self._base[device]}, not time)"
            yield from track_names(number, name, {number: "samples"})

    def samples(self) -> Iterator[tuple[int, int, str]]:
        """Yield begin and negated end in ns, and the entry; each device's samples in order.

        Samples without a length are left out.
        """
        stacks, numbers = self._stacks, self._numbers
        columns = {base: self._calls.column(base) for base in self._base if base is not None}
        weights = {base: weights_of(column) for base, column in columns.items()}
        names = [json_text(frames[0]) for frames in stacks.frames]
        at_ns = [0] * len(stacks.devices)
        rows = zip(stacks.device_of, stacks.stack_of, _args(self._calls), strict=True)
        for row, (device, stack, args) in enumerate(rows):
            base = self._base[device]
            weight = None if base is None else weights[base][row]
            if weight is None:
                continue
            begin_ns, length_ns = at_ns[device], round(weight * 1000)
            at_ns[device] = end_ns = begin_ns + length_ns
            if end_ns > _MOST_NS:
                raise _too_long(stacks.devices[device], base)
            number = numbers.setdefault(device, len(numbers) + 1)
            yield (
                begin_ns,
                -end_ns,
                f'{{"ph": "X", "name": {names[stack]}, "pid": {number}, "tid": {number}, '
                f'"ts": {microseconds(begin_ns)}, "dur": {microseconds(length_ns)}, '
                f'"cat": "sample", "args": {{{args}}}}}',
            )


def _base_text(base: str | None, is_time: bool) -> str:
    if base is None:
        return "nothing to draw"
    return "time" if is_time else f"{base}, not time: one is drawn as 1 us"


def _too_long(device: str, base: str | None) -> UsageError:
    return UsageError(
        f"The samples on {device} are too long for a trace: {base} adds up to more than 2**53 ns.",
        hint="export to speedscope instead, or export fewer samples",
    )


def _args(calls: Calls) -> Iterator[str]:
    """Yield the other values of each row, as members of a JSON object."""
    texts = {name: _texts(calls.column(name)) for name in calls.names}

    @cache
    def members(layout: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
        names = [name for name in layout if name not in KEY_COLUMNS]
        names += [name for name in _TEXTS if name in layout]
        keys = (json_text(name).replace("%", "%%") for name in names)
        return ", ".join(f"{key}: %s" for key in keys), tuple(names)

    for layout in calls.layouts:
        form, names = members(layout)
        yield form % tuple([next(texts[name]) for name in names])


def _texts(column: Column) -> Iterator[str]:
    """Return a column's values as JSON, without the rows that have none."""
    given = column.given
    if isinstance(given, array) and (given.typecode == "q" or all(map(math.isfinite, given))):
        return map(repr, given)
    text = cache(json_text) if column.kind is str else json_text
    return map(text, given if column.kind is not None else map(raw_of, given))


# -- the profiles of a Report ------------------------------------------------------------------
# A profile does not say in which order things happened. So each function stands once on a call
# path, and is as long as all of its calls together, the longest first.


@dataclass
class _Path:
    """A function on a call path."""

    name: str
    file: str = ""
    own: int = 0
    total: int = 0
    children: dict[str, _Path] = field(default_factory=dict)


class _ProfileTracks:
    """The profiles of a Report as tracks of a trace."""

    def __init__(self, report: Report, first: int) -> None:
        """Read the profiles; ``first`` is the number of their first track."""
        self._rows = dict(enumerate(profiles_of(report), first))

    @property
    def bases(self) -> Mapping[str, str]:
        """The meaning of lengths on each track."""
        return {
            _profile_title(row): f"{_counted(row.profile)}, not time: one is drawn as 1 us"
            for row in self._rows.values()
        }

    def names(self) -> Iterator[str]:
        """Yield the entries that name the tracks."""
        for number, row in self._rows.items():
            title = f"{_profile_title(row)} ({_counted(row.profile)}, not time)"
            yield from track_names(number, title, {number: "call paths"})

    def slices(self) -> Iterator[tuple[int, int, str]]:
        """Yield begin and negated end in ns, and the entry; parents first."""
        for number, row in self._rows.items():
            root = _Path("")
            for stack, cost in stacks_of(row.profile).items():
                place = root
                for frame in stack:
                    name = frame.function
                    place = place.children.setdefault(name, _Path(name, frame.file))
                    place.total += cost
                place.own += cost
            yield from _path_slices(root, number, row.profile.metric)


def _path_slices(root: _Path, number: int, metric: str) -> Iterator[tuple[int, int, str]]:
    left = [(root, 0)]  # no recursion: paths may be deeper than Python's stack
    while left:
        path, at = left.pop()
        end = at + path.total * _DRAWN_NS
        if path is not root:
            args = {metric: path.total, f"{metric} of its own": path.own, "file": path.file}
            yield (
                at,
                -end,
                f'{{"ph": "X", "name": {json_text(path.name)}, "pid": {number}, "tid": {number}, '
                f'"ts": {microseconds(at)}, "dur": {microseconds(end - at)}, "cat": "profile", '
                f'"args": {json_text(args)}}}',
            )
        for child in sorted(path.children.values(), key=lambda each: (-each.total, each.name)):
            left.append((child, at))
            at += child.total * _DRAWN_NS


def _profile_title(row: ProfiledRow) -> str:
    return f"{row.title} on {row.device}"


def _counted(profile: Profile) -> str:
    how = profile.sampled
    return f"{profile.metric} of one call" if how is None else f"samples of {how.calls:,} calls"
