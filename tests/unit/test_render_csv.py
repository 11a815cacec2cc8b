# SPDX-License-Identifier: Apache-2.0
"""CSV: exact and readable by default, TVM's bytes on request."""

from __future__ import annotations

import csv
import io
import math
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boardprof.base.errors import UnknownNameError
from boardprof.base.metrics import Count, Duration, Metric, Percent, Ratio
from boardprof.results.report.report import Report


def report(*calls: dict[str, Metric]) -> Report:
    return Report(calls, {"cpu0": {"only in totals": 1}}, {"only in configuration": 1})


def read_back(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline=""), strict=True))


OPERATORS = report(
    {
        "Name": "matmul",
        "Count": Count(1),
        "Duration (us)": Duration(1234.5678),
        "Percent": Percent(40.0),
        "IPC": Ratio(1.25),
    },
    {"Name": "relu", "Duration (us)": Duration(2000.001), "cycles": Count(7)},
)


def test_floats_are_written_in_full_and_missing_values_left_empty() -> None:
    assert OPERATORS.csv() == (
        "Count,Duration (us),IPC,Name,Percent,cycles\n"
        '1,1234.5678,1.25,"matmul",40.0,\n'
        ',2000.001,,"relu",,7\n'
    )


def test_tvm_writes_six_significant_digits() -> None:
    assert OPERATORS.csv(compat="tvm") == (
        "Count,Duration (us),IPC,Name,Percent,cycles\n"
        '1,1234.57,1.25,"matmul",40,\n'
        ',2000,,"relu",,7\n'
    )


@pytest.mark.parametrize(
    ("microseconds", "ours", "tvms"),
    [
        (0.1 + 0.2, "0.30000000000000004", "0.3"),
        (1e-5, "1e-05", "1e-05"),
        (1e6, "1000000.0", "1e+06"),
        (999999.0, "999999.0", "999999"),
        (-0.0, "-0.0", "-0"),
        (math.inf, "inf", "inf"),
        (-math.inf, "-inf", "-inf"),
        (math.nan, "nan", "nan"),
    ],
)
def test_special_floats(microseconds: float, ours: str, tvms: str) -> None:
    one = report({"t": Duration(microseconds)})
    assert one.csv() == f"t\n{ours}\n"
    assert one.csv(compat="tvm") == f"t\n{tvms}\n"


def test_quotes_are_doubled() -> None:
    assert report({"Name": 'a"b,c'}).csv() == 'Name\n"a""b,c"\n'


def test_tvm_does_not_escape_quotes() -> None:
    assert report({"Name": 'a"b,c'}).csv(compat="tvm") == 'Name\n"a"b,c"\n'


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t", "\r", "\n"])
def test_text_that_a_spreadsheet_would_run_is_marked_as_text(begin: str) -> None:
    one = report({f"{begin}A1": begin, "Name": f'{begin}HYPERLINK("x")', "t": Duration(-1.5)})
    header, line = read_back(one.csv())
    assert sorted(header) == sorted([f"'{begin}A1", "Name", "t"])
    cells = dict(zip(header, line, strict=True))
    assert cells == {f"'{begin}A1": f"'{begin}", "Name": f'\'{begin}HYPERLINK("x")', "t": "-1.5"}
    assert f'"\'{begin}HYPERLINK(""x"")"' in one.csv()


def test_text_with_such_a_character_elsewhere_is_as_it_is() -> None:
    assert report({"Name": "a=1", "x-y": " -O2"}).csv() == 'Name,x-y\n"a=1"," -O2"\n'


def test_tvm_marks_nothing() -> None:
    assert report({"=A1": "=1+1"}).csv(compat="tvm") == '=A1\n"=1+1"\n'


def test_header_names_are_quoted_only_where_csv_needs_it() -> None:
    call: dict[str, Metric] = {"a,b": Count(1), 'c"d': Count(2), "e f": Count(3), "": Count(4)}
    assert report(call).csv() == '"","a,b","c""d",e f\n4,1,2,3\n'
    assert report(call).csv(compat="tvm") == ',a,b,c"d,e f\n4,1,2,3\n'


def test_rows_are_neither_sorted_nor_aggregated() -> None:
    assert (
        report({"t": Duration(1.0)}, {"t": Duration(3.0)}, {"t": Duration(1.0)}).csv()
        == "t\n1.0\n3.0\n1.0\n"
    )


@pytest.mark.parametrize("compat", [None, "tvm"])
def test_an_empty_report_is_one_empty_line(compat: None) -> None:
    assert report().csv(compat=compat) == "\n"


def test_a_row_with_nothing_in_the_only_column_is_still_a_row() -> None:
    text = report({"n": Count(1)}, {}, {"n": Count(2)}).csv()
    assert text == 'n\n1\n""\n2\n'
    assert read_back(text) == [["n"], ["1"], [""], ["2"]]


def test_the_header_is_in_byte_order() -> None:
    call: dict[str, Metric] = {name: Count(0) for name in ("ä", "z", "A", "\U0001f600", "\uffee")}
    assert report(call).csv().splitlines()[0] == "A,z,ä,\uffee,\U0001f600"


def test_an_unknown_compat_mode_is_refused_by_name() -> None:
    with pytest.raises(UnknownNameError, match=r"no compat mode 'excel'\. Known: tvm"):
        report().csv(compat="excel")  # type: ignore[arg-type]


def marked(text: str) -> str:
    """Return text as a spreadsheet is to get it."""
    return f"'{text}" if text[:1] in {*"=+-@\t\r\n"} else text


names = st.text() | st.sampled_from(["Name", 'a"b', "a,b", "a\nb", "\r", "\u202e", " x "])
metrics = st.one_of(
    st.builds(Count, st.integers()),
    st.builds(Duration, st.floats()),
    st.builds(Percent, st.floats()),
    st.builds(Ratio, st.floats()),
    names,
)


@settings(deadline=None)
@given(st.lists(st.dictionaries(names, metrics, min_size=1, max_size=5), max_size=5))
def test_the_csv_module_reads_back_what_was_written(calls: list[dict[str, Metric]]) -> None:
    written = read_back(report(*calls).csv())
    header = written[0] if written else []
    assert header == [marked(name) for name in sorted({name for call in calls for name in call})]
    assert len(written) == 1 + len(calls) if calls else written == [[]]
    for call, cells in zip(calls, written[1:], strict=True):
        for name, cell in zip(sorted({*chain(*calls)}), cells, strict=True):
            match call.get(name):
                case None:
                    assert cell == ""
                case str() as text:
                    assert cell == marked(text)
                case Count(value):
                    assert int(cell) == value
                case Duration(number) | Percent(number) | Ratio(number):
                    assert float(cell) == number or (math.isnan(float(cell)) and math.isnan(number))


def test_a_file_name_that_is_no_utf8_is_escaped() -> None:
    text = report({"flags": "-I/a\udce9"}).csv()
    assert text == 'flags\n"\'-I/a\\udce9"\n'
