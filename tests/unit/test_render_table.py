# SPDX-License-Identifier: Apache-2.0
"""The text table: TVM's eight rules, and what ours does differently.

The golden files are written by hand from the rules.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Literal

import pytest

from boardprof.base.errors import UnknownNameError
from boardprof.base.metrics import Count, Duration, Metric, Percent, Ratio
from boardprof.results.report.report import Report

GOLDEN = Path(__file__).parents[1] / "golden"

SHAPES = "float32[8, 8]"


def golden(name: str) -> str:
    return (GOLDEN / name).read_bytes().decode("utf-8")


def report(*calls: dict[str, Metric], **totals: dict[str, Metric]) -> Report:
    return Report(calls, totals, {})


def rows(text: str) -> list[list[str]]:
    """Split the part above the blank line into cells; only for cells without blanks."""
    return [line.split() for line in text.split("\n\n")[0].splitlines()]


def column(text: str, header: str) -> list[str]:
    """Return the cells under a right-aligned header, one for each line below it."""
    head, *lines = text.split("\n\n")[0].splitlines()
    end = head.index(header) + len(header)
    return [line.ljust(end)[:end].rpartition("  ")[2].strip() for line in lines]


@pytest.fixture
def operators() -> Report:
    return Report(
        calls=[
            {
                "Name": "relu",
                "Duration (us)": Duration(10.0),
                "Percent": Percent(0.5),
                "Device": "cpu0",
                "Count": Count(1),
                "IPC": Ratio(1 / 3),
                "Layout": "NCHW",
            },
            {
                "Name": "matmul",
                "Duration (us)": Duration(1234.5678),
                "Percent": Percent(40.0),
                "Device": "cpu0",
                "Count": Count(1),
                "Argument Shapes": SHAPES,
                "IPC": Ratio(1.25),
                "Layout": "NCHW",
                "cycles": Count(3000000),
            },
            {
                "Name": "matmul",
                "Duration (us)": Duration(2000.001),
                "Percent": Percent(50.0),
                "Device": "cpu0",
                "Count": Count(1),
                "Argument Shapes": SHAPES,
                "IPC": Ratio(1.75),
                "Layout": "NHWC",
                "cycles": Count(234567),
            },
        ],
        device_metrics={
            "cpu0": {
                "Name": "overwritten",
                "Duration (us)": Duration(3500.0),
                "Device": "cpu0",
                "Count": Count(1),
            }
        },
        configuration={"Executor": "Graph", "Number of threads": 2, "Baud": 1000000},
    )


@pytest.fixture
def simulated() -> Report:
    def fir(instructions: int) -> dict[str, Metric]:
        return {
            "Name": "fir",
            "Percent": Percent(30.0),
            "Device": "cpu0",
            "Count": Count(10),
            "instructions": Count(instructions),
            "overhead (%)": Ratio(0.001),
        }

    iir: dict[str, Metric] = {
        "Name": "iir",
        "Percent": Percent(10.0),
        "Device": "cpu0",
        "Count": Count(4),
        "instructions": Count(10),
        "overhead (%)": Ratio(1.5),
    }
    return Report(
        calls=[iir, fir(4410), fir(4410), fir(4420)],
        device_metrics={"cpu0": {"instructions": 20000}},
        configuration={"clock": "simulated"},
    )


class TestWhole:
    def test_tvm_layout(self, operators: Report) -> None:
        assert operators.table(compat="tvm", separator="") == golden("tvm_table.txt")

    def test_tvm_layout_with_separators(self, operators: Report) -> None:
        assert operators.table(compat="tvm") == golden("tvm_table_separator.txt")

    def test_tvm_layout_without_aggregation_and_sums(self, operators: Report) -> None:
        text = operators.table(aggregate=False, col_sums=False, compat="tvm", separator="")
        assert text == golden("tvm_table_unaggregated.txt")

    def test_tvm_layout_of_an_empty_report(self) -> None:
        assert report().table(compat="tvm") == golden("tvm_table_empty.txt")

    def test_our_layout(self, operators: Report) -> None:
        assert operators.table() == golden("table.txt")

    def test_our_layout_on_a_simulated_clock(self, simulated: Report) -> None:
        assert simulated.table() == golden("table_simulated.txt")

    def test_our_layout_of_an_empty_report(self) -> None:
        assert report().table() == golden("table_empty.txt")

    def test_printing_a_report_shows_its_table(self, operators: Report) -> None:
        assert str(operators) == golden("table.txt")


@pytest.mark.parametrize("compat", [None, "tvm"])
class TestRule1Aggregation:
    def test_count_duration_and_percent_are_summed(self, compat: Literal["tvm"] | None) -> None:
        call: dict[str, Metric] = {
            "Name": "f",
            "Count": Count(2),
            "Duration (us)": Duration(1.5),
            "Percent": Percent(25.0),
        }
        text = report(call, call).table(col_sums=False, compat=compat)
        assert column(text, "Count") == ["4"]
        assert column(text, "Duration (us)") == ["3.00"]
        assert column(text, "Percent") == ["50.00" if compat == "tvm" else "100.00"]

    def test_ratios_are_averaged_without_weights(self, compat: Literal["tvm"] | None) -> None:
        text = report(
            {"Name": "f", "Count": Count(100), "IPC": Ratio(1.0)},
            {"Name": "f", "Count": Count(1), "IPC": Ratio(2.0)},
        ).table(col_sums=False, compat=compat)
        assert column(text, "IPC") == ["1.5"]

    def test_equal_strings_are_kept(self, compat: Literal["tvm"] | None) -> None:
        call: dict[str, Metric] = {"Name": "f", "Layout": "NCHW"}
        text = report(call, call).table(col_sums=False, compat=compat)
        assert column(text, "Layout") == ["NCHW"]

    def test_a_value_missing_in_some_calls_is_aggregated_where_present(
        self, compat: Literal["tvm"] | None
    ) -> None:
        text = report({"Name": "f", "loads": Count(7)}, {"Name": "f"}).table(
            col_sums=False, compat=compat
        )
        assert column(text, "loads") == ["7"]

    @pytest.mark.parametrize("key", ["Name", "Argument Shapes", "Device"])
    def test_rows_that_differ_in_a_key_stay_apart(
        self, key: str, compat: Literal["tvm"] | None
    ) -> None:
        same: dict[str, Metric] = {"Name": "f", "Argument Shapes": "s", "Device": "d"}
        text = report({**same, key: "x"}, {**same, key: "y"}, same).table(
            col_sums=False, compat=compat
        )
        assert len(rows(text)) == 1 + 3

    def test_the_parts_of_a_key_do_not_run_into_each_other(
        self, compat: Literal["tvm"] | None
    ) -> None:
        text = report(
            {"Name": "f", "Argument Shapes": "ab"}, {"Name": "fa", "Argument Shapes": "b"}
        ).table(col_sums=False, compat=compat)
        assert rows(text)[1:] == [["f", "ab"], ["fa", "b"]]

    def test_a_hash_takes_the_place_of_the_name_in_tvms_and_stands_beside_it_in_ours(
        self, compat: Literal["tvm"] | None
    ) -> None:
        text = report(
            {"Name": "f", "Hash": "1"}, {"Name": "f", "Hash": "2"}, {"Name": "g", "Hash": "2"}
        ).table(col_sums=False, compat=compat)
        names, hashes = ["f", "f", "g"], ["1", "2", "2"]
        if compat == "tvm":
            names, hashes = ["f", ""], ["1", "2"]
        assert [row.split(" ")[0] for row in text.splitlines()[1 : 1 + len(names)]] == names
        assert column(text, "Hash") == hashes

    def test_kinds_of_metric_that_differ_are_never_added(
        self, compat: Literal["tvm"] | None
    ) -> None:
        text = report({"Name": "f", "x": Count(1), "y": Count(1)}, {"Name": "f", "x": Percent(1.0)})
        assert rows(text.table(col_sums=False, compat=compat))[1][:1] == ["f"]
        assert "2" not in text.table(col_sums=False, compat=compat)

    def test_groups_come_in_first_seen_order_when_not_sorted(
        self, compat: Literal["tvm"] | None
    ) -> None:
        names = ["z", "a", "m", "b"]
        calls: list[dict[str, Metric]] = [{"Name": name} for name in [*names, *names]]
        text = report(*calls).table(sort=False, col_sums=False, compat=compat)
        assert [row[0] for row in rows(text)[1:]] == names


MIXED: list[dict[str, Metric]] = [
    {"Name": "f", "Count": Count(1), "Device": "a", "odd": Count(3), "loads": Count(5)},
    {"Name": "f", "Count": Count(1), "Device": "a", "odd": Duration(3.0), "loads": Count(5)},
]
MIXED_NOTE = (
    "Cells are empty where merged rows have several kinds of metric: odd (Count and Duration). "
    "CSV and JSON have each row."
)


def test_a_column_that_cannot_be_merged_is_named_and_not_only_left_out() -> None:
    text = report(*MIXED).table()
    assert "odd" not in text.splitlines()[0].split()
    assert text.split("\n\n")[1] == MIXED_NOTE
    by_board = report(*MIXED).table(by_board=True)
    assert by_board.split("\n\n")[1].splitlines()[-1] == MIXED_NOTE
    for plain in (report(*MIXED).table(aggregate=False), report(*MIXED).table(compat="tvm")):
        assert "Left empty" not in plain
    assert "Left empty" not in report(MIXED[0], {**MIXED[1], "Name": "g"}).table()


def test_a_sum_is_not_of_those_rows_alone_that_could_be_merged() -> None:
    text = report(*MIXED, {**MIXED[1], "Name": "g"}).table()
    assert column(text, "odd") == ["", "3.00", "", ""]
    assert column(text, "loads") == ["10", "5", "", "15"]


def test_strings_that_differ_become_empty_in_tvms_layout() -> None:
    text = report({"Name": "f", "Layout": "NCHW"}, {"Name": "f", "Layout": "NHWC"}).table(
        col_sums=False, compat="tvm"
    )
    assert column(text, "Layout") == [""]


class TestRule2Sorting:
    @pytest.mark.parametrize("aggregate", [True, False])
    @pytest.mark.parametrize("compat", [None, "tvm"])
    def test_longest_duration_first(self, aggregate: bool, compat: Literal["tvm"] | None) -> None:
        text = report(
            {"Name": "short", "Duration (us)": Duration(1.0)},
            {"Name": "long", "Duration (us)": Duration(3.0)},
            {"Name": "middle", "Duration (us)": Duration(2.0)},
        ).table(aggregate=aggregate, col_sums=False, compat=compat)
        assert [row[0] for row in rows(text)[1:]] == ["long", "middle", "short"]

    @pytest.mark.parametrize("compat", [None, "tvm"])
    def test_a_row_without_duration_sorts_last(self, compat: Literal["tvm"] | None) -> None:
        text = report(
            {"Name": "none"},
            {"Name": "nan", "Duration (us)": Duration(float("nan"))},
            {"Name": "zero", "Duration (us)": Duration(0.0)},
            {"Name": "one", "Duration (us)": Duration(1.0)},
        ).table(col_sums=False, compat=compat)
        assert [row[0] for row in rows(text)[1:]] == ["one", "zero", "none", "nan"]

    @pytest.mark.parametrize("compat", [None, "tvm"])
    def test_equal_durations_keep_their_order(self, compat: Literal["tvm"] | None) -> None:
        same: dict[str, Metric] = {"Duration (us)": Duration(1.0)}
        calls: list[dict[str, Metric]] = [{"Name": name, **same} for name in "cab"]
        text = report(*calls).table(col_sums=False, compat=compat)
        assert [row[0] for row in rows(text)[1:]] == ["c", "a", "b"]

    @pytest.mark.parametrize("key", ["instructions", "ticks"])
    def test_without_any_duration_ours_sorts_by_instructions_or_ticks(self, key: str) -> None:
        text = report(
            {"Name": "less", key: Count(1)}, {"Name": "lacks"}, {"Name": "more", key: Count(2)}
        )
        assert [row[0] for row in rows(text.table(col_sums=False))[1:]] == ["more", "less", "lacks"]

    def test_instructions_go_before_ticks(self) -> None:
        text = report(
            {"Name": "a", "instructions": Count(1), "ticks": Count(9)},
            {"Name": "b", "instructions": Count(2), "ticks": Count(8)},
        ).table(col_sums=False)
        assert [row[0] for row in rows(text)[1:]] == ["b", "a"]

    def test_one_duration_is_enough_to_sort_by_duration(self) -> None:
        text = report(
            {"Name": "a", "instructions": Count(9)},
            {"Name": "b", "instructions": Count(1), "Duration (us)": Duration(1.0)},
        ).table(col_sums=False)
        assert [row[0] for row in rows(text)[1:]] == ["b", "a"]

    def test_tvms_layout_sorts_by_nothing_else(self) -> None:
        text = report({"Name": "a", "ticks": Count(1)}, {"Name": "b", "ticks": Count(2)}).table(
            col_sums=False, compat="tvm"
        )
        assert [row[0] for row in rows(text)[1:]] == ["a", "b"]


@pytest.mark.parametrize("compat", [None, "tvm"])
class TestRule3Sums:
    @pytest.fixture
    def two(self) -> Report:
        return report(
            {"Name": "a", "Count": Count(1), "Percent": Percent(40.0), "IPC": Ratio(1.0), "s": "x"},
            {"Name": "b", "Count": Count(2), "Percent": Percent(60.0), "IPC": Ratio(2.0), "s": "x"},
        )

    def test_a_line_and_the_sums_follow_the_rows(
        self, two: Report, compat: Literal["tvm"] | None
    ) -> None:
        assert rows(two.table(compat=compat))[3:] == [["----------"], ["Sum", "100.00", "3"]]

    def test_sums_are_the_same_without_aggregation(
        self, two: Report, compat: Literal["tvm"] | None
    ) -> None:
        assert two.table(aggregate=False, compat=compat) == two.table(compat=compat)

    def test_sums_can_be_left_out(self, two: Report, compat: Literal["tvm"] | None) -> None:
        assert len(rows(two.table(col_sums=False, compat=compat))) == 1 + 2

    def test_a_column_of_several_kinds_has_no_sum(self, compat: Literal["tvm"] | None) -> None:
        text = report({"Name": "a", "x": Count(1)}, {"Name": "b", "x": Percent(2.0)})
        assert rows(text.table(compat=compat))[-1] == ["Sum"]


def test_tvm_adds_times_one_after_the_other_in_the_order_of_its_rows() -> None:
    # 1.915 in all, and less than that if 1.803 and 0.061 are added, and rounded, first.
    calls: list[dict[str, Metric]] = [
        {"Name": name, "Duration (us)": Duration(us)}
        for name, us in (("c", 0.051), ("b", 0.061), ("a", 1.803))
    ]
    for text in (report(*calls).table(compat="tvm"), report(*calls[::-1]).table(compat="tvm")):
        assert [row[:2] for row in rows(text)[4:]] == [["----------"], ["Sum", "1.91"]]
    same: list[dict[str, Metric]] = [{**call, "Name": "f"} for call in calls[::-1]]
    assert rows(report(*same).table(compat="tvm", col_sums=False))[1] == ["f", "1.91"]
    assert rows(report(*same).table(col_sums=False))[1] == ["f", "1.92"]


@pytest.mark.parametrize("compat", [None, "tvm"])
def test_rule_4_a_total_row_for_each_device_even_without_sums(
    compat: Literal["tvm"] | None,
) -> None:
    text = report(
        cpu0={"Name": "x", "Device": "cpu0", "Count": Count(1)},
        npu0={"Device": "npu0", "Count": Count(2)},
    ).table(col_sums=False, compat=compat)
    assert rows(text)[1:] == [["Total", "cpu0", "1"], ["Total", "npu0", "2"]]


def test_ours_names_the_device_of_a_total_that_does_not_say_it_itself() -> None:
    totals = report(cpu0={"Count": Count(1)})
    assert rows(totals.table(col_sums=False))[1] == ["Total", "cpu0", "1"]
    assert rows(totals.table(col_sums=False, compat="tvm"))[1] == ["Total", "1"]


def test_several_devices_have_a_sum_each_since_their_ticks_do_not_add_up() -> None:
    text = report(
        {"Name": "f", "Device": "a", "Count": Count(1), "ticks": Count(10)},
        {"Name": "g", "Device": "a", "Count": Count(1), "ticks": Count(30)},
        {"Name": "f", "Device": "b", "Count": Count(1), "ticks": Count(500)},
    ).table()
    sums = [line.split() for line in text.splitlines() if line.startswith("Sum")]
    assert sums == [["Sum", "a", "2", "40"], ["Sum", "b", "1", "500"]]


def test_tvms_layout_adds_up_all_devices() -> None:
    text = report(
        {"Name": "f", "Device": "a", "Count": Count(1), "ticks": Count(10)},
        {"Name": "f", "Device": "b", "Count": Count(1), "ticks": Count(500)},
    ).table(compat="tvm")
    sums = [line.split() for line in text.splitlines() if line.startswith("Sum")]
    assert sums == [["Sum", "2", "510"]]


def timed(name: str, *times_us: float, **more: Metric) -> list[dict[str, Metric]]:
    return [
        {
            "Name": name,
            "Duration (us)": Duration(time_us),
            "Percent": Percent(1.0),
            "Device": "native",
            "Count": Count(1),
            **more,
        }
        for time_us in times_us
    ]


def test_one_sample_that_was_interrupted_changes_neither_order_nor_shares() -> None:
    """20 us of 8 ms are fast's; its median is 2 us, and that of slow 6."""
    slow = timed("slow", *[6.0] * 9, 7.0)
    fast = timed("fast", *[2.0] * 9, 8000.0)
    found = report(*fast, *slow)
    assert [line[0] for line in rows(found.table(col_sums=False))[1:]] == ["slow", "fast"]
    assert column(found.table(), "Percent") == ["75.00", "25.00", "", "100.00"]
    tvms = found.table(compat="tvm", col_sums=False)
    assert [line[0] for line in rows(tvms)[1:]] == ["fast", "slow"]
    assert column(tvms, "Percent") == ["10.00", "10.00"]


