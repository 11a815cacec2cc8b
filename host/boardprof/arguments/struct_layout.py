# SPDX-License-Identifier: Apache-2.0
"""Whether the members of a numpy type stand where a struct's do, and are of their types."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from boardprof.arguments.struct_dtype import fits
from boardprof.cfunction import Scalar, Struct

__all__ = ["misplaced"]


@lru_cache(maxsize=64)
def misplaced(dtype: np.dtype[Any], struct: Struct) -> str | None:
    """Say what in a structured type is not as in a struct of the same size; None: nothing.

    Names and byte order may differ: an array's bytes are turned as the board has them. Plain bytes
    (``V4``) stand for any member, and what stands in the padding for itself. Of members that
    overlap one is enough.

    Args:
        dtype: with fields.
        struct: whose fields are known.
    """
    wanted: dict[int, list[Scalar]] = defaultdict(list)
    due = bytearray(struct.size)  # 1: a byte of a member, of which the type is known
    for offset, scalar in _members(struct):
        wanted[offset].append(scalar)
        due[offset : offset + scalar.size] = b"\1" * scalar.size
    there = bytearray(struct.size)
    for name, offset, leaf in _leaves(dtype, ""):
        end = offset + leaf.itemsize
        there[offset:end] = b"\1" * leaf.itemsize
        if leaf.kind == "V" or not any(due[offset:end]):
            continue
        if not any(fits(leaf, scalar) for scalar in wanted[offset]):
            has = " or ".join(scalar.text for scalar in wanted[offset]) or "no member"
            return f"{name} is {leaf.name} at byte {offset}, where {struct.name} has {has}"
    for offset, scalars in wanted.items():
        if not all(there[offset : offset + min(scalar.size for scalar in scalars)]):
            return f"nothing is at byte {offset}, where {struct.name} has {scalars[0].text}"
    return None


def _members(struct: Struct, begin: int = 0) -> Iterator[tuple[int, Scalar]]:
    """Yield the offset and type of each number; of a struct that is passed as bytes none."""
    for field in struct.fields:
        for index in range(math.prod(field.shape)):
            offset = begin + field.offset + index * field.type.size
            if isinstance(field.type, Scalar):
                yield offset, field.type
            else:
                yield from _members(field.type, offset)


def _leaves(
    dtype: np.dtype[Any], name: str, begin: int = 0
) -> Iterator[tuple[str, int, np.dtype[Any]]]:
    """Yield name, offset and type of each number; a text is one of bytes."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        for index in range(math.prod(shape)):
            yield from _leaves(base, f"{name}[{index}]", begin + index * base.itemsize)
    elif dtype.names is not None and dtype.fields is not None:
        for field in dtype.names:
            inner, offset = dtype.fields[field][:2]
            yield from _leaves(inner, f"{name}.{field}" if name else field, begin + offset)
    elif dtype.kind == "S":
        for index in range(dtype.itemsize):
            yield name, begin + index, np.dtype("S1")
    else:
        yield name, begin, dtype
