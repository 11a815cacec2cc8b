# SPDX-License-Identifier: Apache-2.0
"""A trace for Perfetto, read with the schema that Perfetto publishes."""

from __future__ import annotations

import struct

import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import (
    ClockSnapshot,
    CounterDescriptor,
    Trace,
    TrackEvent,
)

from boardprof.show.probe_files import render_perfetto
from tests.unit.recordings import (
    ALLOC,
    CALLER,
    CONTROL,
    COUNT,
    ERROR,
    FILTER,
    FREE,
    SIZE,
    STEP,
    SYSTICK,
    VOLTS,
    ProbeRun,
    block,
    event,
    recording,
    two_tasks,
)

KINDS = {
    TrackEvent.TYPE_SLICE_BEGIN: "begin",
    TrackEvent.TYPE_SLICE_END: "end",
    TrackEvent.TYPE_INSTANT: "mark",
    TrackEvent.TYPE_COUNTER: "value",
}


class Read:
    """A trace as its reader sees it."""

    def __init__(self, made: ProbeRun) -> None:
        self.trace = Trace.FromString(render_perfetto(made))
        packets = self.trace.packet
        self.tracks = {
            each.track_descriptor.uuid: each.track_descriptor
            for each in packets
            if each.HasField("track_descriptor")
        }
        names: dict[int, str] = {}
        self.events: dict[str, list[tuple[int, str, object]]] = {}
        for each in packets:
            names |= {name.iid: name.name for name in each.interned_data.event_names}
            if each.HasField("track_event"):
                assert each.sequence_flags == 2  # it needs the names
                found = each.track_event
                what: object = names[found.name_iid] if found.HasField("name_iid") else None
                if found.HasField("counter_value"):
                    what = found.counter_value
                if found.HasField("double_counter_value"):
                    what = found.double_counter_value
                title = self.tracks[found.track_uuid].name
                self.events.setdefault(title, []).append((each.timestamp, KINDS[found.type], what))


def test_each_core_task_interrupt_and_value_has_a_track_with_its_own_events() -> None:
    read = Read(two_tasks())
    assert read.events == {
        "what runs": [
            (10, "begin", "task 0x20000100"),
            (30, "end", None),
            (30, "begin", "systick"),
            (40, "end", None),
            (40, "begin", "task 0x20000100"),
            (70, "end", None),
            (70, "begin", "task 0x20000200"),
            (110, "end", None),
            (120, "begin", "(scheduler)"),
            (200, "end", None),
            (110, "mark", "events dropped"),
        ],
        "(scheduler)": [(200, "mark", "step")],
        "task 0x20000100": [
            (20, "begin", "control"),
            (60, "end", None),
            (25, "mark", "step"),
        ],
        "task 0x20000200": [(80, "begin", "filter"), (100, "end", None)],
        "systick": [(30, "begin", "systick"), (40, "end", None)],
        "count": [(34, "value", 7)],
        "error": [(50, "value", -2)],
        "volts": [(85, "value", 2.5)],
        "events dropped": [(110, "value", 3)],
    }


def test_all_tracks_are_below_that_of_their_core_and_in_order() -> None:
    read = Read(two_tasks())
    root = read.tracks[1]
    assert root.name == "bench, core 0 (times are cycles, not ns)"
    others = [each for uuid, each in read.tracks.items() if uuid != 1]
    assert {each.parent_uuid for each in others} == {1}
    assert [each.sibling_order_rank for each in others] == list(range(1, 10))
    assert [each.name for each in others if each.HasField("counter")] == [
        "count",
        "error",
        "volts",
        "events dropped",
    ]


def test_the_traces_clock_begins_when_recording_began() -> None:
    snapshot = Read(two_tasks()).trace.packet[0].clock_snapshot
    # 2026-11-25 10:00:00.250 is 1,795,600,800.25 s after 1970.
    assert [(each.clock_id, each.timestamp) for each in snapshot.clocks] == [
        (ClockSnapshot.Clock.BOOTTIME, 0),
        (ClockSnapshot.Clock.REALTIME, 1_795_600_800_250_000_000),
    ]
    assert snapshot.primary_trace_clock == ClockSnapshot.Clock.BOOTTIME


