# SPDX-License-Identifier: Apache-2.0
"""A trace in the Common Trace Format, as babeltrace2 reads it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from boardprof.show.ctf import render_ctf
from boardprof.show.exporters import write_exported
from tests.support import requires_tool
from tests.unit.recordings import (
    ALLOC,
    CALLER,
    CONTROL,
    COUNT,
    FREE,
    HIGH,
    INTERRUPT_ENTER,
    INTERRUPT_EXIT,
    SIZE,
    STEP,
    ProbeRun,
    block,
    event,
    recording,
    two_tasks,
)


@pytest.fixture
def read(tmp_path: Path) -> Reader:
    return Reader(tmp_path / "trace")


class Reader:
    """babeltrace2."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.program = requires_tool("babeltrace2", "babeltrace2")

    def text(self, made: ProbeRun, *options: str) -> tuple[list[str], str]:
        """Return the events as lines, and what it says of dropped ones."""
        write_exported(render_ctf(made), self.folder)
        command = [self.program, "--no-delta", *options, str(self.folder)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        return done.stdout.splitlines(), done.stderr


def test_each_record_is_an_event_with_its_time_name_and_value(read: Reader) -> None:
    events, _ = read.text(two_tasks(), "--clock-cycles")
    assert events == [
        "[00000000000000000010] bp:task_switch: { cpu_id = 0 }, { task = 0x20000100 }",
        "[00000000000000000020] control:begin: { cpu_id = 0 }, { }",
        "[00000000000000000025] step: { cpu_id = 0 }, { }",
        "[00000000000000000030] systick:enter: { cpu_id = 0 }, { }",
        "[00000000000000000034] count: { cpu_id = 0 }, { value = 7 }",
        "[00000000000000000040] systick:exit: { cpu_id = 0 }, { }",
        "[00000000000000000050] error: { cpu_id = 0 }, { value = -2 }",
        "[00000000000000000060] control:end: { cpu_id = 0 }, { }",
        "[00000000000000000070] bp:task_switch: { cpu_id = 0 }, { task = 0x20000200 }",
        "[00000000000000000080] filter:begin: { cpu_id = 0 }, { }",
        "[00000000000000000085] volts: { cpu_id = 0 }, { value = 2.5 }",
        "[00000000000000000100] filter:end: { cpu_id = 0 }, { }",
        "[00000000000000000110] bp:dropped: { cpu_id = 0 }, { events = 3 }",
        "[00000000000000000120] bp:task_switch: { cpu_id = 0 }, { task = 0x0 }",
        "[00000000000000000200] step: { cpu_id = 0 }, { }",
    ]


def test_addresses_above_4_gib_are_whole(read: Reader) -> None:
    records = [event(1, HIGH, 0x55D5), event(1, ALLOC, 0x1000), event(1, SIZE, 8), event(1, STEP)]
    events, _ = read.text(recording(block(records, 4)), "--clock-cycles")
    assert events == [
        "[00000000000000000001] bp:address_high: { cpu_id = 0 }, { bits_32_to_63 = 21973 }",
        "[00000000000000000002] bp:alloc: { cpu_id = 0 }, { block = 0x55D500001000 }",
        "[00000000000000000003] bp:alloc_size: { cpu_id = 0 }, { bytes = 8 }",
        "[00000000000000000004] step: { cpu_id = 0 }, { }",
    ]


def test_dropped_events_are_where_they_were_dropped(read: Reader) -> None:
    _, warning = read.text(two_tasks(), "--clock-gmt")
    assert "Tracer discarded 3 events between [10:00:00.250000100] and [10:00:00.250000110]" in (
        warning
    )
    assert warning.count("discarded") == 1


def test_cores_are_merged_on_the_clocks_rate_and_origin(read: Reader) -> None:
    made = recording(
        block([event(10, COUNT, 0xFFFFFFFF), event(20, COUNT, 0)], 30, core=0, dropped=9),
        block([event(12, STEP)], 12, core=1),
        hz=168_000_000,
    )
    events, warning = read.text(made, "--clock-gmt", "--clock-date")
    # 10, 12 and 30 ticks of 1/168 us after 0.25 s; babeltrace2 rounds down.
    assert events == [
        "[2026-11-25 10:00:00.250000059] count: { cpu_id = 0 }, { value = 4294967295 }",
        "[2026-11-25 10:00:00.250000071] step: { cpu_id = 1 }, { }",
        "[2026-11-25 10:00:00.250000178] count: { cpu_id = 0 }, { value = 0 }",
        "[2026-11-25 10:00:00.250000178] bp:dropped: { cpu_id = 0 }, { events = 9 }",
    ]
    assert "Tracer discarded 9 events between [2026-11-25 10:00:00.250000178]" in warning


def test_interrupts_without_a_name_and_memory_are_events_too(read: Reader) -> None:
    records = [
        event(5, INTERRUPT_ENTER, 17),
        event(1, ALLOC, 0x2000_0010),
        event(0, SIZE, 24),
        event(0, CALLER, 0x0800_0123),
        event(1, FREE, 0x2000_0010),
        event(1, INTERRUPT_EXIT),
    ]
    events, _ = read.text(recording(block(records, 8)), "--clock-cycles")
    assert [line.partition("] ")[2] for line in events] == [
        "bp:interrupt_enter: { cpu_id = 0 }, { number = 17 }",
        "bp:alloc: { cpu_id = 0 }, { block = 0x20000010 }",
        "bp:alloc_size: { cpu_id = 0 }, { bytes = 24 }",
        "bp:alloc_caller: { cpu_id = 0 }, { caller = 0x8000123 }",
        "bp:free: { cpu_id = 0 }, { block = 0x20000010 }",
        "bp:interrupt_exit: { cpu_id = 0 }, { }",
    ]


def test_a_core_that_recorded_nothing_has_an_empty_stream(read: Reader) -> None:
    made = recording(block([], 50, core=0), block([event(12, CONTROL)], 12, core=1))
    events, warning = read.text(made, "--clock-cycles")
    assert events == ["[00000000000000000012] control:begin: { cpu_id = 1 }, { }"]
    assert warning == ""


def test_many_events_keep_their_bytes_across_the_pieces_that_are_encoded_at_once(
    read: Reader,
) -> None:
    records = [event(1, COUNT, 3_000_000_000 + i) for i in range(30_000)]
    parts = [block(records, 30_000 * (i + 1), before=60_000 * i) for i in range(4)]
    events, _ = read.text(recording(*parts), "--clock-cycles")
    assert len(events) == 120_000
    assert events[65_536] == "[00000000000000065537] count: { cpu_id = 0 }, { value = 3000005536 }"
    assert events[-1] == "[00000000000000120000] count: { cpu_id = 0 }, { value = 3000029999 }"
