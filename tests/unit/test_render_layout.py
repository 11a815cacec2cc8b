# SPDX-License-Identifier: Apache-2.0
"""Tables and lines on a terminal: no line is too long, and no number is lost."""

from __future__ import annotations

import re

import pytest

from boardprof.base.metrics import Count, Duration
from boardprof.base.printable import display_width
from boardprof.results.report.report import Report
from boardprof.show.layout import Column, Page, Table, fitted, folded, plain, text_table
from boardprof.show.table import report_page, statistics_page

NAME = Column("Name", ["fir_q15", "iir", "Sum", "Total"])
REPORT = [
    Table(
        [
            NAME,
            Column("Duration (us)", ["53.12", "1.00", "54.12", "165.12"]),
            Column("Percent", ["32.17", "0.50", "32.67", ""]),
            Column("Device", ["native", "native", "", "native"]),
            Column("Count", ["10", "10", "20", ""]),
        ],
        totals=2,
    ),
    "",
    "Configuration",
    "-------------",
    "native flags: -O2",
]
TEXT = """\
Name        Duration (us)  Percent  Device  Count
fir_q15             53.12    32.17  native     10
iir                  1.00     0.50  native     10
----------
Sum                 54.12    32.67             20
Total              165.12           native

Configuration
-------------
native flags: -O2
"""


def table(*columns: list[str]) -> Page:
    """Return a table of columns: those of figures stand right."""
    return [Table([Column(c[0], c[1:], is_text=not c[1].isdigit()) for c in columns])]


def test_what_has_room_stays_as_it_is() -> None:
    assert plain(REPORT) == TEXT
    assert fitted(REPORT, 49, styled=False) == TEXT
    assert fitted(REPORT, 0, styled=False) == TEXT


def test_columns_without_room_come_below_with_the_name_again() -> None:
    assert (
        fitted(REPORT, 40, styled=False)
        == """\
Name        Duration (us)  Percent
fir_q15             53.12    32.17
iir                  1.00     0.50
----------
Sum                 54.12    32.67
Total              165.12

Name        Device  Count
fir_q15     native     10
iir         native     10
----------
Sum                    20
Total       native

Configuration
-------------
native flags: -O2
"""
    )


def test_a_label_is_repeated_with_the_name() -> None:
    page = table(
        ["Name", "dense", "dense"],
        ["Label", "hidden", "output"],
        ["Minimum", "100", "200"],
        ["Median", "101", "202"],
    )
    assert [line.split() for line in fitted(page, 24, styled=False).splitlines()] == [
        ["Name", "Label", "Minimum"],
        ["dense", "hidden", "100"],
        ["dense", "output", "200"],
        [],
        ["Name", "Label", "Median"],
        ["dense", "hidden", "101"],
        ["dense", "output", "202"],
    ]


def on_two_boards(name: str) -> Page:
    return table(
        ["Name", name, name],
        ["Device", "m3", "m4"],
        ["Metric", "cycles", "cycles"],
        ["Minimum", "100", "90"],
        ["Median", "101", "91"],
    )


def test_what_tells_rows_apart_is_repeated_as_well() -> None:
    first, second = fitted(on_two_boards("fir"), 32, styled=False).split("\n\n")
    assert first.splitlines() == [
        "Name  Device  Metric  Minimum",
        "fir   m3      cycles      100",
        "fir   m4      cycles       90",
    ]
    assert second == "Name  Device  Median\nfir   m3         101\nfir   m4          91\n"


def test_a_name_is_cut_before_rows_become_alike() -> None:
    page = on_two_boards("depthwise_separable")
    last = fitted(page, 38, styled=False).split("\n\n")[-1]
    assert last.splitlines() == [
        "Name             Device  Median",
        "depthwise_se...  m3         101",
        "depthwise_se...  m4          91",
    ]


def test_the_first_column_is_the_key_though_another_one_is_called_name() -> None:
    page = [
        text_table(("Run", "Time (UTC)", "Name", "Boards"), [("#2", "2026-11-22", "main", "m4")])
    ]
    assert fitted(page, 24, styled=False) == (
        "Run  Time (UTC)  Name\n#2   2026-11-22  main\n\nRun  Boards\n#2   m4\n"
    )


