# SPDX-License-Identifier: Apache-2.0
"""Arguments that are pointers: bytes of an arena block (SPEC.md 5.9)."""

from __future__ import annotations

from construct import Int32ul, Struct

from boardprof_protocol.layout import Layout

__all__ = ["SPAN", "SPAN_COPY"]

SPAN = Layout(
    name="span",
    schema_id=0,
    version=1,
    struct=Struct(
        "handle" / Int32ul,
        "offset" / Int32ul * "bytes",
        "length" / Int32ul * "bytes",
    ),
)

# The same with the block whose first bytes are put back before the function runs.
SPAN_COPY = Layout(
    name="span_copy",
    schema_id=0,
    version=1,
    struct=Struct(
        "handle" / Int32ul,
        "offset" / Int32ul * "bytes",
        "length" / Int32ul * "bytes",
        "copy" / Int32ul,
    ),
)
