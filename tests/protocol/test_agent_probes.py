# SPDX-License-Identifier: Apache-2.0
"""The real C agent's probes: records, blocks, statistics and kept rings, word by word (5.12).

The expected words are written by hand from SPEC.md.
"""

from __future__ import annotations

import random
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cffi import FFI

from tests.memory_board import CHANNELS, BoardError, MemoryBoard
from tests.protocol.channel_host import ALL, ack, open_channel
from tests.support import requires_tool, run

Boards = Callable[[dict[str, int]], MemoryBoard]
Libraries = Callable[[dict[str, int]], tuple[FFI, Any]]

PROBES = {**CHANNELS, "BP_CFG_TRACE": 256}
STREAM, INFO, START, STOP, SLOTS, KEPT, READ = 9, 11, 12, 13, 14, 15, 16
EVENTS, STATISTICS = 1, 2
DROP, STOPS, OVERWRITE = 0, 1, 2
SYNC, LONG, WIDE, VALUE, DROPPED, WRAPPED, HIGH, TASK = 7, 11, 8, 9, 10, 12, 14, 2
TOO_LONG, UNMATCHED = 2, 4
COUNTS, STUCK, NARROW = 0, 1, 2
BLOCK = struct.Struct("<BBHIIIIQ")
FOR_MINUTES = [pytest.mark.nightly, pytest.mark.timeout(1200)]


@dataclass(frozen=True)
class Block:
    """A block's header, and the records behind it."""

    core: int
    flags: int
    words: int
    sequence: int
    dropped: int
    last: int
    now: int
    ticks: int
    records: tuple[int, ...]


class Reader:
    """A host that reads blocks from a stream of the board, as many bytes as it allows."""

    def __init__(self, board: MemoryBoard) -> None:
        """Open the stream."""
        self.board = board
        self.channel, _ = open_channel(board, STREAM)
        self.taken = 0
        self._content = b""

    def read(self, credit: int = ALL) -> list[Block]:
        """Return the blocks that have come."""
        while True:
            frames = self.board.exchange(ack(self.board, self.channel, self.taken, credit))
            got = b"".join(frame.body[4:] for frame in frames)
            self.taken += len(got)
            self._content += got
            if not got or credit != ALL:
                return list(self._blocks())

    def _blocks(self) -> Iterator[Block]:
        while len(self._content) >= BLOCK.size:
            header = BLOCK.unpack_from(self._content)
            end = BLOCK.size + 4 * header[2]
            if len(self._content) < end:
                return
            yield Block(*header, struct.unpack_from(f"<{header[2]}I", self._content, BLOCK.size))
            self._content = self._content[end:]


@pytest.fixture
def board(boards: Boards) -> MemoryBoard:
    """A board with a ring of 64 words, whose clock stands still unless a test moves it."""
    return probes(boards, PROBES)


def probes(boards: Boards, config: dict[str, int]) -> MemoryBoard:
    board = boards(config)
    board.lib.bp_tracing = 0
    board.lib.test_cycles_step = 0
    board.lib.test_cycles = 1000
    board.lib.test_ticks = 0x0102030405
    board.lib.test_ticks_step = 0
    board.hello()
    return board


@pytest.fixture(scope="session")
def library(libraries: Libraries) -> str:
    """The file of the library with the agent and its probes."""
    ffi, lib = libraries(PROBES)
    place = int(ffi.cast("uintptr_t", ffi.addressof(lib, "test_mark")))
    maps = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    [path] = [
        m[5] for m in maps if int(m[0].split("-")[0], 16) <= place < int(m[0].split("-")[1], 16)
    ]
    return path


@pytest.fixture(scope="session")
def number(library: str) -> Callable[[str], int]:
    """Return what gives a name's number, as `nm` lists it; numbers begin at 16."""
    listed = run([requires_tool("nm", "binutils"), library])
    found = re.findall(r"^(\w+) . bp_trace\.\d\.(\w+)$", listed, flags=re.MULTILINE)
    numbers = {name: int(value, 16) + 16 for value, name in found}
    return lambda name: numbers[name]


def at(board: MemoryBoard, cycles: int) -> Any:
    """Move the clock; return the library."""
    board.lib.test_cycles = cycles
    return board.lib


### Records and blocks ###


