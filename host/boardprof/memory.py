# SPDX-License-Identifier: Apache-2.0
"""The board's arena: blocks of its memory, filled and read through handles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgpack

from boardprof.bulk import Channels
from boardprof.dictionary import Dictionary
from boardprof.errors import FrameError, UsageError
from boardprof.session import Session, Welcome
from boardprof_protocol.frame import body_capacity

__all__ = ["Block", "Memory"]

_FEW_FRAMES = 3
"""Up to so many calls of bp.read or bp.write are faster than a channel, with its three calls."""

_CALL_OVERHEAD = 24
"""Bytes of a body around the data: array, ids, three numbers of five bytes, the bin's head."""


@dataclass(frozen=True)
class Block:
    """A block of the arena; ``handle`` is good until `Memory.free` or the session's end."""

    handle: int
    size: int


class Memory:
    """Blocks of the board's arena."""

    def __init__(
        self, session: Session, welcome: Welcome, dictionary: Dictionary, channels: Channels
    ) -> None:
        """Offer the arena of an open session; `size` is 0 where the agent has none."""
        self._session = session
        self._channels = channels
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
        if not isinstance(size, int) or not 0 < size <= self.size:
            raise UsageError(
                f"A block of {size} bytes does not fit: the board's arena has {self.size} bytes.",
                hint="its size is the option `arena` of [build] config in the board's board.toml",
            )
        handle = self._call("bp.alloc", size)
        if not isinstance(handle, int):
            raise FrameError(f"bp.alloc returned {handle!r}, not a handle.")
        return Block(handle, size)

    def free(self, block: Block) -> None:
        """Give a block back; its handle is refused from now on."""
        self._call("bp.free", block.handle)

    def write(
        self,
        block: Block,
        data: bytes,
        offset: int = 0,
        *,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Write ``data`` at ``offset``; a write past the end is refused by the board.

        Args:
            block: from `alloc`.
            data: what to write.
            offset: where, in bytes from the block's beginning.
            on_progress: called with (bytes done, bytes in all).

        Raises:
            UsageError: the offset is below 0.
            RpcError: not all of it is within the block, or the handle is void.
        """
        if offset < 0:
            raise UsageError(
                f"There is no offset {offset} in a block of {block.size} bytes.",
                hint=f"write from offset 0 to {block.size}",
            )
        if self._is_bulk("bp.upload", len(data), self._write_chunk):
            self._channels.upload(block.handle, offset, bytes(data), on_progress)
            return
        for begin in range(0, len(data), self._write_chunk):
            chunk = bytes(data[begin : begin + self._write_chunk])
            self._call("bp.write", block.handle, offset + begin, chunk)
            if on_progress is not None:
                on_progress(begin + len(chunk), len(data))

    def _is_bulk(self, opener: str, size: int, chunk: int) -> bool:
        return size > _FEW_FRAMES * chunk and self._channels.offers(opener)

    def read(
        self,
        block: Block,
        size: int | None = None,
        offset: int = 0,
        *,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> bytes:
        """Read ``size`` bytes (all that follow when None) from ``offset``.

        ``on_progress`` is called with (bytes done, bytes in all).

        Raises:
            UsageError: the offset or the size is none, or the offset is past the block's end.
            RpcError: not all of it is within the block, or the handle is void.
        """
        size = block.size - offset if size is None else size
        if offset < 0 or size < 0:
            raise UsageError(
                f"There are no {size} bytes from offset {offset} of a block of {block.size} bytes.",
                hint=f"read from offset 0 to {block.size}, and 0 bytes or more",
            )
        if self._is_bulk("bp.download", size, self._read_chunk):
            return self._channels.download(block.handle, offset, size, on_progress)
        chunks = []
        for begin in range(0, size, self._read_chunk):
            length = min(self._read_chunk, size - begin)
            chunk = self._call("bp.read", block.handle, offset + begin, length)
            if not isinstance(chunk, bytes) or len(chunk) != length:
                raise FrameError(f"bp.read returned {chunk!r:.60}, not {length} bytes.")
            chunks.append(chunk)
            if on_progress is not None:
                on_progress(begin + length, size)
        return b"".join(chunks)

    def _call(self, name: str, *values: int | bytes) -> object:
        function = self._dictionary.function(name)
        arguments = b"".join(bytes(msgpack.packb(value)) for value in values)
        return self._session.value(function.id, arguments, len(values), name)
