# SPDX-License-Identifier: Apache-2.0
"""A Report of several boards, or of several settings of compiler flags, as one text table.

A row a function, or a function's setting; a group of columns a board, under its name. Each number
is the median per call over the samples; what a board does not have stays empty. There are no sums:
what is put side by side here does not add up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from boardprof.metrics import Count, Duration, Metric
from boardprof.render.aggregate import SORT_COLUMNS, largest_first, merge_rows, per_call_median
from boardprof.render.cells import cell, display_width, escaped, per_call_cell
from boardprof.render.table import configuration_lines, headers_of
from boardprof.report.report import Report, Row

__all__ = ["render_boards_table"]

_LEFT_OUT: Final = frozenset(
    # The row's own key; the board's name; what says nothing of one call.
    ("Name", "Hash", "Argument Shapes", "Flags", "Device", "Count", "Percent", "Perturbation (%)")
)
_RELATIVE: Final = "Relative"
_LEGEND: Final = (
    "Each number is the median per call; a cell is empty where the board has no such metric."
)
_RELATIVE_LEGEND: Final = (
    "Relative: time as a multiple of the function's first row; without time, instructions or ticks."
)

_Group: TypeAlias = list[list[str]]  # columns: a header, then one cell a line


@dataclass
class _Line:
    """A line of the table: a function and a setting; its samples by board."""

    name: Metric
    shapes: Metric
    flags: Metric
    samples: dict[str, list[Row]] = field(default_factory=dict)

    def on(self, device: str) -> list[Row]:
        return self.samples.get(device, [])


def render_boards_table(report: Report, *, sort: bool = True, separator: str = ",") -> str:
    """Return ``report`` as a table with a group of columns for each board.

    Args:
        report: what to print.
        sort: the function that is largest on the first board comes first; otherwise, and among a
            function's settings always, the order is that of the first sample.
        separator: between thousands.
    """
    devices = list(dict.fromkeys(str(row.get("Device", "")) for row in report.calls))
    functions = _functions(report.calls)
    if sort and devices:
        on_first = [[r for line in lines for r in line.on(devices[0])] for lines in functions]
        order = largest_first([merge_rows(rows) for rows in on_first], SORT_COLUMNS)
        functions = [functions[i] for i in order]
    lines = [line for function in functions for line in function]
    swept = any(line.flags for line in lines)
    keys, legend = _keys(lines, swept)
    groups = [_group(device, functions, swept, separator) for device in devices]
    text = _text(keys, dict(zip(devices, groups, strict=True)))
    text += ["", _LEGEND, *([_RELATIVE_LEGEND] if swept else []), *legend] if lines else []
    text += configuration_lines(report.configuration, separator)
    return "".join(f"{line.rstrip(' ')}\n" for line in text)


def _functions(rows: Iterable[Row]) -> list[list[_Line]]:
    """Return the lines of each function, in the order of their first samples."""
    functions: dict[tuple[Metric, Metric], dict[Metric, _Line]] = {}
    for row in rows:
        name, shapes = row.get("Name", ""), row.get("Argument Shapes", "")
        flags = row.get("Flags", "")
        lines = functions.setdefault((row.get("Hash", name), shapes), {})
        line = lines.setdefault(flags, _Line(name, shapes, flags))
        line.samples.setdefault(str(row.get("Device", "")), []).append(row)
    return [list(lines.values()) for lines in functions.values()]


def _keys(lines: Sequence[_Line], swept: bool) -> tuple[_Group, list[str]]:
    """Return the columns that name a line, and a line for the legend: arguments that all have."""
    columns = [["Name", *(cell(line.name, "Name", "") for line in lines)]]
    if swept:
        columns.append(["Flags", *(cell(line.flags, "Flags", "") for line in lines)])
    shapes = [cell(line.shapes, "Argument Shapes", "") for line in lines]
    if len(set(shapes)) > 1:
        return [*columns, ["Argument Shapes", *shapes]], []
    return columns, [f"Arguments: {shapes[0]}"] if any(shapes) else []


def _group(
    device: str, functions: Sequence[Sequence[_Line]], swept: bool, separator: str
) -> _Group:
    """Return a board's columns: those in which any line has something."""
    lines = [line for function in functions for line in function]
    merged = [merge_rows(line.on(device)) for line in lines]
    headers = [name for name in headers_of(merged) if name not in _LEFT_OUT]
    pairs = list(zip(merged, lines, strict=True))
    columns = [
        [escaped(name), *(_cell(name, row, line.on(device), separator) for row, line in pairs)]
        for name in headers
    ]
    if swept:
        columns.append([_RELATIVE, *_relative(device, functions)])
    return [column for column in columns if any(column[1:])]


def _cell(name: str, merged: Row, samples: Sequence[Row], separator: str) -> str:
    value = merged.get(name)
    if value is None:
        return ""
    if isinstance(value, Count | Duration):
        return per_call_cell(per_call_median(samples, name), separator)
    return cell(value, name, separator)


def _relative(device: str, functions: Sequence[Sequence[_Line]]) -> list[str]:
    """Return each line's share of what the function's first line on the board took."""
    rows = [row for function in functions for line in function for row in line.on(device)]
    column = next((name for name in SORT_COLUMNS if any(name in row for row in rows)), None)
    cells: list[str] = []
    for function in functions:
        values = [_number(line.on(device), column) for line in function]
        first = next((value for value in values if value is not None), None)
        cells += [_quotient(value, first) for value in values]
    return cells


def _number(samples: Sequence[Row], column: str | None) -> float | None:
    value = per_call_median(samples, column) if column is not None else None
    if value is None:
        return None
    return value.microseconds if isinstance(value, Duration) else float(value)


def _quotient(value: float | None, first: float | None) -> str:
    if value is None or not first or not math.isfinite(value / first):
        return ""
    return f"{value / first:.2f}"


def _text(keys: _Group, groups: dict[str, _Group]) -> list[str]:
    """Return the two lines of headers and the rows; columns stand two blanks apart."""
    lines = ["  ".join(cells) for cells in zip(*map(_left, keys), strict=True)]
    titles = " " * display_width(lines[0])
    for device, columns in groups.items():
        title = escaped(device)
        block = [""] * len(lines)
        for column in columns:
            parted = zip(block, _right(column), strict=True)
            block = [f"{left}  {text}" if left else text for left, text in parted]
        block = _right([title, *block])[1:]  # no narrower than the title
        rest = display_width(block[0]) - display_width(title)
        titles += f"  {title}" + (f" {'-' * (rest - 1)}" if rest > 1 else " " * rest)
        lines = [f"{line}  {text}" for line, text in zip(lines, block, strict=True)]
    return [titles, *lines]


def _left(column: Sequence[str]) -> list[str]:
    widest = max(map(display_width, column))
    return [text + " " * (widest - display_width(text)) for text in column]


def _right(column: Sequence[str]) -> list[str]:
    widest = max(map(display_width, column))
    return [" " * (widest - display_width(text)) + text for text in column]
