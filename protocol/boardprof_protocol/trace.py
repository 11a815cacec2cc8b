# SPDX-License-Identifier: Apache-2.0
"""What a board sends of its probes: blocks of records, and slots of ranges (SPEC.md 5.12)."""

from __future__ import annotations

from construct import Int8ul, Int16ul, Int32ul, Int64ul, Struct

from boardprof_protocol.layout import Counter, Layout

__all__ = ["PASSES", "TRACE_BLOCK", "TRACE_KEPT", "TRACE_SLOT"]

# Before the records of a block.
TRACE_BLOCK = Layout(
    name="trace_block",
    schema_id=0,
    version=1,
    struct=Struct(
        "core" / Int8ul,
        "flags" / Int8ul,
        "words" / Int16ul * "words",
        "sequence" / Int32ul * "words",
        "dropped" / Int32ul * "events",
        "last" / Int32ul,
        "now" / Int32ul,
        "ticks" / Int64ul,
    ),
)

# A range's running statistics.
TRACE_SLOT = Layout(
    name="trace_slot",
    schema_id=0,
    version=1,
    struct=Struct(
        "id" / Int32ul,
        "count" / Int32ul,
        "lost" / Int32ul * "passes",
        "flags" / Int32ul,
        "least" / Int32ul,
        "most" / Int32ul,
        "sum" / Int64ul,
        "squares" / Int64ul,
    ),
)

# What stands in memory that a reset leaves alone.
TRACE_KEPT = Layout(
    name="trace_kept",
    schema_id=0,
    version=1,
    struct=Struct(
        "size" / Int32ul * "words",
        "at" / Int32ul * "words",
        "written" / Int32ul * "words",
        "last" / Int32ul,
        "build_id" / Int8ul[8],
    ),
)


def _pass_layout(schema_id: int, unit: str, kind: str) -> Layout:
    return Layout(
        name=f"range_{unit}",
        schema_id=schema_id,
        version=1,
        struct=Struct(
            "begin" / Int64ul * unit,
            "end" / Int64ul * unit,
            "away" / Int64ul * unit,
            "one" / Int8ul,
        ),
        counters=(Counter(unit, "begin", "end", kind, interrupts="one", interrupt_cost="away"),),
    )


PASSES = {
    "cycles": _pass_layout(900, "cycles", "count"),
    "instructions": _pass_layout(901, "instructions", "count"),
    "ticks": _pass_layout(902, "ticks", "ticks"),
}
"""Unit of the trace clock -> a pass of a range, as the host writes it into a Report.

``away`` is what other tasks, interrupts and inner probes took between ``begin`` and ``end``.
"""
