# SPDX-License-Identifier: Apache-2.0
"""The numbers among DWARF's types: integers, floats, bool, enums."""

from __future__ import annotations

from elftools.dwarf.die import DIE

from boardprof.cfunction import SCALARS, Scalar
from boardprof.dwarf.entries import number, resolved, text

__all__ = ["scalar"]

_OTHERS = {
    "DW_TAG_array_type": "a vector",
    "DW_TAG_class_type": "a class by value",
    "DW_TAG_pointer_type": "a pointer",
    "DW_TAG_ptr_to_member_type": "a pointer to a member",
    "DW_TAG_reference_type": "a reference",
    "DW_TAG_rvalue_reference_type": "a reference",
    "DW_TAG_structure_type": "a struct by value",
    "DW_TAG_union_type": "a union by value",
}
# DWARF 4, 7.8: DW_ATE_boolean, float, signed, signed_char, unsigned, unsigned_char, UTF.
_KINDS = {2: "bool", 4: "f", 5: "i", 6: "i", 7: "u", 8: "u", 0x10: "u"}
_SCALARS = {(each.text.rstrip("0123456789"), each.size): each for each in SCALARS.values()}


def scalar(die: DIE | None) -> Scalar | str:
    """Return a type as a scalar, or a few words on what it is instead."""
    if die is None:
        return "of no known type"
    if die.tag == "DW_TAG_enumeration_type":
        return _enumeration(die)
    if die.tag != "DW_TAG_base_type":
        return _OTHERS.get(str(die.tag), "no number")
    name, size = text(die, "DW_AT_name"), number(die, "DW_AT_byte_size") or 0
    kind = _KINDS.get(number(die, "DW_AT_encoding") or 0, "")
    # Padding bits would have to be right; of 8 bytes, it is passed as a double here and there.
    if "BitInt" in name or name == "long double":
        return f"{name!r} of {size} bytes"
    return _SCALARS.get((kind, size), f"{name!r} of {size} bytes")


def _enumeration(die: DIE) -> Scalar | str:
    """Return the integer that an enum is; old compilers do not say, and its values tell."""
    if "DW_AT_type" in die.attributes:
        return scalar(resolved(die).die)
    values = (number(child, "DW_AT_const_value") for child in die.iter_children())
    signed = any(value is not None and value < 0 for value in values)
    size = number(die, "DW_AT_byte_size")
    if size is None:
        return "an enum whose size is not known here"
    return _SCALARS.get(("i" if signed else "u", size), f"an enum of {size} bytes")
