# SPDX-License-Identifier: Apache-2.0
"""The real C agent's channels: blocks both ways, streams, what is lost; CANCEL; bp.clock."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import pytest

from boardprof_protocol.codes import AckFlag, FrameKind
from boardprof_protocol.frame import Frame, encode_frame
from boardprof_protocol.messages import WELCOME
from tests.memory_board import CHANNELS, BoardError, MemoryBoard, read_frames
from tests.protocol.channel_host import (
    ALL,
    Line,
    ack,
    acks,
    data,
    download,
    noise,
    open_channel,
    upload,
)

Boards = Callable[[dict[str, int]], MemoryBoard]

ALLOC, FREE, READ, WRITE, DOWNLOAD, UPLOAD, FINISH, STREAM, CLOCK = range(2, 11)
ECHO, RECORD = 24, 30
SHORT = {**CHANNELS, "BP_CFG_MTU": 64, "BP_CFG_BULK": 64}
LONG = {**CHANNELS, "BP_CFG_MTU": 4096, "BP_CFG_BULK": 4096, "BP_CFG_ARENA": 32768}
LONG["BP_CFG_CRC_TABLE"] = 8
# Bytes of content in the longest frame: the MTU without 2 delimiters, COBS's codes, 11 and 4.
FULLEST = {64: 64 - 2 - 1 - 11 - 4, 4096: 4096 - 2 - 17 - 11 - 4}
CONFIGS = {64: SHORT, 4096: LONG}


@pytest.fixture
def short(boards: Boards) -> MemoryBoard:
    """An agent with an MTU of 64, in a session."""
    board = boards(SHORT)
    board.hello()
    return board


def filled(board: MemoryBoard, content: bytes) -> int:
    """Return a block with this content, written in small pieces."""
    block = board.call(ALLOC, len(content))
    for at in range(0, len(content), 32):
        board.call(WRITE, block, at, content[at : at + 32])
    return int(block)


def content_of(board: MemoryBoard, block: int, length: int) -> bytes:
    """Return a block's first bytes, read in small pieces."""
    ats = range(0, length, 32)
    return b"".join(board.call(READ, block, at, min(32, length - at)) for at in ats)


### Whole blocks ###


@pytest.mark.parametrize("mtu", [64, 4096])
@pytest.mark.parametrize("frames", [0, 1, 3])
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_what_is_uploaded_is_downloaded_again(
    boards: Boards, mtu: int, frames: int, more: int
) -> None:
    length = max(1, frames * FULLEST[mtu] + more)
    content = noise(length)
    board = boards(CONFIGS[mtu])
    board.hello()
    block = board.call(ALLOC, length + 2)
    channel, first = open_channel(board, UPLOAD, block, 1, length)
    upload(board, channel, first, content, mtu, Line())
    assert board.call(FINISH, channel) == [length, zlib.crc32(content), 0]
    assert content_of(board, block, length + 1)[1:] == content
    channel, first = open_channel(board, DOWNLOAD, block, 1, length)
    assert first == []
    assert download(board, channel, length, ALL, Line()) == content
    assert board.call(FINISH, channel) == [length, zlib.crc32(content), 0]


@pytest.mark.parametrize("byte", [0, 1, 0xFF])
def test_bytes_that_cobs_cares_about_survive(boards: Boards, byte: int) -> None:
    board = boards(LONG)
    board.hello()
    content = bytes([byte]) * 9000 + bytes([byte, 0]) * 300 + bytes([byte]) * 254
    block = board.call(ALLOC, len(content))
    channel, first = open_channel(board, UPLOAD, block, 0, len(content))
    upload(board, channel, first, content, 4096, Line())
    board.call(FINISH, channel)
    channel, _ = open_channel(board, DOWNLOAD, block, 0, len(content))
    assert download(board, channel, len(content), ALL, Line()) == content


### What a line does ###

