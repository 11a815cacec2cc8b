# SPDX-License-Identifier: Apache-2.0
"""The real C agent's probes: records, blocks, drops, statistics, a ring after a reset (SPEC 5.12).

What comes out of the stream is taken apart here, by SPEC.md alone.
"""

from __future__ import annotations

import random
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, cast

import pytest
from cffi import FFI
from elftools.elf.elffile import ELFFile

from boardprof_protocol.codes import ErrorCode, FrameKind
from boardprof_protocol.frame import Frame
from tests.memory_board import CHANNELS, BoardError, MemoryBoard
from tests.protocol.channel_host import ALL, ack, open_channel

Boards = Callable[[dict[str, int]], MemoryBoard]
Words = list[int]

EVENTS, STATISTICS = 1, 2
DROP, STOP, OVERWRITE = 0, 1, 2
PROBES = {**CHANNELS, "BP_CFG_TRACE": 1024}
SMALL = {**CHANNELS, "BP_CFG_TRACE": 64}
"""Rings of 256 and of 16 words."""


@pytest.fixture
def probed(boards: Boards) -> MemoryBoard:
    """A board whose clock stands at 1,000 until a test sets it."""
    return made(boards(PROBES))


def made(board: MemoryBoard) -> MemoryBoard:
    """Forget also what an earlier test has recorded with the same library."""
    board.hello()
    board.call("bp.trace_stop", EVENTS | STATISTICS)
    board.lib.test_forget()
    board.lib.test_cycles_step = 0
    board.lib.test_cycles = 1000
    return board


def library_of(board: MemoryBoard) -> Path:
    """Return the file that the agent was loaded from."""
    found = FFI()
    found.cdef("typedef struct { const char *file; void *base; const char *name; void *at; } info;")
    found.cdef("int dladdr(const void *address, info *out);")
    out: Any = found.new("info *")
    lib: Any = found.dlopen(None)
    own = board.ffi.cast("uintptr_t", board.ffi.addressof(board.lib, "test_mark"))
    assert lib.dladdr(found.cast("void *", int(own)), out) != 0
    text = found.string(out.file)
    assert isinstance(text, bytes)
    return Path(text.decode())


def numbers_of(board: MemoryBoard) -> dict[str, tuple[int, int]]:
    """Return kind and number of each name but the agent's, read from the file as SPEC.md says."""
    section = ELFFile(BytesIO(library_of(board).read_bytes())).get_section_by_name("bp_trace_names")
    assert section is not None
    found: dict[str, tuple[int, int]] = {}
    number = 16
    for entry in section.data().split(b"\0")[:-1]:
        name = entry[1:].decode("ascii")
        assert name not in found
        if not name.startswith("bp_"):
            found[name] = entry[0], number
        number += 2 if entry[0] in (1, 2) else 1
    return found


