# SPDX-License-Identifier: Apache-2.0
"""Placement of a program's arrays on its boards: each once, for all calls that take it.

So the next call reads on the board what one call has written, without a transfer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from boardprof.arguments.arguments import Arguments, check_overlap
from boardprof.arguments.array_argument import ArrayArgument
from boardprof.arguments.passing import Passing
from boardprof.board.board import Board
from boardprof.errors import UsageError
from boardprof.measure.counted_pass import PackedCall
from boardprof.measure.placement import Placement
from boardprof.profiling.program_call import ProgramCall

_PROGRAM = "the program"
_BIN_HEAD = 2


@dataclass(eq=False)
class _Placed:
    """The arrays, blocks and NULL of a board's calls, each once, and their spans when placed."""

    arguments: dict[object, ArrayArgument] = field(default_factory=dict)
    placement: Placement | None = None
    spans: dict[object, bytes] = field(default_factory=dict)


class ProgramArrays:
    """The placed arrays of a program's calls. Use it in a ``with``."""

    def __init__(self, calls: Sequence[ProgramCall]) -> None:
        """Find which arrays are the same; nothing is sent yet.

        Raises:
            UsageError: arrays overlap without being the same; one that is written on a board is
                taken on another; or a board's arena is too small for all of its arrays.
        """
        self._boards: dict[Board, _Placed] = {}
        for index, call in enumerate(calls):
            placed = self._boards.setdefault(call.board, _Placed())
            for argument in call.arguments.arrays:
                named = replace(argument, name=f"{argument.name} of call {index} ({call.name})")
                key = _key(argument)
                known = placed.arguments.get(key)
                placed.arguments[key] = named if known is None else _joined(known, named)
        for placed in self._boards.values():
            _check_overlaps(placed.arguments.values())
        _check_crossing([placed.arguments for placed in self._boards.values()])
        for board, placed in self._boards.items():
            bound = Arguments(_PROGRAM, tuple(placed.arguments.values()), "")
            placed.placement = Placement(board.memory, bound)
            # from the host: the board would restore a copy before each call
            placed.placement.sends_again = True
        self._stack = ExitStack()
        self._is_fresh = False

    def __enter__(self) -> Self:
        """Reserve the blocks and send the arrays."""
        with ExitStack() as stack:
            for placed in self._boards.values():
                assert placed.placement is not None
                stack.enter_context(placed.placement)
            self._stack = stack.pop_all()
        self._pack()
        self._is_fresh = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Free the blocks."""
        self._stack.__exit__(kind, error, trace)

    def restart(self) -> None:
        """Reset written arrays to the caller's values, and those in `Out` to zeros."""
        if not self._is_fresh:
            for placed in self._boards.values():
                assert placed.placement is not None
                placed.placement.send_again()
                placed.placement.renew_outputs()
            self._pack()
        self._is_fresh = False

    def call(self, call: ProgramCall) -> PackedCall:
        """Return a call with its arguments at their places on the board."""
        spans = self._boards[call.board].spans
        parts = call.arguments.parts
        packed = [part if isinstance(part, bytes) else spans[_key(part)] for part in parts]
        return PackedCall(call.remote.info, b"".join(packed), len(packed))

    def fetch(self) -> None:
        """Read written arrays back into the caller's arrays."""
        for placed in self._boards.values():
            assert placed.placement is not None
            placed.placement.fetch()

    def _pack(self) -> None:
        """Split the spans of each placement: each is a bin 8 of msgpack."""
        for placed in self._boards.values():
            assert placed.placement is not None
            content = placed.placement.content
            at = 0
            for key in placed.arguments:
                end = at + _BIN_HEAD + content[at + 1]
                placed.spans[key] = content[at:end]
                at = end


def _key(argument: ArrayArgument) -> object:
    """Return a key that is equal for arguments with the same memory, whatever their shapes."""
    array = argument.array
    if array is None:
        return None if argument.block is None else argument.block
    if array.nbytes == 0:
        return id(array)
    address = array.__array_interface__["data"][0]
    form: object = array.nbytes if array.flags.c_contiguous else (array.shape, array.strides)
    return address, array.dtype.str, form


def _joined(first: ArrayArgument, later: ArrayArgument) -> ArrayArgument:
    """Return one argument for two with the same memory, sent and returned as both need."""
    ways = {first.passing, later.passing}
    if first.passing is Passing.OUT or ways == {Passing.IN} or first.array is None:
        return first
    passing = Passing.KEEP if Passing.KEEP in ways else Passing.IN_OUT
    written = later if later.is_returned else first  # one of two views may be read-only
    return replace(written, name=first.name, passing=passing)


def _check_overlaps(arguments: Iterable[ArrayArgument]) -> None:
    """Refuse arrays that share a part of their memory, if one of the two is written."""
    arrays = [each for each in arguments if each.array is not None and each.array.nbytes]
    bounds = sorted(((*_bounds(each), each) for each in arrays), key=lambda place: place[:2])
    for index, (_, end, one) in enumerate(bounds):
        for begin, _, other in bounds[index + 1 :]:
            if begin >= end:
                break
            check_overlap(_PROGRAM, one, other)


def _check_crossing(boards: Sequence[Mapping[object, ArrayArgument]]) -> None:
    """Refuse arrays that one board writes and another takes."""
    for board in boards:
        for key, argument in board.items():
            users = [other[key] for other in boards if key in other and argument.array is not None]
            if len(users) > 1 and any(each.is_returned for each in users):
                names = " and ".join(each.name for each in users)
                raise UsageError(
                    f"{names} are the same array on different boards, and one of them writes it.",
                    hint="profile each board's part as a program of its own",
                )


def _bounds(argument: ArrayArgument) -> tuple[int, int]:
    assert argument.array is not None
    array: npt.NDArray[Any] = argument.array
    low, high = np.lib.array_utils.byte_bounds(array)
    return low, high
