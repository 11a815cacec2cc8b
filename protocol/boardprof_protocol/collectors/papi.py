# SPDX-License-Identifier: Apache-2.0
"""Ten programmable slots of PAPI events, of the thread that runs the agent."""

from __future__ import annotations

from construct import Int64ul, Struct

from boardprof_protocol.layout import Counter, Layout

__all__ = ["LAYOUT"]

_SLOTS = [f"slot{i}" for i in range(10)]

LAYOUT = Layout(
    name="papi",
    schema_id=14,
    version=1,
    struct=Struct(
        *(f"{slot}_{part}" / Int64ul * "events" for slot in _SLOTS for part in ("start", "stop"))
    ),
    counters=tuple(Counter(slot, f"{slot}_start", f"{slot}_stop") for slot in _SLOTS),
    programmable=True,
)
