# SPDX-License-Identifier: Apache-2.0
"""Emulated boards are deterministic: the n-th samples of two runs of one build are the same.

That is why `boardprof compare` takes any difference of their counts for one.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from boardprof.measure.connect import connect
from boardprof.results.comparison.compare import compare
from boardprof.results.stats.groups import summaries
from tests.boards.conftest import NAMES, available, spec_of
from tests.firmware import build

STATE = Path(__file__).parent / "fixtures" / "state.c"

EMULATED = [
    name
    for name in NAMES
    if spec_of(name).clock.kind == "simulated" or spec_of(name).clock.emulated
]


@pytest.mark.parametrize("name", EMULATED)
def test_each_sample_of_a_function_with_a_state_is_the_same_in_the_next_run(name: str) -> None:
    spec = available(name)
    image = build(spec, [STATE]).image
    reports = []
    for _ in range(2):
        with connect(spec, image=image) as board:
            reports.append(board.profile("wander", warmup=3, repeat=25))
    before, after = (
        {s.metric: s.values for s in summaries(report) if s.is_deterministic} for report in reports
    )
    assert before == after
    found = compare(*reports, ["*>0", "*<0", "*:max>0"])
    assert {row.verdict for row in found.rows} <= {"same", "noise"}
    assert not found.regressed


@pytest.mark.parametrize("name", EMULATED)
def test_calls_before_a_measurement_are_as_many_as_the_board_has_counted(name: str) -> None:
    with build(available(name), [STATE]).open() as board:
        assert board.measure("so_far").calls_before == 0
        board.measure("so_far", warmup=3, repeat=60, number=2)
        board.measure("so_far", cold=True)
        counted = board.functions.so_far()
        assert board.measure("so_far", warmup=0, repeat=1).calls_before == counted


def test_samples_that_follow_other_calls_are_not_compared() -> None:
    spec = available("qemu-rv32")
    firmware = build(spec, [STATE])
    reports = []
    for ahead in range(2):
        with firmware.open() as board:
            for _ in range(ahead):
                board.functions.wander()
            reports.append(board.profile("wander", warmup=3, repeat=25, metrics="instructions"))
    found = compare(*reports, ["instructions:max>0"])
    assert [(row.metric, row.verdict) for row in found.rows] == [
        ("instructions", "other calls"),
        ("Stack (bytes)", "same"),
    ]
    assert [each.what for each in found.unjudged] == ["instructions of wander"]


def test_checksums_tell_whether_the_first_and_the_last_call_gave_the_same() -> None:
    with build(available("qemu-rv32"), [STATE]).open() as board:
        measured = board.measure("so_far", warmup=2, repeat=3)
        assert measured.result == 7  # the sixth call was the one for the stack
        assert measured.output_crc32s == ("83dcefb7", "6abf4a82")  # of "1" and "7"
        cold = board.measure("so_far", warmup=0, repeat=1, cold=True)
        assert (cold.result, len({*cold.output_crc32s})) == (11, 2)
        assert board.measure("so_far", warmup=0, repeat=1).output_crc32s == ()
