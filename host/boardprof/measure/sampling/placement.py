# SPDX-License-Identifier: Apache-2.0
"""The place of one call's arrays in the board's arena: reserved, filled, read back, freed."""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import msgpack

from boardprof.base.errors import (
    BoardprofError,
    DeviceBoundsError,
    RpcError,
    UsageError,
    agent_option,
    still_answers,
)
from boardprof.measure.sampling.counted_pass import PackedCall
from boardprof.results.report.assemble import content_of
from boardprof.target.arguments.binding import Arguments, is_same_memory
from boardprof.target.arguments.passing import (
    Block,
    BoardPointer,
    Passing,
    arena_reference,
    place_text,
)
from boardprof_protocol.codes import ErrorCode

if TYPE_CHECKING:
    import numpy.typing as npt

    from boardprof.measure.board.memory import Memory
    from boardprof.target.arguments.array_argument import ArrayArgument, Target
    from boardprof.wire.decode.dictionary import FunctionInfo

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
    count = size // array.wire.itemsize
    has = f"{count:,} element{'s' * (count != 1)} ({size:,} bytes)"
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


OnTransfer = Callable[[str, int, int], None]
"""Called with ("to the board" or "from the board", bytes done, total bytes)."""

_NULL = b"\xc4\x00"
_SPAN = struct.Struct("<BBIII")
_SPAN_WITH_COPY = struct.Struct("<BBIIII")
_BIN_8 = 0xC4

_HOLE = 64  # bytes between two pieces that cost less to transfer than a second call
_LEAST_STORED = 256
"""Bytes below which sending an array takes hardly longer than asking for its CRC."""

_MOST_COPIES = 8  # copies of a call (SPEC.md 5.9)
_PLACE = struct.Struct("<II")

_Piece = tuple[int, bytes]
"""An offset in a block and the content at that offset."""


@dataclass(eq=False)
class _Region:
    """Slots that have one block of the arena."""

    slots: list[Slot]
    size: int = 0
    block: Block | None = None


