# SPDX-License-Identifier: Apache-2.0
"""The fault matrix on the other boards that this machine can start, with the smallest frames.

Every position on two of them, which stand for the lines of their families; at most three of each
fault on the others, which share their code. ``make faults`` tries every position on each.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from boardprof.boards.finding import board_spec
from boardprof_protocol.codes import FrameKind
from tests.boards.conftest import NAMES, available
from tests.faults.boards import Target
from tests.faults.cases import FAMILIES, STEPS, THINNED
from tests.faults.matrix import applies, side_outcomes, step_outcomes
from tests.faults.sessions import HOST_KILLED, SESSION_ROWS, TWO_HOSTS
from tests.faults.step import Step

MINUTES = pytest.mark.timeout(300)


# On linux, see tests/link/test_fault_matrix.py.
DAMAGED = [
    name
    for name in NAMES
    if name != "linux"  # tests/link has it
    and board_spec(name).launch.simulator is None  # which cannot be reset while it runs
    and board_spec(name).build.config.get("bulk")
]

WHOLE = {"qemu-rv32", "qemu-cortex-m3"}


@pytest.fixture(scope="module", params=DAMAGED)
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    started = Target(available(request.param).name)
    yield started
    started.close()


@MINUTES
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_every_fault_at_every_position_of_a_frame_is_survived(target: Target, step: Step) -> None:
    if not step.applies(target):
        assert step.kind is FrameKind.BUSY
        assert target.spec.launch.listen != "board"
        return
    families = FAMILIES if target.spec.name in WHOLE else THINNED
    outcomes = step_outcomes(target, step, families)
    assert [outcome for outcome in outcomes if outcome.wrong] == []
    assert len({outcome.fault for outcome in outcomes}) == 9


@pytest.mark.parametrize("row", SESSION_ROWS)
def test_a_fault_of_a_whole_side_is_survived(target: Target, row: str) -> None:
    if not applies(target, row):
        assert target.in_process
        assert row in (HOST_KILLED, TWO_HOSTS)
        return
    outcomes = side_outcomes(target, row)
    assert [outcome for outcome in outcomes if outcome.wrong] == []
    assert len(outcomes) >= 3
