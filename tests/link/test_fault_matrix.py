# SPDX-License-Identifier: Apache-2.0
"""The fault matrix on a board that is a process: every bit of every kind of frame, and the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from boardprof.wire.transport.faults import Duplicate
from boardprof_protocol.codes import FrameKind
from tests.faults import cases
from tests.faults.boards import Rig, Target
from tests.faults.cases import FAMILIES, STEPS, run_position
from tests.faults.events import EVENTS, event_outcomes
from tests.faults.matrix import frame_outcomes, side_outcomes, table
from tests.faults.sessions import HOST_KILLED, READ_ONCE, RESET, SESSION_ROWS, TWO_HOSTS
from tests.faults.step import Outcome, Step, again_if_late

# SPEC.md 2: 11 bytes beside the body, a byte of COBS, two delimiters; and the body.
LENGTHS = {
    "HELLO to the board": 14 + 12,
    "WELCOME to the host": 14 + 32,
    "CALL to the board": 14 + 3,  # [function, argument below 128]
    "RESULT to the host": 14 + 5,  # 32 bits
    "ERROR to the host": 14 + 3,  # [code, detail]
    "PROGRESS to the host": 14 + 3,  # [done, total]
    "NAK to the host": 14,
    "NO_SESSION to the host": 14,
    "DATA to the host": 14 + 4 + 8,
    "ACK to the board": 14 + 9,
    "DATA to the board": 14 + 4 + 8,
    "ACK to the host": 14 + 9,
    "CANCEL to the board": 14,
    "BUSY to the host": 14 + 32,
}


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    started = Target("linux")
    yield started
    started.close()


def wrong(outcomes: list[Outcome]) -> list[Outcome]:
    return [outcome for outcome in outcomes if outcome.wrong]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_every_fault_at_every_position_of_a_frame_is_survived(target: Target, step: Step) -> None:
    outcomes = frame_outcomes(target, [(step, FAMILIES)])
    assert wrong(outcomes) == []
    length = LENGTHS[step.name]
    assert Counter(outcome.fault for outcome in outcomes) == {
        "bit flip": 8 * length,
        "dropped byte": length,
        "dropped delimiter": 3,
        "cut short": length,
        "late frame": 3,
        "duplicated frame": 1,
        "delayed duplicate": 3,
        "garbage before": 4,
        "garbage among": length,
    }


@pytest.mark.parametrize(
    "positions",
    # Each of 10,000 faults waits for a timeout of the line.
    [10, pytest.param(1000, marks=[pytest.mark.nightly, pytest.mark.timeout(3600)])],
)
def test_no_fault_of_the_line_makes_a_wrong_event_or_loses_one_that_is_not_counted(
    positions: int,
) -> None:
    recorded = Target("linux", EVENTS)
    outcomes = list(event_outcomes(recorded, positions))
    recorded.close()
    assert wrong(outcomes) == []
    assert Counter(outcome.fault for outcome in outcomes) == {
        "bit flip": positions,
        "dropped byte": positions,
        "dropped delimiter": positions,
        "cut short": positions,
        "late frame": positions,
        "duplicated frame": positions,
        "delayed duplicate": positions,
        "garbage before": positions,
        "garbage among": positions,
        "lost frame": positions,
    }


@pytest.mark.parametrize(
    ("row", "positions", "errors"),
    [
        (RESET, 6, {"DeviceResetError"}),
        (HOST_KILLED, 3, {""}),
        (TWO_HOSTS, 3, {"BusyError"}),
        (READ_ONCE, 7, {""}),
    ],
)
def test_a_fault_of_a_whole_side_is_survived(
    target: Target, row: str, positions: int, errors: set[str]
) -> None:
    outcomes = side_outcomes(target, row)
    assert wrong(outcomes) == []
    assert len(outcomes) == positions
    assert {outcome.error for outcome in outcomes} == errors


def test_every_kind_of_frame_has_its_rows() -> None:
    assert [step.name for step in STEPS] == list(LENGTHS)
    assert {step.kind for step in STEPS} == set(FrameKind)
    assert len(SESSION_ROWS) == 4


def test_a_call_that_ran_once_too_often_would_be_seen(target: Target) -> None:
    rig = Rig(target, 20.0)
    call = next(step for step in STEPS if step.kind is FrameKind.CALL)
    assert run_position(rig, "duplicated frame", call, Duplicate()).wrong == ""
    rig.board.functions["tally"](1)  # once more than was noted
    assert "is right" in run_position(rig, "duplicated frame", call, Duplicate()).wrong
    rig.close()


def test_a_fault_that_is_late_once_is_survived_and_told() -> None:
    late = Outcome("bit flip", "CALL", "FlipBit(bit=0)", late="took 735 s")
    attempts = iter([late, Outcome("bit flip", "CALL", "FlipBit(bit=0)")])
    assert again_if_late(lambda: next(attempts)) == late
    assert next(attempts, None) is None


def test_a_fault_that_is_late_twice_is_wrong() -> None:
    attempts = iter([Outcome("reset", "session", "pop", late=f"took {i} s") for i in (3, 4, 0)])
    found = again_if_late(lambda: next(attempts))
    assert (found.wrong, found.late) == ("took 4 s", "took 3 s")
    assert len(list(attempts)) == 1


def test_what_is_wrong_is_not_tried_again() -> None:
    attempts = iter([Outcome("bit flip", "CALL", "0", wrong="2", late="took 700 s")] * 2)
    assert again_if_late(lambda: next(attempts)).wrong == "2"
    assert len(list(attempts)) == 1


def test_a_position_that_always_takes_too_long_is_not_survived(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cases, "_LONGEST_S", 0.001)
    found = frame_outcomes(target, [(STEPS[0], FAMILIES)])
    assert len(found) == 1
    assert found[0].wrong.startswith("took ")


def test_the_table_has_a_row_a_fault_and_tells_answers_from_errors() -> None:
    outcomes = [
        Outcome("bit flip", "CALL", "FlipBit(bit=0)"),
        Outcome("bit flip", "ERROR", "FlipBit(bit=0)", error="RpcError"),
        Outcome("bit flip", "CALL", "FlipBit(bit=1)", wrong="answered 2, 1 is right"),
    ]
    lines = table({"this": outcomes, "that": outcomes[:1]}).splitlines()
    assert lines[0].split() == ["fault", "this", "that"]
    assert lines[2].split() == ["bit", "flip", "1", "+", "1,", "1", "WRONG", "1", "+", "0"]
    assert lines[3].split() == ["dropped", "byte", "n/a", "n/a"]
