# SPDX-License-Identifier: Apache-2.0
"""The real C agent's other pointers: results, tokens, functions, pointers in blocks (SPEC 5.9)."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable

import msgpack
import pytest

from boardprof_protocol.codes import ErrorCode
from tests.memory_board import FULL, BoardError, MemoryBoard

Boards = Callable[[dict[str, int]], MemoryBoard]

POINTERS = {**FULL, "BP_CFG_HANDLES": 12, "TEST_POINTERS": 1}
SESSIONS = itertools.count(100)
"""A token is valid within its session."""

TEXT, FUNCTION, NULL, FAR = 100, 101, 102, 200
"""What `follow` returns for these numbers instead of the pointer moved by so many bytes."""


@pytest.fixture
def board(boards: Boards) -> MemoryBoard:
    made = boards(POINTERS)
    made.hello(session=next(SESSIONS))
    return made


def follow(board: MemoryBoard, pointer: bytes, number: int) -> bytes:
    """Call `follow`, whose two arguments are within one."""
    result: bytes = board.call("follow", msgpack.packb(pointer) + msgpack.packb(number))
    return result


def place(handle: int, offset: int) -> bytes:
    return struct.pack("<2I", handle, offset)


def span(handle: int, length: int) -> bytes:
    return struct.pack("<3I", handle, 0, length)


def test_a_pointer_into_a_block_is_a_place(board: MemoryBoard) -> None:
    first, second = board.call("bp.alloc", 32), board.call("bp.alloc", 32)
    assert follow(board, span(second, 32), 0) == place(second, 0)
    assert follow(board, span(second, 32), 5) == place(second, 5)
    assert follow(board, place(first, 3), 4) == place(first, 7)
    assert follow(board, b"", NULL) == b""


def test_a_pointer_into_a_block_that_was_freed_is_a_token(board: MemoryBoard) -> None:
    block = board.call("bp.alloc", 32)
    board.call("bp.point", block, 0, place(block, 16))
    held = board.call("bp.unpoint", block, 0)
    assert held == place(block, 16)
    other = board.call("bp.alloc", 16)
    board.call("bp.point", other, 0, place(block, 16))
    board.call("bp.free", block)
    number, anchor, _ = struct.unpack("<2Ii", board.call("bp.unpoint", other, 0))
    assert number == 0x80000000
    assert anchor == 1  # in this process the arena is near the table


def test_a_token_is_taken_as_a_pointer_and_the_same_pointer_has_the_same(
    board: MemoryBoard,
) -> None:
    text = follow(board, b"", TEXT)
    assert len(text) == 12
    assert text[:4] == struct.pack("<I", 0x80000000)
    assert follow(board, b"", TEXT) == text
    assert board.call("bp.text_at", text[:4], 100) == b"hello"
    assert board.call("bp.text_at", text[:4], 3) == b"hel"
    assert board.call("bp.text_at", follow(board, text[:4], 1)[:4], 100) == b"ello"


def test_distances_from_an_anchor_are_those_of_the_pointers(board: MemoryBoard) -> None:
    number, anchor, distance = struct.unpack("<2Ii", follow(board, b"", TEXT))
    moved = struct.unpack("<2Ii", follow(board, struct.pack("<I", number), 2))
    assert (anchor, moved[1], moved[2] - distance) == (1, 1, 2)
    assert follow(board, b"", FAR)[4:] == bytes(8)


def test_only_the_last_sixteen_tokens_are_valid(board: MemoryBoard) -> None:
    first = follow(board, b"", FAR)[:4]
    last = [follow(board, b"", FAR + i)[:4] for i in range(1, 17)]
    assert follow(board, last[0], 0)[:4] == last[0]
    with pytest.raises(BoardError) as caught:
        follow(board, first, 0)
    assert (caught.value.code, caught.value.detail) == (ErrorCode.BAD_HANDLE, 0x80000000)


def test_another_session_knows_no_token(board: MemoryBoard) -> None:
    token = follow(board, b"", FAR)[:4]
    board.hello(session=next(SESSIONS))
    with pytest.raises(BoardError) as caught:
        follow(board, token, 0)
    assert caught.value.code == ErrorCode.BAD_HANDLE


def test_a_function_is_a_pointer_by_its_id(board: MemoryBoard) -> None:
    scale = struct.pack("<I", board.names().index("scale"))
    assert follow(board, scale, 0) == follow(board, b"", FUNCTION)
    for unfit in ("nine", "bp.alloc"):
        with pytest.raises(BoardError) as caught:
            follow(board, struct.pack("<I", board.names().index(unfit)), 0)
        assert caught.value.code == ErrorCode.NO_FUNCTION


def test_a_pointer_is_written_into_a_block_and_taken_out(board: MemoryBoard) -> None:
    block, target = board.call("bp.alloc", 24), board.call("bp.alloc", 64)
    board.call("bp.write", block, 0, b"\xaa" * 24)
    assert board.call("bp.point", block, 5, place(target, 40)) is None
    content = board.call("bp.read", block, 0, 24)
    assert (content[:5], content[13:]) == (b"\xaa" * 5, b"\xaa" * 11)
    assert board.call("bp.unpoint", block, 5) == place(target, 40)
    assert board.call("bp.read", block, 5, 8) == bytes(8)
    assert board.call("bp.unpoint", block, 5) == b""


@pytest.mark.parametrize("offset", [17, 24, 2**32 - 1])
def test_a_pointer_that_is_not_within_its_block_is_refused(board: MemoryBoard, offset: int) -> None:
    block = board.call("bp.alloc", 24)
    for name, pointer in (("bp.point", [b""]), ("bp.unpoint", [])):
        with pytest.raises(BoardError) as caught:
            board.call(name, block, offset, *pointer)
        assert (caught.value.code, caught.value.detail) == (ErrorCode.BAD_OFFSET, 24)


def test_a_struct_by_value_is_never_null(board: MemoryBoard) -> None:
    given, result = board.call("bp.alloc", 8), board.call("bp.alloc", 8)
    board.call("bp.write", given, 0, struct.pack("<2i", 21, -4))
    board.call("twice", span(given, 8), span(result, 8))
    assert board.call("bp.read", result, 0, 8) == struct.pack("<2i", 42, -8)
    for arguments, detail in (([b"", span(result, 8)], 1), ([span(given, 8), b""], 0)):
        with pytest.raises(BoardError) as caught:
            board.call("twice", *arguments)
        assert (caught.value.code, caught.value.detail) == (ErrorCode.ARG_RANGE, detail)


@pytest.mark.parametrize(
    ("inner", "code"),
    [
        (b"\xc4\x00", ErrorCode.MALFORMED),
        (b"\xc4\x00\x01\x02", ErrorCode.ARG_COUNT),
        (b"\xc4\x00\xc3", ErrorCode.ARG_TYPE),
        (b"\xc4\x08\x01", ErrorCode.MALFORMED),
        (b"", ErrorCode.MALFORMED),
    ],
)
def test_arguments_within_one_are_checked_like_others(
    board: MemoryBoard, inner: bytes, code: ErrorCode
) -> None:
    with pytest.raises(BoardError) as caught:
        board.call("follow", inner)
    assert caught.value.code == code


def test_the_crc_of_a_part_of_a_block_is_that_of_zlib_and_ethernet(board: MemoryBoard) -> None:
    block = board.call("bp.alloc", 32)
    board.call("bp.write", block, 3, b"123456789")
    assert board.call("bp.crc", block, 3, 9) == 0xCBF43926
    assert board.call("bp.crc", block, 32, 0) == 0
    for offset, length in ((3, 30), (33, 0), (0xFFFFFFFF, 2)):
        with pytest.raises(BoardError) as refused:
            board.call("bp.crc", block, offset, length)
        assert refused.value.code == ErrorCode.BAD_OFFSET
    board.call("bp.free", block)
    with pytest.raises(BoardError) as refused:
        board.call("bp.crc", block, 0, 4)
    assert refused.value.code == ErrorCode.BAD_HANDLE