LENGTH = 10 * FULLEST[64] + 7
FAULTS = ["lost", "doubled", "late"]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("to_board", [True, False], ids=["data", "acks"])
@pytest.mark.parametrize("credit", [64, 256])
def test_an_upload_survives_a_fault_at_every_position(
    boards: Boards, fault: str, to_board: bool, credit: int
) -> None:
    board = boards({**SHORT, "BP_CFG_RX_BYTES": credit})
    board.hello()
    content = noise(LENGTH)
    block = board.call(ALLOC, LENGTH)
    for position in range(11):
        line = Line.with_fault(fault, to_board, position)
        channel, first = open_channel(board, UPLOAD, block, 0, LENGTH)
        upload(board, channel, first, content, 64, line)
        assert line.frames[to_board] >= 11
        assert board.call(FINISH, channel) == [LENGTH, zlib.crc32(content), 0]
        assert content_of(board, block, LENGTH) == content
        board.call(WRITE, block, 0, bytes(40))


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("to_board", [False, True], ids=["data", "acks"])
@pytest.mark.parametrize("credit", [64, 200, ALL])
def test_a_download_survives_a_fault_at_every_position(
    short: MemoryBoard, fault: str, to_board: bool, credit: int
) -> None:
    content = noise(LENGTH)
    block = filled(short, content)
    for position in range(11):
        channel, _ = open_channel(short, DOWNLOAD, block, 0, LENGTH)
        line = Line.with_fault(fault, to_board, position)
        assert download(short, channel, LENGTH, credit, line) == content
        assert short.call(FINISH, channel) == [LENGTH, zlib.crc32(content), 0]


### Board to host: what may be on the way ###


def sent(frames: list[Frame]) -> list[tuple[int, int]]:
    """Return offset and length of the content of each DATA frame."""
    assert all(frame.kind == FrameKind.DATA for frame in frames)
    return [(int.from_bytes(f.body[:4], "little"), len(f.body) - 4) for f in frames]


def test_nothing_is_sent_before_the_first_ack_and_nothing_behind_the_end(
    short: MemoryBoard,
) -> None:
    channel, more = open_channel(short, DOWNLOAD, filled(short, noise(100)), 10, 80)
    assert more == []
    assert short.send(b"") == b""
    frames = short.exchange(ack(short, channel, 0, ALL))
    assert sent(frames) == [(0, 46), (46, 34)]
    assert b"".join(f.body[4:] for f in frames) == noise(100)[10:90]
    assert all(len(encode_frame(frame)) <= 64 for frame in frames)


@pytest.mark.parametrize(
    ("credit", "frames"),
    [
        (0, []),
        (18, []),
        (19, [(0, 1)]),
        (63, [(0, 45)]),
        (64, [(0, 46)]),
        (82, [(0, 46)]),
        (128, [(0, 46), (46, 46)]),
        # Not even two bytes more: less than half of the credit is left.
        (150, [(0, 46), (46, 46)]),
    ],
)
def test_no_more_is_on_the_way_than_the_credit_allows(
    short: MemoryBoard, credit: int, frames: list[tuple[int, int]]
) -> None:
    channel, _ = open_channel(short, DOWNLOAD, filled(short, b"\x55" * 900), 0, 900)
    assert sent(short.exchange(ack(short, channel, 0, credit))) == frames


def test_an_ack_makes_room_for_the_frames_that_begin_before_it(short: MemoryBoard) -> None:
    channel, _ = open_channel(short, DOWNLOAD, filled(short, b"\x55" * 900), 0, 900)
    assert sent(short.exchange(ack(short, channel, 0, 192))) == [(0, 46), (46, 46), (92, 46)]
    assert sent(short.exchange(ack(short, channel, 0, 192))) == []
    assert sent(short.exchange(ack(short, channel, 46, 192))) == [(138, 46)]
    # Half a frame has been taken: that frame is no longer on the way.
    assert sent(short.exchange(ack(short, channel, 47, 192))) == [(184, 46)]
    assert sent(short.exchange(ack(short, channel, 230, 192))) == [(230, 46), (276, 46), (322, 46)]


def test_resend_goes_back_to_what_is_missing(short: MemoryBoard) -> None:
    channel, _ = open_channel(short, DOWNLOAD, filled(short, b"\x55" * 300), 0, 300)
    short.exchange(ack(short, channel, 0, 192))
    again = short.exchange(ack(short, channel, 46, 128, AckFlag.RESEND))
    assert sent(again) == [(46, 46), (92, 46)]
    # What it had sent before may still arrive.
    assert sent(short.exchange(ack(short, channel, 138, 128))) == [(138, 46), (184, 46)]


def test_what_the_host_took_before_it_asked_again_is_not_sent_again(short: MemoryBoard) -> None:
    channel, _ = open_channel(short, DOWNLOAD, filled(short, b"\x55" * 900), 0, 900)
    short.exchange(ack(short, channel, 0, 256))
    assert sent(short.exchange(ack(short, channel, 0, 64, AckFlag.RESEND))) == [(0, 46)]
    assert sent(short.exchange(ack(short, channel, 184, 64))) == [(184, 46)]


