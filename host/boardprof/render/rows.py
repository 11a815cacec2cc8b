# SPDX-License-Identifier: Apache-2.0
"""Parts that the tables of a Report share: groups, headers, headings, and notes on its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from boardprof.metrics import Count, Metric, raw_of
from boardprof.render.cells import cell, escaped, plural
from boardprof.report.calls import DURATION, LABEL, SHARE, Calls, Row
from boardprof.report.columns import Groups

if TYPE_CHECKING:
    from boardprof.report.report import Report


KEY_COLUMNS: Final = ("Name", "Argument Shapes", "Flags", "Device")
"""The columns that identify what a sample is of."""

FIRST_COLUMNS: Final = ("Name", DURATION, SHARE, "Device", "Count", "Argument Shapes")
"""Columns that always come first, in TVM's order."""


class LabelledKey(NamedTuple):
    """Values that the rows of one group share; "" if a row lacks the column.

    Attributes:
        name: Name.
        hash: Hash, which distinguishes functions of equal name.
        shapes: Argument Shapes.
        device: Device.
        label: Label, by which the user distinguishes calls.
        flags: Flags, the setting of a sweep.
    """

    name: Metric
    hash: Metric
    shapes: Metric
    device: Metric
    label: Metric
    flags: Metric = ""


def labelled_groups(calls: Calls, *, by_flags: bool = True) -> Groups[LabelledKey]:
    """Return the groups of rows that our own tables merge into one.

    TVM also merges rows of one hash with different names and labels: see `Calls.groups`.

    Args:
        calls: the rows.
        by_flags: separate rows of different compiler flags; else the key's ``flags`` is "".
    """
    flags = ["Flags"] if by_flags else []
    found = calls.group_by("Name", "Hash", "Argument Shapes", "Device", LABEL, *flags)
    keys = tuple(LabelledKey(*key) for key in found.keys)
    return Groups(keys, found.order, found.bounds, found.same)


def text_of(metric: Metric) -> str:
    """Return a text unchanged, and a number as text: nothing prevents a number as a name."""
    return str(raw_of(metric))


def headers_of(rows: Iterable[Iterable[str]]) -> list[str]:
    """Return the fixed columns, then all others of the rows in byte order."""
    names = {name for row in rows for name in row}
    return [*FIRST_COLUMNS, *sorted(names.difference(FIRST_COLUMNS))]


def configuration_lines(configuration: Row, separator: str) -> list[str]:
    """Return the lines below our tables, beginning with a blank line."""
    lines = ["", "Configuration", "-------------"]
    return lines + [f"{name}: {cell(v, name, separator)}" for name, v in configuration.items()]


def heading(report: Report, shown: Callable[[str], str]) -> str:
    """Return a heading such as ``fir on m4``; ``shown`` formats each name."""
    what, devices = _measured(report, shown), _names(report, "Device")
    return f"{what} on {_listed([shown(each) for each in devices])}" if devices else what


def _names(report: Report, column: str) -> list[str]:
    found = dict.fromkeys(report.calls.column(column).filled(""))
    return [escaped(name) for name in found if isinstance(name, str) and name]


def _measured(report: Report, shown: Callable[[str], str]) -> str:
    """Return the name of the only function, or the numbers of functions and measurements."""
    functions = _names(report, "Name")
    if len(functions) == 1:
        return shown(functions[0])
    rows = len(report.calls.group_by("Name", LABEL, "Argument Shapes", "Flags").keys)
    counted = plural(len(functions), "function")
    return counted if rows <= len(functions) else f"{plural(rows, 'measurement')} of {counted}"


def _listed(names: Sequence[str]) -> str:
    if len(names) > 4:
        return f"{len(names)} devices"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def mixed_columns(calls: Calls, merged: Iterable[Row]) -> dict[str, str]:
    """Return the columns that are empty in a merged row because its rows have different kinds.

    Args:
        calls: the rows.
        merged: the merged rows.

    Returns:
        The kinds by name of the column, such as ``Count and Duration``.
    """
    columns = {name: calls.column(name) for name in calls.names}
    kinds = {
        name: " and ".join(sorted({type(value).__name__ for value in column.given}))
        for name, column in columns.items()
        if column.kind is None
    }
    if not kinds:
        return {}
    empty = {name for row in merged for name in kinds if row.get(name) == ""}
    return {name: text for name, text in kinds.items() if name in empty}


def mixed_note(mixed: Mapping[str, str], shown: Callable[[str], str] = escaped) -> Sequence[str]:
    """Return a note on the columns of `mixed_columns`, if any; ``shown`` formats each name."""
    if not mixed:
        return []
    listed = ", ".join(f"{shown(name)} ({kinds})" for name, kinds in mixed.items())
    return [
        f"Cells are empty where merged rows have several kinds of metric: {listed}. CSV and JSON "
        "have each row."
    ]


def incomplete_row_notes(report: Report) -> Iterator[str]:
    """Yield a note for each kind of incomplete row: without Name, Count, or with Count below 1."""
    calls = report.calls
    unnamed = sum(name == "" for name in calls.column("Name").filled(""))
    if unnamed:
        yield f"{_rows(unnamed)} no Name"
    counts = calls.column("Count").of(Count)
    uncounted = len(calls) - len(counts.given)
    if uncounted:
        yield f"{_rows(uncounted)} no Count, so values per call cannot be computed"
    below = sum(count <= 0 for count in counts.given)
    if below:
        yield f"{_rows(below)} a Count below 1, so values per call cannot be computed"


def _rows(number: int) -> str:
    return "1 row has" if number == 1 else f"{number:,} rows have"