def test_what_is_said_of_the_clock_the_rings_and_the_names(
    board: MemoryBoard, library: str, tmp_path: Path
) -> None:
    copy = requires_tool("objcopy", "binutils")
    run([copy, "-O", "binary", "-j", "bp_trace_check", library, tmp_path / "check"])
    check = (tmp_path / "check").read_bytes()
    run(
        [
            copy,
            "-O",
            "binary",
            "--set-section-flags",
            "bp_trace_names=alloc",
            "-j",
            "bp_trace_names",
            library,
            tmp_path / "names",
        ]
    )
    assert len(check) == 4 * (tmp_path / "names").read_bytes().count(0)
    assert board.call(INFO) == [
        *("cycles", "test_cycles", 0, 256, 1, 0, 1000),
        *(zlib.crc32(check), 0x0102030405, 0, STUCK),
    ]
    board.lib.test_cycles_step = 1
    assert board.call(INFO)[10] == COUNTS
    board.lib.test_cycles, board.lib.test_cycles_step = 1000, 0
    assert board.call(START, EVENTS, DROP) == 1000
    assert board.call(INFO)[5] == EVENTS


@pytest.mark.parametrize(("bits", "status"), [(24, NARROW), (32, COUNTS)])
def test_ticks_of_fewer_than_32_bits_are_no_trace_clock(
    boards: Boards, bits: int, status: int
) -> None:
    board = probes(boards, {**PROBES, "BP_CFG_TRACE_CLOCK": 1, "TEST_TICKS_BITS": bits})
    board.lib.test_ticks_step = 1
    assert board.call(INFO)[8:] == [None, None, status]


def test_records_are_the_words_of_the_specification(
    board: MemoryBoard, number: Callable[[str], int]
) -> None:
    board.call(START, EVENTS, DROP)
    reader = Reader(board)
    at(board, 1005).test_mark()
    at(board, 1105).test_value(-2)
    at(board, 1106).test_begin()
    at(board, 1206).test_end()
    at(board, 1207).test_alloc(0x20001000, 64)
    tick, level, work = number("tick"), number("level"), number("work")
    [block] = reader.read()
    assert (block.core, block.flags, block.words, block.sequence) == (0, 1, 15, 0)
    assert (block.dropped, block.last, block.now, block.ticks) == (0, 1207, 1207, 0x0102030405)
    assert block.records[:5] == (
        5 << 8 | tick,
        *(100 << 8 | level, 0xFFFFFFFE),
        1 << 8 | work,
        100 << 8 | (work + 1),
    )
    assert block.records[5:10] == (1 << 8 | 3, 0x20001000, 4, 64, HIGH)
    assert (block.records[10] > 0, block.records[11]) == (True, 5)  # a caller of this machine
    assert block.records[13:] == (6, 0x20001000)
    assert board.lib.test_locks == 0


@pytest.mark.parametrize("ring", [64, 72])
def test_each_address_has_its_own_upper_half_whatever_is_dropped(
    boards: Boards, number: Callable[[str], int], ring: int
) -> None:
    board = probes(boards, {**PROBES, "BP_CFG_TRACE": ring})
    board.call(START, EVENTS, DROP)
    reader, draw, high = Reader(board), random.Random(ring), 0
    made = [draw.choice((0, 1, 7)) << 32 | index for index in range(20_000)]
    found, has_value = [], {TASK, HIGH, DROPPED, LONG}
    for index, task in enumerate(made):
        board.lib.test_task(task)
        for _ in range(draw.choice((0, 1))):
            board.lib.test_mark()
        if draw.random() > 0.1 and index != len(made) - 1:
            continue
        words = [word for block in reader.read() for word in block.records]
        while words:
            id_ = words.pop(0) & 255
            value = words.pop(0) if id_ in has_value else 0
            if id_ == TASK:
                found.append(high << 32 | value)
            high = value if id_ == HIGH else 0 if id_ == TASK else high
    assert 2_000 < len(found) < 19_000
    assert found == [made[task & 0xFFFFFFFF] for task in found]


