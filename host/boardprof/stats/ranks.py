# SPDX-License-Identifier: Apache-2.0
"""Tests that go by ranks, so that no outlier and no shape of distribution misleads them."""

from __future__ import annotations

import itertools
import math
import struct
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from boardprof.stats.summary import Number, magnitude

__all__ = ["mann_whitney", "mid_ranks", "rank_correlation", "signed_rank", "smallest_p"]

_EXACT_UP_TO = 400
"""Pairs of samples, 20 a side: up to there all arrangements are counted, ties or not. Beyond, the
normal curve is as good; of few samples with ties it gives a p that is far too small."""

_MANY = 100
_MOST_PAIRS = 50


def mann_whitney(first: Sequence[Number], second: Sequence[Number]) -> float:
    """Return how probable so large a difference in location is if there is none; two-sided.

    Exact for up to 400 pairs of samples, 20 a side, also with ties: twice the smaller tail of the
    arrangements. Else by the normal approximation, with the correction for ties and for continuity
    (Mann and Whitney, 1947; Lehmann, Nonparametrics, 1.2 and 1.4).

    Args:
        first: at least one.
        second: at least one.

    Returns:
        p, 0 <= p <= 1; 1 where all samples are alike.
    """
    if len(first) > len(second):
        first, second = second, first
    n1, n2 = len(first), len(second)
    ranks = mid_ranks([*first, *second])
    rank_sum = sum(ranks[:n1])
    if n1 * n2 <= _EXACT_UP_TO:
        ways = _arrangements(tuple(sorted(int(2 * rank) for rank in ranks)), n1)
        place = int(2 * rank_sum)
        return min(1.0, 2 * min(sum(ways[: place + 1]), sum(ways[place:])) / sum(ways))
    n = n1 + n2
    tied = sum(count**3 - count for count in Counter(ranks).values()) / (n * (n - 1))
    variance = n1 * n2 / 12 * (n + 1 - tied)
    if variance <= 0:
        return 1.0
    distance = max(0.0, abs(rank_sum - n1 * (n + 1) / 2) - 0.5)
    return math.erfc(distance / math.sqrt(2 * variance))


def signed_rank(differences: Sequence[Number]) -> float:
    """Return how probable it is that pairs differ so much to one side by chance; two-sided.

    Wilcoxon's signed-rank test, exact for up to 50 pairs, also with ties: all signs are counted.
    Else by the normal approximation, with the correction for continuity (Lehmann, Nonparametrics,
    3.2). Pairs that do not differ are left out.

    Returns:
        p, 0 <= p <= 1; 1 where no pair differs.
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
    """Return the smallest p that so many samples a side can give: all of one below the other.

    Of more than 100 a side, something that is not smaller.
    """
    n1, n2 = min(n1, _MANY), min(n2, _MANY)
    return min(1.0, 2 / math.comb(n1 + n2, n1))


def mid_ranks(values: Sequence[Number]) -> list[float]:
    """Return the rank of each value, from 1; equal ones share the mean of theirs."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    place = 0
    for _, group in itertools.groupby(order, key=values.__getitem__):
        members = list(group)
        for index in members:
            ranks[index] = place + (len(members) + 1) / 2
        place += len(members)
    return ranks


def rank_correlation(values: Sequence[Number]) -> float:
    """Return Spearman's correlation of values with their order: 1 rises always, -1 falls always.

    0 of fewer than two samples, and where all are alike.
    """
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
    """Return for each sum how many choices of so many of the ranks have it.

    The numbers stand side by side in one large integer, 64 bits each, of which none overflows: so
    a rank more is one shift and one addition for all sums.
    """
    by_size = [1] + [0] * chosen
    for place, rank in enumerate(ranks, 1):
        for size in range(min(place, chosen), 0, -1):
            by_size[size] += by_size[size - 1] << (64 * rank)
    sums = sum(ranks[-chosen:]) + 1
    return struct.unpack(f"<{sums}Q", by_size[chosen].to_bytes(8 * sums, "little"))
