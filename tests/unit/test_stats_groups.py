# SPDX-License-Identifier: Apache-2.0
"""A Report's samples by function and metric: per call, with what is known of their clock."""

from __future__ import annotations

import math
import statistics
import tracemalloc
from typing import Any

import pytest

from boardprof.base.metrics import Count, Duration, Percent, Ratio
from boardprof.results.report.report import Report
from boardprof.results.row_origins import GroupKey, Overhead
from boardprof.results.stats.groups import GroupSummary, LeftOut, calls_of, left_out, summaries
from tests.unit.reports import EMULATOR, HARDWARE, report_of


def by_metric(report: Report) -> dict[str, GroupSummary]:
    return {each.metric: each for each in summaries(report)}


def test_values_are_per_call() -> None:
    found = by_metric(report_of({"cycles": [300, 301]}, number=3))["cycles"]
    assert found.values == (100, 301 / 3)
    assert found.key == GroupKey("fir", "n=64", "", "board")


def test_levels_and_rates_are_taken_as_they_are() -> None:
    metrics = {"Stack (bytes)": [96, 96], "IPC": [Ratio(0.5), Ratio(0.7)]}
    found = by_metric(report_of(metrics, number=10))
    assert found["Stack (bytes)"].values == (96, 96)
    assert found["IPC"].values == (0.5, 0.7)


def overheads(found: dict[str, GroupSummary]) -> list[tuple[str, Overhead]]:
    return [(name, each.overhead) for name, each in found.items()]


def test_what_the_measuring_takes_is_per_call_and_in_the_columns_own_unit() -> None:
    raw = [{"duration_time": n, "cycles": m, "loads": m} for n, m in ((21, 9), (20, 8), (20, 8))]
    taken = {
        "calibration": {"duration_time": 20, "cycles": 8, "loads": 8},
        "calibration_samples": [{"raw": raw[0]}, {"raw": raw[1]}],
        "further_passes": [{"calibration_samples": [{"raw": raw[2]}]}],
    }
    metrics = {"Duration (us)": [Duration(4.0)], "cycles": [90], "loads": [30]}
    options = {"clocks": {"duration_time": 10**9}, "measurement": taken, "number": 4}
    found = by_metric(report_of(metrics, facts=HARDWARE, **options))
    assert {name: (o.taken, o.doubt) for name, o in overheads(found)} == {
        "Duration (us)": (0.005, 0.005),
        "cycles": (2, 0.25),
        "loads": (0, 0),
    }
    emulated = by_metric(report_of(metrics, facts=EMULATOR, **options))
    assert {(o.taken, o.doubt) for _, o in overheads(emulated)} == {(0, 0)}


@pytest.mark.parametrize(
    ("clock", "formula", "is_counted"),
    [
        ("ticks", "interrupt-ticks / instructions", True),
        ("dma", "dma_busy / instructions", True),
        ("time", "runtime-events / instructions", True),
        ("t", "100 * stalls / instructions", True),
        ("Ratio", "stalls / instructions", True),
        ("ticks", "instructions / ticks", False),
        ("dma", "(1 - dma) / instructions", False),
        ("cycles", "instructions / cycles", True),  # the CPU's own cycles have no steps
    ],
)
def test_a_metric_is_of_a_clock_if_its_formula_names_the_clock_and_not_a_part_of_its_name(
    clock: str, formula: str, is_counted: bool
) -> None:
    share = {"formulas": {"share": ["Ratio", formula]}}
    report = report_of(
        {"share": [Ratio(0.5), Ratio(0.75)]},
        facts=EMULATOR,
        clocks={clock: 10**6},
        measurement=share,
    )
    assert by_metric(report)["share"].is_deterministic is is_counted


def test_groups_and_columns_stand_in_the_order_in_which_they_are_first_seen() -> None:
    row = {"Device": "b", "Count": 1}
    rows = [
        {"Name": "g", "ticks": 1, **row},
        {"Name": "f", "cycles": 2, "ticks": 3, **row},
        {"Name": "g", "ticks": 5, "cycles": 7, **row},
    ]
    found = [(each.key.name, each.metric, each.values) for each in summaries(Report(rows, {}, {}))]
    assert found == [
        ("g", "ticks", (1, 5)),
        ("g", "cycles", (7,)),
        ("f", "ticks", (3,)),
        ("f", "cycles", (2,)),
    ]


