# SPDX-License-Identifier: Apache-2.0
"""The number of calls of a function: warm-up calls, samples, and calls per sample."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from typing import SupportsIndex

from boardprof.errors import UsageError
from boardprof.measure.counted_pass import CALIBRATION_SAMPLES


def check_range(name: str, value: SupportsIndex, least: int, most: int) -> int:
    """Return a whole number, also numpy's, as Python's; raise UsageError beyond its limits."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise UsageError(f"{name}={value!r} is not a whole number.")
    if not least <= number <= most:
        raise UsageError(f"{name}={number} is out of range: {least} to {most}.")
    return number


@dataclass(frozen=True)
class Rounds:
    """How often the function is called.

    Attributes:
        warmup: calls before the first sample, >= 0.
        repeat: samples, >= 1.
        number: calls in each sample, >= 1.

    Raises:
        UsageError: one is out of range.
    """

    warmup: int
    repeat: int
    number: int

    def __post_init__(self) -> None:
        """Check the ranges, which are those of the wire, and take Python's own numbers."""
        for name, least, most in (
            ("warmup", 0, (1 << 31) - 1),
            ("repeat", 1, (1 << 32) - 1),
            ("number", 1, (1 << 32) - 1),
        ):
            object.__setattr__(self, name, check_range(name, getattr(self, name), least, most))

    @property
    def in_all(self) -> int:
        """Rounds on the board, those of the calibration included."""
        return min(self.warmup, 1) + CALIBRATION_SAMPLES + self.warmup + self.repeat

    def shortened(self, *, is_exact: bool) -> Rounds:
        """Return as few as tell something, for a function that takes long.

        Args:
            is_exact: the board is emulated, so that one sample is as good as many; the second shows
                whether the function goes on from where it was.
        """
        from boardprof.stats.warnings import FEWEST_SAMPLES

        return replace(self, warmup=1, repeat=2 if is_exact else FEWEST_SAMPLES)
