# SPDX-License-Identifier: Apache-2.0
"""Samples in a few numbers, with their outliers; tests of ranks, and changes in a series."""

from __future__ import annotations

import itertools
import math
import statistics
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from boardprof.base.errors import UsageError
from boardprof.results.report.calls import LARGE, numbers_of

if TYPE_CHECKING:
    import numpy.typing as npt

PERCENTILES: Final = (5, 25, 75, 95)  # percentiles of a Summary; the 50th is the median

OUTLIER_SCORE: Final = 3.5
"""A modified z-score beyond which a sample is an outlier (Iglewicz and Hoaglin, 1993)."""

_LARGEST = 1e150  # from here on, the sum of samples' squares would not fit a float

_MAD_TO_SIGMA = 0.6745  # median absolute deviation of a normal distribution, in standard deviations

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
    """

    n: int  #: how many samples, >= 1
    minimum: int | float  #: the smallest
    median: int | float  #: the middle one, or halfway between the middle two
    mean: int | float  #: the average
    maximum: int | float  #: the largest
    stddev: float | None  #: standard deviation of the sample (n - 1); None for a single sample
    #: coefficient of variation, ``stddev / |mean|``; None if either is missing or 0
    cv: float | None
    #: 5, 25, 75 and 95 -> value, interpolated between samples
    percentiles: Mapping[int, int | float]
    outliers: tuple[int, ...] = ()  #: indices of the outliers, in run order
    #: the cold value, of the first call before the warm-up; None if not measured
    first: int | float | None = None
    #: the board is deterministic and all samples are equal, so they have no noise
    is_exact: bool = False

    def exactly(self, name: str) -> int | float:
        """Return the value of ``min``, ``median``, ``cold`` or ``p95``, which must exist."""
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
    if set(map(type, values)) == {int}:
        return _quotient(sum(values), len(values))
    return statistics.fmean(values)


def _quotient(number: int | float, by: int) -> int | float:
    return number / by if number % by else int(number // by)


def _stddev(values: Sequence[int | float], mean: int | float) -> float:
    middle = float(mean)
    squares = math.fsum((value - middle) ** 2 for value in map(float, values))
    return math.sqrt(squares / (len(values) - 1))


def _share(stddev: float, mean: int | float) -> float | None:
    """Return the coefficient of variation; None if it does not exist or does not fit a float."""
    share = math.inf if mean == 0 else stddev / abs(mean)
    return share if math.isfinite(share) else None


# -- rank tests ----------------------------------------------------------------------------------

FEWEST_SAMPLES: Final = 5
"""With fewer per side, no rank test gives p < 0.01: two times four samples have 70 arrangements."""

_EXACT_UP_TO = 400
"""Pairs of samples (20 per side) up to which all arrangements are counted, even with ties. Beyond,
the normal approximation is as good; for few samples with ties its p is far too small.
"""

_MANY = 100
_MOST_PAIRS = 50


def mann_whitney(first: Sequence[int | float], second: Sequence[int | float]) -> float:
    """Return the two-sided p of the observed difference in location under the null hypothesis.

    Exact for up to 400 pairs of samples (20 per side), also with ties: twice the smaller tail of
    the arrangements. Otherwise by the normal approximation, with corrections for ties and for
    continuity (Mann and Whitney, 1947; Lehmann, Nonparametrics, 1.2 and 1.4).
    """
    if len(first) > len(second):
        first, second = second, first
    n1, n2 = len(first), len(second)
    if n1 * n2 == 1:
        return 1.0
    counts = Counter(first)
    counts.update(second)
    rank_of = _rank_of(counts)
    rank_sum = sum(rank_of[value] * count for value, count in Counter(first).items())
    if n1 * n2 <= _EXACT_UP_TO:
        ranks = [int(2 * rank_of[value]) for value in sorted(counts.elements())]
        ways = _arrangements(tuple(ranks), n1)
        place = int(2 * rank_sum)
        return min(1.0, 2 * min(sum(ways[: place + 1]), sum(ways[place:])) / sum(ways))
    n = n1 + n2
    tied = sum(count**3 - count for count in counts.values()) / (n * (n - 1))
    variance = n1 * n2 / 12 * (n + 1 - tied)
    if variance <= 0:
        return 1.0
    distance = max(0.0, abs(rank_sum - n1 * (n + 1) / 2) - 0.5)
    return math.erfc(distance / math.sqrt(2 * variance))


def signed_rank(differences: Sequence[int | float]) -> float:
    """Return the two-sided p that pairs differ this much to one side by chance.

    Wilcoxon's signed-rank test, exact for up to 50 pairs, also with ties: all signs are counted.
    Otherwise by the normal approximation, with the correction for continuity (Lehmann,
    Nonparametrics, 3.2). Pairs without a difference are left out.
    """
    sizes = [abs(each) for each in differences if each != 0]
    ranks = [int(2 * rank) for rank in mid_ranks(sizes)]
    signs = [each > 0 for each in differences if each != 0]
    above: int = sum(rank for rank, is_above in zip(ranks, signs, strict=True) if is_above)
    n = len(ranks)
    tail = min(above, sum(ranks) - above)
    if n > _MOST_PAIRS:
        distance = max(0.0, sum(ranks) / 2 - tail - 1)
        return math.erfc(distance / math.sqrt(2 * sum(rank * rank for rank in ranks) / 4))
    ways = 1  # the number of choices of each sum, 64 bits each, side by side in one integer
    for rank in ranks:
        ways += ways << (64 * rank)
    counts = struct.unpack(f"<{sum(ranks) + 1}Q", ways.to_bytes(8 * (sum(ranks) + 1), "little"))
    return float(min(1.0, 2 * sum(counts[: tail + 1]) / (1 << n)))


def smallest_p(n1: int, n2: int) -> float:
    """Return the smallest p possible, or an upper bound of it for more than 100 per side."""
    n1, n2 = min(n1, _MANY), min(n2, _MANY)
    return min(1.0, 2 / math.comb(n1 + n2, n1))


def mid_ranks(values: Sequence[int | float]) -> list[float]:
    """Return the rank of each value, from 1; equal ones share the mean of theirs."""
    rank_of = _rank_of(Counter(values))
    return [rank_of[value] for value in values]


def _rank_of(counts: Mapping[int | float, int]) -> dict[int | float, float]:
    """Return the rank of each distinct value from its number of occurrences; see `mid_ranks`."""
    ranks, place = {}, 0
    for value in sorted(counts):
        ranks[value] = place + (counts[value] + 1) / 2
        place += counts[value]
    return ranks


def rank_correlation(values: Sequence[int | float]) -> float:
    """Return Spearman's correlation of values with their order; 0 if under two or all equal."""
    n = len(values)
    middle = (n + 1) / 2
    ranks = mid_ranks(values)
    squares = sum((rank - middle) ** 2 for rank in ranks)
    if squares == 0:
        return 0.0
    product = sum((rank - middle) * (i + 1 - middle) for i, rank in enumerate(ranks))
    return product / math.sqrt(squares * (n**3 - n) / 12)