def test_a_sample_that_is_no_number_is_left_out() -> None:
    durations = [Duration(1.0), Duration(math.nan), Duration(math.inf), Duration(3.0)]
    assert by_metric(report_of({"Duration (us)": durations}))["Duration (us)"].values == (1.0, 3.0)


def test_a_count_beyond_64_bits_is_a_sample_like_others() -> None:
    found = by_metric(report_of({"cycles": [10**40, 10**40]}))["cycles"]
    assert found.values == (10**40, 10**40)
    assert found.summary.is_exact


def test_counts_that_no_counter_can_have_are_left_out_and_told() -> None:
    report = report_of({"cycles": [1, 10**400, 3]})
    assert by_metric(report)["cycles"].values == (1, 3)
    [found] = left_out(report)
    assert (found.metric, found.why) == ("cycles", "1 of 3 samples is too large for statistics")


def test_what_is_left_out_is_told() -> None:
    durations = [Duration(1.0), Duration(math.nan), Duration(math.inf)]
    [found] = left_out(report_of({"Duration (us)": durations, "cycles": [1, 2, 3]}))
    assert found.key == GroupKey("fir", "n=64", "", "board")
    assert (found.metric, found.why) == (
        "Duration (us)",
        "2 of 3 samples are infinite or not a number",
    )
    [mixed] = left_out(report_of({"x": [1, Duration(2.0)]}))
    assert (mixed.key, mixed.why) == (None, "it is Count and Duration in one Report")


def test_samples_of_no_number_of_calls_are_told_where_values_are_per_call() -> None:
    row: dict[str, Any] = {"Name": "f", "cycles": 3, "Percent": Percent(1.0), "Stack (bytes)": 8}
    rows = [{**row, "Count": 1}, {**row, "Count": 0}, row]
    assert left_out(Report(rows[:1], {}, {})) == []
    why = "{} of {} samples {} no Count above 0, and so no value per call"
    assert left_out(Report(rows[:2], {}, {})) == [
        LeftOut(GroupKey("f"), "cycles", why.format(1, 2, "has"))
    ]
    assert left_out(Report(rows, {}, {})) == [
        LeftOut(GroupKey("f"), "cycles", why.format(2, 3, "have"))
    ]


def test_calls_are_those_of_all_samples_of_a_group() -> None:
    report = report_of({"cycles": [300, 301]}, number=3)
    assert calls_of(report) == {GroupKey("fir", "n=64", "", "board"): 6}
    assert calls_of(Report([{"Name": "f"}] * 2, {}, {})) == {GroupKey("f"): 2}


def test_rows_without_a_number_of_calls_say_nothing_of_one() -> None:
    rows = [{"Name": "f", "cycles": 8}, {"Name": "f", "cycles": 9, "Count": 0}]
    assert summaries(Report(rows, {}, {})) == []


def test_a_column_of_mixed_kinds_has_no_statistics() -> None:
    assert summaries(report_of({"x": [Count(1), Duration(2.0)]})) == []


def test_equal_names_with_other_hashes_are_two_groups() -> None:
    rows = [{"Name": "f", "Hash": hash, "cycles": 1, "Count": 1} for hash in ("a", "b")]
    assert [each.key.hash for each in summaries(Report(rows, {}, {}))] == ["a", "b"]


def test_calls_of_one_function_with_other_labels_are_two_groups() -> None:
    rows = [
        {"Name": "conv", "Label": label, "cycles": n, "Count": 1}
        for label, n in (("one", 5), ("two", 90), ("one", 5), ("two", 90))
    ]
    found = summaries(Report([*rows, {"Name": "conv", "cycles": 7, "Count": 1}], {}, {}))
    assert [(each.key.title, each.values) for each in found] == [
        ("conv [one]", (5, 5)),
        ("conv [two]", (90, 90)),
        ("conv", (7,)),
    ]


