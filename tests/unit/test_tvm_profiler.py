# SPDX-License-Identifier: Apache-2.0
"""What of TVM's interface needs no board: columns that clash, the growth rule, the figures."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import boardprof
from boardprof import profiling
from boardprof.base.errors import UsageError
from boardprof.base.metrics import Count, Duration
from boardprof.compat.tvm_profiler.host_collectors import columns_for
from boardprof.compat.tvm_profiler.timing import (
    BenchmarkResult,
    Timed,
    next_number,
    time_long_enough,
)


def test_a_name_that_nobody_has_stays_as_it_is() -> None:
    assert columns_for([{"Meter": {"energy": Count(1)}}], ["cycles"]) == {
        ("Meter", "energy"): "energy"
    }


def test_a_name_that_the_board_has_gets_the_collectors_before_it() -> None:
    found = {"Meter": {"cycles": Count(1)}, "Other": {"cycles": Count(2), "x": Count(3)}}
    assert columns_for([found], ["Name", "cycles"]) == {
        ("Meter", "cycles"): "Meter.cycles",
        ("Other", "cycles"): "Other.cycles",
        ("Other", "x"): "x",
    }


def test_of_two_collectors_the_first_keeps_the_name() -> None:
    found = {"Meter": {"energy": Count(1)}, "Meter-2": {"energy": Count(2)}}
    assert columns_for([found], []) == {
        ("Meter", "energy"): "energy",
        ("Meter-2", "energy"): "Meter-2.energy",
    }


def test_a_name_that_is_taken_with_its_prefix_gets_another() -> None:
    found = {"Meter": {"Meter.cycles": Count(1), "cycles": Count(2)}}
    assert columns_for([found], ["cycles"]) == {
        ("Meter", "Meter.cycles"): "Meter.cycles",
        ("Meter", "cycles"): "Meter.Meter.cycles",
    }


def test_a_metric_has_one_column_in_all_samples() -> None:
    samples = [{"A": {"x": Count(1)}}, {"A": {"x": Count(2)}, "B": {"x": Count(3)}}]
    assert columns_for(samples, []) == {("A", "x"): "x", ("B", "x"): "B.x"}


def test_what_says_what_a_row_is_of_and_the_boards_duration_are_never_a_collectors() -> None:
    names = ["Name", "Device", "Count", "Percent", "Duration (us)", "Hash", "Argument Shapes"]
    found = {"Meter": dict.fromkeys(names, Duration(1.0))}
    assert list(columns_for([found], []).values()) == [f"Meter.{name}" for name in names]


# -- the number of calls ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "taken_ms", "wanted"),
    [
        (10, 2.0, 101),  # 20 / 0.2 + 1, and 16.18
        (100, 15.0, 161),  # 134.3, and 161.8
        (1, 15.0, 2),  # 2.33, and 1.618
        (1, 19.99, 2),  # 2.0005, and 1.618
        (3, 1e-12, 4294967295),  # as many as the wire holds
    ],
)
def test_the_number_grows_by_the_time_taken_and_by_1_618_at_least(
    number: int, taken_ms: float, wanted: int
) -> None:
    assert next_number(number, taken_ms, 20.0) == wanted


def timer(*taken_s: float) -> tuple[list[int], Callable[[int], Timed]]:
    asked: list[int] = []

    def timed(number: int) -> Timed:
        asked.append(number)
        return Timed(taken_s[len(asked) - 1], taken_s[len(asked) - 1])

    return asked, timed


def test_a_repeat_that_is_long_enough_is_the_only_one() -> None:
    asked, seconds = timer(0.020)
    assert time_long_enough(seconds, 10, 20.0, 100) == (10, 0.020)
    assert asked == [10]


def test_a_repeat_goes_on_until_it_is_long_enough() -> None:
    asked, seconds = timer(0.002, 0.019, 0.031)
    assert time_long_enough(seconds, 10, 20.0, 100) == (163, 0.031)
    assert asked == [10, 101, 163]  # 101 * 1.618 = 163.4; 20 / (19 / 101) + 1 = 107.3


def test_the_whole_time_is_long_enough_where_the_net_one_is_nothing() -> None:
    asked: list[int] = []

    def timed(number: int) -> Timed:
        asked.append(number)
        return Timed(1e-12 * number, 1e-4 * number)

    assert time_long_enough(timed, 10, 20.0, 100) == (201, pytest.approx(2.01e-10))
    assert asked == [10, 201]  # 20 / 0.1 + 1


def test_so_many_times_of_nothing_are_enough() -> None:
    asked, seconds = timer(0.0, -1e-9, 0.0)
    assert time_long_enough(seconds, 10, 20.0, 3) == (10, 0.0)
    assert asked == [10, 10, 10]


def test_without_a_shortest_time_there_is_one_attempt_even_of_nothing() -> None:
    for taken_s in (0.0, -1e-9):  # less than the measuring itself takes
        asked, seconds = timer(taken_s)
        assert time_long_enough(seconds, 10, 0, 100) == (10, taken_s)
        assert asked == [10]


def test_by_a_clock_that_wraps_unseen_the_number_does_not_grow() -> None:
    # 12 ms a call, by a clock that goes round in 16 ms: no attempt ever seems to take 20.
    asked: list[int] = []

    def seconds(number: int) -> Timed:
        asked.append(number)
        return Timed(0.012 * number % 0.016, 0.012 * number % 0.016)

    assert time_long_enough(seconds, 1, 20.0, 100, may_grow=lambda: 0.012 * asked[-1] < 0.016) == (
        2,
        pytest.approx(0.008),
    )
    assert asked == [1, 2]


# -- the figures ------------------------------------------------------------------------------


def test_the_figures_are_in_seconds_and_the_deviation_is_of_the_results_as_a_whole() -> None:
    result = BenchmarkResult((0.002, 0.004, 0.004, 0.004, 0.005, 0.005, 0.007, 0.009))
    assert result.mean == pytest.approx(0.005)
    assert result.median == pytest.approx(0.0045)
    assert result.min == 0.002
    assert result.max == 0.009
    assert result.std == pytest.approx(0.002)
    assert str(result).splitlines() == [
        "Execution time of a call, 8 samples:",
        "    mean (ms)  median (ms)     max (ms)     min (ms)     std (ms)",
        "       5.0000       4.5000       9.0000       2.0000       2.0000",
    ]


def test_of_no_results_there_are_no_figures() -> None:
    with pytest.raises(UsageError, match="at least one result"):
        BenchmarkResult(())


def test_tvms_names_are_in_profiling_and_at_the_top() -> None:
    for name in ("Report", "Count", "Duration", "Percent", "Ratio", "MetricCollector"):
        assert getattr(profiling, name) is getattr(boardprof, name)
    for name in ("DeviceWrapper", "PAPIMetricCollector", "profile_function", "time_evaluator"):
        assert getattr(profiling, name) is getattr(boardprof, name)
