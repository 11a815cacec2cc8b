# SPDX-License-Identifier: Apache-2.0
"""HELLO, WELCOME and BUSY (SPEC.md 3). Their fields never move, whatever the version."""

from __future__ import annotations

from construct import Int8ul, Int16ul, Int32ul, Struct

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
