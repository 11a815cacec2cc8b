# SPDX-License-Identifier: Apache-2.0
"""A Report as a text table, in TVM's layout byte for byte or in ours, and its statistics as one.

In both layouts, rows of equal name (hash, if they have one), argument shapes and device are merged,
and the largest come first. In ours, each device has its own sum, and order and Percent are computed
from medians per call.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Sequence
from fractions import Fraction
from typing import Any, Final, TypeAlias

from boardprof.base.errors import UnknownNameError, UsageError
from boardprof.base.metrics import Duration, Metric
from boardprof.results.report.calls import LABEL, LEVELS, Calls, Groups, Row, grouped, one_of
from boardprof.results.report.report import Report
from boardprof.results.report_json import Compat
from boardprof.results.stats.groups import GroupSummary, LeftOut, left_out, summaries
from boardprof.results.stats.summary import PERCENTILES, Summary
from boardprof.show.aggregate import SORT_COLUMNS, CallGroups, merge_calls, sort_order, sum_rows
from boardprof.show.boards_table import boards_page
from boardprof.show.cells import (
    FIRST_COLUMNS,
    cell,
    configuration_lines,
    headers_of,
    mixed_columns,
    mixed_note,
    number_text,
    per_call_cell,
    tvm_cell,
    tvm_width,
)
from boardprof.show.layout import Column, Page, Table, plain, record_table

_Cells: TypeAlias = list[str]  # the header, then a cell for each row
_Text: TypeAlias = Callable[[Metric, str], str]
_BY_BOARD: Final = "A table by board merges all samples, and has no TVM layout."
_RULE: Final = "----------"
_PER_CALL: Final = (int, Fraction, Duration)

_KEPT_WHEN_EMPTY: Final = frozenset(FIRST_COLUMNS) - {"Argument Shapes"}


def render_table(
    report: Report,
    *,
    sort: bool = True,
    aggregate: bool = True,
    col_sums: bool = True,
    compat: Compat = None,
    separator: str = ",",
    by_board: bool = False,
) -> str:
    """Return ``report`` as a text table; see ``Report.table``.

    Args:
        report: what to print.
        sort: largest first; otherwise in the order of the first sample.
        aggregate: merge rows of equal name, argument shapes and device; in our layout, also of
            equal label and flags.
        col_sums: add the ``Sum`` row.
        compat: None for our layout, "tvm" for TVM's.
        separator: between thousands.
        by_board: a group of columns for each board.

    Raises:
        UnknownNameError: there is no such compat mode.
        UsageError: ``by_board`` of single samples, or in TVM's layout.
    """
    if compat is None:
        return plain(report_page(report, sort, aggregate, col_sums, separator, by_board=by_board))
    if compat != "tvm":
        raise UnknownNameError("compat mode", compat, ["tvm"])
    if by_board:
        raise UsageError(_BY_BOARD)
    calls = report.calls
    groups = calls.tvm_groups() if aggregate else grouped(range(len(calls)))
    merged = merge_calls(calls, groups, compat)
    in_order = range(len(merged))
    order: Sequence[int] = (sort and sort_order(merged, SORT_COLUMNS[0])) or in_order
    tail: list[Row] = [{"Name": _RULE}, *_sum_rows(merged, order, compat)] if col_sums else []
    tail += _total_rows(report, with_device=False)
    names = headers_of([merged.names, *tail])
    columns = [_cells(name, merged, order, tail, separator, tvm_cell) for name in names]
    return _tvm_text(report.configuration, columns, separator)


def report_page(
    report: Report,
    sort: bool = True,
    aggregate: bool = True,
    col_sums: bool = True,
    separator: str = ",",
    *,
    by_board: bool = False,
) -> Page:
    """Return the table in our layout, notes, and the configuration."""
    if by_board:
        if not aggregate:
            raise UsageError(_BY_BOARD)
        return boards_page(report, sort=sort, separator=separator)
    calls = report.calls
    groups: Groups[Any] = calls.labelled_groups() if aggregate else grouped(range(len(calls)))
    grouping = CallGroups(calls, groups)
    merged = grouping.merged
    order = grouping.order() if sort else range(len(merged))
    mixed = mixed_columns(calls, merged)
    totals = _sum_rows(merged, order, None, mixed) if col_sums else []
    totals += _total_rows(report, with_device=True)
    names = headers_of([merged.names, *totals])
    columns: list[_Cells] = []
    one = one_of(row.get(LABEL) for row in merged)
    for name in names:
        columns.append(_cells(name, merged, order, totals, separator, _our_cell(name)))
        if name != "Count" and name not in LEVELS and f"{name}/{one}" not in names:
            values = grouping.typical(name)
            per_call = [
                per_call_cell(value, separator) if isinstance(value, _PER_CALL) else ""
                for value in map(values.__getitem__, order)
            ]
            columns.append([f"{name}/{one}", *per_call, *("" for _ in totals)])
    shown = [Column(c[0], c[1:]) for c in columns if c[0] in _KEPT_WHEN_EMPTY or any(c[1:])]
    notes = mixed_note(mixed)
    return [
        Table(shown, totals=len(totals) if col_sums else 0),
        *(["", *notes] if notes else []),
        *configuration_lines(report.configuration, separator),
    ]


def _our_cell(column: str) -> _Text:
    return lambda metric, separator: cell(metric, column, separator)


def _cells(
    name: str,
    merged: Calls,
    order: Sequence[int],
    tail: Sequence[Row],
    separator: str,
    text: _Text,
) -> _Cells:
    metrics = merged.column(name).filled(None)
    cells = ["" if metric is None else text(metric, separator) for metric in metrics]
    below = (text(row[name], separator) if name in row else "" for row in tail)
    return [name, *(cells[i] for i in order), *below]


def _tvm_text(configuration: Row, columns: Sequence[_Cells], separator: str) -> str:
    """Align columns by bytes, the first left and the others right, with two blanks after each."""
    aligned: list[_Cells] = []
    for number, column in enumerate(columns):
        widths = list(map(tvm_width, column))
        pads = [" " * (max(widths) - width) for width in widths]
        pairs = zip(column, pads, strict=True)
        aligned.append([pad + text if number else text + pad for text, pad in pairs])
    lines = ["  ".join(line) + "  " for line in zip(*aligned, strict=True)]
    lines += ["", "Configuration", "-------------"]
    lines += [f"{key}: {tvm_cell(value, separator)}" for key, value in configuration.items()]
    return "".join(f"{line}\n" for line in lines)


def _sum_rows(
    merged: Calls, order: Sequence[int], compat: Compat, mixed: Collection[str] = ()
) -> list[Row]:
    """Return the sum of all rows, or in our layout a sum for each device."""
    # TVM adds up all devices, but the sum of ticks of different clocks, or of instructions of
    # different processors, has no meaning.
    by_device = merged.group_by("Device")
    if compat is None and len(by_device) > 1:
        sums = zip(sum_rows(merged, by_device), by_device.keys, strict=True)
        own = (_without(mixed, row) | {"Device": device} for row, (device,) in sums)
        return [{**row, "Name": "Sum"} for row in own]
    all_of_them = Groups(("",), array("q", order), (0, len(merged)))
    [total] = sum_rows(merged, all_of_them, compat)
    return [{**_without(mixed, total), "Name": "Sum"}]


def _without(columns: Collection[str], row: Row) -> Row:
    """Return a row without these columns."""
    return {name: metric for name, metric in row.items() if name not in columns}


def _total_rows(report: Report, *, with_device: bool) -> list[Row]:
    """Return a row for each device; TVM's own Reports have the Device in the row already."""
    totals: list[Row] = []
    for device, metrics in report.device_metrics.items():
        default: dict[str, Metric] = {"Device": device} if with_device else {}
        totals.append({**default, **metrics, "Name": "Total"})
    return totals