def test_equal_counts_of_an_emulator_are_exact_and_those_of_hardware_are_not() -> None:
    assert by_metric(report_of({"instructions": [5, 5]}))["instructions"].summary.is_exact
    hardware = report_of({"instructions": [5, 5]}, facts=HARDWARE)
    assert not by_metric(hardware)["instructions"].summary.is_exact
    unknown = report_of({"instructions": [5, 5]}, facts=None)
    assert not by_metric(unknown)["instructions"].summary.is_exact


def test_a_clock_of_an_emulator_has_a_grain_and_is_not_exact() -> None:
    clocks = {"ticks": 10_000_000}
    report = report_of({"ticks": [30, 30]}, clocks=clocks, number=4)
    found = by_metric(report)["ticks"]
    assert found.grain == 0.25
    assert not found.summary.is_exact


def test_a_duration_has_the_grain_of_its_clock() -> None:
    metrics = {"Duration (us)": [Duration(4.0)], "x (us)": [Duration(1.0)]}
    clocks = {"ticks": 2_000_000, "x": 1_000_000_000}
    found = by_metric(report_of(metrics, clocks=clocks, facts=HARDWARE))
    assert found["Duration (us)"].grain == 0.5
    assert found["x (us)"].grain == 0.001


def test_the_cpus_own_cycles_have_no_grain() -> None:
    report = report_of({"cycles": [5, 5]}, clocks={"cycles": 16_000_000})
    assert by_metric(report)["cycles"].summary.is_exact


def test_shares_of_the_total_are_never_exact() -> None:
    report = report_of({"Percent": [Percent(5.0)] * 2, "Perturbation (%)": [Ratio(1.0)] * 2})
    assert not any(each.summary.is_exact for each in summaries(report))


def test_a_cold_call_stands_beside_the_metric_that_it_is_of() -> None:
    cold = {"metrics": {"cycles": {"count": 91}, "Duration (us)": {"microseconds": 9.1}}}
    report = report_of({"cycles": [12, 12]}, measurement={"cold": cold})
    assert by_metric(report)["cycles"].summary.first == 91.0


def test_a_part_of_a_board_is_as_its_board_is() -> None:
    report = report_of({"instructions": [5, 5]})
    rows = [{"Name": "fir", "Argument Shapes": "n=64", "busy": 9, "Device": "npu", "Count": 1}] * 2
    both = Report([*report.calls, *rows], {}, {}, report.extra)
    found = by_metric(both)["busy"]
    assert (found.board, found.is_emulated) == ("board", True)
    assert found.summary.is_exact


def test_many_samples_have_the_statistics_that_few_have() -> None:
    # 60,000 of 10 and 12 in turns, and one of 100.
    counts = [10, 12] * 30_000 + [100]
    report = report_of({"cycles": counts, "Duration (us)": [Duration(n / 2) for n in counts]})
    cycles = by_metric(report)["cycles"].summary
    assert (cycles.n, cycles.minimum, cycles.median, cycles.maximum) == (60_001, 10, 12, 100)
    assert cycles.mean == (60_000 * 11 + 100) / 60_001
    assert cycles.percentiles == {5: 10, 25: 10, 75: 12, 95: 12}
    assert {*map(type, (cycles.minimum, cycles.median, *cycles.percentiles.values()))} == {int}
    assert cycles.outliers == (60_000,)
    assert cycles.stddev == pytest.approx(statistics.stdev(counts), rel=1e-12)
    times = by_metric(report)["Duration (us)"].summary
    assert (times.median, times.maximum, times.percentiles[25]) == (6.0, 50.0, 5.0)
    assert times.mean == (60_000 * 5.5 + 50) / 60_001


def test_the_statistics_of_many_samples_take_less_than_60_bytes_for_each() -> None:
    report = report_of({"cycles": [1000 + number % 777 for number in range(100_000)]}, facts=None)
    summaries(report)  # also imports numpy
    tracemalloc.start()
    try:
        [found] = summaries(report)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (found.summary.n, found.summary.median) == (100_000, 1387)
    assert most < 60 * 100_000
