# SPDX-License-Identifier: Apache-2.0
"""Samples summarized in a few numbers, with their outliers."""

from __future__ import annotations

import math
import statistics
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, TypeAlias

from boardprof.base.errors import UsageError
from boardprof.results.report.columns import LARGE

Number: TypeAlias = int | float | Fraction

PERCENTILES: Final = (5, 25, 75, 95)
"""Percentiles of a Summary; the 50th is the median."""

OUTLIER_SCORE: Final = 3.5
"""A modified z-score beyond which a sample is an outlier (Iglewicz and Hoaglin, 1993)."""

_EXACT_FLOAT = 1 << 53
"""Whole numbers below this are exact as floats."""

_LARGEST = 1e150
"""Samples from here on have no statistics: sums of their squares would not fit a float."""

_MAD_TO_SIGMA = 0.6745
"""The median absolute deviation of a normal distribution, in standard deviations."""

_MEAN_DEVIATION_TO_SIGMA = 1.253314
"""A normal distribution's standard deviation over its mean absolute deviation: sqrt(pi / 2)."""


_ATTRIBUTES: Final = {
    "min": "minimum",
    "median": "median",
    "mean": "mean",
    "max": "maximum",
    "cold": "first",
}


@dataclass(frozen=True)
class Summary:
    """Statistics of samples, in the unit of the samples.

    Counts stay whole however large they are; a value between two of them is a float.

    Attributes:
        n: how many samples, >= 1.
        minimum: the smallest.
        median: the middle one, or halfway between the middle two.
        mean: the average.
        maximum: the largest.
        stddev: standard deviation of the sample (n - 1); None for a single sample.
        cv: coefficient of variation, ``stddev / |mean|``; None if either is missing or 0.
        percentiles: 5, 25, 75 and 95 -> value, interpolated between samples.
        outliers: indices of the outliers, in run order.
        first: the cold value, of the first call before the warm-up; None if not measured.
        is_exact: the board is deterministic and all samples are equal, so they have no noise.
        unrounded: the exact value, by name (``mean``, ``median``, ``p25`` ...), where a float is
            rounded.
    """

    n: int
    minimum: int | float
    median: int | float
    mean: int | float
    maximum: int | float
    stddev: float | None
    cv: float | None
    percentiles: Mapping[int, int | float]
    outliers: tuple[int, ...] = ()
    first: int | float | None = None
    is_exact: bool = False
    unrounded: Mapping[str, Fraction] = field(default_factory=dict, repr=False)

    def exactly(self, name: str) -> Number:
        """Return one of the numbers without rounding.

        Args:
            name: ``min``, ``median``, ``mean``, ``max``, ``cold``, or a percentile such as ``p95``.
                There must be such a value.
        """
        if name in self.unrounded:
            return self.unrounded[name]
        if name.removeprefix("p").isdigit():
            return self.percentiles[int(name.removeprefix("p"))]
        value: int | float = getattr(self, _ATTRIBUTES[name])
        return value

    @property
    def spread(self) -> int | float:
        """Distance between the quartiles."""
        return self.percentiles[75] - self.percentiles[25]


def summarize(
    values: Sequence[Number], *, first: Number | None = None, is_exact: bool = False
) -> Summary:
    """Summarize samples of one metric.

    Args:
        values: in run order, at least one, all finite.
        first: the cold value, if there is one.
        is_exact: see `Summary`; ignored if the samples differ.

    Raises:
        UsageError: there are no samples, or one is not finite.
    """
    if not values:
        raise UsageError("There are no samples to summarize.")
    if not are_finite(values):
        raise UsageError("A sample is infinite, too large or not a number; it has no statistics.")
    ordered = sorted(values)
    alike = ordered[0] == ordered[-1]
    found: dict[str, Number] = {
        "min": ordered[0],
        "mean": ordered[0] if alike else _mean(values),
        "max": ordered[-1],
        "median": exact_percentile(ordered, 50),
        **{f"p{share}": exact_percentile(ordered, share) for share in PERCENTILES},
    }
    if first is not None:
        found["cold"] = first
    rounded = {name: plain(value) for name, value in found.items()}
    stddev = None if len(values) < 2 else _stddev(values, found["mean"], alike)
    return Summary(
        n=len(values),
        minimum=rounded["min"],
        median=rounded["median"],
        mean=rounded["mean"],
        maximum=rounded["max"],
        stddev=stddev,
        cv=None if stddev is None else _share(stddev, rounded["mean"]),
        percentiles={share: rounded[f"p{share}"] for share in PERCENTILES},
        outliers=() if alike else far_from_the_others(values, OUTLIER_SCORE),
        first=rounded.get("cold"),
        is_exact=is_exact and alike,
        unrounded={
            name: value
            for name, value in found.items()
            if isinstance(value, Fraction) and value != rounded[name]
        },
    )


