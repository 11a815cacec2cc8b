# SPDX-License-Identifier: Apache-2.0
"""Structs as bytes, from their members by name, and back: numbers, enums, bit-fields and pointers.

Pointers stay NULL in the bytes. They are returned as links, which the board fills in.
"""

from __future__ import annotations

import json
import math
import re
import struct as packing
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from boardprof.base.errors import UnknownNameError, UsageError
from boardprof.target.arguments.dtypes import ByteOrder, element_dtype, filled, is_content
from boardprof.target.arguments.signature import INFINITY_HINT, to_float, to_integer
from boardprof.target.cfunction import CHAR, Field, MemberType, Path, Pointer, Scalar, Struct

_Shape = tuple[int, ...]

_CODES = {
    **{f"{kind}{8 * size}": code for kind, codes in (("u", "BHIQ"), ("i", "bhiq"))
       for size, code in zip((1, 2, 4, 8), codes, strict=True)},
    "f32": "f",
    "f64": "d",
    "bool": "?",
}  # fmt: skip
_NULL = ("NULL", "nullptr", "0")


class Link(NamedTuple):
    """A pointer within an array of structs."""

    offset: int  # of the pointer, bytes from the beginning of the array
    pointer: Pointer  # its type; of a struct that it points to, only name and size
    value: object
    name: str


@dataclass(frozen=True, eq=False)
class StructText:
    """Structs with members that a text gives by name."""

    where: str
    structs: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Filled:
    """Elements of an array that a text gives by their number and content."""

    count: int
    content: str  # as `dtypes.filled` takes it