def test_acks_of_what_was_never_sent_or_acknowledged_before_are_ignored(
    short: MemoryBoard,
) -> None:
    channel, _ = open_channel(short, DOWNLOAD, filled(short, b"\x55" * 900), 0, 900)
    short.exchange(ack(short, channel, 0, 128))
    short.exchange(ack(short, channel, 46, 128))
    for offset in (0, 45, 139, 900, 0x80000000, 0xFFFFFFFF):
        for flags in (0, AckFlag.RESEND):
            assert short.exchange(ack(short, channel, offset, ALL, flags)) == []
    assert short.call(FINISH, channel) == [138, zlib.crc32(b"\x55" * 138), 0]


@pytest.mark.parametrize("length", [0, 8])
def test_an_ack_that_is_cut_short_is_ignored_and_a_longer_one_is_taken(
    short: MemoryBoard, length: int
) -> None:
    channel, _ = open_channel(short, DOWNLOAD, filled(short, b"\x55" * 40), 0, 40)
    whole = ack(short, channel, 0, 64)
    cut = Frame(whole.kind, whole.session, whole.sequence, whole.body[:length])
    assert short.exchange(cut) == []
    longer = Frame(whole.kind, whole.session, whole.sequence, whole.body + b"later")
    assert sent(short.exchange(longer)) == [(0, 40)]


### Host to board ###


def test_the_first_ack_comes_behind_the_result_and_again_behind_its_duplicate(
    short: MemoryBoard,
) -> None:
    call = short.frame(UPLOAD, short.call(ALLOC, 100), 0, 100)
    call = Frame(call.kind, call.session, short.sequence + 1, call.body)
    short.sequence += 1
    for _ in range(2):
        result, first = short.exchange(call)
        assert (result.kind, result.body) == (FrameKind.RESULT, b"\xc0")
        assert acks([first]) == [(0, 64, 0)]


def test_each_data_is_acknowledged_with_the_lines_buffer_as_credit(boards: Boards) -> None:
    board = boards({**SHORT, "BP_CFG_RX_BYTES": 1000})
    board.hello()
    channel, first = open_channel(board, UPLOAD, board.call(ALLOC, 100), 0, 100)
    assert acks(first) == [(0, 1000, 0)]
    frames = [data(board, channel, at, bytes(10)) for at in (0, 10, 20)]
    assert acks(board.exchange(*frames)) == [(10, 1000, 0), (20, 1000, 0), (30, 1000, 0)]


def test_a_gap_is_asked_for_once_and_the_next_gap_again(short: MemoryBoard) -> None:
    channel, _ = open_channel(short, UPLOAD, short.call(ALLOC, 100), 0, 100)
    assert acks(short.exchange(data(short, channel, 10, b"1"))) == [(0, 64, 1)]
    assert short.exchange(data(short, channel, 11, b"1"), data(short, channel, 12, b"1")) == []
    assert acks(short.exchange(data(short, channel, 0, b"0"))) == [(1, 64, 0)]
    assert acks(short.exchange(data(short, channel, 2, b"2"))) == [(1, 64, 1)]


def test_what_the_board_has_already_is_acknowledged_again_and_not_stored(
    short: MemoryBoard,
) -> None:
    block = short.call(ALLOC, 4)
    channel, _ = open_channel(short, UPLOAD, block, 0, 4)
    assert acks(short.exchange(data(short, channel, 0, b"abcd"))) == [(4, 64, 0)]
    assert acks(short.exchange(data(short, channel, 0, b"xyz"))) == [(4, 64, 0)]
    assert acks(short.exchange(data(short, channel, 3, b"x"))) == [(4, 64, 0)]
    assert short.call(FINISH, channel) == [4, zlib.crc32(b"abcd"), 0]
    assert short.call(READ, block, 0, 4) == b"abcd"


@pytest.mark.parametrize(
    ("offset", "length"),
    [(0, 11), (10, 1), (5, 6), (11, 1), (0x7FFFFFFF, 1), (0xFFFFFFFF, 1), (0xFFFFFFF8, 9), (0, 0)],
)
def test_data_behind_the_blocks_end_are_ignored(
    short: MemoryBoard, offset: int, length: int
) -> None:
    block = filled(short, b"before" * 4)
    channel, _ = open_channel(short, UPLOAD, block, 4, 10)
    assert short.exchange(data(short, channel, offset, b"x" * length)) == []
    assert content_of(short, block, 24) == b"before" * 4
    # It was no gap either: the next one is asked for.
    assert acks(short.exchange(data(short, channel, 9, b"x"))) == [(0, 64, 1)]


