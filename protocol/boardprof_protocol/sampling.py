# SPDX-License-Identifier: Apache-2.0
"""What bp.sample stores in an arena block: one of these for each sample (SPEC.md 5.11)."""

from __future__ import annotations

from construct import Int32ul, Int64ul, Struct

from boardprof_protocol.layout import Layout

__all__ = ["SAMPLE32", "SAMPLE64", "sample_layout"]

SAMPLE32 = Layout(
    name="sample32",
    schema_id=0,
    version=1,
    struct=Struct(
        "pc" / Int32ul,
        "sp" / Int32ul,
    ),
)

# The same on a board whose pointers have 64 bits.
SAMPLE64 = Layout(
    name="sample64",
    schema_id=0,
    version=1,
    struct=Struct(
        "pc" / Int64ul,
        "sp" / Int64ul,
    ),
)


def sample_layout(pointer_size: int) -> Layout:
    """Return the layout of a board's samples.

    Args:
        pointer_size: bytes of its pointers, as in WELCOME.
    """
    return SAMPLE64 if pointer_size > 4 else SAMPLE32
