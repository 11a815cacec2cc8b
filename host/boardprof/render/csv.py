# SPDX-License-Identifier: Apache-2.0
"""The rows of a Report as comma-separated values (RFC 4180, lines end in LF).

The header is the union of all column names in byte order. Strings are always
quoted, numbers never; a missing value is empty. Floats are written with as many
digits as it takes to read back the same number. Units are in the column names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from boardprof.errors import UnknownNameError
from boardprof.metrics import Count, Duration, Metric, Percent, Ratio
from boardprof.report.report import Compat, Report

__all__ = ["render_csv"]

_NEEDS_QUOTES: Final = frozenset(',"\r\n')


def render_csv(report: Report, *, compat: Compat = None) -> str:
    """Return ``report.calls`` as CSV.

    Args:
        report: only its ``calls`` are written; not sorted, not aggregated.
        compat: "tvm" writes floats with six significant digits and strings and
            header without escaping, byte for byte as TVM does.

    Raises:
        UnknownNameError: there is no such compat mode.
    """
    if compat not in (None, "tvm"):
        raise UnknownNameError("compat mode", compat, ["tvm"])
    columns = sorted({name for row in report.calls for name in row})
    cell: Callable[[Metric], str] = _cell if compat is None else _tvm_cell
    lines = [columns if compat else [_quoted_if_needed(name) for name in columns]]
    lines += [[cell(row[c]) if c in row else "" for c in columns] for row in report.calls]
    # A line of one empty field would be read back as no line at all.
    blank = '""' if columns and compat is None else ""
    return "".join(f"{','.join(line) or blank}\n" for line in lines)


def _cell(metric: Metric) -> str:
    return _quoted(metric) if isinstance(metric, str) else repr(_number(metric))


def _tvm_cell(metric: Metric) -> str:
    if isinstance(metric, str):
        return f'"{metric}"'
    number = _number(metric)
    return str(number) if isinstance(number, int) else f"{number:g}"


def _number(metric: Count | Duration | Percent | Ratio) -> int | float:
    match metric:
        case Count():
            return metric.value
        case Duration():
            return metric.microseconds
        case Percent():
            return metric.percent
        case Ratio():
            return metric.ratio


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _quoted_if_needed(name: str) -> str:
    return _quoted(name) if not name or _NEEDS_QUOTES.intersection(name) else name