def test_a_receive_ring_of_64_bytes_never_holds_more(boards: Boards) -> None:
    board = boards({**SHORT, "BP_CFG_RX_BYTES": 64})
    board.hello()
    lib = board.lib
    content = noise(1000)
    block = board.call(ALLOC, 1000)
    channel, first = open_channel(board, UPLOAD, block, 0, 1000)
    lib.test_read_most = 1
    highest = 0

    def ring(out: bytes) -> bytes:
        """The host sends all that it may while the board takes byte by byte."""
        nonlocal highest
        answer = b""
        for at in range(0, len(out), 16):
            lib.test_feed(out[at : at + 16], len(out[at : at + 16]))
            highest = max(highest, lib.test_waiting())
            lib.test_poll()
        while lib.test_poll() != 0:
            pass
        return answer + board.send(b"")

    class Slow(MemoryBoard):
        """The same board over such a ring."""

        def __init__(self) -> None:
            self.ffi, self.lib = board.ffi, board.lib
            self.session, self.sequence = board.session, board.sequence

        def send(self, data: bytes) -> bytes:
            return ring(data)

    upload(Slow(), channel, first, content, 64, Line())
    assert 32 < highest <= 64
    lib.test_read_most = 1 << 20
    assert board.call(FINISH, channel) == [1000, zlib.crc32(content), 0]
    assert content_of(board, block, 1000) == content


### Whose channel it is ###


def test_frames_of_another_channel_session_or_version_are_ignored(short: MemoryBoard) -> None:
    down = filled(short, noise(40))
    channel, _ = open_channel(short, DOWNLOAD, down, 0, 40)
    good = ack(short, channel, 0, ALL)
    others = [
        Frame(good.kind, good.session + 1, good.sequence, good.body),
        Frame(good.kind, 0, good.sequence, good.body),
        Frame(good.kind, good.session, good.sequence + 1, good.body),
        Frame(good.kind, good.session, good.sequence - 1, good.body),
        Frame(good.kind, good.session, good.sequence, good.body, version=2),
        data(short, channel, 0, b"x"),
    ]
    assert short.exchange(*others) == []
    assert sent(short.exchange(good)) == [(0, 40)]
    short.call(FINISH, channel)
    channel, _ = open_channel(short, UPLOAD, down, 0, 40)
    assert short.exchange(ack(short, channel, 0, ALL)) == []


def test_one_channel_at_a_time(short: MemoryBoard) -> None:
    block = filled(short, b"ten bytes!")
    channel, _ = open_channel(short, DOWNLOAD, block, 0, 10)
    for call in ((DOWNLOAD, block, 0, 1), (UPLOAD, block, 0, 1), (STREAM,)):
        with pytest.raises(BoardError, match="NO_MEMORY, detail 1"):
            short.call(*call)
    assert sent(short.exchange(ack(short, channel, 0, ALL))) == [(0, 10)]
    assert short.call(FINISH, channel) == [10, zlib.crc32(b"ten bytes!"), 0]
    open_channel(short, UPLOAD, block, 0, 1)


@pytest.mark.parametrize("function", [DOWNLOAD, UPLOAD])
def test_a_channel_that_cannot_be_is_not_opened(short: MemoryBoard, function: int) -> None:
    block = short.call(ALLOC, 16)
    for offset, length in [(16, 1), (0, 17), (17, 1), (1, 0xFFFFFFFF), (0xFFFFFFFF, 1)]:
        with pytest.raises(BoardError, match="BAD_OFFSET, detail 16"):
            short.call(function, block, offset, length)
    with pytest.raises(BoardError, match="ARG_RANGE, detail 0"):
        short.call(function, block, 0, 0)
    with pytest.raises(BoardError, match="BAD_HANDLE, detail 77"):
        short.call(function, 77, 0, 1)
    with pytest.raises(BoardError, match="ARG_COUNT"):
        short.call(function, block, 0)
    with pytest.raises(BoardError, match="BAD_HANDLE"):
        short.call(FINISH, short.sequence)


