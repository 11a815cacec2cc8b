# SPDX-License-Identifier: Apache-2.0
"""Whether a struct can be passed by value: C must lay out the same members at the same offsets.

The glue declares the struct again from its members, without the user's headers. How a struct is
passed depends on the types of its members, so a layout with ``packed`` or ``aligned`` is refused.
"""

from __future__ import annotations

import math

from elftools.dwarf.die import DIE

from boardprof.target.cfunction import Field, Pointer, Scalar, Struct
from boardprof.target.elf.debug_info import (
    AGGREGATES,
    element_of,
    has,
    members,
    number,
    resolved,
    text,
    type_chain,
)

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
_PASS_BY_REFERENCE = 4  # DWARF 5, 7.15: DW_CC_pass_by_reference
REFERENCES = {"DW_TAG_reference_type", "DW_TAG_rvalue_reference_type"}


def cannot_pass(struct: Struct, machine: str) -> str | None:
    """Return why a struct cannot be passed by value; None if it can."""
    if not struct.fields:
        return "whose members are not known"
    if not struct.size > 0:
        return "which has no bytes"
    most = _MOST_ALIGNED.get(machine, _WIDEST)
    return None if _is_natural(struct, most) else "whose layout was changed by an attribute"


def shows_alignment(struct: Struct) -> bool:
    """Return whether no other alignment of a struct has the same layout."""
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


def has_own_alignment(die: DIE) -> bool:
    """Tell whether an attribute aligns a struct or something in it; see DWARF 5, 2.24."""
    if has(die, "DW_AT_alignment"):
        return True
    for member in members(die):
        if has(member, "DW_AT_alignment") or any(
            has(each, "DW_AT_alignment") for each in type_chain(member)
        ):
            return True
        inner = element_of(resolved(member))[0].die
        if inner is not None and inner.tag in AGGREGATES and has_own_alignment(inner):
            return True
    return False


def is_placed_alike(parameter: DIE, die: DIE, struct: Pointer) -> bool:
    """Tell whether a struct has the same place with any alignment that its layout allows.

    On Arm, a struct that is aligned to 8 bytes begins in an even register (AAPCS32, 6.5). One that
    is packed may have the same layout, and DWARF does not tell. All that comes before the struct
    then has to fill pairs of registers.
    """
    assert isinstance(struct.element, Struct)
    if die.dwarfinfo.config.machine_arch != "ARM" or shows_alignment(struct.element):
        return True
    function = parameter.get_parent()
    if function is None:
        return False
    result = resolved(function).die
    if result is not None and result.tag in AGGREGATES:  # its address may be in the first register
        return False
    for each in function.iter_children():
        if each.offset == parameter.offset:
            return True
        if each.tag == "DW_TAG_formal_parameter":
            before = resolved(each).die
            if before is None or (number(before, "DW_AT_byte_size") or 0) % 8 != 0:
                return False
    return False


def is_copied_as_bytes(die: DIE) -> bool:
    """Tell whether C++ passes a class itself, and not a pointer to a copy.

    Itanium C++ ABI, 1.1: not with a destructor or a copy or move constructor that is not trivial.
    DWARF before 5 does not say which are, so all that are declared count.
    """
    if number(die, "DW_AT_calling_convention") == _PASS_BY_REFERENCE:
        return False
    name = text(die, "DW_AT_name").partition("<")[0]
    for child in die.iter_children():
        if child.tag != "DW_TAG_subprogram":
            continue
        own = text(child, "DW_AT_name")
        if own.startswith("~") or has(child, "DW_AT_virtuality"):
            return False
        if own == name and any(_refers_to(each, die) for each in child.iter_children()):
            return False
    inner = (element_of(resolved(member))[0].die for member in members(die))
    return all(is_copied_as_bytes(each) for each in inner if each and each.tag in AGGREGATES)


def _refers_to(parameter: DIE, target: DIE) -> bool:
    """Tell whether a parameter is a reference to a class."""
    if parameter.tag != "DW_TAG_formal_parameter" or "DW_AT_type" not in parameter.attributes:
        return False
    kind = resolved(parameter).die
    if kind is None or kind.tag not in REFERENCES:
        return False
    referred = resolved(kind).die
    return referred is not None and referred.offset == target.offset
