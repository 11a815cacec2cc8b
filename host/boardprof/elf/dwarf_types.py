# SPDX-License-Identifier: Apache-2.0
"""The types of parameters and results, from DWARF: numbers, structs, and pointers to them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from elftools.dwarf.die import DIE

from boardprof.cfunction import CHAR, SCALARS, CType, Field, Pointer, Scalar, Struct
from boardprof.elf.debug_info import Resolved, has, number, resolved, text, type_chain

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

_AGGREGATES = {
    "DW_TAG_class_type": "class",
    "DW_TAG_structure_type": "struct",
    "DW_TAG_union_type": "union",
}
_POINTERS = {
    "DW_TAG_pointer_type",
    "DW_TAG_ptr_to_member_type",
    "DW_TAG_reference_type",
    "DW_TAG_rvalue_reference_type",
}
_MOST_DIMENSIONS = 64
_PLUS_UCONST = 0x23  # DW_OP_plus_uconst: DWARF 2 has the offset of a member after it
_NO_LENGTH = {-1, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF}  # upper bounds of an empty array
_ARENA_ALIGNMENT = 16
"""Alignment of the blocks of an agent's arena, and of arrays in them, bytes."""
# In Rust and Zig only a pointer's name tells that its target is const; in C pointers have no name.
_CONST_POINTER = re.compile(
    r"&(?!mut\b)"  # Rust: &T
    r"|(?:\*|\[\*(?:c|:[^\]]*)?\])"  # Rust and Zig: *const T; Zig: [*]const T, [*:0]const T
    r"(?:align\([^)]*\) |allowzero |volatile )*const "
)
# Rust's core::ffi::c_void is an enum with meaningless values; Zig's anyopaque has 0 bytes.
_VOIDS = {"c_void", "anyopaque"}


def scalar(die: DIE | None) -> Scalar | str:
    """Return a type as a scalar, or a short description of what it is instead."""
    if die is None:
        return "of no known type"
    if die.tag == "DW_TAG_enumeration_type":
        return _enumeration(die)
    if die.tag != "DW_TAG_base_type":
        return _OTHERS.get(str(die.tag), "not a number")
    name, size = text(die, "DW_AT_name"), number(die, "DW_AT_byte_size") or 0
    kind = _KINDS.get(number(die, "DW_AT_encoding") or 0, "")
    # Their padding bits would have to be right; some compilers pass 8 bytes as a double.
    if "BitInt" in name or name == "long double":
        return f"{name!r} of {size} bytes"
    return _SCALARS.get((kind, size), f"{name!r} of {size} bytes")


def _enumeration(die: DIE) -> Scalar | str:
    """Return the integer type of an enum; with old compilers, from its size and values."""
    if "DW_AT_type" in die.attributes:
        return scalar(resolved(die).die)
    values = (number(child, "DW_AT_const_value") for child in die.iter_children())
    signed = any(value is not None and value < 0 for value in values)
    size = number(die, "DW_AT_byte_size")
    if size is None:
        return "an enum of unknown size"
    return _SCALARS.get(("i" if signed else "u", size), f"an enum of {size} bytes")


def struct(die: DIE, alias: str) -> Struct | str:
    """Return the layout of an aggregate, or why it cannot be sent.

    Args:
        die: of one of `_AGGREGATES`.
        alias: the name of its typedef, for one without a tag.

    Returns:
        A struct, without fields if a member has no counterpart in numpy; or a clause that follows
        its name, such as ``which holds a pointer``.
    """
    size = number(die, "DW_AT_byte_size")
    if size is None or has(die, "DW_AT_declaration"):
        return "whose members are unknown"
    if _holds_pointer(die):
        return "which holds a pointer"
    if size == 0:
        return "which has no bytes"
    return _layout(die, alias, size)


def _struct_name(die: DIE, alias: str) -> str:
    """Return the tag, else the typedef, as a word for signatures."""
    name = text(die, "DW_AT_name") or alias
    return re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "anonymous"


def _is_vector(die: DIE) -> bool:
    """Tell whether an array is a value of a vector unit."""
    return has(die, "DW_AT_GNU_vector")


def dimensions(array: DIE) -> tuple[int, ...] | None:
    """Return an array's own dimensions, 0 for an open one; None if computed."""
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


def _element_of(of: Resolved) -> tuple[Resolved, tuple[int, ...] | None]:
    """Return the element type of an array of arrays, and all dimensions; None if computed."""
    shape: tuple[int, ...] | None = ()
    for _ in range(_MOST_DIMENSIONS):
        if of.die is None or of.die.tag != "DW_TAG_array_type" or _is_vector(of.die):
            return of, shape
        own, inner = dimensions(of.die), resolved(of.die)
        shape = None if shape is None or own is None else shape + own
        of = Resolved(inner.die, of.const or inner.const, inner.alias)
    raise ValueError("an array is an array of itself")


def members(die: DIE) -> Iterator[DIE]:
    """Yield the members in an aggregate's memory, including the bases of a class."""
    for child in die.iter_children():
        static = has(child, "DW_AT_external") or has(child, "DW_AT_declaration")
        if child.tag in ("DW_TAG_inheritance", "DW_TAG_member") and not static:
            yield child


