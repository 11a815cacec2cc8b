# SPDX-License-Identifier: Apache-2.0
"""The runner of tuning on a core whose cycles depend on where code is placed."""

from __future__ import annotations

import pytest

from boardprof.jobs.tune import Runner
from tests.tune.candidates import EXPECTED, GOOD, arguments

pytestmark = [pytest.mark.slow, pytest.mark.board("ibex-rtl")]


def test_the_neighbours_in_an_image_do_not_change_the_cycles_of_a_candidate() -> None:
    """Ibex fetches words: at an odd multiple of two bytes the same loop takes more cycles."""
    odd = GOOD.format(number=9).replace("    for", '    __asm__ volatile("c.nop");\n    for')
    cycles = set()
    for neighbours in ([], [odd]):
        run = Runner(
            *("ibex-rtl", arguments(), "cycles"),
            function="scale",
            expect=EXPECTED,
            remember=False,
        )
        cycles.add(run.measure([*neighbours, GOOD.format(number=1)])[-1].cost)
    assert len(cycles) == 1
