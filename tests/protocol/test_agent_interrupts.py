# SPDX-License-Identifier: Apache-2.0
"""The real C agent's masked windows, and what it tells of the board's interrupts.

``<`` and ``>`` in a board's log are bp_port_mask and bp_port_unmask; ``(`` and ``)`` stand around a
guarded call.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

import pytest

from boardprof_protocol.blob import split_blobs
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
    assert board.log == "(uAfac)A(u<Afffa>c)(u<Afffa>c)a"
    assert blob_counts(blobs) == [3, 3, 6]


def test_a_calibration_is_masked_in_the_same_way(board: MemoryBoard) -> None:
    measure(board, MeasureFlag.MASK | MeasureFlag.EMPTY, warmup=1, repeat=1, number=1)
    assert board.log == "(Aa)A(<Aa>)a"


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


### Hooks ###

TICKS, HOOKS = 1 << 3, 1 << 4
EMPTY_INTERRUPT = MeasureFlag.EMPTY | MeasureFlag.INTERRUPT


@pytest.fixture
def hooked(boards: Boards) -> Iterator[MemoryBoard]:
    made = boards({"BP_CFG_INTERRUPTS": 2, "BP_CFG_GUARD": 1})
    made.hello()
    made.lib.test_ticks_step = 0
    yield made
    made.lib.bp_task_switched(made.ffi.NULL)


def windows(board: MemoryBoard, mask: int, number: int = 1) -> list[list[int]]:
    """Measure the interrupt that the port triggers; return stop - start of each counter.

    Returns:
        Those of the sample, and those of the totals.
    """
    work = board.names().index("work")
    _, blobs = board.call("bp.measure", work, EMPTY_INTERRUPT, 0, 1, number, mask)
    counts: list[int] = []
    for blob in split_blobs(bytes(blobs)):
        size = {3: 1, 16: 3}[blob.schema_id]  # the starts of u64, then the stops
        words = struct.unpack_from(f"<{2 * size}Q", blob.body)
        counts += [stop - start for start, stop in zip(words[:size], words[size:], strict=True)]
    return [counts[: len(counts) // 2], counts[len(counts) // 2 :]]


def test_what_runs_between_hooks_is_not_in_the_window_and_nested_interrupts_count_once(
    hooked: MemoryBoard,
) -> None:
    # ticks; interrupts, switches, ticks in both: 1000 + 100, and 10 of the other task
    sample, total = windows(hooked, TICKS | HOOKS)
    assert sample == [0, 1, 1, 1110]
    assert total[1:] == [1, 1, 1110]
    assert windows(hooked, TICKS | HOOKS, number=3)[0] == [0, 3, 3, 3330]


def test_an_exit_without_its_entry_is_ignored(hooked: MemoryBoard) -> None:
    hooked.lib.test_strays = True
    assert windows(hooked, TICKS | HOOKS, number=3)[0] == [0, 3, 3, 3330]


def test_a_task_may_be_switched_by_an_interrupt_between_its_hooks(hooked: MemoryBoard) -> None:
    hooked.lib.test_switches_within = True
    # the interrupt's 1000 ticks, the other task's 10, and 100 of the interrupt that switches back.
    # It is a switch and not an interrupt, too: the cost outside of the hooks is subtracted for each
    assert windows(hooked, TICKS | HOOKS, number=2)[0] == [0, 0, 2, 2220]


def test_what_the_scheduler_takes_to_choose_a_task_is_left_out_and_no_switch_of_its_own(
    hooked: MemoryBoard,
) -> None:
    hooked.lib.bp_task_switched(hooked.ffi.addressof(hooked.lib, "test_ticks"))
    hooked.lib.test_schedules = True
    assert windows(hooked, TICKS | HOOKS, number=2)[0] == [0, 0, 2, 40]


def test_the_totals_have_everything(hooked: MemoryBoard) -> None:
    assert windows(hooked, TICKS | HOOKS, number=2)[-1] == [2220, 2, 2, 2220]


def test_without_the_collector_of_hooks_the_counts_have_all_that_came(hooked: MemoryBoard) -> None:
    assert windows(hooked, TICKS)[0] == [1110]


def test_interrupts_run_between_the_last_start_and_the_first_stop_alone(
    hooked: MemoryBoard,
) -> None:
    hooked.call("bp.measure", hooked.names().index("work"), 0, 0, 1, 1, 1)
    assert hooked.log == "A(u<A>f<a>c)a"
    hooked.call("bp.measure", hooked.names().index("work"), MeasureFlag.MASK, 0, 1, 1, 1)
    assert hooked.log.startswith("A(u<<A>")


def test_a_fault_within_an_interrupt_leaves_nothing_behind(hooked: MemoryBoard) -> None:
    hooked.lib.test_trap_at = b"x"
    hooked.lib.test_trap_after = 1
    hooked.lib.test_trap_cause = FaultCause.BAD_ADDRESS
    with pytest.raises(BoardError):
        windows(hooked, TICKS | HOOKS)
    assert windows(hooked, TICKS | HOOKS)[0] == [0, 1, 1, 1110]


def test_the_board_tells_which_collectors_leave_interrupts_out(hooked: MemoryBoard) -> None:
    flags, _, _, skips, bound_ns, enabled = hooked.call("bp.interrupts")
    assert flags == InterruptFlag.MASKS_GUARD | InterruptFlag.TRIGGERS
    assert (skips, bound_ns, enabled) == (0b01100, 300, 0)  # cycles_instret and ticks
