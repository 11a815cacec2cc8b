# SPDX-License-Identifier: Apache-2.0
"""The real C agent's bp.measure: what runs, how often, in which order, and what comes back.

A board's log has a letter for each event (tests/c/firmware.h): ``u f c`` set-up, the function, its
check; ``A B`` start of two collectors, ``a b`` their stop; ``w`` a frame that is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgpack
import pytest

from boardprof_protocol.codes import ErrorCode, FrameKind, MeasureFlag
from tests.memory_board import SMALLEST, BoardError, MemoryBoard, blob_counts

Boards = Callable[[dict[str, int]], MemoryBoard]

MEASURE, COUNT, WORK, ADD = 1, 2, 6, 7
A, B, AB = 1, 2, 3
_WITH_WINDOWS = 12
"""Functions that stand before the user's: three of each of four collectors."""


@pytest.fixture
def small(boards: Boards) -> MemoryBoard:
    board = boards(SMALLEST)
    board.hello()
    return board


def measure(
    board: MemoryBoard,
    function: int = WORK,
    arguments: Sequence[int] = (),
    *,
    flags: int = 0,
    warmup: int = 0,
    repeat: int = 1,
    number: int = 1,
    mask: int = A,
) -> Any:
    head = (function, flags, warmup, repeat, number, mask)
    return board.call(MEASURE, *head, *arguments)


def steps(text: str) -> str:
    """Return a log that is written with spaces, for people."""
    return text.replace(" ", "")


def test_a_sample_is_set_up_started_called_stopped_and_checked(small: MemoryBoard) -> None:
    measure(small)
    # The totals' start and stop stand around it all.
    assert small.log == steps("A uAfac a")


def test_collectors_nest_in_the_order_of_their_index(small: MemoryBoard) -> None:
    measure(small, mask=AB)
    assert small.log == steps("AB uABfbac ba")


def test_warm_up_rounds_make_one_call_in_a_window_that_is_not_sent(small: MemoryBoard) -> None:
    samples, blobs = measure(small, warmup=2, number=5)
    assert small.log == steps("uAfac uAfac A uAfffffac a")
    assert (samples, blob_counts(blobs)) == (1, [5, 5])


def test_each_sample_holds_number_calls_between_one_set_up_and_one_check(
    small: MemoryBoard,
) -> None:
    measure(small, warmup=1, repeat=2, number=3, mask=AB)
    assert small.log == steps("uABfbac AB uABfffbac uABfffbac ba")


@pytest.mark.parametrize(
    ("warmup", "repeat", "number"), [(0, 1, 1), (0, 3, 2), (7, 1, 1), (2, 5, 100), (1, 1, 100_000)]
)
def test_the_function_runs_as_often_as_asked_and_the_samples_count_it(
    small: MemoryBoard, warmup: int, repeat: int, number: int
) -> None:
    samples, blobs = measure(small, warmup=warmup, repeat=repeat, number=number)
    assert small.lib.test_worked == warmup + repeat * number
    assert samples == repeat
    *each, total = blob_counts(blobs)
    assert each == [number] * repeat
    assert total == repeat * number


def test_blobs_come_by_sample_then_by_collector_and_the_totals_last(small: MemoryBoard) -> None:
    samples, blobs = measure(small, repeat=3, number=2, mask=AB)
    assert samples == 3
    assert blob_counts(blobs) == [2, 2, 2, 2, 2, 2, 6, 6]


def test_collectors_may_be_left_out_in_between(small: MemoryBoard) -> None:
    small.lib.test_ticks_step = 7
    _, blobs = measure(small, mask=B | 8)  # probe_b and ticks
    schemas = [blobs[0:2], blobs[18:20], blobs[52:54], blobs[70:72]]
    assert schemas == [b"\x60\xea", b"\x03\x00", b"\x60\xea", b"\x03\x00"]
    assert small.log == steps("B uBfbc b")


def test_a_calibration_runs_the_empty_function_without_set_up_and_check(
    small: MemoryBoard,
) -> None:
    samples, blobs = measure(small, flags=MeasureFlag.EMPTY, warmup=2, repeat=2, number=3)
    assert small.lib.test_worked == 0
    assert small.log == steps("Aa Aa A Aa Aa a")
    assert (samples, blob_counts(blobs)) == (2, [0, 0, 0])


def test_arguments_reach_the_function_in_every_call(small: MemoryBoard) -> None:
    samples, _ = measure(small, ADD, (2, 3), warmup=1, repeat=2, number=3)
    assert samples == 2
    assert small.log == steps("Afa A Afffa Afffa a")


def test_a_calibration_takes_the_same_arguments(small: MemoryBoard) -> None:
    measure(small, ADD, (2, 3), flags=MeasureFlag.EMPTY)
    assert small.log == steps("A Aa a")


