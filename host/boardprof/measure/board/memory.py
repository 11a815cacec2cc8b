# SPDX-License-Identifier: Apache-2.0
"""The board's arena: blocks of its memory, filled and read through handles."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Literal, TypeVar

from boardprof.base.errors import FrameError, RpcError, UsageError, agent_option
from boardprof.target.arguments.passing import Block, BoardPointer, arena_reference
from boardprof.wire.decode.dictionary import Dictionary
from boardprof.wire.link.channels import Channels
from boardprof.wire.link.replies import Welcome
from boardprof.wire.link.session import Session
from boardprof_protocol.codes import ErrorCode
from boardprof_protocol.frame import body_capacity

if TYPE_CHECKING:
    from typing_extensions import Buffer

_T = TypeVar("_T", int, bytes)

_FEW_FRAMES = 3
"""Up to this number of frames, bp.read and bp.write are faster than a channel (three calls)."""

_CALL_OVERHEAD = 24
"""Bytes of a body besides the data: array, ids, three numbers of five bytes, the bin's head."""


_ALIGNMENT = 16
_TOKEN = struct.Struct("<IIi")
_TOKEN_BIT = 1 << 31


class Memory:
    """Blocks of the board's arena.

    Attributes:
        size: bytes of the arena; 0 if the agent has none.
        byte_order: of numbers on the board.
        symbol_at: from an anchor and a distance (SPEC.md 5.9) to a symbol of the image; None if the
            image is not known.
        has_crc: whether the board computes the CRC-32 of a block.
        constants: content of constant arrays that stays on the board.
    """

    def __init__(
        self, session: Session, welcome: Welcome, dictionary: Dictionary, channels: Channels
    ) -> None:
        """Offer the arena of an open session."""
        self._session = session
        self._channels = channels
        self._dictionary = dictionary
        self._write_chunk = body_capacity(welcome.mtu_rx) - _CALL_OVERHEAD
        self._read_chunk = body_capacity(welcome.mtu_tx) - _CALL_OVERHEAD
        self.size = dictionary.arena_bytes
        self.pointer_size = welcome.pointer_size
        self.byte_order: Literal["little", "big"] = "big" if welcome.big_endian else "little"
        self._held: dict[int, Block] = {}
        self._released: list[Block] = []
        self.symbol_at: Callable[[int, int], str | None] | None = None
        self.has_crc = any(each.name == "bp.crc" for each in dictionary.functions)
        self.constants = StoredConstants(self)

    def alloc(self, size: int) -> Block:
        """Reserve ``size`` bytes, 1 or more, aligned to 16.

        Raises:
            UsageError: the board's agent has no arena, or a smaller one.
            RpcError: the free part of the arena is smaller.
        """
        _check_whole("size", size)
        if not 0 < size <= self.size:
            raise UsageError(
                f"A block of {size} bytes does not fit into the board's arena of {self.size} "
                "bytes.",
                hint=f"compile the agent with a larger {agent_option('arena')}",
            )
        with self._session.exclusive("bp.alloc"):
            try:
                block = self.new_block(size)
            except RpcError as error:
                if error.code != ErrorCode.NO_MEMORY or not self.constants.free():
                    raise
                block = self.new_block(size)
            self._held[block.handle] = block
            return block

    def new_block(self, size: int) -> Block:
        """Reserve a block that is not counted as held; raises as `alloc`."""
        self._free_released()
        # A KeyboardInterrupt between the reply and the next line loses the block for this session.
        return Block(self._ask(int, "bp.alloc", size), size)

    def free(self, block: Block) -> None:
        """Free a block; its handle is invalid from now on."""
        _check_block(block)
        with self._session.exclusive("bp.free"):
            self._held.pop(block.handle, None)
            self._call("bp.free", block.handle)

    def holds(self, block: Block) -> bool:
        """Return whether a block is from `alloc` of this session, and not freed."""
        return self._held.get(block.handle) is block

    def block(self, handle: int) -> Block | None:
        """Return the block of `alloc` with a handle; None if it was freed."""
        return self._held.get(handle)

    def crc(self, block: Block, offset: int, length: int) -> int:
        """Return the CRC-32 of ``length`` bytes of a block, as the board computes it."""
        return self._ask(int, "bp.crc", block.handle, offset, length)

    def point(self, block: Block, offset: int, reference: bytes) -> None:
        """Let the board write a pointer into a block."""
        self._call("bp.point", block.handle, offset, reference)

    def unpoint(self, block: Block, offset: int) -> bytes:
        """Return a pointer in a block as a reference (SPEC.md 5.9); it becomes NULL."""
        return self._ask(bytes, "bp.unpoint", block.handle, offset)

    def pointer(self, reference: bytes) -> BoardPointer | None:
        """Return a pointer to memory outside of the arena; None for NULL."""
        if not reference:
            return None
        if len(reference) != _TOKEN.size:
            raise FrameError(f"The board sent {reference.hex()} as a pointer.")
        token, anchor, distance = _TOKEN.unpack(reference)
        found = self.symbol_at(anchor, distance) if anchor and self.symbol_at else None
        return BoardPointer(found or f"pointer {token & ~_TOKEN_BIT}", token)

    def text_at(self, pointer: BoardPointer, most: int = 200) -> str:
        """Return the text that a pointer of the board leads to, up to its zero.

        Args:
            pointer: from a function of this session.
            most: bytes to read at most.

        Raises:
            UsageError: it is NULL, or points into an array that was on the board only for the call.
            DeviceFaultError: there is no memory.
        """
        if not isinstance(pointer, BoardPointer):
            raise UsageError(f"{pointer!r:.60} is not a pointer of the board, so there is no text.")
        if pointer.token is not None:
            reference = pointer.token.to_bytes(4, "little")
        elif pointer.block is not None:
            reference = arena_reference(pointer.block, pointer.offset)
        else:
            raise UsageError(f"{pointer} is not on the board any more.", hint="read the array")
        most = min(most, self._read_chunk)
        text = self._ask(bytes, "bp.text_at", reference, most)
        return text.decode(errors="backslashreplace")

    @property
    def held_bytes(self) -> int:
        """Bytes of all blocks that are not freed, each rounded up to 16."""
        return sum(-(-block.size // _ALIGNMENT) * _ALIGNMENT for block in [*self._held.values()])

    def release(self, blocks: Iterable[Block], *, now: bool) -> None:
        """Free blocks now, or before the next `alloc`.

        ``now`` is False if the board may still be in a call, or cannot be reached.
        """
        for block in blocks:
            self._held.pop(block.handle, None)
            self._released.append(block)
        if now:
            self._free_released()

    def _free_released(self) -> None:
        while self._released:
            try:
                self._call("bp.free", self._released[-1].handle)
            except RpcError as error:
                if error.code != ErrorCode.BAD_HANDLE:  # an interrupted call has freed it
                    raise
            self._released.pop()

    def write(
        self,
        block: Block,
        data: Buffer,
        offset: int = 0,
        *,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Write ``data`` at ``offset``.

        Args:
            block: from `alloc`.
            data: bytes, or another object with its own memory, such as a numpy array.
            offset: where, in bytes from the block's beginning.
            on_progress: called with (bytes done, total bytes).

        Raises:
            UsageError: an argument has the wrong type, or not all of the data is within the block.
            RpcError: the handle is invalid.
        """
        content = _content(data)
        _check_range(block, offset, len(content))
        with self._session.exclusive("bp.write"):
            if self._is_bulk("bp.upload", len(content), self._write_chunk):
                self._channels.upload(block.handle, offset, content, on_progress)
                return
            for begin in range(0, len(content), self._write_chunk):
                chunk = content[begin : begin + self._write_chunk]
                self._call("bp.write", block.handle, offset + begin, chunk)
                if on_progress is not None:
                    on_progress(begin + len(chunk), len(content))

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
        """Read ``size`` bytes from ``offset``; None reads to the end of the block.

        ``on_progress`` is called with (bytes done, total bytes).

        Raises:
            UsageError: an argument has the wrong type, or not all of the range is within the block.
            RpcError: the handle is invalid.
        """
        if size is None:
            _check_range(block, offset, 0)
            size = block.size - offset
        _check_range(block, offset, size)
        with self._session.exclusive("bp.read"):
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

    def _ask(self, kind: type[_T], name: str, *values: int | bytes) -> _T:
        """Make a call that returns a value of a type."""
        value = self._call(name, *values)
        if not isinstance(value, kind):
            raise FrameError(f"{name} returned {value!r:.60}, not {kind.__name__}.")
        return value

    def _call(self, name: str, *values: int | bytes) -> object:
        function = self._dictionary.function(name)
        return self._session.invoke(function.id, name, *values)


def _content(data: Buffer) -> bytes:
    try:
        return memoryview(data).tobytes()
    except TypeError as error:
        raise UsageError(
            f"{data!r:.60} cannot be written to a block: it is not bytes.",
            hint="give bytes, bytearray, memoryview or a numpy array",
        ) from error


def _check_block(block: object) -> None:
    if not isinstance(block, Block):
        raise UsageError(
            f"{block!r:.60} is not a block.", hint="board.memory.alloc(size) returns one"
        )


def _check_whole(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise UsageError(f"{name}={value!r:.60} is not a whole number.")


def _check_range(block: Block, offset: int, size: int) -> None:
    """Check that ``size`` bytes from ``offset`` are within the block."""
    _check_block(block)
    _check_whole("offset", offset)
    _check_whole("size", size)
    if offset < 0 or size < 0 or offset + size > block.size:
        raise UsageError(
            f"{size:,} bytes from offset {offset:,} exceed the block of {block.size:,} bytes.",
            hint=f"stay within 0 to {block.size:,}",
        )


# -- constants ----------------------------------------------------------------------------------


Place = tuple[Block, int]
"""Where content is: a block, and an offset in it, in bytes."""


class StoredConstants:
    """One block of the arena with the content of constant arrays, from one call to the next."""

    # A line takes much longer to send an array than the board to compute its CRC-32. No declaration
    # is trusted: a function may cast ``const`` away, or write anywhere. So the board computes the
    # CRC before each call that uses the content again, and what differs is sent again. It takes
    # half of the arena's free part at most, at its end. So all other blocks have the same places
    # with and without it.

    def __init__(self, memory: Memory) -> None:
        """Store nothing yet."""
        self._memory = memory
        self._block: Block | None = None
        self._end = 0
        self._offsets: dict[bytes, list[int]] = {}
        self._users = 0
        self._full_bytes: int | None = None  # held when there was no room

    def take(self, contents: Sequence[bytes], *, besides: int) -> list[Place] | None:
        """Return a place for each of these contents, None if there is no room."""
        # ``besides`` is the number of bytes that the same call needs in the arena besides them.
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
            places.append((block, offset))
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