def test_a_recording_begins_with_the_memory_that_is_live(boards: Boards) -> None:
    board = probes(boards, {**PROBES, "BP_CFG_TRACE_HEAP": 1})

    def place(address: int) -> Any:
        return board.ffi.cast("void *", address)

    board.lib.bp_heap_taken(place(0x100), 90, 96, place(0x8000))
    board.lib.bp_heap_taken(place(0x200), 8, 16, place(0x8010))
    board.lib.bp_heap_taken(board.ffi.NULL, 5000, 0, place(0x8020))
    board.lib.bp_heap_replaced(place(0x100), 96, place(0x300), 100, 112, place(0x8030))
    board.call(START, EVENTS, DROP)
    board.lib.bp_heap_given(place(0x200), 16)
    board.lib.bp_heap_taken(place(0x200), 12, 16, place(0x8040))
    board.lib.bp_heap_taken(board.ffi.NULL, 5000, 0, place(0x8050))
    board.lib.bp_heap_replaced(place(0x300), 112, place(0x100), 90, 96, place(0x8060))
    [block] = Reader(board).read()
    assert block.records == (
        *(13, 2, 4, 128),  # LIVE: two blocks, and the bytes that they hold
        *(6, 0x200, 4, 16),
        *(3, 0x200, 4, 12, 5, 0x8040),
        *(3, 0, 4, 5000, 5, 0x8050),
        *(6, 0x300, 4, 112, 3, 0x100, 4, 90, 5, 0x8060),
    )
    assert board.lib.test_locks == 0
    board.lib.bp_heap_given(place(0x100), 96)
    board.lib.bp_heap_given(place(0x200), 16)


def test_memory_is_counted_between_recordings_and_statistics_alone_do_not_tell_it(
    boards: Boards,
) -> None:
    board = probes(boards, {**PROBES, "BP_CFG_TRACE_HEAP": 1})
    one, other = (board.ffi.cast("void *", each) for each in (0x100, 0x200))
    board.call(START, EVENTS, DROP)
    board.lib.bp_heap_taken(one, 50, 56, board.ffi.NULL)
    board.call(STOP, EVENTS)
    board.lib.bp_heap_taken(other, 8, 16, board.ffi.NULL)
    board.lib.bp_heap_given(one, 56)
    board.call(START, EVENTS, DROP)
    board.call(START, STATISTICS, DROP)
    [block, *_] = Reader(board).read()
    assert block.records == (13, 1, 4, 16)
    board.lib.bp_heap_given(other, 16)


def test_a_long_time_between_records_takes_one_of_its_own(
    board: MemoryBoard, number: Callable[[str], int]
) -> None:
    board.call(START, EVENTS, DROP)
    reader = Reader(board)
    at(board, 1000 + 0xFFFFFF).test_mark()
    at(board, 1000 + 0xFFFFFF + 0x1000000).test_mark()
    at(board, 1000 + 0xFFFFFF + 0x1000000 + 0xFEDCBA98).test_mark()
    tick = number("tick")
    [block] = reader.read()
    assert block.records == (
        0xFFFFFF << 8 | tick,
        *(LONG, 1, tick),
        *(0xDCBA98 << 8 | LONG, 0xFE, tick),
    )


def test_a_clock_of_64_bits_says_how_often_its_low_half_has_wrapped(
    boards: Boards, number: Callable[[str], int]
) -> None:
    board = probes(boards, {**PROBES, "BP_CFG_TRACE_CLOCK": 1})
    began = 0x0102030405
    assert board.call(START, EVENTS, DROP) == began % 2**32
    reader = Reader(board)
    board.lib.test_ticks = began + 2**32
    board.lib.test_mark()
    board.lib.test_ticks = began + 4 * 2**32 + 0x1000005
    board.lib.test_value(7)
    board.lib.test_ticks += 9
    board.lib.test_mark()
    tick, level = number("tick"), number("level")
    [block] = reader.read()
    assert block.records == (
        *(WRAPPED, 1, LONG, 0, tick),
        *(WRAPPED, 3, 5 << 8 | LONG, 1, level, 7),
        9 << 8 | tick,
    )
    assert block.last == 0x0202030405 % 2**32 + 0x1000005 - 0x100000000 + 2**32 + 9


def test_a_ring_that_is_overwritten_says_so_too(boards: Boards) -> None:
    board = probes(boards, {**PROBES, "BP_CFG_TRACE_CLOCK": 1})
    board.call(START, EVENTS, OVERWRITE)
    board.lib.test_ticks += 2 * 2**32 + 3
    board.lib.test_mark()
    size, at_word, *_ = struct.unpack_from("<III", board.call(KEPT, 0))
    assert (size, at_word) == (64, 4)
    assert struct.unpack("<3I", board.call(READ, 0, 0, 3))[:2] == (WRAPPED, 2)


