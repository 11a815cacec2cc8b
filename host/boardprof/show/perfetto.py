# SPDX-License-Identifier: Apache-2.0
"""A recording of probes as a Perfetto trace, in protobuf.

Field numbers are those of Perfetto's ``protos/perfetto/trace``. The trace has one sequence of
packets, which names each slice and mark by a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

import numpy as np

from boardprof.results.probes.recording import ProbeRecording
from boardprof.results.probes.timeline import Ints
from boardprof.show.probe_tracks import (
    Counter,
    Lane,
    ProbeTracks,
    Track,
    check_events,
    lane_title,
)
from boardprof.show.protobuf import double, message, number, text, varint, varints

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

_HEADS = [varint(_PACKET << 3 | 2) + varint(length) for length in range(128)]
"""What is before an event's packet, by its length; none is longer."""


def render_perfetto(recording: ProbeRecording) -> bytes:
    """Return a recording for ui.perfetto.dev and Perfetto's trace processor.

    Raises:
        UsageError: the recording has no events.
        DecodeError: it is damaged.
    """
    check_events(recording)
    drawing = ProbeTracks(recording)
    return b"".join(_packets(drawing))


def _packets(drawing: ProbeTracks) -> Iterator[bytes]:
    yield _packet(_clocks(drawing.recording.facts.time))
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
        for track in drawing.tracks:
            for lane_number, lane in enumerate(track.lanes or [None]):
                if track.core == core:
                    uuid, rank = uuid + 1, rank + 1
                    title = lane_title(track, lane_number)
                    yield _descriptor(uuid, title, *_child(root, rank))
                    if lane is not None:
                        yield from _slices(lane, uuid)
                    if not lane_number:
                        yield from _marks(track, uuid)
        for counter in drawing.counters:
            if counter.core == core:
                uuid, rank = uuid + 1, rank + 1
                unit = message(8, *_unit(counter.unit))
                yield _descriptor(uuid, counter.title, *_child(root, rank), unit)
                yield from _values(counter, uuid)


def _packet(*content: bytes) -> bytes:
    return message(_PACKET, *content, _SEQUENCE)


def _clocks(began: str) -> bytes:
    """Return when the trace's time 0 was, if it is known."""
    clocks = [message(1, number(1, _BOOTTIME), number(2, 0))]
    if began:
        since = datetime.fromisoformat(began) - datetime.fromisoformat("1970-01-01T00:00Z")
        ns = (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000
        clocks.append(message(1, number(1, _REALTIME), number(2, ns)))
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
    """Yield the packets of events at some times."""
    for time, event in zip(varints(times), events, strict=True):
        yield b"%b%b%b%b" % (_HEADS[1 + len(time) + len(event)], _TIMESTAMP_KEY, time, event)