def _holds_pointer(die: DIE) -> bool:
    """Tell whether a type contains a pointer, at any depth, in any variant."""
    for child in die.iter_children():
        if child.tag in ("DW_TAG_variant_part", "DW_TAG_variant") and _holds_pointer(child):
            return True
    for member in members(die):
        inner, _ = _element_of(resolved(member))
        if inner.die is None:
            continue
        if inner.die.tag in _POINTERS:
            return True
        if inner.die.tag in _AGGREGATES and _holds_pointer(inner.die):
            return True
    return False


def _layout(die: DIE, alias: str, size: int) -> Struct:
    """Return an aggregate's fields, or no fields if one of them is unknown."""
    name = _struct_name(die, alias)
    if any(child.tag == "DW_TAG_variant_part" for child in die.iter_children()):
        return Struct(name, size)  # Rust: a tag decides which members it has
    fields = [_field(member) for member in members(die)]
    known = tuple(field for field in fields if field is not None)
    return Struct(name, size, known if len(known) == len(fields) else ())


def _field(member: DIE) -> Field | None:
    """Return a member as a field; None for a bit-field or a type without a counterpart."""
    if has(member, "DW_AT_bit_size"):
        return None
    inner, shape = _element_of(resolved(member))
    offset = _offset(member)
    if shape is None or offset is None or inner.die is None:
        return None
    kind: Scalar | Struct | str
    if inner.die.tag in _AGGREGATES:
        kind = _layout(inner.die, inner.alias, number(inner.die, "DW_AT_byte_size") or 0)
    else:
        kind = scalar(inner.die)
    if isinstance(kind, str):
        return None
    return Field(text(member, "DW_AT_name"), offset, kind, shape)


def _offset(member: DIE) -> int | None:
    """Return the offset of a member, bytes; absent and 0 in a union."""
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


def _asked_alignment(die: DIE) -> int:
    """Return the largest alignment that is declared for an entry's type or a part of it.

    Args:
        die: of a parameter, a pointer, an array or a member.

    Returns:
        Bytes; 1 if nothing is declared.
    """
    most = 1
    for found in type_chain(die):
        most = max(most, number(found, "DW_AT_alignment") or 1)
        if found.tag in _AGGREGATES:
            most = max([most, *map(_of_member, members(found))])
    return most


def _of_member(member: DIE) -> int:
    return max(number(member, "DW_AT_alignment") or 1, _asked_alignment(member))


def parameter_type(die: DIE) -> CType | str:
    """Return the type of a parameter, or a short description of what it is instead."""
    of = resolved(die)
    if of.die is not None and of.die.tag in _POINTERS:
        return _pointer(of.die)
    return scalar(of.die)


def result_type(die: DIE) -> Scalar | str | None:
    """Return a function's result type, None for void, or a description of what it is instead."""
    of = resolved(die)
    if of.die is None or number(of.die, "DW_AT_byte_size") == 0:  # Zig: void is a type
        return None
    return scalar(of.die)


def _pointer(die: DIE) -> Pointer | str:
    if die.tag == "DW_TAG_ptr_to_member_type":
        return "a pointer to a member"
    if number(die, "DW_AT_address_class"):
        return "a pointer to a separate memory, such as flash"
    pointee, _ = _element_of(resolved(die))
    const = pointee.const or bool(_CONST_POINTER.match(text(die, "DW_AT_name")))
    size = number(die, "DW_AT_byte_size") or die.cu["address_size"]
    if _is_void(pointee):
        return Pointer(None, const, size)
    assert pointee.die is not None
    if _is_char(pointee.die):
        return Pointer(CHAR, const, size)
    if pointee.die.tag in _AGGREGATES:
        layout = struct(pointee.die, pointee.alias)
        if isinstance(layout, str):
            return f"a pointer to {_named(pointee.die, pointee.alias)}, {layout}"
        return _aligned(Pointer(layout, const, size), die)
    element = _element(pointee.die)
    if isinstance(element, str):
        return element
    return _aligned(Pointer(element, const, size), die)


def _aligned(pointer: Pointer, die: DIE) -> Pointer | str:
    """Return a pointer, or why not if its target needs more alignment than the arena has."""
    asked = _asked_alignment(die)
    if asked <= _ARENA_ALIGNMENT:
        return pointer
    name = pointer.text.removeprefix("const ").removesuffix("*")
    return (
        f"a pointer to {name}, aligned to {asked} bytes; the arena is aligned to {_ARENA_ALIGNMENT}"
    )


def _is_char(die: DIE) -> bool:
    """Tell whether it is C's char, and not Rust's with four bytes."""
    return (
        die.tag == "DW_TAG_base_type"
        and text(die, "DW_AT_name") == CHAR.text
        and number(die, "DW_AT_byte_size") == CHAR.size
    )


def _is_void(pointee: Resolved) -> bool:
    die = pointee.die
    return die is None or die.tag == "DW_TAG_unspecified_type" or text(die, "DW_AT_name") in _VOIDS


def _element(die: DIE) -> Scalar | str:
    """Return a pointer's number type, or a description of what the pointer is instead."""
    if die.tag in _POINTERS:
        return "a pointer to a pointer"
    if die.tag == "DW_TAG_subroutine_type":
        return "a pointer to a function"
    if die.tag == "DW_TAG_array_type" and _is_vector(die):
        return "a pointer to a vector"
    found = scalar(die)
    return found if isinstance(found, Scalar) else f"a pointer to {found}"


def _named(die: DIE, alias: str) -> str:
    """Return ``struct node``, ``union anonymous``."""
    return f"{_AGGREGATES[str(die.tag)]} {_struct_name(die, alias)}"