def test_a_share_is_of_what_was_measured_whatever_the_board_did_besides() -> None:
    """A set-up between the samples is in the device's Total."""
    found = report(*timed("f", 1.0, 3.0), *timed("g", 6.0), native={"Duration (us)": Duration(90)})
    assert column(found.table(), "Percent") == ["60.00", "40.00", "", "100.00", ""]


def test_what_has_no_share_gets_none() -> None:
    part = [{key: value for key, value in row.items() if key != "Percent"} for row in timed("p", 9)]
    found = report(*timed("f", 1.0), *part)
    assert column(found.table(), "Percent") == ["", "100.00", "", "100.00"]


def test_the_share_of_each_device_is_summed_for_itself_in_ours_and_over_all_in_tvms() -> None:
    two = report(
        {"Name": "f", "Device": "cpu0", "Percent": Percent(60.0)},
        {"Name": "g", "Device": "cpu0", "Percent": Percent(30.0)},
        {"Name": "f", "Device": "npu0", "Percent": Percent(25.0)},
    )
    assert rows(two.table())[-2:] == [["Sum", "90.00", "cpu0"], ["Sum", "25.00", "npu0"]]
    assert rows(two.table(compat="tvm"))[-1] == ["Sum", "115.00"]


def test_a_report_made_by_hand_without_shares_gets_none() -> None:
    text = report(
        {"Name": "f", "Duration (us)": Duration(5.0)}, cpu0={"Duration (us)": Duration(9)}
    )
    for compat in (None, "tvm"):
        assert column(text.table(compat=compat), "Percent") == ["", "", "", ""]