def test_a_number_above_255_is_wide_and_its_value_follows(
    board: MemoryBoard, number: Callable[[str], int]
) -> None:
    """Room is found each time, so LONG comes first."""
    board.call(START, EVENTS, DROP)
    reader = Reader(board)
    at(board, 1003).test_wide_mark()
    at(board, 1007).test_wide_value(0x89ABCDEF)
    mark, value = number("wide_mark"), number("wide_value")
    assert min(mark, value) > 255
    [block] = reader.read()
    assert block.records == (
        *(3 << 8 | LONG, 0, WIDE, mark),
        *(4 << 8 | LONG, 0, WIDE, value, VALUE, 0x89ABCDEF),
    )


def test_a_name_that_two_files_use_has_one_number(
    board: MemoryBoard, number: Callable[[str], int]
) -> None:
    board.call(START, EVENTS, DROP)
    reader = Reader(board)
    board.lib.test_shared()
    board.lib.test_shared_too()
    [block] = reader.read()
    assert block.records == (number("shared"), number("shared"))


def test_events_without_room_are_counted_and_said_where_they_were(
    board: MemoryBoard, number: Callable[[str], int]
) -> None:
    """Of 64 words, 63 are for events of two words or one; the last is left free."""
    board.call(START, EVENTS, DROP)
    reader = Reader(board)
    for _ in range(100):
        board.lib.test_mark()
    [first] = reader.read()
    assert first.dropped == 100 - first.words
    assert first.records == (number("tick"),) * first.words
    at(board, 1010).test_mark()
    [block] = reader.read()
    assert block.records == (DROPPED, first.dropped, 10 << 8 | LONG, 0, number("tick"))
    assert block.sequence == first.words
    assert (block.flags, block.dropped) == (1, first.dropped)


def test_with_stop_the_first_event_without_room_is_the_last(board: MemoryBoard) -> None:
    board.call(START, EVENTS, STOPS)
    reader = Reader(board)
    for _ in range(100):
        board.lib.test_mark()
    assert board.call(INFO)[5] == 0
    assert sum(block.dropped for block in reader.read()) == 1
    board.lib.test_mark()
    assert reader.read() == []


def test_an_empty_block_is_the_last_one(board: MemoryBoard) -> None:
    board.call(START, EVENTS, DROP)
    reader = Reader(board)
    board.lib.test_mark()
    board.call(STOP, EVENTS)
    blocks = reader.read()
    assert [(block.words, block.flags, block.sequence) for block in blocks] == [
        (1, 1, 0),
        (0, 3, 1),
    ]
    assert reader.read() == []


@pytest.mark.parametrize("left", range(0, 36))
def test_the_last_block_is_empty_however_much_room_the_stream_has(
    board: MemoryBoard, left: int
) -> None:
    """A block without room for a word is not sent: it would look like the last one."""
    board.call(START, EVENTS, DROP)
    reader = Reader(board)
    full = 1024 - left
    assert board.lib.bp_stream_write(bytes(full), full) == full
    board.lib.test_mark()
    board.call(STOP, EVENTS)
    frames = board.exchange(ack(board, reader.channel, 0, ALL))
    reader.taken = sum(len(frame.body) - 4 for frame in frames)
    reader._content = b"".join(frame.body[4:] for frame in frames)[full:]
    blocks = reader.read()
    assert [block.words for block in blocks] == [1, 0]


def test_cores_with_own_clocks_say_at_first_and_after_a_long_time_what_the_shared_ticks_are(
    boards: Boards, number: Callable[[str], int]
) -> None:
    """LONG says that the ticks were read within a cycle: each look at the clock takes one.

    The start has looked once before it set the time that records count from.
    """
    board = probes(boards, {**PROBES, "BP_CFG_TRACE_CORES": 2})
    board.lib.test_cycles_step = 1
    board.call(START, EVENTS, DROP)
    reader = Reader(board)
    tick, level = number("tick"), number("level")
    at(board, 2000).test_mark()
    at(board, 2100).test_mark()
    at(board, 2100 + 0x1000000).test_value(5)
    blocks = reader.read()
    assert [(block.core, block.flags & 2) for block in blocks] == [(0, 0)]
    [block] = blocks
    synced = (SYNC, 0x01, SYNC, 0x02030405)
    assert block.records == (
        *(*synced, 999 << 8 | LONG, 1 << 8, tick),
        100 << 8 | tick,
        *(*synced, LONG, 1 << 8 | 1, level, 5),
    )


