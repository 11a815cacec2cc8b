# SPDX-License-Identifier: Apache-2.0
"""How an array is passed for a pointer: `Out`, `Keep`, or a `Block` that stays on the board."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any


class Passing(Enum):
    """The direction of an array."""

    IN = "in"
    IN_OUT = "in and out, put back before each sample of a measurement"
    OUT = "out"
    KEEP = "in and out, kept from call to call"
    STAYS = "a block that stays on the board"
    NULL = "NULL"


@dataclass(frozen=True, eq=False)
class Out:
    """An array that is only written: it starts as zeros, is not sent, and comes back.

    Attributes:
        array: a numpy array, or another value for ``T*``; its content is replaced.
    """

    array: Any


@dataclass(frozen=True, eq=False)
class Keep:
    """An array that is sent once, and not restored between the calls of a measurement.

    Each call sees what the previous call has written, such as the state of a filter.

    Attributes:
        array: a numpy array, or another value for ``T*``.
    """

    array: Any


@dataclass(frozen=True)
class Block:
    """A block of the arena; ``handle`` is valid until `Memory.free` or the session's end."""

    handle: int
    size: int