def test_a_finished_download_counts_all_that_was_sent_acknowledged_or_not(
    short: MemoryBoard,
) -> None:
    content = noise(100)
    channel, _ = open_channel(short, DOWNLOAD, filled(short, content), 0, 100)
    assert sent(short.exchange(ack(short, channel, 0, ALL))) == [(0, 46), (46, 46), (92, 8)]
    short.exchange(ack(short, channel, 46, 0, AckFlag.RESEND))  # the ACK of the rest is lost
    assert short.call(FINISH, channel) == [100, zlib.crc32(content), 0]


def test_a_finished_stream_counts_what_was_acknowledged(
    streaming: tuple[MemoryBoard, int],
) -> None:
    board, channel = streaming
    board.call(RECORD, b"heard")
    assert sent(board.exchange(ack(board, channel, 0, ALL))) == [(0, 5)]
    board.exchange(ack(board, channel, 5, 0))
    board.call(RECORD, b"lost")
    assert sent(board.exchange(ack(board, channel, 5, ALL))) == [(5, 4)]
    assert board.call(FINISH, channel) == [5, zlib.crc32(b"heard"), 0]


def test_only_the_open_channel_is_finished_and_only_once(short: MemoryBoard) -> None:
    channel, _ = open_channel(short, DOWNLOAD, short.call(ALLOC, 10), 0, 10)
    for wrong in (0, channel - 1, channel + 1):
        with pytest.raises(BoardError, match=f"BAD_HANDLE, detail {wrong}"):
            short.call(FINISH, wrong)
    assert short.call(FINISH, channel) == [0, 0, 0]
    with pytest.raises(BoardError, match=f"BAD_HANDLE, detail {channel}"):
        short.call(FINISH, channel)
    assert short.exchange(ack(short, channel, 0, ALL)) == []


def test_a_block_that_is_freed_closes_its_channel_and_no_other(short: MemoryBoard) -> None:
    block, other = short.call(ALLOC, 10), short.call(ALLOC, 10)
    channel, _ = open_channel(short, UPLOAD, block, 0, 10)
    short.call(FREE, other)
    assert acks(short.exchange(data(short, channel, 0, b"x"))) == [(1, 64, 0)]
    short.call(FREE, block)
    assert short.exchange(data(short, channel, 1, b"x")) == []
    with pytest.raises(BoardError, match="BAD_HANDLE"):
        short.call(FINISH, channel)


def test_a_new_session_closes_the_channel_and_a_late_hello_does_not(short: MemoryBoard) -> None:
    channel, _ = open_channel(short, DOWNLOAD, short.call(ALLOC, 10), 0, 10)
    short.hello()
    assert sent(short.exchange(ack(short, channel, 0, ALL))) == [(0, 10)]
    short.hello(session=0x4321)
    assert short.exchange(ack(short, channel, 0, ALL, AckFlag.RESEND)) == []
    open_channel(short, DOWNLOAD, short.call(ALLOC, 10), 0, 10)


def test_an_agent_that_begins_anew_sends_nothing_of_the_one_before(boards: Boards) -> None:
    board = boards({**SHORT, "BP_CFG_ARENA": 8192})
    board.hello()
    channel, _ = open_channel(board, DOWNLOAD, board.call(ALLOC, 4096), 0, 4096)
    assert sent(board.exchange(ack(board, channel, 0, 64))) == [(0, 46)]
    board.lib.test_boot()
    assert board.send(b"") == b""
    board.session = 0  # that of an agent whom no host has greeted yet
    assert board.exchange(ack(board, channel, 0, ALL)) == []


def test_calls_go_on_beside_a_channel(boards: Boards) -> None:
    board = boards(CHANNELS)
    board.hello()
    block = board.call(ALLOC, 100)
    channel, _ = open_channel(board, UPLOAD, block, 0, 100)
    assert board.names().index("echo") == ECHO
    for at in range(0, 100, 10):
        assert board.call(ECHO, b"beside") == b"beside"
        assert acks(board.exchange(data(board, channel, at, bytes([at] * 10)))) == [
            (at + 10, 256, 0)
        ]
    assert content_of(board, block, 100) == b"".join(bytes([at] * 10) for at in range(0, 100, 10))


### Streams ###


@pytest.fixture
def streaming(boards: Boards) -> tuple[MemoryBoard, int]:
    """An agent with a ring of 1024 bytes, MTU 256, and its open stream."""
    board = boards(CHANNELS)
    board.hello()
    assert board.names().index("record") == RECORD
    channel, more = open_channel(board, STREAM)
    assert more == []
    return board, channel