BOARDS = [
    Table(
        [
            Column("Name", ["fir"]),
            Column("instructions", ["205"], group="qemu-rv32"),
            Column("ticks", ["1"], group="qemu-rv32"),
            Column("Stack (b)", ["8"], group="qemu-rv32"),
            Column("ticks", ["10"], group="m3"),
            Column("Stack (b)", ["16"], group="m3"),
        ]
    )
]


def test_columns_of_a_group_stand_under_its_title() -> None:
    assert (
        plain(BOARDS)
        == """\
      qemu-rv32 --------------------  m3 -------------
Name  instructions  ticks  Stack (b)  ticks  Stack (b)
fir            205      1          8     10         16
"""
    )


def test_a_group_of_a_board_that_is_parted_has_its_title_on_both_sides() -> None:
    assert (
        fitted(BOARDS, 30, styled=False)
        == """\
      qemu-rv32 ---------
Name  instructions  ticks
fir            205      1

      qemu-rv32  m3 --
Name  Stack (b)  ticks
fir           8     10

      m3 ------
Name  Stack (b)
fir          16
"""
    )


def test_headers_and_sums_are_bold_and_facts_are_dim() -> None:
    lines = fitted(REPORT, 80, styled=True).splitlines()
    assert lines[0] == f"\x1b[1m{TEXT.splitlines()[0]}\x1b[0m"
    assert lines[1] == TEXT.splitlines()[1]
    assert lines[3] == "\x1b[2m----------\x1b[0m"
    assert [line.startswith("\x1b[1m") for line in lines[4:6]] == [True, True]
    assert lines[7] == "\x1b[1mConfiguration\x1b[0m"
    assert lines[9] == "\x1b[2mnative flags: -O2\x1b[0m"


def test_long_facts_are_folded_at_blanks() -> None:
    facts = ["Configuration", "-------------", "flags: -O2 -funroll-loops -fno-inline"]
    assert fitted(facts, 24, styled=False).splitlines()[2:] == [
        "flags: -O2",
        "    -funroll-loops",
        "    -fno-inline",
    ]


def test_a_name_that_is_wider_than_all_is_cut_with_dots() -> None:
    page = table(["Name", "n" * 62], ["Count", "10"])
    assert fitted(page, 30, styled=False).splitlines()[1] == "nnnnnnnnnnnnnnn...     10"


def test_columns_without_any_value_are_left_out_of_a_table_of_texts() -> None:
    page = [text_table(("Run", "Name", "Git"), [("#1", "", "main"), ("#2", "", "")])]
    assert plain(page) == "Run  Git\n#1   main\n#2\n"


def test_what_a_terminal_would_obey_is_escaped() -> None:
    page = [Table([Column("N\x1b[2J", ["a\rb", "x"], group="")], totals=1), "see\x1b]0;x\x07 this"]
    assert plain(page) == ("N\\x1b[2J\na\\rb\n----------\nx\nsee\\x1b]0;x\\x07 this\n")


NAMES = ["fir", "a  b", "n" * 90, "漢字" * 20, "e\u0301" * 30, "\x1b[31mred\x1b[0m", "x\ny", "----"]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
@pytest.mark.parametrize("width", [20, 21, 37, 80])
def test_no_line_is_longer_and_no_name_brings_a_code_of_its_own(name: str, width: int) -> None:
    values = {"Duration (us)": Duration(1234.5), name: Count(10**30), "Device": name, "Count": 7}
    rows = [{"Name": own, **values} for own in (name, "other")]
    report = Report(rows, {name: rows[0]}, {name: name * 5})
    for page in (report_page(report), statistics_page(report)):
        text = re.sub("\x1b\\[[012]m", "", fitted(page, width, styled=True))
        assert "\x1b" not in text
        assert max(map(display_width, text.split("\n"))) <= width
    assert width < 80 or f"{2 * 10**30:,}" in fitted(report_page(report), width, styled=False)


