# SPDX-License-Identifier: Apache-2.0
"""The types of parameters and results, from DWARF: numbers, structs, and pointers to them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace

from elftools.dwarf.die import DIE

from boardprof.target.cfunction import (
    CHAR,
    FUNCTION,
    SCALARS,
    CType,
    Field,
    Pointer,
    Scalar,
    Struct,
)
from boardprof.target.elf.debug_info import (
    AGGREGATES,
    Resolved,
    dimensions,
    element_of,
    has,
    is_vector,
    members,
    number,
    parameters,
    resolved,
    text,
    type_chain,
)

_OTHERS = {
    "DW_TAG_array_type": "a vector",
    "DW_TAG_ptr_to_member_type": "a pointer to a member",
    "DW_TAG_reference_type": "a reference",
    "DW_TAG_rvalue_reference_type": "a reference",
}
# DWARF 4, 7.8: DW_ATE_boolean, float, signed, signed_char, unsigned, unsigned_char, UTF.
_KINDS = {2: "bool", 4: "f", 5: "i", 6: "i", 7: "u", 8: "u", 0x10: "u"}
_SCALARS = {(each.text.rstrip("0123456789"), each.size): each for each in SCALARS.values()}

_REFERENCES = {"DW_TAG_reference_type", "DW_TAG_rvalue_reference_type"}
_POINTERS = {"DW_TAG_pointer_type", "DW_TAG_ptr_to_member_type", *_REFERENCES}
_COMPLEX = 3  # DW_ATE_complex_float
_MOST_STRUCTS = 64  # pointers to further structs are taken for ``void *``
_HOLDER, _HELD = "ptr", "to"
"""A pointer that another pointer leads to is passed as a struct with this member."""

_PLUS_UCONST = 0x23  # DW_OP_plus_uconst: DWARF 2 has the offset of a member after it
ARENA_ALIGNMENT = 16
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
    values = {
        text(each, "DW_AT_name"): number(each, "DW_AT_const_value")
        for each in die.iter_children()
        if each.tag == "DW_TAG_enumerator"
    }
    names = tuple((name, value) for name, value in values.items() if name and value is not None)
    if "DW_AT_type" in die.attributes:
        found = scalar(resolved(die).die)
        return replace(found, names=names) if isinstance(found, Scalar) else found
    signed = any(value < 0 for _, value in names)
    size = number(die, "DW_AT_byte_size")
    if size is None:
        return "an enum of unknown size"
    kind = _SCALARS.get(("i" if signed else "u", size))
    return replace(kind, names=names) if kind else f"an enum of {size} bytes"


def _struct_name(die: DIE, alias: str) -> str:
    """Return the tag, else the typedef, as a word for signatures."""
    name = text(die, "DW_AT_name") or alias
    return re.sub(r"\W+", "_", name).strip("_") or "anonymous"


class Types:
    """The types of one function's parameters and result."""

    def __init__(self, *, has_abi_of_c: bool = True) -> None:
        """Begin without types; ``has_abi_of_c``: structs are passed by value as C does."""
        self._has_abi_of_c = has_abi_of_c
        self.structs: dict[tuple[str, int], Struct] = {}
        self._begun: set[tuple[str, int]] = set()

    def parameter(self, die: DIE) -> CType | str:
        """Return the type of a parameter, or a short description of what it is instead."""
        of = resolved(die)
        if of.die is not None and of.die.tag in AGGREGATES:
            found = self._by_value(of, const=True)
            if isinstance(found, Pointer) and not _is_placed_alike(die, of.die, found):
                return "a struct by value, whose alignment the debug information does not tell"
            return found
        if of.die is not None and of.die.tag in _POINTERS:
            return self._pointer(of.die)
        return scalar(of.die)

    def result(self, die: DIE) -> CType | str | None:
        """Return a result type, None for void, or a description of what it is instead."""
        of = resolved(die)
        if of.die is None or number(of.die, "DW_AT_byte_size") == 0:  # Zig: void is a type
            return None
        if of.die.tag in AGGREGATES:
            return self._by_value(of, const=False)
        if of.die.tag in _POINTERS:
            found = self._pointer(of.die)
            return found if isinstance(found, Pointer) else Pointer(None, False, _size(of.die))
        return scalar(of.die)

    def _by_value(self, of: Resolved, *, const: bool) -> Pointer | str:
        assert of.die is not None
        what = AGGREGATES[str(of.die.tag)]
        size = number(of.die, "DW_AT_byte_size") or 0
        if not _is_copied_as_bytes(of.die):
            return f"a {what} by value, with a destructor, a copy constructor or virtual functions"
        if not self._has_abi_of_c:
            return f"a {what} by value"
        layout = self._layout(of.die, of.alias, size)
        laid_out = _laid_out(layout, of.die.dwarfinfo.config.machine_arch)
        if any(_alignments(of.die)):
            laid_out = _CHANGED
        if isinstance(laid_out, str):
            return f"a {what} by value, {laid_out}"
        return Pointer(laid_out, const, of.die.cu["address_size"], by_value=True)

    def _pointer(self, die: DIE) -> Pointer | str:
        if die.tag == "DW_TAG_ptr_to_member_type":
            return "a pointer to a member"
        if number(die, "DW_AT_address_class"):
            return "a pointer to a separate memory, such as flash"
        pointee, _ = element_of(resolved(die))
        const = pointee.const or bool(_CONST_POINTER.match(text(die, "DW_AT_name")))
        pointer = Pointer(None, const, _size(die))
        if _is_void(pointee):
            return pointer
        assert pointee.die is not None
        if _is_char(pointee.die):
            return replace(pointer, element=CHAR)
        if pointee.die.tag == "DW_TAG_subroutine_type":
            return replace(pointer, element=FUNCTION, const=False)
        if pointee.die.tag in _POINTERS:
            inner = self._member_pointer(pointee.die)
            return replace(pointer, element=Struct(_HOLDER, inner.size, (Field(_HELD, 0, inner),)))
        if pointee.die.tag in AGGREGATES:
            size = number(pointee.die, "DW_AT_byte_size")
            if not size or has(pointee.die, "DW_AT_declaration"):
                return pointer  # nothing is known of it, as in C
            element: Scalar | Struct | str = self._layout(pointee.die, pointee.alias, size)
        else:
            element = _element(pointee.die)
        if isinstance(element, str):
            return element
        return _aligned(replace(pointer, element=element), die)

    def _layout(self, die: DIE, alias: str, size: int) -> Struct:
        """Return an aggregate's fields, or no fields if one of them is unknown."""
        name = _struct_name(die, alias)
        union = die.tag == "DW_TAG_union_type"
        if any(child.tag == "DW_TAG_variant_part" for child in die.iter_children()):
            return Struct(name, size)  # Rust: a tag decides which members it has
        fields = [self._field(member) for member in members(die)]
        known = tuple(field for field in fields if field is not None)
        struct = Struct(name, size, known, union)
        # In C++, a base and its derived class may have the same one.
        names = [field.name for field in struct.named_fields]
        is_known = len(known) == len(fields) and len(names) == len({*names})
        return struct if is_known else Struct(name, size, is_union=union)

    def _field(self, member: DIE) -> Field | None:
        """Return a member as a field; None if its type is unknown here."""
        inner, shape = element_of(resolved(member))
        offset = _offset(member)
        if shape is None or offset is None or inner.die is None:
            return None
        kind: Scalar | Struct | Pointer | str
        if inner.die.tag in AGGREGATES:
            size = number(inner.die, "DW_AT_byte_size") or 0
            kind = self._layout(inner.die, inner.alias, size)
        elif inner.die.tag in _POINTERS:
            kind = self._member_pointer(inner.die)
        else:
            kind = scalar(inner.die)
        if isinstance(kind, str):
            return None
        name = text(member, "DW_AT_name")
        if not has(member, "DW_AT_bit_size"):
            return Field(name, offset, kind, shape)
        width = number(member, "DW_AT_bit_size") or 0
        return Field(name, 0, kind, (), width, _first_bit(member, offset, kind.size, width))

    def _member_pointer(self, die: DIE) -> Pointer:
        """Return the type of a pointer in a struct; ``void`` if it cannot point into the arena."""
        begun = None
        pointee, _ = element_of(resolved(die))
        if pointee.die is not None and pointee.die.tag in AGGREGATES:
            size = number(pointee.die, "DW_AT_byte_size") or 0
            begun = (_struct_name(pointee.die, pointee.alias), size)
            if begun in self._begun or len(self._begun) >= _MOST_STRUCTS:
                const = pointee.const
                element = Struct(*begun) if size and begun in self._begun else None
                return Pointer(element, const, _size(die))
            self._begun.add(begun)
        found = self._pointer(die)
        return self._cut(found) if isinstance(found, Pointer) else Pointer(None, False, _size(die))

    def _cut(self, pointer: Pointer) -> Pointer:
        """Note the fields of a pointer's struct, and return the pointer without them."""
        element = pointer.element
        if not isinstance(element, Struct) or element.name == _HOLDER:
            return pointer
        key = (element.name, element.size)
        if element.fields:
            self.structs.setdefault(key, element)
        return replace(pointer, element=Struct(*key, is_union=element.is_union))


