# SPDX-License-Identifier: Apache-2.0
"""One 32-bit cycle counter (DWT CYCCNT; the low word of RISC-V mcycle)."""

from __future__ import annotations

from construct import Int32ul, Struct

from boardprof_protocol.layout import Counter, Layout

__all__ = ["LAYOUT"]

LAYOUT = Layout(
    name="cycles32",
    schema_id=2,
    version=1,
    struct=Struct("start" / Int32ul * "cycles", "stop" / Int32ul * "cycles"),
    counters=(Counter("cycles", "start", "stop"),),
)
