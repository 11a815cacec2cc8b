# SPDX-License-Identifier: Apache-2.0
"""A run of probes as a trace of the Common Trace Format, version 1.8.

It is a folder with a file that describes it and a file with the events of each core. Every record
of the board is an event. A new packet begins where the board has dropped events, because packets
count them.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from boardprof import __version__
from boardprof.base.printable import escaped
from boardprof.results.probes.core_events import Ints
from boardprof.results.probes.events import ADDRESSES, VALUES, ProbeNames
from boardprof.results.probes.run import ProbeRun
from boardprof.results.probes.timeline import Timeline
from boardprof.show.probe_tracks import check_events
from boardprof_protocol.codes import ProbeKind, TraceId

_NS = 10**9

_EVENT = np.dtype([("id", "<u2"), ("time", "<u8")])
_PACKET = struct.Struct("<IIQQQQQI")  # packet header and context, as the description below says
_MAGIC = 0xC1FC1FC1
_PIECE = 1 << 16  # events that are encoded at once
_TYPES = """\
typealias integer { size = 16; align = 8; signed = false; } := uint16_t;
typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
typealias integer { size = 32; align = 8; signed = true; } := int32_t;
typealias integer { size = 64; align = 8; signed = false; } := uint64_t;
typealias floating_point { exp_dig = 8; mant_dig = 24; align = 8; } := float;
"""

_STREAM = """\
typealias integer {
    size = 64; align = 8; signed = false; map = clock.trace_clock.value;
} := timestamp_t;

stream {
    packet.context := struct {
        timestamp_t timestamp_begin;
        timestamp_t timestamp_end;
        uint64_t content_size;
        uint64_t packet_size;
        uint64_t events_discarded;
        uint32_t cpu_id;
    };
    event.header := struct { uint16_t id; timestamp_t timestamp; };
};
"""

_OWN = {  # names and fields of events that have no name in the firmware
    TraceId.INTERRUPT_EXIT: ("interrupt_exit", ""),
    TraceId.INTERRUPT_ENTER: ("interrupt_enter", "uint32_t number;"),
    TraceId.TASK: ("task_switch", "address_t task;"),
    TraceId.ALLOC: ("alloc", "address_t block;"),
    TraceId.SIZE: ("alloc_size", "size_t bytes;"),
    TraceId.CALLER: ("alloc_caller", "address_t caller;"),
    TraceId.FREE: ("free", "address_t block;"),
    TraceId.DROPPED: ("dropped", "uint32_t events;"),
    TraceId.LIVE: ("live_before", "uint32_t blocks;"),
    TraceId.HIGH: ("address_high", "uint32_t bits_32_to_63;"),
}

_FIELDS = {
    ProbeKind.U32: "uint32_t value;",
    ProbeKind.I32: "int32_t value;",
    ProbeKind.F32: "float value;",
}

_PAIRS = {ProbeKind.RANGE: ("begin", "end"), ProbeKind.INTERRUPT: ("enter", "exit")}


def render_ctf(run: ProbeRun) -> dict[str, bytes]:
    """Return the files of a folder for babeltrace2, Trace Compass and similar programs, by name."""
    check_events(run)
    lines = run.timelines()
    bits = 64 if any((line.events.number == TraceId.HIGH).any() for line in lines.values()) else 32
    files = {"metadata": _description(run, bits).encode()}
    for core, timeline in lines.items():
        files[f"core{core}"] = b"".join(_packets(core, timeline, bits))
    return files


def _description(run: ProbeRun, bits: int) -> str:
    """Return the trace's description, in TSDL; addresses have as many bits."""
    environment = {
        "tracer_name": "boardprof",
        "boardprof_version": __version__,
        "board": run.facts.board,
        "build_id": run.facts.build_id,
        "clock_unit": run.clock.unit,
    }
    facts = "".join(f"    {key} = {_quoted(value)};\n" for key, value in environment.items())
    return (
        "/* CTF 1.8 */\n\n"
        f"{_TYPES}typealias integer {{ size = {bits}; align = 8; signed = false; base = 16; }} "
        f":= address_t;\ntypealias integer {{ size = {bits}; align = 8; signed = false; }} "
        ":= size_t;\n\n"
        "trace {\n    major = 1; minor = 8; byte_order = le;\n"
        "    packet.header := struct { uint32_t magic; uint32_t stream_id; };\n};\n\n"
        f"env {{\n{facts}}};\n\n"
        f"{_clock(run)}\n{_STREAM}\n{''.join(_events(run.names))}"
    )