def test_with_a_rate_times_are_nanoseconds_to_the_nearest_one_after_hours_as_well() -> None:
    # 2^24 - 1 ticks a time: 6,000 of them at 168 MHz are 599 s, more than 32 bits of ticks.
    far = [event(2**24 - 1, STEP)] * 6000
    ticks = 6000 * (2**24 - 1)
    made = recording(block(far, ticks % 2**32), hz=168_000_000)
    found = Read(made).events["code"]
    assert found[0] == (99_864_375, "mark", "step")  # 16,777,215 / 0.168
    assert found[-1] == (599_186_250_000, "mark", "step")


def test_ranges_that_overlap_get_a_second_track() -> None:
    records = [event(1, CONTROL), event(1, FILTER), event(1, CONTROL + 1), event(1, FILTER + 1)]
    read = Read(recording(block(records, 4)))
    assert read.events == {
        "code": [(1, "begin", "control"), (3, "end", None)],
        "code (2)": [(2, "begin", "filter"), (4, "end", None)],
    }


def test_a_range_within_an_interrupt_is_on_the_interrupts_track() -> None:
    records = [
        event(5, SYSTICK),
        event(1, CONTROL),
        event(2, STEP),
        event(3, CONTROL + 1),
        event(1, SYSTICK + 1),
        event(2, 1, 17),  # an interrupt that has a number only
        event(0, FILTER),
        event(4, FILTER + 1),
        event(0, 0),
    ]
    assert Read(recording(block(records, 18))).events == {
        "what runs": [
            (5, "begin", "systick"),
            (12, "end", None),
            (14, "begin", "interrupt 17"),
            (18, "end", None),
        ],
        "systick": [
            (5, "begin", "systick"),
            (6, "begin", "control"),
            (11, "end", None),
            (12, "end", None),
            (8, "mark", "step"),
        ],
        "interrupt 17": [
            (14, "begin", "interrupt 17"),
            (14, "begin", "filter"),
            (18, "end", None),
            (18, "end", None),
        ],
    }


def test_passes_of_no_length_and_of_equal_times_nest() -> None:
    records = [
        event(7, CONTROL),
        event(0, FILTER),
        event(0, FILTER + 1),
        event(0, FILTER),
        event(3, FILTER + 1),
        event(0, CONTROL + 1),
    ]
    assert Read(recording(block(records, 10))).events["code"] == [
        (7, "begin", "control"),
        (7, "begin", "filter"),
        (7, "begin", "filter"),
        (7, "end", None),
        (10, "end", None),
        (10, "end", None),
    ]


def test_cores_have_tracks_of_their_own_and_events_lost_at_the_end_are_seen() -> None:
    made = recording(
        block([event(10, COUNT, 0xFFFFFFFF)], 10, core=0, dropped=9),
        block([event(12, STEP)], 12, core=1),
    )
    read = Read(made)
    roots = [each.name for each in read.tracks.values() if not each.parent_uuid]
    assert [name.partition(" (")[0] for name in roots] == ["bench, core 0", "bench, core 1"]
    assert read.events["count"] == [(10, "value", 4294967295)]
    assert read.events["events dropped"] == [(10, "value", 9)]
    assert read.events["code"] == [(12, "mark", "step")]


def test_live_memory_is_a_counter_of_bytes() -> None:
    records = [
        event(5, ALLOC, 0x1000),
        event(0, SIZE, 100),
        event(0, CALLER, 0x80000010),
        event(5, FREE, 0x1000),
    ]
    read = Read(recording(block(records, 10)))
    assert read.events == {"live memory": [(5, "value", 100), (10, "value", 0)]}
    (track,) = [each for each in read.tracks.values() if each.name == "live memory"]
    assert track.counter.unit == CounterDescriptor.UNIT_SIZE_BYTES


@pytest.mark.parametrize("value", [0.0, -1.5, float("inf"), 3.4028234663852886e38])
def test_floats_keep_their_value(value: float) -> None:
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    assert Read(recording(block([event(1, VOLTS, bits)], 1))).events["volts"] == [
        (1, "value", value)
    ]


@pytest.mark.parametrize(("bits", "value"), [(0, 0), (0x7FFFFFFF, 2**31 - 1), (2**31, -(2**31))])
def test_signed_values_keep_their_sign(bits: int, value: int) -> None:
    assert Read(recording(block([event(1, ERROR, bits)], 1))).events["error"] == [
        (1, "value", value)
    ]
