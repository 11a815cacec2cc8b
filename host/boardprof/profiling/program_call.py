# SPDX-License-Identifier: Apache-2.0
"""One call of a program: what is called, with which arguments, and what a Report says of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from boardprof.arguments.arguments import Arguments
from boardprof.arguments.array_argument import ArrayArgument
from boardprof.arguments.signature import in_order
from boardprof.arguments.struct_dtype import element_dtype
from boardprof.board.board import Board
from boardprof.board.functions import RemoteFunction
from boardprof.cfunction import Pointer, Scalar, Struct
from boardprof.errors import UsageError
from boardprof.profiling.placed import measurable

__all__ = ["ProgramCall", "program_call"]


@dataclass(frozen=True, eq=False)
class ProgramCall:
    """A call of a packed function with its arguments.

    Attributes:
        board: that is called.
        remote: the function.
        arguments: its own; the arrays are the caller's, looked at when the program runs.
        shapes: the arguments as TVM writes them: ``float32[1, 64], float32[64]``, and scalars by
            their value.
        label: the caller's name for it, or None.
    """

    board: Board
    remote: RemoteFunction
    arguments: Arguments
    shapes: str
    label: str | None

    @property
    def name(self) -> str:
        """The function's name."""
        return self.remote.info.name

    @property
    def hash(self) -> str:
        """16 hexadecimal digits that are the same for the same function, in any build.

        So equal layers are one in an aggregated table, and are found again in another Report.
        """
        text = f"{self.name}{self.remote.info.signature}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def program_call(
    board: Board,
    function: str,
    args: Sequence[object],
    named: Mapping[str, object],
    label: str | None,
) -> ProgramCall:
    """Bind a call's arguments; nothing is sent.

    Raises:
        UnknownNameError: no such function.
        UsageError: it cannot be measured, the arguments do not fit its signature, or the label is
            no text.
    """
    if not isinstance(label, str | None):
        raise UsageError(f"label={label!r:.60} is no text.", hint=f'label="{label!s:.40}"')
    remote = measurable(board, function)
    arguments = remote.bind(args, named)
    values = in_order(function, remote.signature, args, named)
    parameters = [name for name, _ in remote.signature.parameters]
    texts = [
        _shape(part, remote.signature.pointers[name]) if isinstance(part, ArrayArgument) else f"{v}"
        for name, part, v in zip(parameters, arguments.parts, values, strict=True)
    ]
    return ProgramCall(board, remote, arguments, ", ".join(texts), label)


def _shape(argument: ArrayArgument, pointer: Pointer) -> str:
    """Return ``float32[4, 4]``; of a block how many elements the pointer finds in it."""
    if argument.block is None:
        return argument.shape_text.replace(",", ", ")
    element, size = pointer.element, argument.block.size
    if isinstance(element, Scalar):
        return f"{element_dtype(element).name}[{size // element.size}]"
    if isinstance(element, Struct) and element.size:
        return f"{element.name}[{size // element.size}]"
    return argument.shape_text
