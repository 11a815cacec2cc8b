# SPDX-License-Identifier: Apache-2.0
"""The real C agent's arena: 4096 bytes, four handles (tests/memory_board.py)."""

from __future__ import annotations

import pytest

from tests.memory_board import BoardError, MemoryBoard

ALLOC, FREE, READ, WRITE = range(2, 6)


@pytest.fixture(autouse=True)
def _session(board: MemoryBoard) -> None:
    board.hello()


def test_what_was_written_is_read_again(board: MemoryBoard) -> None:
    block = board.call(ALLOC, 100)
    assert board.call(WRITE, block, 0, bytes(range(100))) is None
    assert board.call(WRITE, block, 10, b"boardprof") is None
    assert board.call(READ, block, 8, 13) == b"\x08\x09boardprof\x13\x14"


def test_blocks_do_not_share_bytes(board: MemoryBoard) -> None:
    blocks = [board.call(ALLOC, 33) for _ in range(4)]
    for number, block in enumerate(blocks):
        board.call(WRITE, block, 0, bytes([number]) * 33)
    assert [board.call(READ, block, 0, 33) for block in blocks] == [
        bytes([n]) * 33 for n in range(4)
    ]


def test_a_block_ends_where_it_ends(board: MemoryBoard) -> None:
    block = board.call(ALLOC, 16)
    assert board.call(READ, block, 16, 0) == b""
    assert board.call(WRITE, block, 16, b"") is None
    for offset, length in [(16, 1), (0, 17), (17, 0), (0xFFFFFFFF, 1), (1, 0xFFFFFFFF)]:
        with pytest.raises(BoardError, match="BAD_OFFSET, detail 16"):
            board.call(READ, block, offset, length)
    for offset, data in [(16, b"x"), (0, bytes(17)), (0xFFFFFFFF, b"x")]:
        with pytest.raises(BoardError, match="BAD_OFFSET, detail 16"):
            board.call(WRITE, block, offset, data)


def test_a_write_that_is_refused_changes_nothing(board: MemoryBoard) -> None:
    block = board.call(ALLOC, 4)
    board.call(WRITE, block, 0, b"abcd")
    with pytest.raises(BoardError):
        board.call(WRITE, block, 2, b"xyz")
    assert board.call(READ, block, 0, 4) == b"abcd"


def test_a_reply_longer_than_a_frame_is_refused(board: MemoryBoard) -> None:
    block = board.call(ALLOC, 1000)
    assert len(board.call(READ, block, 0, 239)) == 239
    with pytest.raises(BoardError, match="REPLY_TOO_BIG, detail 240"):
        board.call(READ, block, 0, 240)


def test_the_handle_of_a_freed_block_is_refused(board: MemoryBoard) -> None:
    block = board.call(ALLOC, 8)
    assert board.call(FREE, block) is None
    calls: list[tuple[int, list[object]]] = [(FREE, []), (READ, [0, 1]), (WRITE, [0, b"x"])]
    for function, more in calls:
        with pytest.raises(BoardError, match=f"BAD_HANDLE, detail {block}"):
            board.call(function, block, *more)


def test_the_handle_of_the_next_block_in_the_same_slot_is_another_one(board: MemoryBoard) -> None:
    first = board.call(ALLOC, 8)
    board.call(FREE, first)
    second = board.call(ALLOC, 8)
    assert second != first
    with pytest.raises(BoardError, match="BAD_HANDLE"):
        board.call(READ, first, 0, 1)
    assert len(board.call(READ, second, 0, 8)) == 8


@pytest.mark.parametrize("handle", [0, 3, 4, 0xFF, 0x100, 0xFFFFFFFF])
def test_a_number_that_is_no_handle_is_refused(board: MemoryBoard, handle: int) -> None:
    with pytest.raises(BoardError, match=f"BAD_HANDLE, detail {handle}"):
        board.call(READ, handle, 0, 0)


def test_a_new_session_forgets_all_blocks_and_refuses_their_handles(board: MemoryBoard) -> None:
    old = [board.call(ALLOC, 1000) for _ in range(4)]
    board.hello(session=0x4321)
    for block in old:
        with pytest.raises(BoardError, match="BAD_HANDLE"):
            board.call(READ, block, 0, 1)
    new = [board.call(ALLOC, 1000) for _ in range(4)]
    assert not set(new) & set(old)


def test_hello_in_the_same_session_keeps_the_blocks(board: MemoryBoard) -> None:
    block = board.call(ALLOC, 4)
    board.call(WRITE, block, 0, b"kept")
    sequence = board.sequence
    board.hello()
    board.sequence = sequence
    assert board.call(READ, block, 0, 4) == b"kept"


