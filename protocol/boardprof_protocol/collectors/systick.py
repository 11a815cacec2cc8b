# SPDX-License-Identifier: Apache-2.0
"""The core's cycles by SysTick (24 bits), with the port's coarse clock to tell its wraps."""

from __future__ import annotations

from construct import Int32ul, Struct

from boardprof_protocol.layout import Counter, Layout

__all__ = ["LAYOUT"]

LAYOUT = Layout(
    name="systick",
    schema_id=10,
    version=1,
    struct=Struct(
        "start" / Int32ul * "cycles",
        "stop" / Int32ul * "cycles",
        "coarse_start" / Int32ul * "coarse ticks",
        "coarse_stop" / Int32ul * "coarse ticks",
    ),
    counters=(
        Counter("cycles", "start", "stop", coarse_start="coarse_start", coarse_stop="coarse_stop"),
    ),
)
