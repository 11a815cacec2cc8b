# SPDX-License-Identifier: Apache-2.0
"""One ratio for many functions: the geometric mean of after over before, metric by metric."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from boardprof.comparison.comparison import Difference
from boardprof.metrics import Count, Duration
from boardprof.stats.groups import SHARES


@dataclass(frozen=True)
class MeanRatio:
    """The geometric mean of after over before.

    Attributes:
        metric: column name.
        device: the board, or part of it.
        ratio: of the medians; below 1 if the functions got faster, or smaller.
        rows: how many rows have both medians above 0, at least 2.
        functions: number of functions in these rows.
    """

    metric: str
    device: str
    ratio: float
    rows: int
    functions: int

    @property
    def measured(self) -> str:
        """What the mean covers: ``10 functions``, ``30 measurements of 10 functions``."""
        functions = f"{self.functions:,} function{'' if self.functions == 1 else 's'}"
        is_one_each = self.rows == self.functions
        return functions if is_one_each else f"{self.rows:,} measurements of {functions}"


def mean_ratios(rows: Iterable[Difference]) -> list[MeanRatio]:
    """Return a mean for each metric and board with two or more rows, in their order.

    Only counts and times have a ratio. A median of 0 has no ratio and is left out.
    """
    found: dict[tuple[str, str], list[Difference]] = {}
    for row in rows:
        if _has_ratio(row):
            found.setdefault((row.metric, row.device), []).append(row)
    return [
        MeanRatio(metric, device, _mean(same), len(same), len({row.name for row in same}))
        for (metric, device), same in found.items()
        if len(same) > 1
    ]


def _has_ratio(row: Difference) -> bool:
    is_amount = row.kind in (Count, Duration) and row.metric not in SHARES
    is_there = row.before is not None and row.before.median > 0
    is_still = row.after is not None and row.after.median > 0
    return is_amount and is_there and is_still and row.verdict != "other calls"


def _mean(rows: list[Difference]) -> float:
    ratio = math.exp(math.fsum(map(_log_ratio, rows)) / len(rows))
    return float(f"{ratio:.12g}")  # logarithms miss 1 by a few bits, which is not a change


def _log_ratio(row: Difference) -> float:
    """Return the logarithm of after over before; counts may be larger than any float."""
    assert row.before is not None
    assert row.after is not None
    before, after = (Fraction(side.exactly("median")) for side in (row.before, row.after))
    if before == after:
        return 0.0
    above, below = after.numerator * before.denominator, before.numerator * after.denominator
    return math.log(above) - math.log(below)
