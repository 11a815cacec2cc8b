# SPDX-License-Identifier: Apache-2.0
"""Tables on a terminal: no line is too long, and no number is lost."""

from __future__ import annotations

import re

import pytest

from boardprof.metrics import Count, Duration
from boardprof.render.cells import display_width
from boardprof.render.fitting import fitted
from boardprof.report.report import Report

TABLE = """\
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


def test_what_has_room_stays_as_it_is() -> None:
    assert fitted(TABLE, 49, styled=False) == TABLE
    assert fitted(TABLE, 0, styled=False) == TABLE


def test_columns_without_room_come_below_with_the_name_again() -> None:
    assert (
        fitted(TABLE, 40, styled=False)
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
    table = (
        "Name   Label   Minimum  Median\n"
        "dense  hidden      100     101\n"
        "dense  output      200     202\n"
    )
    assert [line.split() for line in fitted(table, 24, styled=False).splitlines()] == [
        ["Name", "Label", "Minimum"],
        ["dense", "hidden", "100"],
        ["dense", "output", "200"],
        [],
        ["Name", "Label", "Median"],
        ["dense", "hidden", "101"],
        ["dense", "output", "202"],
    ]


def test_what_tells_rows_apart_is_repeated_as_well() -> None:
    table = "Name  Device  Metric  Minimum  Median\nfir   m3      cycles      100     101\n"
    table += "fir   m4      cycles       90      91\n"
    first, second = fitted(table, 32, styled=False).split("\n\n")
    assert first.splitlines() == [
        "Name  Device  Metric  Minimum",
        "fir   m3      cycles      100",
        "fir   m4      cycles       90",
    ]
    assert second == "Name  Device  Median\nfir   m3         101\nfir   m4          91\n"


def test_a_name_is_cut_before_rows_become_alike() -> None:
    table = "Name                 Device  Metric  Minimum  Median\n"
    table += "depthwise_separable  m3      cycles      100     101\n"
    table += "depthwise_separable  m4      cycles       90      91\n"
    last = fitted(table, 38, styled=False).split("\n\n")[-1]
    assert last.splitlines() == [
        "Name             Device  Median",
        "depthwise_se...  m3         101",
        "depthwise_se...  m4          91",
    ]


def test_the_first_column_is_the_key_though_another_one_is_called_name() -> None:
    table = "Run  Time (UTC)  Name  Boards\n#2   2026-11-22  main  native\n"
    assert fitted(table, 24, styled=False) == (
        "Run  Time (UTC)  Name\n#2   2026-11-22  main\n\nRun  Boards\n#2   native\n"
    )


BOARDS = """\
      qemu-rv32 ---------------------  m3 ------------
Name  instructions  ticks  Stack (b)  ticks  Stack (b)
fir            205      1          8     10         16
"""


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
    lines = fitted(TABLE, 80, styled=True).splitlines()
    assert lines[0] == f"\x1b[1m{TABLE.splitlines()[0]}\x1b[0m"
    assert lines[1] == TABLE.splitlines()[1]
    assert lines[3] == "\x1b[2m----------\x1b[0m"
    assert [line.startswith("\x1b[1m") for line in lines[4:6]] == [True, True]
    assert lines[7] == "\x1b[1mConfiguration\x1b[0m"
    assert lines[9] == "\x1b[2mnative flags: -O2\x1b[0m"


def test_long_facts_are_folded_at_blanks() -> None:
    facts = "Configuration\n-------------\nflags: -O2 -funroll-loops -fno-inline\n"
    assert fitted(facts, 24, styled=False).splitlines()[2:] == [
        "flags: -O2",
        "    -funroll-loops",
        "    -fno-inline",
    ]


def test_a_name_that_is_wider_than_all_is_cut_with_dots() -> None:
    table = f"Name{' ' * 60}Count\n{'n' * 62}     10\n"
    assert fitted(table, 30, styled=False).splitlines()[1] == "nnnnnnnnnnnnnnn...     10"


NAMES = ["fir", "a  b", "n" * 90, "漢字" * 20, "e\u0301" * 30, "\x1b[31mred\x1b[0m", "x\ny", "----"]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
@pytest.mark.parametrize("width", [20, 21, 37, 80])
def test_no_line_is_longer_and_no_name_brings_a_code_of_its_own(name: str, width: int) -> None:
    values = {"Duration (us)": Duration(1234.5), name: Count(10**30), "Device": name, "Count": 7}
    rows = [{"Name": own, **values} for own in (name, "other")]
    report = Report(rows, {name: rows[0]}, {name: name * 5})
    for text in (report.table(), report.statistics()):
        plain = re.sub("\x1b\\[[012]m", "", fitted(text, width, styled=True))
        assert "\x1b" not in plain
        assert max(map(display_width, plain.split("\n"))) <= width
    assert width < 80 or f"{2 * 10**30:,}" in fitted(report.table(), width, styled=False)


def test_a_table_by_board_never_grows_too_long_either() -> None:
    rows = [
        {"Name": "fir", metric: Count(5), "Device": device, "Count": 1}
        for device in ("a-board-with-a-long-name", "m4", "漢字")
        for metric in ("cycles", "instructions", "ticks")
    ]
    text = Report(rows, {}, {}).table(by_board=True)
    for width in range(20, 120, 7):
        shown = fitted(text, width, styled=False)
        assert max(map(display_width, shown.split("\n"))) <= width
        assert shown.count("ticks") >= 1