class TestTvmKnowsNothingOfOurs:
    """Byte for byte TVM's: what we treat apart, by its name or its column, TVM does not."""

    def test_percents_and_counts_are_summed_in_every_column(self) -> None:
        call: dict[str, Metric] = {
            "Name": "f",
            "Stack (bytes)": Count(8),
            "Stalled (%)": Percent(10.0),
        }
        text = report(call, call).table(compat="tvm")
        assert column(text, "Stack (bytes)") == ["16", "", "16"]
        assert column(text, "Stalled (%)") == ["20.00", "", "20.00"]

    def test_flags_do_not_keep_rows_apart(self) -> None:
        text = report(
            {"Name": "f", "Flags": "-O2", "Count": Count(1)},
            {"Name": "f", "Flags": "-O3", "Count": Count(1)},
        ).table(col_sums=False, compat="tvm")
        assert rows(text)[1:] == [["f", "2"]]


class TestRule5Columns:
    def test_six_columns_come_first_then_the_others_in_byte_order(self) -> None:
        call: dict[str, Metric] = {name: "x" for name in ("cycles", "Layout", "IPC", "Z")}
        head = report(call).table(compat="tvm").splitlines()[0]
        assert head == (
            "Name        Duration (us)  Percent  Device  Count  Argument Shapes"
            "  IPC  Layout  Z  cycles  "
        )

    def test_byte_order_is_that_of_utf_8(self) -> None:
        head = report({"ä": "x", "z": "x", "\U0001f600": "x", "\uffee": "x"}).table(compat="tvm")
        assert head.splitlines()[0].split()[-4:] == ["z", "ä", "\uffee", "\U0001f600"]

    def test_ours_leaves_out_empty_columns_except_five(self) -> None:
        head = report({"Name": "f", "Layout": "", "Argument Shapes": ""}).table().splitlines()[0]
        assert head == "Name        Duration (us)  Percent  Device  Count"

    def test_a_column_that_only_a_total_has_is_shown(self) -> None:
        head = report({"Name": "f"}, cpu0={"ticks": Count(1)}).table().splitlines()[0]
        assert head == "Name        Duration (us)  Percent  Device  Count  ticks"


