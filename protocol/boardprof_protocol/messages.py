# SPDX-License-Identifier: Apache-2.0
"""Bodies of frames and arguments: HELLO to BUSY (SPEC.md 3), DATA and ACK (4.5), spans (5.9)."""

from __future__ import annotations

from construct import Int8ul, Int16ul, Int32sl, Int32ul, Struct

from boardprof_protocol.layout import Layout

__all__ = ["BUSY", "CLAIM", "HELLO", "OWNER_BYTES", "WELCOME"]

OWNER_BYTES = 32
"""Room for a host's name, UTF-8, filled up with zeros."""

HELLO = Layout(
    name="hello",
    schema_id=0,
    version=1,
    struct=Struct(
        "magic" / Int32ul,
        "version_min" / Int8ul,
        "version_max" / Int8ul,
        "mtu" / Int16ul * "bytes",
        "nonce" / Int32ul,
    ),
)

WELCOME = Layout(
    name="welcome",
    schema_id=0,
    version=1,
    struct=Struct(
        "version_min" / Int8ul,
        "version_max" / Int8ul,
        "flags" / Int8ul,
        "pointer_size" / Int8ul * "bytes",
        "mtu_rx" / Int16ul * "bytes",
        "mtu_tx" / Int16ul * "bytes",
        "window" / Int16ul * "frames",
        "reset_cause" / Int8ul,
        "reserved" / Int8ul,
        "boot_id" / Int32ul,
        "last_sequence" / Int32ul,
        "build_id" / Int8ul[8],
        "dictionary_hash" / Int32ul,
    ),
)

# Behind HELLO's own fields; only agents with several connections look at it.
CLAIM = Layout(
    name="claim",
    schema_id=0,
    version=1,
    struct=Struct("flags" / Int8ul, "owner" / Int8ul[OWNER_BYTES]),
)

BUSY = Layout(
    name="busy",
    schema_id=0,
    version=1,
    struct=Struct("owner" / Int8ul[OWNER_BYTES]),
)


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


__all__ = ["PLACE", "SPAN", "SPAN_COPY", "TOKEN"]

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

# A pointer into a block, at any byte.
PLACE = Layout(
    name="place",
    schema_id=0,
    version=1,
    struct=Struct(
        "handle" / Int32ul,
        "offset" / Int32ul * "bytes",
    ),
)

# A pointer that the board returned, to memory outside of the arena.
TOKEN = Layout(
    name="token",
    schema_id=0,
    version=1,
    struct=Struct(
        "number" / Int32ul,
        "anchor" / Int32ul,
        "distance" / Int32sl * "bytes",
    ),
)
