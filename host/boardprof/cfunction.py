# SPDX-License-Identifier: Apache-2.0
"""A C function that can be called over the wire, or why it cannot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

__all__ = [
    "CFunction",
    "Parameter",
    "Scalar",
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


@dataclass(frozen=True)
class Parameter:
    """A parameter of a function; one without a name in C is called ``arg0``, ``arg1``, ..."""

    name: str
    type: Scalar


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
    """Return the signature as text, ``(n: u32, gain: f32) -> i32``; "" if it cannot be called."""
    if fn.reason is not None:
        return ""
    parameters = ", ".join(f"{p.name}: {p.type.text}" for p in fn.parameters)
    return f"({parameters}) -> {fn.result.text if fn.result else 'void'}"


def function_to_json(fn: CFunction) -> dict[str, Any]:
    """Return a function as plain data."""
    return asdict(fn)


def function_from_json(data: Mapping[str, Any]) -> CFunction:
    """Undo :func:`function_to_json`, also after a trip through JSON."""
    parameters = tuple(Parameter(p["name"], Scalar(**p["type"])) for p in data["parameters"])
    result = None if data["result"] is None else Scalar(**data["result"])
    return CFunction(**{**data, "parameters": parameters, "result": result})
