# SPDX-License-Identifier: Apache-2.0
"""The real C agent's masked windows, and what it tells of the board's interrupts.

``<`` and ``>`` in a board's log are bp_port_mask and bp_port_unmask; ``(`` and ``)`` stand around a
guarded call.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from boardprof_protocol.codes import ErrorCode, FaultCause, InterruptFlag, MeasureFlag
from tests.memory_board import BoardError, MemoryBoard, blob_counts

Boards = Callable[[dict[str, int]], MemoryBoard]


@pytest.fixture
def board(boards: Boards) -> MemoryBoard:
    made = boards({"BP_CFG_INTERRUPTS": 1, "BP_CFG_GUARD": 1})
    made.hello()
    return made


def measure(board: MemoryBoard, flags: int, warmup: int, repeat: int, number: int) -> bytes:
    work = board.names().index("work")
    samples, blobs = board.call("bp.measure", work, flags, warmup, repeat, number, 1)
    assert samples == repeat
    return bytes(blobs)


def test_only_the_windows_of_samples_are_masked(board: MemoryBoard) -> None:
    blobs = measure(board, MeasureFlag.MASK, warmup=1, repeat=2, number=3)
    # set-up and check run unmasked, and so do warm-up rounds and the agent's own work
    assert board.log == "(ufc)A(u<Afffa>c)(u<Afffa>c)a"
    assert blob_counts(blobs) == [3, 3, 6]


def test_a_calibration_is_masked_in_the_same_way(board: MemoryBoard) -> None:
    measure(board, MeasureFlag.MASK | MeasureFlag.EMPTY, warmup=1, repeat=1, number=1)
    assert board.log == "()A(<Aa>)a"


def test_nothing_is_masked_unless_the_host_asks(board: MemoryBoard) -> None:
    measure(board, 0, warmup=0, repeat=1, number=1)
    assert board.log == "A(uAfac)a"


def test_an_agent_without_the_option_ignores_the_flag(boards: Boards) -> None:
    board = boards({})
    board.hello()
    measure(board, MeasureFlag.MASK, warmup=0, repeat=1, number=1)
    assert board.log == "AuAfaca"
    assert "bp.interrupts" not in board.names()


def test_a_fault_in_a_masked_window_is_that_of_its_call(board: MemoryBoard) -> None:
    board.lib.test_trap_at = b"f"
    board.lib.test_trap_after = 1
    board.lib.test_trap_cause = FaultCause.DIVIDE
    with pytest.raises(BoardError) as caught:
        measure(board, MeasureFlag.MASK, warmup=0, repeat=1, number=1)
    assert (caught.value.code, caught.value.detail) == (ErrorCode.FAULT, FaultCause.DIVIDE)
    # bringing the mask back is the port's, whose guard leaves interrupts as they were
    assert board.log == "A(u<Af)"


def test_the_board_tells_what_is_masked_and_how_long_its_clock_survives_that(
    board: MemoryBoard,
) -> None:
    flags, timer_us, longest_us, *_ = board.call("bp.interrupts")
    assert flags & InterruptFlag.MASKS_GUARD
    assert (timer_us, longest_us) == (1000, 2048)
    with pytest.raises(BoardError) as caught:
        board.call("bp.interrupts", 1)
    assert caught.value.code == ErrorCode.ARG_COUNT


def test_an_agent_without_a_guard_has_none_that_could_be_masked(boards: Boards) -> None:
    board = boards({"BP_CFG_INTERRUPTS": 1})
    board.hello()
    assert board.call("bp.interrupts")[0] & InterruptFlag.MASKS_GUARD == 0