def test_the_result_of_the_last_call_comes_behind_the_blobs_if_asked_for(boards: Boards) -> None:
    board = boards({"BP_CFG_OPEN_WINDOWS": 4})
    board.hello()
    flags = MeasureFlag.RESULT
    samples, blobs, result = measure(
        board, _WITH_WINDOWS + ADD, (2, 3), flags=flags, warmup=1, repeat=2, number=3
    )
    assert (samples, len(blobs), result) == (2, 54, 5)
    assert measure(board, _WITH_WINDOWS + WORK, flags=flags)[2] is None
    # A calibration shows whether the agent does so, and calls nothing.
    board.lib.test_worked = 0
    assert measure(board, _WITH_WINDOWS + ADD, (2, 3), flags=flags | MeasureFlag.EMPTY)[2] is None
    assert len(measure(board, _WITH_WINDOWS + WORK, flags=flags | MeasureFlag.EMPTY)) == 3
    assert board.lib.test_worked == 0
    assert len(measure(board, _WITH_WINDOWS + ADD, (2, 3))) == 2


def test_the_smallest_agent_returns_no_results(small: MemoryBoard) -> None:
    assert len(measure(small, ADD, (2, 3), flags=MeasureFlag.RESULT)) == 2


### What fits ###


def test_a_result_has_its_room_before_anything_is_called(boards: Boards) -> None:
    board = boards({"BP_CFG_OPEN_WINDOWS": 4, "TEST_PROBE_BODY": 13})
    board.hello()
    # 242 bytes of body less 9, blobs of 23: 10 of them, one is the total; less 9 more: 9.
    assert measure(board, _WITH_WINDOWS + ADD, (2, 3), repeat=1000)[0] == 9
    samples, _, result = measure(
        board, _WITH_WINDOWS + ADD, (2, 3), flags=MeasureFlag.RESULT, repeat=1000
    )
    assert (samples, result) == (8, 5)


def test_as_many_samples_come_as_the_reply_holds(small: MemoryBoard) -> None:
    # 242 bytes of body less 9, blobs of 18: 12 of them, one is the total.
    samples, blobs = measure(small, repeat=1000, number=2)
    assert samples == 11
    assert blob_counts(blobs) == [2] * 11 + [22]
    assert small.lib.test_worked == 22


@pytest.mark.parametrize("body", [9, 24, 28, 36, 68])
def test_whatever_a_blobs_length_the_reply_is_as_full_as_it_can_be(
    boards: Boards, body: int
) -> None:
    board = boards({"TEST_PROBE_BODY": body})
    board.hello()
    samples, blobs = measure(board, repeat=1000)
    assert samples == (242 - 9) // (body + 10) - 1
    assert len(blobs) == (samples + 1) * (body + 10)


def test_more_than_127_samples_fit_a_longer_frame(boards: Boards) -> None:
    board = boards({"BP_CFG_MTU": 4096})
    board.hello()
    # 4096 - 2 - 17 - 11 = 4066 bytes of body less 9, blobs of 18: 225, one is the total.
    samples, blobs = measure(board, repeat=1000)
    assert samples == 224
    assert blob_counts(blobs) == [1] * 224 + [224]


def test_blobs_of_which_not_one_sample_fits_are_refused(boards: Boards) -> None:
    board = boards({"BP_CFG_MTU": 64})
    board.hello()
    # 50 bytes of body less 9: two blobs of 18 fit, two of 2 x 18 do not.
    assert measure(board)[0] == 1
    with pytest.raises(BoardError, match="REPLY_TOO_BIG, detail 36"):
        measure(board, mask=AB)
    assert board.lib.test_worked == 1


def test_collectors_whose_state_does_not_fit_are_refused(boards: Boards) -> None:
    board = boards({"BP_CFG_STATE_BYTES": 32})
    board.hello()
    with pytest.raises(BoardError, match="NO_MEMORY, detail 2"):
        measure(board, mask=A | 4)  # 8 bytes, then 32
    with pytest.raises(BoardError, match="NO_MEMORY, detail 3"):
        measure(board, mask=AB | 8)  # 8, 8, then 24
    assert measure(board, mask=4)[0] == 1


def test_more_collectors_than_configured_are_refused(boards: Boards) -> None:
    board = boards({"BP_CFG_ACTIVE_COLLECTORS": 1})
    board.hello()
    with pytest.raises(BoardError, match="NO_MEMORY, detail 1"):
        measure(board, mask=AB)
    assert measure(board, mask=B)[0] == 1


### What is refused ###


@pytest.mark.parametrize(
    ("wrong", "code", "detail"),
    [
        ({"repeat": 0}, ErrorCode.ARG_RANGE, 0),
        ({"number": 0}, ErrorCode.ARG_RANGE, 0),
        ({"mask": 0}, ErrorCode.ARG_RANGE, 0),
        ({"warmup": 0x80000000}, ErrorCode.ARG_RANGE, 0),
        ({"warmup": 0xFFFFFFFF, "repeat": 2}, ErrorCode.ARG_RANGE, 0),
        ({"mask": 1 << 4}, ErrorCode.NO_COLLECTOR, 4),
        ({"mask": A | 1 << 31}, ErrorCode.NO_COLLECTOR, 31),
        ({"function": 9}, ErrorCode.NO_FUNCTION, 9),
        ({"function": MEASURE}, ErrorCode.NOT_MEASURABLE, MEASURE),
        ({"function": COUNT}, ErrorCode.NOT_MEASURABLE, COUNT),
        ({"arguments": (1,)}, ErrorCode.ARG_COUNT, 1),
        ({"function": ADD}, ErrorCode.ARG_COUNT, 0),
        ({"function": ADD, "arguments": (1, 2**31)}, ErrorCode.ARG_RANGE, 0),
        ({"repeat": 1 << 32}, ErrorCode.ARG_TYPE, 2),
    ],
)
def test_a_wrong_measurement_is_refused_and_runs_nothing(
    small: MemoryBoard, wrong: dict[str, Any], code: ErrorCode, detail: int
) -> None:
    with pytest.raises(BoardError) as caught:
        measure(small, **wrong)
    assert (caught.value.code, caught.value.detail) == (code, detail)
    assert small.log == ""


