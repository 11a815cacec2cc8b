# SPDX-License-Identifier: Apache-2.0
"""Where each array of a call stands in its block of the board's arena."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from boardprof.arguments.block import Block
from boardprof.arguments.passing import Passing

if TYPE_CHECKING:
    from boardprof.arguments.array_argument import ArrayArgument

__all__ = ["Slot", "lay_out", "slots_of"]

_ALIGNMENT = 16
"""Of each array: as a block's own (SPEC.md 5.4)."""

_RANKS = {Passing.IN: 0, Passing.KEEP: 1, Passing.IN_OUT: 2, Passing.OUT: 3}


@dataclass(eq=False)
class Slot:
    """Memory of the caller's that stands once in the block, whichever arguments it is passed as."""

    argument: ArrayArgument
    others: list[ArrayArgument] = field(default_factory=list)
    offset: int = 0
    copy: Block | None = None

    @property
    def is_out(self) -> bool:
        """Whether it is in the block of those that are only returned."""
        return self.rank == _RANKS[Passing.OUT]

    @property
    def arguments(self) -> list[ArrayArgument]:
        """Those that are this memory; one that is put back comes first, since once is enough."""
        both = [self.argument, *self.others]
        return sorted(both, key=lambda array: array.passing is not Passing.IN_OUT)

    @property
    def is_put_back(self) -> bool:
        """Whether each call of a measurement begins with the host's values."""
        return self.rank == _RANKS[Passing.IN_OUT]

    @property
    def room(self) -> int:
        """Bytes that it takes, 16 at least: an empty array has a place, too."""
        return max(1, -(-self.argument.size // _ALIGNMENT)) * _ALIGNMENT

    @property
    def rank(self) -> int:
        """Order: only sent, kept, put back; and in a block of their own those only returned.

        So what is sent, what is sent again and what comes back is one piece each.
        """
        return max(_RANKS[each.passing] for each in [self.argument, *self.others])


def slots_of(arrays: Iterable[ArrayArgument]) -> list[Slot]:
    """Give each array a slot, the same array the same one; sorted by rank."""
    slots: list[Slot] = []
    for array in arrays:
        if array.array is None:
            continue
        from boardprof.arguments.array_overlap import is_same_memory

        same = next((slot for slot in slots if is_same_memory(slot.argument, array)), None)
        if same is None:
            slots.append(Slot(array))
        else:
            same.others.append(array)
    return sorted(slots, key=lambda slot: slot.rank)


def lay_out(slots: Iterable[Slot]) -> int:
    """Give each its offset in their block; return the block's size."""
    end = 0
    for slot in slots:
        slot.offset, end = end, end + slot.room
    return end
