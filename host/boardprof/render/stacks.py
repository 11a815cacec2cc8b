# SPDX-License-Identifier: Apache-2.0
"""Which stacks the rows of a Report stand for, and how much of a metric each weighs, by column."""

from __future__ import annotations

from array import array
from functools import cached_property
from math import inf
from typing import Final, TypeAlias

from boardprof.errors import UnknownNameError, UsageError
from boardprof.metrics import Count, Duration, Metric
from boardprof.render.aggregate import LEVELS, SORT_COLUMNS
from boardprof.render.cells import escaped
from boardprof.render.rows import KEY_COLUMNS, LABEL, text_of
from boardprof.report.calls import Calls
from boardprof.report.columns import Column
from boardprof.report.groups import grouped

_NO_WEIGHTS: Final = frozenset(["Count", LABEL, *LEVELS, *KEY_COLUMNS])

Weight: TypeAlias = int | float
"""A Count, exact, or a Duration in us; never below zero, infinite or NaN."""


class Stacks:
    """The rows of a Report by device and by stack.

    Attributes:
        devices: where the rows were measured, in first-seen order.
        device_of: for each row its device's index.
        frames: of each stack, outermost first: function, the user's label, compiler's flags,
            arguments. A stack is on one device: on another, the same frames are another stack.
        stack_of: for each row its stack's index.
    """

    def __init__(self, calls: Calls) -> None:
        """Look at all rows."""
        groups = calls.group_by("Device", "Name", LABEL, "Flags", "Argument Shapes")
        numbers: dict[str, int] = {}
        self._calls = calls
        self.frames = tuple(_frames(*names) for _, *names in groups.keys)
        self.stack_of, self.device_of = (array("q", bytes(8 * len(calls))) for _ in range(2))
        for stack, ((device, *_), rows) in enumerate(zip(groups.keys, groups.rows, strict=True)):
            name = escaped(text_of(device)) or "(no device)"
            number = numbers.setdefault(name, len(numbers))
            for row in rows:
                self.stack_of[row] = stack
                self.device_of[row] = number
        self.devices = tuple(numbers)

    @cached_property
    def rows(self) -> list[array[int]]:
        """Of each device, in run order."""
        return grouped(self.device_of).rows

    @cached_property
    def columns(self) -> list[list[str]]:
        """For each device its Counts and Durations, what best stands for a row first."""
        found: list[list[str]] = [[] for _ in self.devices]
        for name in sorted(self._calls.names, key=_place):
            if name not in _NO_WEIGHTS:
                column = self._calls.column(name)
                counts, times = column.of(Count), column.of(Duration)
                for device in self.devices_with(counts) | self.devices_with(times):
                    found[device].append(name)
        return found

    def devices_with(self, column: Column) -> set[int]:
        """Return the devices that have a column in any row."""
        if column.rows is None:
            return set(range(len(self.devices)))
        return set(map(self.device_of.__getitem__, column.rows))


def _place(name: str) -> int:
    return SORT_COLUMNS.index(name) if name in SORT_COLUMNS else len(SORT_COLUMNS)


def _frames(*names: Metric) -> tuple[str, ...]:
    function, *rest = (escaped(text_of(name)) for name in names)
    return (function or "(no name)", *filter(None, rest))


def weights_of(column: Column) -> list[Weight | None]:
    """Return the total of each row in a column; None if it cannot be drawn."""
    if column.kind is Count:
        found = [value if value >= 0 else None for value in column.given]
    elif column.kind is Duration:
        found = [value if 0 <= value < inf else None for value in column.given]
    elif column.kind is None:
        found = list(map(_weight, column.given))
    else:
        found = [None] * len(column.given)
    if column.rows is None:
        return found
    full: list[Weight | None] = [None] * column.length
    for row, weight in zip(column.rows, found, strict=True):
        full[row] = weight
    return full


def _weight(metric: Metric) -> Weight | None:
    if isinstance(metric, Count):
        return metric.value if metric.value >= 0 else None
    if isinstance(metric, Duration):
        return metric.microseconds if 0 <= metric.microseconds < inf else None
    return None


def metric_of_all(stacks: Stacks, metric: str | None) -> str:
    """Return the metric whose totals are drawn: ``metric``, or the first that all devices have.

    Raises:
        UnknownNameError: no row has ``metric``.
        UsageError: nothing was measured, or the devices have no metric in common.
    """
    if not stacks.devices:
        raise UsageError("The Report has no rows: there is nothing to draw.")
    columns = stacks.columns
    known = list(dict.fromkeys(name for names in columns for name in names))
    if metric is not None:
        if metric not in known:
            raise UnknownNameError("metric in the Report", metric, known)
        return metric
    shared = [name for name in known if all(name in names for names in columns)]
    if not shared:
        told = "; ".join(
            f"{device}: {', '.join(names)}"
            for device, names in zip(stacks.devices, columns, strict=True)
        )
        raise UsageError(
            f"No metric is on all devices of the Report, and different ones do not add up: {told}.",
            hint="name one: boardprof export collapsed REPORT --metric NAME, or "
            "render_collapsed(report, metric=NAME)",
        )
    return min(shared, key=_place)
