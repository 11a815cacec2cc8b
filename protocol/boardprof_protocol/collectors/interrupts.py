# SPDX-License-Identifier: Apache-2.0
"""Interrupts and switches to other tasks, as the firmware's hooks have counted them.

With this collector, windows leave out what runs in between; the others' counts are without it.
"""

from __future__ import annotations

from construct import Int64ul, Struct

from boardprof_protocol.layout import Counter, Layout

__all__ = ["LAYOUT"]

LAYOUT = Layout(
    name="interrupts",
    schema_id=16,
    version=1,
    struct=Struct(
        "interrupts_start" / Int64ul * "interrupts",
        "switches_start" / Int64ul * "switches",
        "ticks_start" / Int64ul * "ticks",
        "interrupts_stop" / Int64ul * "interrupts",
        "switches_stop" / Int64ul * "switches",
        "ticks_stop" / Int64ul * "ticks",
    ),
    counters=(
        Counter("interrupts", "interrupts_start", "interrupts_stop"),
        Counter("context-switches", "switches_start", "switches_stop"),
        Counter("interrupt-ticks", "ticks_start", "ticks_stop"),
    ),
)
