# SPDX-License-Identifier: Apache-2.0
"""The numpy type of a struct's memory, as the board's compiler lays it out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal, cast

import numpy as np

from boardprof.cfunction import CHAR, Field, Scalar, Struct

__all__ = ["element_dtype", "fits", "struct_dtype"]

ByteOrder = Literal["little", "big"]
_KINDS = {"i": "i", "u": "u", "f": "f", "b": "?", "c": "u"}  # c: char


def fits(dtype: np.dtype[Any], element: Scalar) -> bool:
    """Tell whether an array of ``dtype`` can be passed for a pointer to ``element``.

    Bytes of text (``S``) are good for every integer of one byte, and for ``char`` both int8 and
    uint8 are.
    """
    wanted = element_dtype(element)
    kinds = {wanted.kind}
    if element.size == 1 and wanted.kind != "b":
        kinds |= {"S", "i", "u"} if element == CHAR else {"S"}
    return dtype.kind in kinds and (dtype.kind == "S" or dtype.itemsize == wanted.itemsize)


def element_dtype(element: Scalar | Struct, order: ByteOrder = "little") -> np.dtype[Any]:
    """Return the numpy type of what a pointer points to or an array is made of."""
    if isinstance(element, Struct):
        return struct_dtype(element, order)
    kind = _KINDS[element.text[0]]
    text = kind if kind == "?" else f"{kind}{element.size}"
    return np.dtype(text).newbyteorder(order)


def struct_dtype(struct: Struct, order: ByteOrder = "little") -> np.dtype[Any]:
    """Return the numpy type with a struct's offsets and size, padding included.

    The members of anonymous structs and unions stand among those of what holds
    them, as in C. A struct without fields is plain bytes (``V24``), and so is one that has two of
    the same name, as a class may whose base has a member of that name as well.

    Args:
        struct: a struct or union; the members of a union overlap.
        order: of the bytes of a number on the board.
    """
    fields = list(_named(struct))
    if not fields or len({field.name for field in fields}) < len(fields):
        return np.dtype(f"V{struct.size}")
    # Cast, because numpy's own annotations of this form ask for more than it needs.
    layout: Any = {
        "names": [field.name for field in fields],
        "formats": [(element_dtype(field.type, order), field.shape) for field in fields],
        "offsets": [field.offset for field in fields],
        "itemsize": struct.size,
    }
    return cast("np.dtype[Any]", np.dtype(layout))


def _named(struct: Struct) -> Iterator[Field]:
    """Yield the members that C can name; what an anonymous one without fields holds has none."""
    for field in struct.fields:
        if field.name:
            yield field
        elif isinstance(field.type, Struct):
            for inner in _named(field.type):
                yield replace(inner, offset=field.offset + inner.offset)