class TestRule6Layout:
    def test_every_line_of_tvms_table_ends_in_two_blanks(self, operators: Report) -> None:
        lines = operators.table(compat="tvm").split("\n\n")[0].splitlines()
        assert {len(line) for line in lines} == {93}
        assert all(line.endswith("  ") for line in lines)

    def test_no_line_of_ours_ends_in_a_blank(self, operators: Report) -> None:
        text = Report(operators.calls, {}, {"empty": ""}).table()
        assert [line for line in text.splitlines() if line != line.rstrip()] == []
        assert text.endswith("\nempty:\n")

    def test_the_first_column_is_left_aligned_the_others_right(self) -> None:
        text = report({"Name": "f", "Device": "d"}).table(col_sums=False, compat="tvm")
        assert text.splitlines()[:2] == [
            "Name  Duration (us)  Percent  Device  Count  Argument Shapes  ",
            "f                                  d                          ",
        ]

    def test_tvm_pads_by_bytes(self) -> None:
        text = report({"Name": "fähig"}, {"Name": "ab"}).table(col_sums=False, compat="tvm")
        assert text.splitlines()[:3] == [
            "Name    Duration (us)  Percent  Device  Count  Argument Shapes  ",
            "fähig                                                          ",
            "ab                                                              ",
        ]

    def test_names_that_are_not_utf_8_can_be_printed_in_tvms_layout_too(self) -> None:
        odd = Report([{"Name": "caf\udce9", "x": Count(1)}], {}, {"by": "\udcff"})  # type: ignore[dict-item]
        text = odd.table(compat="tvm")
        assert text.encode().decode() == text
        assert text.splitlines()[1] == r"caf\udce9  " + text.splitlines()[1][11:]
        assert text.splitlines()[-1] == r"by: \udcff"

    def test_ours_pads_by_the_width_on_a_terminal(self) -> None:
        text = report(
            {"Name": "漢字", "Count": Count(1)},  # each two columns wide
            {"Name": "e\u0301te\u0301", "Count": Count(2)},  # the accents take none
        ).table(col_sums=False)
        assert text.splitlines()[:3] == [
            "Name  Duration (us)  Percent  Device  Count",
            "漢字                                      1",
            "e\u0301te\u0301                                       2",
        ]


