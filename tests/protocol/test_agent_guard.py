# SPDX-License-Identifier: Apache-2.0
"""The real C agent's guarded calls: what ends a function otherwise than by its return."""

from __future__ import annotations

from collections.abc import Callable

import msgpack
import pytest

from boardprof_protocol.codes import ErrorCode, FaultCause, FrameKind
from tests.memory_board import FULL, BoardError, MemoryBoard, blob_counts

Boards = Callable[[dict[str, int]], MemoryBoard]

PC = 0x1_2345_6789
ADDRESS = 0xFEED


@pytest.fixture
def guarded(boards: Boards) -> MemoryBoard:
    board = boards({**FULL, "BP_CFG_GUARD": 1})
    board.hello()
    return board


def trap(
    board: MemoryBoard, at: str, after: int = 1, cause: FaultCause = FaultCause.BAD_ADDRESS
) -> None:
    """Let the next guarded calls end when ``at`` stands in the log for the ``after``th time."""
    board.lib.test_trap_at = at.encode()
    board.lib.test_trap_after = after
    board.lib.test_trap_cause = cause
    board.lib.test_trap_pc = PC
    board.lib.test_trap_address = ADDRESS


def refused(board: MemoryBoard, function: str, *arguments: object) -> list[int]:
    """Call a function; return the numbers of the ERROR that it must end in."""
    with pytest.raises(BoardError) as caught:
        board.call(function, *arguments)
    return [caught.value.code, caught.value.detail, *caught.value.more]


def measure(board: MemoryBoard, name: str, warmup: int, repeat: int, number: int) -> list[object]:
    return [board.names().index(name), 0, warmup, repeat, number, 1]


@pytest.mark.parametrize("at", ["u", "f", "c"])
def test_a_fault_in_set_up_function_or_check_is_an_error_with_cause_pc_and_address(
    guarded: MemoryBoard, at: str
) -> None:
    trap(guarded, at)
    assert refused(guarded, "work") == [ErrorCode.FAULT, FaultCause.BAD_ADDRESS, PC, ADDRESS]


def test_a_fault_in_a_packed_function_outdoes_what_it_had_written_and_noted(
    guarded: MemoryBoard,
) -> None:
    trap(guarded, "p", cause=FaultCause.ABORT)
    assert refused(guarded, "trap") == [ErrorCode.FAULT, FaultCause.ABORT, PC, ADDRESS]


def test_a_packed_function_that_does_not_trap_answers_with_its_own_error(
    guarded: MemoryBoard,
) -> None:
    assert refused(guarded, "trap") == [ErrorCode.ARG_TYPE, 3]
    assert refused(guarded, "refuse", int(ErrorCode.FAULT)) == [ErrorCode.FAULT, 0]


def test_the_call_after_a_fault_works_and_a_later_error_has_two_items(
    guarded: MemoryBoard,
) -> None:
    trap(guarded, "f")
    refused(guarded, "work")
    assert guarded.call("add", 2, 3) == 5
    assert refused(guarded, "add", 2) == [ErrorCode.ARG_COUNT, 0]


def test_a_time_out_has_its_limit_in_the_error(guarded: MemoryBoard) -> None:
    assert guarded.call("bp.guard", 1500) is None
    trap(guarded, "f", cause=FaultCause.TIME_OUT)
    assert refused(guarded, "work") == [ErrorCode.TIMEOUT, 1500, PC, ADDRESS]


def test_the_limit_holds_for_calls_packed_functions_and_rounds(guarded: MemoryBoard) -> None:
    guarded.call("bp.guard", 0xFFFFFFFF)
    for call in (["work"], ["count"], ["bp.measure", *measure(guarded, "work", 0, 1, 1)]):
        guarded.lib.test_guard_ms = 0
        guarded.call(*call)
        assert guarded.lib.test_guard_ms == 0xFFFFFFFF


def test_a_new_session_has_no_limit(guarded: MemoryBoard) -> None:
    guarded.call("bp.guard", 7)
    guarded.call("work")
    assert guarded.lib.test_guard_ms == 7
    guarded.hello(session=0x4321)
    guarded.call("work")
    assert guarded.lib.test_guard_ms == 0


