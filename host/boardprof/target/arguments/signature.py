# SPDX-License-Identifier: Apache-2.0
"""A packed function's signature, such as ``(x: const i16*, n: u32) -> i32``, and its arguments."""

from __future__ import annotations

import math
import operator
import re
import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import msgpack

from boardprof.base.errors import FrameError, UnknownNameError, UsageError
from boardprof.base.metrics import float32_text
from boardprof.target.cfunction import (
    CHAR,
    FUNCTION,
    FUNCTION_TEXT,
    SCALARS,
    Pointer,
    Scalar,
    Struct,
)

_INTEGERS = {
    f"{sign}{bits}": (-(1 << bits - 1) if sign == "i" else 0, (1 << bits - (sign == "i")) - 1)
    for sign in "iu"
    for bits in (8, 16, 32, 64)
}
_FLOATS = {"f32": struct.Struct(">Bf"), "f64": struct.Struct(">Bd")}
_TAGS = {"f32": 0xCA, "f64": 0xCB}
INFINITY_HINT = "write inf or -inf if infinity is meant"
_RESULTS = {"bool": bool, "f32": float, "f64": float, "void": type(None)}
_WORDS = {"false": 0, "true": 1}
_FORM = r"\((?P<parameters>[^()]*)\) -> (?P<result>[^()]+)"
_APART = r", (?=\w+: )"
_POINTER = r"(?P<const>const )?(?:(?P<word>\w+)|(?P<tag>[^*{}]+)\{(?P<size>\d+)\})(?P<star>\*?)"
_MOST_ITEMS = 8  # functions with more arguments than that get them within one (SPEC.md 5.9)
Pack = Callable[[str, object], bytes]
"""From (function, value) to a packed argument; the function's name is for messages."""


@dataclass(frozen=True)
class Signature:
    """The parameters and the result of a function.

    The ``pointers`` include structs by value. Their own size is unknown and 0.
    """

    parameters: tuple[tuple[str, str], ...]
    result: str
    text: str
    pointers: Mapping[str, Pointer] = field(default_factory=dict, compare=False)
    returns: Pointer | None = field(default=None, compare=False)  # a pointer or a struct; else None
    numbers: Mapping[str, Scalar] = field(default_factory=dict, compare=False)
    structs: Mapping[tuple[str, int], Struct] = field(default_factory=dict, compare=False)

    @property
    def returns_struct(self) -> bool:
        """Whether it returns a struct, whose place is then its last argument."""
        return self.returns is not None and self.returns.by_value

    @property
    def is_packed(self) -> bool:
        """Whether its arguments are within one."""
        return len(self.parameters) + self.returns_struct > _MOST_ITEMS

    @cached_property
    def is_plain(self) -> bool:
        """Whether it has only numbers as arguments, few enough to be passed one by one."""
        return not (self.pointers or self.returns or self.is_packed)

    @cached_property
    def packers(self) -> tuple[Pack, ...]:
        """For each parameter a function that packs its values; a pointer's refuses all values."""
        return tuple(
            scalar_packer(name, kind, self.numbers[name].names if name in self.numbers else ())
            for name, kind in self.parameters
        )

    def check_result(self, function: str, value: object) -> None:
        """Check that a value returned by a board has the result's type."""
        kind = self.result
        if self.returns is not None:
            wanted = type(None) if self.returns.by_value else bytes
            fits = type(value) is wanted
        elif kind in _INTEGERS:
            low, high = _INTEGERS[kind]
            fits = type(value) is int and low <= value <= high
        else:
            fits = type(value) is _RESULTS.get(kind, type(value))
        if not fits:
            raise FrameError(
                f"{function}{self.text} returned {value!r:.60}, which is not of type {kind}."
            )


def parse_signature(text: str) -> Signature:
    """Parse a signature from the board's dictionary."""
    match = re.fullmatch(_FORM, text)
    if match is None:
        raise UsageError(f"{text!r} is not a signature", hint="a newer boardprof may know it")
    parameters = []
    pointers = {}
    for part in filter(None, re.split(_APART, match["parameters"])):
        name, _, kind = part.partition(": ")
        if kind not in SCALARS:
            pointer = _pointer(kind)
            if pointer is None:
                raise UsageError(f"parameter {name!r} of {text} has the unknown type {kind!r}")
            pointers[name] = pointer
        parameters.append((name, kind))
    result = match["result"]
    returns = None if result == "void" or result in SCALARS else _pointer(result)
    if returns is None and result != "void" and result not in SCALARS:
        raise UsageError(f"the result of {text} has the unknown type {result!r}")
    return Signature(tuple(parameters), result, text, pointers, returns)


def _pointer(kind: str) -> Pointer | None:
    """Parse ``const i16*``, ``fir_state{24}*``, ``fir_state{24}``; None if the type is unknown."""
    match = re.fullmatch(_POINTER, kind)
    if match is None:
        return None
    const, by_value = match["const"] is not None, not match["star"]
    element: Scalar | Struct | None = None
    if match["tag"] is not None:
        element = Struct(match["tag"], int(match["size"]))
    elif by_value:
        return None
    elif match["word"] in _WORD_ELEMENTS:
        element = _WORD_ELEMENTS[match["word"]]
    elif match["word"] != "void":
        return None
    return Pointer(element, const or by_value, 0, by_value)


