# SPDX-License-Identifier: Apache-2.0
"""Some samples in a few numbers, and which of them stand apart."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias

from boardprof.errors import UsageError

__all__ = ["OUTLIER_SCORE", "PERCENTILES", "Number", "Summary", "exact_percentile", "percentile"]
__all__ += ["summarize"]

Number: TypeAlias = int | float | Fraction

PERCENTILES: Final = (5, 25, 75, 95)
"""Those that a Summary has; the 50th is the median."""

OUTLIER_SCORE: Final = 3.5
"""A modified z-score beyond which a sample is an outlier (Iglewicz and Hoaglin, 1993)."""

_MAD_TO_SIGMA = 0.6745
"""The median absolute deviation of a normal distribution, in standard deviations."""

_MEAN_DEVIATION_TO_SIGMA = 1.253314
"""A normal distribution's standard deviation over its mean absolute deviation: sqrt(pi / 2)."""


@dataclass(frozen=True)
class Summary:
    """What some samples are like, in the unit of the samples.

    Attributes:
        n: how many samples, >= 1.
        minimum: the smallest.
        median: the middle one, or halfway between the middle two.
        mean: the average.
        maximum: the largest.
        stddev: standard deviation of the sample (n - 1); None of a single one.
        cv: coefficient of variation, ``stddev / |mean|``; None where either is missing or 0.
        percentiles: 5, 25, 75 and 95 -> value, interpolated between samples.
        outliers: indices of the samples that stand apart, in run order.
        first: the cold value, of the first call ahead of the warm-up; None: not measured.
        is_exact: the samples are of a deterministic board and all alike: there is no noise in them.
    """

    n: int
    minimum: float
    median: float
    mean: float
    maximum: float
    stddev: float | None
    cv: float | None
    percentiles: Mapping[int, float]
    outliers: tuple[int, ...] = ()
    first: float | None = None
    is_exact: bool = False

    @property
    def spread(self) -> float:
        """Distance between the quartiles."""
        return self.percentiles[75] - self.percentiles[25]


def summarize(
    values: Sequence[Number], *, first: Number | None = None, is_exact: bool = False
) -> Summary:
    """Summarize samples of one metric.

    Args:
        values: in run order, at least one, all finite.
        first: the cold value, if there is one.
        is_exact: see `Summary`; taken back where the samples differ.

    Raises:
        UsageError: there are no samples, or one is not finite.
    """
    if not values:
        raise UsageError("There are no samples to summarize.")
    if not all(math.isfinite(value) for value in values):
        raise UsageError("A sample is infinite or not a number; it has no statistics.")
    ordered = sorted(values)
    alike = ordered[0] == ordered[-1]
    mean = _float(ordered[0]) if alike else statistics.fmean(map(_float, values))
    stddev = None if len(values) < 2 else _stddev(values, mean, alike)
    return Summary(
        n=len(values),
        minimum=_float(ordered[0]),
        median=percentile(ordered, 50),
        mean=mean,
        maximum=_float(ordered[-1]),
        stddev=stddev,
        cv=None if stddev is None or mean == 0 else stddev / abs(mean),
        percentiles={share: percentile(ordered, share) for share in PERCENTILES},
        outliers=() if alike else _outliers(values),
        first=None if first is None else _float(first),
        is_exact=is_exact and alike,
    )


def percentile(ordered: Sequence[Number], share: float) -> float:
    """Return a percentile of values in ascending order, between neighbours by proportion.

    Args:
        ordered: at least one.
        share: 0 to 100; 0 is the smallest, 100 the largest.
    """
    return _float(exact_percentile(ordered, share))


def exact_percentile(ordered: Sequence[Number], share: float) -> Number:
    """Return what `percentile` does, of integers and fractions without rounding."""
    place = Fraction(share) / 100 * (len(ordered) - 1)
    below = math.floor(place)
    low, part = ordered[below], place - below
    if part == 0 or ordered[below + 1] == low:
        return low
    step = ordered[below + 1] - low
    return low + (step * part if isinstance(step, int | Fraction) else step * float(part))


def _stddev(values: Sequence[Number], mean: float, alike: bool) -> float:
    if alike:
        return 0.0
    squares = math.fsum((float(value) - mean) ** 2 for value in values)
    return math.sqrt(squares / (len(values) - 1))


def _outliers(values: Sequence[Number]) -> tuple[int, ...]:
    """Return what is far from the median, measured by how far the others are from it."""
    numbers = [_float(value) for value in values]
    middle = statistics.median(numbers)
    distances = [abs(value - middle) for value in numbers]
    scale = statistics.median(distances) / _MAD_TO_SIGMA
    if scale == 0:  # more than half are alike: the median says nothing of the rest
        scale = statistics.fmean(distances) * _MEAN_DEVIATION_TO_SIGMA
    return tuple(i for i, far in enumerate(distances) if far > OUTLIER_SCORE * scale)


def _float(value: Number) -> float:
    return float(value)
