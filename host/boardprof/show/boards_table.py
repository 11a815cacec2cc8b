# SPDX-License-Identifier: Apache-2.0
"""A Report of several boards, or of several settings of compiler flags, as one text table.

There are no sums, because values of different boards do not add up. Functions are matched between
boards by name, because their types, and so their hashes, may differ.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, TypeAlias

from boardprof.base.metrics import Duration, Metric
from boardprof.results.report.calls import LABEL, SHARES, Calls, LabelledKey, Row, one_of
from boardprof.results.report.report import Report
from boardprof.show.aggregate import SORT_COLUMNS, CallGroups, PerCall
from boardprof.show.cells import (
    cell,
    configuration_lines,
    headers_of,
    mixed_columns,
    mixed_note,
    value_cell,
)
from boardprof.show.layout import Column, Page, Table

_LEFT_OUT: Final = frozenset(
    # The columns that name rows and boards, and those that do not describe a single call.
    ["Name", "Hash", LABEL, "Argument Shapes", "Flags", "Device", "Count", *SHARES]
)
_RELATIVE: Final = "Relative"
_LEGEND: Final = (
    "Each number is the median per {one}; a cell is empty where the board has no such metric."
)
_RELATIVE_LEGEND: Final = (
    "Relative: time as a multiple of the function's first row; without time, instructions or ticks."
)

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
        self._grouping = CallGroups(calls, self._groups)
        places = Counter(key._replace(hash="") for key in self._groups.keys)
        self._alike = {_named(key) for key, hashes in places.items() if hashes > 1}

    def function(self, key: LabelledKey) -> _Function:
        """Return what identifies a function on all boards."""
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

    @property
    def notes(self) -> Sequence[str]:
        return mixed_note(mixed_columns(self._calls, self._grouping.merged))

    def merged(self, group: int | None) -> Row:
        return {} if group is None else self._grouping.merged[group]

    def typical(self, group: int | None, name: str) -> PerCall | Metric:
        return None if group is None else self._grouping.typical(name)[group]

    def median(self, group: int | None, name: str) -> PerCall:
        return None if group is None else self._grouping.medians(name)[group]


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
    keys, legend = _keys(lines, swept)
    groups = (_group(device, functions, samples, swept, separator) for device in devices)
    columns = [column for group in groups for column in group]
    one = one_of(report.calls.column(LABEL).filled(""))
    legend = [
        _LEGEND.format(one=one),
        *([_RELATIVE_LEGEND] if swept else []),
        *legend,
        *samples.notes,
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
    samples: _Samples,
    swept: bool,
    separator: str,
) -> list[Column]:
    """Return the columns of a board that have a value; if none has, one column with its name."""
    title = str(device)
    groups = [line.groups.get(device) for function in functions for line in function]
    headers = headers_of(samples.merged(group) for group in groups)
    columns = [
        Column(
            name,
            [value_cell(samples.typical(group, name), name, separator) for group in groups],
            group=title,
        )
        for name in headers
        if name not in _LEFT_OUT
    ]
    if swept:
        columns.append(Column(_RELATIVE, _relative(device, functions, samples), group=title))
    shown = [column for column in columns if any(column.cells)]
    return shown or [Column("", [""] * len(groups), group=title)]


def _relative(device: Metric, functions: Sequence[Sequence[_Line]], samples: _Samples) -> list[str]:
    """Return each row's size as a multiple of the first row of its function on the board."""
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
    """Return the median per call; None if it is missing or not finite."""
    value = None if column is None else samples.median(group, column)
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
