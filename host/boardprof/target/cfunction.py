# SPDX-License-Identifier: Apache-2.0
"""A C function that can be called over the wire, or the reason why not, and its C types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple


@dataclass(frozen=True)
class Scalar:
    """A type that one word of a call can carry."""

    text: str
    c_type: str  # with the same size and calling convention, as in ``stdint.h``
    size: int  # bytes; the alignment is at most that
    names: tuple[tuple[str, int], ...] = ()  # an enum's names and their values

    by_value = False  # as of `Pointer`

    @property
    def is_function(self) -> bool:
        """Whether it is what a function pointer points to."""
        return self.text == FUNCTION_TEXT


FUNCTION_TEXT = "fn"
FUNCTION = Scalar(FUNCTION_TEXT, "bp_fn_t", 1)
"""The element of function pointers, whatever their parameters."""


CHAR = Scalar("char", "char", 1)
"""The element of pointers to plain ``char``: text or bytes, signed on some machines only.

As a number, a char is i8 or u8.
"""

SCALARS = {
    text: Scalar(text, c_type, size)
    for text, c_type, size in [
        ("bool", "bool", 1),
        ("f32", "float", 4),
        ("f64", "double", 8),
        *[(f"i{bits}", f"int{bits}_t", bits // 8) for bits in (8, 16, 32, 64)],
        *[(f"u{bits}", f"uint{bits}_t", bits // 8) for bits in (8, 16, 32, 64)],
    ]
}
"""The number types in signatures, by their text."""


Path = tuple[str | int, ...]
"""How to reach a member of a struct: names of members and indices of arrays."""


@dataclass(frozen=True)
class Field:
    """A member of a struct or union."""

    name: str  # "" for an anonymous struct or union
    offset: int  # bytes from the beginning of the struct; 0 for a bit-field
    type: MemberType  # of one element; a bit-field's declared type
    shape: tuple[int, ...] = ()  # of an array, outermost first
    bits: int = 0  # width of a bit-field; 0 for any other member
    first_bit: int = 0  # from the struct's beginning; big-endian: from a byte's highest bit


@dataclass(frozen=True)
class Struct:
    """A struct or union of numbers, pointers, and arrays of them.

    ``fields`` are empty if a member's type is unknown, so that the struct is passed as bytes, and
    where another pointer leads to the struct: `CFunction.structs` has its fields.
    """

    name: str  # its tag, else its typedef, else ``anonymous``
    size: int
    fields: tuple[Field, ...] = ()  # in the order of the source
    is_union: bool = False

    @cached_property
    def named_fields(self) -> tuple[Field, ...]:
        """The members that C can name, those of anonymous structs and unions among them."""
        found: list[Field] = []
        for field in self.fields:
            if field.name:
                found.append(field)
            elif isinstance(field.type, Struct):
                at = field.offset
                found += [
                    replace(inner, first_bit=8 * at + inner.first_bit)
                    if inner.bits
                    else replace(inner, offset=at + inner.offset)
                    for inner in field.type.named_fields
                ]
        return tuple(found)

    @property
    def is_plain(self) -> bool:
        """Whether it has only numbers and arrays of them: no pointer, enum or bit-field."""
        return not self.has_bits and all(
            field.type.is_plain
            if isinstance(field.type, Struct)
            else isinstance(field.type, Scalar) and not field.type.names
            for field in self.fields
        )

    @property
    def has_bits(self) -> bool:
        """Whether it has a bit-field, at any depth."""
        return any(
            field.bits or (isinstance(field.type, Struct) and field.type.has_bits)
            for field in self.fields
        )

    @property
    def pointers(self) -> tuple[tuple[int, Pointer], ...]:
        """The offset in bytes and the type of each pointer in it, at any depth."""
        found = ((at, kind) for at, _, kind in self.leaves() if isinstance(kind, Pointer))
        return tuple(dict.fromkeys(found))

    def leaves(self, *, numbers: bool = False) -> Iterator[tuple[int, Path, Scalar | Pointer]]:
        """Yield offset, path and type of each pointer in it, at any depth; also of ``numbers``."""
        for field in self.named_fields:
            kind = field.type
            if isinstance(kind, Scalar) and not numbers:
                continue
            for index, indices in enumerate(product(*map(range, field.shape))):
                at = field.offset + index * kind.size
                path: Path = (field.name, *indices)
                if isinstance(kind, Struct):
                    inner = kind.leaves(numbers=numbers)
                    yield from ((at + offset, (*path, *rest), leaf) for offset, rest, leaf in inner)
                else:
                    yield at, path, kind


@dataclass(frozen=True)
class Pointer:
    """A pointer to one or more elements, which are in the board's arena during the call."""

    element: Scalar | Struct | None  # None for ``void``, whose elements are bytes
    const: bool
    size: int
    by_value: bool = False  # the struct itself is taken or returned, through the arena

    c_type = "void *"  # pointers are passed alike, whatever they point to

    @property
    def element_size(self) -> int:
        """Bytes of an element."""
        return 1 if self.element is None else self.element.size

    @property
    def text(self) -> str:
        """As in signatures: ``const i16*``, ``fir_state{24}*``, ``void*``."""
        match self.element:
            case None:
                element = "void"
            case Struct(name, size):
                element = f"{name}{{{size}}}"
            case scalar:
                element = scalar.text
        if self.by_value:
            return element
        return f"{'const ' if self.const else ''}{element}*"

    @property
    def inner(self) -> Pointer | None:
        """The pointers that it points to, as in ``char **``; None if it points to others."""
        match self.element:
            case Struct(fields=(Field(name="to", shape=(), type=Pointer() as found),)):
                return found
        return None

    @property
    def is_function(self) -> bool:
        """Whether it points to a function."""
        return isinstance(self.element, Scalar) and self.element.is_function


