# SPDX-License-Identifier: Apache-2.0
"""The number of calls of a function: warm-up calls, samples, and calls per sample."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from typing import SupportsIndex

from boardprof.errors import UsageError
from boardprof.measure.counted_pass import CALIBRATION_SAMPLES


def check_range(name: str, value: SupportsIndex, least: int, most: int) -> int:
    """Return a whole number, such as numpy's, as an int; raise UsageError if out of range."""
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
        """Check the ranges, which are those of the wire format, and convert to int."""
        for name, least, most in (
            ("warmup", 0, (1 << 31) - 1),
            ("repeat", 1, (1 << 32) - 1),
            ("number", 1, (1 << 32) - 1),
        ):
            object.__setattr__(self, name, check_range(name, getattr(self, name), least, most))

    @property
    def in_all(self) -> int:
        """Number of rounds on the board, including those of the calibration."""
        return min(self.warmup, 1) + CALIBRATION_SAMPLES + self.warmup + self.repeat

    def shortened(self, *, is_exact: bool) -> Rounds:
        """Return the fewest useful rounds, for a function that takes long.

        Args:
            is_exact: the board is emulated, so one sample is as good as many; a second one shows
                whether the function keeps state between calls.
        """
        from boardprof.stats.warnings import FEWEST_SAMPLES

        return replace(self, warmup=1, repeat=2 if is_exact else FEWEST_SAMPLES)