def test_records_are_sent_in_order_as_they_come(streaming: tuple[MemoryBoard, int]) -> None:
    board, channel = streaming
    assert board.call(RECORD, b"one") == 3
    assert board.call(RECORD, b"two") == 3
    assert [f.body for f in board.exchange(ack(board, channel, 0, ALL))] == [b"\0\0\0\0onetwo"]
    result, frame = board.exchange(board.frame(RECORD, b"three"))
    assert (result.kind, frame.body) == (FrameKind.RESULT, b"\6\0\0\0three")
    assert board.exchange(ack(board, channel, 11, ALL)) == []
    assert board.call(FINISH, channel) == [11, zlib.crc32(b"onetwothree"), 0]


def test_a_record_without_room_is_dropped_as_a_whole_and_counted(
    streaming: tuple[MemoryBoard, int],
) -> None:
    board, channel = streaming
    for _ in range(5):
        assert board.call(RECORD, b"x" * 200) == 200
    assert board.call(RECORD, b"y" * 25) == 0
    assert board.call(RECORD, b"z" * 24) == 24
    assert board.call(RECORD, b"!") == 0
    assert board.call(RECORD, b"") == 0
    content = download(board, channel, 1024, ALL, Line())
    assert content == b"x" * 1000 + b"z" * 24
    assert board.call(FINISH, channel) == [1024, zlib.crc32(content), 26]


def test_a_record_longer_than_the_ring_is_dropped(streaming: tuple[MemoryBoard, int]) -> None:
    board, channel = streaming
    assert board.lib.bp_stream_write(bytes(1025), 1025) == 0
    assert board.lib.bp_stream_write(bytes(1024), 1024) == 1024
    assert board.call(FINISH, channel) == [0, 0, 1025]


def test_bytes_are_kept_until_they_are_acknowledged(streaming: tuple[MemoryBoard, int]) -> None:
    board, channel = streaming
    board.call(RECORD, b"kept")
    assert [f.body[4:] for f in board.exchange(ack(board, channel, 0, ALL))] == [b"kept"]
    again = ack(board, channel, 0, ALL, AckFlag.RESEND)
    assert [f.body[4:] for f in board.exchange(again)] == [b"kept"]
    assert board.lib.bp_stream_write(bytes(1021), 1021) == 0
    board.exchange(ack(board, channel, 4, ALL))
    assert board.lib.bp_stream_write(bytes(1024), 1024) == 1024


def test_nobody_listens_and_nothing_is_kept(boards: Boards) -> None:
    board = boards(CHANNELS)
    board.hello()
    assert board.call(RECORD, b"before") == 0
    channel, _ = open_channel(board, DOWNLOAD, board.call(ALLOC, 4), 0, 4)
    assert board.call(RECORD, b"not a stream") == 0
    board.call(FINISH, channel)
    channel, _ = open_channel(board, STREAM)
    board.call(RECORD, b"heard")
    assert board.call(FINISH, channel) == [0, 0, 0]
    assert board.call(RECORD, b"behind") == 0
    channel, _ = open_channel(board, STREAM)
    assert board.exchange(ack(board, channel, 0, ALL)) == []


@pytest.mark.parametrize("fault", [*FAULTS, "none"])
def test_a_stream_goes_on_over_the_end_of_its_ring_and_of_its_numbers(
    streaming: tuple[MemoryBoard, int], fault: str
) -> None:
    board, channel = streaming
    first = 0x100000000 - 700
    board.lib.test_stream_at(first)
    content = noise(2500)
    got = b""
    for turn, begin in enumerate(range(0, 2500, 500)):
        for at in range(begin, begin + 500, 100):
            assert board.lib.bp_stream_write(content[at : at + 100], 100) == 100
        line = Line() if fault == "none" else Line.with_fault(fault, False, turn % 3)
        at = (first + begin) & 0xFFFFFFFF
        got += download(board, channel, 500, 600, line, first=at)
    assert got == content
    assert board.call(FINISH, channel) == [1800, zlib.crc32(content), 0]


def test_a_stream_is_sent_between_the_rounds_of_a_measurement(
    streaming: tuple[MemoryBoard, int],
) -> None:
    board, channel = streaming
    board.exchange(ack(board, channel, 0, ALL))
    board.lib.test_recorded = 60
    frames = board.exchange(board.frame(1, board.names().index("work"), 0, 0, 3, 1, 1))
    kinds = [frame.kind for frame in frames if frame.kind != FrameKind.PROGRESS]
    assert kinds == [FrameKind.DATA, FrameKind.DATA, FrameKind.RESULT, FrameKind.DATA]
    content = b"".join(frame.body[4:] for frame in frames if frame.kind == FrameKind.DATA)
    assert content == bytes(60) + b"\1" * 60 + b"\2" * 60


