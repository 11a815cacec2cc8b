# SPDX-License-Identifier: Apache-2.0
"""A call's arguments: packed scalars, and arrays checked for overlap. Nothing is sent yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal, cast

from boardprof.arguments.passing import Passing
from boardprof.arguments.signature import Signature, in_order, scalar_text
from boardprof.errors import UsageError

if TYPE_CHECKING:  # numpy takes a while to import: only calls with arrays need it
    import numpy.typing as npt

    from boardprof.arguments.array_argument import ArrayArgument


@dataclass(frozen=True, eq=False)
class Arguments:
    """Arguments of one function, in order.

    Attributes:
        function: its name.
        parts: the packed value or the array of each parameter.
        text: as Reports show them: ``x=int16[256], n=256``.
    """

    function: str
    parts: tuple[bytes | ArrayArgument, ...]
    text: str

    @property
    def arrays(self) -> tuple[ArrayArgument, ...]:
        """The arrays that are passed as pointers."""
        return tuple(part for part in self.parts if not isinstance(part, bytes))


def bind(
    function: str,
    signature: Signature,
    args: Sequence[object],
    named: Mapping[str, object],
    order: Literal["little", "big"] = "little",
) -> Arguments:
    """Give each parameter its value.

    Args:
        function: for messages.
        signature: of the function.
        args: values by position.
        named: values by parameter name.
        order: byte order of the board.

    Raises:
        UsageError: they do not fit the signature; see `pack_arguments` and `array_argument`.
        UnknownNameError: no parameter of that name.
    """
    values = in_order(function, signature, args, named)
    parts: list[bytes | ArrayArgument] = []
    texts: list[str] = []
    parameters = zip(signature.parameters, signature.packers, values, strict=True)
    for (name, kind), pack, value in parameters:
        pointer = signature.pointers.get(name)
        if pointer is None:
            parts.append(pack(function, value))
            texts.append(f"{name}={scalar_text(kind, value)}")
            continue
        from boardprof.arguments.array_argument import array_argument

        array = array_argument(function, name, pointer, value, order)
        parts.append(array)
        texts.append(f"{name}={array.shape_text}")
    bound = Arguments(function, tuple(parts), ", ".join(texts))
    for one, other in combinations(bound.arrays, 2):
        check_overlap(function, one, other)
    return bound


def is_same_memory(one: ArrayArgument, other: ArrayArgument) -> bool:
    """Tell whether two arguments are the same array, so that C gets one pointer twice."""
    a, b = one.array, other.array
    if a is None or b is None:
        return False
    return a is b or (
        a.nbytes > 0
        and a.__array_interface__["data"][0] == b.__array_interface__["data"][0]
        and (a.strides, a.shape, a.dtype) == (b.strides, b.shape, b.dtype)
    )


def check_overlap(function: str, one: ArrayArgument, other: ArrayArgument) -> None:
    """Refuse two arrays that share memory, if one of them is written.

    The same array may be passed twice, unless it is passed in two contradicting ways.

    Raises:
        UsageError: the arrays overlap, or are passed in different ways.
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


def _shares(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> bool:
    import numpy as np

    if not np.may_share_memory(a, b):
        return False
    try:
        # numpy's annotations know only two values. This one is the maximum number of candidates.
        return bool(np.shares_memory(a, b, max_work=cast("Any", 1_000_000)))
    except np.exceptions.TooHardError:
        return True
