# SPDX-License-Identifier: Apache-2.0
"""A Report as a text table: TVM's layout byte for byte, or ours, which adds to it.

Common to both: rows of equal name (hash, if they have one), argument shapes and device are merged,
the largest come first, then a ``Sum`` row, one ``Total`` row a device, and the
configuration. Six columns always come first, others follow in byte order.

Ours differs in this: lines have no trailing blanks, columns without a value are
left out, beside each sum stands the median per call, several devices have a sum
each, rows without a duration are sorted by instructions or ticks, order and
Percent go by medians, unprintable text is escaped, and what cannot be merged is
named below.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final, TypeAlias

from boardprof.errors import UnknownNameError
from boardprof.metrics import Count, Duration, Metric
from boardprof.render.aggregate import (
    LEVELS,
    SORT_COLUMNS,
    merge_calls,
    per_call_medians,
    sort_order,
    sum_rows,
)
from boardprof.render.cells import (
    cell,
    display_width,
    escaped,
    per_call_cell,
    tvm_cell,
    tvm_width,
)
from boardprof.render.labels import labelled_groups
from boardprof.render.mixed import mixed_columns, mixed_note
from boardprof.render.typical import Typical
from boardprof.report.calls import Calls
from boardprof.report.groups import Groups, grouped
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
        aggregate: merge rows of equal name, argument shapes and device; in our layout those of
            other labels are apart.
        col_sums: add the ``Sum`` row.
        compat: None for our layout, "tvm" for TVM's.
        separator: between thousands.

    Raises:
        UnknownNameError: there is no such compat mode.
    """
    if compat not in (None, "tvm"):
        raise UnknownNameError("compat mode", compat, ["tvm"])
    calls = report.calls
    groups = _groups(calls, compat) if aggregate else grouped(range(len(calls)))
    merged = merge_calls(calls, groups, compat)
    order: Sequence[int] = range(len(merged))
    if compat is None:
        typical = Typical(calls, groups, merged)
        merged = typical.merged
        order = typical.order() if sort else order
    elif sort:
        order = sort_order(merged, SORT_COLUMNS[0]) or order
    mixed = mixed_columns(calls, merged) if compat is None else {}
    tail = _sum_rows(merged, order, compat, mixed) if col_sums else []
    tail += _total_rows(report, with_device=compat is None)
    names = headers_of([merged.names, *tail])
    if compat == "tvm":
        columns = [_column(name, merged, order, tail, separator, tvm_cell) for name in names]
        return _tvm_text(report.configuration, columns, separator)
    columns = []
    for name in names:
        columns.append(_column(name, merged, order, tail, separator, _our_cell(name)))
        if name != "Count" and name not in LEVELS and f"{name}/call" not in names:
            per_call = _per_call_cells(name, calls, groups, merged, separator)
            columns.append([f"{name}/call", *(per_call[i] for i in order), *("" for _ in tail)])
    return _our_text(
        columns, mixed_note(mixed), configuration_lines(report.configuration, separator)
    )


def _groups(calls: Calls, compat: Compat) -> Groups[Any]:
    return labelled_groups(calls) if compat is None else calls.groups(by_flags=False)


def _our_cell(column: str) -> Callable[[Metric, str], str]:
    return lambda metric, separator: cell(metric, column, separator)


def _column(
    name: str,
    merged: Calls,
    order: Sequence[int],
    tail: Sequence[Row],
    separator: str,
    text: Callable[[Metric, str], str],
) -> _Column:
    metrics = merged.column(name).filled(None)
    cells = ["" if metric is None else text(metric, separator) for metric in metrics]
    below = (text(row[name], separator) if name in row else "" for row in tail)
    return [name, *(cells[i] for i in order), *below]


def _tvm_text(configuration: Row, columns: Sequence[_Column], separator: str) -> str:
    lines = _lines(columns, tvm_width)
    lines += ["", "Configuration", "-------------"]
    lines += [f"{key}: {tvm_cell(value, separator)}" for key, value in configuration.items()]
    return "".join(f"{line}\n" for line in lines)


def _our_text(
    columns: Sequence[_Column], notes: Sequence[str], configuration: Sequence[str]
) -> str:
    shown = [c for c in columns if c[0] in _KEPT_WHEN_EMPTY or any(c[1:])]
    lines = _lines([[escaped(c[0]), *c[1:]] for c in shown], display_width)
    lines += ["", *notes] if notes else []
    lines += configuration
    return "".join(f"{line.rstrip(' ')}\n" for line in lines)


def configuration_lines(configuration: Row, separator: str) -> list[str]:
    """Return what stands below our tables, from the blank line on."""
    lines = ["", "Configuration", "-------------"]
    return lines + [f"{escaped(k)}: {cell(v, k, separator)}" for k, v in configuration.items()]


def _per_call_cells(
    name: str, calls: Calls, groups: Groups[Any], merged: Calls, separator: str
) -> list[str]:
    """Return the per-call cells of a column; blank where it is neither Count nor Duration."""
    column = merged.column(name)
    if column.kind not in (Count, Duration, None):
        return [""] * len(merged)
    medians = per_call_medians(calls, groups, name)
    return [
        per_call_cell(median, separator) if isinstance(metric, (Count, Duration)) else ""
        for median, metric in zip(medians, column.filled(None), strict=True)
    ]


def _sum_rows(
    merged: Calls, order: Sequence[int], compat: Compat, mixed: Collection[str]
) -> list[Row]:
    """Return the line and the sums; of several devices, a sum for each in our layout.

    TVM adds up all devices. Ticks of different clocks, or instructions of different processors,
    have no sum.
    """
    rule: Row = {"Name": "----------"}
    by_device = merged.group_by("Device")
    if compat is None and len(by_device) > 1:
        sums = zip(sum_rows(merged, by_device), by_device.keys, strict=True)
        own = (_without(mixed, row) | {"Device": device} for row, (device,) in sums)
        return [rule, *({**row, "Name": "Sum"} for row in own)]
    all_of_them = Groups(("",), array("q", order), (0, len(merged)))
    [total] = sum_rows(merged, all_of_them, compat)
    return [rule, {**_without(mixed, total), "Name": "Sum"}]


def _without(columns: Collection[str], row: Row) -> Row:
    """Return a sum without those of which it would be of a part."""
    return {name: metric for name, metric in row.items() if name not in columns}


def _total_rows(report: Report, *, with_device: bool) -> list[Row]:
    """Return one row a device; TVM puts the device into the row itself, others may not."""
    totals: list[Row] = []
    for device, metrics in report.device_metrics.items():
        default: dict[str, Metric] = {"Device": device} if with_device else {}
        totals.append({**default, **metrics, "Name": "Total"})
    return totals


def headers_of(rows: Iterable[Iterable[str]]) -> list[str]:
    """Return the six fixed columns, then all others of the rows in byte order."""
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
