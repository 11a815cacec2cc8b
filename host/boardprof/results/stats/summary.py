# SPDX-License-Identifier: Apache-2.0
"""Samples summarized in a few numbers, with their outliers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from boardprof.base.errors import UsageError
from boardprof.results.report.calls import LARGE, numbers_of

if TYPE_CHECKING:
    import numpy.typing as npt

PERCENTILES: Final = (5, 25, 75, 95)
"""Percentiles of a Summary; the 50th is the median."""

OUTLIER_SCORE: Final = 3.5
"""A modified z-score beyond which a sample is an outlier (Iglewicz and Hoaglin, 1993)."""

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

    Counts stay whole; a value between two of them is a float.

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

    def exactly(self, name: str) -> int | float:
        """Return one of the numbers by its name.

        Args:
            name: ``min``, ``median``, ``mean``, ``max``, ``cold``, or a percentile such as ``p95``.
                There must be such a value.
        """
        if name.removeprefix("p").isdigit():
            return self.percentiles[int(name.removeprefix("p"))]
        value: int | float = getattr(self, _ATTRIBUTES[name])
        return value

    @property
    def spread(self) -> int | float:
        """Distance between the quartiles."""
        return self.percentiles[75] - self.percentiles[25]


def summarize(
    values: Sequence[int | float], *, first: int | float | None = None, is_exact: bool = False
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
    if len(values) == 1:
        [value] = values
        shares = dict.fromkeys(PERCENTILES, value)
        return Summary(1, value, value, value, value, None, None, shares, (), first, is_exact)
    ordered = _ascending(values)
    alike = ordered[0] == ordered[-1]
    mean = ordered[0] if alike else _mean(values)
    stddev = 0.0 if alike else _stddev(values, mean)
    return Summary(
        n=len(values),
        minimum=ordered[0],
        median=percentile(ordered, 50),
        mean=mean,
        maximum=ordered[-1],
        stddev=stddev,
        cv=_share(stddev, mean),
        percentiles={share: percentile(ordered, share) for share in PERCENTILES},
        outliers=() if alike else far_from_the_others(values, OUTLIER_SCORE),
        first=first,
        is_exact=is_exact and alike,
    )


def _ascending(values: Sequence[int | float]) -> Sequence[int | float]:
    many = _many(values)
    if many is None:
        return sorted(values)
    import numpy as np

    return cast("Sequence[int | float]", np.sort(many).data)  # whose items are Python's numbers


def _many(values: Sequence[int | float]) -> npt.NDArray[Any] | None:
    """Return many numbers of 64 bits as an array; None for others."""
    return numbers_of(values) if len(values) >= LARGE else None


def is_finite(value: float) -> bool:
    """Tell whether a sample is a number that statistics can use."""
    return -_LARGEST < value < _LARGEST


def are_finite(values: Sequence[int | float]) -> bool:
    """Tell whether all samples are numbers that statistics can use."""
    many = _many(values)
    if many is None:
        return all(map(is_finite, {*values}))
    return many.dtype.kind == "i" or bool(many.min() > -_LARGEST and many.max() < _LARGEST)


def percentile(ordered: Sequence[int | float], share: int) -> int | float:
    """Return a percentile, 0 to 100, of ascending values, between neighbours by proportion."""
    below, part = divmod(share * (len(ordered) - 1), 100)
    low = ordered[below]
    if part == 0 or ordered[below + 1] == low:
        return low
    step = ordered[below + 1] - low
    if isinstance(step, float):
        return low + step * (part / 100)
    return _quotient(100 * low + step * part, 100)


def far_from_the_others(values: Sequence[int | float], score: float) -> tuple[int, ...]:
    """Return the indices of values beyond a modified z-score, relative to the others' spread."""
    if len(values) >= LARGE:
        return _far_of_many(values, score)
    numbers = list(map(float, values))
    middle = statistics.median(numbers)
    distances = [abs(value - middle) for value in numbers]
    scale = statistics.median(distances) / _MAD_TO_SIGMA
    if scale == 0:  # more than half are equal: the median deviation is 0
        scale = statistics.fmean(distances) * _MEAN_DEVIATION_TO_SIGMA
    limit = score * scale
    return tuple(i for i, far in enumerate(distances) if far > limit)


def _far_of_many(values: Sequence[int | float], score: float) -> tuple[int, ...]:
    """Return as `far_from_the_others` does, ten times as fast."""
    import numpy as np

    many = _many(values)
    distances = np.array(list(map(float, values))) if many is None else many.astype(np.float64)
    distances -= np.median(distances)
    np.abs(distances, out=distances)
    scale = float(np.median(distances)) / _MAD_TO_SIGMA
    if scale == 0:
        mean = statistics.fmean(cast("Sequence[float]", distances.data))
        scale = mean * _MEAN_DEVIATION_TO_SIGMA
    return tuple(np.flatnonzero(distances > score * scale).tolist())


def _mean(values: Sequence[int | float]) -> int | float:
    """Return the average; of integers, the float nearest to it, or an integer."""
    many = _many(values)
    if many is not None and many.dtype.kind == "i":
        most = max(-int(many.min()), int(many.max()))
        fits = most * len(values) < 1 << 63
        return _quotient(int(many.sum()) if fits else sum(values), len(values))
    if many is None and set(map(type, values)) == {int}:
        return _quotient(sum(values), len(values))
    return statistics.fmean(values)


def _quotient(number: int | float, by: int) -> int | float:
    return number / by if number % by else int(number // by)


def _stddev(values: Sequence[int | float], mean: int | float) -> float:
    middle = float(mean)
    many = _many(values)
    if many is None:
        squares = math.fsum([(value - middle) ** 2 for value in map(float, values)])
    else:
        squares = math.fsum(_squares(many, middle))
    return math.sqrt(squares / (len(values) - 1))


def _squares(many: npt.NDArray[Any], middle: float) -> Iterator[float]:
    """Yield the squares of distances; a list of all would take five times the memory."""
    for first in range(0, len(many), LARGE):
        yield from ((many[first : first + LARGE].astype("d") - middle) ** 2).tolist()


def _share(stddev: float, mean: int | float) -> float | None:
    """Return the coefficient of variation; None if it does not exist or does not fit a float."""
    share = math.inf if mean == 0 else stddev / abs(mean)
    return share if math.isfinite(share) else None
