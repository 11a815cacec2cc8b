# SPDX-License-Identifier: Apache-2.0
"""The place of each array of a call in its block of the board's arena."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from boardprof.base.errors import DeviceBoundsError
from boardprof.target.arguments.binding import is_same_memory
from boardprof.target.arguments.passing import Block, Passing

if TYPE_CHECKING:
    from boardprof.target.arguments.array_argument import ArrayArgument


FENCE = bytes.fromhex("9e3779b97f4a7c15f39cc0605cedc834")
"""Bytes before and after an array that a function may write; as many as an alignment."""

_ALIGNMENT = 16
"""Of each array, in bytes; blocks have the same (SPEC.md 5.4)."""

_RANKS = {Passing.IN: 0, Passing.KEEP: 1, Passing.IN_OUT: 2, Passing.OUT: 3}


@dataclass(eq=False)
class Slot:
    """Memory of the caller that has one place in the block, even if several arguments pass it."""

    argument: ArrayArgument  # the first that passes it
    others: list[ArrayArgument] = field(default_factory=list)
    offset: int = 0  # in its block, in bytes
    copy: Block | None = None  # what it is put back from; None if the board does not put it back
    stored: Block | None = None  # the block of stored constants, if it is there

    @property
    def is_out(self) -> bool:
        """Whether it is in the block of arrays that are only returned."""
        return self.rank == _RANKS[Passing.OUT]

    @property
    def arguments(self) -> list[ArrayArgument]:
        """All arguments with this memory, first one that is put back: once is enough."""
        both = [self.argument, *self.others]
        return sorted(both, key=lambda array: array.passing is not Passing.IN_OUT)

    @property
    def is_constant(self) -> bool:
        """Whether it is only sent, and has no pointers."""
        return self.rank == _RANKS[Passing.IN] and not self.argument.pointer_offsets

    @property
    def is_put_back(self) -> bool:
        """Whether each call of a measurement begins with the host's values."""
        return self.rank == _RANKS[Passing.IN_OUT]

    @property
    def room(self) -> int:
        """Bytes that it takes, at least 16: even an empty array has a place."""
        return max(1, -(-self.argument.size // _ALIGNMENT)) * _ALIGNMENT

    @property
    def end(self) -> int:
        """The offset after its last byte."""
        return self.offset + self.argument.size

    @property
    def is_written(self) -> bool:
        """Whether the function may write it."""
        return self.rank > _RANKS[Passing.IN]

    @property
    def rank(self) -> int:
        """Order in the block: only sent, kept, put back. Those only returned have another block."""
        # So the bytes to send, to send again, and to read back are one piece each.
        return max(_RANKS[each.passing] for each in [self.argument, *self.others])


def slots_of(arrays: Iterable[ArrayArgument]) -> list[Slot]:
    """Give each array a slot, and equal arrays the same slot; sorted by rank."""
    slots: list[Slot] = []
    for array in arrays:
        if array.array is None:
            continue
        same = next((slot for slot in slots if is_same_memory(slot.argument, array)), None)
        if same is None:
            slots.append(Slot(array))
        else:
            same.others.append(array)
    return sorted(slots, key=lambda slot: slot.rank)


def lay_out(slots: Sequence[Slot], fence: int = len(FENCE)) -> int:
    """Give each of ``slots``, sorted by rank, its offset in the block; return the block's size."""
    # ``fence`` bytes, a multiple of 16 or 0, are before and after each slot that is written, and
    # between others that would touch: a pointer to the end of one is not one to the next.
    end, last_end = 0, -1
    for slot in slots:
        slot.offset = end + fence * (slot.is_written or end == last_end)
        end, last_end = slot.offset + slot.room, slot.end
    return end + fence * any(slot.is_written for slot in slots)


@dataclass(frozen=True)
class Fence:
    """The fence between two slots that are written, or at the end of a block."""

    offset: int
    content: bytes  # the bytes that must be found there
    below: Slot | None  # the slot that ends where it begins
    above: Slot | None  # the slot that begins where it ends

    def check(self, function: str, found: bytes) -> None:
        """Check the bytes that are there after a call of ``function``."""
        # The array below has been overrun, unless only the end of the fence has changed.
        changed = [at for at, byte in enumerate(self.content) if byte != found[at]]
        if not changed:
            return
        is_near_above = changed[-1] == len(self.content) - 1 and changed[0] > 0
        slot = self.above if self.below is None or is_near_above else self.below
        slot = slot or self.below
        assert slot is not None, "a fence has a neighbour"
        raise _out_of_bounds(function, slot.argument, self.offset + changed[0] - slot.offset)


def fences(slots: Sequence[Slot], size: int) -> list[Fence]:
    """Return the fences between slots that are written."""
    written = [slot for slot in slots if slot.is_written]
    if not written:
        return []
    first = written[0].offset - len(FENCE)
    begins, ends = [first, *(slot.end for slot in written)], [*(s.offset for s in written), size]
    return [
        Fence(begin, _pattern(begin, end), below, above)
        for begin, end, below, above in zip(
            begins, ends, [None, *written], [*written, None], strict=True
        )
    ]


def _out_of_bounds(function: str, array: ArrayArgument, offset: int) -> DeviceBoundsError:
    assert array.wire is not None
    index, size = offset // array.wire.itemsize, array.size
    fields = array.struct.fields if array.struct is not None else ()
    tail = fields[-1].name if fields and fields[-1].shape[:1] == (0,) else None
    has = f"{size // array.wire.itemsize:,} elements ({size:,} bytes)"
    return DeviceBoundsError(
        f"{function} wrote outside of {array.name}, which has {has}: "
        f"{array.name}[{index:,}] was changed, at byte {offset:,}.",
        array=array.name,
        offset=offset,
        hint=f"check that {function} gets the right length of {array.name}"
        if tail is None
        else f"give the elements of its flexible array, too, such as {tail}=[64]:zeros",
    )


def _pattern(begin: int, end: int) -> bytes:
    first = begin % len(FENCE)
    return (FENCE * ((first + end - begin) // len(FENCE) + 1))[first : first + end - begin]