@pytest.mark.parametrize("clock", [0, 1])
def test_cores_that_share_a_clock_say_nothing_of_shared_ticks(
    boards: Boards, number: Callable[[str], int], clock: int
) -> None:
    board = probes(boards, {**PROBES, "BP_CFG_TRACE_CORES": 1 + clock, "BP_CFG_TRACE_CLOCK": clock})
    board.call(START, EVENTS, DROP)
    reader = Reader(board)
    board.lib.test_mark()
    [block] = reader.read()
    assert [word & 255 for word in block.records] == [number("tick")]


def test_of_a_kept_ring_of_one_of_several_cores_each_lap_says_what_the_shared_ticks_are(
    boards: Boards, number: Callable[[str], int]
) -> None:
    """38 records of two words into 64: a lap has three records that relate, and 29 others."""
    board = probes(boards, {**PROBES, "BP_CFG_TRACE_CORES": 2})
    board.call(START, EVENTS, OVERWRITE)
    for i in range(38):
        at(board, 1000 + 3 * i).test_value(i)
    kept = board.call(KEPT, 0)
    words = struct.unpack("<64I", b"".join(board.call(READ, 0, i, 16) for i in range(0, 64, 16)))
    level = number("level")
    assert struct.unpack("<III", kept[:12]) == (64, 2 * (38 + 2 * 3) - 64, 2 * (38 + 2 * 3))
    assert words[:8] == (SYNC, 0x01, SYNC, 0x02030405, 3 << 8 | LONG, 0, level, 29)
    assert board.call(KEPT, 1) is not None


def test_a_second_start_begins_from_nothing(
    board: MemoryBoard, number: Callable[[str], int]
) -> None:
    board.call(START, EVENTS, DROP)
    reader = Reader(board)
    for _ in range(100):
        board.lib.test_mark()
    reader.read()
    board.lib.test_mark()
    at(board, 5000)
    assert board.call(START, EVENTS, DROP) == 5000
    at(board, 5002).test_mark()
    [block] = reader.read()
    assert (block.sequence, block.dropped, block.records) == (0, 0, (2 << 8 | number("tick"),))


@pytest.mark.parametrize("before", [DROP, STOPS, OVERWRITE])
@pytest.mark.parametrize("mode", [DROP, STOPS])
def test_a_start_while_a_recording_is_on_leaves_nothing_of_it(
    board: MemoryBoard, number: Callable[[str], int], before: int, mode: int
) -> None:
    board.call(START, EVENTS, before)
    for i in range(40):
        at(board, 1000 + 0x1000000 * i).test_value(i)
    at(board, 5000)
    assert board.call(START, EVENTS, mode) == 5000
    at(board, 5005).test_value(1000)
    at(board, 5012).test_value(1001)
    at(board, 5021).test_mark()
    level, tick = number("level"), number("tick")
    [block] = Reader(board).read()
    assert block.records == (5 << 8 | level, 1000, 7 << 8 | level, 1001, 9 << 8 | tick)
    assert (block.sequence, block.dropped, block.last) == (0, 0, 5021)
    assert board.call(KEPT, 0) is None


@pytest.mark.parametrize("before", [DROP, STOPS, OVERWRITE])
def test_a_ring_to_be_overwritten_has_nothing_of_a_recording_that_was_on(
    board: MemoryBoard, number: Callable[[str], int], before: int
) -> None:
    board.call(START, EVENTS, before)
    for i in range(40):
        at(board, 1000 + i).test_value(i)
    at(board, 5000)
    assert board.call(START, EVENTS, OVERWRITE) == 5000
    at(board, 5005).test_value(1000)
    at(board, 5012).test_mark()
    kept = board.call(KEPT, 0)
    assert struct.unpack("<IIII8s", kept) == (64, 4, 4, 5012, bytes(range(1, 9)))
    words = struct.unpack("<64I", b"".join(board.call(READ, 0, i, 16) for i in range(0, 64, 16)))
    assert words == (5 << 8 | number("level"), 1000, 7 << 8 | number("tick"), 0, *(60 * [0]))


@pytest.mark.parametrize("mode", [DROP, STOPS])
def test_events_of_interrupts_while_a_recording_begins_are_in_it_once_the_ring_is_ready(
    board: MemoryBoard, number: Callable[[str], int], mode: int
) -> None:
    """They come as soon as interrupts are on again. Events 0 and 1 come before the ring is ready:
    as the earlier recording ends, and before the ring has room."""
    board.call(START, EVENTS, STOPS)
    board.lib.test_events(0, 20)
    at(board, 7000)
    board.lib.test_interrupted = 0
    board.lib.test_interrupts(True)
    assert board.call(START, EVENTS, mode) == 7000
    board.lib.test_interrupts(False)
    reader = Reader(board)
    each = number("number")
    [block] = reader.read()
    assert block.records == (each, 2, each, 3)
    assert (block.sequence, block.dropped) == (0, 0)
    assert board.call(INFO)[5] == EVENTS
    assert board.lib.test_locks == 0


