# SPDX-License-Identifier: Apache-2.0
"""The first vectors of a new collector: one that is read, and those that must be refused.

They hold until its layout is another; the next ones are to be written by hand.
"""

from __future__ import annotations

import json
from typing import Any

from boardprof_protocol.blob import encode_blob
from boardprof_protocol.layout import Layout

__all__ = ["first_vectors"]

_START, _STOP = 1000, 11000
_HEADER_BYTES, _CRC_BYTES = 6, 4
_SOURCE = "CHANGE: by hand from the manual"


def first_vectors(layout: Layout) -> str:
    """Return the vectors of a layout that has a ``start`` and a ``stop``, as a file has them."""
    fields = {"start": _START, "stop": _STOP}
    body = layout.struct.build(fields)
    good = {
        "name": "CHANGE: what it is an example of",
        "source": _SOURCE,
        "fields": fields,
        "body": body.hex(),
        "hex": encode_blob(layout.schema_id, layout.version, body).hex(),
        "counters": [
            {
                "name": layout.name,
                "bits": 64,
                "difference": _STOP - _START,
                "hz": 0,
                "coarse_hz": 0,
                "wrapped": 0,
            }
        ],
    }
    lines = ",\n".join(f"  {json.dumps(vector)}" for vector in [good, *_bad(layout, body)])
    return f"[\n{lines}\n]\n"


def _bad(layout: Layout, body: bytes) -> list[dict[str, Any]]:
    """Return what SPEC.md 6.1 refuses of any layout; a body has two halves, start and stop."""
    blob = encode_blob(layout.schema_id, layout.version, body)
    short = encode_blob(layout.schema_id, layout.version, body[:-1])
    long = encode_blob(layout.schema_id, layout.version, body + b"\0")
    newer = encode_blob(layout.schema_id, layout.version + 1, body)
    damaged = blob[:-_CRC_BYTES] + bytes([blob[-_CRC_BYTES] ^ 1]) + blob[1 - _CRC_BYTES :]
    end = _HEADER_BYTES + len(body)
    return [
        _refused("a body one byte short", short, "length", "stop", end - len(body) // 2),
        _refused("a body one byte long", long, "length", "(end)", end),
        _refused("a wrong CRC", damaged, "crc", "blob[0].crc", end),
        _refused("a version that nobody knows", newer, "schema", "header", 0),
        _refused("the CRC cut off", blob[:-1], "cut", "blob[0].body", _HEADER_BYTES),
    ]


def _refused(name: str, blob: bytes, error: str, path: str, offset: int) -> dict[str, Any]:
    return {
        "name": name,
        "source": _SOURCE,
        "hex": blob.hex(),
        "error": error,
        "path": path,
        "offset": offset,
    }
