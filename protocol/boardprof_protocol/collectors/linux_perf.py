# SPDX-License-Identifier: Apache-2.0
"""Ten programmable slots of Linux events (perf_event_open(2)), of the thread that runs the agent.

Where the kernel lets events take turns on too few counters, a slot ran for a part of the window
only: ``enabled`` and ``running`` say for how long of it.
"""

from __future__ import annotations

from construct import Int64ul, Struct

from boardprof_protocol.layout import Counter, Layout

__all__ = ["LAYOUT"]

_SLOTS = [f"slot{i}" for i in range(10)]
_UNITS = {"start": "events", "stop": "events", "enabled": "ns", "running": "ns"}

LAYOUT = Layout(
    name="linux_perf",
    schema_id=13,
    version=1,
    struct=Struct(
        *(f"{slot}_{part}" / Int64ul * unit for slot in _SLOTS for part, unit in _UNITS.items())
    ),
    counters=tuple(
        Counter(
            slot,
            f"{slot}_start",
            f"{slot}_stop",
            enabled=f"{slot}_enabled",
            running=f"{slot}_running",
        )
        for slot in _SLOTS
    ),
    programmable=True,
)
