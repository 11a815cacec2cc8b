# SPDX-License-Identifier: Apache-2.0
"""A Report of several boards, or of several settings of compiler flags, as one text table.

A row a function, or a function's setting; a group of columns a board, under its name. Each number
is the median per call over the samples; what a board does not have stays empty. There are no sums:
what is put side by side here does not add up. A function is the same on two boards by its name:
its types, and so its hash, may be others there.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, TypeAlias

from boardprof.metrics import Count, Duration, Metric
from boardprof.render.aggregate import (
    SORT_COLUMNS,
    PerCall,
    merge_calls,
    per_call_medians,
)
from boardprof.render.cells import cell, display_width, escaped, per_call_cell
from boardprof.render.labels import LABEL, LabelledKey, labelled_groups
from boardprof.render.mixed import mixed_columns, mixed_note
from boardprof.render.table import configuration_lines, headers_of
from boardprof.render.typical import Typical
from boardprof.report.calls import Calls, Row
from boardprof.report.report import Report

__all__ = ["render_boards_table"]

_LEFT_OUT: Final = frozenset(
    # The row's own key; the board's name; what says nothing of one call.
    ["Name", "Hash", LABEL, "Argument Shapes", "Flags", "Device", "Count", "Percent"]
) | {"Perturbation (%)"}
_RELATIVE: Final = "Relative"
_LEGEND: Final = (
    "Each number is the median per call; a cell is empty where the board has no such metric."
)
_RELATIVE_LEGEND: Final = (
    "Relative: time as a multiple of the function's first row; without time, instructions or ticks."
)

_Group: TypeAlias = list[list[str]]  # columns: a header, then one cell a line

_Function: TypeAlias = tuple[Metric, ...]  # name, argument shapes, label, a hash if need be


@dataclass
class _Line:
    """A line of the table: a function and a setting; what it was on each board."""

    name: Metric
    shapes: Metric
    flags: Metric
    label: Metric
    groups: dict[Metric, int] = field(default_factory=dict)


class _Samples:
    """All samples of a line on a board as one: a group of rows, by number."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._groups = labelled_groups(calls)
        self._merged = merge_calls(calls, self._groups)
        self._medians: dict[str, list[PerCall]] = {}
        places = Counter(key._replace(hash="") for key in self._groups.keys)
        self._alike = {_named(key) for key, hashes in places.items() if hashes > 1}

    def function(self, key: LabelledKey) -> _Function:
        """Return what rows have in common that are of one function, on whatever board."""
        named = _named(key)
        return (*named, key.hash) if named in self._alike else named

    def functions(self) -> dict[_Function, list[_Line]]:
        """Return the lines of each function, in the order of their first samples."""
        functions: dict[_Function, dict[Metric, _Line]] = {}
        for number, key in enumerate(self._groups.keys):
            line = _Line(key.name, key.shapes, key.flags, key.label)
            lines = functions.setdefault(self.function(key), {})
            lines.setdefault(key.flags, line).groups[key.device] = number
        return {function: list(lines.values()) for function, lines in functions.items()}

    def order(self, functions: Sequence[_Function], device: Metric) -> Sequence[int]:
        """Return the functions' numbers, the one that is largest on a board first."""
        groups = labelled_groups(self._calls, by_flags=False)
        typical = Typical(self._calls, groups, merge_calls(self._calls, groups))
        there = [number for number, key in enumerate(groups.keys) if key.device == device]
        places: dict[_Function, int] = {}
        for number in typical.order(there):
            places.setdefault(self.function(groups.keys[number]), len(places))
        last = len(places)
        return sorted(range(len(functions)), key=lambda n: places.get(functions[n], last))

    @property
    def notes(self) -> Sequence[str]:
        return mixed_note(mixed_columns(self._calls, self._merged))

    def merged(self, group: int | None) -> Row:
        return {} if group is None else self._merged[group]

    def per_call(self, group: int, name: str) -> PerCall:
        if name not in self._medians:
            self._medians[name] = per_call_medians(self._calls, self._groups, name)
        return self._medians[name][group]


def _named(key: LabelledKey) -> _Function:
    return key.name, key.shapes, key.label


