# SPDX-License-Identifier: Apache-2.0
"""A packed function's signature, such as ``(n: u32, gain: f32) -> i32``, and its arguments."""

from __future__ import annotations

import operator
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgpack

from boardprof.errors import UnknownNameError, UsageError

__all__ = ["Signature", "pack_arguments", "parse_signature"]

_INTEGERS = {
    f"{sign}{bits}": (-(1 << bits - 1) if sign == "i" else 0, (1 << bits - (sign == "i")) - 1)
    for sign in "iu"
    for bits in (8, 16, 32, 64)
}
_FLOATS = {"f32": (b"\xca", ">f"), "f64": (b"\xcb", ">d")}
_WORDS = {"false": 0, "true": 1}
_FORM = re.compile(r"\((?P<parameters>[^()]*)\) -> (?P<result>\w+)")


@dataclass(frozen=True)
class Signature:
    """Names and types of parameters, in order, and the type of the result (``void``: none)."""

    parameters: tuple[tuple[str, str], ...]
    result: str
    text: str


def parse_signature(text: str) -> Signature:
    """Read a signature as the board's dictionary has it.

    Raises:
        UsageError: it has another form, or a type that this boardprof does not know.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is not a signature", hint="a newer boardprof may know it")
    parameters = []
    for part in filter(None, match["parameters"].split(", ")):
        name, _, kind = part.partition(": ")
        if kind != "bool" and kind not in _INTEGERS and kind not in _FLOATS:
            raise UsageError(f"parameter {name!r} of {text} has the unknown type {kind!r}")
        parameters.append((name, kind))
    return Signature(tuple(parameters), match["result"], text)


def pack_arguments(
    function: str, signature: Signature, args: Sequence[object], named: Mapping[str, object]
) -> tuple[bytes, int]:
    """Pack arguments as msgpack, each as its parameter's type.

    Args:
        function: for messages.
        signature: what the function takes.
        args: values by position; a text is read as a number.
        named: values by parameter name.

    Returns:
        The packed arguments one after the other, and how many.

    Raises:
        UsageError: too many, too few, twice the same, wrong type or out of range.
        UnknownNameError: no parameter of that name.
    """
    names = [name for name, _ in signature.parameters]
    for name in named:
        if name not in names:
            raise UnknownNameError("parameter", name, names, hint=f"{function}{signature.text}")
    values: dict[str, object] = dict(zip(names, args, strict=False))
    doubled = sorted(values.keys() & named.keys())
    values |= named
    missing = [name for name in names if name not in values]
    if len(args) > len(names) or missing or doubled:
        what = (
            f"twice {', '.join(doubled)}"
            if doubled
            else f"without {', '.join(missing)}"
            if missing
            else f"with {len(args)} arguments"
        )
        raise UsageError(f"{function} was called {what}.", hint=f"{function}{signature.text}")
    packed = [_pack(function, name, kind, values[name]) for name, kind in signature.parameters]
    return b"".join(packed), len(packed)


def _pack(function: str, name: str, kind: str, value: object) -> bytes:
    where = f"{name}={value!r} of {function}"
    try:
        if kind in _FLOATS:
            tag, form = _FLOATS[kind]
            return tag + struct.pack(form, float(value))  # type: ignore[arg-type]
        number = _integer(value)
    except OverflowError as error:
        raise UsageError(f"{where} is out of range of its type {kind}.") from error
    except (TypeError, ValueError) as error:
        needed = "a number" if kind in _FLOATS else "an integer"
        raise UsageError(f"{where} is not {needed}; the parameter's type is {kind}.") from error
    low, high = (0, 1) if kind == "bool" else _INTEGERS[kind]
    if not low <= number <= high:
        raise UsageError(f"{where} is out of range: {kind} is {low} to {high}.")
    return bytes(msgpack.packb(bool(number) if kind == "bool" else number))


def _integer(value: object) -> int:
    """Return what Python takes as an index; a text as C writes it: 256, 0x100, true."""
    if isinstance(value, str):
        return _WORDS[value] if value in _WORDS else int(value, 0)
    return operator.index(value)  # type: ignore[arg-type]
