# SPDX-License-Identifier: Apache-2.0
"""Rows of a Report: their names, their columns, and which rows our tables merge."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from boardprof.metrics import Metric, raw_of
from boardprof.render.cells import cell
from boardprof.report.calls import Calls, Row
from boardprof.report.groups import Groups

LABEL: Final = "Label"

KEY_COLUMNS: Final = ("Name", "Argument Shapes", "Flags", "Device")
"""The columns that tell the samples of one thing from those of another."""

FIRST_COLUMNS: Final = ("Name", "Duration (us)", "Percent", "Device", "Count", "Argument Shapes")
"""The columns that always come first, in TVM's order."""


class LabelledKey(NamedTuple):
    """What rows have in common that are one in our own table; "" where a row lacks the column.

    Attributes:
        name: Name.
        hash: Hash, which parts functions of equal name.
        shapes: Argument Shapes.
        device: Device.
        label: Label: who names two calls wants to see two.
        flags: the compiler's, of a sweep.
    """

    name: Metric
    hash: Metric
    shapes: Metric
    device: Metric
    label: Metric
    flags: Metric = ""


def labelled_groups(calls: Calls, *, by_flags: bool = True) -> Groups[LabelledKey]:
    """Return the groups of rows that are one in our own table.

    In TVM's, rows of one hash are one whatever their names and labels: `Calls.groups`.

    Args:
        calls: the rows.
        by_flags: rows of other compiler flags are apart; else the key's ``flags`` is "".
    """
    flags = ["Flags"] if by_flags else []
    found = calls.group_by("Name", "Hash", "Argument Shapes", "Device", LABEL, *flags)
    keys = tuple(LabelledKey(*key) for key in found.keys)
    return Groups(keys, found.order, found.bounds, found.same)


def text_of(metric: Metric) -> str:
    """Return a text as it is, and a number as text: a name ought to be one, and may not be."""
    return str(raw_of(metric))


def headers_of(rows: Iterable[Iterable[str]]) -> list[str]:
    """Return the six fixed columns, then all others of the rows in byte order."""
    names = {name for row in rows for name in row}
    return [*FIRST_COLUMNS, *sorted(names.difference(FIRST_COLUMNS))]


def configuration_lines(configuration: Row, separator: str) -> list[str]:
    """Return what stands below our tables, from the blank line on."""
    lines = ["", "Configuration", "-------------"]
    return lines + [f"{name}: {cell(v, name, separator)}" for name, v in configuration.items()]
