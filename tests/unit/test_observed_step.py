# SPDX-License-Identifier: Apache-2.0
"""The step of a clock, as its own readings show it."""

from __future__ import annotations

import pytest

from boardprof.results.row_origins import observed_step


@pytest.mark.parametrize("step", [10.0, 1e9 / 54e6, 1e9 / 24e6])
def test_a_clock_that_skips_ticks_is_found_out(step: float) -> None:
    """As on AMD's servers, a Raspberry Pi 4 and a core of Apple's: 100, 54 and 24 MHz."""
    counts = (2, 3, 4, 5, 7, 8, 12, 13, 21, 55)
    windows = [int(step * (start + n)) - int(step * start) for start in (7, 1000) for n in counts]
    assert observed_step(windows) == pytest.approx(step, rel=0.02)


@pytest.mark.parametrize(
    "windows",
    [
        [],
        [0, 0],
        [30],
        [20, 30, 40],  # may be chance
        [21, 22, 23, 25, 28, 34, 41, 57],
        [40, 51, 62, 75, 93, 104, 117, 160, 171],
    ],
)
def test_other_clocks_step_by_one_tick(windows: list[int]) -> None:
    assert observed_step(windows) == 1.0
