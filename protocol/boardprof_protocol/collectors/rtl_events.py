# SPDX-License-Identifier: Apache-2.0
"""Eight programmable slots of the system around a core that is simulated from its RTL."""

from __future__ import annotations

from construct import Int64ul, Struct

from boardprof_protocol.layout import Counter, Layout

__all__ = ["LAYOUT"]

_SLOTS = [f"slot{i}" for i in range(8)]

LAYOUT = Layout(
    name="rtl_events",
    schema_id=17,
    version=1,
    struct=Struct(
        *(f"{slot}_{part}" / Int64ul * "events" for part in ("start", "stop") for slot in _SLOTS)
    ),
    counters=tuple(Counter(slot, f"{slot}_start", f"{slot}_stop") for slot in _SLOTS),
    programmable=True,
)
