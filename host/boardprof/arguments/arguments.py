# SPDX-License-Identifier: Apache-2.0
"""A call's arguments: scalars packed, arrays looked at; nothing is sent yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from boardprof.arguments.signature import Signature, in_order, scalar_text

if TYPE_CHECKING:
    from boardprof.arguments.array_argument import ArrayArgument

__all__ = ["Arguments", "bind"]


@dataclass(frozen=True, eq=False)
class Arguments:
    """Arguments of one function, in order.

    Attributes:
        function: its name.
        parts: for each parameter the packed value, or the array that is passed for it.
        text: as Reports show them: ``x=int16[256], n=256``.
    """

    function: str
    parts: tuple[bytes | ArrayArgument, ...]
    text: str

    @property
    def arrays(self) -> tuple[ArrayArgument, ...]:
        """Those that are passed for pointers."""
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
        signature: what the function takes.
        args: values by position.
        named: values by parameter name.
        order: of bytes on the board.

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
        from boardprof.arguments.array_argument import (
            array_argument,  # numpy, only where there are arrays
        )

        array = array_argument(function, name, pointer, value, order)
        parts.append(array)
        texts.append(f"{name}={array.shape_text}")
    bound = Arguments(function, tuple(parts), ", ".join(texts))
    _check_pairs(bound)
    return bound


def _check_pairs(arguments: Arguments) -> None:
    arrays = arguments.arrays
    for index, one in enumerate(arrays):
        for other in arrays[:index]:
            from boardprof.arguments.array_overlap import check_overlap

            check_overlap(arguments.function, other, one)