def is_finite(value: Number) -> bool:
    """Tell whether a sample is a number that statistics can use."""
    return -_LARGEST < value < _LARGEST


def are_finite(values: Sequence[Number]) -> bool:
    """Tell whether all samples are numbers that statistics can use."""
    is_narrow = isinstance(values, array) and values.typecode == "q"
    return is_narrow or all(map(is_finite, {*values}))


def magnitude(value: Number) -> Number:
    """Return how far a number is from 0, of its own type: abs() of several types has none."""
    return -value if value < 0 else value


def plain(value: Number) -> int | float:
    """Return a plain number: an int if it is whole, else a float."""
    if not isinstance(value, Fraction):
        return value
    return value.numerator if value.denominator == 1 else float(value)


def percentile(ordered: Sequence[Number], share: float) -> int | float:
    """Return a percentile, 0 to 100, of ascending values, between neighbours by proportion."""
    return plain(exact_percentile(ordered, share))


def exact_percentile(ordered: Sequence[Number], share: float) -> Number:
    """Return what `percentile` does, of integers and fractions without rounding."""
    place = Fraction(share) / 100 * (len(ordered) - 1)
    below = math.floor(place)
    low, part = ordered[below], place - below
    if part == 0 or ordered[below + 1] == low:
        return low
    step = ordered[below + 1] - low
    return low + (step * part if isinstance(step, int | Fraction) else step * float(part))


def far_from_the_others(values: Sequence[Number], score: float) -> tuple[int, ...]:
    """Return the indices of values beyond a modified z-score, relative to the others' spread."""
    numbers = _floats(values)
    if len(numbers) >= LARGE:
        return _far_of_many(numbers, score)
    middle = statistics.median(numbers)
    distances = [abs(value - middle) for value in numbers]
    scale = statistics.median(distances) / _MAD_TO_SIGMA
    if scale == 0:  # more than half are equal: the median deviation is 0
        scale = statistics.fmean(distances) * _MEAN_DEVIATION_TO_SIGMA
    limit = score * scale
    return tuple(i for i, far in enumerate(distances) if far > limit)


def _far_of_many(numbers: Sequence[float], score: float) -> tuple[int, ...]:
    """Return as `far_from_the_others` does, ten times as fast."""
    import numpy as np

    array = np.array(numbers)
    distances = np.abs(array - np.median(array))
    scale = float(np.median(distances)) / _MAD_TO_SIGMA
    if scale == 0:
        scale = statistics.fmean(distances.tolist()) * _MEAN_DEVIATION_TO_SIGMA
    return tuple(np.flatnonzero(distances > score * scale).tolist())


def _mean(values: Sequence[Number]) -> Number:
    """Return the average, of integers and fractions without rounding."""
    kinds = set(map(type, values))
    if float in kinds:
        return statistics.fmean(list(map(float, values)))
    if kinds == {int}:
        return Fraction(sum(values)) / len(values)
    numerators: dict[int, int] = {}  # by denominator: fractions themselves add up slowly
    for value in values:
        exact = Fraction(value)
        numerators[exact.denominator] = numerators.get(exact.denominator, 0) + exact.numerator
    total = sum((Fraction(above, below) for below, above in numerators.items()), Fraction(0))
    return total / len(values)


def _stddev(values: Sequence[Number], mean: Number, alike: bool) -> float:
    if alike:
        return 0.0
    if isinstance(mean, float) or magnitude(mean) < _EXACT_FLOAT:
        middle = float(mean)
        squares = math.fsum([(value - middle) ** 2 for value in map(float, values)])
        return math.sqrt(squares / (len(values) - 1))
    exact = sum(((Fraction(value) - Fraction(mean)) ** 2 for value in values), Fraction(0))
    return math.sqrt(exact / (len(values) - 1))


def _share(stddev: float, mean: int | float) -> float | None:
    """Return the coefficient of variation; None if it does not exist or does not fit a float."""
    share = math.inf if mean == 0 else stddev / abs(mean)
    return share if math.isfinite(share) else None


def _floats(values: Sequence[Number]) -> list[float]:
    """Return values as floats; large counts as their distances from the first one."""
    base, largest = values[0], max(magnitude(min(values)), max(values))
    if largest < _EXACT_FLOAT or isinstance(base, float):
        return list(map(float, values))
    return [float(Fraction(value) - Fraction(base)) for value in values]
