# SPDX-License-Identifier: Apache-2.0
"""The real C agent's pointers: bytes of the arena as arguments, and what is put back (SPEC 5.9)."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from boardprof_protocol.codes import ErrorCode
from tests.memory_board import FULL, BoardError, MemoryBoard, blob_counts

Boards = Callable[[dict[str, int]], MemoryBoard]

POINTERS = {**FULL, "BP_CFG_HANDLES": 12, "TEST_POINTERS": 1}
MEASURE, EMPTY = 1, 1


@pytest.fixture
def pointers(boards: Boards) -> MemoryBoard:
    """`scale` doubles an array; `nine` tells how many of nine pointers are NULL."""
    board = boards(POINTERS)
    board.hello()
    return board


def span(handle: int, offset: int, length: int, copy: int | None = None) -> bytes:
    return struct.pack("<3I", handle, offset, length) + (
        b"" if copy is None else struct.pack("<I", copy)
    )


def block(board: MemoryBoard, *numbers: int) -> int:
    """Return a new block of 32-bit integers."""
    handle: int = board.call("bp.alloc", 4 * len(numbers))
    board.call("bp.write", handle, 0, struct.pack(f"<{len(numbers)}i", *numbers))
    return handle


def content(board: MemoryBoard, handle: int, count: int) -> list[int]:
    return list(struct.unpack(f"<{count}i", board.call("bp.read", handle, 0, 4 * count)))


def measure(board: MemoryBoard, y: bytes, n: int, *, flags: int = 0, **how: int) -> list[int]:
    """Measure `scale`; return how often `work` ran in each sample, which is never."""
    head = (flags, how.get("warmup", 0), how.get("repeat", 1), how.get("number", 1), 1)
    _, blobs = board.call(MEASURE, board.names().index("scale"), *head, y, n)
    return blob_counts(blobs)


def test_a_function_sees_and_changes_the_bytes_of_a_block(pointers: MemoryBoard) -> None:
    y = block(pointers, 1, -2, 3, 4)
    assert pointers.call("scale", span(y, 0, 16), 4) is None
    assert content(pointers, y, 4) == [2, -4, 6, 8]


def test_a_span_may_begin_within_its_block(pointers: MemoryBoard) -> None:
    y = block(pointers, 1, 2, 3, 4, 5)
    pointers.call("scale", span(y, 8, 8), 2)
    assert content(pointers, y, 5) == [1, 2, 6, 8, 5]


def test_a_span_of_nothing_is_taken_at_a_blocks_end_too(pointers: MemoryBoard) -> None:
    y = block(pointers, 1, 2)
    for offset in (0, 8):
        assert pointers.call("scale", span(y, offset, 0), 0) is None
    assert content(pointers, y, 2) == [1, 2]


def test_no_bytes_at_all_are_null(pointers: MemoryBoard) -> None:
    y = span(block(pointers, 1, 2), 0, 8)
    assert pointers.call("nine", *[b""] * 9) == 9
    assert pointers.call("nine", *[y, b""] * 4, y) == 4


@pytest.mark.parametrize(
    ("bad", "code", "detail"),
    [
        ((4, 8), ErrorCode.ARG_RANGE, 1),
        ((1, 4), ErrorCode.ARG_RANGE, 1),
        ((0, 6), ErrorCode.ARG_RANGE, 1),
        ((0, 20), ErrorCode.BAD_OFFSET, 16),
        ((16, 4), ErrorCode.BAD_OFFSET, 16),
        ((24, 0), ErrorCode.BAD_OFFSET, 16),
        ((0xFFFFFFF8, 8), ErrorCode.BAD_OFFSET, 16),
        ((8, 0xFFFFFFFC), ErrorCode.BAD_OFFSET, 16),
    ],
)
def test_a_span_that_does_not_lie_in_its_block_is_refused(
    pointers: MemoryBoard, bad: tuple[int, int], code: ErrorCode, detail: int
) -> None:
    y = block(pointers, 1, 2, 3, 4)
    with pytest.raises(BoardError) as caught:
        pointers.call("scale", span(y, *bad), 1)
    assert (caught.value.code, caught.value.detail) == (code, detail)
    assert content(pointers, y, 4) == [1, 2, 3, 4]


def test_a_handle_that_is_none_is_refused(pointers: MemoryBoard) -> None:
    y = block(pointers, 1, 2)
    with pytest.raises(BoardError, match="BAD_HANDLE, detail 77"):
        pointers.call("scale", span(77, 0, 8), 2)
    with pytest.raises(BoardError, match="BAD_HANDLE, detail 77"):
        pointers.call("scale", span(y, 0, 8, 77), 2)
    pointers.call("bp.free", y)
    with pytest.raises(BoardError, match=f"BAD_HANDLE, detail {y}"):
        pointers.call("scale", span(y, 0, 8), 2)


@pytest.mark.parametrize("argument", [5, True, 2.5, None, "text"])
def test_what_is_no_bytes_is_of_a_wrong_type(pointers: MemoryBoard, argument: object) -> None:
    with pytest.raises(BoardError, match="ARG_TYPE, detail 1"):
        pointers.call("scale", argument, 1)


def test_the_copy_is_put_back_before_a_call(pointers: MemoryBoard) -> None:
    y, copy = block(pointers, 0, 0, 0, 9), block(pointers, 1, 2, 3, 4)
    for _ in range(3):
        pointers.call("scale", span(y, 0, 12, copy), 3)
        assert content(pointers, y, 4) == [2, 4, 6, 9]
    assert content(pointers, copy, 4) == [1, 2, 3, 4]


def test_a_copys_beginning_goes_where_the_span_begins(pointers: MemoryBoard) -> None:
    y, copy = block(pointers, 1, 1, 1, 1, 1), block(pointers, 7, 8, 9)
    pointers.call("scale", span(y, 8, 8, copy), 1)
    assert content(pointers, y, 5) == [1, 1, 14, 8, 1]


def test_every_round_of_a_measurement_begins_with_what_was_put_back(pointers: MemoryBoard) -> None:
    y, copy = block(pointers, 0, 0), block(pointers, 1, 5)
    assert measure(pointers, span(y, 0, 8, copy), 2, warmup=3, repeat=4) == [0] * 5
    assert content(pointers, y, 2) == [2, 10]


def test_within_a_sample_later_calls_see_what_earlier_ones_left(pointers: MemoryBoard) -> None:
    y, copy = block(pointers, 0, 0), block(pointers, 1, 5)
    measure(pointers, span(y, 0, 8, copy), 2, warmup=1, repeat=2, number=3)
    assert content(pointers, y, 2) == [8, 40]


def test_without_a_copy_every_round_sees_what_the_last_one_left(pointers: MemoryBoard) -> None:
    y = block(pointers, 1, 5)
    measure(pointers, span(y, 0, 8), 2, warmup=1, repeat=2)
    assert content(pointers, y, 2) == [8, 40]


def test_a_calibration_changes_nothing(pointers: MemoryBoard) -> None:
    y, copy = block(pointers, 3, 4), block(pointers, 1, 5)
    measure(pointers, span(y, 0, 8, copy), 2, flags=EMPTY, warmup=1, repeat=2)
    assert content(pointers, y, 2) == [3, 4]


def test_a_call_that_is_refused_puts_nothing_back_nor_does_the_next(pointers: MemoryBoard) -> None:
    y, copy = block(pointers, 3, 4), block(pointers, 1, 5)
    with pytest.raises(BoardError, match="ARG_COUNT"):
        pointers.call("scale", span(y, 0, 8, copy))
    assert content(pointers, y, 2) == [3, 4]
    pointers.call("scale", span(y, 0, 8), 1)
    assert content(pointers, y, 2) == [6, 4]


def test_a_copy_is_another_block_and_long_enough(pointers: MemoryBoard) -> None:
    y, copy = block(pointers, 1, 2, 3), block(pointers, 4, 5)
    with pytest.raises(BoardError, match="ARG_RANGE, detail 1"):
        pointers.call("scale", span(y, 0, 4, y), 1)
    with pytest.raises(BoardError, match="BAD_OFFSET, detail 8"):
        pointers.call("scale", span(y, 0, 12, copy), 3)
    assert content(pointers, y, 3) == [1, 2, 3]


def test_a_call_has_eight_copies_at_most(pointers: MemoryBoard) -> None:
    y, copy = block(pointers, 1, 2), block(pointers, 3, 4)
    copied = span(y, 0, 8, copy)
    assert pointers.call("nine", *[copied] * 8, span(y, 0, 8)) == 0
    with pytest.raises(BoardError, match="NO_MEMORY, detail 8"):
        pointers.call("nine", *[copied] * 9)
    assert pointers.call("nine", *[copied] * 8, b"") == 1
    # Written by hand: it finds the bytes as they are.
    assert content(pointers, y, 2) == [1, 2]


@pytest.mark.parametrize("length", [0, 4, 8, 12, 20, 28, 32])
def test_no_byte_behind_a_span_is_put_back(pointers: MemoryBoard, length: int) -> None:
    """`scale` of no elements changes nothing: all that has changed was put back."""
    y, copy = block(pointers, *[-1] * 8), block(pointers, *[0] * 8)
    pointers.call("scale", span(y, 0, length, copy), 0)
    assert pointers.call("bp.read", y, 0, 32) == bytes(length) + b"\xff" * (32 - length)


def test_between_two_rounds_a_new_session_ends_it_and_nothing_is_put_back_later(
    pointers: MemoryBoard,
) -> None:
    y, copy = block(pointers, 0, 0), block(pointers, 1, 5)
    measure(pointers, span(y, 0, 8, copy), 2)
    pointers.hello(session=0x4321)
    other = block(pointers, 6, 7)
    pointers.call("count")
    assert content(pointers, other, 2) == [6, 7]


def test_an_agent_without_an_arena_knows_null_only(boards: Boards) -> None:
    board = boards({"TEST_POINTERS": 1})
    board.hello()
    assert board.call("scale", b"", 0) is None
    with pytest.raises(BoardError, match="UNSUPPORTED, detail 0"):
        board.call("scale", span(256, 0, 8), 2)
