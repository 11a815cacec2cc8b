# SPDX-License-Identifier: Apache-2.0
"""Content of constant arrays that stays on the board from one call to the next.

A line takes much longer to send an array than the board to compute its CRC-32. No declaration is
trusted: a function may cast ``const`` away, or write anywhere. So the board computes the CRC before
each call that uses the content again, and what differs is sent again.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from boardprof.base.errors import RpcError
from boardprof.target.arguments.passing import Block
from boardprof_protocol.codes import ErrorCode

if TYPE_CHECKING:
    from boardprof.measure.session.memory import Memory

_ALIGNMENT = 16


class Place(NamedTuple):
    """Where content is: an offset in a block, in bytes."""

    block: Block
    offset: int


class StoredConstants:
    """One block of the arena with the content of constant arrays.

    It takes half of the arena's free part at most, at its end. So all other blocks have the same
    places with and without it. `Memory.alloc` frees it if something else needs the room.
    """

    def __init__(self, memory: Memory) -> None:
        """Store nothing yet."""
        self._memory = memory
        self._block: Block | None = None
        self._end = 0
        self._offsets: dict[bytes, list[int]] = {}
        self._users = 0
        self._full_bytes: int | None = None  # held when there was no room

    def take(self, contents: Sequence[bytes], *, besides: int) -> list[Place] | None:
        """Return places of these contents, which the board has now; `give_back` ends their use.

        Each has a place of its own, even if two are equal.

        Args:
            contents: one or more.
            besides: bytes that the same call needs in the arena besides them.

        Returns:
            None if there is no room for them.
        """
        rooms = [-(-len(content) // _ALIGNMENT) * _ALIGNMENT for content in contents]
        free = self._memory.size - self._memory.held_bytes
        half = free // 2 // _ALIGNMENT * _ALIGNMENT
        size = half if self._block is None else self._block.size
        if sum(rooms) > size or besides > free - size:
            return None
        block = self._block or self._reserve(size)
        if block is None:
            return None
        self._users += 1
        try:
            return self._places(block, contents, rooms)
        except BaseException:
            self._users -= 1
            raise

    def give_back(self) -> None:
        """End the use of places from `take`."""
        self._users -= 1

    def free(self) -> bool:
        """Free the block; return whether that has made room."""
        if self._block is None or self._users:
            return False
        block, self._block = self._block, None
        self._offsets.clear()
        self._memory.release([block], now=True)
        return True

    def refuse(self) -> None:
        """Store nothing as long as the arena is as full as now."""
        self._full_bytes = self._memory.held_bytes

    def _reserve(self, size: int) -> Block | None:
        """Reserve the block at the end of the arena: above a filler, which is freed again."""
        memory = self._memory
        if not memory.has_crc or memory.held_bytes == self._full_bytes:
            return None
        filler = memory.new_block(
            (memory.size - memory.held_bytes - size) // _ALIGNMENT * _ALIGNMENT
        )
        try:
            self._block, self._end = memory.new_block(size), 0
        except RpcError as error:
            if error.code != ErrorCode.NO_MEMORY:
                raise
            self.refuse()
        finally:
            memory.release([filler], now=False)
        return self._block

    def _places(self, block: Block, contents: Sequence[bytes], rooms: Sequence[int]) -> list[Place]:
        known = self._known(contents)
        new = sum(room for room, offset in zip(rooms, known, strict=True) if offset is None)
        if new > block.size - self._end:
            self._offsets.clear()
            self._end, known = 0, [None] * len(contents)
        places = []
        for content, room, offset in zip(contents, rooms, known, strict=True):
            if offset is None:
                offset, self._end = self._end, self._end + room
                self._memory.write(block, content, offset)
                self._offsets.setdefault(content, []).append(offset)
            elif self._memory.crc(block, offset, len(content)) != zlib.crc32(content):
                self._memory.write(block, content, offset)
            places.append(Place(block, offset))
        return places

    def _known(self, contents: Sequence[bytes]) -> list[int | None]:
        """Return where each content was stored; None for what was not."""
        taken: set[int] = set()
        known = []
        for content in contents:
            free = (each for each in self._offsets.get(content, ()) if each not in taken)
            offset = next(free, None)
            if offset is not None:
                taken.add(offset)
            known.append(offset)
        return known
