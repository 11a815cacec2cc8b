# SPDX-License-Identifier: Apache-2.0
"""Which stack a row of a Report stands for, and how much of a metric it weighs."""

from __future__ import annotations

import math
from collections.abc import Iterator

from boardprof.errors import UnknownNameError, UsageError
from boardprof.metrics import Count, Duration
from boardprof.render.aggregate import LEVELS, SORT_COLUMNS
from boardprof.render.cells import escaped
from boardprof.render.names import text_of
from boardprof.report.report import Report, Row

__all__ = ["device_of", "metric_of_all", "stack_of", "summed_columns", "weight_of"]


def stack_of(row: Row) -> tuple[str, ...]:
    """Return the frames of a row, outermost first: its function, its setting, its arguments."""
    frames = [text_of(row.get(column, "")) for column in ("Name", "Flags", "Argument Shapes")]
    return (escaped(frames[0]) or "(no name)", *(escaped(frame) for frame in frames[1:] if frame))


def device_of(row: Row) -> str:
    """Return where the row was measured."""
    return escaped(text_of(row.get("Device", ""))) or "(no device)"


def weight_of(row: Row, column: str) -> int | float | None:
    """Return the sample's total in a column; None where there is none that a stack can weigh.

    Counts are exact. Below zero, infinite and NaN nothing can be drawn.
    """
    metric = row.get(column)
    if isinstance(metric, Count):
        return metric.value if metric.value >= 0 else None
    if isinstance(metric, Duration):
        value = metric.microseconds
        return value if value >= 0 and math.isfinite(value) else None
    return None


def summed_columns(rows: list[Row]) -> list[str]:
    """Return the columns of Counts and Durations, what best stands for a row first."""
    found = dict.fromkeys(name for row in rows for name in _summed(row))
    first = [name for name in SORT_COLUMNS if name in found]
    return [*first, *(name for name in found if name not in first)]


def metric_of_all(report: Report, metric: str | None) -> str:
    """Return the metric whose totals are drawn: ``metric``, or the first that all devices have.

    Raises:
        UnknownNameError: no row has ``metric``.
        UsageError: nothing was measured, or the devices have no metric in common.
    """
    if not len(report.calls):
        raise UsageError("The Report has no rows: there is nothing to draw.")
    by_device: dict[str, list[Row]] = {}
    for row in report.calls:
        by_device.setdefault(device_of(row), []).append(row)
    columns = {device: summed_columns(rows) for device, rows in by_device.items()}
    known = list(dict.fromkeys(name for names in columns.values() for name in names))
    if metric is not None:
        if metric not in known:
            raise UnknownNameError("metric in the Report", metric, known)
        return metric
    shared = [name for name in known if all(name in names for names in columns.values())]
    preferred = [name for name in SORT_COLUMNS if name in shared]
    if not shared:
        told = "; ".join(f"{device}: {', '.join(names)}" for device, names in columns.items())
        raise UsageError(
            f"No metric is on all devices of the Report, and different ones do not add up: {told}.",
            hint="name one: boardprof export collapsed REPORT --metric NAME, or "
            "render_collapsed(report, metric=NAME)",
        )
    return (preferred or shared)[0]


def _summed(row: Row) -> Iterator[str]:
    for name, metric in row.items():
        if name != "Count" and name not in LEVELS and isinstance(metric, Count | Duration):
            yield name
