# SPDX-License-Identifier: Apache-2.0
"""A C function that can be called over the wire, or why it cannot; and the types of its C."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

__all__ = [
    "CHAR",
    "SCALARS",
    "CFunction",
    "CType",
    "Field",
    "Parameter",
    "Pointer",
    "Scalar",
    "Struct",
    "function_from_json",
    "function_to_json",
    "signature",
]


@dataclass(frozen=True)
class Scalar:
    """A type that one word of a call can carry.

    Attributes:
        text: as in signatures: i8 ... i64, u8 ... u64, f32, f64 or bool.
        c_type: the type with the same size and calling convention, as in
            ``stdint.h`` and ``stdbool.h``.
        size: bytes; its alignment is no larger.
    """

    text: str
    c_type: str
    size: int


CHAR = Scalar("char", "char", 1)
"""What pointers to plain ``char`` point to: text or bytes, signed on some machines only.

A number that is a char is i8 or u8.
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
"""The types of numbers in signatures, by their texts."""


@dataclass(frozen=True)
class Field:
    """A member of a struct or union.

    Attributes:
        name: as in C; that of an anonymous struct or union is "".
        offset: bytes from the struct's beginning.
        type: of one element.
        shape: dimensions of an array, outermost first; empty where it is none.
    """

    name: str
    offset: int
    type: Scalar | Struct
    shape: tuple[int, ...] = ()


@dataclass(frozen=True)
class Struct:
    """A struct or union that can be passed by pointer: of numbers and arrays of them only.

    Attributes:
        name: its tag, else its typedef, else ``anonymous``.
        size: bytes.
        fields: in the order of the source. Those of a union, and bit-fields' neighbours, overlap.
            Empty where a member has no counterpart in numpy, such as a bit-field: then it is
            passed as bytes.
    """

    name: str
    size: int
    fields: tuple[Field, ...] = ()


@dataclass(frozen=True)
class Pointer:
    """A pointer to one element or many, which stand in the board's arena while it is called.

    Attributes:
        element: what it points to; None for ``void``, whose elements are bytes.
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
"""What a parameter may be."""


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
        setup: ``void <name>_setup(void)``, which prepares it, None if there is none.
        check: ``int <name>_check(void)``, 0 when its results are right, None if
            there is none.
        source: the translation unit, relative to the folder it was compiled in.
        reason: why it cannot be called over the wire, None if it can.
    """

    name: str
    parameters: tuple[Parameter, ...]
    result: Scalar | None
    setup: str | None
    check: str | None
    source: str
    reason: str | None


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
    """Undo :func:`function_to_json`, also after a trip through JSON."""
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
