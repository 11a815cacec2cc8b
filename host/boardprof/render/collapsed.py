# SPDX-License-Identifier: Apache-2.0
r"""A Report as collapsed stacks, what flame graphs are drawn from.

A line a stack, outermost frame first::

    qemu-rv32;crc32;-O2 409710

The number is the sum of one metric over all samples; a Duration is in whole nanoseconds. A
semicolon in a name is written ``\x3b``, since it would part frames.
"""

from __future__ import annotations

from boardprof.errors import UsageError
from boardprof.metrics import Duration
from boardprof.render.stacks import device_of, metric_of_all, stack_of, weight_of
from boardprof.report.report import Report

__all__ = ["render_collapsed"]

_NS_PER_US = 1000


def render_collapsed(report: Report, *, metric: str | None = None) -> str:
    """Return ``report`` as collapsed stacks of one metric.

    Args:
        report: what to draw.
        metric: a column of Counts or Durations; by itself the Duration, else instructions, else
            ticks, whichever all devices have.

    Raises:
        UnknownNameError: no row has ``metric``.
        UsageError: the Report is empty, no metric is on all devices, or no sample has a weight
            that can be drawn; an empty file would look like a function that costs nothing.
    """
    column = metric_of_all(report, metric)
    sums: dict[tuple[str, ...], int | float] = {}
    for row in report.calls:
        weight = weight_of(row, column)
        if weight is not None:
            stack = (device_of(row), *stack_of(row))
            whole = round(weight * _NS_PER_US) if isinstance(row[column], Duration) else weight
            sums[stack] = sums.get(stack, 0) + whole
    if not sums:
        raise UsageError(f"No sample has {column} above or at 0: there is nothing to draw.")
    return "".join(f"{';'.join(map(_frame, stack))} {total}\n" for stack, total in sums.items())


def _frame(name: str) -> str:
    return name.replace(";", r"\x3b")
