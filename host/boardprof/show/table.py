# SPDX-License-Identifier: Apache-2.0
"""A Report as a text table, in TVM's layout byte for byte or in ours, and its statistics as one.

In both layouts, rows of equal name (hash, if they have one), argument shapes and device are merged,
and the largest come first. In ours, each device has its own sum, and order and Percent are computed
from medians per call.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import Any, Final, TypeAlias

from boardprof.base.errors import UnknownNameError, UsageError
from boardprof.base.metrics import Duration, Metric
from boardprof.base.printable import encodable
from boardprof.results.report.calls import (
    LABEL,
    LEVELS,
    SHARES,
    Calls,
    Groups,
    LabelledKey,
    Row,
    grouped,
    one_of,
)
from boardprof.results.report.profile import MODELLED
from boardprof.results.report.report import Report
from boardprof.results.report_json import Compat, tvm_totals
from boardprof.results.stats.groups import GroupSummary, left_out, summaries
from boardprof.results.stats.summary import PERCENTILES, Summary
from boardprof.show.aggregate import (
    SORT_COLUMNS,
    CallGroups,
    PerCall,
    merge_calls,
    sort_order,
    sum_rows,
)
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
    value_cell,
)
from boardprof.show.layout import Column, Page, Table, plain, record_table, shared

_BY_BOARD: Final = "A table by board merges all samples, and has no TVM layout."
_RULE: Final = "----------"
_PER_CALL: Final = (int, Decimal, Duration)

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
    """Return ``report`` as a text table; see ``Report.table``."""
    if compat is None:
        return plain(report_page(report, sort, aggregate, col_sums, separator, by_board=by_board))
    if compat != "tvm":
        raise UnknownNameError("compat mode", compat, ["tvm"])
    if by_board:
        raise UsageError(_BY_BOARD)
    calls = report.calls
    groups = calls.tvm_groups() if aggregate else grouped(range(len(calls)))
    merged = merge_calls(calls, groups, compat)
    order: Sequence[int] = range(len(merged))
    if sort:
        order = sort_order(merged, SORT_COLUMNS[0]) or order
    tail: list[Row] = [{"Name": _RULE}, *_sum_rows(merged, order, compat)] if col_sums else []
    tail += [{**row, "Name": "Total"} for row in tvm_totals(report).values()]
    names = headers_of([merged.names, *tail])
    columns = [
        [name, *_cells(name, merged, order, tail, lambda metric: tvm_cell(metric, separator))]
        for name in names
    ]
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
    totals += [
        {"Device": device, **metrics, "Name": "Total"}
        for device, metrics in report.device_metrics.items()
    ]
    names = headers_of([merged.names, *totals])
    columns: list[Column] = []
    one = one_of(row.get(LABEL) for row in merged)
    for name in names:
        text = partial(cell, column=name, separator=separator)
        columns.append(Column(name, _cells(name, merged, order, totals, text)))
        if name != "Count" and name not in LEVELS and f"{name}/{one}" not in names:
            values = grouping.typical(name)
            per_call = [
                per_call_cell(value, separator) if isinstance(value, _PER_CALL) else ""
                for value in map(values.__getitem__, order)
            ]
            columns.append(Column(f"{name}/{one}", [*per_call, *("" for _ in totals)]))
    shown = [each for each in columns if each.header in _KEPT_WHEN_EMPTY or any(each.cells)]
    notes = mixed_note(mixed)
    return [
        Table(shown, totals=len(totals) if col_sums else 0),
        *(["", *notes] if notes else []),
        *configuration_lines(report.configuration, separator),
    ]


def _cells(
    name: str,
    merged: Calls,
    order: Sequence[int],
    tail: Sequence[Row],
    text: Callable[[Metric], str],
) -> list[str]:
    """Return a column's cells: of the merged rows in order, then of further rows."""
    metrics = merged.column(name).filled(None)
    cells = ["" if metric is None else text(metric) for metric in metrics]
    below = (text(row[name]) if name in row else "" for row in tail)
    return [*(cells[i] for i in order), *below]


def _tvm_text(configuration: Row, columns: Sequence[list[str]], separator: str) -> str:
    """Align columns by bytes, the first left and the others right, with two blanks after each."""
    aligned: list[list[str]] = []
    for number, cells in enumerate(columns):
        column = [*map(encodable, cells)]
        widths = list(map(tvm_width, column))
        pads = [" " * (max(widths) - width) for width in widths]
        pairs = zip(column, pads, strict=True)
        aligned.append([pad + text if number else text + pad for text, pad in pairs])
    lines = ["  ".join(line) + "  " for line in zip(*aligned, strict=True)]
    lines += ["", "Configuration", "-------------"]
    lines += [f"{key}: {tvm_cell(value, separator)}" for key, value in configuration.items()]
    return encodable("".join(f"{line}\n" for line in lines))