def test_the_whole_arena_can_be_had_and_not_a_byte_more(board: MemoryBoard) -> None:
    with pytest.raises(BoardError, match="NO_MEMORY, detail 4096"):
        board.call(ALLOC, 4097)
    with pytest.raises(BoardError, match="NO_MEMORY, detail 4096"):
        board.call(ALLOC, 0xFFFFFFFF)
    board.call(ALLOC, 4096)
    with pytest.raises(BoardError, match="NO_MEMORY"):
        board.call(ALLOC, 1)


def test_a_block_of_no_bytes_is_refused(board: MemoryBoard) -> None:
    with pytest.raises(BoardError, match="ARG_RANGE"):
        board.call(ALLOC, 0)


def test_there_are_as_many_handles_as_configured(board: MemoryBoard) -> None:
    blocks = [board.call(ALLOC, 1) for _ in range(4)]
    with pytest.raises(BoardError, match="NO_MEMORY"):
        board.call(ALLOC, 1)
    board.call(FREE, blocks[1])
    board.call(ALLOC, 1)


def test_blocks_begin_at_multiples_of_16(board: MemoryBoard) -> None:
    board.call(ALLOC, 1)  # takes 16
    with pytest.raises(BoardError, match="NO_MEMORY"):
        board.call(ALLOC, 4081)
    board.call(ALLOC, 4080)
    with pytest.raises(BoardError, match="NO_MEMORY"):
        board.call(ALLOC, 1)


def test_the_first_gap_that_is_long_enough_is_taken(board: MemoryBoard) -> None:
    first = board.call(ALLOC, 64)
    middle = board.call(ALLOC, 128)
    board.call(ALLOC, 64)
    for block, mark in ((first, b"1"), (middle, b"2")):
        board.call(WRITE, block, 0, mark * 64)
        board.call(FREE, block)
    # 3840 bytes are behind the last block; the gap of 192 bytes is before it, and taken first.
    again = board.call(ALLOC, 192)
    behind = board.call(ALLOC, 3840)
    with pytest.raises(BoardError, match="NO_MEMORY"):
        board.call(ALLOC, 1)
    board.call(FREE, again)
    board.call(FREE, behind)
    small = board.call(ALLOC, 8)
    board.call(ALLOC, 176)
    board.call(FREE, small)
    with pytest.raises(BoardError, match="NO_MEMORY"):
        board.call(ALLOC, 3841)
    assert board.call(READ, board.call(ALLOC, 3840), 3832, 8) == bytes(8)


def test_a_gap_that_is_too_short_is_passed_over(board: MemoryBoard) -> None:
    first = board.call(ALLOC, 64)
    board.call(ALLOC, 64)
    board.call(FREE, first)
    board.call(ALLOC, 3968)  # all behind the second block
    board.call(ALLOC, 64)  # the gap
    with pytest.raises(BoardError, match="NO_MEMORY"):
        board.call(ALLOC, 1)


@pytest.mark.parametrize("length", [1, 7, 8, 9, 200])
def test_a_new_block_is_zeros_whatever_was_there(board: MemoryBoard, length: int) -> None:
    old = board.call(ALLOC, 256)
    board.call(WRITE, old, 0, b"\xaa" * 200)
    board.call(FREE, old)
    neighbour = board.call(ALLOC, 8)
    board.call(WRITE, neighbour, 0, b"neighbor")
    block = board.call(ALLOC, length)
    assert board.call(READ, block, 0, length) == bytes(length)
    assert board.call(READ, neighbour, 0, 8) == b"neighbor"


def test_a_new_session_sees_nothing_of_the_one_before(board: MemoryBoard) -> None:
    board.call(WRITE, board.call(ALLOC, 200), 0, b"secret" * 33)
    board.hello(session=0x4321)
    assert board.call(READ, board.call(ALLOC, 200), 0, 200) == bytes(200)


@pytest.mark.parametrize(
    "call",
    [(ALLOC,), (ALLOC, 1, 2), (FREE,), (READ, 1, 2), (READ, 1, 2, 3, 4), (WRITE, 1, 2)],
)
def test_the_wrong_number_of_arguments_is_refused(
    board: MemoryBoard, call: tuple[int, ...]
) -> None:
    with pytest.raises(BoardError, match="ARG_COUNT"):
        board.call(*call)


def test_a_length_beyond_32_bits_is_refused(board: MemoryBoard) -> None:
    block = board.call(ALLOC, 8)
    with pytest.raises(BoardError, match="ARG_TYPE, detail 0"):
        board.call(READ, block, 0, 1 << 32)
