# SPDX-License-Identifier: Apache-2.0
"""The rows of a Report as comma-separated values, and as a DataFrame of pandas, if there is one.

CSV is that of RFC 4180, with LF at the ends of lines. The header is the union of all column names
in byte order. Strings are always quoted, numbers never. A missing value is empty. Floats have as
many digits as are needed to read back the same number. Units are in the column names.

Spreadsheets run text that begins with one of ``=+-@`` as a formula, even if it is quoted. Such text
gets an apostrophe in front, which marks it as text.
"""

from __future__ import annotations

from array import array
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, Final

from boardprof.base.errors import MissingExtraError, UnknownNameError
from boardprof.base.metrics import Count, Duration, Metric, Percent, Ratio, digits, raw_of
from boardprof.results.report.calls import Column, Row
from boardprof.results.report.report import Report
from boardprof.results.report_json import Compat

if TYPE_CHECKING:
    import pandas

_NEEDS_QUOTES: Final = frozenset(',"\r\n')
_BEGINS_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n")
"""Spreadsheets skip some blanks at the beginning (OWASP, "CSV Injection")."""


def render_csv(report: Report, *, compat: Compat = None) -> str:
    """Return ``report.calls`` as CSV.

    Args:
        report: only its ``calls`` are written, neither sorted nor aggregated.
        compat: "tvm" writes floats with six significant digits, and strings and the header without
            escaping, byte for byte as TVM does. Formulas are not marked either.

    Raises:
        UnknownNameError: there is no such compat mode.
    """
    if compat not in (None, "tvm"):
        raise UnknownNameError("compat mode", compat, ["tvm"])
    cell = _cell if compat is None else _tvm_cell
    names = sorted(report.calls.names)
    header = names if compat else [_quoted_if_needed(name) for name in names]
    cells = (map(cell, report.calls.column(name).filled(None)) for name in names)
    # Readers would skip a line that has only one empty field.
    blank = '""' if names and compat is None else ""
    rows = zip(*cells, strict=True) if names else repeat((), len(report.calls))
    text = "".join(f"{','.join(line) or blank}\n" for line in chain([header], rows))
    # Bytes of a file name that are not UTF-8 are surrogates in a Report. Files cannot contain them.
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _cell(metric: Metric | None) -> str:
    if metric is None:
        return ""
    raw = raw_of(metric)
    if isinstance(raw, str):
        return _quoted(raw)
    return repr(raw) if isinstance(raw, float) else digits(raw)


def _tvm_cell(metric: Metric | None) -> str:
    if metric is None:
        return ""
    raw = raw_of(metric)
    if isinstance(raw, str):
        return f'"{raw}"'
    return f"{raw:g}" if isinstance(raw, float) else digits(raw)


def _quoted(text: str) -> str:
    mark = "'" if text.startswith(_BEGINS_FORMULA) else ""
    return '"' + mark + text.replace('"', '""') + '"'


def _quoted_if_needed(name: str) -> str:
    is_plain = name and not _NEEDS_QUOTES.intersection(name)
    return name if is_plain and not name.startswith(_BEGINS_FORMULA) else _quoted(name)


# -- pandas --------------------------------------------------------------------------------------


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
