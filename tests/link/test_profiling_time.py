# SPDX-License-Identifier: Apache-2.0
"""TVM's time evaluator on real boards: seconds by the board's clock, and refusals without one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from boardprof.base.errors import UnknownNameError, UsageError
from boardprof.compat.tvm_profiler import BenchmarkResult, time_evaluator
from boardprof.jobs.tune import MeasureResult
from boardprof.measure.board.board import Board
from boardprof.measure.connect import build
from tests.link.profiling_boards import LAYERS, native, rv32

__all__ = ["native", "rv32"]

# A call of two instructions may take less than the clock of a busy machine resolves.
pytestmark = pytest.mark.filterwarnings("ignore:.* takes less time than the clock")


def test_it_gives_as_many_results_as_repeats_in_seconds_a_call(native: Board) -> None:
    began_s = time.monotonic()
    result = time_evaluator(native, "work", repeat=4)(100_000)
    elapsed_s = time.monotonic() - began_s
    assert isinstance(result, BenchmarkResult)
    assert len(result.results) == 4
    # No core adds 100,000 times in a microsecond; and all 40 calls were within the host's time.
    assert 1e-6 < result.min <= result.median <= result.max
    assert 10 * sum(result.results) < elapsed_s


def test_the_function_runs_number_times_a_repeat_and_once_to_warm_up(native: Board) -> None:
    before = native.functions.ticked()
    time_evaluator(native, "slow_tick", "native", number=7, repeat=3)()
    # 7 * 3, one to warm up, and the one behind them for the outputs.
    assert native.functions.ticked() == before + 23  # type: ignore[operator]


def test_calls_become_more_until_a_repeat_is_long_enough(native: Board) -> None:
    evaluate = time_evaluator(native, "tick", number=1, min_repeat_ms=1.0)

    def timed() -> bool:
        before = native.functions.ticked()
        result = evaluate()
        after = native.functions.ticked()
        assert isinstance(before, int)
        assert isinstance(after, int)
        # A call takes nanoseconds, so that it takes very many of them to fill a millisecond.
        return after - before > 1000 and result.median < 1e-6

    # An attempt in which the machine does something else is long enough with fewer calls.
    assert any(timed() for _ in range(3))


def test_the_board_rests_after_so_many_repeats(native: Board) -> None:
    evaluate = time_evaluator(
        native, "tick", number=1, repeat=4, cooldown_interval_ms=60, repeats_to_cooldown=2
    )
    began_s = time.monotonic()
    evaluate()
    assert 0.12 <= time.monotonic() - began_s < 10  # after the first and the third


def test_what_is_called_before_each_repeat_is_of_the_board_or_of_the_host(native: Board) -> None:
    before = native.functions.ticked()
    time_evaluator(native, "work", repeat=3, f_preproc="tick")(10)
    assert native.functions.ticked() == before + 3  # type: ignore[operator]
    seen: list[Any] = []
    time_evaluator(native, "work", repeat=2, f_preproc=lambda n: seen.append(n))(10)
    assert seen == [10, 10]
    assert time_evaluator(native, "work", f_preproc="work")(10).results


def test_arrays_begin_each_repeat_with_the_callers_values(native: Board) -> None:
    x = np.array([3, 5], np.int32)
    time_evaluator(native, "twice", number=1, repeat=4)(x, 2)
    assert x.tolist() == [6, 10]


def test_a_simulated_clock_is_refused_with_what_to_use_instead(rv32: Board) -> None:
    with pytest.raises(
        UsageError,
        match=r"qemu-rv32 cannot be timed: its clock is simulated and does not measure "
        r"seconds\.\nTry: use profile_function, which can count: instructions, ticks",
    ):
        time_evaluator(rv32, "work")


def test_what_is_out_of_range_or_unknown_is_told(native: Board) -> None:
    for name in ("number", "repeat", "limit_zero_time_iterations", "repeats_to_cooldown"):
        with pytest.raises(UsageError, match=f"{name}=0 is out of range"):
            time_evaluator(native, "work", **{name: 0})
    for name in ("min_repeat_ms", "cooldown_interval_ms"):
        for value in (-1, "1", float("nan"), True):
            with pytest.raises(UsageError, match=f"{name}=.* is not a time in milliseconds"):
                time_evaluator(native, "work", **{name: value})
    for name, other in (
        ("limit_zero_time_iterations", "min_repeat_ms"),
        ("repeats_to_cooldown", "cooldown_interval_ms"),
    ):
        for metrics in (None, "page-faults"):
            with pytest.raises(UsageError, match=f"{name} has no effect without {other}"):
                time_evaluator(native, "work", metrics=metrics, **{name: 5})
    with pytest.raises(UsageError, match="the agent does not flush caches"):
        time_evaluator(native, "work", cache_flush_bytes=1024)
    with pytest.raises(UnknownNameError, match="no function 'wrok'; did you mean 'work'"):
        time_evaluator(native, "wrok")
    with pytest.raises(UnknownNameError, match="no function 'flush'"):
        time_evaluator(native, "work", f_preproc="flush")
    with pytest.raises(UsageError, match="The board native has no device cpu"):
        time_evaluator(native, "work", "cpu")


def test_firmware_is_started_for_it_and_stopped_again() -> None:
    evaluate = time_evaluator(build(LAYERS, board="native"), "work")
    assert evaluate(1000).min > 0
    evaluate.close()
    with pytest.raises(Exception, match="closed"):
        evaluate(1000)


SAME = """
#include <stdint.h>
void note(int32_t *x, uint32_t n);
void same(const int32_t *x, uint32_t n);
uint32_t times_same(void);
static const int32_t *noted;
static uint32_t times;
void note(int32_t *x, uint32_t n) { noted = x + n; }
void same(const int32_t *x, uint32_t n) { times += noted == x + n; }
uint32_t times_same(void) { return times; }
"""


def test_a_function_of_the_board_gets_the_very_arrays_that_are_measured(tmp_path: Path) -> None:
    # So it can warm them up, or flush their cache lines.
    source = tmp_path / "same.c"
    source.write_text(SAME)
    with build(source, board="native").open() as board:
        x = np.zeros(5, np.int32)
        time_evaluator(board, "same", number=2, repeat=3, f_preproc="note")(x, 5)
        # Not in the call that warms up, before any note; 2 in each repeat, and one behind them.
        assert board.functions.times_same() == 7


def test_what_a_function_of_the_host_writes_is_what_a_repeat_begins_with(native: Board) -> None:
    x = np.array([1, 2], np.int32)
    starts = iter([10, 20, 30])

    def fill(x: npt.NDArray[np.int32], n: int) -> None:
        x[:] = next(starts)

    time_evaluator(native, "twice", number=1, repeat=3, f_preproc=fill)(x, 2)
    assert x.tolist() == [60, 60]


def test_what_cannot_be_called_before_a_repeat_is_told(native: Board) -> None:
    with pytest.raises(UsageError, match="f_preproc=5 is neither a name nor a function"):
        time_evaluator(native, "work", f_preproc=5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"f_preproc='relu' takes f32\*, u32; twice takes i32\*"):
        time_evaluator(native, "twice", f_preproc="relu")
    with pytest.raises(UsageError, match="takes u32; tick takes nothing"):
        time_evaluator(native, "tick", f_preproc="work")


def test_metrics_give_what_a_tuner_takes(rv32: Board) -> None:
    result = time_evaluator(rv32, "work", number=2, repeat=3, metrics="instructions")(1000)
    assert isinstance(result, MeasureResult)
    assert len(result.costs) == 3
    assert result.cost == result.metrics["instructions"]
    [direct] = {row["instructions"] for row in rv32.profile("work", 1000, repeat=1).calls}
    assert result.costs == (float(direct.value),) * 3  # type: ignore[union-attr]


def test_metrics_have_all_their_names_and_the_stack_is_one(rv32: Board) -> None:
    result = time_evaluator(rv32, "work", metrics=["insn", "Stack (bytes)"])(1000)
    assert isinstance(result, MeasureResult)
    assert result.costs == (result.metrics["instructions"],)
    assert result.metrics["insn"] == result.metrics["instructions"]
    [row] = rv32.profile("work", 1000, repeat=1).calls
    assert result.metrics["Stack (bytes)"] == row["Stack (bytes)"].value  # type: ignore[union-attr]
    result = time_evaluator(rv32, "work", metrics="stack")(1000)
    assert isinstance(result, MeasureResult)
    assert result.costs == (result.metrics["Stack (bytes)"],)


def test_what_is_for_time_is_refused_with_metrics(native: Board) -> None:
    with pytest.raises(UsageError, match="min_repeat_ms is for measuring time"):
        time_evaluator(native, "work", min_repeat_ms=5, metrics="page-faults")
    with pytest.raises(UsageError, match="is not a cost"):
        time_evaluator(native, "work", metrics="all")