def _size(pointer: DIE) -> int:
    return number(pointer, "DW_AT_byte_size") or pointer.cu["address_size"]


def _first_bit(member: DIE, offset: int, unit: int, width: int) -> int:
    """Return where a bit-field begins, as `Field.first_bit` (DWARF 4, 5.5.6).

    The older DW_AT_bit_offset counts from the highest bit of a unit of DW_AT_byte_size bytes.
    """
    first = number(member, "DW_AT_data_bit_offset")
    if first is not None:
        return first
    from_top = number(member, "DW_AT_bit_offset") or 0
    if from_top >= 1 << 63:  # some units begin before the struct: a negative number
        from_top -= 1 << 64
    unit = number(member, "DW_AT_byte_size") or unit
    if member.dwarfinfo.config.little_endian:
        return 8 * (offset + unit) - from_top - width
    return 8 * offset + from_top


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


def _alignments(die: DIE) -> Iterator[int]:
    """Yield each alignment that an attribute gives a type or something in it; see DWARF 5, 2.24."""
    if has(die, "DW_AT_alignment"):
        yield number(die, "DW_AT_alignment") or 1
    for member in members(die) if die.tag in AGGREGATES else ():
        if has(member, "DW_AT_alignment"):
            yield number(member, "DW_AT_alignment") or 1
        for found in type_chain(member):
            yield from _alignments(found)


