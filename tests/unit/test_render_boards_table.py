# SPDX-License-Identifier: Apache-2.0
"""The table with a group of columns a board: its rules. The golden files are written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from boardprof.base.errors import UsageError
from boardprof.base.metrics import Count, Duration, Metric, Percent, Ratio
from boardprof.results.report.report import Report

GOLDEN = Path(__file__).parents[1] / "golden"


def golden(name: str) -> str:
    return (GOLDEN / name).read_text(encoding="utf-8")


def call(
    name: str, device: str, count: int = 1, /, **metrics: Metric | int
) -> dict[str, Metric | int]:
    return {"Name": name, "Device": device, "Count": Count(count), **metrics}


def lines(report: Report, *, sort: bool = True) -> list[str]:
    """Return the lines above the first blank one."""
    return report.table(sort=sort, by_board=True).split("\n\n")[0].splitlines()


@pytest.fixture
def two_boards() -> Report:
    def fir(device: str, instructions: int, **more: Metric) -> dict[str, Metric | int]:
        return {
            **call("fir", device, 10, instructions=instructions),
            "Percent": Percent(30.0),
            "Perturbation (%)": Ratio(0.5),
            **more,
        }

    return Report(
        calls=[
            fir("desk", 50, **{"Duration (us)": Duration(20.0)}),
            fir("desk", 51, **{"Duration (us)": Duration(10.0)}),
            fir("desk", 53, **{"Duration (us)": Duration(15.0)}),
            call("iir", "desk", 1, instructions=7, **{"Duration (us)": Duration(1234.5)}),
            fir("emulator", 12345670),
        ],
        device_metrics={"desk": {"instructions": 200}},
        configuration={"boardprof": "0.1.0"},
    )


@pytest.fixture
def swept() -> Report:
    def fir(flags: str, cycles: int, us: float) -> list[dict[str, Metric | int]]:
        return [
            {**call("fir", "m4"), "Flags": flags, "cycles": cycles, "Duration (us)": Duration(us)},
            {**call("fir", "sim"), "Flags": flags, "instructions": Count(10 * cycles)},
        ]

    return Report([*fir("-O2", 100, 2.0), *fir("-O3", 80, 1.5), *fir("-Os", 123, 2.5)], {}, {})


def test_boards_stand_side_by_side(two_boards: Report) -> None:
    assert two_boards.table(by_board=True) == golden("boards_table.txt")


def test_settings_stand_below_each_other(swept: Report) -> None:
    assert swept.table(by_board=True) == golden("boards_table_swept.txt")


def test_no_line_ends_in_blanks(two_boards: Report) -> None:
    assert all(line == line.rstrip() for line in two_boards.table(by_board=True).splitlines())


def test_a_metric_that_a_board_lacks_is_empty_and_not_zero() -> None:
    report = Report([call("f", "a", ticks=0), call("f", "b"), call("g", "b", ticks=5)], {}, {})
    assert lines(report) == [
        "      a ---  b ---",
        "Name  ticks  ticks",
        "f         0",
        "g                5",
    ]


def test_a_board_with_nothing_has_its_name_and_no_columns() -> None:
    report = Report([call("f", "a", ticks=1), call("f", "b")], {}, {})
    assert lines(report) == ["      a ---  b", "Name  ticks", "f         1"]


def test_a_name_wider_than_its_columns_widens_them() -> None:
    report = Report([call("f", "qemu-cortex-m3", ticks=1), call("f", "b", ticks=2)], {}, {})
    assert lines(report) == [
        "      qemu-cortex-m3  b ---",
        "Name           ticks  ticks",
        "f                  1      2",
    ]


def test_the_function_that_is_largest_on_the_first_board_comes_first() -> None:
    report = Report(
        [
            call("small", "a", ticks=1),
            call("lacks", "b", ticks=1000),
            call("large", "a", ticks=9),
            call("small", "b", ticks=500),
        ],
        {},
        {},
    )
    assert [line.split()[0] for line in lines(report)[2:]] == ["large", "small", "lacks"]
    assert [line.split()[0] for line in lines(report, sort=False)[2:]] == [
        "small",
        "lacks",
        "large",
    ]


def test_settings_keep_their_order_whatever_they_take() -> None:
    report = Report(
        [
            {**call("f", "a", ticks=1), "Flags": "-Os"},
            {**call("f", "a", ticks=5), "Flags": "-O3"},
            {**call("g", "a", ticks=2), "Flags": "-Os"},
            {**call("g", "a", ticks=9), "Flags": "-O3"},
        ],
        {},
        {},
    )
    named = [line.split()[:2] for line in lines(report)[2:]]
    assert named == [["g", "-Os"], ["g", "-O3"], ["f", "-Os"], ["f", "-O3"]]


def test_relative_is_to_the_first_setting_that_the_board_has() -> None:
    report = Report(
        [
            {**call("f", "a"), "Flags": "-O1"},
            {**call("f", "a", ticks=8), "Flags": "-O2"},
            {**call("f", "a", ticks=2), "Flags": "-O3"},
        ],
        {},
        {},
    )
    assert [line.split()[2:] for line in lines(report)[2:]] == [[], ["8", "1.00"], ["2", "0.25"]]


def test_relative_to_nothing_is_empty() -> None:
    calls = [{**call("f", "a", ticks=n), "Flags": f"-O{n}"} for n in (0, 5)]
    assert [line.split()[2:] for line in lines(Report(calls, {}, {}))[2:]] == [["0"], ["5"]]


def test_arguments_that_all_rows_have_go_below_the_table() -> None:
    same = [{**call("f", device, ticks=1), "Argument Shapes": "n=256"} for device in "ab"]
    text = Report(same, {}, {}).table(by_board=True)
    assert lines(Report(same, {}, {}))[1] == "Name  ticks  ticks"
    assert "\nArguments: n=256\n" in text


def test_arguments_that_differ_are_a_column_and_a_row_each() -> None:
    calls = [{**call("f", "a", ticks=n), "Argument Shapes": f"n={n}"} for n in (1, 64)]
    assert lines(Report(calls, {}, {})) == [
        "                       a ---",
        "Name  Argument Shapes  ticks",
        "f     n=64                64",
        "f     n=1                  1",
    ]


def test_a_ratio_is_averaged_and_text_is_kept() -> None:
    calls = [{**call("f", "a"), "IPC": Ratio(r), "Layout": "NCHW"} for r in (1.0, 2.0)]
    assert lines(Report(calls, {}, {}))[1:] == ["Name  IPC  Layout", "f     1.5    NCHW"]


def test_widths_are_those_on_a_terminal_and_unprintable_text_is_escaped() -> None:
    report = Report([call("漢字", "a\x1b", ticks=1), call("f", "b", ticks=2)], {}, {})
    assert lines(report, sort=False) == [
        "      a\\x1b  b ---",
        "Name  ticks  ticks",
        "漢字      1",
        "f                2",
    ]


def test_an_empty_report_has_headers_and_no_legend() -> None:
    assert Report([], {}, {}).table(by_board=True) == "Name\n\nConfiguration\n-------------\n"


def test_the_separator_is_a_parameter(two_boards: Report) -> None:
    assert "1,234,567" in two_boards.table(by_board=True)
    assert "1_234_567" in two_boards.table(by_board=True, separator="_")


def test_single_samples_and_tvms_layout_are_refused(two_boards: Report) -> None:
    for refused in ({"aggregate": False}, {"compat": "tvm"}):
        with pytest.raises(UsageError, match="A table by board merges all samples"):
            two_boards.table(by_board=True, **refused)


def test_a_report_has_several_when_boards_or_flags_differ(two_boards: Report) -> None:
    assert two_boards.has_several
    assert Report([{**call("f", "a"), "Flags": "-O2"}], {}, {}).has_several
    assert not Report([call("f", "a"), call("g", "a")], {}, {}).has_several
    assert not Report([], {}, {}).has_several


def test_rows_of_other_flags_stay_apart_in_the_plain_table_too(swept: Report) -> None:
    text = swept.table(col_sums=False)
    assert sum(line.startswith("fir ") for line in text.splitlines()) == 6


def test_calls_of_one_function_with_different_labels_have_a_line_each() -> None:
    calls = [
        {**call("dense", device, ticks=ticks), "Hash": "a1", "Label": label}
        for device in ("desk", "emulator")
        for label, ticks in (("hidden", 70), ("output", 90))
    ]
    found = [line.split() for line in lines(Report(calls, {}, {}))]
    assert found[1:] == [
        ["Name", "Label", "ticks", "ticks"],
        ["dense", "output", "90", "90"],
        ["dense", "hidden", "70", "70"],
    ]


def test_a_function_is_the_same_on_boards_where_its_types_and_so_its_hash_differ() -> None:
    calls = [
        {**call("dense", device, ticks=ticks), "Hash": hash}
        for device, hash, ticks in (("a", "1", 70), ("b", "2", 90))
    ]
    assert [line.split() for line in lines(Report(calls, {}, {}))[1:]] == [
        ["Name", "ticks", "ticks"],
        ["dense", "70", "90"],
    ]


def test_functions_of_one_name_on_one_board_are_apart_by_their_hash() -> None:
    calls = [
        {**call("dense", device, ticks=ticks), "Hash": hash}
        for device, hash, ticks in (("a", "1", 70), ("a", "2", 60), ("b", "2", 90), ("b", "3", 50))
    ]
    assert lines(Report(calls, {}, {})) == [
        "       a ---  b ---",
        "Name   ticks  ticks",
        "dense     70",
        "dense     60     90",
        "dense            50",
    ]


def test_settings_of_one_function_are_its_own_whatever_their_hash() -> None:
    calls = [
        {**call("dense", "a", ticks=ticks), "Hash": hash, "Flags": flags}
        for flags, hash, ticks in (("-O2", "1", 60), ("-O3", "2", 30))
    ]
    assert [line.split() for line in lines(Report(calls, {}, {}))[2:]] == [
        ["dense", "-O2", "60", "1.00"],
        ["dense", "-O3", "30", "0.50"],
    ]
