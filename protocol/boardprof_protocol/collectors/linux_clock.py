# SPDX-License-Identifier: Apache-2.0
"""Linux clocks: CLOCK_MONOTONIC_RAW and CLOCK_THREAD_CPUTIME_ID (clock_gettime(2))."""

from __future__ import annotations

from construct import Int64ul, Struct

from boardprof_protocol.layout import Counter, Layout

__all__ = ["LAYOUT"]

LAYOUT = Layout(
    name="linux_clock",
    schema_id=4,
    version=1,
    struct=Struct(
        "wall_start" / Int64ul * "ns",
        "wall_stop" / Int64ul * "ns",
        "cpu_start" / Int64ul * "ns",
        "cpu_stop" / Int64ul * "ns",
    ),
    counters=(
        Counter("duration_time", "wall_start", "wall_stop", unit="ns"),
        Counter("task-clock", "cpu_start", "cpu_stop", unit="ns"),
    ),
)
