# SPDX-License-Identifier: Apache-2.0
"""The runner of tuning on boards of other architectures and toolchains."""

from __future__ import annotations

import pytest

from boardprof.jobs.tune import Candidate, MeasureError, Runner
from tests.tune import candidates as source
from tests.tune.candidates import EXPECTED, GOOD, arguments

METRICS = {"arduino-uno": "cycles", "qemu-cortex-m3": "ticks"}


@pytest.mark.slow
@pytest.mark.parametrize("board", METRICS)
def test_broken_candidates_do_not_disturb_their_neighbours(board: str) -> None:
    texts = [GOOD, source.TRAPS, source.HANGS, source.WRONG, source.DOES_NOT_LINK, GOOD]
    results = Runner(
        board,
        arguments(),
        METRICS[board],
        function="scale",
        expect=EXPECTED,
        timeout_s=0.1,
        remember=False,
    ).measure([text.format(number=number) for number, text in enumerate(texts, 1)])
    assert [result.error_no for result in results] == [
        MeasureError.NO_ERROR,
        MeasureError.RUNTIME_DEVICE,
        MeasureError.RUN_TIMEOUT,
        MeasureError.WRONG_ANSWER,
        MeasureError.COMPILE_DEVICE,
        MeasureError.NO_ERROR,
    ]
    assert results[0].cost > 0


RING = """\
#include <stdint.h>
static uint32_t ring[SIZE]; /* an eighth of the RAM of an Arduino Uno */
static unsigned next, count;
uint32_t mean(uint32_t value) {
    ring[next++ % SIZE] = value;
    if (count < SIZE) count++;
    uint32_t sum = 0;
    for (unsigned i = 0; i < count; i++) sum += ring[i];
    return sum / count;
}
"""


@pytest.mark.slow
def test_candidates_that_leave_each_other_too_little_stack_are_measured_alone() -> None:
    every = [Candidate(text=RING, flags=flags, defines={"SIZE": 64}) for flags in ("-O2", "-Os")]

    def costs(candidates: list[Candidate]) -> list[float]:
        run = Runner("arduino-uno", {"value": 5}, remember=False)
        results = run.measure(candidates)
        assert [each.error for each in results] == [None] * len(candidates)
        return [each.cost for each in results]

    assert costs(every) == [*costs(every[:1]), *costs(every[1:])]
