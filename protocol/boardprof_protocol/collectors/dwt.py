# SPDX-License-Identifier: Apache-2.0
"""The DWT of ARMv7-M and ARMv8-M: CYCCNT, and five counters of 8 bits for short windows."""

from __future__ import annotations

from construct import Int8ul, Int32ul, Struct

from boardprof_protocol.layout import Counter, Layout

__all__ = ["LAYOUT"]

_SHORT = ("cpi", "exc", "sleep", "lsu", "fold")


def _short(name: str) -> Counter:
    # At most one a cycle, all cycles but those asleep, which CYCCNT leaves out (DDI 0403, C1.8).
    bound = None if name == "sleep" else "cycles"
    return Counter(name, f"{name}_start", f"{name}_stop", bound=bound)


LAYOUT = Layout(
    name="dwt",
    schema_id=11,
    version=1,
    struct=Struct(
        "cycles_start" / Int32ul * "cycles",
        "cycles_stop" / Int32ul * "cycles",
        *(f"{name}_{part}" / Int8ul * "cycles" for name in _SHORT for part in ("start", "stop")),
    ),
    counters=(Counter("cycles", "cycles_start", "cycles_stop"), *map(_short, _SHORT)),
)