### CANCEL, and HELLO, in a measurement ###

MEASURE = 1


def measuring(board: MemoryBoard, rounds: int) -> Frame:
    """Return a CALL that measures `work`."""
    return board.frame(MEASURE, board.names().index("work"), 0, 0, rounds, 1, 1)


def at_round(board: MemoryBoard, number: int, *frames: Frame) -> None:
    """Send frames while round `number`, from 1, is under way."""
    late = b"".join(map(encode_frame, frames))
    board.lib.test_feed_at(late, len(late), b"f", number)


@pytest.fixture
def channels(boards: Boards) -> MemoryBoard:
    board = boards(CHANNELS)
    board.hello()
    return board


def cancel(call: Frame) -> Frame:
    """Return the CANCEL of a CALL."""
    return Frame(FrameKind.CANCEL, call.session, call.sequence)


def last(frames: list[Frame]) -> tuple[int, bytes]:
    """Return kind and body of the one frame that is no PROGRESS."""
    (answer,) = [frame for frame in frames if frame.kind != FrameKind.PROGRESS]
    return answer.kind, answer.body


@pytest.mark.parametrize("rounds", [1, 2, 7])
def test_a_measurement_is_cancelled_between_two_rounds(channels: MemoryBoard, rounds: int) -> None:
    call = measuring(channels, 8)
    at_round(channels, rounds, cancel(call))
    cancelled = (FrameKind.ERROR, bytes([0x92, 16, rounds]))
    assert last(channels.exchange(call)) == cancelled
    assert channels.lib.test_worked == rounds
    assert last(channels.exchange(call)) == cancelled
    assert channels.call(ECHO, b"next") == b"next"


def test_a_cancel_right_behind_its_call_is_heard_before_the_first_round(
    channels: MemoryBoard,
) -> None:
    call = measuring(channels, 3)
    assert last(channels.exchange(call, cancel(call))) == (FrameKind.ERROR, b"\x92\x10\x00")
    assert channels.lib.test_worked == 0


def test_a_cancel_in_the_last_round_or_later_comes_too_late(channels: MemoryBoard) -> None:
    call = measuring(channels, 3)
    at_round(channels, 3, cancel(call))
    result = last(channels.exchange(call))
    assert result[0] == FrameKind.RESULT
    assert channels.exchange(cancel(call)) == []
    assert last(channels.exchange(call)) == result


def test_a_cancel_of_another_call_session_or_version_is_ignored(channels: MemoryBoard) -> None:
    call = measuring(channels, 3)
    others = [
        Frame(FrameKind.CANCEL, call.session, call.sequence - 1),
        Frame(FrameKind.CANCEL, call.session, call.sequence + 1),
        Frame(FrameKind.CANCEL, call.session + 1, call.sequence),
        Frame(FrameKind.CANCEL, call.session, call.sequence, version=2),
    ]
    at_round(channels, 1, *others)
    assert last(channels.exchange(call))[0] == FrameKind.RESULT


def test_a_cancel_does_not_disturb_what_only_calls(channels: MemoryBoard) -> None:
    call = channels.frame(ECHO, b"short")
    first, *more = channels.exchange(call, cancel(call))
    assert (first.kind, more) == (FrameKind.RESULT, [])


def test_a_damaged_frame_between_rounds_gets_nak_and_a_duplicate_of_the_call_nothing(
    channels: MemoryBoard,
) -> None:
    call = measuring(channels, 4)
    damaged = bytearray(encode_frame(cancel(call)))
    damaged[6] ^= 4
    late = encode_frame(call) + bytes(damaged)
    channels.lib.test_feed_at(late, len(late), b"f", 2)
    frames = channels.exchange(call)
    kinds = [frame.kind for frame in frames if frame.kind != FrameKind.PROGRESS]
    assert kinds == [FrameKind.NAK, FrameKind.RESULT]
    assert channels.lib.test_worked == 4


