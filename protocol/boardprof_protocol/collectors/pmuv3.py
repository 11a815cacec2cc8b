# SPDX-License-Identifier: Apache-2.0
"""Four programmable slots of Arm's PMUv3: event counters 2 to 5."""

from __future__ import annotations

from construct import Int32ul, Struct

from boardprof_protocol.layout import Counter, Layout

__all__ = ["LAYOUT"]

_SLOTS = [f"slot{i}" for i in range(4)]

LAYOUT = Layout(
    name="pmuv3",
    schema_id=9,
    version=1,
    struct=Struct(
        *(f"{slot}_{part}" / Int32ul * "events" for part in ("start", "stop") for slot in _SLOTS)
    ),
    counters=tuple(Counter(slot, f"{slot}_start", f"{slot}_stop") for slot in _SLOTS),
    programmable=True,
)