def target_alignment(pointer: DIE) -> int:
    """Return the alignment that attributes, or the size of a vector, give a pointer's target."""
    asked = [each for found in type_chain(pointer) for each in _alignments(found)]
    pointee, _ = element_of(resolved(pointer))
    if pointee.die is not None and is_vector(pointee.die):
        lanes = math.prod(dimensions(pointee.die) or ())
        asked.append(
            lanes * (number(resolved(pointee.die).die or pointee.die, "DW_AT_byte_size") or 1)
        )
    return max(asked, default=1)


def _aligned(pointer: Pointer, die: DIE) -> Pointer | str:
    """Return a pointer, or why not if its target needs more alignment than the arena has."""
    asked = target_alignment(die)
    if asked <= ARENA_ALIGNMENT:
        return pointer
    name = pointer.text.removeprefix("const ").removesuffix("*")
    return (
        f"a pointer to {name}, aligned to {asked} bytes; the arena is aligned to {ARENA_ALIGNMENT}"
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
    if die.tag == "DW_TAG_array_type" and is_vector(die):
        return "a pointer to a vector"
    if number(die, "DW_AT_encoding") == _COMPLEX:
        half = (number(die, "DW_AT_byte_size") or 0) // 2
        pair = _SCALARS.get(("f", half))  # C11, 6.2.5: an array of two
        if pair is not None:
            return pair
    found = scalar(die)
    return found if isinstance(found, Scalar) else f"a pointer to {found}"


# -- structs by value --------------------------------------------------------------------------
#
# C must lay out the same members at the same offsets: the glue declares the struct again from its
# members, without the user's headers. How a struct is passed depends on the types of its members,
# so a layout with ``packed`` or ``aligned`` is refused. Bit-fields without a name are not in the
# debug information. They are where bits are missing, and get fields of bytes, which change neither
# the alignment nor the place of an integer. Next to floats they may change the registers.

_CHANGED = "whose layout was changed by an attribute"
# The largest alignment of a number, bytes, where it is not the number's size.
_MOST_ALIGNED = {
    "Atmel AVR 8-bit": 1,
    "Hitachi SH": 4,
    "Motorola 68000": 2,
    "Texas Instruments msp430": 2,
    "x86": 4,
}
_WIDEST = 16
_WORD = 4
_PASS_BY_REFERENCE = 4  # DWARF 5, 7.15: DW_CC_pass_by_reference


def _laid_out(struct: Struct, machine: str) -> Struct | str:
    """Return a struct with its bit-fields without a name, or why it cannot be passed by value."""
    if not struct.fields:
        return "whose members are not known"
    if not struct.size > 0:
        return "which has no bytes"
    most = _MOST_ALIGNED.get(machine, _WIDEST)
    has_floats = any(
        isinstance(kind, Scalar) and kind.text[0] == "f"
        for _, _, kind in struct.leaves(numbers=True)
    )
    laid_out = _with_gaps(struct, most, has_floats)
    if laid_out is not None:
        return laid_out
    if has_floats and struct.has_bits and _with_gaps(struct, most, False):
        return "which has bit-fields without a name and floats"
    return _CHANGED


def _shows_alignment(struct: Struct) -> bool:
    """Return whether no other alignment of a struct has the same layout."""
    if _alignment(struct, _WIDEST) <= _WORD:
        # DWARF has no bit-field without a name, which may have a larger type.
        return not struct.has_bits or struct.size % (2 * _WORD) != 0
    end = 0
    for field in struct.fields:
        if field.offset > end or (isinstance(field.type, Struct) and _shows_alignment(field.type)):
            return True
        end = max(end, field.offset + field.type.size * math.prod(field.shape))
    return end < struct.size


def _alignment(kind: object, most: int) -> int:
    if isinstance(kind, Struct):
        return max([1, *(_alignment(field.type, most) for field in kind.fields)])
    return min(getattr(kind, "size", 1), most)


def _with_gaps(struct: Struct, most: int, has_floats: bool) -> Struct | None:
    """Return a struct with a field for each gap that C does not leave; None if it cannot be."""
    # In a struct without a bit-field that has a name, an attribute is the likelier reason.
    may_have_gaps = any(f.bits for f in struct.fields) and not (has_floats or struct.is_union)
    end = 0  # bits
    fields: list[Field] = []
    for field in struct.fields:
        if isinstance(field.type, Struct):
            inner = _with_gaps(field.type, most, has_floats) if field.type.fields else None
            if inner is None:
                return None
            field = replace(field, type=inner)
        if 0 in field.shape:
            return None
        wanted = field.first_bit if field.bits else 8 * field.offset
        begin = 0 if struct.is_union else end
        at, width = _placed(field, begin, most)
        if at != wanted and may_have_gaps and wanted > begin:
            fields += _gap(begin, wanted)
            at, width = _placed(field, wanted, most)
        if at != wanted:
            return None
        fields.append(field)
        end = max(end, at + width)
    whole = 8 * _alignment(struct, most)
    size = -(-end // whole) * whole
    if size < 8 * struct.size and may_have_gaps and 8 * struct.size % whole == 0:
        fields += _gap(end, 8 * struct.size)
    elif size != 8 * struct.size:
        return None
    return replace(struct, fields=tuple(fields))


def _gap(begin: int, end: int) -> Iterator[Field]:
    """Yield bit-fields without a name, one for each byte or a part of it."""
    while begin < end:
        width = min(8 - begin % 8, end - begin)
        yield Field("", 0, SCALARS["u8"], (), width, begin)
        begin += width


def _placed(field: Field, begin: int, most: int) -> tuple[int, int]:
    """Return the bit at which C puts a member that follows ``begin``, and its width."""
    if field.bits:
        assert isinstance(field.type, Scalar)
        unit = 8 * field.type.size
        crosses = begin // unit != (begin + field.bits - 1) // unit
        return (-(-begin // unit) * unit if crosses else begin), field.bits
    whole = 8 * _alignment(field.type, most)
    return -(-begin // whole) * whole, 8 * field.type.size * math.prod(field.shape)


def _is_placed_alike(parameter: DIE, die: DIE, struct: Pointer) -> bool:
    """Tell whether a struct has the same place with any alignment that its layout allows.

    On Arm, a struct that is aligned to 8 bytes begins in an even register (AAPCS32, 6.5). One that
    is packed may have the same layout, and DWARF does not tell. All that comes before the struct
    then has to fill pairs of registers.
    """
    assert isinstance(struct.element, Struct)
    if die.dwarfinfo.config.machine_arch != "ARM" or _shows_alignment(struct.element):
        return True
    function = parameter.get_parent()
    if function is None:
        return False
    result = resolved(function).die
    if result is not None and result.tag in AGGREGATES:  # its address may be in the first register
        return False
    before = [resolved(e).die for e in parameters(function) if e.offset < parameter.offset]
    return all(e is not None and (number(e, "DW_AT_byte_size") or 0) % 8 == 0 for e in before)


def _is_copied_as_bytes(die: DIE) -> bool:
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
        if own == name and any(_refers_to(each, die) for each in parameters(child)):
            return False
    inner = (element_of(resolved(member))[0].die for member in members(die))
    return all(_is_copied_as_bytes(each) for each in inner if each and each.tag in AGGREGATES)


def _refers_to(parameter: DIE, target: DIE) -> bool:
    kind = resolved(parameter).die
    referred = resolved(kind).die if kind is not None and kind.tag in _REFERENCES else None
    return referred is not None and referred.offset == target.offset
