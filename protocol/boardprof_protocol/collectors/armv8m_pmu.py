# SPDX-License-Identifier: Apache-2.0
"""The performance monitor of ARMv8.1-M: four programmable slots of 32 bits, two counters each."""

from __future__ import annotations

from construct import Int32ul, Struct

from boardprof_protocol.layout import Counter, Layout

__all__ = ["LAYOUT"]

_SLOTS = [f"slot{i}" for i in range(4)]

LAYOUT = Layout(
    name="armv8m_pmu",
    schema_id=12,
    version=1,
    struct=Struct(
        *(f"{slot}_{part}" / Int32ul * "events" for slot in _SLOTS for part in ("start", "stop"))
    ),
    counters=tuple(Counter(slot, f"{slot}_start", f"{slot}_stop") for slot in _SLOTS),
    programmable=True,
)
