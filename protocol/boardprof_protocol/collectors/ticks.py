# SPDX-License-Identifier: Apache-2.0
"""The board's tick counter, with a slower clock beside it that tells how often it wrapped."""

from __future__ import annotations

from construct import Int32ul, Int64ul, Struct

from boardprof_protocol.layout import Counter, Layout

__all__ = ["LAYOUT"]

LAYOUT = Layout(
    name="ticks",
    schema_id=3,
    version=1,
    struct=Struct(
        "start" / Int64ul * "ticks",
        "stop" / Int64ul * "ticks",
        "coarse_start" / Int32ul * "coarse ticks",
        "coarse_stop" / Int32ul * "coarse ticks",
    ),
    counters=(
        Counter(
            "ticks",
            "start",
            "stop",
            unit="ticks",
            coarse_start="coarse_start",
            coarse_stop="coarse_stop",
        ),
    ),
)