class TestRule7Configuration:
    def test_it_is_printed_even_if_empty(self) -> None:
        assert report().table(compat="tvm").endswith("  \n\nConfiguration\n-------------\n")
        assert report().table().endswith("\n\nConfiguration\n-------------\n")

    def test_every_kind_of_metric_is_printed(self) -> None:
        configuration: dict[str, Metric] = {
            "clock_hz": Count(64000000),
            "window": Duration(1234.5),
            "share": Percent(12.345),
            "load": Ratio(0.25),
            "board": "native",
        }
        text = Report([], {}, configuration).table()
        assert text.split("-------------\n")[1] == (
            "clock_hz: 64,000,000\nwindow: 1,234.50\nshare: 12.35\nload: 0.25\nboard: native\n"
        )


class TestRule8Numbers:
    @pytest.mark.parametrize(
        ("metric", "plain", "with_separator"),
        [
            (Count(3234567), "3234567", "3,234,567"),
            (Count(-1000), "-1000", "-1,000"),
            (Count(2**64), "18446744073709551616", "18,446,744,073,709,551,616"),
            (Duration(3234.5688), "3234.57", "3,234.57"),
            (Duration(0.0), "0.00", "0.00"),
            (Duration(float("inf")), "inf", "inf"),
            (Duration(float("nan")), "nan", "nan"),
            (Percent(1234.5), "1234.50", "1234.50"),
            (Ratio(1.25), "1.2", "1.2"),
            (Ratio(1.75), "1.8", "1.8"),
            (Ratio(0.333333), "0.33", "0.33"),
            (Ratio(2.0), "2", "2"),
            (Ratio(99.4), "99", "99"),
            (Ratio(99.6), "1e+02", "1e+02"),
            (Ratio(123.0), "1.2e+02", "1.2e+02"),
            (Ratio(123456.0), "1.2e+05", "1.2e+05"),
            (Ratio(0.000012), "1.2e-05", "1.2e-05"),
            (Ratio(float("-inf")), "-inf", "-inf"),
            ("as it is", "as it is", "as it is"),
        ],
    )
    def test_tvms_formats(self, metric: Metric, plain: str, with_separator: str) -> None:
        configured = Report([], {}, {"x": metric})
        assert configured.table(compat="tvm", separator="").splitlines()[-1] == f"x: {plain}"
        assert configured.table(compat="tvm").splitlines()[-1] == f"x: {with_separator}"

    @pytest.mark.parametrize(
        ("ratio", "text"),
        [
            (1.25, "1.25"),
            (1 / 3, "0.3333"),
            (123.4, "123.4"),
            (99.996, "100"),
            (0.9996, "0.9996"),
            (61728.6, "61,730"),
            (123456.0, "123,500"),
            (999999.0, "1,000,000"),
            (1e6, "1e+06"),
            (1234567.0, "1.235e+06"),
            (0.00001234, "0.00001234"),
            (-0.00012, "-0.00012"),
            (0.00000012, "1.2e-07"),
            (0.0, "0"),
            (float("inf"), "inf"),
            (float("nan"), "nan"),
        ],
    )
    def test_our_ratios_have_four_digits_and_no_exponent_below_a_million(
        self, ratio: float, text: str
    ) -> None:
        assert Report([], {}, {"x": Ratio(ratio)}).table().splitlines()[-1] == f"x: {text}"

    @pytest.mark.parametrize(
        ("percentage", "text"),
        [
            (1.5, "1.50"),
            (0.0, "0.00"),
            (0.0049, "<0.01"),
            (0.006, "0.01"),
            (-0.0049, ">-0.01"),
            (-1.0, "-1.00"),
            (250.0, "250.00"),
        ],
    )
    def test_our_percentages_never_show_something_as_nothing(
        self, percentage: float, text: str
    ) -> None:
        shown = report({"Name": "f", "miss rate (%)": Ratio(percentage)}).table(col_sums=False)
        assert column(shown, "miss rate (%)") == [text]

    @pytest.mark.parametrize(("separator", "text"), [("", "1234567"), ("_", "1_234_567")])
    def test_the_separator_is_a_parameter(self, separator: str, text: str) -> None:
        call: dict[str, Metric] = {"Name": "f", "Count": Count(1), "loads": Count(1234567)}
        shown = report(call).table(col_sums=False, separator=separator)
        assert rows(shown)[1] == ["f", "1", text, text]


