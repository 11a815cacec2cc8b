# SPDX-License-Identifier: Apache-2.0
"""What names a row of a Report, as text."""

from __future__ import annotations

from typing import Final

from boardprof.metrics import Count, Duration, Metric, Percent, Ratio

__all__ = ["KEY_COLUMNS", "plain", "text_of"]

KEY_COLUMNS: Final = ("Name", "Argument Shapes", "Flags", "Device")
"""The columns that tell the samples of one thing from those of another."""


def text_of(metric: Metric) -> str:
    """Return a text as it is, and a number as text: a name ought to be one, and may not be."""
    return str(plain(metric))


def plain(metric: Metric) -> str | int | float:
    """Return a metric without its kind: microseconds of a Duration, percent of a Percent."""
    match metric:
        case Count():
            return metric.value
        case Duration():
            return metric.microseconds
        case Percent():
            return metric.percent
        case Ratio():
            return metric.ratio
        case str():
            return metric
