# SPDX-License-Identifier: Apache-2.0
"""The calls of a program, and the placement of their arrays on its boards.

Each array is on a board once, for all calls that take it. So the next call reads there what one
call has written, without a transfer.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from boardprof.base.errors import UsageError
from boardprof.measure.board.board import Board, HostCall
from boardprof.measure.board.functions import RemoteFunction
from boardprof.measure.sampling.counted_pass import PackedCall
from boardprof.measure.sampling.placement import Placement
from boardprof.target.arguments.array_argument import ArrayArgument
from boardprof.target.arguments.binding import Arguments, check_overlap
from boardprof.target.arguments.dtypes import element_dtype
from boardprof.target.arguments.passing import Passing
from boardprof.target.arguments.signature import in_order
from boardprof.target.cfunction import Pointer, Scalar, Struct

_PROGRAM = "the program"
_BIN_HEAD = 2


@dataclass(frozen=True, eq=False)
class ProgramCall:
    """A call of a packed function with its arguments."""

    board: Board
    remote: RemoteFunction
    arguments: Arguments  # the arrays are the caller's and are read when the program runs
    shapes: str  # in TVM's form: float32[1, 64], float32[64], and scalars by value
    label: str | None

    @property
    def name(self) -> str:
        """The function's name."""
        return self.remote.info.name

    @property
    def host_call(self) -> HostCall:
        """The call for observers."""
        return HostCall(self.board, self.remote, arguments=self.arguments, label=self.label)

    @property
    def hash(self) -> str:
        """16 hexadecimal digits that are the same for the same function, in any build."""
        # So equal layers are one row in an aggregated table, and match those of another Report.
        text = f"{self.name}{self.remote.info.signature}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def program_call(
    board: Board,
    function: str,
    args: Sequence[object],
    named: Mapping[str, object],
    label: str | None,
) -> ProgramCall:
    """Bind a call's arguments; nothing is sent."""
    if not isinstance(label, str | None):
        raise UsageError(f"label={label!r:.60} is not a string.", hint=f'label="{label!s:.40}"')
    remote = board.measurable(function)
    arguments = remote.bind(args, named)
    parameters = [name for name, _ in remote.signature.parameters]
    own = {name: value for name, value in named.items() if name in parameters}
    values = in_order(function, remote.signature, args, own)
    parts = arguments.parts[: len(parameters)]  # without the place of a returned struct
    texts = [
        _shape(part, remote.signature.pointers[name]) if isinstance(part, ArrayArgument) else f"{v}"
        for name, part, v in zip(parameters, parts, values, strict=True)
    ]
    return ProgramCall(board, remote, arguments, ", ".join(texts), label)


def inputs_of(calls: Sequence[ProgramCall]) -> list[str]:
    """Return for each call a CRC-32 of what decides what it finds in its arrays; "" if nothing."""
    # These are constant arrays, and what earlier calls found that wrote to its arrays. What else is
    # in a written array at the beginning does not count: mostly it is left from the run before.
    written: dict[object, int] = {}
    found = []
    for call in calls:
        arrays = call.arguments.arrays
        crc, is_given = 0, False
        for place, array in enumerate(arrays):
            earlier = written.get(_key(array))
            if earlier is None and array.passing is Passing.IN:
                crc = zlib.crc32(b"%d " % place + array.content(), crc)
            elif earlier is not None:
                crc = zlib.crc32(b"%d %d" % (place, earlier), crc)
            is_given |= earlier is not None or array.passing is Passing.IN
        found.append(f"{crc:08x}" if is_given else "")
        for place, array in enumerate(arrays):
            if array.is_returned:
                written[_key(array)] = zlib.crc32(f"{call.name} {place}".encode(), crc)
    return found


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


# -- arrays ------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Placed:
    """The arrays, blocks and NULL of a board's calls, each once, and their spans when placed."""

    arguments: dict[object, ArrayArgument] = field(default_factory=dict)
    placement: Placement | None = None
    spans: dict[object, bytes] = field(default_factory=dict)


class ProgramArrays:
    """The placed arrays of a program's calls. Use it in a ``with``."""

    def __init__(self, calls: Sequence[ProgramCall]) -> None:
        """Find which arrays are the same; nothing is sent yet."""
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
        self._stack = ExitStack()
        self._is_fresh = False

    def __enter__(self) -> Self:
        """Reserve the blocks and send the arrays."""
        with ExitStack() as stack:
            for board in sorted(self._boards, key=id):  # so two threads do not wait for each other
                stack.enter_context(board.session.exclusive(_PROGRAM))
            for board, placed in self._boards.items():
                bound = Arguments(_PROGRAM, tuple(placed.arguments.values()), "")
                placed.placement = Placement(board.memory, bound)
                placed.placement.why_again = "the board would restore a copy before each call"
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
