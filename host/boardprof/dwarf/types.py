# SPDX-License-Identifier: Apache-2.0
"""The types of parameters and results, from DWARF: numbers, and pointers to what can be sent."""

from __future__ import annotations

import re

from elftools.dwarf.die import DIE

from boardprof.cfunction import CHAR, CType, Pointer, Scalar
from boardprof.dwarf.alignment import MOST, asked_alignment
from boardprof.dwarf.entries import Resolved, number, resolved, text
from boardprof.dwarf.scalars import scalar
from boardprof.dwarf.structs import AGGREGATES, POINTERS, element_of, is_vector, struct, struct_name

__all__ = ["parameter_type", "result_type"]

# Rust and Zig say in a pointer's name alone that what it points to is const; C's have no names.
_CONST_POINTER = re.compile(
    r"&(?!mut\b)"  # Rust: &T
    r"|(?:\*|\[\*(?:c|:[^\]]*)?\])"  # Rust and Zig: *const T; Zig: [*]const T, [*:0]const T
    r"(?:align\([^)]*\) |allowzero |volatile )*const "
)
# Rust's core::ffi::c_void, an enum without a value that means anything; Zig's, of 0 bytes.
_VOIDS = {"c_void", "anyopaque"}


def parameter_type(die: DIE) -> CType | str:
    """Return the type of a parameter, or a few words on what it is instead."""
    of = resolved(die)
    if of.die is not None and of.die.tag in POINTERS:
        return _pointer(of.die)
    return scalar(of.die)


def result_type(die: DIE) -> Scalar | str | None:
    """Return the type of a function's result, None for void, or words on what it is instead."""
    of = resolved(die)
    if of.die is None or number(of.die, "DW_AT_byte_size") == 0:  # Zig: void is a type
        return None
    return scalar(of.die)


def _pointer(die: DIE) -> Pointer | str:
    if die.tag == "DW_TAG_ptr_to_member_type":
        return "a pointer to a member"
    if number(die, "DW_AT_address_class"):
        return "a pointer into a memory of its own, such as flash"
    pointee, _ = element_of(resolved(die))
    const = pointee.const or bool(_CONST_POINTER.match(text(die, "DW_AT_name")))
    size = number(die, "DW_AT_byte_size") or die.cu["address_size"]
    if _is_void(pointee):
        return Pointer(None, const, size)
    assert pointee.die is not None
    if _is_char(pointee.die):
        return Pointer(CHAR, const, size)
    if pointee.die.tag in AGGREGATES:
        layout = struct(pointee.die, pointee.alias)
        if isinstance(layout, str):
            return f"a pointer to {_named(pointee.die, pointee.alias)}, {layout}"
        return _aligned(Pointer(layout, const, size), die)
    element = _element(pointee.die)
    if isinstance(element, str):
        return element
    return _aligned(Pointer(element, const, size), die)


def _aligned(pointer: Pointer, die: DIE) -> Pointer | str:
    """Return it, or words where what it points to is aligned as nothing in the arena is."""
    asked = asked_alignment(die)
    if asked <= MOST:
        return pointer
    name = pointer.text.removeprefix("const ").removesuffix("*")
    return f"a pointer to {name}, aligned to {asked} bytes, more than the {MOST} of the arena"


def _is_char(die: DIE) -> bool:
    """Tell whether it is C's own char, and not Rust's of four bytes."""
    return (
        die.tag == "DW_TAG_base_type"
        and text(die, "DW_AT_name") == CHAR.text
        and number(die, "DW_AT_byte_size") == CHAR.size
    )


def _is_void(pointee: Resolved) -> bool:
    die = pointee.die
    return die is None or die.tag == "DW_TAG_unspecified_type" or text(die, "DW_AT_name") in _VOIDS


def _element(die: DIE) -> Scalar | str:
    """Return the number that a pointer points to, or a few words on the pointer."""
    if die.tag in POINTERS:
        return "a pointer to a pointer"
    if die.tag == "DW_TAG_subroutine_type":
        return "a pointer to a function"
    if die.tag == "DW_TAG_array_type" and is_vector(die):
        return "a pointer to a vector"
    found = scalar(die)
    return found if isinstance(found, Scalar) else f"a pointer to {found}"


def _named(die: DIE, alias: str) -> str:
    """Return ``struct node``, ``union anonymous``."""
    return f"{AGGREGATES[str(die.tag)]} {struct_name(die, alias)}"