class Placement:
    """The blocks of one call, or of one measurement; use it in a ``with``."""

    def __init__(
        self,
        memory: Memory,
        arguments: Arguments,
        *,
        put_back: bool = False,
        store: bool = False,
        on_transfer: OnTransfer | None = None,
    ) -> None:
        """Find a place for each array; with ``put_back``, in/out arrays begin each call afresh."""
        # In/out arrays come from copies on the board, if there is room. With ``store``, constant
        # arrays stay on the board for later calls.
        self._packed = (b"", 0)
        self.why_again = ""  # why the host sends in/out arrays again before each call, if it does
        # in/out arrays that the call for the outputs left with another content, once it has ended
        self.changed: tuple[str, ...] = ()
        self.again_s = 0.0  # how long that takes, by the time of the first transfer
        self._memory = memory
        self.arguments = arguments
        self._put_back = put_back
        self._on_transfer = on_transfer
        self._blocks: list[Block] = []
        self._uses_stored = False
        self._slots = slots_of(arguments.arrays)
        self._slot_of: dict[int, Slot] = {
            id(array): slot for slot in self._slots for array in slot.arguments
        }
        self._constants = [
            slot
            for slot in self._slots
            if store and slot.is_constant and slot.argument.size >= _LEAST_STORED
        ]
        self._main = _Region([slot for slot in self._slots if not slot.is_out])
        self._out = _Region([slot for slot in self._slots if slot.is_out])
        self._regions = (self._main, self._out)
        room = memory.size - memory.held_bytes
        copies = sum(slot.room for slot in self._slots if slot.is_put_back) * put_back
        # Copies are more useful than fences.
        spare = room - copies if self._lay_out(0) + copies <= room else room
        self._is_fenced = self._lay_out(len(FENCE)) <= spare
        self._size = self._lay_out(len(FENCE) * self._is_fenced)
        self._check(room)

    def _lay_out(self, fence: int) -> int:
        """Place the arrays in their blocks; return how many bytes both take."""
        for region in self._regions:
            region.size = lay_out(region.slots, fence)
        return sum(region.size for region in self._regions)

    @property
    def sends_again(self) -> bool:
        """Whether the host sends in/out arrays again before each call."""
        return self.why_again != ""

    def _check(self, room: int) -> None:
        memory, name = self._memory, self.arguments.function
        for array in self.arguments.arrays:
            if array.block is not None and not memory.holds(array.block):
                raise UsageError(
                    f"{array.name} of {name} is a block that is not on this board: it was freed, "
                    "or it belongs to another board or another session.",
                    hint="reserve it with board.memory.alloc of the board that is called",
                )
        if not self._slots:
            return
        if not memory.size:
            raise UsageError(
                f"{name} takes arrays, but the board's agent has no arena to hold them.",
                hint=f"compile the agent with {agent_option('arena', 4096)}",
            )
        if self._size > room:
            held = f" ({memory.held_bytes:,} of them are reserved)" if memory.held_bytes else ""
            raise UsageError(
                f"The arrays of {name} take {self._size:,} bytes; the board's arena has "
                f"{memory.size:,} bytes{held}.",
                hint=f"pass smaller arrays, or compile the agent with a larger "
                f"{agent_option('arena')}",
            )

    def __enter__(self) -> Self:
        """Reserve the blocks and send the arrays that must be sent."""
        try:
            self._enter()
        except RpcError as error:
            if error.code != ErrorCode.NO_MEMORY or not self._constants:
                raise
            self._memory.constants.refuse()
            self._place_all_here()
            self._enter()
        return self

    def _enter(self) -> None:
        try:
            self._take_stored()
            for region in self._regions:
                region.block = self._reserve(region.size) if region.size else None
            if self._put_back:
                self._make_copies()
            began_s = time.monotonic()
            self._fill()
            sent = sum(slot.room for slot in self._main.slots)
            share = self.again_bytes / sent if sent else 0.0
            self.again_s = share * (time.monotonic() - began_s)
            self._packed = self._pack()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise

    def _take_stored(self) -> None:
        """Leave constants where the board has them, or send them there."""
        if not self._constants:
            return
        self._main.slots = [slot for slot in self._main.slots if slot not in self._constants]
        self._size = self._lay_out(len(FENCE) * self._is_fenced)
        contents = [slot.argument.content() for slot in self._constants]
        places = self._memory.constants.take(contents, besides=self._size)
        if places is None:
            self._place_all_here()
            return
        self._uses_stored = True
        for slot, place in zip(self._constants, places, strict=True):
            slot.stored, slot.offset = place

    def _place_all_here(self) -> None:
        """Send the constants with the other arrays, since there is no room to store them."""
        for slot in self._constants:
            slot.stored = None
        self._constants = []
        self._main.slots = [slot for slot in self._slots if not slot.is_out]
        self._size = self._lay_out(len(FENCE) * self._is_fenced)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Free the blocks; if the board is in a call or gone, before the next are reserved."""
        # After an error, that error is raised, not one from freeing the blocks.
        blocks, self._blocks = self._blocks, []
        if self._uses_stored:
            self._uses_stored = False
            self._memory.constants.give_back()
        if error is None:
            self._memory.release(blocks, now=True)
            return
        try:
            self._memory.release(blocks, now=still_answers(error))
        except BoardprofError:
            return  # the others are freed before the next blocks are reserved

    # -- to the board ------------------------------------------------------------------------------

    def _reserve(self, size: int) -> Block:
        block = self._memory.alloc(size)
        self._blocks.append(block)
        return block

    def call(self, function: FunctionInfo) -> PackedCall:
        """Return a call of ``function`` with the arguments as they are placed now."""
        return PackedCall(function, *self._packed)

    @property
    def content(self) -> bytes:
        """The arguments as they are placed now, in msgpack."""
        return self._packed[0]

    def renew(self) -> None:
        """Send all arrays again as they are now; their places may change."""
        self.__exit__(None, None, None)
        self._main.block = self._out.block = None
        self.why_again = ""
        for slot in self._slots:
            slot.copy = None
        self.__enter__()

    def renew_outputs(self) -> None:
        """Set the arrays that are not sent to zeros again, as before the first call."""
        if self._out.block is not None:
            self._blocks.remove(self._out.block)
            self._memory.release([self._out.block], now=True)
            self._out.block = self._reserve(self._out.size)
            self._write(self._out.block, self._fence_pieces(self._out))
            for slot in self._slots:
                targets = [target.array for each in slot.arguments for target in each.targets]
                if any(each is not None and self._slot_of[id(each)].is_out for each in targets):
                    self._point([slot])
            self._packed = self._pack()

    def _make_copies(self) -> None:
        """Reserve a copy for each array that is restored, or note why there are none."""
        slots = [slot for slot in self._slots if slot.is_put_back and slot.argument.size]
        in_call = {id(part) for part in self.arguments.parts}
        needed = sum(slot.room for slot in slots)
        first = len(self._blocks)
        if not all(any(id(array) in in_call for array in slot.arguments) for slot in slots):
            self.why_again = "pointers in structs lead to arrays that the function may change"
        elif len(slots) > _MOST_COPIES:
            self.why_again = f"the board restores at most {_MOST_COPIES} arrays"
        elif needed > self._memory.size - self._memory.held_bytes:
            self.why_again = (
                f"copies of {needed:,} bytes do not fit into the arena of {self._memory.size:,} "
                f"bytes together with the arrays ({self._size:,} bytes)"
            )
        if self.why_again:
            return
        try:
            for slot in slots:
                slot.copy = self._reserve(slot.room)
        except RpcError as error:
            if error.code != ErrorCode.NO_MEMORY:
                raise
            self._memory.release(self._blocks[first:], now=True)
            del self._blocks[first:]
            for slot in slots:
                slot.copy = None
            self.why_again = "the board has no free handle, or no contiguous space, for the copies"

    def _fill(self) -> None:
        """Send the arrays, into their block or into their copies, and the fences."""
        has_copies = any(slot.copy is not None for slot in self._slots)
        sent = [slot for slot in self._main.slots if not (has_copies and slot.is_put_back)]
        for region, contents in ((self._main, _contents(sent)), (self._out, [])):
            if region.block is not None:
                self._write(region.block, [*contents, *self._fence_pieces(region)])
        for slot in self._slots:
            if slot.copy is not None:
                self._write(slot.copy, [(0, slot.argument.content())])
        self._point(self._slots)

    def _point(self, slots: Sequence[Slot]) -> None:
        """Let the board write the pointers in arrays of structs, or in their copies."""
        for slot in slots:
            block = self._block_of(slot)
            for target in (each for array in slot.arguments for each in array.targets):
                place = target.offset + (slot.offset if slot.copy is None else 0)
                self._memory.point(slot.copy or block, place, self._reference(target))

    def _reference(self, target: Target) -> bytes:
        """Return what a pointer points to, as on the wire."""
        if target.array is None:
            return target.reference
        slot = self._slot_of[id(target.array)]
        return arena_reference(self._block_of(slot), slot.offset + target.at)

    def _block_of(self, slot: Slot) -> Block:
        block = slot.stored or (self._out if slot.is_out else self._main).block
        assert block is not None, "it is reserved for as long as the placement is used"
        return block

    def pointer_at(self, handle: int, offset: int) -> BoardPointer:
        """Return a pointer into the arena: into an array of the call, or a block of the caller."""
        for slot in self._slots:
            block = self._block_of(slot)
            if block.handle == handle and slot.offset <= offset <= slot.end:
                at = offset - slot.offset
                own = slot.argument
                origin = None if at else own.origins[0] if own.origins else own.array
                return BoardPointer(place_text(own.name, at), offset=at, origin=origin)
        held = self._memory.block(handle)
        if held is None:
            return BoardPointer("a pointer into the arena", offset=offset)
        names = [each.name for each in self.arguments.arrays if each.block is held]
        return BoardPointer(place_text(names[0] if names else "block", offset), None, held, offset)

    def _fences(self, region: _Region) -> list[Fence]:
        return fences(region.slots, region.size) if self._is_fenced else []

    def _fence_pieces(self, region: _Region, begin: int = 0) -> list[_Piece]:
        around = self._fences(region)
        return [(fence.offset, fence.content) for fence in around if fence.offset >= begin]

    @property
    def again_bytes(self) -> int:
        """Number of bytes that the host sends again before each round."""
        return sum(slot.room for slot in self._slots if slot.is_put_back) * self.sends_again

    def send_again(self) -> None:
        """Restore in/out arrays to the host's values, unless the board does it."""
        again = [slot for slot in self._main.slots if slot.is_put_back]
        if self.sends_again and self._main.block is not None and again:
            fenced = self._fence_pieces(self._main, again[0].offset)
            self._write(self._main.block, [*_contents(again), *fenced])
            self._point(again)

    def _write(self, block: Block, pieces: Sequence[_Piece]) -> None:
        """Write pieces, neighbours in one write; small gaps between them become zeros."""
        for offset, end in _runs([(offset, offset + len(content)) for offset, content in pieces]):
            run = bytearray(end - offset)
            for at, content in pieces:
                if offset <= at < end:
                    run[at - offset : at - offset + len(content)] = content
            report = self._progress("to the board") if len(run) > _HOLE else None
            self._memory.write(block, run, offset, on_progress=report)

    def _progress(self, way: str) -> Callable[[int, int], None] | None:
        on_transfer = self._on_transfer
        if on_transfer is None:
            return None
        return lambda done, total: on_transfer(way, done, total)

    def _pack(self) -> tuple[bytes, int]:
        spans = {
            array.name: self._span(slot, array.passing is Passing.IN_OUT and index == 0)
            for slot in self._slots
            for index, array in enumerate(slot.arguments)
        }
        packed = []
        for part in self.arguments.parts:
            if isinstance(part, bytes):
                packed.append(part)
            elif part.reference is not None:
                packed.append(bytes([_BIN_8, len(part.reference)]) + part.reference)
            elif part.block is not None:
                packed.append(_SPAN.pack(_BIN_8, 12, part.block.handle, 0, part.block.size))
            else:
                packed.append(spans.get(part.name, _NULL))
        content = b"".join(packed)
        if self.arguments.is_packed:
            return msgpack.packb(content), 1
        return content, len(packed)

    def _span(self, slot: Slot, is_put_back: bool) -> bytes:
        place = (self._block_of(slot).handle, slot.offset, slot.argument.size)
        if is_put_back and slot.copy is not None:
            return _SPAN_WITH_COPY.pack(_BIN_8, 16, *place, slot.copy.handle)
        return _SPAN.pack(_BIN_8, 12, *place)

    # -- and back ---------------------------------------------------------------------------

    def fetch(self) -> dict[str, npt.NDArray[Any]]:
        """Read written arrays back into the caller's arrays; return them by parameter name."""
        outputs: dict[str, npt.NDArray[Any]] = {}
        for region in self._regions:
            outputs |= self._fetch(region, [slot for slot in region.slots if slot.is_written])
        order = [array.name for array in self.arguments.arrays]
        return {name: outputs[name] for name in order if name in outputs}

    def call_for_outputs(
        self, call: Callable[[], object]
    ) -> tuple[object, dict[str, npt.NDArray[Any]]]:
        """Make one call with the caller's values, and read back the outputs."""
        self.send_again()
        self.renew_outputs()
        given = self.arguments.put_back()
        value, outputs = call(), self.fetch()
        left = self.arguments.put_back()
        self.changed = tuple(name for name in given if given[name] != left[name])
        return value, outputs

    def outputs_crc32(self, result: object) -> str:
        """Return the CRC-32 of a result and the outputs on the board; "" if they hold pointers."""
        slots = [s for s in self._slots if s.is_written and s.argument.size]
        if isinstance(result, bytes) or any(slot.argument.pointer_offsets for slot in slots):
            return ""  # addresses differ from build to build
        found = [repr(result)]
        for slot in slots:
            place = (self._block_of(slot), slot.offset, slot.argument.size)
            if slot.argument.struct is None and self._memory.has_crc:
                crc32 = self._memory.crc(*place)
            else:
                block, offset, size = place
                content = self._memory.read(block, size, offset)
                import numpy as np  # later: not every function has arrays

                crc32 = zlib.crc32(content_of(np.frombuffer(content, slot.argument.wire)))
            found.append(f"{crc32:08x}")
        return f"{zlib.crc32(' '.join(found).encode()):08x}"

    def check(self) -> None:
        """Check that no call has written before or after an array."""
        for region in self._regions:
            self._fetch(region, [])

    def _fetch_pointers(self, block: Block, slot: Slot) -> None:
        """Fetch the pointers in an array; the board replaces them by NULL, so none is read."""
        returned = [array for array in slot.arguments if array.is_returned and array.struct]
        for offset in returned[0].pointer_offsets if returned else ():
            found = self.pointer_of(self._memory.unpoint(block, slot.offset + offset))
            for array in returned:
                array.stored[offset] = found

    def pointer_of(self, reference: bytes) -> BoardPointer | None:
        """Return a pointer that came over the wire; None for NULL."""
        if len(reference) == _PLACE.size:
            return self.pointer_at(*_PLACE.unpack(reference))
        return self._memory.pointer(reference)

    def _fetch(self, region: _Region, slots: Sequence[Slot]) -> dict[str, npt.NDArray[Any]]:
        """Read slots of a region, and its fences."""
        block = region.block
        if block is None:
            return {}
        around = self._fences(region)
        for slot in slots:
            self._fetch_pointers(block, slot)
        wanted = [(slot.offset, slot.end) for slot in slots if slot.argument.size]
        wanted += [(fence.offset, fence.offset + len(fence.content)) for fence in around]
        report = self._progress("from the board")
        runs = {
            begin: self._memory.read(block, end - begin, begin, on_progress=report)
            for begin, end in _runs(wanted)
        }

        def part(begin: int, size: int) -> bytes:
            run = max((offset for offset in runs if offset <= begin), default=begin)
            return runs.get(run, b"")[begin - run : begin - run + size]

        for fence in around:
            fence.check(self.arguments.function, part(fence.offset, len(fence.content)))
        return {
            array.name: array.take(part(slot.offset, slot.argument.size))
            for slot in slots
            for array in slot.arguments
            if array.is_returned
        }


def _contents(slots: Sequence[Slot]) -> list[_Piece]:
    return [(slot.offset, slot.argument.content()) for slot in slots if slot.argument.size]


def _runs(pieces: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join pieces, each from one offset to another, if the gap between them is small."""
    runs: list[tuple[int, int]] = []
    for begin, end in sorted(pieces):
        if runs and begin - runs[-1][1] <= _HOLE:
            runs[-1] = (runs[-1][0], max(runs[-1][1], end))
        else:
            runs.append((begin, end))
    return runs
