# SPDX-License-Identifier: Apache-2.0
"""What a Report says of interrupts in the windows of a measurement."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from boardprof.decode.samples import Reading, Sample

__all__ = [
    "HOOKED",
    "NOT_MASKED",
    "TICKS",
    "Interrupts",
    "interrupt_costs",
    "interrupts_in",
    "switches_in",
]
__all__ += ["window_s", "without_costs"]

HOOKED: Final = "interrupts"
"""The counter of interrupts whose handlers have hooks, and the collector that leaves them out."""

TICKS: Final = "interrupt-ticks"
"""The counter of what they took, hooks included."""

_SWITCHES = "context-switches"


@dataclass(frozen=True)
class Interrupts:
    """Whether interrupts ran within a measurement's windows.

    Attributes:
        masked: none did: each sample's window ran with interrupts masked.
        timer_us: time between two interrupts of a timer that the board knows of, microseconds; 0:
            it knows of none.
        bound_ns: most that an interrupt takes outside of its hooks, by the board's port; 0: it does
            not say.
        kept_by: counters that cannot leave interrupts with hooks out.
    """

    masked: bool = False
    timer_us: int = 0
    bound_ns: int = 0
    kept_by: tuple[str, ...] = ()

    def missed_in(self, sample: Sample) -> int:
        """Return how many of the timer's interrupts a window has in its counts at least."""
        seconds = window_s(sample.readings)
        if self.masked or not self.timer_us or seconds is None:
            return 0
        known = interrupts_in(sample) + switches_in(sample)
        return max(0, int(seconds * 1e6 / self.timer_us) - known)

    def doubts(self, samples: Sequence[Sample], costs: Mapping[str, Fraction]) -> Iterator[str]:
        """Yield why the counts of windows with hooked interrupts are inexact.

        Args:
            samples: of one function.
            costs: see `interrupt_costs`.
        """
        hit = sum(interrupts_in(each) > 0 for each in samples)
        if hit and not costs:
            bound = f"up to {self.bound_ns:,} ns" if self.bound_ns else "nobody knows how much"
            yield (
                f"interrupts in {hit} of {len(samples)} samples have left in them what they take "
                f"outside of their hooks, {bound} each"
            )
        if hit and self.kept_by:
            yield f"interrupts in {hit} of {len(samples)} samples are in {', '.join(self.kept_by)}"
        switched = sum(switches_in(each) > 0 for each in samples)
        if switched:
            yield (
                f"switches to other tasks in {switched} of {len(samples)} samples have left in "
                "them what the switch itself takes"
            )


NOT_MASKED: Final = Interrupts()
"""Whatever interrupts there were ran, and no timer is known."""


def interrupts_in(sample: Sample) -> int:
    """Return how many interrupts with hooks came in a window."""
    reading = sample.readings.get(HOOKED)
    return 0 if reading is None else reading.value


def switches_in(sample: Sample) -> int:
    """Return how often a window was left for another task."""
    reading = sample.readings.get(_SWITCHES)
    return 0 if reading is None else reading.value


def window_s(readings: Mapping[str, Reading]) -> float | None:
    """Return how long a window lasted by the board's own clock, seconds; None: none was read."""
    return next((each.value / each.hz for each in readings.values() if each.hz), None)


def interrupt_costs(
    triggered: Sequence[Sample], masked: Sequence[Sample], counters: Collection[str]
) -> dict[str, Fraction]:
    """Return what one interrupt takes outside of its hooks: counter -> in its units.

    Args:
        triggered: windows in which empty interrupts were triggered.
        masked: the same windows, in which they waited until the end.
        counters: those that leave interrupts out.

    Returns:
        Nothing if there was a window without an interrupt, or one came that should have waited.
    """
    count = min(map(interrupts_in, triggered))
    if not count or any(map(interrupts_in, masked)):
        return {}
    hit = [each for each in triggered if interrupts_in(each) == count]  # by the fewest others
    found = {}
    for name in counters:
        if all(name in each.readings for each in (*hit, *masked)):
            taken, without = (
                statistics.median_low([each.readings[name].value for each in windows])
                for windows in (hit, masked)
            )
            found[name] = Fraction(taken - without, count)
    return found


def without_costs(sample: Sample, costs: Mapping[str, Fraction]) -> Sample:
    """Return a sample whose readings know what its interrupts took outside of their hooks."""
    count = interrupts_in(sample)
    if not count:
        return sample
    readings = {
        name: replace(each, outside_hooks=round(costs[name] * count)) if name in costs else each
        for name, each in sample.readings.items()
    }
    return Sample(readings, sample.raw)
