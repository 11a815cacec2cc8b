# SPDX-License-Identifier: Apache-2.0
"""Arrays that share memory: the same one twice is one block on the board; overlaps are refused."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt

from boardprof.arguments.array_argument import ArrayArgument
from boardprof.arguments.passing import Passing
from boardprof.errors import UsageError

__all__ = ["check_overlap", "is_same_memory"]

Array = npt.NDArray[Any]


def is_same_memory(one: ArrayArgument, other: ArrayArgument) -> bool:
    """Tell whether two arguments are the very same array, which C is to see as one."""
    a, b = one.array, other.array
    if a is None or b is None:
        return False
    return a is b or (
        a.nbytes > 0
        and a.__array_interface__["data"][0] == b.__array_interface__["data"][0]
        and (a.strides, a.shape, a.dtype) == (b.strides, b.shape, b.dtype)
    )


def check_overlap(function: str, one: ArrayArgument, other: ArrayArgument) -> None:
    """Refuse two arrays of which one is written and the other shares some of its memory.

    Also the same array passed in two ways that contradict each other.

    Raises:
        UsageError: they are such a pair.
    """
    if one.array is None or other.array is None:
        return
    both = f"{one.name} and {other.name} of {function}"
    if is_same_memory(one, other):
        ways = {each.passing for each in (one, other)} - {Passing.IN}
        if len(ways) > 1 or (ways == {Passing.OUT} and Passing.IN in (one.passing, other.passing)):
            raise UsageError(
                f"{both} are the same array, passed in different ways.",
                hint="wrap both in the same way, or neither",
            )
    elif (one.is_returned or other.is_returned) and _shares(one.array, other.array):
        raise UsageError(
            f"{both} overlap in memory, and one of them is written.",
            hint=f"pass the same array for both, or {other.name} = {other.name}.copy()",
        )


def _shares(a: Array, b: Array) -> bool:
    if not np.may_share_memory(a, b):
        return False
    try:
        # numpy's own annotations know of two values only; this is the most candidates to look at.
        return bool(np.shares_memory(a, b, max_work=cast("Any", 1_000_000)))
    except np.exceptions.TooHardError:
        return True