_LEFT: Final = ("Name", "Label", "Flags", "Argument Shapes", "Device", "Metric")
_OPTIONAL: Final = ("Label", "Flags", "Argument Shapes", "Device", "Cold", "Outliers")
_EXACT: Final = "exact"
_SHOWN_OUTLIERS: Final = 8

_NOTES: Final = {
    "CV": "CV: standard deviation as a share of the mean.",
    _EXACT: (
        "exact: no noise. The board is deterministic, or the value was found once for all samples."
    ),
    "Cold": "Cold: the very first call. The other columns do not include it.",
    "Outliers": "Outliers: samples that stand apart, by their number in the run; the first is #0.",
}


def render_statistics(report: Report) -> str:
    """Return the statistics of a Report's samples as a text table; see ``Report.statistics``."""
    return plain(statistics_page(report))


def statistics_page(report: Report) -> Page:
    """Return the statistics of a Report's samples as a table, and a legend."""
    groups = summaries(report)
    rows = [_statistic_cells(group) for group in groups]
    notes = [_left_out(each) for each in left_out(report)]
    if not rows:
        return ["There are no samples.", *notes]
    table = record_table(rows[0], rows, _LEFT, optional=_OPTIONAL)
    headers = [column.header for column in table.columns]
    has_exact = any(row["CV"] == _EXACT for row in rows)
    shown = [
        text for name, text in _NOTES.items() if name in headers or (name == _EXACT and has_exact)
    ]
    legend = f"Values are per {one_of(group.key.label for group in groups)}."
    return [table, "", legend, *shown, *notes]


def _statistic_cells(group: GroupSummary) -> dict[str, str]:
    """Return a row's cells for all columns, in the table's order."""
    key, summary = group.key, group.summary

    def text(value: float | None) -> str:
        return number_text(value, group.kind)

    return {
        "Name": key.name,
        "Label": key.label,
        "Flags": key.flags,
        "Argument Shapes": key.shapes,
        "Device": key.device,
        "Metric": group.metric,
        "n": f"{summary.n:,}",
        "Min": text(summary.minimum),
        "Median": text(summary.median),
        "Mean": text(summary.mean),
        "Max": text(summary.maximum),
        "Stddev": text(summary.stddev),
        "CV": _cv(summary),
        **{f"p{share}": text(summary.percentiles[share]) for share in PERCENTILES},
        "Cold": text(summary.first),
        "Outliers": _outliers(summary),
    }


def _left_out(lost: LeftOut) -> str:
    of = f" of {lost.key.title}" if lost.key is not None else ""
    return f"Left out: {lost.metric}{of}: {lost.why}."


def _cv(summary: Summary) -> str:
    if summary.is_exact:
        return _EXACT
    if summary.cv is None:
        return ""
    percent = 100 * summary.cv
    return "<0.01 %" if 0 < percent < 0.005 else f"{percent:,.2f} %"


def _outliers(summary: Summary) -> str:
    shown = ", ".join(f"#{i}" for i in summary.outliers[:_SHOWN_OUTLIERS])
    more = len(summary.outliers) - _SHOWN_OUTLIERS
    return f"{shown} and {more:,} more" if more > 0 else shown