def render_boards_table(report: Report, *, sort: bool = True, separator: str = ",") -> str:
    """Return ``report`` as a table with a group of columns for each board.

    Args:
        report: what to print.
        sort: the function that is largest on the first board comes first; otherwise, and among a
            function's settings always, the order is that of the first sample.
        separator: between thousands.
    """
    devices = list(dict.fromkeys(report.calls.column("Device").filled("")))
    samples = _Samples(report.calls)
    by_function = samples.functions()
    functions = list(by_function.values())
    if sort and devices:
        functions = [functions[i] for i in samples.order(list(by_function), devices[0])]
    lines = [line for function in functions for line in function]
    swept = any(line.flags for line in lines)
    keys, legend = _keys(lines, swept)
    groups = [_group(device, functions, samples, swept, separator) for device in devices]
    text = _text(keys, list(zip(map(str, devices), groups, strict=True)))
    legend = [_LEGEND, *([_RELATIVE_LEGEND] if swept else []), *legend, *samples.notes]
    text += ["", *legend] if lines else []
    text += configuration_lines(report.configuration, separator)
    return "".join(f"{line.rstrip(' ')}\n" for line in text)


def _keys(lines: Sequence[_Line], swept: bool) -> tuple[_Group, list[str]]:
    """Return the columns that name a line, and a line for the legend: arguments that all have."""
    columns = [["Name", *(cell(line.name, "Name", "") for line in lines)]]
    if any(line.label for line in lines):
        columns.append([LABEL, *(cell(line.label, LABEL, "") for line in lines)])
    if swept:
        columns.append(["Flags", *(cell(line.flags, "Flags", "") for line in lines)])
    shapes = [cell(line.shapes, "Argument Shapes", "") for line in lines]
    if len(set(shapes)) > 1:
        return [*columns, ["Argument Shapes", *shapes]], []
    return columns, [f"Arguments: {shapes[0]}"] if any(shapes) else []


def _group(
    device: Metric,
    functions: Sequence[Sequence[_Line]],
    samples: _Samples,
    swept: bool,
    separator: str,
) -> _Group:
    """Return a board's columns: those in which any line has something."""
    groups = [line.groups.get(device) for function in functions for line in function]
    headers = headers_of(samples.merged(group) for group in groups)
    columns = [
        [escaped(name), *(_cell(name, group, samples, separator) for group in groups)]
        for name in headers
        if name not in _LEFT_OUT
    ]
    if swept:
        columns.append([_RELATIVE, *_relative(device, functions, samples)])
    return [column for column in columns if any(column[1:])]


def _cell(name: str, group: int | None, samples: _Samples, separator: str) -> str:
    value = samples.merged(group).get(name)
    if group is None or value is None:
        return ""
    if isinstance(value, Count | Duration):
        return per_call_cell(samples.per_call(group, name), separator)
    return cell(value, name, separator)


def _relative(device: Metric, functions: Sequence[Sequence[_Line]], samples: _Samples) -> list[str]:
    """Return each line's share of what the function's first line on the board took."""
    groups = [[line.groups.get(device) for line in function] for function in functions]
    rows = [samples.merged(group) for function in groups for group in function]
    column = next((name for name in SORT_COLUMNS if any(name in row for row in rows)), None)
    cells: list[str] = []
    for function in groups:
        values = [_number(group, column, samples) for group in function]
        first = next((value for value in values if value is not None), None)
        cells += [_quotient(value, first) for value in values]
    return cells


def _number(group: int | None, column: str | None, samples: _Samples) -> Fraction | None:
    """Return the median per call; None where there is none, or none that is finite."""
    value = None if group is None or column is None else samples.per_call(group, column)
    if isinstance(value, Duration):
        return Fraction(value.microseconds) if math.isfinite(value.microseconds) else None
    return None if value is None else Fraction(value)


def _quotient(value: Fraction | None, first: Fraction | None) -> str:
    if value is None or not first:
        return ""
    try:
        return f"{float(value / first):.2f}"
    except OverflowError:
        return ""


def _text(keys: _Group, groups: Sequence[tuple[str, _Group]]) -> list[str]:
    """Return the two lines of headers and the rows; columns stand two blanks apart."""
    lines = ["  ".join(cells) for cells in zip(*map(_left, keys), strict=True)]
    titles = " " * display_width(lines[0])
    for device, columns in groups:
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
