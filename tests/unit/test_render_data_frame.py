# SPDX-License-Identifier: Apache-2.0
"""A Report as a DataFrame: exact, with missing values missing; without pandas, a clear error."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest

from boardprof.base.errors import UsageError
from boardprof.base.metrics import Count, Duration, Metric, Percent, Ratio
from boardprof.results.report.report import Report
from boardprof.show.rows import to_pandas

ROWS: list[dict[str, Metric]] = [
    {"Name": "fir", "cycles": Count(40), "Duration (us)": Duration(1.5), "IPC": Ratio(0.75)},
    {"Name": "crc", "Duration (us)": Duration(math.inf), "Percent": Percent(12.5)},
]


def test_a_row_is_a_sample_and_columns_have_their_names_and_kinds() -> None:
    frame = to_pandas(Report(ROWS, {"b": {"cycles": 90}}, {"Repeat": 2, "Host": "Linux"}))
    assert list(frame.columns) == ["Name", "cycles", "Duration (us)", "IPC", "Percent"]
    assert {name: str(kind) for name, kind in frame.dtypes[1:].items()} == {
        "cycles": "Int64",
        "Duration (us)": "float64",
        "IPC": "float64",
        "Percent": "float64",
    }
    assert list(frame["Name"]) == ["fir", "crc"]
    assert list(frame["Duration (us)"]) == [1.5, math.inf]
    assert frame.attrs["kinds"]["cycles"] == "Count"
    assert frame.attrs["configuration"] == {"Repeat": 2, "Host": "Linux"}
    assert frame.attrs["device_metrics"] == {"b": {"cycles": 90}}


def test_what_a_row_does_not_have_is_missing_and_not_zero() -> None:
    import pandas  # takes longer than all other imports of these tests

    frame = to_pandas(Report(ROWS, {}, {}))
    assert frame["cycles"][0] == 40
    assert frame["cycles"][1] is pandas.NA
    assert math.isnan(frame["IPC"][1])
    assert frame["cycles"].sum() == 40


@pytest.mark.parametrize("big", [(1 << 63) - 1, -(1 << 63), 1 << 63, 1 << 80])
def test_counts_are_exact_at_any_size(big: int) -> None:
    assert to_pandas(Report([{"n": Count(big)}, {"n": Count(1)}], {}, {}))["n"][0] == big


def test_a_column_of_mixed_kinds_keeps_plain_values() -> None:
    frame = to_pandas(Report([{"x": Count(3)}, {"x": "three"}, {"x": Duration(0.5)}], {}, {}))
    assert list(frame["x"]) == [3, "three", 0.5]
    assert frame.attrs["kinds"] == {"x": "Count | str | Duration"}


def test_an_empty_report_is_an_empty_frame() -> None:
    assert to_pandas(Report([], {}, {})).shape == (0, 0)
    assert to_pandas(Report([{}, {}], {}, {})).shape == (2, 0)


def test_without_pandas_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="needs pandas, which is not installed") as refused:
        to_pandas(Report(ROWS, {}, {}))
    assert "pip install 'boardprof[pandas]'" in str(refused.value)
    assert refused.value.exit_code == 7


def test_importing_the_module_does_not_import_pandas() -> None:
    program = "import sys, boardprof.show.rows; print('pandas' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "False\n"
