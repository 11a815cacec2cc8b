# SPDX-License-Identifier: Apache-2.0
"""Arrays that a text describes: ``int16[64]:random(7)``, ``[3]:zeros``, ``{a=1, b=2.5}``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from boardprof.arguments.content import filled, is_content
from boardprof.arguments.struct_text import Tree, parse_struct_text, struct_array
from boardprof.cfunction import Pointer, Scalar, Struct
from boardprof.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["ArrayText", "array_text"]

_FORMS = (
    "a number, @x.npy, @x.bin, int16[64]:zeros, :ones, :random, :random(7) or :out, NULL; for "
    "structs zeros, [3]:zeros or '{NAME=NUMBER}'"
)
_CONTENTS = ("zeros", "ones", "random", "out")
_GENERATED = re.compile(r"(?P<dtype>\w*)\[(?P<shape>[\d, ]*)\](?P<rest>(?::.*)?)")
_KINDS = {"i": "int", "u": "uint", "f": "float"}
_SHORT_NAME = re.compile(r"(?P<kind>[iuf])(?P<bits>8|16|32|64)")
_NAMES = frozenset(
    ["bool", "float32", "float64", *(f"{k}int{b}" for k in ("", "u") for b in (8, 16, 32, 64))]
)
_LIKE_A_NUMBER = re.compile(
    r"(u?int|float|complex|[iuf])\d*(_t)?|bool|double|char|short|long|unsigned|signed|void|half"
)
"""What is no struct's name, but an element type that there is not."""


@dataclass(frozen=True, eq=False)
class ArrayText:
    """An array that is made when the type of the parameter is known.

    Attributes:
        type_name: of an element: one of numpy's, or a struct's; "": that of the parameter.
        shape: None: one element.
        content: as `is_content` knows it.
        structs: from a text with their members; None: it is not such a text.
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
            UsageError: there is none of that type.
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
                f"{where} does not say how many; the parameter's type is {pointer.text}.",
                hint=f"{where.partition('=')[0]}=[64]:{self.content}",
            )
        try:
            return filled(dtype, (1,) if self.shape is None else self.shape, self.content)
        except (MemoryError, ValueError, OverflowError) as error:
            raise UsageError(f"{where} cannot be made: {error}") from error

    def _dtype(self, where: str, pointer: Pointer) -> np.dtype[Any]:
        import numpy as np

        from boardprof.arguments.struct_dtype import element_dtype

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
            f"{where} does not say of what type; the parameter's is {pointer.text}.",
            hint="put the type before it, such as uint8[64]:zeros",
        )


def array_text(where: str, text: str, *, has_suffix: bool) -> ArrayText | None:
    """Read a text without its suffix; None: it describes no array.

    Args:
        where: the whole, for messages.
        text: what describes the array.
        has_suffix: whether there was one, or is nothing else: then it must be an array.

    Raises:
        UsageError: it has no form that is known.
    """
    if text.startswith("{") or text.startswith("[{"):
        return ArrayText(structs=parse_struct_text(where, text))
    if is_content(text):
        return ArrayText(content=text)
    if text == "out":
        return ArrayText()
    match = _GENERATED.fullmatch(text)
    if match is None:
        if any(mark in text for mark in "[@:{") or has_suffix:
            raise UsageError(f"{where} is no argument that is known.", hint=_FORMS)
        return None
    words = match["rest"].split(":")[1:] or ["zeros"]
    if len(words) > 1 and is_content(words[0]):
        raise UsageError(f"{where} says more than one content.", hint=_FORMS)
    if not is_content(words[0]):
        near = _proposal(words[0], _CONTENTS)
        raise UsageError(f"{where}: {words[0]!r} is no content{near}", hint=_FORMS)
    shape = _shape(where, match["shape"])
    type_name = _long_name(match["dtype"])
    if type_name not in _NAMES and _LIKE_A_NUMBER.fullmatch(type_name):
        raise _no_type(where, type_name)
    made = ArrayText(type_name, shape, words[0])
    if type_name in _NAMES:
        _try(where, made)
    return made


def _try(where: str, made: ArrayText) -> None:
    """See before anything is built whether there is memory for the array."""
    made.make(where, Pointer(None, False, 0))


def _no_type(where: str, name: str, pointer: Pointer | None = None) -> UsageError:
    of = f"; the parameter's type is {pointer.text}" if pointer is not None else ""
    return UsageError(
        f"{where}: there is no element type {name!r}{of}{_proposal(name, sorted(_NAMES))}",
        hint="bool, int8 to int64, uint8 to uint64, float32, float64; or i8 to f64; or that of the "
        "parameter, without a name: [64]:zeros",
    )


def _proposal(name: str, known: Iterable[str]) -> str:
    nearest = UnknownNameError.nearest(name, known)
    return "." if nearest is None else f"; did you mean {nearest!r}?"


def _long_name(name: str) -> str:
    short = _SHORT_NAME.fullmatch(name)
    return _KINDS[short["kind"]] + short["bits"] if short else name


def _shape(where: str, shape: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in shape.split(","))
    except ValueError as error:
        raise UsageError(
            f"{where}: [{shape}] is no shape.", hint="e.g. int16[64] or float32[16,16]"
        ) from error
