# SPDX-License-Identifier: Apache-2.0
"""Whether samples fall into two groups, or a few are far from the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from boardprof.stats.summary import Number, percentile

_LEAST_SHARE = 0.2
_LEAST_SAMPLES = 3
_LEAST_GAP = 2
_LEAST_GAP_APART = 4
"""Least ratio of the gap to the spread of most samples.

With ten exponentially distributed samples, one run in 140 has such a gap below its largest.
"""
_FEWEST_NOT_EQUAL = 10


@dataclass(frozen=True)
class Mode:
    """One of two groups: its number of samples, and their median."""

    n: int
    middle: float


@dataclass(frozen=True)
class Apart:
    """Samples that are far from most others.

    Attributes:
        indices: of these samples, in run order.
        most: the median of the others.
        middle: their own median.
    """

    indices: tuple[int, ...]
    most: float
    middle: float


def samples_apart(values: Sequence[Number], least_gap: float) -> Apart | None:
    """Return the samples that are clearly apart from most others; None if there are none.

    Most are more than half. They are alike if the gap to the nearest other sample is more than four
    times their spread. Fewer than ten samples must be equal. An interrupt makes such a gap, whether
    in one sample of a hundred or in every third.

    Args:
        values: in run order.
        least_gap: smaller gaps do not count.
    """
    rising = sorted(range(len(values)), key=values.__getitem__)
    for order in (rising, rising[::-1]):
        ordered = [float(values[i]) for i in order]
        for cut in range(len(ordered) // 2 + 1, len(ordered)):
            gap = abs(ordered[cut] - ordered[cut - 1])
            spread = abs(ordered[cut - 1] - ordered[0])
            if len(ordered) < _FEWEST_NOT_EQUAL and spread > 0:
                break
            if gap > max(least_gap, _LEAST_GAP_APART * spread):
                most, rest = sorted(ordered[:cut]), sorted(ordered[cut:])
                indices = tuple(sorted(order[cut:]))
                return Apart(indices, percentile(most, 50), percentile(rest, 50))
    return None


def two_modes(values: Sequence[Number]) -> tuple[Mode, Mode] | None:
    """Return the lower and the upper group of samples; None if they are not two groups.

    They are split where the variance between the two is largest (Otsu's threshold). Each group
    needs a fifth of the samples, and at least three. The gap must be twice as wide as either group
    without its outermost tenths. With ten evenly spread samples, one run in thirty looks like this.
    """
    ordered = sorted(map(float, values))
    cut = _best_cut(ordered)
    low, high = ordered[:cut], ordered[cut:]
    least = max(_LEAST_SAMPLES, _LEAST_SHARE * len(ordered))
    if min(len(low), len(high)) < least:
        return None
    gap = percentile(high, 10) - percentile(low, 90)
    if gap <= _LEAST_GAP * max(percentile(part, 90) - percentile(part, 10) for part in (low, high)):
        return None
    return Mode(len(low), percentile(low, 50)), Mode(len(high), percentile(high, 50))


def _best_cut(ordered: Sequence[float]) -> int:
    """Return the number of values below the cut with the largest variance between both sides."""
    n, total, below = len(ordered), sum(ordered), 0.0
    best, cut = -1.0, 0
    for i in range(1, n):
        below += ordered[i - 1]
        between = i * (n - i) * (below / i - (total - below) / (n - i)) ** 2
        if between > best and ordered[i] != ordered[i - 1]:
            best, cut = between, i
    return cut