def test_a_table_by_board_never_grows_too_long_either() -> None:
    rows = [
        {"Name": "fir", metric: Count(5), "Device": device, "Count": 1}
        for device in ("a-board-with-a-long-name", "m4", "漢字")
        for metric in ("cycles", "instructions", "ticks")
    ]
    page = report_page(Report(rows, {}, {}), by_board=True)
    for width in range(20, 120, 7):
        shown = fitted(page, width, styled=False)
        assert max(map(display_width, shown.split("\n"))) <= width
        assert shown.count("ticks") >= 1


def test_what_is_said_of_an_item_goes_on_where_it_began() -> None:
    text = "native  this machine, inside the host's own process\nlinux   likewise"
    assert folded(text, 30) == (
        "native  this machine, inside\n        the host's own process\nlinux   likewise"
    )


def test_a_line_without_an_item_goes_on_four_columns_deeper() -> None:
    assert (
        folded("  flags: -O2 -funroll-loops -g", 22)
        == "  flags: -O2\n      -funroll-loops\n      -g"
    )


def test_an_item_that_takes_more_than_half_does_not_squeeze_what_is_said_of_it() -> None:
    text = "a_function_with_a_long_name  is here and there"
    assert folded(text, 40) == "a_function_with_a_long_name  is here and\n    there"


def test_wide_characters_are_not_parted() -> None:
    lines = folded("漢字" * 20, 21).split("\n")
    assert max(map(display_width, lines)) <= 21
    assert "".join(line.strip() for line in lines) == "漢字" * 20


def test_too_few_columns_to_fold_into_leave_the_text_alone() -> None:
    assert folded("one two three four five six", 0) == "one two three four five six"


def test_what_tells_rows_apart_is_there_once_where_it_does_not_fit_beside_each_block() -> None:
    table = Table(
        [
            Column("Name", ["work"] * 4),
            Column("Device", ["qemu-rv32", "qemu-rv32", "qemu-rv64", "qemu-rv64"]),
            Column("Metric", ["instructions", "ticks", "instructions", "ticks"]),
            Column("Before", ["1,234,505", "1,505", "1,234,707", "1,707"]),
            Column("After", ["1,234,505", "1,505", "1,234,707", "1,707"]),
        ]
    )
    text = fitted([table], 40, styled=False)
    assert max(map(display_width, text.splitlines())) <= 40
    assert [line for line in text.splitlines() if "qemu-rv32" in line]
    assert [line for line in text.splitlines() if "qemu-rv64" in line]


def test_source_that_is_cut_keeps_its_indentation() -> None:
    page = table(
        ["Line", "7", "8", "9"],
        ["Self", "1024", "96", "4"],
        ["Source", "for (;;) {", "    wait();", "        long_name_of_a_function();"],
    )
    assert fitted(page, 28, styled=False) == (
        "Line  Self\n"
        "7     1024\n"
        "8       96\n"
        "9        4\n"
        "\n"
        "Line  Source\n"
        "7     for (;;) {\n"
        "8         wait();\n"
        "9             long_name_o...\n"
    )


def test_rows_have_numbers_if_what_tells_them_apart_does_not_fit() -> None:
    table = Table(
        [
            Column("Name", ["f", "f"], is_text=True),
            Column("Arguments", ["x=int32[1000], n=1000", "x=int32[64], n=64"], is_text=True),
            Column("cycles", ["3,000", "192"]),
            Column("instructions", ["2,000", "128"]),
        ]
    )
    assert fitted([table], 36, styled=False).splitlines() == [
        "#  Name  Arguments",
        "1  f     x=int32[1000], n=1000",
        "2  f     x=int32[64], n=64",
        "",
        "#  Name  cycles  instructions",
        "1  f      3,000         2,000",
        "2  f        192           128",
    ]


def test_a_column_without_room_is_named() -> None:
    columns = [Column("Name", ["f"], is_text=True), Column("cycles", ["3,000"])]
    table = Table([*columns, Column("Stack", ["1,000,000"])], spare=["Stack"])
    assert fitted([table], 22, styled=False) == (
        "Name  cycles\nf      3,000\nToo narrow for: Stack.\n"
    )
    assert fitted([table], 80, styled=False) == (
        "Name  cycles      Stack\nf      3,000  1,000,000\n"
    )
