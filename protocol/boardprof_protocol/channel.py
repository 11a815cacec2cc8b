# SPDX-License-Identifier: Apache-2.0
"""Bodies of the frames that carry bulk data and streams (SPEC.md 4.5)."""

from __future__ import annotations

from construct import Int8ul, Int32ul, Struct

from boardprof_protocol.layout import Layout

__all__ = ["ACK", "DATA"]

# DATA's own bytes follow.
DATA = Layout(name="data", schema_id=0, version=1, struct=Struct("offset" / Int32ul * "bytes"))

ACK = Layout(
    name="ack",
    schema_id=0,
    version=1,
    struct=Struct(
        "offset" / Int32ul * "bytes",
        "credit" / Int32ul * "bytes",
        "flags" / Int8ul,
    ),
)