def test_events_of_interrupts_while_a_ring_is_cleared_do_not_make_its_check_wrong(
    board: MemoryBoard, number: Callable[[str], int]
) -> None:
    board.call(START, EVENTS, OVERWRITE)
    board.lib.test_events(0, 40)
    at(board, 7000)
    board.lib.test_interrupted = 0
    board.lib.test_interrupts(True)
    assert board.call(START, EVENTS, OVERWRITE) == 7000
    board.lib.test_interrupts(False)
    kept = board.call(KEPT, 0)
    assert struct.unpack("<IIII8s", kept) == (64, 4, 4, 7000, bytes(range(1, 9)))
    each = number("number")
    assert struct.unpack("<6I", board.call(READ, 0, 0, 6)) == (each, 2, each, 3, 0, 0)


def test_a_stop_before_any_start_sends_nothing_of_what_the_ring_happens_to_hold(
    libraries: Libraries,
) -> None:
    """A configuration of its own: nothing has started this library's recording yet."""
    ffi, lib = libraries({**PROBES, "BP_CFG_TRACE": 128})
    board = MemoryBoard(ffi, lib)
    board.hello()
    size = lib.test_ring_bytes()
    ffi.memmove(lib.test_ring(0), random.Random(1).randbytes(size), size)
    reader = Reader(board)
    board.call(STOP, EVENTS)
    assert reader.read() == []
    assert board.call(KEPT, 0) is None


### Statistics ###


def slots(board: MemoryBoard, skip: int = 0) -> list[tuple[int, ...]]:
    body = board.call(SLOTS, skip)
    return [struct.unpack_from("<IIIIIIQQ", body, at) for at in range(0, len(body), 40)]


def passes(board: MemoryBoard, *lengths: int) -> None:
    for length in lengths:
        board.lib.test_begin()
        board.lib.test_cycles += length
        board.lib.test_end()


def test_a_slot_has_the_least_the_most_and_the_sums(
    board: MemoryBoard, number: Callable[[str], int]
) -> None:
    board.call(START, STATISTICS, DROP)
    passes(board, 5, 3, 100000)
    found = {slot[0]: slot[1:] for slot in slots(board)}
    assert found[number("work")] == (3, 0, 0, 3, 100000, 100008, 10_000_000_034)
    assert board.lib.test_locks == 0


def test_sums_carry_and_squares_say_that_they_have_lost_a_carry(
    board: MemoryBoard, number: Callable[[str], int]
) -> None:
    board.call(START, STATISTICS, DROP)
    passes(board, 0xFFFFFFFF)
    found = {slot[0]: slot[1:] for slot in slots(board)}
    square = 0xFFFFFFFE00000001  # by hand
    assert found[number("work")] == (1, 0, 0, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, square)
    passes(board, 0xFFFFFFFF)
    found = {slot[0]: slot[1:] for slot in slots(board)}
    assert found[number("work")] == (
        *(2, 0, 1, 0xFFFFFFFF, 0xFFFFFFFF, 0x1FFFFFFFE),
        0xFFFFFFFC00000002,
    )


def test_a_pass_of_2_to_the_32_ticks_is_left_out_and_said_to_be(
    boards: Boards, number: Callable[[str], int]
) -> None:
    board = probes(boards, {**PROBES, "BP_CFG_TRACE_CLOCK": 1})
    board.call(START, STATISTICS, DROP)
    for length in (2**32 - 1, 2**32, 2**32 + 7, 2**34 + 7):
        board.lib.test_begin()
        board.lib.test_ticks += length
        board.lib.test_end()
    most = 2**32 - 1
    found = {slot[0]: slot[1:7] for slot in slots(board)}
    assert found[number("work")] == (1, 3, TOO_LONG, most, most, most)