@lru_cache(maxsize=64)
def _arrangements(ranks: tuple[int, ...], chosen: int) -> tuple[int, ...]:
    """Return, for each sum, the number of choices of that many ranks with this sum.

    The numbers are packed into one large integer, 64 bits each, and none overflows. So one more
    rank takes one shift and one addition for all sums.
    """
    by_size = [1] + [0] * chosen
    for place, rank in enumerate(ranks, 1):
        for size in range(min(place, chosen), 0, -1):
            by_size[size] += by_size[size - 1] << (64 * rank)
    sums = sum(ranks[-chosen:]) + 1
    return struct.unpack(f"<{sums}Q", by_size[chosen].to_bytes(8 * sums, "little"))


# -- changes in a series -------------------------------------------------------------------------

FALSE_ALARMS: Final = 0.01  # the largest share of series without a change in which one is found


@dataclass(frozen=True)
class Change:
    """A place from which on values have another level."""

    at: int  #: number of the first value after the change, from 0
    before: int | float  #: median of the values since the change before this one
    after: int | float  #: median of the values up to the next change
    #: the probability of a difference like this one anywhere in a series without a change; None for
    #: exact values
    p: float | None


def change_points(values: Sequence[int | float], *, is_exact: bool = False) -> list[Change]:
    """Return the changes of level in a series, in its order.

    Exact values change wherever a value differs from the one before it.

    Other values are searched twice: for a place where the level changes, then for a stretch with
    another level than before and after it. The rank test of Mann and Whitney compares both parts,
    and its p is multiplied by the number of parts that are tested (Bonferroni). Each search may err
    in 0.5 %. So at most 1 % of series without a change have one, however the values are
    distributed, if they do not depend on each other. The parts are searched in the same way. An
    outlier has a rank like any other value. A series of 50 needs at least three values after a
    change to find it, a series of 20 needs five; fewer than twelve values never have a change.

    Args:
        values: one for each run, the oldest first.
        is_exact: they repeat exactly as long as the code does not change.
    """
    splits: list[tuple[int, float | None]]
    if is_exact:
        pairs = itertools.pairwise(values)
        splits = [(i, None) for i, (old, new) in enumerate(pairs, 1) if old != new]
    else:
        splits = [*sorted(_splits(values, 0))]
    ends = [0, *(at for at, _ in splits), len(values)]
    levels = [percentile(sorted(values[a:b]), 50) for a, b in itertools.pairwise(ends) if b > a]
    return [Change(at, levels[i], levels[i + 1], p) for i, (at, p) in enumerate(splits)]


