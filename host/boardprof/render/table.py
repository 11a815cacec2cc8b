# SPDX-License-Identifier: Apache-2.0
"""A Report as a text table: TVM's layout byte for byte, or ours, which adds to it.

Common to both: rows of equal name, argument shapes and device are merged, the
largest come first, then a ``Sum`` row, one ``Total`` row a device, and the
configuration. Six columns always come first, others follow in byte order.

Ours differs in this: lines have no trailing blanks, columns without a value are
left out, beside each sum stands the median per call, several devices have a sum
each, rows without a duration are sorted by instructions or ticks, and unprintable
text is escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from boardprof.errors import UnknownNameError
from boardprof.metrics import Count, Duration, Metric
from boardprof.render.aggregate import (
    LEVELS,
    SORT_COLUMNS,
    group_rows,
    largest_first,
    merge_rows,
    per_call_median,
    sum_columns,
)
from boardprof.render.cells import (
    cell,
    display_width,
    escaped,
    per_call_cell,
    tvm_cell,
    tvm_width,
)
from boardprof.report.report import Compat, Report, Row

__all__ = ["FIRST_COLUMNS", "configuration_lines", "headers_of", "render_table"]

_Column: TypeAlias = list[str]  # the header, then one cell a row

FIRST_COLUMNS: Final = ("Name", "Duration (us)", "Percent", "Device", "Count", "Argument Shapes")
"""The columns that always come first, in TVM's order."""

_KEPT_WHEN_EMPTY: Final = frozenset(FIRST_COLUMNS) - {"Argument Shapes"}


def render_table(
    report: Report,
    *,
    sort: bool = True,
    aggregate: bool = True,
    col_sums: bool = True,
    compat: Compat = None,
    separator: str = ",",
) -> str:
    """Return ``report`` as a text table; see ``Report.table``.

    Args:
        report: what to print.
        sort: largest first; otherwise in the order of the first sample.
        aggregate: merge rows of equal name, argument shapes and device.
        col_sums: add the ``Sum`` row.
        compat: None for our layout, "tvm" for TVM's.
        separator: between thousands.

    Raises:
        UnknownNameError: there is no such compat mode.
    """
    if compat not in (None, "tvm"):
        raise UnknownNameError("compat mode", compat, ["tvm"])
    groups = group_rows(report.calls) if aggregate else [[row] for row in report.calls]
    rows = [merge_rows(group) for group in groups] if aggregate else report.calls
    if sort:
        order = largest_first(rows, SORT_COLUMNS if compat is None else SORT_COLUMNS[:1])
        groups, rows = [groups[i] for i in order], [rows[i] for i in order]
    if compat is None:
        tail = _sum_rows(rows, col_sums, by_device=True) + _total_rows(report, with_device=True)
        return _our_text(report.configuration, groups, rows, tail, separator)
    tail = _sum_rows(rows, col_sums, by_device=False) + _total_rows(report, with_device=False)
    return _tvm_text(report.configuration, [*rows, *tail], separator)


def _tvm_text(configuration: Row, rows: Sequence[Row], separator: str) -> str:
    columns = [
        [name, *(tvm_cell(row[name], separator) if name in row else "" for row in rows)]
        for name in headers_of(rows)
    ]
    lines = _lines(columns, tvm_width)
    lines += ["", "Configuration", "-------------"]
    lines += [f"{key}: {tvm_cell(value, separator)}" for key, value in configuration.items()]
    return "".join(f"{line}\n" for line in lines)


def _our_text(
    configuration: Row,
    groups: Sequence[Sequence[Row]],
    rows: Sequence[Row],
    tail: Sequence[Row],
    separator: str,
) -> str:
    everything = [*rows, *tail]
    headers = headers_of(everything)
    columns: list[_Column] = []
    for name in headers:
        cells = [cell(row[name], name, separator) if name in row else "" for row in everything]
        columns.append([name, *cells])
        if name != "Count" and name not in LEVELS and f"{name}/call" not in headers:
            per_call = _per_call_cells(name, groups, rows, separator)
            columns.append([f"{name}/call", *per_call, *("" for _ in tail)])
    shown = [c for c in columns if c[0] in _KEPT_WHEN_EMPTY or any(c[1:])]
    lines = _lines([[escaped(c[0]), *c[1:]] for c in shown], display_width)
    lines += configuration_lines(configuration, separator)
    return "".join(f"{line.rstrip(' ')}\n" for line in lines)


def configuration_lines(configuration: Row, separator: str) -> list[str]:
    """Return what stands below our tables, from the blank line on."""
    lines = ["", "Configuration", "-------------"]
    return lines + [f"{escaped(k)}: {cell(v, k, separator)}" for k, v in configuration.items()]


def _per_call_cells(
    name: str, groups: Sequence[Sequence[Row]], rows: Sequence[Row], separator: str
) -> list[str]:
    """Return the per-call cells of a column; blank where it is neither Count nor Duration."""
    return [
        per_call_cell(per_call_median(group, name), separator)
        if isinstance(row.get(name), (Count, Duration))
        else ""
        for group, row in zip(groups, rows, strict=True)
    ]


def _sum_rows(rows: Sequence[Row], col_sums: bool, *, by_device: bool) -> list[Row]:
    """Return the line and the sums; of several devices, a sum for each where ``by_device``.

    TVM adds up all devices. Ticks of different clocks, or instructions of different processors,
    have no sum.
    """
    if not col_sums:
        return []
    rule: Row = {"Name": "----------"}
    devices = list(dict.fromkeys(row.get("Device", "") for row in rows))
    if not by_device or len(devices) < 2:
        return [rule, {**sum_columns(rows), "Name": "Sum"}]
    parts = [[row for row in rows if row.get("Device", "") == device] for device in devices]
    return [rule] + [
        {**sum_columns(part), "Name": "Sum", "Device": device}
        for part, device in zip(parts, devices, strict=True)
    ]


def _total_rows(report: Report, *, with_device: bool) -> list[Row]:
    """Return one row a device; TVM puts the device into the row itself, others may not."""
    totals: list[Row] = []
    for device, metrics in report.device_metrics.items():
        default: dict[str, Metric] = {"Device": device} if with_device else {}
        totals.append({**default, **metrics, "Name": "Total"})
    return totals


def headers_of(rows: Sequence[Row]) -> list[str]:
    """Return the six fixed columns, then all others in byte order."""
    names = {name for row in rows for name in row}
    return [*FIRST_COLUMNS, *sorted(names.difference(FIRST_COLUMNS))]


def _lines(columns: Sequence[_Column], width: Callable[[str], int]) -> list[str]:
    """Align the columns, the first left and the others right, two blanks after each."""
    aligned: list[list[str]] = []
    for number, column in enumerate(columns):
        widths = [width(text) for text in column]
        widest = max(widths)
        justify = str.ljust if number == 0 else str.rjust
        aligned.append(
            [justify(text, widest - w + len(text)) for text, w in zip(column, widths, strict=True)]
        )
    return ["  ".join(line) + "  " for line in zip(*aligned, strict=True)]
