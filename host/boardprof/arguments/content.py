# SPDX-License-Identifier: Apache-2.0
"""Contents that a text can name: zeros, ones, random numbers; the same on every machine."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["filled", "is_content"]

_CONTENT = re.compile(r"zeros|ones|random(?:\((?P<seed>\d+)\))?")


def is_content(text: str) -> bool:
    """Tell whether a text is ``zeros``, ``ones``, ``random`` or ``random(SEED)``."""
    return _CONTENT.fullmatch(text) is not None


def filled(dtype: np.dtype[Any], shape: tuple[int, ...], content: str) -> npt.NDArray[Any]:
    """Return a new array; of structs, each member has the content, the padding is zeros.

    Args:
        dtype: of an element.
        shape: of the array.
        content: see `is_content`.

    Raises:
        MemoryError, ValueError, OverflowError: there can be no such array.
    """
    import numpy as np

    array = np.zeros(shape, dtype)
    match = _CONTENT.fullmatch(content)
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
    """Give each number of an array, in the order of the members, what ``make`` returns."""
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
    """Return integers over the whole range of their type, floats from -1 up to below 1, or bools.

    Each float is a multiple of the spacing below 1, so that doubling and shifting is exact.
    """
    import numpy as np

    if dtype.kind == "f":
        kind: Any = dtype.type
        return np.asarray(generator.random(shape, dtype=kind) * kind(2) - kind(1))
    low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    drawn = generator.integers(low, high, shape, dtype=dtype.type, endpoint=True)
    return np.asarray(drawn, dtype)
