# SPDX-License-Identifier: Apache-2.0
"""Arrays that a text describes: ``int16[64]:random(7)``, ``[3]:zeros``, ``{a=1, b=2.5}``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from boardprof.arguments.dtypes import element_dtype
from boardprof.arguments.struct_text import Tree, parse_struct_text, struct_array
from boardprof.cfunction import Pointer, Scalar, Struct
from boardprof.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_CONTENT = r"zeros|ones|random(?:\((?P<seed>\d+)\))?"

_FORMS = (
    "a number, @x.npy, @x.bin, int16[64]:zeros, :ones, :random, :random(7) or :out, NULL; for "
    "structs zeros, [3]:zeros or '{NAME=NUMBER}'"
)
_CONTENTS = ("zeros", "ones", "random", "out")
_GENERATED = r"(?P<dtype>\w*)\[(?P<shape>[\d, ]*)\](?P<rest>(?::.*)?)"
_KINDS = {"i": "int", "u": "uint", "f": "float"}
_SHORT_NAME = r"(?P<kind>[iuf])(?P<bits>8|16|32|64)"
_NAMES = frozenset(
    ["bool", "float32", "float64", *(f"{k}int{b}" for k in ("", "u") for b in (8, 16, 32, 64))]
)
_LIKE_A_NUMBER = (
    r"(u?int|float|complex|[iuf])\d*(_t)?|bool|double|char|short|long|unsigned|signed|void|half"
)
"""Matches names that look like a number type, not like a struct."""


def _is_content(text: str) -> bool:
    """Tell whether a text is ``zeros``, ``ones``, ``random`` or ``random(SEED)``."""
    return re.fullmatch(_CONTENT, text) is not None


def filled(dtype: np.dtype[Any], shape: tuple[int, ...], content: str) -> npt.NDArray[Any]:
    """Return a new array; in structs each member has the content, and padding is zeros.

    Args:
        dtype: of an element.
        shape: of the array.
        content: see `_is_content`.

    Raises:
        MemoryError, ValueError, OverflowError: the array cannot be made.
    """
    import numpy as np

    array = np.zeros(shape, dtype)
    match = re.fullmatch(_CONTENT, content)
    assert match is not None
    if content == "ones":
        _fill(array, lambda dtype, shape: np.ones(shape, dtype))
    elif content != "zeros":
        generator = np.random.Generator(np.random.PCG64(int(match["seed"] or 0)))
        if dtype.names is None and dtype.kind != "V":
            return _random(generator, dtype, shape)
        _fill(array, lambda dtype, shape: _random(generator, dtype, shape))
    return array


def _fill(array: npt.NDArray[Any], make: Any) -> None:
    """Set each number of an array to what ``make`` returns, in the order of the members."""
    if array.dtype.names is None:
        if array.dtype.kind == "V":
            raise ValueError("the types of its members are not known.")
        array[...] = make(array.dtype, array.shape)
        return
    for name in array.dtype.names:
        _fill(array[name], make)


def _random(
    generator: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> npt.NDArray[Any]:
    """Return integers over the whole range of their type, floats in [-1, 1), or bools.

    Each float is a multiple of the spacing below 1, so that doubling and shifting are exact.
    """
    import numpy as np

    if dtype.kind == "f":
        kind: Any = dtype.type
        return np.asarray(generator.random(shape, dtype=kind) * kind(2) - kind(1))
    low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    drawn = generator.integers(low, high, shape, dtype=dtype.type, endpoint=True)
    return np.asarray(drawn, dtype)


@dataclass(frozen=True, eq=False)
class ArrayText:
    """An array that is made once the type of the parameter is known.

    Attributes:
        type_name: element type: numpy's name or a struct's; "" takes the parameter's.
        shape: None for one element.
        content: one that `_is_content` accepts.
        structs: from a text with members; None for any other text.
    """

    type_name: str = ""
    shape: tuple[int, ...] | None = None
    content: str = "zeros"
    structs: list[dict[str, Tree]] | None = None

    def make(self, where: str, pointer: Pointer) -> npt.NDArray[Any]:
        """Return a new array.

        Args:
            where: the text, for messages.
            pointer: the parameter's type.

        Raises:
            UsageError: it cannot have that type.
        """
        if self.structs is not None:
            if not isinstance(pointer.element, Struct):
                raise UsageError(
                    f"{where} is a struct; the parameter's type is {pointer.text}.",
                    hint="a name, a shape and a content, such as int16[64]:zeros",
                )
            return struct_array(where, self.structs, pointer.element)
        dtype = self._dtype(where, pointer)
        if self.shape is None and not isinstance(pointer.element, Struct):
            raise UsageError(
                f"{where} does not say how many elements; the parameter's type is {pointer.text}.",
                hint=f"{where.partition('=')[0]}=[64]:{self.content}",
            )
        try:
            return filled(dtype, (1,) if self.shape is None else self.shape, self.content)
        except (MemoryError, ValueError, OverflowError) as error:
            raise UsageError(f"{where} cannot be made: {error}") from error

    def _dtype(self, where: str, pointer: Pointer) -> np.dtype[Any]:
        import numpy as np

        if self.type_name in _NAMES:
            return np.dtype(self.type_name)
        match pointer.element:
            case Struct(name=name) as struct if self.type_name in ("", name):
                return element_dtype(struct)
            case Scalar() as scalar if not self.type_name:
                return element_dtype(scalar)
        if self.type_name:
            raise _no_type(where, self.type_name, pointer)
        raise UsageError(
            f"{where} does not say which type; the parameter's is {pointer.text}.",
            hint="put the type before it, such as uint8[64]:zeros",
        )


def array_text(where: str, text: str, *, has_suffix: bool) -> ArrayText | None:
    """Read a text without its suffix; None if it does not describe an array.

    Args:
        where: the whole text, for messages.
        text: the description of the array.
        has_suffix: whether the whole text has or is a suffix: then it must be an array.

    Raises:
        UsageError: its form is not known.
    """
    if text.startswith("{") or text.startswith("[{"):
        return ArrayText(structs=parse_struct_text(where, text))
    if _is_content(text):
        return ArrayText(content=text)
    if text == "out":
        return ArrayText()
    match = re.fullmatch(_GENERATED, text)
    if match is None:
        if any(mark in text for mark in "[@:{") or has_suffix:
            raise UsageError(f"{where} is not a known form of argument.", hint=_FORMS)
        return None
    words = match["rest"].split(":")[1:] or ["zeros"]
    if len(words) > 1 and _is_content(words[0]):
        raise UsageError(f"{where} has more than one content.", hint=_FORMS)
    if not _is_content(words[0]):
        near = _proposal(words[0], _CONTENTS)
        raise UsageError(f"{where}: {words[0]!r} is not a content{near}", hint=_FORMS)
    shape = _shape(where, match["shape"])
    type_name = _long_name(match["dtype"])
    if type_name not in _NAMES and re.fullmatch(_LIKE_A_NUMBER, type_name):
        raise _no_type(where, type_name)
    made = ArrayText(type_name, shape, words[0])
    if type_name in _NAMES:
        _try(where, made)
    return made


def _try(where: str, made: ArrayText) -> None:
    """Check that there is memory for the array, before anything is built."""
    made.make(where, Pointer(None, False, 0))


def _no_type(where: str, name: str, pointer: Pointer | None = None) -> UsageError:
    of = f"; the parameter's type is {pointer.text}" if pointer is not None else ""
    return UsageError(
        f"{where}: the element type {name!r} is not known{of}{_proposal(name, sorted(_NAMES))}",
        hint="bool, int8 to int64, uint8 to uint64, float32, float64; or i8 to f64; or the "
        "parameter's own, without a name: [64]:zeros",
    )


def _proposal(name: str, known: Iterable[str]) -> str:
    nearest = UnknownNameError.nearest(name, known)
    return "." if nearest is None else f"; did you mean {nearest!r}?"


def _long_name(name: str) -> str:
    short = re.fullmatch(_SHORT_NAME, name)
    return _KINDS[short["kind"]] + short["bits"] if short else name


def _shape(where: str, shape: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in shape.split(","))
    except ValueError as error:
        raise UsageError(
            f"{where}: [{shape}] is not a shape.", hint="e.g. int16[64] or float32[16,16]"
        ) from error
