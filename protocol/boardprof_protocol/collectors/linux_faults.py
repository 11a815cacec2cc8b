# SPDX-License-Identifier: Apache-2.0
"""Page faults of the calling thread (perf_event_open(2), PERF_COUNT_SW_PAGE_FAULTS)."""

from __future__ import annotations

from construct import Int64ul, Struct

from boardprof_protocol.layout import Counter, Layout

__all__ = ["LAYOUT"]

LAYOUT = Layout(
    name="linux_faults",
    schema_id=5,
    version=1,
    struct=Struct("start" / Int64ul * "faults", "stop" / Int64ul * "faults"),
    counters=(Counter("page-faults", "start", "stop"),),
)
