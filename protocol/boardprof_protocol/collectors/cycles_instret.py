# SPDX-License-Identifier: Apache-2.0
"""Two 64-bit counters: cycles and retired instructions (RISC-V mcycle and minstret)."""

from __future__ import annotations

from construct import Int64ul, Struct

from boardprof_protocol.layout import Counter, Layout

__all__ = ["LAYOUT"]

LAYOUT = Layout(
    name="cycles_instret",
    schema_id=1,
    version=1,
    struct=Struct(
        "cycles_start" / Int64ul * "cycles",
        "instructions_start" / Int64ul * "instructions",
        "cycles_stop" / Int64ul * "cycles",
        "instructions_stop" / Int64ul * "instructions",
    ),
    counters=(
        Counter("cycles", "cycles_start", "cycles_stop"),
        Counter("instructions", "instructions_start", "instructions_stop", own_return=1),
    ),
)
