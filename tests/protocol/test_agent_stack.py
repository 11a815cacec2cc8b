# SPDX-License-Identifier: Apache-2.0
"""The real C agent's bp.stack: the stack that a call takes, seen by painting (SPEC 5.8)."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest

from boardprof_protocol.codes import FaultCause
from tests.memory_board import FULL, BoardError, MemoryBoard

Boards = Callable[[dict[str, int]], MemoryBoard]

STACK = {**FULL, "TEST_POINTERS": 1, "BP_CFG_STACK": 65536}


@pytest.fixture
def painter(boards: Boards) -> MemoryBoard:
    """`deep` writes 200 bytes of its stack; then it calls what notes a letter."""
    board = boards(STACK)
    board.hello()
    board.log  # noqa: B018 - forgets the start
    return board


def stack(board: MemoryBoard, name: str, *arguments: object) -> Any:
    return board.call("bp.stack", board.names().index(name), *arguments)


def test_the_bytes_that_a_function_writes_of_its_stack_are_counted(painter: MemoryBoard) -> None:
    used, painted = stack(painter, "deep")
    assert 200 <= used <= 400  # and what test_note takes
    assert 65000 <= painted <= 65536


def test_it_is_one_call_with_set_up_and_check(painter: MemoryBoard) -> None:
    stack(painter, "deep")
    assert painter.log == "ufc"
    stack(painter, "work")
    assert (painter.log, painter.lib.test_worked) == ("ufc", 1)


def test_twice_the_same_call_takes_twice_the_same_stack(painter: MemoryBoard) -> None:
    assert stack(painter, "deep") == stack(painter, "deep")


def test_no_more_than_configured_is_painted_and_all_of_it_is_at_least(boards: Boards) -> None:
    board = boards({**STACK, "BP_CFG_STACK": 128})
    board.hello()
    used, painted = stack(board, "deep")
    assert used == painted
    assert 64 <= painted <= 128


def test_nothing_below_the_stacks_end_is_painted(painter: MemoryBoard) -> None:
    _, whole = stack(painter, "deep")
    painter.lib.test_stack_limit += (128 << 10) - 16384
    _, less = stack(painter, "deep")
    assert 0 < less < 16384 < whole


def test_on_a_stack_that_is_not_the_boards_nothing_is_painted(painter: MemoryBoard) -> None:
    painter.lib.test_stack_limit += 1 << 20
    assert stack(painter, "deep") == [0, 0]


def test_a_board_that_does_not_know_its_stacks_end_measures_none(painter: MemoryBoard) -> None:
    painter.lib.test_stack_limit = painter.ffi.NULL
    with pytest.raises(BoardError, match="UNSUPPORTED, detail 0"):
        stack(painter, "deep")
    assert painter.log == ""


def test_arguments_are_unpacked_and_copies_put_back(painter: MemoryBoard) -> None:
    y, copy = painter.call("bp.alloc", 8), painter.call("bp.alloc", 8)
    painter.call("bp.write", copy, 0, struct.pack("<2i", 3, 4))
    for _ in range(2):
        stack(painter, "scale", struct.pack("<4I", y, 0, 8, copy), 2)
        assert painter.call("bp.read", y, 0, 8) == struct.pack("<2i", 6, 8)


def test_what_cannot_be_measured_is_refused(painter: MemoryBoard) -> None:
    echo = painter.names().index("echo")
    with pytest.raises(BoardError, match=f"NOT_MEASURABLE, detail {echo}"):
        stack(painter, "echo")
    with pytest.raises(BoardError, match="NO_FUNCTION, detail 999"):
        painter.call("bp.stack", 999)
    with pytest.raises(BoardError, match="ARG_COUNT, detail 0"):
        painter.call("bp.stack")
    with pytest.raises(BoardError, match="ARG_COUNT, detail 1"):
        stack(painter, "work", 1)
    assert painter.log == ""


def test_a_check_that_fails_says_so(painter: MemoryBoard) -> None:
    painter.lib.test_check_after = 1
    with pytest.raises(BoardError, match="CHECK_FAILED, detail 42"):
        stack(painter, "work")


def test_a_fault_in_the_call_is_caught(boards: Boards) -> None:
    board = boards({**STACK, "BP_CFG_GUARD": 1})
    board.hello()
    board.log  # noqa: B018 - forgets the start
    board.lib.test_trap_at, board.lib.test_trap_after = b"f", 1
    board.lib.test_trap_cause = FaultCause.STACK_OVERFLOW
    with pytest.raises(BoardError, match="FAULT, detail 6"):
        stack(board, "deep")
    assert board.log == "(uf)"
    board.lib.test_trap_at = b"\0"
    assert stack(board, "deep")[0] >= 200
    assert board.log == "(ufc)"


def test_painting_does_not_count_within_the_limit_of_the_call(boards: Boards) -> None:
    board = boards({**STACK, "BP_CFG_GUARD": 1})
    board.hello()
    board.call("bp.guard", 50)
    board.log  # noqa: B018 - forgets the start
    board.lib.test_ticks_step = 800  # of 8000 a second, for each reading
    assert stack(board, "deep")[0] >= 200
    assert board.log == "()(ufc)"
    assert board.lib.test_guard_ms == 50 + 101
    board.call("work")
    assert board.lib.test_guard_ms == 50


def test_a_time_out_names_the_limit_that_was_asked_for(boards: Boards) -> None:
    board = boards({**STACK, "BP_CFG_GUARD": 1})
    board.hello()
    board.call("bp.guard", 50)
    board.lib.test_trap_at, board.lib.test_trap_after = b"f", 1
    board.lib.test_trap_cause = FaultCause.TIME_OUT
    with pytest.raises(BoardError, match="TIMEOUT, detail 50"):
        stack(board, "deep")


def test_the_longest_limit_stays_the_longest(boards: Boards) -> None:
    board = boards({**STACK, "BP_CFG_GUARD": 1})
    board.hello()
    board.call("bp.guard", 0xFFFFFFFF)
    stack(board, "deep")
    assert board.lib.test_guard_ms == 0xFFFFFFFF


def test_agents_without_it_do_not_offer_it(boards: Boards) -> None:
    board = boards(FULL)
    board.hello()
    assert "bp.stack" not in board.names()
