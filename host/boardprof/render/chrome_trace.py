# SPDX-License-Identifier: Apache-2.0
"""The Chrome trace format, which Perfetto, chrome://tracing and speedscope open.

These programs read ambiguous parts of the format differently, so only a small part of it is used:
complete events (phase X) and instants, sorted by time in each track. Times are from the beginning
of the trace, in us with three decimals. Slices that overlap without nesting go to a second lane of
their track, because Perfetto leaves them out otherwise.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from boardprof.errors import UsageError

OWN_KEYS = ("schemaVersion", "displayTimeUnit", "traceEvents")
"""Keys of a trace file besides its metadata."""

_ENCODE = json.JSONEncoder(allow_nan=False).encode
_MOST = (1 << 63) - 1
"""Largest integer that all readers accept."""


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