def lengthened(struct: Struct, values: Sequence[Mapping[str, Any]]) -> Struct:
    """Return the struct with as many elements in its flexible array as its only value gives.

    The last member is a flexible array if it has no length. Older C writes it with one element.
    """
    if len(values) != 1 or not struct.fields or struct.is_union:
        return struct
    last = struct.fields[-1]
    count = _length(values[0].get(last.name), last)
    if not last.shape or last.shape[0] > 1 or count <= last.shape[0]:
        return struct
    shape = (count, *last.shape[1:])
    end = last.offset + last.type.size * math.prod(shape)
    longer = replace(last, shape=shape)
    size = -(-end // struct.size) * struct.size  # the board takes whole structs only
    return replace(struct, size=size, fields=(*struct.fields[:-1], longer))


def _length(given: object, field: Field) -> int:
    """Return how many elements a value gives; 0 if it is not an array."""
    if isinstance(given, Filled):
        return given.count
    if isinstance(given, str):
        return len(text_bytes(field.name, unquoted(given))) if field.type == CHAR else 0
    return len(given) if isinstance(given, Sized) else 0


def structs_bytes(
    where: str, values: Sequence[Mapping[str, Any]], struct: Struct, order: ByteOrder = "little"
) -> tuple[bytearray, list[Link]]:
    """Return structs as bytes, and what their pointers point to; missing members are zeros."""
    if not struct.fields:
        raise UsageError(
            f"{where}: the members of {struct.name} are not known.",
            hint=f"give its {struct.size} bytes",
        )
    writer = _Writer(where, order, bytearray(len(values) * struct.size))
    for index, members in enumerate(values):
        writer.members(struct, index * struct.size, members, struct.name)
    return writer.content, writer.links


class _Writer:
    def __init__(self, where: str, order: ByteOrder, content: bytearray) -> None:
        self.content = content
        self.links: list[Link] = []
        self._where = where
        self._order = order

    def members(self, struct: Struct, at: int, values: object, name: str) -> None:
        if not isinstance(values, Mapping):
            raise UsageError(f"{self._where}: {name} is a struct.", hint=f"{name}={{NAME=NUMBER}}")
        known = {field.name: field for field in struct.named_fields}
        for member, value in values.items():
            if member not in known:
                place = f"in {self._where}"
                raise UnknownNameError(f"member of {name}", member, list(known), where=place)
            field = known[member]
            if field.bits:
                self._bits(field, at, value, member)
            else:
                self._value(field.type, at + field.offset, field.shape, value, member)

    def _value(self, kind: MemberType, at: int, shape: _Shape, value: object, name: str) -> None:
        if shape:
            self._array(kind, at, shape, value, name)
        elif isinstance(kind, Struct):
            self.members(kind, at, value, name)
        elif isinstance(kind, Pointer):
            target = kind.element
            if isinstance(value, Filled) and isinstance(target, Scalar) and not kind.is_function:
                value = filled(element_dtype(target), (value.count,), value.content)
            is_null = value is None or (isinstance(value, str | int) and str(value) in _NULL)
            if not is_null:
                self.links.append(Link(at, kind, value, name))
        else:
            code = ("<" if self._order == "little" else ">") + _CODES[_number_text(kind)]
            packing.pack_into(code, self.content, at, number_of(self._where, name, kind, value))

    def _array(self, kind: MemberType, at: int, shape: _Shape, value: object, name: str) -> None:
        count, rest = shape[0], shape[1:]
        if isinstance(value, str | bytes) and kind == CHAR and not rest:
            encoded = text_bytes(name, unquoted(value)) if isinstance(value, str) else value
            if len(encoded) <= count:
                self.content[at : at + len(encoded)] = encoded
                return
        if isinstance(value, str) and is_content(value) and kind != CHAR:
            value = Filled(count, value)
        if isinstance(value, Filled) and isinstance(kind, Scalar) and value.count <= count:
            value = filled(element_dtype(kind), (value.count, *rest), value.content)
        if hasattr(value, "tolist"):  # a numpy array
            value = value.tolist()
        if not isinstance(value, list | tuple) or len(value) > count:
            raise _not_such_an_array(self._where, name, shape)
        stride = kind.size * math.prod(rest)
        for index, each in enumerate(value):
            self._value(kind, at + index * stride, rest, each, f"{name}[{index}]")

    def _bits(self, field: Field, at: int, value: object, name: str) -> None:
        kind = field.type
        assert isinstance(kind, Scalar)
        number = number_of(self._where, name, kind, value)
        limits = bit_limits(kind, field.bits)
        _check_limits(self._where, name, number, f"a field of {field.bits} bits", limits)
        begin, end, shift = _bit_place(field, self._order)
        whole = int.from_bytes(self.content[at + begin : at + end], self._order)
        mask = (1 << field.bits) - 1
        whole = whole & ~(mask << shift) | (int(number) & mask) << shift
        self.content[at + begin : at + end] = whole.to_bytes(end - begin, self._order)


def number_of(where: str, name: str, kind: Scalar, value: object) -> Any:
    """Return a number that fits a type; enums may be given by name."""
    values = dict(kind.names)
    if isinstance(value, Mapping | list | tuple):
        raise UsageError(f"{where}: the member {name} does not take this value.")
    is_float = kind.text[0] == "f"
    try:
        if is_float:
            number: Any = to_float(value)
            packing.pack(f"<{_CODES[kind.text]}", number)  # in native order, it would be infinite
        else:
            known = isinstance(value, str) and value in values
            number = values[str(value)] if known else to_integer(value)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"{where}: {name}={value} is not {'a number' if is_float else 'an integer'}.",
            hint=f"a number, {', '.join(values)}" if values else None,
        ) from error
    except OverflowError as error:
        raise UsageError(
            f"{where}: {name}={value} is out of range of its type {kind.text}.", hint=INFINITY_HINT
        ) from error
    if not is_float:
        bits = 1 if kind.text == "bool" else 8 * kind.size
        _check_limits(where, name, number, kind.text, bit_limits(kind, bits))
    return number


def _check_limits(where: str, name: str, number: int, what: str, limits: tuple[int, int]) -> None:
    low, high = limits
    if not low <= number <= high:
        raise UsageError(f"{where}: {name}={number} is out of range: {what} is {low} to {high}.")


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}


