# SPDX-License-Identifier: Apache-2.0
"""The board's arena: blocks of its memory, filled and read through handles, in chunks."""

from __future__ import annotations

from dataclasses import dataclass

import msgpack

from boardprof.dictionary import Dictionary
from boardprof.errors import FrameError, UsageError
from boardprof.session import Session, Welcome
from boardprof_protocol.frame import body_capacity

__all__ = ["Block", "Memory"]

_CALL_OVERHEAD = 24
"""Bytes of a body around the data: array, ids, three numbers of five bytes, the bin's head."""


@dataclass(frozen=True)
class Block:
    """A block of the arena; ``handle`` is good until `Memory.free` or the session's end."""

    handle: int
    size: int


class Memory:
    """Blocks of the board's arena."""

    def __init__(self, session: Session, welcome: Welcome, dictionary: Dictionary) -> None:
        """Offer the arena of an open session; `size` is 0 where the agent has none."""
        self._session = session
        self._dictionary = dictionary
        self._write_chunk = body_capacity(welcome.mtu_rx) - _CALL_OVERHEAD
        self._read_chunk = body_capacity(welcome.mtu_tx) - _CALL_OVERHEAD
        self.size = dictionary.arena_bytes

    def alloc(self, size: int) -> Block:
        """Reserve ``size`` bytes, 1 or more, aligned to 8.

        Raises:
            UsageError: the board's agent has no arena, or it is smaller than that.
            RpcError: what is left of it is.
        """
        if not 0 < size <= self.size:
            raise UsageError(
                f"A block of {size} bytes does not fit: the board's arena has {self.size} bytes."
            )
        handle = self._call("bp.alloc", size)
        if not isinstance(handle, int):
            raise FrameError(f"bp.alloc returned {handle!r}, not a handle.")
        return Block(handle, size)

    def free(self, block: Block) -> None:
        """Give a block back; its handle is refused from now on."""
        self._call("bp.free", block.handle)

    def write(self, block: Block, data: bytes, offset: int = 0) -> None:
        """Write ``data`` at ``offset``; a write past the end is refused by the board."""
        for begin in range(0, len(data), self._write_chunk):
            chunk = data[begin : begin + self._write_chunk]
            self._call("bp.write", block.handle, offset + begin, chunk)

    def read(self, block: Block, size: int | None = None, offset: int = 0) -> bytes:
        """Read ``size`` bytes (all that follow when None) from ``offset``."""
        size = block.size - offset if size is None else size
        chunks = []
        for begin in range(0, size, self._read_chunk):
            length = min(self._read_chunk, size - begin)
            chunk = self._call("bp.read", block.handle, offset + begin, length)
            if not isinstance(chunk, bytes) or len(chunk) != length:
                raise FrameError(f"bp.read returned {chunk!r:.60}, not {length} bytes.")
            chunks.append(chunk)
        return b"".join(chunks)

    def _call(self, name: str, *values: int | bytes) -> object:
        function = self._dictionary.function(name)
        arguments = b"".join(bytes(msgpack.packb(value)) for value in values)
        return self._session.call(function.id, arguments, len(values), name=name).value
