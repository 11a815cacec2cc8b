# SPDX-License-Identifier: Apache-2.0
"""The blob of the emulator's counter of instructions.

For boardprof's own layout of SysTick it adds what a return takes on this core, and that its cycles
are time: TIMER has only 1 MHz. ``make gen`` writes the C header of the other layout,
``emulated_instructions_wire.h``.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from construct import Int64ul, Struct

from boardprof_protocol.c_header import own_main
from boardprof_protocol.collectors import systick
from boardprof_protocol.layout import Counter, Layout

__all__ = ["LAYOUTS"]

_RETURN_CYCLES = 2
"""Of BX (Cortex-M0+ TRM, DDI 0484C, table 3-1); the image is in RAM without wait states."""

_OWN = (
    Layout(
        name="emulated_instructions",
        schema_id=1010,
        version=1,
        struct=Struct("start" / Int64ul * "count", "stop" / Int64ul * "count"),
        counters=(Counter("instructions", "start", "stop", own_return=1),),
    ),
)

[_CYCLES] = systick.LAYOUT.counters

LAYOUTS = (
    *_OWN,
    replace(systick.LAYOUT, counters=(replace(_CYCLES, unit="ticks", own_return=_RETURN_CYCLES),)),
)


if __name__ == "__main__":
    raise SystemExit(own_main(Path(__file__).with_name("emulated_instructions_wire.h"), _OWN))
