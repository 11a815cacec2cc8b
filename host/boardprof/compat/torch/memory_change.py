# SPDX-License-Identifier: Apache-2.0
"""A change of a board's memory during a call, and where in the code it was made."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

__all__ = ["Action", "MemoryChange"]


class Action(IntEnum):
    """What happened to memory, by torch's numbers."""

    PREEXISTING = 1
    CREATE = 2
    DESTROY = 4


@dataclass(frozen=True)
class MemoryChange:
    """Memory was taken or given back, or existed before the trace.

    Attributes:
        time_ns: the host's clock. It lies inside the call, in proportion to the board's ticks. -1
            for what existed before the trace.
        action: what happened.
        size: bytes.
        board: whose memory it is.
        address: of the block, low 32 bits; 0 for all that existed before the trace.
        stack: where it was taken, innermost first: file and line with ``with_stack``, the call, and
            the ranges around that. () if it was given back.
    """

    time_ns: int
    action: Action
    size: int
    board: str
    address: int = 0
    stack: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """More bytes, or fewer."""
        return -self.size if self.action is Action.DESTROY else self.size