class TestPerCall:
    def shown(self, *samples: tuple[int, int]) -> str:
        calls: list[dict[str, Metric]] = [
            {"Name": "f", "Count": Count(count), "cycles": Count(value)} for value, count in samples
        ]
        [cell] = column(report(*calls).table(col_sums=False), "cycles/call")
        return cell

    def test_it_is_the_median_over_samples(self) -> None:
        assert self.shown((10, 1), (1000000, 1), (30, 2)) == "15"

    def test_between_two_samples_it_is_their_mean(self) -> None:
        assert self.shown((10, 1), (20, 1)) == "15"
        assert self.shown((10, 1), (21, 1)) == "15.5"
        assert self.shown((5, 2), (7, 2)) == "3"

    @pytest.mark.parametrize(
        ("value", "count", "text"),
        [
            (4410000, 1, "4,410,000"),
            (0, 7, "0"),
            (5, 2, "2.5"),
            (10, 3, "3.33"),
            (-10, 3, "-3.33"),
            (1999, 1000, "2.00"),
            (123456789, 100, "1,234,567.89"),
            (1, 1000, "<0.01"),
            (-1, 1000, ">-0.01"),
            ((1 << 64) - 1, 2, "9,223,372,036,854,775,807.5"),
            (10**17, 3, "33,333,333,333,333,333.33"),
            (12345, 1000, "12.34"),  # a half rounds to even
            (12355, 1000, "12.36"),
        ],
    )
    def test_whole_numbers_have_no_point_and_others_keep_one(
        self, value: int, count: int, text: str
    ) -> None:
        assert self.shown((value, count)) == text

    def test_durations_have_two_decimals(self) -> None:
        calls: list[dict[str, Metric]] = [
            {"Name": "f", "Count": Count(10), "Duration (us)": Duration(us)}
            for us in (10.0, 40.0, 20.0)
        ]
        text = report(*calls).table(col_sums=False)
        assert rows(text)[1] == ["f", "70.00", "2.00", "30"]

    def test_every_row_has_its_own_without_aggregation(self) -> None:
        text = report(
            {"Name": "f", "Count": Count(2), "loads": Count(10)},
            {"Name": "f", "Count": Count(2), "loads": Count(30)},
        ).table(aggregate=False, col_sums=False)
        assert column(text, "loads/call") == ["5", "15"]

    def test_it_is_blank_for_sums_and_totals(self) -> None:
        text = report(
            {"Name": "f", "Count": Count(2), "loads": Count(10)},
            cpu0={"Count": Count(2), "loads": Count(12)},
        ).table()
        assert column(text, "loads") == ["10", "", "10", "12"]
        assert column(text, "loads/call") == ["5", "", "", ""]

    @pytest.mark.parametrize("count", [Count(0), Count(-1), Duration(1.0), "1"])
    def test_a_row_that_does_not_say_how_many_calls_it_held_has_none(self, count: Metric) -> None:
        assert "loads/call" not in report({"Name": "f", "Count": count, "loads": Count(1)}).table()

    def test_samples_without_the_value_or_the_count_are_passed_over(self) -> None:
        text = report(
            {"Name": "f", "Count": Count(1), "loads": Count(10)},
            {"Name": "f", "Count": Count(1)},
            {"Name": "f", "loads": Count(1000)},
        ).table(col_sums=False)
        assert column(text, "loads/call") == ["10"]

    def test_count_percent_ratio_and_text_have_none(self) -> None:
        head = report(
            {"Name": "f", "Count": Count(1), "Percent": Percent(1.0), "r": Ratio(1.0), "s": "x"}
        ).table()
        assert "/call" not in head

    def test_a_column_of_that_name_in_the_report_is_not_replaced(self) -> None:
        text = report(
            {"Name": "f", "Count": Count(2), "loads": Count(10), "loads/call": Count(77)}
        ).table(col_sums=False)
        assert column(text, "loads/call") == ["77"]

    def test_tvms_layout_has_none(self) -> None:
        text = report({"Name": "f", "Count": Count(2), "loads": Count(10)}).table(compat="tvm")
        assert "/call" not in text


