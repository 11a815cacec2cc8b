# SPDX-License-Identifier: Apache-2.0
"""Markdown: a table a device, medians per call, and no name that becomes markup."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boardprof.base.metrics import Count, Duration, Percent
from boardprof.results.report.report import Report
from boardprof.show.markdown import code, render_markdown

EXTRA = {
    "schema_version": 1,
    "devices": {
        "q": {"clock_kind": "simulated", "emulated": True},
        "m": {"clock_kind": "measured", "emulated": False},
    },
}


def test_the_answer_comes_first_and_a_table_a_device_with_all_metrics_is_folded_up() -> None:
    rows = [
        {"Name": "crc", "Device": "q", "Count": 2, "instructions": 20, "Percent": Percent(10.0)},
        {"Name": "fir", "Device": "q", "Count": 2, "instructions": 80, "Percent": Percent(40.0)},
        {"Name": "fir", "Device": "q", "Count": 2, "instructions": 81, "Percent": Percent(40.0)},
    ]
    assert render_markdown(Report(rows, {}, {"Number": 2}, EXTRA)) == (
        "### 2 functions on `q` (simulated clock, no wall time, emulated)\n\n| Name | "
        "instructions | Spread |\n| :-- | --: | --: |\n| `crc` | 10 | exact |\n| `fir` | 40.25 | "
        "± 0.12 |\n\nMedians per call ± half the interquartile range of 1 to 2 samples on q.\n\n"
        "- ⚠️ `fir` on `q`, `instructions`: 2 samples are too few: with this many in each of two "
        "runs, the rank test cannot give a p "
        "below 0.33. Take at least 10: --repeat 10.\n\n<details><summary>All "
        "metrics</summary>\n\n**`q`** (simulated clock, no wall time, emulated)\n\n| Name | "
        "`Percent` | `instructions` | Samples |\n| :-- | --: | --: | --: |\n| `fir` | 88.95 | "
        "40.25 | 2 |\n| `crc` | 11.05 | 10 | 1 |\n\nCounts and times are medians per "
        "call.\n\n</details>\n\n<details><summary>Configuration</summary>\n\n| Key | Value |\n| "
        ":-- | :-- |\n| `Number` | `2` |\n\n</details>\n"
    )


def test_devices_have_tables_of_their_own_and_only_their_columns() -> None:
    rows = [
        {"Name": "f", "Device": "m", "Count": Count(1), "Duration (us)": Duration(1.5)},
        {"Name": "f", "Device": "q", "Count": Count(1), "ticks": Count(3)},
    ]
    _, first, second = re.split(r"\*\*`[mq]`\*\*", render_markdown(Report(rows, {}, {}, EXTRA)))
    assert first.startswith(" (measured clock)\n")
    assert "| Name | `Duration (us)` | Samples |" in first
    assert "| Name | `ticks` | Samples |" in second


def test_flags_and_arguments_are_columns_where_there_are_any() -> None:
    row = {"Name": "f", "Device": "q", "Flags": "-O2", "Argument Shapes": "n=8, x=int8[4]"}
    text = render_markdown(Report([row], {}, {}))
    assert text.startswith("### `f` on `q`\n\n<details>")  # it has no number: there is no answer
    assert "| Name | Flags | Argument Shapes | Samples |\n| :-- | :-- | :-- | --: |\n" in text
    assert "| `f` | `-O2` | `n=8, x=int8[4]` | 1 |" in text


def test_calls_of_other_labels_names_and_hashes_have_a_row_each() -> None:
    rows = [
        {"Name": name, "Hash": hash, "Label": label, "Device": "q", "Count": 1, "loads": loads}
        for name, hash, label, loads in (
            ("dense", "1", "hidden", 70),
            ("dense", "1", "output", 90),
            ("dense", "2", "output", 5),
            ("other", "2", "output", 6),
        )
    ]
    text = render_markdown(Report(rows, {}, {}))
    assert "| Name | Label | `loads` | Samples |\n| :-- | :-- | --: | --: |\n" in text
    assert "| `dense` | `hidden` | 70 | 1 |\n| `dense` | `output` | 90 | 1 |\n" in text
    assert "| `dense` | `output` | 5 | 1 |\n| `other` | `output` | 6 | 1 |\n" in text


def test_a_column_that_cannot_be_merged_is_named() -> None:
    rows = [{"Name": "f", "Count": 1, "t": value} for value in (Count(3), Duration(3.0))]
    assert (
        render_markdown(Report(rows, {}, {}))
        .removesuffix("\n</details>\n")
        .endswith(
            "\nCells are empty where merged rows have several kinds of metric: `t` (Count and "
            "Duration). CSV and JSON have each row.\n"
        )
    )


def test_a_value_that_is_missing_is_an_empty_cell_and_no_zero() -> None:
    rows = [{"Name": "f", "Count": 1, "a": 0}, {"Name": "g", "Count": 1}]
    text = render_markdown(Report(rows, {}, {}))
    assert "| `f` | 0 | 1 |" in text
    assert "| `g` |  | 1 |" in text


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("conv2d_i8", "`conv2d_i8`"),
        ("a|b", "<code>a&#124;b</code>"),
        ("`rm`", "<code>&#96;rm&#96;</code>"),
        ("<b>", "<code>&#60;b&#62;</code>"),
        ("a\\|b", "<code>a&#92;&#124;b</code>"),
        ("a\nb", "<code>a&#92;nb</code>"),
        ("\u202eabc", "<code>&#92;u202eabc</code>"),
        (" x", "<code> x</code>"),
        ("", ""),
    ],
)
def test_a_name_is_code_whatever_it_holds(name: str, shown: str) -> None:
    assert code(name) == shown


@given(st.text(), st.text())
def test_no_name_breaks_a_table(name: str, device: str) -> None:
    text = render_markdown(Report([{"Name": name, "Device": device, "n": 1, "Count": 1}], {}, {}))
    for line in text.split("\n"):
        assert not line or line.startswith(
            ("###", "| ", "**", "<", "`", "Median of ", "Counts ", "- ⚠️ ")
        )
    _, _, header, rule, row, _, note, *_ = text.partition("All metrics</summary>\n\n")[2].split(
        "\n"
    )
    assert (header, rule) == ("| Name | `n` | Samples |", "| :-- | --: | --: |")
    assert row.count("|") == 4
    assert note.startswith("Counts")
    assert not re.search(r"<(?!/?(code|details|summary)>)", text)


def timed(name: str, values: list[float], **more: str) -> list[dict[str, object]]:
    row = {"Name": name, "Device": "m", "Count": Count(1), **more}
    return [row | {"Duration (us)": Duration(value)} for value in values]


def test_a_sweep_has_a_row_a_function_and_a_column_a_setting() -> None:
    rows = [
        *timed("fir", [8.0] * 10, Flags="-O2"),
        *timed("crc", [3.0], Flags="-O2"),
        *timed("fir", [2.0] * 10, Flags="-O3"),
    ]
    text = render_markdown(Report(rows, {}, {}, EXTRA))
    assert (
        "| Name | Metric | `-O2` | `-O3` |\n| :-- | :-- | --: | --: |\n"
        "| `fir` | `Time (us)` | 8 (1.00) | 2 (0.25) |\n"
        "| `crc` | `Time (us)` | 3 |  |\n"
    ) in text


def test_warnings_and_what_is_missing_stand_between_the_answer_and_what_is_folded_up() -> None:
    rows = [*timed("fir", [1.0, 2.0]), *timed("crc_32", [1.0, 2.0])]
    text = render_markdown(Report(rows, {}, {"Missing": "iir does not compile"}, EXTRA))
    lines = text.partition("<details>")[0].splitlines()
    assert lines[9:] == [
        "- Missing: iir does not compile",
        "- ⚠️ `fir` on `m`, `Duration (us)`: 2 samples are too few: with this many in each of "
        "two runs, the rank test cannot give a p below 0.33. 1 more like it. Take at least 10: "
        "--repeat 10.",
        "- ⚠️ `fir` on `m`, `Duration (us)`: the samples vary by 47.1 % of their mean: other "
        "programs use this machine, or the calls do not do the same work. 1 more like it. Stop "
        "other programs, or take more samples: --repeat 100.",
        "",
    ]


def test_boards_without_a_metric_in_common_stand_in_one_table() -> None:
    rows = [*timed("f", [1.5]), {"Name": "f", "Device": "q", "Count": Count(1), "ticks": Count(3)}]
    text = render_markdown(Report(rows, {}, {}, EXTRA))
    assert text.startswith("### `f` on `m` and `q`\n")
    assert "| `f` | `m` | 1.5 |  | one sample |\n| `f` | `q` |  | 3 | exact |\n" in text