def test_too_few_numbers_are_refused(small: MemoryBoard) -> None:
    with pytest.raises(BoardError, match="ARG_COUNT, detail 0"):
        small.call(MEASURE, WORK, 0, 0, 1, 1)


@pytest.mark.parametrize(("after", "log"), [(1, "uAfac"), (2, "uAfac A uAffac")])
def test_a_check_that_fails_ends_the_measurement_with_its_result(
    small: MemoryBoard, after: int, log: str
) -> None:
    small.lib.test_check_after = after
    with pytest.raises(BoardError, match="CHECK_FAILED, detail 42"):
        measure(small, warmup=1, repeat=3, number=2)
    assert small.log == steps(log)


def test_a_measurement_works_after_one_whose_check_failed(small: MemoryBoard) -> None:
    small.lib.test_check_after = 1
    with pytest.raises(BoardError, match="CHECK_FAILED"):
        measure(small)
    small.lib.test_check_after = 0
    assert blob_counts(measure(small)[1]) == [1, 1]


def test_a_duplicate_of_a_measurement_measures_nothing_again(small: MemoryBoard) -> None:
    call = small.frame(MEASURE, WORK, 0, 0, 3, 1, A)
    first = small.answer(call)
    assert small.exchange(call) == [first]
    assert small.lib.test_worked == 3


### PROGRESS ###


def progress(board: MemoryBoard, **how: int) -> list[list[int]]:
    head = (WORK, 0, how.get("warmup", 0), how.get("repeat", 1), 1, A)
    call = board.frame(MEASURE, *head)
    *frames, answer = board.exchange(call)
    assert answer.kind == FrameKind.RESULT
    for frame in frames:
        assert (frame.kind, frame.session) == (FrameKind.PROGRESS, board.session)
        assert frame.sequence == call.sequence
    return [msgpack.unpackb(frame.body) for frame in frames]


def test_a_measurement_says_at_once_that_it_has_begun(small: MemoryBoard) -> None:
    assert progress(small, warmup=2, repeat=3) == [[0, 5]]


def test_progress_comes_eight_times_a_second_of_the_boards_clock(small: MemoryBoard) -> None:
    # 8000 Hz: an eighth of a second is 1000 ticks; the clock is read once a round.
    small.lib.test_ticks_step = 500
    assert progress(small, repeat=6) == [[0, 6], [2, 6], [4, 6]]
    small.lib.test_ticks_step = 999
    assert progress(small, repeat=6) == [[0, 6], [2, 6], [4, 6]]
    small.lib.test_ticks_step = 1000
    assert progress(small, repeat=3) == [[0, 3], [1, 3], [2, 3]]


def test_progress_survives_a_wrap_of_the_clock(small: MemoryBoard) -> None:
    small.lib.test_ticks = (1 << 32) - 700
    small.lib.test_ticks_step = 600
    assert progress(small, repeat=5) == [[0, 5], [2, 5], [4, 5]]


def test_progress_counts_rounds_of_this_reply_only(small: MemoryBoard) -> None:
    small.lib.test_ticks_step = 1000
    assert progress(small, repeat=1000)[-1] == [10, 11]


@pytest.mark.parametrize("bits", [16, 24])
def test_a_board_with_a_narrow_counter_makes_progress_too(boards: Boards, bits: int) -> None:
    # An eighth of a second is more than the counter can show: 2 million ticks a second, 16 bits.
    board = boards({"TEST_TICKS_BITS": bits, "TEST_TICKS_HZ": 160_000_000})
    board.hello()
    board.lib.test_ticks_step = (1 << bits) * 3 // 4
    assert len(progress(board, repeat=8)) > 1


def test_a_board_without_a_clock_says_progress_at_each_of_16_rounds_and_then_at_each_16th_one(
    boards: Boards,
) -> None:
    board = boards({"TEST_TICKS_HZ": 0})
    board.hello()
    assert [done for done, _ in progress(board, warmup=67)] == [*range(16), 16, 32, 48, 64]


def test_no_progress_falls_into_a_window(small: MemoryBoard) -> None:
    small.lib.test_ticks_step = 1000
    small.lib.test_log_writes = True
    measure(small, warmup=1, repeat=2, mask=AB)
    assert small.log == steps("wuABfbac w AB uABfbac w uABfbac ba w")
