# SPDX-License-Identifier: Apache-2.0
"""Structs, unions and classes of DWARF, with the layout that the compiler gave them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from elftools.dwarf.die import DIE

from boardprof.cfunction import Field, Scalar, Struct
from boardprof.dwarf.entries import Resolved, has, number, resolved, text
from boardprof.dwarf.scalars import scalar

__all__ = [
    "AGGREGATES",
    "POINTERS",
    "dimensions",
    "element_of",
    "is_vector",
    "members",
    "struct",
    "struct_name",
]

AGGREGATES = {
    "DW_TAG_class_type": "class",
    "DW_TAG_structure_type": "struct",
    "DW_TAG_union_type": "union",
}
POINTERS = {
    "DW_TAG_pointer_type",
    "DW_TAG_ptr_to_member_type",
    "DW_TAG_reference_type",
    "DW_TAG_rvalue_reference_type",
}
_MOST_DIMENSIONS = 64
_PLUS_UCONST = 0x23  # DW_OP_plus_uconst: where DWARF 2 says where a member is
_NO_LENGTH = {-1, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF}  # upper bounds of an array of none


def struct(die: DIE, alias: str) -> Struct | str:
    """Return the layout of an aggregate, or a clause on why it cannot cross the wire.

    Args:
        die: of one of `AGGREGATES`.
        alias: the name of its typedef, for one without a tag.

    Returns:
        A struct, without fields where a member has no counterpart in numpy; else
        words to stand behind its name, such as ``which holds a pointer``.
    """
    size = number(die, "DW_AT_byte_size")
    if size is None or has(die, "DW_AT_declaration"):
        return "whose members are not known here"
    if _holds_pointer(die):
        return "which holds a pointer"
    if size == 0:
        return "which has no bytes"
    return _layout(die, alias, size)


def struct_name(die: DIE, alias: str) -> str:
    """Return the tag, else the typedef, as a word that can stand in a signature."""
    name = text(die, "DW_AT_name") or alias
    return re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "anonymous"


def is_vector(die: DIE) -> bool:
    """Tell whether what looks like an array is one word of a vector unit."""
    return has(die, "DW_AT_GNU_vector")


def dimensions(array: DIE) -> tuple[int, ...] | None:
    """Return an array's own dimensions, 0 for one that is left open; None if computed."""
    found: list[int] = []
    for child in array.iter_children():
        if child.tag != "DW_TAG_subrange_type":
            continue
        bound = "DW_AT_count" if has(child, "DW_AT_count") else "DW_AT_upper_bound"
        value = number(child, bound)
        if value is None and has(child, bound):
            return None
        if bound == "DW_AT_count":
            found.append(value or 0)
        else:
            found.append(0 if value is None or value in _NO_LENGTH else value + 1)
    return tuple(found)


def element_of(of: Resolved) -> tuple[Resolved, tuple[int, ...] | None]:
    """Return what an array of arrays is made of, and all dimensions; None if computed."""
    shape: tuple[int, ...] | None = ()
    for _ in range(_MOST_DIMENSIONS):
        if of.die is None or of.die.tag != "DW_TAG_array_type" or is_vector(of.die):
            return of, shape
        own, inner = dimensions(of.die), resolved(of.die)
        shape = None if shape is None or own is None else shape + own
        of = Resolved(inner.die, of.const or inner.const, inner.alias)
    raise ValueError("an array is an array of itself")


def members(die: DIE) -> Iterator[DIE]:
    """Yield what lies in an aggregate's memory, bases of a class included."""
    for child in die.iter_children():
        static = has(child, "DW_AT_external") or has(child, "DW_AT_declaration")
        if child.tag in ("DW_TAG_inheritance", "DW_TAG_member") and not static:
            yield child


def _holds_pointer(die: DIE) -> bool:
    """Tell whether a pointer lies in a type's memory, at any depth, in any variant."""
    for child in die.iter_children():
        if child.tag in ("DW_TAG_variant_part", "DW_TAG_variant") and _holds_pointer(child):
            return True
    for member in members(die):
        inner, _ = element_of(resolved(member))
        if inner.die is None:
            continue
        if inner.die.tag in POINTERS:
            return True
        if inner.die.tag in AGGREGATES and _holds_pointer(inner.die):
            return True
    return False


def _layout(die: DIE, alias: str, size: int) -> Struct:
    """Return an aggregate's fields, or none of them where one cannot be told."""
    name = struct_name(die, alias)
    if any(child.tag == "DW_TAG_variant_part" for child in die.iter_children()):
        return Struct(name, size)  # Rust: which members are there, a tag decides
    fields = [_field(member) for member in members(die)]
    known = tuple(field for field in fields if field is not None)
    return Struct(name, size, known if len(known) == len(fields) else ())


def _field(member: DIE) -> Field | None:
    """Return a member as a field; None for a bit-field or a type without a counterpart."""
    if has(member, "DW_AT_bit_size"):
        return None
    inner, shape = element_of(resolved(member))
    offset = _offset(member)
    if shape is None or offset is None or inner.die is None:
        return None
    kind: Scalar | Struct | str
    if inner.die.tag in AGGREGATES:
        kind = _layout(inner.die, inner.alias, number(inner.die, "DW_AT_byte_size") or 0)
    else:
        kind = scalar(inner.die)
    if isinstance(kind, str):
        return None
    return Field(text(member, "DW_AT_name"), offset, kind, shape)


def _offset(member: DIE) -> int | None:
    """Return where a member lies, bytes; a union's all lie at 0 and say nothing."""
    attribute = "DW_AT_data_member_location"
    if not has(member, attribute):
        return 0
    value = member.attributes[attribute].value
    if isinstance(value, int):
        return value
    operation, *digits = value
    if operation != _PLUS_UCONST:
        return None
    offset: int = sum((digit & 0x7F) << 7 * i for i, digit in enumerate(digits))  # LEB128
    return offset