def unquoted(text: str) -> str:
    """Return a text without the double quotes around it and the backslashes in them."""
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':
        return text
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), text[1:-1], flags=re.DOTALL)


def text_bytes(name: str, text: str) -> bytes:
    """Return a text as bytes in UTF-8; bytes of a command line that are none stay as they are."""
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError as error:
        raise UsageError(
            f"{name}: {text!r:.60} has half of a UTF-16 pair, for which UTF-8 has no form.",
            hint="pass bytes instead",
        ) from error


def members_of(content: bytes, struct: Struct, order: ByteOrder = "little") -> dict[str, Any]:
    """Return the members of a struct by name; pointers are None."""
    found: dict[str, Any] = {}
    for field in struct.named_fields:
        kind, name = field.type, field.name
        if not field.bits:
            found[name] = _read(content, field.offset, kind, field.shape, order)
            continue
        begin, end, shift = _bit_place(field, order)
        number = int.from_bytes(content[begin:end], order) >> shift & (1 << field.bits) - 1
        if isinstance(kind, Scalar) and kind.text == "bool" and field.bits == 1:
            found[name] = bool(number)
        else:
            _, high = bit_limits(kind, field.bits)
            found[name] = number - (1 << field.bits) * (number > high)
    return found


def members_text(value: object) -> str:
    """Return members as on the command line: ``{x=1, at={y=2}, w=[3, 4]}``."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}={members_text(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(members_text, value)) + "]"
    if isinstance(value, bytes):
        return json.dumps(value.decode(errors="backslashreplace"))
    if isinstance(value, bool):
        return str(value).lower()
    return "NULL" if value is None else str(value)


def _read(content: bytes, at: int, kind: MemberType, shape: _Shape, order: ByteOrder) -> Any:
    if shape and kind == CHAR and len(shape) == 1:
        return content[at : at + shape[0]].rstrip(b"\0")
    if shape:
        stride = kind.size * math.prod(shape[1:])
        return [_read(content, at + i * stride, kind, shape[1:], order) for i in range(shape[0])]
    if isinstance(kind, Struct):
        return members_of(content[at : at + kind.size], kind, order)
    if isinstance(kind, Pointer):
        return None
    code = ("<" if order == "little" else ">") + _CODES[_number_text(kind)]
    return packing.unpack_from(code, content, at)[0]


def _not_such_an_array(where: str, name: str, shape: _Shape) -> UsageError:
    if shape[0] == 0:
        return UsageError(
            f"{where}: the elements of {name} are not part of the struct: it is a flexible array.",
            hint=f"give one struct, with its elements: {name}=[64]:zeros",
        )
    size = " by ".join(map(str, shape))
    form = f"{'[' * len(shape)}NUMBER, ...{']' * len(shape)}"
    return UsageError(f"{where}: {name} is an array of {size} elements.", hint=f"{name}={form}")


def _number_text(kind: Scalar) -> str:
    return "u8" if kind.text == CHAR.text else kind.text


def bit_limits(kind: object, bits: int) -> tuple[int, int]:
    """Return the smallest and the largest value of some bits of an integer type."""
    is_signed = isinstance(kind, Scalar) and kind.text[0] == "i"
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)


def _bit_place(field: Field, order: ByteOrder) -> tuple[int, int, int]:
    """Return the first byte and the end of the bytes that hold a bit-field, and its lowest bit."""
    begin = field.first_bit // 8
    end = -(-(field.first_bit + field.bits) // 8)
    if order == "little":
        return begin, end, field.first_bit - 8 * begin
    return begin, end, 8 * end - field.first_bit - field.bits


def pointer_paths(struct: Struct) -> dict[int, Path]:
    """Return the path of each pointer in a struct, at any depth, by its offset in bytes."""
    paths: dict[int, Path] = {}
    for offset, path, _ in struct.leaves():
        paths.setdefault(offset, path)
    return paths
