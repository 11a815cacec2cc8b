# SPDX-License-Identifier: Apache-2.0
r"""A Report as collapsed stacks, what flame graphs are drawn from.

A line a stack, outermost frame first::

    qemu-rv32;crc32;-O2 409710

The number is the sum of one metric over all samples; a Duration is in whole nanoseconds. A
semicolon in a name is written ``\x3b``, since it would part frames.
"""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction
from typing import Any

from boardprof.errors import UsageError
from boardprof.metrics import Count, Duration
from boardprof.render.profile_stacks import stacks_of
from boardprof.render.stacks import Stacks, metric_of_all, weights_of
from boardprof.report.columns import Column
from boardprof.report.profile_json import profiles_of
from boardprof.report.report import Report

_NS_PER_US = 1000


def render_collapsed(report: Report, *, metric: str | None = None) -> str:
    """Return ``report`` as collapsed stacks of one metric.

    If the Report says where its functions spend what they cost (`run --hotspots`), the stacks are
    those of one call, from the function to the innermost inlined one.

    Args:
        report: what to draw.
        metric: a column of Counts or Durations; by itself the Duration, else instructions, else
            ticks, whichever all devices have.

    Raises:
        UnknownNameError: no row has ``metric``.
        UsageError: the Report is empty, no metric is on all devices, or no sample has a weight
            that can be drawn; an empty file would look like a function that costs nothing.
    """
    if found := _profiled(report, metric):
        return found
    stacks = Stacks(report.calls)
    name = metric_of_all(stacks, metric)
    column = report.calls.column(name)
    sums: dict[tuple[str, ...], int] = {}
    for kind, total in ((Count, sum), (Duration, _nanoseconds)):
        for (device, stack), weights in _by_stack(stacks, column.of(kind)).items():
            frames = (stacks.devices[device], *stacks.frames[stack])
            sums[frames] = sums.get(frames, 0) + total(weights)
    if not sums:
        raise UsageError(f"No value of {name} is 0 or more: there is nothing to draw.")
    return "".join(f"{';'.join(map(_frame, stack))} {total}\n" for stack, total in sums.items())


def _profiled(report: Report, metric: str | None) -> str:
    """Return the stacks within the calls, if the Report has them for a metric."""
    sums: defaultdict[str, int] = defaultdict(int)
    for row in profiles_of(report):
        if metric is None or metric in row.profile.columns:
            for stack, cost in stacks_of(row.profile, metric).items():
                names = [row.device, *(frame.function for frame in stack)]
                sums[";".join(map(_frame, names))] += cost
    return "".join(f"{stack} {total}\n" for stack, total in sums.items())


def _by_stack(stacks: Stacks, column: Column) -> dict[tuple[int, int], list[Any]]:
    """Return what the rows of each device and stack weigh that can be drawn."""
    found: defaultdict[tuple[int, int], list[Any]] = defaultdict(list)
    for device, stack, weight in zip(
        stacks.device_of, stacks.stack_of, weights_of(column), strict=True
    ):
        if weight is not None:
            found[device, stack].append(weight)
    return found


def _nanoseconds(times_us: list[float]) -> int:
    try:
        return round(_NS_PER_US * math.fsum(times_us))
    except OverflowError:  # beyond the largest float
        return round(_NS_PER_US * sum(map(Fraction, times_us)))


def _frame(name: str) -> str:
    return name.replace(";", r"\x3b")
