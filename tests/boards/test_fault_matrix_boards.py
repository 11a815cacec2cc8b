# SPDX-License-Identifier: Apache-2.0
"""The fault matrix on the other boards that this machine can start, with the smallest frames.

Every position on two of them, which stand for the lines of their families. On the others, which
share their code, and on those two through a debug probe, each fault at one position of each kind
of frame: the first, the middle and the last in turn. ``make faults`` tries every position on each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import pytest

from boardprof.target.descriptions.board import board_spec, find_boards
from boardprof_protocol.codes import FrameKind
from tests.boards.conftest import NAMES, available, spec_of
from tests.faults.boards import OVER_RTT, Target, target_of
from tests.faults.cases import FAMILIES, STEPS, Family, thinned
from tests.faults.events import EVENTS, event_outcomes
from tests.faults.matrix import applies, frame_outcomes, side_outcomes, why_left_out
from tests.faults.sessions import HOST_KILLED, SESSION_ROWS, TWO_HOSTS
from tests.faults.step import Outcome, Step

FRAMES = [step for step in STEPS if step.kind is not FrameKind.BUSY]
"""All but what tells a second host that the board is taken: here the line is one connection."""

MINUTES = pytest.mark.timeout(300)
WHOLE = ["qemu-cortex-m3", "qemu-rv32"]
THIN = [
    name
    for name in NAMES
    if name not in (*WHOLE, "linux")  # which tests/link/test_fault_matrix.py has
    and not why_left_out(spec_of(name))
]


@pytest.fixture(scope="module")
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    available(request.param.removeprefix("rtt:"))
    started = target_of(request.param)
    yield started
    started.close()


def faults_by_frame(outcomes: list[Outcome]) -> dict[str, int]:
    """Return how many kinds of faults there were of each kind of frame."""
    kinds = Counter(frame for frame, _ in {(outcome.kind, outcome.fault) for outcome in outcomes})
    return dict(kinds)


def test_the_whole_matrix_is_for_each_board_that_this_machine_can_start_and_reset() -> None:
    tried = {name for name in find_boards() if not why_left_out(board_spec(name))}
    assert tried == {"linux", *WHOLE, *THIN}
    left_out = {"arduino-mega", "arduino-uno", "rpi-pico"}  # simulators
    left_out |= {"ibex-rtl", "vexriscv-rtl", "cv32e40p-rtl"}
    left_out |= {"esp32-c3", "nrf52840dk", "nucleo-f446re", "nucleo-h743zi"}
    assert tried == {*find_boards()} - left_out


@MINUTES
@pytest.mark.parametrize("target", WHOLE, indirect=True)
@pytest.mark.parametrize("families", [FAMILIES[:1], FAMILIES[1:]], ids=["bit flips", "the rest"])
@pytest.mark.parametrize("step", FRAMES, ids=lambda step: step.name)
def test_every_fault_at_every_position_of_a_frame_is_survived(
    target: Target, step: Step, families: Sequence[Family]
) -> None:
    outcomes = frame_outcomes(target, [(step, families)])
    assert [outcome for outcome in outcomes if outcome.wrong] == []
    assert {outcome.fault for outcome in outcomes} == {family.name for family in families}


@pytest.mark.parametrize("target", [*THIN, *OVER_RTT], indirect=True)
def test_every_fault_at_the_begin_the_middle_and_the_end_of_frames_is_survived(
    target: Target,
) -> None:
    tried = [(step, thinned(FAMILIES, turn)) for turn, step in enumerate(FRAMES)]
    outcomes = frame_outcomes(target, tried)
    assert [outcome for outcome in outcomes if outcome.wrong] == []
    assert faults_by_frame(outcomes) == dict.fromkeys((step.name for step in FRAMES), 9)


@pytest.mark.parametrize("name", WHOLE)
def test_no_fault_of_the_line_makes_a_wrong_event_or_loses_one_that_is_not_counted(
    name: str,
) -> None:
    recorded = Target(available(name).name, EVENTS)
    outcomes = list(event_outcomes(recorded, 2))
    recorded.close()
    assert [outcome for outcome in outcomes if outcome.wrong] == []
    assert len(outcomes) == 2 * 10


@MINUTES  # Linux boots again at each reset
@pytest.mark.parametrize("target", [*WHOLE, *THIN, *OVER_RTT], indirect=True)
@pytest.mark.parametrize("row", SESSION_ROWS)
def test_a_fault_of_a_whole_side_is_survived(target: Target, row: str) -> None:
    if not applies(target, row):
        assert target.in_process
        assert row in (HOST_KILLED, TWO_HOSTS)
        return
    outcomes = side_outcomes(target, row)
    assert [outcome for outcome in outcomes if outcome.wrong] == []
    assert len(outcomes) >= 3