def test_a_hello_that_begins_a_session_ends_a_measurement_unanswered(
    channels: MemoryBoard,
) -> None:
    hello = Frame(FrameKind.HELLO, 0x7777, 0, bytes.fromhex("425052460101ffff00000000"))
    call = measuring(channels, 8)
    at_round(channels, 3, hello)
    kind, body = last(channels.exchange(call))
    assert kind == FrameKind.WELCOME
    begun = WELCOME.struct.parse(body).last_sequence
    assert channels.lib.test_worked == 3
    (answer,) = channels.exchange(call)
    assert answer.kind == FrameKind.NO_SESSION
    channels.session, channels.sequence = 0x7777, begun
    assert channels.call(ECHO, b"new") == b"new"


def test_what_follows_such_a_hello_is_read_too(channels: MemoryBoard) -> None:
    hello = Frame(FrameKind.HELLO, 0x7777, 0, bytes.fromhex("425052460101ffff00000000"))
    call = measuring(channels, 8)
    # The boot id is 0x123f560d: its low half is how far the numbers go on.
    channels.session, channels.sequence = 0x7777, call.sequence + 0x560D0000
    at_round(channels, 3, hello, channels.frame(ECHO, b"glued"))
    kinds = [f.kind for f in channels.exchange(call) if f.kind != FrameKind.PROGRESS]
    assert kinds == [FrameKind.WELCOME, FrameKind.RESULT]


def test_so_does_one_with_the_present_id_and_another_nonce(channels: MemoryBoard) -> None:
    body = bytes.fromhex("425052460101ffff00000001")
    call = measuring(channels, 8)
    at_round(channels, 3, Frame(FrameKind.HELLO, channels.session, 0x01000000, body))
    assert last(channels.exchange(call))[0] == FrameKind.WELCOME
    assert channels.lib.test_worked == 3


@pytest.mark.parametrize(
    "body", ["425052460101ffff78563412", "425052460202ffff00000000", "4250"], ids=len
)
def test_a_hello_that_begins_no_session_does_not_end_a_measurement(
    channels: MemoryBoard, body: str
) -> None:
    session = channels.session if body.startswith("425052460101") else 0x7777
    call = measuring(channels, 4)
    at_round(channels, 1, Frame(FrameKind.HELLO, session, 0x12345678, bytes.fromhex(body)))
    assert last(channels.exchange(call))[0] == FrameKind.RESULT
    assert channels.lib.test_worked == 4


def test_an_upload_goes_on_between_rounds(channels: MemoryBoard) -> None:
    block = channels.call(ALLOC, 10)
    channel, _ = open_channel(channels, UPLOAD, block, 0, 10)
    call = measuring(channels, 4)
    at_round(channels, 2, data(channels, channel, 0, b"0123456789"))
    frames = [f for f in channels.exchange(call) if f.kind != FrameKind.PROGRESS]
    assert acks(frames[:1]) == [(10, 256, 0)]
    assert [frame.kind for frame in frames[1:]] == [FrameKind.RESULT]
    assert channels.call(READ, block, 0, 10) == b"0123456789"


def test_agents_without_channels_look_for_neither(board: MemoryBoard) -> None:
    board.hello()
    call = measuring(board, 4)
    at_round(board, 2, cancel(call))
    assert last(board.exchange(call))[0] == FrameKind.RESULT
    assert board.exchange(data(board, 1, 0, b"x"), ack(board, 1, 0, ALL)) == []


### bp.clock ###


def test_the_clock_is_read_when_the_call_has_come_and_when_it_is_answered(
    boards: Boards,
) -> None:
    board = boards(CHANNELS)
    board.hello()
    board.lib.test_ticks = 0x123456789ABC
    board.lib.test_ticks_step = 5
    assert board.call(CLOCK) == [0x123456789ABC, 0x123456789AC1, 8000, 64]
    with pytest.raises(BoardError, match="ARG_COUNT"):
        board.call(CLOCK, 1)


def test_a_repeated_question_gets_the_first_readings_again(channels: MemoryBoard) -> None:
    call = channels.frame(CLOCK)
    first = channels.send(encode_frame(call))
    assert len(read_frames(first)) == 1
    assert channels.send(encode_frame(call)) == first


def test_a_board_without_ticks_has_no_clock(boards: Boards) -> None:
    board = boards({**CHANNELS, "TEST_TICKS_HZ": 0})
    board.hello()
    with pytest.raises(BoardError, match="UNSUPPORTED"):
        board.call(CLOCK)


### All by name ###


def test_the_names_are_those_of_the_specification(channels: MemoryBoard) -> None:
    names = ["bp.download", "bp.upload", "bp.finish", "bp.stream", "bp.clock"]
    assert channels.names()[DOWNLOAD : CLOCK + 1] == names
