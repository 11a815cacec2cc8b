# SPDX-License-Identifier: Apache-2.0
"""The blobs of Ibex's event counters and of the dot-product engine beside it.

For two of boardprof's own layouts it adds what a return takes on this core. ``make gen`` writes the
C header of the other layouts, ``ibex_wire.h``.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from construct import Int64ul, Struct

from boardprof_protocol.c_header import own_main
from boardprof_protocol.collectors import cycles_instret, ticks
from boardprof_protocol.layout import Counter, Layout

__all__ = ["LAYOUTS"]

# mhpmcounter3 to 12 (Ibex reference guide, "Performance Counters"). The empty function of a
# calibration is one instruction, a compressed jump: its return.
_EVENTS = {
    "data_waits": 0,
    "instruction_waits": 0,
    "loads": 0,
    "stores": 0,
    "jumps": 1,
    "branches": 0,
    "branches_taken": 0,
    "compressed_instructions": 1,
    "multiply_waits": 0,
    "divide_waits": 0,
}
# In cycles, and in ticks of mtime, which are the same: a jump takes two (Ibex reference guide,
# "Pipeline Details"). The fetch of its target is counted with the empty function's caller.
_RETURN_CYCLES = 2
_ENGINE = ("jobs", "busy", "read_stalls", "write_stalls", "macs")


def _struct(names: list[str]) -> Struct:
    ends = [f"{name}_{end}" for end in ("start", "stop") for name in names]
    return Struct(*(name / Int64ul * "count" for name in ends))


def _counter(name: str, own_return: int = 0) -> Counter:
    return Counter(name.replace("_", "-"), f"{name}_start", f"{name}_stop", own_return=own_return)


def _known_return(layout: Layout, name: str) -> Layout:
    """Return one of boardprof's layouts with what a return adds to the counter ``name``."""
    counters = (
        replace(each, own_return=_RETURN_CYCLES) if each.name == name else each
        for each in layout.counters
    )
    return replace(layout, counters=tuple(counters))


_OWN = (
    Layout(
        name="ibex_hpm",
        schema_id=1000,
        version=1,
        struct=_struct(list(_EVENTS)),
        counters=tuple(_counter(name, own_return) for name, own_return in _EVENTS.items()),
    ),
    Layout(
        name="ibex_accelerator",
        schema_id=1001,
        version=1,
        struct=_struct(list(_ENGINE)),
        counters=tuple(_counter(name) for name in _ENGINE),
        device="accelerator",
    ),
)

LAYOUTS = (
    *_OWN,
    _known_return(cycles_instret.LAYOUT, "cycles"),
    _known_return(ticks.LAYOUT, "ticks"),
)


if __name__ == "__main__":
    raise SystemExit(own_main(Path(__file__).with_name("ibex_wire.h"), _OWN))