def _splits(values: Sequence[int | float], first: int) -> Iterator[tuple[int, float]]:
    """Yield where a part of a series splits, and the p; ``first`` is its first value's number."""
    searches = (_heads, _stretches)
    for parts_of in searches:
        parts = _detectable(len(values), parts_of, FALSE_ALARMS / len(searches))
        if not parts:
            continue
        (start, end), p = _most_different(values, parts)
        p *= len(parts) * len(searches)
        if p < FALSE_ALARMS:
            places = [place for place in (start, end) if 0 < place < len(values)]
            yield from ((first + place, p) for place in places)
            for a, b in itertools.pairwise([0, *places, len(values)]):
                yield from _splits(values[a:b], first + a)
            return


_Part: TypeAlias = tuple[int, int]  # first value of a part, and the first one after it


def _heads(n: int, least: int) -> list[_Part]:
    """Return the beginnings of a series that leave ``least`` values in both parts."""
    return [(0, end) for end in range(least, n - least + 1)]


def _stretches(n: int, least: int) -> list[_Part]:
    """Return the parts within a series that leave ``least`` values inside and outside."""
    return [
        (start, start + size)
        for size in range(least, n - least + 1)
        for start in range(1, n - size)
    ]


def _detectable(n: int, parts_of: Callable[[int, int], list[_Part]], level: float) -> list[_Part]:
    """Return the parts that could be found to differ; shorter ones do not count as tests."""
    for least in range(1, n // 2 + 1):
        parts = parts_of(n, least)
        if parts and smallest_p(least, n - least) * len(parts) < level:
            return parts
    return []


def _most_different(values: Sequence[int | float], parts: Sequence[_Part]) -> tuple[_Part, float]:
    """Return the part with the smallest p, which is not corrected for the number of parts."""
    sums = [0.0, *itertools.accumulate(mid_ranks(values))]
    by_size: dict[int, list[_Part]] = {}
    for part in parts:
        by_size.setdefault(part[1] - part[0], []).append(part)

    def rank_sum(part: _Part) -> float:
        return sums[part[1]] - sums[part[0]]

    # Among parts of one size, p is smallest for the smallest or the largest rank sum.
    ends = (choice(each, key=rank_sum) for each in by_size.values() for choice in (min, max))
    tested = {
        (start, end): mann_whitney(values[start:end], [*values[:start], *values[end:]])
        for start, end in ends
    }
    found = min(tested, key=lambda part: (tested[part], part))
    return found, tested[found]
