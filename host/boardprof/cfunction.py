# SPDX-License-Identifier: Apache-2.0
"""A C function that can be called over the wire, or the reason why not, and its C types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple


@dataclass(frozen=True)
class Scalar:
    """A type that one word of a call can carry.

    Attributes:
        text: as in signatures: i8 ... i64, u8 ... u64, f32, f64 or bool.
        c_type: the type with the same size and calling convention, as in
            ``stdint.h`` and ``stdbool.h``.
        size: in bytes; the alignment is at most that.
    """

    text: str
    c_type: str
    size: int


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


@dataclass(frozen=True)
class Field:
    """A member of a struct or union.

    Attributes:
        name: as in C; that of an anonymous struct or union is "".
        offset: in bytes from the beginning of the struct.
        type: of one element.
        shape: dimensions of an array, outermost first; empty if it is not an array.
    """

    name: str
    offset: int
    type: Scalar | Struct
    shape: tuple[int, ...] = ()


@dataclass(frozen=True)
class Struct:
    """A struct or union of numbers and arrays of numbers, which can be passed by pointer.

    Attributes:
        name: its tag, else its typedef, else ``anonymous``.
        size: bytes.
        fields: in the order of the source. The fields of a union, and neighbouring bit-fields,
            overlap. Empty if a member has no counterpart in numpy, such as a bit-field. The struct
            is then passed as bytes.
    """

    name: str
    size: int
    fields: tuple[Field, ...] = ()


@dataclass(frozen=True)
class Pointer:
    """A pointer to one or more elements, which are in the board's arena during the call.

    Attributes:
        element: the type that it points to; None for ``void``, whose elements are bytes.
        const: whether the function only reads it.
        size: bytes of the pointer itself.
    """

    element: Scalar | Struct | None
    const: bool
    size: int

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
        return f"{'const ' if self.const else ''}{element}*"


CType = Scalar | Pointer
"""The type of a parameter."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a function; one without a name in C is called ``arg0``, ``arg1``, ..."""

    name: str
    type: CType


@dataclass(frozen=True)
class CFunction:
    """A global function of the user's code.

    Attributes:
        name: as in C.
        parameters: in order; empty if ``reason`` is set.
        result: None for void.
        setup: ``void <name>_setup(void)``, which prepares it; None if absent.
        check: ``int <name>_check(void)``, which returns 0 when its results are right; None if
            absent.
        source: the translation unit, relative to the folder it was compiled in.
        reason: why it cannot be called over the wire, None if it can.
        line: of its definition in ``source``; 0 if not known.
    """

    name: str
    parameters: tuple[Parameter, ...]
    result: Scalar | None
    setup: str | None
    check: str | None
    source: str
    reason: str | None
    line: int = 0


class HiddenFunction(NamedTuple):
    """A function that cannot be called from outside its source.

    Attributes:
        name: as in the source.
        source: its translation unit.
        why: the reason, and a remedy.
    """

    name: str
    source: str
    why: str


def signature(fn: CFunction) -> str:
    """Return the signature as text, ``(x: const i16*, n: u32) -> i32``; "" if it has none."""
    if fn.reason is not None:
        return ""
    parameters = ", ".join(f"{p.name}: {p.type.text}" for p in fn.parameters)
    return f"({parameters}) -> {fn.result.text if fn.result else 'void'}"


def function_to_json(fn: CFunction) -> dict[str, Any]:
    """Return a function as plain data."""
    return asdict(fn)


def function_from_json(data: Mapping[str, Any]) -> CFunction:
    """Undo :func:`function_to_json`, also after the data went through JSON."""
    parameters = tuple(Parameter(p["name"], _ctype(p["type"])) for p in data["parameters"])
    result = None if data["result"] is None else Scalar(**data["result"])
    return CFunction(**{**data, "parameters": parameters, "result": result})


def _ctype(data: Mapping[str, Any]) -> CType:
    if "const" not in data:
        return Scalar(**data)
    element = None if data["element"] is None else _element(data["element"])
    return Pointer(element, data["const"], data["size"])


def _element(data: Mapping[str, Any]) -> Scalar | Struct:
    if "c_type" in data:
        return Scalar(**data)
    fields = (
        Field(f["name"], f["offset"], _element(f["type"]), tuple(f["shape"]))
        for f in data["fields"]
    )
    return Struct(data["name"], data["size"], tuple(fields))
