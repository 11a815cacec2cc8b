# SPDX-License-Identifier: Apache-2.0
"""Rank tests, which outliers and the shape of the distribution do not affect."""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from boardprof.results.stats.summary import Number, magnitude

FEWEST_SAMPLES: Final = 5
"""With fewer per side, no rank test gives p < 0.01: two times four samples have 70 arrangements."""

_EXACT_UP_TO = 400
"""Pairs of samples (20 per side) up to which all arrangements are counted, even with ties. Beyond,
the normal approximation is as good; for few samples with ties its p is far too small.
"""

_MANY = 100
_MOST_PAIRS = 50


def mann_whitney(first: Sequence[Number], second: Sequence[Number]) -> float:
    """Return the two-sided p of the observed difference in location under the null hypothesis.

    Exact for up to 400 pairs of samples (20 per side), also with ties: twice the smaller tail of
    the arrangements. Otherwise by the normal approximation, with corrections for ties and for
    continuity (Mann and Whitney, 1947; Lehmann, Nonparametrics, 1.2 and 1.4).
    """
    if len(first) > len(second):
        first, second = second, first
    n1, n2 = len(first), len(second)
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


def signed_rank(differences: Sequence[Number]) -> float:
    """Return the two-sided p that pairs differ this much to one side by chance.

    Wilcoxon's signed-rank test, exact for up to 50 pairs, also with ties: all signs are counted.
    Otherwise by the normal approximation, with the correction for continuity (Lehmann,
    Nonparametrics, 3.2). Pairs without a difference are left out.
    """
    sizes = [magnitude(each) for each in differences if each != 0]
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


def mid_ranks(values: Sequence[Number]) -> list[float]:
    """Return the rank of each value, from 1; equal ones share the mean of theirs."""
    rank_of = _rank_of(Counter(values))
    return [rank_of[value] for value in values]


def _rank_of(counts: Mapping[Number, int]) -> dict[Number, float]:
    """Return the rank of each distinct value from its number of occurrences; see `mid_ranks`."""
    ranks, place = {}, 0
    for value in sorted(counts):
        ranks[value] = place + (counts[value] + 1) / 2
        place += counts[value]
    return ranks


def rank_correlation(values: Sequence[Number]) -> float:
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
