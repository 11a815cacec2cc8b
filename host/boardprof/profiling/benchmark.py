# SPDX-License-Identifier: Apache-2.0
"""Results of timing and the number of calls, by the rules of TVM's time evaluator."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from boardprof.errors import UsageError

_GROWTH = 1.618
"""Least factor between the numbers of calls of two attempts."""

MOST_CALLS = (1 << 32) - 1
"""Maximum number of calls in one window: the limit of the wire format."""


@dataclass(frozen=True)
class BenchmarkResult:
    """What a time evaluator measured; names and units are TVM's.

    Attributes:
        results: seconds per call, one for each repeat, in run order.

    Raises:
        UsageError: there are no results.
    """

    results: tuple[float, ...]

    def __post_init__(self) -> None:
        """Check that there are results."""
        if not self.results:
            raise UsageError("A BenchmarkResult needs at least one result.")

    @property
    def mean(self) -> float:
        """The mean, in seconds."""
        return statistics.fmean(self.results)

    @property
    def median(self) -> float:
        """The median, in seconds."""
        return statistics.median(self.results)

    @property
    def min(self) -> float:
        """The minimum, in seconds."""
        return min(self.results)

    @property
    def max(self) -> float:
        """The maximum, in seconds."""
        return max(self.results)

    @property
    def std(self) -> float:
        """Population standard deviation of the results (divided by n), in seconds."""
        return statistics.pstdev(self.results)

    def __str__(self) -> str:
        """Return the five statistics in milliseconds."""
        names = ("mean", "median", "max", "min", "std")
        head = "".join(f"{f'{name} (ms)':>13}" for name in names)
        line = "".join(f"{1e3 * getattr(self, name):>13.4f}" for name in names)
        return f"Execution time of a call, {len(self.results)} samples:\n{head}\n{line}"


class Timed(NamedTuple):
    """Seconds of some calls: their own, and with what the board takes to make them."""

    net_s: float
    whole_s: float


def time_long_enough(
    timed: Callable[[int], Timed],
    number: int,
    min_repeat_ms: float,
    limit_zero: int,
    *,
    may_grow: Callable[[], bool] = lambda: True,
) -> tuple[int, float]:
    """Call ``timed`` with growing numbers until they take ``min_repeat_ms``.

    The whole time has to be long enough, as in TVM. The net time of a function that costs as much
    as an empty one never is.

    Args:
        timed: function from a number of calls to their time.
        number: of calls in the first attempt.
        min_repeat_ms: time that is long enough.
        limit_zero: number of times of 0 or less after which the last one is accepted.
        may_grow: called after an attempt; False accepts it. With a clock that wraps unseen, no
            attempt would ever be long enough.

    Returns:
        The number of the last attempt, and its net time in seconds.
    """
    zeros = 0
    while True:
        net_s, taken_s = timed(number)
        zeros += taken_s <= 0
        is_over = zeros >= limit_zero or number == MOST_CALLS or not may_grow()
        if is_over or 1e3 * max(taken_s, 0.0) >= min_repeat_ms:
            return number, net_s
        if taken_s > 0:
            number = next_number(number, 1e3 * taken_s, min_repeat_ms)


def next_number(number: int, taken_ms: float, min_repeat_ms: float) -> int:
    """Return how many calls the next attempt has, if ``number`` calls took ``taken_ms`` > 0."""
    wanted = max(min_repeat_ms / (taken_ms / number) + 1, number * _GROWTH)
    return min(int(wanted), MOST_CALLS)
