# SPDX-License-Identifier: Apache-2.0
"""Collapsed stacks: a line a stack, a whole number behind the last blank, nothing ambiguous."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boardprof.base.errors import UnknownNameError, UsageError
from boardprof.base.metrics import Duration, Metric, Ratio
from boardprof.results.report.report import Report
from boardprof.show.flame_graph import render_collapsed


def report(*calls: dict[str, Metric | int]) -> Report:
    return Report(calls, {}, {})


def test_samples_of_one_stack_are_summed_and_stacks_stay_in_run_order() -> None:
    text = render_collapsed(
        report(
            {"Name": "fir", "Device": "b", "instructions": 400},
            {"Name": "crc", "Device": "b", "instructions": 70},
            {"Name": "fir", "Device": "b", "instructions": 410},
        )
    )
    assert text == "b;fir 810\nb;crc 70\n"


def test_flags_and_arguments_are_frames_below_the_function() -> None:
    row: dict[str, Metric | int] = {
        "Name": "fir",
        "Flags": "-O2",
        "Argument Shapes": "n=256",
        "Device": "b",
        "ticks": 3,
    }
    assert render_collapsed(report(row)) == "b;fir;-O2;n=256 3\n"


def test_calls_of_other_labels_are_other_stacks_of_their_function() -> None:
    rows: list[dict[str, Metric | int]] = [
        {"Name": "dense", "Label": label, "Argument Shapes": "n=8", "Device": "b", "ticks": ticks}
        for label, ticks in (("hidden", 70), ("output", 5), ("hidden", 71))
    ]
    assert render_collapsed(report(*rows)) == "b;dense;hidden;n=8 141\nb;dense;output;n=8 5\n"


def test_time_comes_first_and_is_in_whole_nanoseconds() -> None:
    row: dict[str, Metric | int] = {"Name": "fir", "Device": "b", "instructions": 9}
    assert render_collapsed(report({**row, "Duration (us)": Duration(1.2345)})) == "b;fir 1234\n"


def test_times_are_summed_before_they_are_rounded() -> None:
    # A third of a nanosecond each.
    rows: list[dict[str, Metric | int]] = [
        {"Name": "f", "Device": "b", "t": Duration(1 / 3000)} for _ in range(3)
    ]
    assert render_collapsed(report(*rows)) == "b;f 1\n"


def test_a_name_that_is_a_number_is_no_metric() -> None:
    odd: dict[str, Metric | int] = {"Name": 7, "Device": "b", "ticks": 3}
    assert render_collapsed(report(odd)) == "b;7 3\n"
    with pytest.raises(UnknownNameError, match="no metric in the Report 'Name'"):
        render_collapsed(report(odd), metric="Name")


def test_a_column_that_is_time_on_one_device_and_a_count_on_another() -> None:
    rows: list[dict[str, Metric | int]] = [
        {"Name": "f", "Device": "a", "work": Duration(2.0)},
        {"Name": "f", "Device": "b", "work": 5},
    ]
    assert sorted(render_collapsed(report(*rows), metric="work").splitlines()) == [
        "a;f 2000",
        "b;f 5",
    ]


def test_a_count_beyond_64_bits_keeps_each_digit() -> None:
    big = 36893488147419103235
    assert render_collapsed(report({"Name": "f", "Device": "b", "ticks": big})) == f"b;f {big}\n"


def test_what_would_part_frames_or_lines_is_visible_and_parts_nothing() -> None:
    name = "a;b\nc 5\u202e"
    text = render_collapsed(report({"Name": name, "Device": "b", "ticks": 1}))
    assert text == "b;a\\x3bb\\nc 5\\u202e 1\n"


def test_devices_without_a_common_metric_do_not_go_into_one_file() -> None:
    mixed = report(
        {"Name": "f", "Device": "a", "Duration (us)": Duration(1.0)},
        {"Name": "f", "Device": "b", "ticks": 5},
    )
    with pytest.raises(UsageError, match=r"a: Duration \(us\); b: ticks") as refused:
        render_collapsed(mixed)
    assert "--metric" in str(refused.value)
    assert render_collapsed(mixed, metric="ticks") == "b;f 5\n"


def test_an_unknown_metric_is_refused_by_name() -> None:
    with pytest.raises(UnknownNameError, match=r"no metric in the Report 'tiks'"):
        render_collapsed(report({"Name": "f", "ticks": 1}), metric="tiks")


def test_values_below_zero_are_left_out_and_nothing_at_all_is_refused() -> None:
    rows: list[dict[str, Metric | int]] = [{"Name": "f", "Device": "b", "ticks": -1}]
    with pytest.raises(UsageError, match="No value of ticks is 0 or more"):
        render_collapsed(report(*rows))
    rows.append({"Name": "g", "Device": "b", "ticks": 2})
    assert render_collapsed(report(*rows)) == "b;g 2\n"


@pytest.mark.parametrize("rows", [[], [{"Name": "f", "IPC": Ratio(1.5)}]])
def test_a_report_without_anything_to_draw_is_refused(rows: list[dict[str, Metric | int]]) -> None:
    with pytest.raises(UsageError):
        render_collapsed(report(*rows))


@given(st.lists(st.tuples(st.text(), st.text(), st.integers(0, 1 << 70)), min_size=1, max_size=6))
def test_each_line_is_a_stack_a_blank_and_a_number(rows: list[tuple[str, str, int]]) -> None:
    text = render_collapsed(report(*({"Name": n, "Device": d, "ticks": t} for n, d, t in rows)))
    lines = text.split("\n")
    assert lines.pop() == ""
    assert all(re.fullmatch(r"[^;]+;[^;]+ \d+", line) and line.isprintable() for line in lines)
    assert sum(int(line.rpartition(" ")[2]) for line in lines) == sum(t for *_, t in rows)