def _sum_rows(
    merged: Calls, order: Sequence[int], compat: Compat, mixed: Collection[str] = ()
) -> list[Row]:
    """Return the sum of all rows, or in our layout a sum for each device."""
    # TVM adds up all devices, but the sum of ticks of different clocks, or of instructions of
    # different processors, has no meaning.
    by_device = merged.group_by("Device")
    if compat is None and len(by_device) > 1:
        sums = zip(sum_rows(merged, by_device), by_device.keys, strict=True)
        return [{**_without(mixed, row), "Device": d, "Name": "Sum"} for row, (d,) in sums]
    all_of_them = Groups(("",), array("q", order), (0, len(merged)))
    [total] = sum_rows(merged, all_of_them, compat)
    return [{**_without(mixed, total), "Name": "Sum"}]


def _without(columns: Collection[str], row: Row) -> Row:
    return {name: metric for name, metric in row.items() if name not in columns}


_LEFT: Final = ("Name", "Label", "Flags", "Argument Shapes", "Device", "Metric")
_OPTIONAL: Final = ("Label", "Flags", "Argument Shapes", "Device", "Cold", "Outliers")
_EXACT: Final = "exact"
_MODELLED: Final = "modelled"
_SHOWN_OUTLIERS: Final = 8

_NOTES: Final = {
    "CV": "CV: standard deviation as a share of the mean.",
    _EXACT: (
        "exact: no noise. The board is deterministic, or the value was found once for all samples."
    ),
    _MODELLED: "modelled: computed from what ran; the configuration says for which core.",
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
    notes = [
        f"Left out: {lost.metric}{f' of {lost.key.title}' if lost.key else ''}: {lost.why}."
        for lost in left_out(report)
    ]
    if not rows:
        return ["There are no samples.", *notes]
    spare = shared(rows, ("Argument Shapes", "Device"))
    table = record_table(rows[0], rows, _LEFT, optional=_OPTIONAL, spare=spare)
    headers = [column.header for column in table.columns]
    told = {*headers, *(row["CV"] for row in rows)}
    shown = [text for name, text in _NOTES.items() if name in told]
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
        "CV": _MODELLED if group.metric in MODELLED else _cv(summary),
        **{f"p{share}": text(summary.percentiles[share]) for share in PERCENTILES},
        "Cold": text(summary.first),
        "Outliers": _outliers(summary),
    }


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


# -- columns for each board -------------------------------------------------------------------

_LEFT_OUT: Final = frozenset(
    # The columns that name rows and boards, and those that do not describe a single call.
    ["Name", "Hash", LABEL, "Argument Shapes", "Flags", "Device", "Count", *SHARES]
)
_RELATIVE_LEGEND: Final = (
    "Relative: time as a multiple of the function's first row; without time, instructions or ticks."
)

_Number: TypeAlias = int | float | Decimal
_Function: TypeAlias = tuple[Metric, ...]
"""Name, argument shapes and label; with a hash if it is needed to tell functions apart."""


@dataclass
class _Line:
    """A row of the table: a function and a setting, with the group of its samples by board."""

    key: LabelledKey
    groups: dict[Metric, int] = field(default_factory=dict)


