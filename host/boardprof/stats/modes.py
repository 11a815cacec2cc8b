# SPDX-License-Identifier: Apache-2.0
"""Whether samples fall into two parts, or a few stand apart from the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from boardprof.stats.summary import Number, percentile

__all__ = ["Apart", "Mode", "samples_apart", "two_modes"]

_LEAST_SHARE = 0.2
_LEAST_SAMPLES = 3
_LEAST_GAP = 2
_LEAST_GAP_APART = 4
"""How much wider the gap is than all that most samples spread over.

Of ten exponentially distributed samples, one run in 140 has such a gap below its largest.
"""
_FEWEST_NOT_EQUAL = 10


@dataclass(frozen=True)
class Mode:
    """One of two parts: how many samples, and the middle one of them."""

    n: int
    middle: float


@dataclass(frozen=True)
class Apart:
    """Samples that stand apart from most others.

    Attributes:
        indices: of those that stand apart, in run order.
        most: the middle of the others.
        middle: their own middle.
    """

    indices: tuple[int, ...]
    most: float
    middle: float


def samples_apart(values: Sequence[Number], least_gap: float) -> Apart | None:
    """Return the samples that stand clearly apart while most are alike; None if there are none.

    Most are more than half. They are alike if the gap to the nearest of the rest is more than four
    times as wide as all that they spread over; fewer than ten samples must be equal. An interrupt
    makes such a gap, be it in one sample of a hundred or in every third.

    Args:
        values: in run order.
        least_gap: smaller gaps do not count.
    """
    rising = sorted(range(len(values)), key=lambda i: values[i])
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
    """Return the lower and the upper part of samples, None where they are no two parts.

    They are cut where the parts differ most (the variance between them is largest, as Otsu's
    threshold is found). Parts are parts where each has a fifth of the samples, three at least, and
    the gap between the two is twice as wide as either of them without its outermost tenths: of ten
    evenly spread samples, one run in thirty looks so.
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
    """Return how many of the values are below the cut between which the variance is largest."""
    n, total, below = len(ordered), sum(ordered), 0.0
    best, cut = -1.0, 0
    for i in range(1, n):
        below += ordered[i - 1]
        between = i * (n - i) * (below / i - (total - below) / (n - i)) ** 2
        if between > best and ordered[i] != ordered[i - 1]:
            best, cut = between, i
    return cut
