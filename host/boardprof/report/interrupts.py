# SPDX-License-Identifier: Apache-2.0
"""What a Report says of interrupts in the windows of a measurement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from boardprof.decode.samples import Reading

__all__ = ["NOT_MASKED", "Interrupts", "window_s"]


@dataclass(frozen=True)
class Interrupts:
    """Whether interrupts ran within a measurement's windows.

    Attributes:
        masked: none did: each sample's window ran with interrupts masked.
        timer_us: time between two interrupts of a timer that the board knows of, microseconds; 0:
            it knows of none.
    """

    masked: bool = False
    timer_us: int = 0

    def least_in(self, readings: Mapping[str, Reading]) -> int:
        """Return how many of the timer's interrupts a window has in it at least."""
        seconds = window_s(readings)
        if self.masked or not self.timer_us or seconds is None:
            return 0
        return int(seconds * 1e6 / self.timer_us)


NOT_MASKED: Final = Interrupts()
"""Whatever interrupts there were ran, and no timer is known."""


def window_s(readings: Mapping[str, Reading]) -> float | None:
    """Return how long a window lasted by the board's own clock, seconds; None: none was read."""
    return next((each.value / each.hz for each in readings.values() if each.hz), None)