def test_with_32_bits_a_pass_is_left_out_before_the_clock_can_wrap_in_it(
    board: MemoryBoard, number: Callable[[str], int]
) -> None:
    """If bp_poll runs within it: it looks at the clock."""
    board.call(START, STATISTICS, DROP)
    board.lib.test_begin()
    for _ in range(9):
        board.lib.test_cycles += 0x1FFFFFFF + 1
        board.call(INFO)
    board.lib.test_end()
    passes(board, 9)
    board.lib.test_begin()
    for _ in range(3):
        board.lib.test_cycles += 0x1FFFFFFF + 1
        board.call(INFO)
    board.lib.test_end()
    found = {slot[0]: slot[1:7] for slot in slots(board)}
    assert found[number("work")] == (2, 1, TOO_LONG, 9, 3 << 29, (3 << 29) + 9)
    assert board.lib.test_locks == 0


def test_passes_before_the_end_of_one_that_began_before_the_recording_are_left_out(
    board: MemoryBoard, number: Callable[[str], int]
) -> None:
    """A task is in the range already; its end comes within another task's pass, of 5 + 6."""
    board.call(START, STATISTICS, DROP)
    passes(board, 3)
    board.lib.test_begin()
    board.lib.test_cycles += 5
    board.lib.test_end()
    board.lib.test_cycles += 6
    board.lib.test_end()
    assert {s[0]: s[1:5] for s in slots(board)}[number("work")] == (0, 2, UNMATCHED, 0xFFFFFFFF)
    passes(board, 9, 8)
    found = {slot[0]: slot[1:7] for slot in slots(board)}
    assert found[number("work")] == (2, 2, UNMATCHED, 8, 9, 17)
    for _ in range(30):  # firmware that ends each pass twice: this cannot go on for ever
        passes(board, 7)
        board.lib.test_end()
    found = {slot[0]: slot[1:7] for slot in slots(board)}
    assert found[number("work")] == (16, 18, UNMATCHED, 7, 7, 16 * 7)
    assert board.lib.test_locks == 0


def test_how_long_the_clock_was_not_looked_at_is_known(board: MemoryBoard) -> None:
    board.call(START, STATISTICS, DROP)
    for ticks in (5, 7_000_000_000, 6):
        board.lib.test_ticks += ticks
        board.call(INFO)
    assert board.call(INFO)[8:10] == [0x0102030405 + 7_000_000_011, 7_000_000_000]
    board.call(START, STATISTICS, DROP)
    assert board.call(INFO)[9] == 0


def test_passes_that_overlap_are_lost_and_the_next_one_counts(
    board: MemoryBoard, number: Callable[[str], int]
) -> None:
    board.call(START, STATISTICS, DROP)
    for _ in range(3):
        board.lib.test_begin()
    for _ in range(3):
        board.lib.test_end()
    assert {s[0]: s[1:5] for s in slots(board)}[number("work")] == (0, 3, 0, 0xFFFFFFFF)
    board.lib.test_end()
    passes(board, 9)
    assert {s[0]: s[1:5] for s in slots(board)}[number("work")] == (1, 3, 0, 9)


def test_slots_come_in_as_many_replies_as_they_need_and_new_ones_come_last(
    boards: Boards,
) -> None:
    """A frame of 64 bytes holds one. A task may enter a range while the host reads the others."""
    board = probes(boards, {**PROBES, "BP_CFG_MTU": 64, "BP_CFG_BULK": 64})
    board.call(START, STATISTICS, DROP)
    passes(board, 4)
    found = slots(board)
    board.lib.test_wide_range()
    while got := slots(board, len(found)):
        assert len(got) == 1
        found += got
    numbers = [slot[0] for slot in found]
    assert len(numbers) == len(set(numbers)) >= 2
    assert sorted(slot[1] for slot in found)[-2:] == [1, 1]


def test_several_cores_have_no_statistics(boards: Boards) -> None:
    board = probes(boards, {**PROBES, "BP_CFG_TRACE_CORES": 2})
    with pytest.raises(BoardError, match="UNSUPPORTED"):
        board.call(START, STATISTICS, DROP)
    assert board.call(INFO)[4:6] == [2, 0]


### Rings that are overwritten ###


def kept_ring(board: MemoryBoard) -> bytes:
    board.call(START, EVENTS, OVERWRITE)
    for i in range(50):
        at(board, 1000 + 3 * i).test_value(i)
    kept = board.call(KEPT, 0)
    assert isinstance(kept, bytes)
    return kept