class _Samples:
    """The samples of a Report in groups, each of one row of the table and one board."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._groups = calls.labelled_groups()
        self.grouping = CallGroups(calls, self._groups)
        places = Counter(key._replace(hash="") for key in self._groups.keys)
        self._alike = {_named(key) for key, hashes in places.items() if hashes > 1}

    def function(self, key: LabelledKey) -> _Function:
        named = _named(key)
        return (*named, key.hash) if named in self._alike else named

    def functions(self) -> dict[_Function, list[_Line]]:
        """Return the rows of each function, in the order of their first samples."""
        functions: dict[_Function, dict[Metric, _Line]] = {}
        for number, key in enumerate(self._groups.keys):
            lines = functions.setdefault(self.function(key), {})
            lines.setdefault(key.flags, _Line(key)).groups[key.device] = number
        return {function: list(lines.values()) for function, lines in functions.items()}

    def order(self, functions: Sequence[_Function], device: Metric) -> Sequence[int]:
        """Return the indices of functions, the largest on a board first."""
        groups = self._calls.labelled_groups(by_flags=False)
        there = [number for number, key in enumerate(groups.keys) if key.device == device]
        places: dict[_Function, int] = {}
        for number in CallGroups(self._calls, groups).order(there):
            places.setdefault(self.function(groups.keys[number]), len(places))
        last = len(places)
        return sorted(range(len(functions)), key=lambda n: places.get(functions[n], last))


def _named(key: LabelledKey) -> _Function:
    return key.name, key.shapes, key.label


def boards_page(report: Report, *, sort: bool = True, separator: str = ",") -> Page:
    """Return ``report`` as a table with a group of columns for each board, and notes."""
    devices = list(dict.fromkeys(report.calls.column("Device").filled("")))
    samples = _Samples(report.calls)
    by_function = samples.functions()
    functions = list(by_function.values())
    if sort and devices:
        functions = [functions[i] for i in samples.order(list(by_function), devices[0])]
    lines = [line for function in functions for line in function]
    swept = any(line.key.flags for line in lines)
    keys, arguments = _keys(lines, swept)
    groups = (_group(device, functions, samples.grouping, swept, separator) for device in devices)
    columns = [column for group in groups for column in group]
    one = one_of(report.calls.column(LABEL).filled(""))
    legend = [
        f"Each number is the median per {one}; a cell is empty where the board has no such metric.",
        *([_RELATIVE_LEGEND] if swept else []),
        *arguments,
        *mixed_note(mixed_columns(report.calls, samples.grouping.merged)),
    ]
    return [
        Table([*keys, *columns]),
        *(["", *legend] if lines else []),
        *configuration_lines(report.configuration, separator),
    ]


def _keys(lines: Sequence[_Line], swept: bool) -> tuple[list[Column], list[str]]:
    """Return the columns that name rows, and a legend with the arguments if all rows share them."""

    def column(header: str, values: Iterable[Metric]) -> Column:
        return Column(header, [cell(value, header, "") for value in values], is_text=True)

    keys = [line.key for line in lines]
    columns = [column("Name", (key.name for key in keys))]
    if any(key.label for key in keys):
        columns.append(column(LABEL, (key.label for key in keys)))
    if swept:
        columns.append(column("Flags", (key.flags for key in keys)))
    arguments = column("Argument Shapes", (key.shapes for key in keys))
    shapes = arguments.cells
    if len(set(shapes)) > 1:
        return [*columns, arguments], []
    return columns, [f"Arguments: {shapes[0]}"] if any(shapes) else []


def _group(
    device: Metric,
    functions: Sequence[Sequence[_Line]],
    grouping: CallGroups,
    swept: bool,
    separator: str,
) -> list[Column]:
    """Return the columns of a board that have a value; if none has, one column with its name."""
    groups = [[line.groups.get(device) for line in function] for function in functions]
    every = [group for function in groups for group in function]
    known = {name for group in every if group is not None for name in grouping.merged[group]}
    cells: dict[str, list[str]] = {}
    for name in headers_of([known]):
        if name not in _LEFT_OUT:
            typical = grouping.typical(name)
            values = [None if group is None else typical[group] for group in every]
            cells[name] = [value_cell(value, name, separator) for value in values]
    if swept:
        cells["Relative"] = _relative(groups, grouping, known)
    filled = {name: texts for name, texts in cells.items() if any(texts)} or {"": [""] * len(every)}
    return [Column(name, texts, group=str(device)) for name, texts in filled.items()]


def _relative(
    groups: Sequence[Sequence[int | None]], grouping: CallGroups, known: Collection[str]
) -> list[str]:
    """Return each row's size as a multiple of the first row of its function on the board."""
    column = next((name for name in SORT_COLUMNS if name in known), None)
    medians = [] if column is None else [_number(each) for each in grouping.medians(column)]
    cells: list[str] = []
    for function in groups:
        values = [None if g is None or not medians else medians[g] for g in function]
        first = next((value for value in values if value is not None), 0)
        cells += [_ratio(value, first) for value in values]
    return cells


def _ratio(value: _Number | None, first: _Number) -> str:
    ratio = math.inf if value is None or not first else float(Decimal(value) / Decimal(first))
    return f"{ratio:.2f}" if math.isfinite(ratio) else ""


def _number(median: PerCall) -> _Number | None:
    """Return a median per call; None if it is missing or not finite."""
    number = median.microseconds if isinstance(median, Duration) else median
    return None if isinstance(number, float) and not math.isfinite(number) else number
