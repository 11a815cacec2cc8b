# SPDX-License-Identifier: Apache-2.0
"""Recordings of probes, made of words as SPEC.md 5.12 says them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from boardprof.results.probes.events import read_names
from boardprof.results.probes.run import ProbeRun, RunFacts, TraceClock
from boardprof.results.probes.timeline import ProbeCosts

NAMES = b"\x01control\0\x02systick\0\x03step\0\x04count\0\x05error\0\x06volts\0\x01filter\0"
"""Numbers: control 16, systick 18, step 20, count 21, error 22, volts 23, filter 24."""

CONTROL, SYSTICK, STEP, COUNT, ERROR, VOLTS, FILTER = 16, 18, 20, 21, 22, 23, 24
INTERRUPT_EXIT, INTERRUPT_ENTER, TASK, ALLOC, SIZE, CALLER, FREE, DROPPED = 0, 1, 2, 3, 4, 5, 6, 10
LIVE, HIGH = 13, 14


def event(delta: int, number: int, value: int | None = None) -> bytes:
    """Return a record."""
    word = struct.pack("<I", delta << 8 | number)
    return word if value is None else word + struct.pack("<I", value)


def block(
    records: Sequence[bytes], now: int, core: int = 0, dropped: int = 0, before: int = 0
) -> bytes:
    """Return a whole block of a core's records, the last one at ``now``.

    Args:
        records: what it has.
        now: ticks since recording began.
        core: whose they are.
        dropped: events so far.
        before: words of the core's earlier blocks.
    """
    words = b"".join(records)
    head = struct.pack("<BBHIIIIQ", core, 1, len(words) // 4, before, dropped, now, now, now)
    return head + words


def recording(*blocks: bytes, hz: int = 0, unit: str = "cycles", **facts: Any) -> ProbeRun:
    """Return a recording of blocks."""
    where: dict[str, Any] = {"board": "bench", "time": "2026-11-25T10:00:00.250+00:00", **facts}
    clock = TraceClock(unit, "DWT_CYCCNT", hz)
    return ProbeRun(RunFacts(**where), clock, read_names(NAMES), ProbeCosts(), b"".join(blocks))


def two_tasks() -> ProbeRun:
    """Return a recording of two tasks, an interrupt within a range, values, and dropped events."""
    records = [
        event(10, TASK, 0x20000100),
        event(10, CONTROL),  # 20
        event(5, STEP),  # 25
        event(5, SYSTICK),  # 30
        event(4, COUNT, 7),  # 34
        event(6, SYSTICK + 1),  # 40
        event(10, ERROR, 0xFFFFFFFE),  # 50: -2
        event(10, CONTROL + 1),  # 60
        event(10, TASK, 0x20000200),  # 70
        event(10, FILTER),  # 80
        event(5, VOLTS, 0x40200000),  # 85: 2.5
        event(15, FILTER + 1),  # 100
        event(10, DROPPED, 3),  # 110
        event(10, TASK, 0),  # 120
        event(80, STEP),  # 200
    ]
    return recording(block(records, 200, dropped=3))
