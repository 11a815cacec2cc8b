# SPDX-License-Identifier: Apache-2.0
"""ESP32-C3's one programmable counter, mpccr, of 32 bits."""

from __future__ import annotations

from construct import Int32ul, Struct

from boardprof_protocol.layout import Counter, Layout

__all__ = ["LAYOUT"]

LAYOUT = Layout(
    name="esp32c3",
    schema_id=15,
    version=1,
    struct=Struct("start" / Int32ul * "events", "stop" / Int32ul * "events"),
    counters=(Counter("slot0", "start", "stop"),),
    programmable=True,
)
