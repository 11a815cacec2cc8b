# SPDX-License-Identifier: Apache-2.0
"""The runner of tuning on boards of other architectures and toolchains."""

from __future__ import annotations

import pytest

from boardprof.tune import MeasureError, Runner
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
