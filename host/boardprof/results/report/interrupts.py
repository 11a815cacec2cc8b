# SPDX-License-Identifier: Apache-2.0
"""Interrupts in the windows of a measurement, for the Report."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from boardprof.wire.decode.samples import Reading, Sample

HOOKED: Final = "interrupts"
"""The counter of interrupts with hooked handlers, and the collector that leaves them out."""

TICKS: Final = "interrupt-ticks"
"""The counter of the time that they took, hooks included."""

_SWITCHES = "context-switches"


@dataclass(frozen=True)
class Interrupts:
    """Whether interrupts ran within a measurement's windows.

    Attributes:
        masked: each sample's window ran with interrupts masked.
        timer_us: time between two interrupts of the board's timer, microseconds; 0 if no timer is
            known.
        bound_ns: upper bound of what an interrupt takes outside of its hooks, from the board's
            port; 0 if not known.
        kept_by: counters that cannot leave out interrupts with hooks.
    """

    masked: bool = False
    timer_us: int = 0
    bound_ns: int = 0
    kept_by: tuple[str, ...] = ()

    def missed_in(self, sample: Sample) -> int:
        """Return the least number of timer interrupts in a window's counts."""
        if self.masked or not self.timer_us or (seconds := window_s(sample.readings)) is None:
            return 0
        known = interrupts_in(sample) + switches_in(sample)
        return max(0, int(seconds * 1e6 / self.timer_us) - known)

    def doubts(self, samples: Sequence[Sample], costs: Mapping[str, Fraction]) -> Iterator[str]:
        """Yield why the counts of windows with hooked interrupts are inexact."""
        hit = sum(interrupts_in(each) > 0 for each in samples)
        if hit and not costs:
            bound = f"up to {self.bound_ns:,} ns" if self.bound_ns else "an unknown amount"
            yield (
                f"{hit} of {len(samples)} samples include the part of interrupts that is outside "
                f"of their hooks, {bound} each"
            )
        if hit and self.kept_by:
            yield (
                f"the interrupts in {hit} of {len(samples)} samples are included in "
                f"{', '.join(self.kept_by)}"
            )
        switched = sum(switches_in(each) > 0 for each in samples)
        if switched:
            yield (
                f"{switched} of {len(samples)} samples include the cost of switching to other "
                "tasks and back"
            )


NOT_MASKED: Final = Interrupts()
"""Interrupts were not masked, and no timer is known."""


def interrupts_in(sample: Sample) -> int:
    """Return the number of interrupts with hooks in a window."""
    reading = sample.readings.get(HOOKED)
    return 0 if reading is None else reading.value


def switches_in(sample: Sample) -> int:
    """Return the number of switches to another task in a window."""
    reading = sample.readings.get(_SWITCHES)
    return 0 if reading is None else reading.value


def window_s(readings: Mapping[str, Reading]) -> float | None:
    """Return a window's length by the board's clock in seconds; None if no clock was read."""
    return next((each.value / each.hz for each in readings.values() if each.hz), None)


def interrupt_costs(
    triggered: Sequence[Sample], masked: Sequence[Sample], counters: Collection[str]
) -> dict[str, Fraction]:
    """Return what one interrupt takes outside of its hooks, by counter, in its units.

    ``triggered`` are windows with empty interrupts, ``masked`` the same with interrupts waiting
    until the end. Empty if a window had no interrupt, or if one came that should have waited.
    """
    count = min(map(interrupts_in, triggered))
    if not count or any(map(interrupts_in, masked)):
        return {}
    hit = [each for each in triggered if interrupts_in(each) == count]  # with the fewest others
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
    """Return a sample with readings that have what interrupts took outside of their hooks.

    A switch to another task and back costs at least as much: the core saves and restores registers
    once, and the same hooks run.
    """
    count = interrupts_in(sample) + switches_in(sample)
    if not count:
        return sample
    readings = {
        name: replace(each, outside_hooks=round(costs[name] * count)) if name in costs else each
        for name, each in sample.readings.items()
    }
    return replace(sample, readings=readings)
