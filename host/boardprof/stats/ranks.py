# SPDX-License-Identifier: Apache-2.0
"""Tests that go by ranks, so that no outlier and no shape of distribution misleads them."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from boardprof.stats.summary import Number

__all__ = ["mann_whitney", "mid_ranks", "rank_correlation", "smallest_p"]

_EXACT_UP_TO = 20
"""Samples a side for which all arrangements are counted: beyond, the normal curve is as good."""

_MANY = 100


def mann_whitney(first: Sequence[Number], second: Sequence[Number]) -> float:
    """Return how probable so large a difference in location is if there is none; two-sided.

    Exact for up to 20 samples a side without ties; else by the normal approximation, with the
    correction for ties and for continuity (Mann and Whitney, 1947; Lehmann, Nonparametrics, 1.2).

    Args:
        first: at least one.
        second: at least one.

    Returns:
        p, 0 <= p <= 1; 1 where all samples are alike.
    """
    n1, n2 = len(first), len(second)
    both = [*first, *second]
    ties = [count for count in Counter(both).values() if count > 1]
    rank_sum = sum(mid_ranks(both)[:n1])
    u1 = rank_sum - n1 * (n1 + 1) / 2
    smaller = min(u1, n1 * n2 - u1)
    if not ties and max(n1, n2) <= _EXACT_UP_TO:
        ways = _arrangements(min(n1, n2), max(n1, n2))
        return min(1.0, 2 * sum(ways[: int(smaller) + 1]) / math.comb(n1 + n2, n1))
    n = n1 + n2
    tied = sum(count**3 - count for count in ties) / (n * (n - 1))
    variance = n1 * n2 / 12 * (n + 1 - tied)
    if variance <= 0:
        return 1.0
    distance = max(0.0, n1 * n2 / 2 - smaller - 0.5)
    return math.erfc(distance / math.sqrt(2 * variance))


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
def _arrangements(n1: int, n2: int) -> tuple[int, ...]:
    """Return for each U in how many of the arrangements of n1 and n2 distinct values it comes up.

    Their generating function is the Gaussian binomial: the product of (1 - x^(n2+i)) / (1 - x^i).
    """
    ways = [0] * (n1 * n2 + 1)
    ways[0] = 1
    for i in range(1, n1 + 1):
        for power in range(len(ways) - 1, n2 + i - 1, -1):
            ways[power] -= ways[power - n2 - i]
        for power in range(i, len(ways)):
            ways[power] += ways[power - i]
    return tuple(ways)
