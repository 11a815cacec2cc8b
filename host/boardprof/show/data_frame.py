# SPDX-License-Identifier: Apache-2.0
"""A Report as a pandas DataFrame; pandas is optional and imported only when needed."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from boardprof.base.errors import UsageError
from boardprof.base.metrics import Count, Duration, Percent, Ratio, raw_of
from boardprof.results.report.calls import Row
from boardprof.results.report.columns import Column
from boardprof.results.report.report import Report

if TYPE_CHECKING:
    import pandas


class MissingExtraError(UsageError):
    """The Python package ``package`` is not installed; the extra ``extra`` installs it."""

    exit_code = 7  # like a missing tool

    def __init__(self, what: str, package: str, extra: str) -> None:
        """Say what needs the package, and how to install it."""
        hint = f"pip install 'boardprof[{extra}]', or pip install {package}"
        super().__init__(f"{what} needs {package}, which is not installed.", hint=hint)
        self.package = package
        self.extra = extra


def to_pandas(report: Report) -> pandas.DataFrame:
    """Return the Report's rows as a DataFrame, one row for each sample in run order.

    Columns have the Report's names. Counts are ``Int64``, or Python ints if one is larger.
    Durations (microseconds), Percents and Ratios are ``float64``. Texts have pandas' own type.
    Missing values are ``<NA>`` or NaN. A column with several kinds of metric has the plain values
    as objects. ``attrs`` has ``kinds`` (column -> name of the metric's class), ``configuration``
    and ``device_metrics`` as plain values.

    Raises:
        MissingExtraError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError:
        raise MissingExtraError("A DataFrame", "pandas", "pandas") from None
    calls = report.calls
    columns = {name: calls.column(name) for name in calls.names}
    frame = pandas.DataFrame(
        {name: _array(pandas, column) for name, column in columns.items()},
        index=pandas.RangeIndex(len(calls)),
    )
    frame.attrs["kinds"] = {name: _kinds(column) for name, column in columns.items()}
    frame.attrs["configuration"] = _plain_row(report.configuration)
    totals = {device: _plain_row(row) for device, row in report.device_metrics.items()}
    frame.attrs["device_metrics"] = totals
    return frame


def _array(pandas: Any, column: Column) -> Any:
    values = column.given if column.kind is not None else [raw_of(each) for each in column.given]
    if column.kind is Count and isinstance(values, array):  # all fit into 64 bits
        kind = "Int64"
    elif column.kind in (Duration, Percent, Ratio):
        kind = "float64"
    else:
        kind = "object"
    given = pandas.Series(list(values), index=column.rows, dtype=kind)
    if column.rows is not None:
        given = given.reindex(range(column.length))
    return given.array


def _kinds(column: Column) -> str:
    if column.kind is not None:
        return column.kind.__name__
    return " | ".join(dict.fromkeys(type(metric).__name__ for metric in column.given))


def _plain_row(row: Row) -> dict[str, str | int | float]:
    return {name: raw_of(metric) for name, metric in row.items()}