@pytest.mark.parametrize("arguments", [(), (1, 2), (-1,), ("1",), (1 << 32,)])
def test_a_limit_that_is_no_u32_is_refused_and_changes_nothing(
    guarded: MemoryBoard, arguments: tuple[object, ...]
) -> None:
    guarded.call("bp.guard", 7)
    assert refused(guarded, "bp.guard", *arguments)[0] in (ErrorCode.ARG_COUNT, ErrorCode.ARG_TYPE)
    guarded.call("work")
    assert guarded.lib.test_guard_ms == 7


def test_each_round_is_guarded_by_itself_around_set_up_window_and_check(
    guarded: MemoryBoard,
) -> None:
    arguments = measure(guarded, "work", 1, 2, 3)
    _ = guarded.log
    guarded.call(1, *arguments)
    assert guarded.log == "(uAfac)" + "A" + "(uAfffac)" * 2 + "a"


def test_a_calibration_is_guarded_as_well(guarded: MemoryBoard) -> None:
    number = guarded.names().index("work")
    _ = guarded.log
    guarded.call(1, number, 1, 0, 1, 1, 1)
    assert guarded.log == "A(Aa)a"


@pytest.mark.parametrize(
    ("at", "after", "log"),
    [
        ("u", 1, "(u)"),
        ("f", 1, "(uAf)"),
        ("c", 1, "(uAfac)"),
        ("u", 2, "(uAfac)A(u)"),
        ("f", 3, "(uAfac)A(uAff)"),
        ("c", 3, "(uAfac)A(uAffac)(uAffac)"),
    ],
)
def test_a_fault_in_any_round_ends_the_measurement(
    guarded: MemoryBoard, at: str, after: int, log: str
) -> None:
    arguments = measure(guarded, "work", 1, 3, 2)
    trap(guarded, at, after, FaultCause.DIVIDE)
    _ = guarded.log
    with pytest.raises(BoardError) as caught:
        guarded.call(1, *arguments)
    assert (caught.value.code, caught.value.detail) == (ErrorCode.FAULT, FaultCause.DIVIDE)
    assert caught.value.more == (PC, ADDRESS)
    assert guarded.log == log


def test_a_measurement_after_a_fault_has_all_its_samples(guarded: MemoryBoard) -> None:
    arguments = measure(guarded, "work", 1, 2, 3)
    trap(guarded, "f", 2)
    with pytest.raises(BoardError):
        guarded.call(1, *arguments)
    samples, blobs = guarded.call(1, *arguments)
    assert samples == 2
    assert blob_counts(blobs) == [3, 3, 6]


def test_windows_and_blocks_outlive_a_fault(guarded: MemoryBoard) -> None:
    window = guarded.call("probe_a.start")
    block = guarded.call("bp.alloc", 8)
    guarded.call("bp.write", block, 0, b"12345678")
    trap(guarded, "f", 2)
    guarded.call("work")
    refused(guarded, "work")
    assert guarded.call("bp.read", block, 0, 8) == b"12345678"
    assert blob_counts(guarded.call("probe_a.stop", window)) == [2]


def test_a_duplicate_of_a_call_that_trapped_gets_the_same_error_and_runs_nothing(
    guarded: MemoryBoard,
) -> None:
    trap(guarded, "f")
    call = guarded.frame(guarded.names().index("work"))
    _ = guarded.log
    first = guarded.answer(call)
    assert first.kind == FrameKind.ERROR
    assert msgpack.unpackb(first.body) == [ErrorCode.FAULT, FaultCause.BAD_ADDRESS, PC, ADDRESS]
    assert guarded.answer(call) == first
    assert guarded.log == "(uf)"


def test_the_agents_own_functions_and_the_collectors_are_not_guarded(
    guarded: MemoryBoard,
) -> None:
    names = guarded.names()
    _ = guarded.log
    window = guarded.call(names.index("probe_a.start"))
    guarded.call(names.index("probe_a.stop"), window)
    guarded.call(names.index("bp.guard"), 5)
    assert guarded.log == "Aa"


def test_an_agent_without_guard_does_not_offer_it(boards: Boards) -> None:
    board = boards(FULL)
    board.hello()
    assert "bp.guard" not in board.names()
