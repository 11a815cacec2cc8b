# SPDX-License-Identifier: Apache-2.0
"""What timing gives, and how many calls it takes: figures and rule of TVM's time evaluator."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

from boardprof.errors import UsageError

__all__ = ["MOST_CALLS", "BenchmarkResult", "next_number", "time_long_enough"]

_GROWTH = 1.618
"""Least factor between the numbers of calls of two attempts."""

MOST_CALLS = (1 << 32) - 1
"""In one window: what the wire holds."""


@dataclass(frozen=True)
class BenchmarkResult:
    """What a time evaluator measured; names and units are TVM's.

    Attributes:
        results: seconds a call, one for each repeat, in run order.

    Raises:
        UsageError: there are none.
    """

    results: tuple[float, ...]

    def __post_init__(self) -> None:
        """See that there is something to take figures of."""
        if not self.results:
            raise UsageError("A BenchmarkResult takes one result or more.")

    @property
    def mean(self) -> float:
        """Average, in seconds."""
        return statistics.fmean(self.results)

    @property
    def median(self) -> float:
        """Middle, or halfway between the middle two, in seconds."""
        return statistics.median(self.results)

    @property
    def min(self) -> float:
        """Shortest, in seconds."""
        return min(self.results)

    @property
    def max(self) -> float:
        """Longest, in seconds."""
        return max(self.results)

    @property
    def std(self) -> float:
        """Standard deviation of the results as a whole (divided by n), in seconds."""
        return statistics.pstdev(self.results)

    def __str__(self) -> str:
        """Return the five figures in milliseconds."""
        names = ("mean", "median", "max", "min", "std")
        head = "".join(f"{f'{name} (ms)':>13}" for name in names)
        line = "".join(f"{1e3 * getattr(self, name):>13.4f}" for name in names)
        return f"Execution time of a call, {len(self.results)} samples:\n{head}\n{line}"


def time_long_enough(
    seconds: Callable[[int], float],
    number: int,
    min_repeat_ms: float,
    limit_zero: int,
    *,
    may_grow: Callable[[], bool] = lambda: True,
) -> tuple[int, float]:
    """Call ``seconds`` with growing numbers until they take ``min_repeat_ms``.

    Args:
        seconds: from a number of calls to the time that they take together.
        number: of calls, to begin with.
        min_repeat_ms: what is long enough.
        limit_zero: how many times may be 0 or less before the last one is taken.
        may_grow: asked behind an attempt; False: it is taken. By a clock that wraps unseen none is
            ever long enough.

    Returns:
        The number of the last attempt, and its time in seconds.
    """
    zeros = 0
    while True:
        taken_s = seconds(number)
        zeros += taken_s <= 0
        is_over = zeros >= limit_zero or number == MOST_CALLS or not may_grow()
        if is_over or 1e3 * max(taken_s, 0.0) >= min_repeat_ms:
            return number, taken_s
        if taken_s > 0:
            number = next_number(number, 1e3 * taken_s, min_repeat_ms)


def next_number(number: int, taken_ms: float, min_repeat_ms: float) -> int:
    """Return how many calls the next attempt has, if ``number`` calls took ``taken_ms`` > 0."""
    wanted = max(min_repeat_ms / (taken_ms / number) + 1, number * _GROWTH)
    return min(int(wanted), MOST_CALLS)
