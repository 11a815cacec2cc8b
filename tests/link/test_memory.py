# SPDX-License-Identifier: Apache-2.0
"""Large blocks and streams of the real agent, over good lines and bad ones."""

from __future__ import annotations

import random
import shutil
import struct
import time
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from boardprof.base.errors import (
    BoardTimeoutError,
    DeviceResetError,
    FrameError,
    RpcError,
    UsageError,
)
from boardprof.measure.board.board import Board
from boardprof.measure.connect import connect
from boardprof.target.arguments.passing import Block
from boardprof.target.descriptions.board import BoardSpec, board_spec, load_board
from boardprof_protocol.codes import ErrorCode, FrameKind
from boardprof_protocol.frame import BadFrame, cobs_encode, decode_frame
from tests.firmware import build
from tests.link.peers import Change, FaultyLine, running_agent
from tests.memory_board import CHANNELS
from tests.memory_session import MemoryLine, altered, connected
from tests.support import awake

STREAM = Path(__file__).parent / "fixtures" / "stream.c"
MIB = 1 << 20


def noise(size: int) -> bytes:
    return random.Random(size).randbytes(size)


CONTENTS = [
    pytest.param(noise(MIB), id="noise"),
    pytest.param(bytes(MIB), id="zeros"),
    pytest.param(b"\0a" * (MIB // 2), id="every other a zero"),
    pytest.param(b"\1" * MIB, id="ones"),
]


@pytest.fixture(scope="module")
def linux() -> Iterator[Board]:
    with connect("linux", image=build(board_spec("linux"), [STREAM]).image) as board:
        yield board


def small_board(folder: Path, mtu: int) -> BoardSpec:
    """Return the linux board with frames of up to ``mtu`` bytes and no more room to receive."""
    copy = folder / "linux"
    shutil.copytree(board_spec("linux").folder, copy)
    file = copy / "board.toml"
    text = file.read_text()
    for old, new in (("mtu = 65535", mtu), ("bulk = 65535", mtu), ("rx_bytes = 262144", mtu)):
        assert old in text
        text = text.replace(old, f"{old.partition(' ')[0]} = {new}")
    file.write_text(text)
    return load_board(copy)


# -- blocks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("content", CONTENTS)
def test_a_mebibyte_goes_there_and_comes_back(linux: Board, content: bytes) -> None:
    block = linux.memory.alloc(MIB)
    linux.memory.write(block, content)
    assert linux.memory.read(block) == content
    assert linux.memory.read(block, MIB - 7, 7) == content[7:]
    linux.memory.free(block)


@pytest.mark.parametrize("mtu", [64, 4096])
def test_boards_with_small_frames_take_and_give_large_blocks(tmp_path: Path, mtu: int) -> None:
    content = noise(50_000)
    with connect(small_board(tmp_path, mtu)) as board:
        block = board.memory.alloc(50_000)
        board.memory.write(block, content)
        assert board.memory.read(block) == content
        board.memory.write(block, b"in the middle" * 1000, offset=1)
        assert board.memory.read(block) == content[:1] + b"in the middle" * 1000 + content[13_001:]
        assert board.session.requests.naks == 0, "no byte was lost"


def test_the_first_transfer_of_a_session_brings_the_frames_codec_in_c() -> None:
    with connect("native") as board:
        assert board.session.requests.decoder.cobs.encode is cobs_encode
        block = board.memory.alloc(MIB)
        board.memory.write(block, bytes(MIB))
        assert board.session.requests.decoder.cobs.encode is not cobs_encode


def test_progress_is_told_in_bytes_and_ends_with_all(linux: Board) -> None:
    told: list[tuple[int, int]] = []
    block = linux.memory.alloc(MIB)
    linux.memory.write(block, bytes(MIB), on_progress=lambda *where: told.append(where))
    assert told[-1] == (MIB, MIB)
    assert [done for done, _ in told] == sorted({done for done, _ in told})
    told.clear()
    linux.memory.read(block, on_progress=lambda *where: told.append(where))
    assert told[-1] == (MIB, MIB)
    told.clear()
    linux.memory.read(block, 10, on_progress=lambda *where: told.append(where))
    assert told == [(10, 10)]
    linux.memory.free(block)


def test_what_lies_outside_of_the_block_is_refused_and_the_next_works(linux: Board) -> None:
    block = linux.memory.alloc(MIB)
    longer = Block(block.handle, MIB + 1)  # or the host itself would refuse it
    with pytest.raises(RpcError, match="outside the block") as caught:
        linux.memory.write(longer, bytes(MIB), offset=1)
    assert caught.value.code == ErrorCode.BAD_OFFSET
    with pytest.raises(RpcError, match="outside the block"):
        linux.memory.read(longer, MIB, 1)
    linux.memory.write(block, bytes(MIB))
    linux.memory.free(block)


@pytest.mark.parametrize(
    ("offset", "message"),
    [
        (95, "10 bytes from offset 95 exceed the block of 100 bytes."),
        (2**40, "10 bytes from offset 1,099,511,627,776 exceed the block of 100 bytes."),
        (-1, "10 bytes from offset -1 exceed the block of 100 bytes."),
        (1.5, "offset=1.5 is not a whole number."),
        ("3", "offset='3' is not a whole number."),
    ],
)
def test_what_is_not_within_the_block_is_refused_before_it_is_sent(
    linux: Board, offset: Any, message: str
) -> None:
    block = linux.memory.alloc(100)
    for refused in (
        lambda: linux.memory.write(block, bytes(10), offset),
        lambda: linux.memory.read(block, 10, offset),
    ):
        with pytest.raises(UsageError) as caught:
            refused()
        assert caught.value.message == message
    linux.memory.free(block)


def test_what_is_no_block_no_size_or_no_data_is_refused(linux: Board) -> None:
    memory: Any = linux.memory
    block = memory.alloc(8)
    for refused in (
        lambda: memory.read(12345),
        lambda: memory.write(12345, b"x"),
        lambda: memory.free(12345),
    ):
        with pytest.raises(UsageError, match=r"12345 is not a block\."):
            refused()
    with pytest.raises(UsageError, match="'text' cannot be written to a block"):
        memory.write(block, "text")
    with pytest.raises(UsageError, match="8 cannot be written to a block"):
        memory.write(block, 8)
    with pytest.raises(UsageError, match=r"size='8' is not a whole number\."):
        memory.read(block, "8")
    with pytest.raises(UsageError, match=r"size='8' is not a whole number\."):
        memory.alloc("8")
    memory.write(block, array("i", [1, 2]))
    assert memory.read(block) == b"\1\0\0\0\2\0\0\0"
    memory.free(block)


def test_an_interrupted_transfer_leaves_the_session_usable(linux: Board) -> None:
    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    block = linux.memory.alloc(4 * MIB)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            linux.memory.write(block, bytes(4 * MIB), on_progress=interrupt)
        assert linux.functions.emit(0) == 0
        with pytest.raises(KeyboardInterrupt):
            linux.memory.read(block, on_progress=interrupt)
    content = noise(MIB)
    linux.memory.write(block, content)
    assert linux.memory.read(block, MIB) == content
    linux.memory.free(block)


# -- bad lines --------------------------------------------------------------------------------


def kind_of(frame: bytes) -> int:
    try:
        return decode_frame(frame.strip(b"\0")).kind
    except BadFrame:
        return -1


def drop(frame: bytes) -> bytes:
    return b""


def flip(frame: bytes) -> bytes:
    middle = len(frame) // 2
    return frame[:middle] + bytes([frame[middle] ^ 1 or 3]) + frame[middle + 1 :]


def twice(frame: bytes) -> bytes:
    return 2 * frame


def printed_around(frame: bytes) -> bytes:
    return b"heap: 71%\n" + frame + b"heap: 72%\n"


def nth(number: int, kinds: tuple[FrameKind, ...], change: Change) -> Change:
    """Return what changes the frame of that number among those of ``kinds``."""
    seen = 0

    def change_it(frame: bytes) -> bytes:
        nonlocal seen
        seen += kind_of(frame) in kinds
        return change(frame) if kind_of(frame) in kinds and seen == number else frame

    return change_it


class BadLine(FaultyLine):
    """A line that changes each frame by ``bad``, in either direction."""

    bad: Change | None = None

    def _run(self) -> None:
        def change(frame: bytes) -> bytes:
            self.change_request(change)
            self.change_reply(change)
            return frame if self.bad is None else self.bad(frame)

        self.change_request(change)
        self.change_reply(change)
        super()._run()


@pytest.fixture(scope="module")
def slow_mtu(tmp_path_factory: pytest.TempPathFactory) -> BoardSpec:
    """A board with frames of 1 KiB, so that a block takes many."""
    return small_board(tmp_path_factory.mktemp("board"), 1024)


@pytest.mark.parametrize("fault", [drop, flip, twice, printed_around])
@pytest.mark.parametrize("number", [1, 2, 7, 17, 18])
def test_a_fault_in_a_transfer_costs_time_and_nothing_else(
    slow_mtu: BoardSpec, fault: Change, number: int
) -> None:
    content = noise(16_000)
    with (
        running_agent(spec=slow_mtu) as (_, port),
        BadLine(port) as line,
        connect(slow_mtu, line.port, timeout_s=5.0) as board,
    ):
        block = board.memory.alloc(len(content))
        for kinds in ((FrameKind.DATA,), (FrameKind.ACK,), (FrameKind.RESULT,)):
            line.bad = nth(number, kinds, fault)
            with awake() as elapsed_s:
                board.memory.write(block, content)
                line.bad = nth(number, kinds, fault)
                assert board.memory.read(block) == content
                assert elapsed_s() < 3.0


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_line_that_loses_and_damages_a_tenth_still_carries_a_block(
    slow_mtu: BoardSpec, seed: int
) -> None:
    chance = random.Random(seed)

    def bad(frame: bytes) -> bytes:
        return chance.choice([drop, flip])(frame) if chance.random() < 0.1 else frame

    content = noise(64_000)
    with (
        running_agent(spec=slow_mtu) as (_, port),
        BadLine(port) as line,
        connect(slow_mtu, line.port, timeout_s=20.0) as board,
    ):
        block = board.memory.alloc(len(content))
        line.bad = bad
        board.memory.write(block, content)
        assert board.memory.read(block) == content


def test_a_board_that_falls_silent_is_given_up_with_how_far_it_came() -> None:
    with (
        running_agent() as (_, port),
        BadLine(port) as line,
        connect("linux", line.port, timeout_s=1.0) as board,
    ):
        board.session.timeout_s = 1.0  # without what a guarded call is given beside
        block = board.memory.alloc(4 * MIB)
        seen = 0

        def cut(frame: bytes) -> bytes:
            nonlocal seen
            seen += kind_of(frame) == FrameKind.DATA
            return b"" if seen > 4 else frame

        line.bad = cut
        begin = time.monotonic()
        with (
            awake() as elapsed_s,
            pytest.raises(BoardTimeoutError, match=r"bp\.download for 1 s after \d+ of 4194304 b"),
        ):
            board.memory.read(block)
        assert time.monotonic() - begin >= 1.0
        assert elapsed_s() < 3.0
        line.bad = None
        board.memory.free(block)


def test_a_board_that_was_reset_in_a_transfer_says_so() -> None:
    with (
        running_agent() as (first, port),
        running_agent() as (_, other),
        BadLine(port) as line,
        connect("linux", line.port, timeout_s=10.0) as board,
    ):
        block = board.memory.alloc(4 * MIB)
        seen = 0

        def reset(frame: bytes) -> bytes:
            nonlocal seen
            seen += kind_of(frame) == FrameKind.DATA
            if seen == 3:
                first.kill()
                line.reconnect(other)
                seen += 1
            return frame

        line.bad = reset
        with awake() as elapsed_s:
            with pytest.raises(DeviceResetError, match=r"was reset during bp\.download") as caught:
                board.memory.read(block)
            assert "look at its power supply, its watchdog" in str(caught.value)
            assert elapsed_s() < 5.0


# -- streams ----------------------------------------------------------------------------------


def numbers(content: bytes) -> list[int]:
    return [number for (number,) in struct.iter_unpack("<I", content)]


def test_a_stream_brings_what_the_functions_write_beside_their_results(linux: Board) -> None:
    with linux.stream() as stream:
        first = linux.functions.emit(3)
        assert linux.functions.emit(2) == 2
        assert first == 3
        content = b""
        while len(content) < 20:
            content += stream.read(5.0)
    begin = numbers(content)[0]
    assert numbers(content) == [begin, begin + 1, begin + 2, begin + 3, begin + 4]
    assert stream.dropped == 0


def test_a_stream_that_nobody_reads_drops_whole_records_and_says_how_many(linux: Board) -> None:
    with linux.stream() as stream:
        taken = sum(linux.functions.emit(10_000) for _ in range(10))
        content = b"".join(stream)
    content += b"".join(stream)
    assert len(content) == 4 * taken
    assert stream.dropped == 4 * (100_000 - taken)
    assert numbers(content) == sorted(set(numbers(content)))


def test_a_stream_is_quiet_until_something_is_written(linux: Board) -> None:
    with linux.stream(timeout_s=0.05) as stream, awake() as elapsed_s:
        begin = time.monotonic()
        assert stream.read(0.2) == b""
        assert time.monotonic() - begin >= 0.2
        assert elapsed_s() < 1.0
        assert list(stream) == []
        assert stream.read(0) == b""
    assert stream.read() == b""
    stream.close()


def test_one_channel_at_a_time_and_memory_goes_on_by_calls(linux: Board) -> None:
    block = linux.memory.alloc(MIB)
    content = noise(MIB)
    with linux.stream():
        with pytest.raises(UsageError, match="A stream of the board is already open"):
            linux.stream()
        linux.memory.write(block, content)
        assert linux.memory.read(block) == content
    assert linux.memory.read(block) == content
    linux.memory.free(block)


# -- in memory, where each frame is seen and only waiting takes time ---------------------------

LONG = {**CHANNELS, "BP_CFG_MTU": 4096, "BP_CFG_BULK": 4096, "BP_CFG_ARENA": 32768}


def acks(line: MemoryLine) -> list[tuple[int, int, int]]:
    """Return offset, credit and flags of the host's ACKs."""
    bodies = [frame.body for frame in line.sent if frame.kind == FrameKind.ACK]
    return [struct.unpack("<IIB", body) for body in bodies]


@pytest.mark.parametrize(("byte_time_s", "credit"), [(0.0, 1_048_576), (1e-5, 16_384)])
def test_a_line_with_a_rate_has_less_on_its_way_and_neither_loses_time(
    byte_time_s: float, credit: int
) -> None:
    board, _, line = connected(LONG, byte_time_s=byte_time_s)
    block = board.memory.alloc(30_000)
    line.sent.clear()
    began_s = line.now_s
    board.memory.write(block, noise(30_000))
    assert board.memory.read(block) == noise(30_000)
    assert line.now_s - began_s < 1.0
    given = acks(line)
    assert {each for _, each, _ in given} == {credit}
    assert {flags for *_, flags in given} == {0}, "nothing was asked for twice"
    offsets = [frame.body[:4] for frame in line.sent if frame.kind == FrameKind.DATA]
    assert len(offsets) == len(set(offsets)), "nothing was sent twice"


@pytest.mark.parametrize(("lost", "asked"), [(2, 0), (3, 1), (6, 2)])
def test_the_board_is_asked_whether_it_knows_the_session_after_three_time_outs_and_six(
    lost: int, asked: int
) -> None:
    board, _, line = connected(LONG, byte_time_s=1e-5)
    block = board.memory.alloc(30_000)
    board.memory.write(block, noise(30_000))
    left = lost

    def lossy(data: bytes) -> bytes:
        nonlocal left
        is_data = kind_of(data[: data.find(b"\0", 1) + 1]) == FrameKind.DATA
        left -= is_data
        return b"" if is_data and left >= 0 else data

    line.sent.clear()
    line.change = lossy
    assert board.memory.read(block) == noise(30_000)
    kinds = [frame.kind for frame in line.sent]
    # Besides the calls that open the channel and close it.
    assert kinds.count(FrameKind.CALL) == 2 + asked


def replies_changed(right: bytes, wrong: bytes) -> Callable[[bytes], bytes]:
    """Return a change of what a board sends: each reply of this body gets another one."""
    return altered(lambda each: each._replace(body=wrong) if each.body == right else each)


def test_a_stream_may_have_64_kib_on_its_way() -> None:
    board, _, line = connected(LONG)
    with board.stream(timeout_s=0.1) as stream:
        board.session.invoke(board.dictionary.function("record").id, "record", b"abc")
        assert stream.read() == b"abc"
    assert stream.dropped == 0
    assert {credit for _, credit, _ in acks(line)} == {65_536}


def test_a_stream_that_did_not_come_as_it_was_sent_is_an_error_when_it_is_closed() -> None:
    board, _, line = connected(LONG)
    stream = board.stream(timeout_s=0.1)
    board.session.invoke(board.dictionary.function("record").id, "record", b"abc")
    assert stream.read() == b"abc"
    # What bp.finish returns: three bytes, CRC-32 0x352441c2, none dropped.
    line.change = replies_changed(b"\x93\x03\xce\x35\x24\x41\xc2\0", b"\x93\3\xce\0\0\0\1\0")
    with pytest.raises(FrameError, match=r"^The stream's data differs from what the board sent"):
        stream.close()


@pytest.mark.parametrize("wrong", [b"\xc4\x02ab", b"\xc4\x04abcd", b"\xa3abc", b"\x93\1\2\3"])
def test_what_is_not_as_many_bytes_as_were_asked_for_is_refused(wrong: bytes) -> None:
    board, _, line = connected(LONG)
    block = board.memory.alloc(16)
    board.memory.write(block, b"xyzabc")
    assert board.memory.read(block, 3, 3) == b"abc"
    line.change = replies_changed(b"\xc5\0\3abc", wrong)
    with pytest.raises(FrameError, match=r"^bp\.read returned .*, not 3 bytes\."):
        board.memory.read(block, 3, 3)
