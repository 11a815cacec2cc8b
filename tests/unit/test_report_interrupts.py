# SPDX-License-Identifier: Apache-2.0
"""How many interrupts of a timer a window must have had that nothing left out of its counts."""

from __future__ import annotations

import pytest

from boardprof.results.record import Interrupts
from boardprof.results.report.measurement import interrupt_costs, missed_interrupts
from boardprof.wire.decode.samples import Reading, Sample


def sample(microseconds: int, **counts: int) -> Sample:
    readings = {name.replace("_", "-"): Reading(n, "count") for name, n in counts.items()}
    return Sample({"ticks": Reading(microseconds, "ticks", 1_000_000), **readings}, b"")


@pytest.mark.parametrize(
    ("window", "missed"),
    [
        (sample(999), 0),
        (sample(1000), 1),
        (sample(3500), 3),
        (sample(3500, interrupts=1), 2),
        (sample(3500, interrupts=1, context_switches=1), 1),
        (sample(3500, interrupts=5), 0),
        (Sample({"cycles": Reading(3500, "count")}, b""), 0),
    ],
)
def test_a_window_has_the_timers_interrupts_that_nobody_counted(
    window: Sample, missed: int
) -> None:
    assert missed_interrupts(Interrupts(timer_us=1000), window) == missed


def test_without_a_timer_and_with_interrupts_masked_none_is_missed() -> None:
    assert missed_interrupts(Interrupts(), sample(3500)) == 0
    assert missed_interrupts(Interrupts(masked=True, timer_us=1000), sample(3500)) == 0


def test_the_cost_of_an_interrupt_is_that_of_the_windows_with_nothing_else_left_out() -> None:
    """Of 4 interrupts, 40 ticks each; a window with a switch has 40 more."""
    quiet = [sample(10), sample(10)]
    triggered = [sample(170, interrupts=4), *[sample(210, interrupts=4, context_switches=1)] * 3]
    assert interrupt_costs(triggered, quiet, ["ticks"]) == {"ticks": 40.0}
    assert interrupt_costs(triggered, [sample(10, context_switches=1)], ["ticks"]) == {}
