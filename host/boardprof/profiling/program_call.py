# SPDX-License-Identifier: Apache-2.0
"""One call of a program: the function, its arguments, and its facts in a Report."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from boardprof.arguments.arguments import Arguments
from boardprof.arguments.array_argument import ArrayArgument
from boardprof.arguments.dtypes import element_dtype
from boardprof.arguments.signature import in_order
from boardprof.board.board import Board
from boardprof.board.call_observers import HostCall
from boardprof.board.functions import RemoteFunction
from boardprof.cfunction import Pointer, Scalar, Struct
from boardprof.errors import UsageError


@dataclass(frozen=True, eq=False)
class ProgramCall:
    """A call of a packed function with its arguments.

    Attributes:
        board: the called board.
        remote: the function.
        arguments: of the call; the arrays are the caller's and are read when the program runs.
        shapes: the arguments in TVM's form: ``float32[1, 64], float32[64]``, and scalars by value.
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
    def host_call(self) -> HostCall:
        """The call for observers."""
        return HostCall(self.board, self.remote, arguments=self.arguments)

    @property
    def hash(self) -> str:
        """16 hexadecimal digits that are the same for the same function, in any build.

        So equal layers are one row in an aggregated table, and match those of another Report.
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
            not a string.
    """
    if not isinstance(label, str | None):
        raise UsageError(f"label={label!r:.60} is not a string.", hint=f'label="{label!s:.40}"')
    remote = board.measurable(function)
    arguments = remote.bind(args, named)
    values = in_order(function, remote.signature, args, named)
    parameters = [name for name, _ in remote.signature.parameters]
    texts = [
        _shape(part, remote.signature.pointers[name]) if isinstance(part, ArrayArgument) else f"{v}"
        for name, part, v in zip(parameters, arguments.parts, values, strict=True)
    ]
    return ProgramCall(board, remote, arguments, ", ".join(texts), label)


def _shape(argument: ArrayArgument, pointer: Pointer) -> str:
    """Return ``float32[4, 4]``; for a block, its number of the pointer's elements."""
    if argument.block is None:
        return argument.shape_text.replace(",", ", ")
    element, size = pointer.element, argument.block.size
    if isinstance(element, Scalar):
        return f"{element_dtype(element).name}[{size // element.size}]"
    if isinstance(element, Struct) and element.size:
        return f"{element.name}[{size // element.size}]"
    return argument.shape_text