@dataclass
class Host:
    """The stream of a board, opened, and the words that came from it for each core."""

    board: MemoryBoard
    channel: int = 0
    bytes_: bytes = b""
    taken: int = 0
    words: dict[int, Words] = field(default_factory=dict)
    blocks: list[tuple[int, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Open it."""
        self.channel, _ = open_channel(self.board, self.board.names().index("bp.stream"))

    def drain(self) -> Host:
        """Take what there is, and acknowledge it."""
        while True:
            frames = self.board.exchange(ack(self.board, self.channel, self.taken, ALL))
            if not frames:
                return self
            self.take(frames)

    def take(self, frames: list[Frame]) -> None:
        """Take what these frames bring."""
        for frame in frames:
            assert frame.kind == FrameKind.DATA
            assert struct.unpack_from("<I", frame.body) == (self.taken & 0xFFFFFFFF,)
            self.bytes_ += frame.body[4:]
            self.taken += len(frame.body) - 4
        self._split()

    def _split(self) -> None:
        while len(self.bytes_) >= 28:
            head = struct.unpack_from("<BBHIIIIQ", self.bytes_)
            end = 28 + 4 * head[2]
            if len(self.bytes_) < end:
                return
            own = self.words.setdefault(head[0], [])
            assert head[3] == len(own)  # the sequence
            own += struct.unpack_from(f"<{head[2]}I", self.bytes_, 28)
            self.bytes_ = self.bytes_[end:]
            self.blocks.append(head)


def start(board: MemoryBoard, what: int = EVENTS, mode: int = DROP) -> int:
    now: int = board.call("bp.trace_start", what, mode)
    return now


# -- records ---------------------------------------------------------------------------------------


def test_nothing_is_recorded_until_the_host_asks(probed: MemoryBoard) -> None:
    probed.lib.test_mark()
    probed.lib.test_begin()
    probed.lib.test_end()
    host = Host(probed).drain()
    assert (host.words, host.blocks) == ({}, [])
    assert probed.call("bp.trace_slots", 0) == b""


def test_each_record_has_the_time_since_the_one_before_and_its_number(probed: MemoryBoard) -> None:
    lib, ids = probed.lib, numbers_of(probed)
    host = Host(probed)
    assert start(probed) == 1000
    steps: list[tuple[Callable[[], Any], list[int]]] = [
        (lib.test_mark, [0x1000 | ids["one_mark"][1]]),
        (lambda: lib.test_u32(0xFEDCBA98), [0x1000 | ids["one_u32"][1], 0xFEDCBA98]),
        (lambda: lib.test_i32(-2), [0x1000 | ids["one_i32"][1], 0xFFFFFFFE]),
        (lambda: lib.test_i8(-128), [0x1000 | ids["one_i8"][1], 0xFFFFFF80]),
        (lambda: lib.test_f32(1.5), [0x1000 | ids["one_f32"][1], 0x3FC00000]),
        (lib.test_begin, [0x1000 | ids["one_range"][1]]),
        (lib.test_end, [0x1000 | ids["one_range"][1] + 1]),
        (lambda: lib.test_scope(True), [0x1000 | (s := ids["one_scope"][1]), s + 1]),
        (lambda: lib.test_scope(False), [0x1000 | s, ids["one_mark"][1], s + 1]),
        (lib.test_isr_enter, [0x1000 | ids["one_isr"][1]]),
        (lib.test_isr_exit, [0x1000 | ids["one_isr"][1] + 1]),
        (lambda: lib.test_isr_number(15), [0x1001, 15, 0]),
        (lambda: lib.test_task(0x20001000), [0x1002, 0x20001000]),
        (lambda: lib.test_free(0x20002000), [0x1006, 0x20002000]),
    ]
    wanted: Words = []
    for probe, words in steps:
        lib.test_cycles += 16
        probe()
        wanted += words
    assert host.drain().words == {0: wanted}
    assert lib.test_lock_depth() == 0


def test_an_allocation_is_three_records_at_one_time(probed: MemoryBoard) -> None:
    host = Host(probed)
    start(probed)
    probed.lib.test_alloc(0x20002000, 24)
    words = host.drain().words[0]
    assert words[:5] == [3, 0x20002000, 4, 24, 5]
    assert len(words) == 6
    assert probed.lib.test_lock_depth() == 0


def test_the_kinds_of_names_are_those_of_their_values(probed: MemoryBoard) -> None:
    kinds = {name: kind for name, (kind, _) in numbers_of(probed).items() if name[:4] == "one_"}
    assert kinds == {
        "one_range": 1,
        "one_scope": 1,
        "one_isr": 2,
        "one_mark": 3,
        "one_u32": 4,
        "one_i32": 5,
        "one_i8": 5,
        "one_f32": 6,
    }


def test_a_name_in_two_files_has_one_number(probed: MemoryBoard) -> None:
    host = Host(probed)
    start(probed)
    probed.lib.test_shared()
    probed.lib.test_shared_elsewhere()
    number = numbers_of(probed)["shared"][1]
    assert host.drain().words == {0: [number, number]}


def test_each_of_600_names_has_its_own_number(probed: MemoryBoard) -> None:
    ids = numbers_of(probed)
    host = Host(probed)
    start(probed)
    for index in range(300):
        mark, value = ids[f"m{index:03}"][1], ids[f"v{index:03}"][1]
        probed.lib.test_cycles += 1
        probed.lib.test_many_mark(index)
        probed.lib.test_many_value(index, 70000 + index)
        before = len(host.words.get(0, []))
        host.drain()
        assert told(host.words[0][before:]) == [(mark, None), (value, 70000 + index)]
    assert host.blocks[-1][4] == 0
    assert (ids["m000"], ids["m299"], ids["v000"], ids["v299"]) == (
        (3, 33),
        (3, 332),
        (4, 333),
        (4, 632),
    )


def told(words: Words) -> list[tuple[int, int | None]]:
    """Return the numbers of marks and wide values, without LONG, which comes before some."""
    found: list[tuple[int, int | None]] = []
    rest = iter(words)
    for word in rest:
        number = word & 255
        if number == 11:
            assert next(rest) & 255 == 0
        elif number == 8:
            found.append((next(rest), None))
            assert found[-1][0] >= 256
        elif number == 9:
            found[-1] = found[-1][0], next(rest)
        else:
            found.append((number, None))
    return found


@pytest.mark.parametrize(
    ("gap", "words"),
    [
        (0xFFFFFF, [0xFFFFFF00]),
        (0x1000000, [0x0000000B, 1, 0]),
        (0x12345678, [0x3456780B, 0x12, 0]),
        (0xFFFFFFFF, [0xFFFFFF0B, 0xFF, 0]),
    ],
)
def test_a_gap_of_2_to_the_24_ticks_is_told_in_full(
    probed: MemoryBoard, gap: int, words: Words
) -> None:
    host = Host(probed)
    start(probed)
    probed.lib.test_cycles += gap
    probed.lib.test_mark()
    number = numbers_of(probed)["one_mark"][1]
    assert host.drain().words == {0: [*words[:-1], words[-1] | number]}


# -- the ring --------------------------------------------------------------------------------------


def test_events_without_room_are_dropped_and_told_where_they_are_missing(boards: Boards) -> None:
    board = made(boards(SMALL))
    host = Host(board)
    start(board)
    for value in range(10):
        board.lib.test_u32(value)
    # 16 words: LONG at the end of the lap needs two more.
    number = numbers_of(board)["one_u32"][1]
    kept = [word for value in range(8) for word in (number, value)]
    assert host.drain().words == {0: kept}
    assert [block[4] for block in host.blocks] == [2]
    board.lib.test_u32(10)
    assert host.drain().words == {0: [*kept, 10, 2, 11, 0, number, 10]}


def test_after_the_first_drop_of_stop_nothing_is_recorded(boards: Boards) -> None:
    board = made(boards(SMALL))
    host = Host(board)
    start(board, EVENTS | STATISTICS, STOP)
    for value in range(10):
        board.lib.test_u32(value)
    assert board.call("bp.trace")[5] == STATISTICS
    host.drain()
    board.lib.test_u32(11)
    words = host.drain().words[0]
    assert words[1::2] == [0, 1, 2, 3, 4, 5, 6, 7]
    assert host.blocks[-1][4] == 1


def test_a_second_start_begins_from_nothing(probed: MemoryBoard) -> None:
    start(probed)
    for value in range(300):
        probed.lib.test_u32(value)
    probed.lib.test_cycles = 5000
    assert start(probed) == 5000
    probed.lib.test_cycles = 5001
    probed.lib.test_mark()
    host = Host(probed).drain()
    assert host.words == {0: [0x100 | numbers_of(probed)["one_mark"][1]]}
    assert [block[4] for block in host.blocks] == [0]


def test_a_stop_before_any_start_does_nothing(boards: Boards) -> None:
    probed = made(boards({**PROBES, "BP_CFG_TRACE": 1032}))  # whose library no other test has
    probed.ffi.memmove(probed.lib.test_ring(), b"\xa5" * 64, 64)
    assert probed.call("bp.trace_stop", EVENTS) == 1000
    assert probed.call("bp.trace")[5] == 0
    assert Host(probed).drain().blocks == []


def test_an_empty_block_tells_that_recording_has_ended(probed: MemoryBoard) -> None:
    host = Host(probed)
    start(probed)
    probed.lib.test_mark()
    host.drain()
    result, *frames = probed.exchange(probed.frame(probed.names().index("bp.trace_stop"), EVENTS))
    host.take(frames)
    assert result.body == b"\xce\x00\x00\x03\xe8"
    assert [block[2] for block in host.blocks] == [1, 0]


def test_a_stream_that_opens_later_has_no_end_of_an_earlier_recording(probed: MemoryBoard) -> None:
    start(probed)
    assert probed.call("bp.trace_stop", EVENTS) == 1000
    assert Host(probed).drain().blocks == []


def test_an_empty_block_comes_before_the_clock_wraps_only_while_events_are_recorded(
    probed: MemoryBoard,
) -> None:
    host = Host(probed)
    start(probed)
    for _ in range(3):
        probed.lib.test_cycles += 0x20000000
        host.drain()
    assert [block[6] for block in host.blocks] == [0x200003E8, 0x400003E8, 0x600003E8]
    assert [block[2] for block in host.blocks] == [0, 0, 0]
    probed.hello(0x4321)
    probed.call("bp.trace_stop", EVENTS)
    probed.lib.test_cycles += 0x20000000
    assert Host(probed).drain().blocks == []


def test_recording_goes_on_when_the_session_ends(probed: MemoryBoard) -> None:
    Host(probed)
    start(probed)
    probed.hello(0x4321)
    probed.lib.test_mark()
    host = Host(probed).drain()
    assert probed.call("bp.trace")[5] == EVENTS
    assert len(host.words[0]) == 1


# -- statistics ------------------------------------------------------------------------------------


def slots(board: MemoryBoard) -> dict[int, tuple[int, ...]]:
    found: dict[int, tuple[int, ...]] = {}
    while data := board.call("bp.trace_slots", len(found)):
        for each in struct.iter_unpack("<IIIIIIQQ", data):
            found[each[0]] = each[1:]
    return found


def test_a_slot_has_count_least_most_sum_and_squares(probed: MemoryBoard) -> None:
    start(probed, STATISTICS)
    for ticks in (30, 70000, 7, 4_000_000_000):
        probed.lib.test_begin()
        probed.lib.test_cycles += ticks
        probed.lib.test_end()
    number = numbers_of(probed)["one_range"][1]
    squares = 900 + 4_900_000_000 + 49 + 16_000_000_000_000_000_000
    assert slots(probed)[number] == (4, 0, 0, 7, 4_000_000_000, 4_000_070_037, squares)


def test_squares_that_lose_a_carry_say_so(probed: MemoryBoard) -> None:
    start(probed, STATISTICS)
    for _ in range(2):
        probed.lib.test_begin()
        probed.lib.test_cycles += 4_000_000_000
        probed.lib.test_end()
    count, lost, flags, *_ = slots(probed)[numbers_of(probed)["one_range"][1]]
    assert (count, lost, flags) == (2, 0, 1)


def test_passes_that_overlap_are_lost_and_the_next_counts(probed: MemoryBoard) -> None:
    start(probed, STATISTICS)
    for probe in "((()))()":
        probed.lib.test_cycles += 5
        (probed.lib.test_begin if probe == "(" else probed.lib.test_end)()
    number = numbers_of(probed)["one_range"][1]
    assert slots(probed)[number] == (1, 3, 0, 5, 5, 5, 25)
    assert probed.lib.test_lock_depth() == 0


def test_a_range_that_was_open_at_the_start_is_left_out(probed: MemoryBoard) -> None:
    start(probed, STATISTICS)
    probed.lib.test_cycles += 5
    probed.lib.test_end()
    for _ in range(2):
        probed.lib.test_begin()
        probed.lib.test_cycles += 3
        probed.lib.test_end()
    number = numbers_of(probed)["one_range"][1]
    assert slots(probed)[number][:5] == (2, 0, 0, 3, 3)


# -- many events -----------------------------------------------------------------------------------


@pytest.mark.parametrize("events", [100_000, pytest.param(10_000_000, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("trace", [64, 72, 4096])
def test_drops_that_are_told_are_those_that_were_made(
    boards: Boards, events: int, trace: int
) -> None:
    board = made(boards({**CHANNELS, "BP_CFG_TRACE": trace, "BP_CFG_STREAM": 4096}))
    chance = random.Random(trace)
    host = Host(board)
    number = numbers_of(board)["flood"][1]
    checked = Checked(start(board), number)
    times = board.ffi.new("uint64_t[]", 5000)
    made_events = 0
    while made_events < events:
        count = min(chance.choice([1, 7, 100, trace // 8, trace, 3000]), events - made_events)
        board.lib.test_flood(made_events, count, chance.getrandbits(32), times)
        checked.truth += cast(list[int], board.ffi.unpack(times, count))
        made_events += count
        if chance.random() < 0.8:
            host.drain()
            checked.take(host)
    while checked.take(host.drain()):
        pass
    missing = events - checked.following
    assert checked.told + missing == host.blocks[-1][4]
    assert checked.told > events // 20
    assert checked.got + checked.told + missing == events


@pytest.mark.parametrize("events", [50_000, pytest.param(5_000_000, marks=pytest.mark.nightly)])
def test_two_cores_have_a_ring_each_and_drops_are_told_for_each(
    boards: Boards, events: int
) -> None:
    two = {**CHANNELS, "BP_CFG_TRACE": 4096, "BP_CFG_TRACE_CORES": 2, "BP_CFG_STREAM": 4096}
    board = made(boards(two))
    host = Host(board)
    number = numbers_of(board)["flood"][1]
    now = start(board)
    checked = [Checked(now, number), Checked(now, number)]
    times = [board.ffi.new("uint64_t[]", events) for _ in checked]

    def run(core: int) -> None:
        for first in range(0, events, 500):
            board.lib.test_core_flood(core, first, 500, times[core] + first)
            time.sleep(0.0002)

    threads = [threading.Thread(target=run, args=(core,)) for core in range(2)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        host.drain()
    for thread in threads:
        thread.join()
    while (before := host.taken) != host.drain().taken:
        pass
    assert before == host.taken
    for core, each in enumerate(checked):
        each.truth = cast(list[int], board.ffi.unpack(times[core], events))
        each.take(host, core, exact=False)
        last = [block for block in host.blocks if block[0] == core][-1]
        assert each.told + events - each.following == last[4]
        assert (each.got > 0, each.told > 0) == (True, True)
        assert each.got + last[4] == events


@dataclass
class Checked:
    """Compares records with what was recorded.

    Attributes:
        truth: the clock at each event.
        following: the next event, if none is dropped.
        told: dropped ones that records tell of.
    """

    now: int
    number: int
    truth: list[int] = field(default_factory=list)
    following: int = 0
    got: int = 0
    told: int = 0
    words: Words = field(default_factory=list)
    seen: int = 0

    def take(self, host: Host, core: int = 0, *, exact: bool = True) -> int:
        """Check what has come since; return how many words.

        If not ``exact``, another core may have advanced the clock between `truth` and the record.
        """
        new = host.words.get(core, [])[self.seen :]
        self.seen += len(new)
        self.words += new
        at = 0
        while at + 1 < len(self.words):
            word, value = self.words[at : at + 2]
            at += 2
            self.now += word >> 8
            if word & 255 == 10:
                assert word >> 8 == 0
                self.following += value
                self.told += value
            elif word & 255 == 11:
                self.now += (value & 255) << 24
            else:
                assert word & 255 == self.number
                assert value == self.following
                assert self.now == self.truth[value] if exact else self.now >= self.truth[value]
                if not exact and value + 1 < len(self.truth):
                    assert self.now <= self.truth[value + 1]
                self.following += 1
                self.got += 1
        del self.words[:at]
        return len(new)


# -- what a reset has left -------------------------------------------------------------------------


@pytest.fixture
def overwritten(boards: Boards) -> Iterator[MemoryBoard]:
    """A ring of 16 words that has wrapped, and its board after a reset."""
    board = made(boards(SMALL))
    start(board, EVENTS, OVERWRITE)
    for value in range(11):
        board.lib.test_cycles += 16
        board.lib.test_u32(value)
    yield board
    start(board)


def kept(board: MemoryBoard) -> tuple[int, int, int, int, bytes] | None:
    data = board.call("bp.trace_kept", 0)
    if data is None:
        return None
    found: tuple[int, int, int, int, bytes] = struct.unpack("<IIII8s", data)
    return found


def test_the_newest_records_are_there_after_a_reset(overwritten: MemoryBoard) -> None:
    board = overwritten
    board.lib.test_boot()
    board.hello()
    found = kept(board)
    assert found is not None
    size, at, written, last, build_id = found
    assert (size, at, written, last) == (16, 6, 22, 1176)
    assert build_id == bytes(range(1, 9))  # that of tests/c/firmware.c
    words = struct.unpack("<16I", board.call("bp.trace_read", 0, 0, 16))
    assert [words[i] for i in (7, 9, 11, 13, 15, 1, 3, 5)] == [3, 4, 5, 6, 7, 8, 9, 10]
    assert {word for word in words[::2]} == {0x1000 | numbers_of(board)["one_u32"][1]}
    assert board.call("bp.trace")[5] == 0


def test_a_wide_number_and_a_long_time_are_in_an_overwritten_ring(boards: Boards) -> None:
    board = made(boards(SMALL))
    start(board, EVENTS, OVERWRITE)
    board.lib.test_cycles += 0x2000010
    board.lib.test_many_value(299, 5)
    found = kept(board)
    assert found is not None
    assert found[1:4] == (6, 6, 1000 + 0x2000010)
    number = numbers_of(board)["v299"][1]
    words = struct.unpack("<6I", board.call("bp.trace_read", 0, 0, 6))
    assert words == (0x100B, 2, 8, number, 9, 5)


def test_calibration_leaves_a_ring_that_can_be_read(overwritten: MemoryBoard) -> None:
    right = kept(overwritten)  # and events have stopped
    overwritten.call("bp.trace_calibrate")
    assert kept(overwritten) == right
    start(overwritten, EVENTS, OVERWRITE)
    overwritten.call("bp.trace_calibrate")
    found = kept(overwritten)
    assert found is not None
    assert found[3] == overwritten.lib.test_cycles


def test_calibration_on_two_cores_records_all_its_probes(boards: Boards) -> None:
    board = made(boards({**PROBES, "BP_CFG_TRACE_CORES": 2}))
    host = Host(board)
    start(board)
    board.call("bp.trace_calibrate")
    assert len(host.drain().words[0]) == 8 * (2 + 2 + 4 + 4)


def test_statistics_on_two_cores_are_refused(boards: Boards) -> None:
    board = made(boards({**PROBES, "BP_CFG_TRACE_CORES": 2}))
    with pytest.raises(BoardError) as error:
        start(board, STATISTICS)
    assert error.value.code == ErrorCode.UNSUPPORTED


def test_one_wrong_bit_in_the_words_is_refused(overwritten: MemoryBoard) -> None:
    words = overwritten.lib.test_words()
    for bit in range(16 * 32):
        words[bit // 8] ^= 1 << bit % 8
        assert kept(overwritten) is None, bit
        words[bit // 8] ^= 1 << bit % 8
    assert kept(overwritten) is not None


def test_one_wrong_bit_in_the_state_is_refused_or_does_not_matter(overwritten: MemoryBoard) -> None:
    ring, right = overwritten.lib.test_ring(), kept(overwritten)
    refused = 0
    for bit in range(overwritten.lib.test_ring_size() * 8):
        ring[bit // 8] ^= 1 << bit % 8
        found = kept(overwritten)
        assert found in (None, right), bit
        refused += found is None
        ring[bit // 8] ^= 1 << bit % 8
    assert refused > 200
    assert kept(overwritten) == right


@pytest.mark.parametrize("mode", [DROP, STOP])
def test_a_ring_that_was_not_overwritten_is_not_kept(probed: MemoryBoard, mode: int) -> None:
    start(probed, EVENTS, mode)
    probed.lib.test_mark()
    assert kept(probed) is None


def test_words_beyond_the_ring_are_refused(probed: MemoryBoard) -> None:
    with pytest.raises(BoardError) as error:
        probed.call("bp.trace_read", 0, 200, 57)
    assert error.value.code == ErrorCode.ARG_RANGE
    with pytest.raises(BoardError):
        probed.call("bp.trace_read", 1, 0, 1)
