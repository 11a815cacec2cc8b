# SPDX-License-Identifier: Apache-2.0
"""The table of statistics: a row a metric of a function, numbers per call."""

from __future__ import annotations

from boardprof.base.metrics import Count, Duration, Percent
from boardprof.results.report.report import Report
from boardprof.show.table import render_statistics
from tests.unit.reports import HARDWARE, report_of


def rows(report: Report) -> list[dict[str, str]]:
    """Return the rows as header -> cell, read by where the cells stand."""
    head, *lines = report.statistics().split("\n\n")[0].splitlines()
    names = [name for name in head.split("  ") if name]
    words = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines]
    return [dict(zip((n.strip() for n in names), row, strict=True)) for row in words]


def test_a_metric_of_noisy_samples_has_all_its_numbers_worked_out_by_hand() -> None:
    values = [10.0, 12.0, 14.0, 16.0, 18.0]
    report = report_of({"Duration (us)": [Duration(v) for v in values]}, facts=HARDWARE)
    assert rows(report) == [
        {
            "Name": "fir",
            "Argument Shapes": "n=64",
            "Device": "board",
            "Metric": "Duration (us)",
            "n": "5",
            "Min": "10",
            "Median": "14",
            "Mean": "14",
            "Max": "18",
            "Stddev": "3.162",  # sqrt((16 + 4 + 0 + 4 + 16) / 4)
            "CV": "22.59 %",
            "p5": "10.4",  # a fifth of the way from 10 to 12
            "p25": "12",
            "p75": "16",
            "p95": "17.6",
        }
    ]


def test_values_are_per_call_and_not_per_sample() -> None:
    [row] = rows(report_of({"cycles": [500, 501, 502]}, facts=HARDWARE, number=4))
    assert (row["Min"], row["Median"], row["Max"]) == ("125", "125.25", "125.50")


def test_counts_of_a_deterministic_board_that_are_alike_are_exact() -> None:
    report = report_of({"instructions": [205, 205, 205]})
    [row] = rows(report)
    assert (row["Stddev"], row["CV"]) == ("0", "exact")
    assert "\nexact: no noise" in report.statistics()


def test_the_cold_call_stands_apart_from_the_warm_ones() -> None:
    measurement = {"cold": {"metrics": {"cycles": {"count": 900}}}}
    report = report_of({"cycles": [100, 101, 103]}, facts=HARDWARE, measurement=measurement)
    [row] = rows(report)
    assert (row["Max"], row["Cold"]) == ("103", "900")
    assert "\nCold: the very first call" in report.statistics()
    assert "Cold" not in report_of({"cycles": [100, 101, 103]}).statistics()


def test_outliers_are_named_by_their_numbers_in_the_run() -> None:
    values: list[Count | int] = [100, 101, 99, 100, 400, 101, 99, 300, 100, 101]
    [row] = rows(report_of({"cycles": values}, facts=HARDWARE))
    assert row["Outliers"] == "#4, #7"


def test_of_many_outliers_the_first_are_named_and_the_others_counted() -> None:
    values = [100 + i % 3 for i in range(90)] + [9000 + i for i in range(10)]
    [row] = rows(report_of({"cycles": values}, facts=HARDWARE))
    assert row["Outliers"] == "#90, #91, #92, #93, #94, #95, #96, #97 and 2 more"


def test_a_single_sample_has_no_deviation_and_a_percent_has_its_sign() -> None:
    text = report_of({"busy": [Percent(12.5)]}, facts=HARDWARE).statistics()
    cells = text.splitlines()[1].split("  ")
    # Min, median, mean, max; no deviation, no CV; four percentiles.
    assert cells.count("12.5 %") == 8
    assert not any("0" in cell for cell in cells)


def test_a_name_that_a_terminal_would_obey_is_escaped() -> None:
    text = report_of({"cycles": [1, 2]}, name="a\x1b[31mb\nc", facts=HARDWARE).statistics()
    assert "a\\x1b[31mb\\nc" in text
    assert "\x1b" not in text


def test_a_count_that_no_counter_has_and_a_report_without_rows_are_no_error() -> None:
    told = "Left out: cycles of fir: 1 of 1 samples is too large for statistics.\n"
    assert report_of({"cycles": [10**400]}).statistics() == f"There are no samples.\n{told}"
    assert render_statistics(Report([], {}, {})) == "There are no samples.\n"


def test_what_has_no_statistics_is_named_with_the_reason() -> None:
    mixed = [{"Name": "f", "Count": 1, "t": value} for value in (Count(3), Duration(3.0))]
    told = "Left out: t: it is Count and Duration in one Report.\n"
    assert Report(mixed, {}, {}).statistics() == f"There are no samples.\n{told}"
    odd = [{"Name": "g", "Count": 1, "time (us)": Duration(us)} for us in (1.0, float("inf"))]
    lines = Report([*mixed, *odd], {}, {}).statistics().splitlines()
    assert lines[-2:] == [
        told.removesuffix("\n"),
        "Left out: time (us) of g: 1 of 2 samples is infinite or not a number.",
    ]