CType = Scalar | Pointer
"""The type of a parameter, or of a result."""

MemberType = Scalar | Struct | Pointer
"""The type of a member of a struct."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a function; one without a name in C is called ``arg0``, ``arg1``, ..."""

    name: str
    type: CType


@dataclass(frozen=True)
class CFunction:
    """A global function of the user's code."""

    name: str  # as in C; in C++ with scope, and parameter types if overloaded
    parameters: tuple[Parameter, ...]  # empty if ``reason`` is set
    result: CType | None
    setup: str | None  # ``void <name>_setup(void)``, which prepares it
    check: str | None  # ``int <name>_check(void)``; it returns 0 if all is right
    source: str  # relative to the folder it was compiled in
    reason: str | None
    line: int = 0  # in ``source``; 0 if not known
    linkage: str = ""  # the linker's name, if it differs
    structs: tuple[Struct, ...] = ()
    wrapper: str = ""  # C code of a function that calls it; "" if it needs none

    @property
    def symbol(self) -> str:
        """Its name for the linker."""
        return self.linkage or self.name

    def refused(self, reason: str, wrapper: str = "") -> CFunction:
        """Return the function with the reason why it cannot be called."""
        return replace(self, parameters=(), result=None, structs=(), reason=reason, wrapper=wrapper)


class HiddenFunction(NamedTuple):
    """A function that cannot be called from outside its source."""

    name: str
    source: str
    why: str


LONGEST_NAME = 63
"""Bytes of a function's name, bp.h."""


def wrapper_name(name: str) -> str:
    """Return the name of a function's wrapper, which is not too long."""
    end = "_wrapper"
    return name.encode()[: LONGEST_NAME - len(end)].decode(errors="ignore") + end


def signature(fn: CFunction) -> str:
    """Return the signature as text, ``(x: const i16*, n: u32) -> i32``; "" if it has none."""
    if fn.reason is not None:
        return ""
    parameters = ", ".join(f"{p.name}: {p.type.text}" for p in fn.parameters)
    return f"({parameters}) -> {fn.result.text if fn.result else 'void'}"


LONGEST_SIGNATURE = 255
"""Bytes of a text on the wire (SPEC.md 4.1)."""


def wire_signature(fn: CFunction, room: int = LONGEST_SIGNATURE) -> str | None:
    """Return the signature that a board reports; None if even the shortest form does not fit.

    If it is too long, parameters are called ``a``, ``b``, ... If that is still too long, pointers
    are ``void*``. A host that knows the source takes names and types from there.
    """
    room = min(room, LONGEST_SIGNATURE)
    return next((text for text in signature_forms(fn) if len(text.encode()) <= room), None)


def signature_forms(fn: CFunction) -> Iterator[str]:
    """Yield the whole signature, then shorter forms."""
    yield signature(fn)
    letters = [f"{chr(ord('a') + i % 26)}{i // 26 or ''}" for i in range(len(fn.parameters))]
    named = [replace(p, name=name) for p, name in zip(fn.parameters, letters, strict=True)]
    yield signature(replace(fn, parameters=tuple(named)))
    bare = [replace(p, type=_bare(p.type)) for p in named]
    result = None if fn.result is None else _bare(fn.result)
    yield signature(replace(fn, parameters=tuple(bare), result=result))


def _bare(kind: CType) -> CType:
    if isinstance(kind, Scalar) or kind.is_function:
        return kind
    if kind.by_value and isinstance(kind.element, Struct):
        return replace(kind, element=replace(kind.element, name="s"))
    return Pointer(None, False, kind.size)


def function_from_json(data: Mapping[str, Any]) -> CFunction:
    """Undo `asdict`, also after the data went through JSON."""
    parameters = tuple(Parameter(p["name"], _type(p["type"])) for p in data["parameters"])
    result = data["result"] and _type(data["result"])
    structs = tuple(map(_type, data["structs"]))
    return CFunction(**{**data, "parameters": parameters, "result": result, "structs": structs})


def _type(data: Mapping[str, Any]) -> Any:
    """Return a type; a key that only its class has tells which one it is."""
    if "c_type" in data:
        return Scalar(**{**data, "names": tuple(map(tuple, data["names"]))})
    if "const" in data:
        return Pointer(**{**data, "element": data["element"] and _type(data["element"])})
    fields = (
        Field(**{**each, "type": _type(each["type"]), "shape": tuple(each["shape"])})
        for each in data["fields"]
    )
    return Struct(**{**data, "fields": tuple(fields)})