def test_a_kept_ring_is_described_and_read(
    board: MemoryBoard, number: Callable[[str], int]
) -> None:
    """100 words were written into 64: the newest record ends at word 36."""
    kept = kept_ring(board)
    assert struct.unpack("<IIII8s", kept) == (64, 36, 100, 1147, bytes(range(1, 9)))
    words = struct.unpack("<64I", b"".join(board.call(READ, 0, i, 16) for i in range(0, 64, 16)))
    level = number("level")
    assert words[34:36] == (3 << 8 | level, 49)
    assert words[36:38] == (3 << 8 | level, 18)
    assert board.call(INFO)[5] == 0


def bits(total: int, sample: int, *, every: bool) -> list[int]:
    return list(range(total)) if every else random.Random(5).sample(range(total), sample)


EVERY = [False, pytest.param(True, marks=pytest.mark.nightly)]


@pytest.mark.parametrize("every", EVERY)
def test_a_kept_ring_with_a_wrong_bit_is_refused(board: MemoryBoard, every: bool) -> None:
    kept = kept_ring(board)
    for bit in bits(64 * 32, 200, every=every):
        board.lib.bp_trace_words[bit // 32] ^= 1 << bit % 32
        assert board.call(KEPT, 0) is None
        board.lib.bp_trace_words[bit // 32] ^= 1 << bit % 32
    assert board.call(KEPT, 0) == kept


@pytest.mark.parametrize("every", EVERY)
def test_a_wrong_bit_in_a_kept_rings_state_never_gives_another_description(
    board: MemoryBoard, every: bool
) -> None:
    """Part of the state is for other modes, and of no account here."""
    kept = kept_ring(board)
    ring = board.lib.test_ring(0)
    refused = 0
    for bit in bits(8 * board.lib.test_ring_bytes(), 300, every=every):
        ring[bit // 8] ^= 1 << bit % 8
        found = board.call(KEPT, 0)
        assert found in (None, kept), bit
        refused += found is None
        ring[bit // 8] ^= 1 << bit % 8
    assert refused > 100
    assert board.call(KEPT, 0) == kept


### Many events ###


@dataclass
class Decoder:
    """What records say, in the order in which they were made."""

    number: int
    wide: int
    time: int = 1000
    next: int = 0
    dropped: int = 0
    pending: int | None = None

    def take(self, words: list[int]) -> Iterator[tuple[int, int]]:
        """Yield time and value of each event; leave what is not complete."""
        while words:
            word = words[0]
            has_value = word & 255 in (LONG, WIDE, VALUE, DROPPED, self.number)
            if len(words) <= has_value:
                return
            del words[0]
            value = words.pop(0) if has_value else 0
            self.time += word >> 8
            if word & 255 == LONG:
                self.time += (value & 255) << 24
            elif word & 255 == DROPPED:
                self.dropped += value
            elif word & 255 == WIDE:
                assert value == self.wide
            else:
                assert word & 255 in (self.number, VALUE)
                yield self.time, value


STEPS = (1, 7, 100, 3, 0x1234567, 2, 0, 5, 0x40000000)
ROUND = sum(STEPS)


def time_of(event: int) -> int:
    """Return the clock of event `event` of test_events."""
    return 1000 + event // 9 * ROUND + sum(STEPS[: event % 9 + 1])


@pytest.mark.parametrize("ring", [64, 72, 1000])
@pytest.mark.parametrize("many", [100_000, pytest.param(10_000_000, marks=FOR_MINUTES)])
def test_drops_are_counted_to_the_event_and_time_never_goes_back(
    boards: Boards, number: Callable[[str], int], ring: int, many: int
) -> None:
    """Where DROPPED is, as many events are missing as it says. Times are checked between drops:
    what a gap of drops lasted is known modulo 2^32.
    """
    board = probes(boards, {**PROBES, "BP_CFG_TRACE": ring})
    board.call(START, EVENTS, DROP)
    reader = Reader(board)
    draw = random.Random(ring)
    decoder = Decoder(number("number"), number("wide_value"))
    words: list[int] = []
    made = seen = sequence = dropped = 0
    while made < many:
        batch = min(draw.choice((1, 5, 14, 60, 500)), many - made)
        board.lib.test_events(made, batch)
        made += batch
        for block in reader.read():
            assert block.sequence == sequence % 2**32
            sequence += block.words
            words += block.records
            dropped = block.dropped
            missing = decoder.dropped
            for time, value in decoder.take(words):
                seen += 1
                assert value == seen - 1 + decoder.dropped
                assert (time - time_of(value)) % 2**32 == 0
            assert decoder.dropped >= missing
    assert words == []
    assert seen + dropped == made
    assert dropped > many // 10
    assert board.lib.test_locks == 0
