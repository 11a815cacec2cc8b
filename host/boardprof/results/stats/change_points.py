# SPDX-License-Identifier: Apache-2.0
"""Where a series of values changes its level, such as the medians of a branch's runs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from boardprof.results.stats.ranks import mann_whitney, mid_ranks, smallest_p
from boardprof.results.stats.summary import Number, exact_percentile

__all__ = ["FALSE_ALARMS", "Change", "change_points"]

FALSE_ALARMS: Final = 0.01
"""The largest share of series without a change in which one is found."""


@dataclass(frozen=True)
class Change:
    """A place from which on values have another level.

    Attributes:
        at: number of the first value after the change, from 0.
        before: median of the values since the change before this one.
        after: median of the values up to the next change.
        p: the probability of a difference like this one anywhere in a series without a change; None
            for exact values.
    """

    at: int
    before: Number
    after: Number
    p: float | None


def change_points(values: Sequence[Number], *, is_exact: bool = False) -> list[Change]:
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
    levels = [_median(values[a:b]) for a, b in itertools.pairwise(ends) if b > a]
    return [Change(at, levels[i], levels[i + 1], p) for i, (at, p) in enumerate(splits)]


def _splits(values: Sequence[Number], first: int) -> Iterator[tuple[int, float]]:
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


_Part: TypeAlias = tuple[int, int]
"""First value of a part, and the first one after it."""


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


def _most_different(values: Sequence[Number], parts: Sequence[_Part]) -> tuple[_Part, float]:
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


def _median(values: Sequence[Number]) -> Number:
    return exact_percentile(sorted(values), 50)
