# SPDX-License-Identifier: Apache-2.0
"""How an array is passed for a pointer: `Out`, `Keep`, or a `Block` that stays on the board."""

from __future__ import annotations

import copy
import struct
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

_PLACE = struct.Struct("<II")


class Passing(Enum):
    """The direction of an array."""

    IN = "in"
    IN_OUT = "in and out, put back before each sample of a measurement"
    OUT = "out"
    KEEP = "in and out, kept from call to call"
    STAYS = "memory that stays on the board"
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
class Same:
    """The array of another argument, as ``&dst`` on the command line names it."""

    name: str

    @property
    def text(self) -> str:
        """As on the command line."""
        return f"&{self.name}"


@dataclass(frozen=True)
class Block:
    """A block of the arena; ``handle`` is valid until `Memory.free` or the session's end."""

    handle: int
    size: int


@dataclass(frozen=True)
class BoardPointer:
    """A pointer that a function returned or stored. No address: only the board knows that.

    Pass it for a pointer of the same board and session. ``board.memory.text_at`` reads a text.

    Attributes:
        text: as Reports show it: ``x+6`` (bytes), ``table+8`` for a symbol of the image, else
            ``pointer 3``.
        token: its number on the wire; None if it points into the arena.
        block: the block that it points into; None if that was an array of the call, which is gone,
            or if it does not point into the arena.
        offset: in bytes; from the beginning of the block or of the array.
        origin: the caller's array or dict, if it points to the beginning of one; else None.
    """

    text: str
    token: int | None = None
    block: Block | None = None
    offset: int = 0
    origin: object = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        """Return the text."""
        return self.text


def arena_reference(block: Block, offset: int) -> bytes:
    """Return a place in the arena as on the wire (SPEC.md 5.9)."""
    return _PLACE.pack(block.handle, offset)


def place_text(name: str, offset: int) -> str:
    """Return how a place is shown: ``x``, ``x+6``, in bytes."""
    return f"{name}+{offset}" if offset else name


def copied_arguments(
    args: Sequence[object], named: Mapping[str, object] | None
) -> tuple[tuple[object, ...], dict[str, object]]:
    """Return arguments whose arrays are copies. An array that is given twice stays one."""
    import numpy as np  # here: it takes a while, and only calls with arrays need it

    known: dict[int, object] = {}

    def fresh(value: object) -> object:
        if isinstance(value, Out | Keep):
            return type(value)(fresh(value.array))
        if isinstance(value, memoryview) and not value.readonly:
            value = np.asarray(value)
        if isinstance(value, np.ndarray | bytearray | array):
            return known.setdefault(id(value), copy.copy(value))
        if isinstance(value, dict):
            if id(value) not in known:
                made: dict[str, object] = {}
                known[id(value)] = made  # before its members: one of them may be itself
                made.update((name, fresh(each)) for name, each in value.items())
            return known[id(value)]
        if isinstance(value, list):
            return [fresh(each) for each in value]
        return value

    return tuple(map(fresh, args)), {name: fresh(each) for name, each in (named or {}).items()}