def _clock(run: ProbeRun) -> str:
    """Return the description of the trace clock; without a rate, a tick is 1 ns."""
    clock, began_us = run.clock, run.facts.unix_us
    hz = clock.hz or _NS
    note = f"{clock.unit} of {clock.source}" + (
        "" if clock.hz else ", drawn as 1 ns each: not time"
    )
    lines = ["name = trace_clock;", f"description = {_quoted(note)};", f"freq = {hz};"]
    if began_us is not None:
        lines.append(f"offset_s = {began_us // 10**6};")
        lines.append(f"offset = {began_us % 10**6 * hz // 10**6};")
    return "clock {\n" + "".join(f"    {line}\n" for line in lines) + "};\n"


def _events(names: ProbeNames) -> Iterator[str]:
    for number, (name, fields) in _OWN.items():
        yield _event(number, f"bp:{name}", fields)
    for each in names.names:
        edges = _PAIRS.get(each.kind)
        titles = [f"{each.text}:{edge}" for edge in edges] if edges else [each.text]
        for more, title in enumerate(titles):
            yield _event(each.number + more, title, _FIELDS.get(each.kind, ""))


def _event(number: int, title: str, fields: str) -> str:
    return (
        f"event {{ name = {_quoted(title)}; id = {int(number)}; "
        f"fields := struct {{ {fields} }}; }};\n"
    )


def _quoted(text: str) -> str:
    """Return a string of TSDL. It is UTF-8, and readers know few of JSON's escapes."""
    return json.dumps(escaped(text), ensure_ascii=False)


def _packets(core: int, timeline: Timeline, bits: int) -> Iterator[bytes]:
    """Yield packets, each drop of events in one of its own: what it counts came just before it."""
    events = timeline.events
    content, starts = _content(timeline, bits)
    drops = np.flatnonzero(events.number == TraceId.DROPPED)
    cuts = np.unique(np.concatenate([[0], drops, drops + 1, [len(events)]])).tolist()
    counts = np.where(events.number == TraceId.DROPPED, events.value, 0)
    dropped = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    for first, end in pairwise(cuts):
        begin, last = map(int, timeline.common(events.time[[first, end - 1]]))
        yield _packet(core, (begin, last), int(dropped[end]), content[starts[first] : starts[end]])
    if not len(events):
        at = int(timeline.common(np.array([timeline.end]))[0])
        yield _packet(core, (at, at), timeline.dropped, b"")


def _packet(core: int, times: tuple[int, int], dropped: int, content: bytes) -> bytes:
    bits = 8 * (_PACKET.size + len(content))
    return _PACKET.pack(_MAGIC, 0, *times, bits, bits, dropped, core) + content


def _content(timeline: Timeline, bits: int) -> tuple[bytes, Ints]:
    """Return the bytes of all events, and where each begins."""
    events = timeline.events
    size = _value_sizes(timeline.names, bits)[events.number]
    at = np.concatenate([[0], np.cumsum(_EVENT.itemsize + size)])
    content = np.zeros(int(at[-1]), np.uint8)
    for first in range(0, len(events), _PIECE):
        piece = slice(first, first + _PIECE)
        heads = np.empty(len(events.time[piece]), _EVENT)
        heads["id"], heads["time"] = events.number[piece], timeline.common(events.time[piece])
        starts = at[:-1][piece]
        _write(content, starts, heads)
        valued = size[piece] == 4
        _write(content, starts[valued] + _EVENT.itemsize, events.value[piece][valued].astype("<u4"))
    wide = np.flatnonzero(size == 8)
    values = events.whole(wide).astype("<i8")
    for first in range(0, len(wide), _PIECE):
        piece = slice(first, first + _PIECE)
        _write(content, at[wide[piece]] + _EVENT.itemsize, values[piece])
    return content.tobytes(), at


def _write(content: npt.NDArray[np.uint8], at: Ints, values: npt.NDArray[np.generic]) -> None:
    """Write values of a number of bytes each to some places."""
    size = values.itemsize
    content[at[:, None] + np.arange(size)] = values.view(np.uint8).reshape(-1, size)


def _value_sizes(names: ProbeNames, bits: int) -> npt.NDArray[np.int64]:
    """Return how many bytes the value of each number's events has."""
    found = np.zeros(max(names.end, 256), np.int64)
    found[[number for number, (_, fields) in _OWN.items() if fields]] = 4
    found[[each.number for each in names.of_kind(*VALUES)]] = 4
    found[list(ADDRESSES)] = bits // 8
    return found