class TestText:
    @pytest.mark.parametrize(
        ("name", "shown"),
        [
            ("a\nb", "a\\nb"),
            ("\r\t", "\\r\\t"),
            ("\x1b[31m", "\\x1b[31m"),
            ("\x00\x7f\x9b", "\\x00\\x7f\\x9b"),
            ("\u202egnp\u2028", "\\u202egnp\\u2028"),
            ("\udc80", "\\udc80"),
            ('q"uote ä漢', 'q"uote ä漢'),
            ("C:\\new", "C:\\new"),
        ],
    )
    def test_unprintable_characters_are_escaped_everywhere(self, name: str, shown: str) -> None:
        text = Report([{"Name": name, "h" + name: "v" + name}], {}, {"k" + name: "c" + name})
        lines = text.table(col_sums=False).splitlines()
        assert len(lines) == 6
        assert lines[0].endswith("  h" + shown)
        assert lines[1].startswith(shown + "  ")
        assert lines[1].endswith("  v" + shown)
        assert lines[5] == f"k{shown}: c{shown}"

    def test_tvms_layout_leaves_text_as_it_is(self) -> None:
        assert "\na\tb  " in report({"Name": "a\tb"}).table(compat="tvm")


class TestAnythingIsTabulated:
    @pytest.mark.parametrize("digits", [399, 4998])  # Python writes no int of more than 4300 digits
    def test_a_count_of_any_number_of_digits(self, digits: int) -> None:
        calls: list[dict[str, Metric | int]] = [
            {"Name": "f", "Count": 2, "n": 10**digits, "Duration (us)": Duration(1.0)},
            {"Name": "f", "Count": 3, "n": 10**digits + 1, "Flags": "-O2"},
            {"Name": "g", "Count": 1, "instructions": 1, "Flags": "-O2"},
            {"Name": "g", "Count": 1, "instructions": 10**digits, "Flags": "-O3"},
        ]
        huge = Report(calls, {"cpu0": {"n": 10**digits}}, {"n": -(10**digits)})
        for text in (huge.table(), huge.table(compat="tvm"), huge.table(aggregate=False)):
            assert "1" + ",000" * (digits // 3) in text
        assert "f" in huge.table(by_board=True)
        assert "1" + "0" * digits + "," in huge.csv()

    def test_a_ratio_of_counts_that_no_float_holds_is_left_empty(self) -> None:
        calls: list[dict[str, Metric | int]] = [
            {"Name": "g", "Device": "m4", "Count": 1, "ticks": ticks, "Flags": flags}
            for ticks, flags in ((1, "-O2"), (10**400, "-O3"))
        ]
        lines = Report(calls, {}, {}).table(by_board=True).splitlines()
        assert lines[2].split() == ["g", "-O2", "1", "1.00"]
        assert lines[3].split()[:2] == ["g", "-O3"]
        assert len(lines[3].split()) == 3

    def test_rows_that_lack_everything(self) -> None:
        text = report({}, {"Count": Count(1)}, {"cycles": Count(3)}).table(col_sums=False)
        assert rows(text) == [
            ["Name", "Duration", "(us)", "Percent", "Device", "Count", "cycles"],
            ["1", "3"],
        ]

    def test_keys_that_are_no_text(self) -> None:
        calls: list[dict[str, Metric | int]] = [
            {"Name": 1, "Device": Ratio(0.5), "Count": 1},
            {"Name": "1", "Device": Ratio(0.5), "Count": 1},
        ]
        assert len(rows(Report(calls, {}, {}).table(col_sums=False))) == 1 + 2

    @pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
    def test_what_is_not_finite(self, value: float) -> None:
        calls: list[dict[str, Metric | int]] = [
            {
                "Name": "f",
                "Flags": flags,
                "Count": 1,
                "Duration (us)": Duration(value),
                "Percent": Percent(value),
                "IPC": Ratio(value),
                "miss (%)": Ratio(value),
            }
            for flags in ("-O2", "-O3")
        ]
        odd = Report(calls, {"cpu0": {"Duration (us)": Duration(value)}}, {"t": Ratio(value)})
        for text in (odd.table(), odd.table(compat="tvm"), odd.table(by_board=True)):
            assert str(value) in text


LABELLED: list[dict[str, Metric]] = [
    {"Name": "dense", "Hash": "a1", "Count": Count(1), "ticks": Count(ticks), **more}
    for ticks, more in (
        (70, {"Label": "hidden"}),
        (20, {"Label": "output"}),
        (71, {"Label": "hidden"}),
        (5, {}),
    )
]


def test_calls_of_one_function_with_different_labels_are_apart() -> None:
    text = report(*LABELLED).table(col_sums=False)
    assert column(text, "Label") == ["hidden", "output", ""]
    assert [(row[0], row[1], row[-2]) for row in rows(text)[1:]] == [
        ("dense", "2", "141"),
        ("dense", "1", "20"),
        ("dense", "1", "5"),
    ]


def test_tvms_layout_merges_what_has_the_same_hash_whatever_its_label() -> None:
    text = report(*LABELLED).table(compat="tvm", col_sums=False)
    assert column(text, "Count") == ["4"]
    assert column(text, "ticks") == ["166"]


def test_an_unknown_compat_mode_is_refused_by_name() -> None:
    with pytest.raises(UnknownNameError, match="There is no compat mode 'TVM'; did you mean 'tvm'"):
        report().table(compat="TVM")  # type: ignore[arg-type]


def test_many_distinct_rows_take_linear_time() -> None:
    calls: list[dict[str, Metric]] = [
        {"Name": f"f{i}", "Count": Count(3), "cycles": Count(i)} for i in range(30_000)
    ]
    start_s = time.process_time()
    for aggregate in (True, False):
        text = report(*calls).table(aggregate=aggregate, col_sums=False)
        assert text.count("\n") == 1 + 30_000 + 3
    assert time.process_time() - start_s < 20  # it takes about 1; a quadratic step, minutes
