# SPDX-License-Identifier: Apache-2.0
"""Tuning on all boards of a kind at once gives what tuning on one of them gives."""

from __future__ import annotations

import pytest

from boardprof.errors import BoardError
from boardprof.fleet import FleetRunner, Rules
from boardprof.tune import MeasureResult, Runner
from tests.tune.candidates import EXPECTED, arguments, mixed

pytestmark = [pytest.mark.slow, pytest.mark.board("qemu-rv32")]

SETTINGS = {
    "metric": "instructions",
    "function": "scale",
    "expect": EXPECTED,
    "timeout_s": 0.05,
    "remember": False,
}


def facts(result: MeasureResult) -> tuple[object, ...]:
    flash = result.metrics.get("Flash (bytes)")
    return (result.costs, result.error_no, flash, type(result.error))


def test_all_boards_of_a_kind_measure_shares_of_the_candidates() -> None:
    texts, _ = mixed(20)
    told: dict[int, MeasureResult] = {}
    fleet = FleetRunner("qemu-rv32", arguments(), share=5, **SETTINGS)  # type: ignore[arg-type]
    results = fleet.measure(texts, on_result=told.__setitem__)
    alone = Runner("qemu-rv32", arguments(), **SETTINGS).measure(texts)  # type: ignore[arg-type]
    assert list(map(facts, results)) == list(map(facts, alone))
    assert [told[number] for number in range(20)] == results


def test_candidates_that_no_board_can_measure_are_an_error_with_the_reason() -> None:
    boards = ["linux=127.0.0.1:9"]
    fleet = FleetRunner("linux", arguments(), boards=boards, rules=Rules(retries=0))
    with pytest.raises(BoardError, match=r"Candidates from number 0 on were not measured: \S"):
        fleet.measure(["int f(int n) { return n; }"])