_WORD_ELEMENTS = {**SCALARS, CHAR.text: CHAR, FUNCTION_TEXT: FUNCTION}


def pack_arguments(
    function: str, signature: Signature, args: Sequence[object], named: Mapping[str, object]
) -> tuple[bytes, int]:
    """Pack scalar arguments as msgpack, each as its parameter's type; return their number, too."""
    packers = signature.packers
    if named or len(args) != len(packers):
        args = in_order(function, signature, args, named)
    if not packers:
        return b"", 0
    packed = b"".join([pack(function, value) for pack, value in zip(packers, args, strict=True)])
    return packed, len(packers)


def in_order(
    function: str, signature: Signature, args: Sequence[object], named: Mapping[str, object]
) -> list[object]:
    """Return one value for each parameter, in order; raises as `pack_arguments`."""
    names = [name for name, _ in signature.parameters]
    if not args and len(named) == len(names) and named.keys() >= set(names):
        return [named[name] for name in names]
    for name in named:
        if name not in names:
            raise UnknownNameError("parameter", name, names, hint=f"{function}{signature.text}")
    values: dict[str, object] = dict(zip(names, args, strict=False))
    doubled = sorted(values.keys() & named.keys())
    values |= named
    missing = [name for name in names if name not in values]
    if len(args) > len(names) or missing or doubled:
        what = f"without {', '.join(missing)}" if missing else f"with {len(args)} arguments"
        what = f"with {', '.join(doubled)} given twice" if doubled else what
        raise UsageError(f"{function} was called {what}.", hint=f"{function}{signature.text}")
    return [values[name] for name in names]


def scalar_packer(name: str, kind: str, names: Sequence[tuple[str, int]] = ()) -> Pack:
    """Return a function that packs a parameter's values, made once to keep calls fast."""
    values = dict(names)
    if kind in _FLOATS:
        tag, pack_float = _TAGS[kind], _FLOATS[kind].pack

        def packed_float(function: str, value: object) -> bytes:
            try:
                return pack_float(tag, to_float(value))
            except (OverflowError, TypeError, ValueError) as error:
                raise _refused(function, name, kind, value, error) from error

        return packed_float

    low, high = (0, 1) if kind == "bool" else _INTEGERS.get(kind, (0, -1))
    as_type = bool if kind == "bool" else int
    pack = msgpack.Packer().pack

    def packed_integer(function: str, value: object) -> bytes:
        number = value
        if type(number) is not int:
            try:
                number = values[value] if value in values else to_integer(value)
            except (OverflowError, TypeError, ValueError) as error:
                raise _refused(function, name, kind, value, error, values) from error
        if not low <= number <= high:
            raise UsageError(
                f"{name}={value!r} of {function} is out of range: {kind} is {low} to {high}."
            )
        return pack(as_type(number))  # type: ignore[no-any-return]

    return packed_integer


def scalar_text(kind: str, value: object, names: Sequence[tuple[str, int]] = ()) -> str:
    """Return a packed value as Reports show it: an enum by name; ``16`` and ``"0x10"`` alike."""
    if kind in _FLOATS:
        number = float(value)  # type: ignore[arg-type]
        text = repr(number) if kind == "f64" else float32_text(number)
        return text.removesuffix(".0")
    values = dict(names)
    whole = values[value] if isinstance(value, str) and value in values else to_integer(value)
    if values:
        return next((name for name, known in names if known == whole), str(whole))
    return str(bool(whole)).lower() if kind == "bool" else str(whole)


def to_float(value: object) -> float:
    """Return a number as a float. Text is infinite only if it is ``inf``."""
    number = float(value)  # type: ignore[arg-type]
    if math.isinf(number) and isinstance(value, str) and any(each.isdigit() for each in value):
        raise OverflowError(value)
    return number


def _refused(
    function: str,
    name: str,
    kind: str,
    value: object,
    error: Exception,
    names: Collection[str] = (),
) -> UsageError:
    where = f"{name}={value!r:.60} of {function}"
    if isinstance(error, OverflowError):
        hint = INFINITY_HINT if kind in _FLOATS else None
        return UsageError(f"{where} is out of range of its type {kind}.", hint=hint)
    needed = "a number" if kind in _FLOATS else "an integer"
    example = "true or false" if kind == "bool" else f"{needed}, such as 64"
    hint = f"a number, {', '.join(names)}" if names else example
    return UsageError(f"{where} is not {needed}; the parameter's type is {kind}.", hint=hint)


def to_integer(value: object) -> int:
    """Return an integer from an index of Python or a text in C's form: 256, 0x100, true."""
    if isinstance(value, str):
        return _WORDS[value] if value in _WORDS else int(value, 0)
    return operator.index(value)  # type: ignore[arg-type]
