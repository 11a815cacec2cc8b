# SPDX-License-Identifier: Apache-2.0
"""Whether a struct can be passed by value: C must lay out the same members at the same offsets.

The glue declares the struct again from its members, without the user's headers. How a struct is
passed depends on the types of its members, so a layout with ``packed`` or ``aligned`` is refused.
"""

from __future__ import annotations

import math

from boardprof.target.cfunction import Field, Scalar, Struct

_MOST_ALIGNED = {
    "Atmel AVR 8-bit": 1,
    "Hitachi SH": 4,
    "Motorola 68000": 2,
    "Texas Instruments msp430": 2,
    "x86": 4,
}
"""The largest alignment of a number, bytes, where it is not the number's size."""

_WIDEST = 16
_WORD = 4


def cannot_pass(struct: Struct, machine: str) -> str | None:
    """Return why a struct cannot be passed by value; None if it can.

    Args:
        struct: with its members.
        machine: as pyelftools calls it.
    """
    if not struct.fields:
        return "whose members are not known"
    if not struct.size > 0:
        return "which has no bytes"
    most = _MOST_ALIGNED.get(machine, _WIDEST)
    return None if _is_natural(struct, most) else "whose layout was changed by an attribute"


def shows_alignment(struct: Struct) -> bool:
    """Return whether no other alignment of a struct has the same layout: it has padding, or none.

    Args:
        struct: with its natural layout, see `cannot_pass`.
    """
    if _alignment(struct, _WIDEST) <= _WORD:
        # DWARF has no bit-field without a name, which may have a larger type.
        return not struct.has_bits or struct.size % (2 * _WORD) != 0
    end = 0
    for field in struct.fields:
        if field.offset > end or (isinstance(field.type, Struct) and shows_alignment(field.type)):
            return True
        end = max(end, field.offset + field.type.size * math.prod(field.shape))
    return end < struct.size


def _alignment(kind: object, most: int) -> int:
    if isinstance(kind, Struct):
        return max([1, *(_alignment(field.type, most) for field in kind.fields)])
    return min(getattr(kind, "size", 1), most)


def _is_natural(struct: Struct, most: int) -> bool:
    end = 0  # bits
    for field in struct.fields:
        if isinstance(field.type, Struct) and not (
            field.type.fields and _is_natural(field.type, most)
        ):
            return False
        if 0 in field.shape:
            return False
        begin = 0 if struct.is_union else end
        at, width = _placed(field, begin, most)
        if at != (field.first_bit if field.bits else 8 * field.offset):
            return False
        end = max(end, at + width)
    whole = 8 * _alignment(struct, most)
    return -(-end // whole) * whole == 8 * struct.size


def _placed(field: Field, begin: int, most: int) -> tuple[int, int]:
    """Return the bit at which C puts a member that follows ``begin``, and its width."""
    if field.bits:
        assert isinstance(field.type, Scalar)
        unit = 8 * field.type.size
        crosses = begin // unit != (begin + field.bits - 1) // unit
        return (-(-begin // unit) * unit if crosses else begin), field.bits
    whole = 8 * _alignment(field.type, most)
    return -(-begin // whole) * whole, 8 * field.type.size * math.prod(field.shape)
