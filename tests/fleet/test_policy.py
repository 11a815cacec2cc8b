# SPDX-License-Identifier: Apache-2.0
"""What the policy of fleets decides: no clock, no board, no process."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from boardprof.jobs.fleet.policy import (
    AttemptEnd,
    Check,
    Decision,
    GiveUp,
    Policy,
    Rules,
    Start,
    State,
)
from tests.fleet.simulation import Seen, simulate

FAILED, LOST, OVER = AttemptEnd.BOARD_FAILED, AttemptEnd.LOST, AttemptEnd.OVER


def policy(boards: Iterable[str] = ("a", "b"), **rules: float) -> Policy:
    made = Policy(Rules(**rules))  # type: ignore[arg-type]
    for name in boards:
        made.add_board(name, ("kind", name))
    return made


def decided(made: Policy, now_s: float = 0.0) -> list[Decision]:
    return list(made.decisions(now_s))


def test_jobs_start_in_order_on_boards_that_have_none() -> None:
    made = policy()
    for number in range(4):
        made.add_job(number, "kind", 0.0)
    assert decided(made) == [Start(0, "a"), Start(1, "b")]
    assert decided(made) == []
    made.ended("b", 1, OVER, 1.0)
    assert decided(made) == [Start(2, "b")]


def test_a_job_for_a_serial_number_waits_for_that_board() -> None:
    made = policy()
    made.add_job(0, "b", 0.0)
    made.add_job(1, "b", 0.0)
    made.add_job(2, "kind", 0.0)
    assert decided(made) == [Start(0, "b"), Start(2, "a")]
    assert made.waits_for("b") == "b: 1 busy"


def test_a_job_that_no_board_can_serve_is_given_up_with_the_list_of_boards() -> None:
    made = policy()
    made.add_job(7, "m4", 0.0)
    why = "No board can serve a job for m4. Boards: 2 kind."
    assert decided(made) == [GiveUp(7, False, why)]


def test_a_job_goes_to_another_board_after_its_board_failed() -> None:
    made = policy()
    made.add_job(0, "kind", 0.0)
    assert decided(made) == [Start(0, "a")]
    made.ended("a", 0, FAILED, 1.0, "silent")
    assert decided(made) == [Start(0, "b")]


def test_a_job_goes_back_to_its_board_if_there_is_no_other_one() -> None:
    made = policy(["a"])
    made.add_job(0, "kind", 0.0)
    assert decided(made) == [Start(0, "a")]
    made.ended("a", 0, LOST, 1.0, "died")
    assert decided(made) == [Start(0, "a")]


def test_a_job_is_given_up_after_its_retries() -> None:
    made = policy(retries=2, suspect_after=9)
    made.add_job(0, "kind", 0.0)
    for board in ("a", "b", "a"):
        assert decided(made) == [Start(0, board)]
        made.ended(board, 0, FAILED, 1.0, "silent")
    assert decided(made) == [GiveUp(0, False, "silent")]


def test_a_job_that_may_run_only_once_is_unknown_when_its_process_died() -> None:
    made = policy()
    made.add_job(0, "kind", 0.0, once=True)
    assert decided(made) == [Start(0, "a")]
    made.lose_board("a", "Its worker has ended.", 1.0)
    assert decided(made) == [GiveUp(0, True, "Its worker has ended.")]


def test_a_job_that_may_run_only_once_is_tried_again_if_it_cannot_have_begun() -> None:
    made = policy()
    made.add_job(0, "kind", 0.0, once=True)
    assert decided(made) == [Start(0, "a")]
    made.ended("a", 0, FAILED, 1.0, "no answer")
    assert decided(made) == [Start(0, "b")]
    made.ended("b", 0, AttemptEnd.BOARD_FAILED_LATE, 2.0, "silent")
    assert decided(made) == [GiveUp(0, True, "silent")]


def test_boards_that_cannot_be_started_are_checked_at_once_and_cost_a_job_no_attempt() -> None:
    made = policy("abcd", retries=1)
    made.add_job(0, "kind", 0.0)
    for board in "abc":
        assert decided(made)[-1] == Start(0, board)
        made.ended(board, 0, AttemptEnd.BOARD_UNFIT, 1.0, "no emulator")
    assert decided(made) == [Check("c", 60.0, 1), Start(0, "d")]
    # A board that passes its check and cannot be started all the same costs attempts.
    made = policy("a", retries=1)
    made.add_job(0, "kind", 0.0)
    for _ in range(3):
        assert decided(made)[-1] == Start(0, "a")
        made.ended("a", 0, AttemptEnd.BOARD_UNFIT, 1.0, "no emulator")
        assert Check("a", 60.0, 1) in (again := decided(made))
        made.checked("a", None, 1.0)
    assert again[0] == GiveUp(0, False, "no emulator")


def test_two_failures_in_a_row_have_a_board_checked_before_its_next_job() -> None:
    made = policy(["a"], retries=9)
    made.add_job(0, "kind", 0.0)
    assert decided(made) == [Start(0, "a")]
    made.ended("a", 0, FAILED, 1.0, "silent")
    assert decided(made, 1.0) == [Start(0, "a")]
    made.ended("a", 0, FAILED, 2.0, "silent")
    assert decided(made, 2.0) == [Check("a", 60.0, 1)]
    made.checked("a", None, 3.0)
    assert decided(made, 3.0) == [Start(0, "a")]


def test_a_success_between_two_failures_keeps_a_board_in_service() -> None:
    made = policy(["a"], retries=9)
    for number in range(3):
        made.add_job(number, "kind", 0.0)
    for outcome in (FAILED, OVER, FAILED):
        ((start),) = decided(made)
        assert isinstance(start, Start)
        made.ended("a", start.job, outcome, 1.0, "silent")
    assert [type(each) for each in decided(made)] == [Start]


def test_a_board_that_fails_its_check_is_checked_again_after_a_minute_then_two() -> None:
    made = policy(["a"], retries=9)
    made.add_job(0, "a", 0.0)
    for _ in range(2):
        assert decided(made) == [Start(0, "a")]
        made.ended("a", 0, FAILED, 0.0, "silent")
    assert decided(made) == [Check("a", 60.0, 1)]
    made.checked("a", "the clock is wrong", 0.0)
    assert made.waits_for("a") == "a: 1 quarantined, a: the clock is wrong"
    assert decided(made, 59.9) == []
    assert decided(made, 60.0) == [Check("a", 120.0, 2)]
    made.checked("a", "the clock is wrong", 60.0)
    assert decided(made, 179.9) == []
    assert decided(made, 180.0) == [Check("a", 240.0, 3)]


def test_a_board_that_an_earlier_batch_put_in_quarantine_stays_there_until_its_time() -> None:
    for check_now, until_s in ((False, 70.0), (True, 10.0)):
        made = policy("ab", check_now=check_now)
        made.quarantine("a", "the clock is wrong", 70.0, 2, 10.0)
        made.add_job(0, "a", 10.0)
        made.add_job(1, "kind", 10.0)
        assert made.state("a") == (State.QUARANTINED, "the clock is wrong", until_s)
        begun = decided(made, 10.0)
        assert Start(1, "b") in begun
        if not check_now:
            assert begun == [Start(1, "b")]
            assert decided(made, 69.9) == []
            begun = decided(made, 70.0)
        assert Check("a", 240.0, 3) in begun
        made.checked("a", None, 71.0)
        assert decided(made, 71.0) == [Start(0, "a")]


def test_jobs_wait_for_a_board_in_quarantine_no_longer_than_the_limit() -> None:
    made = policy(["a"], wait_s=100.0, quarantine_s=1000.0, retries=9)
    made.add_job(0, "kind", 0.0)
    for _ in range(2):
        assert decided(made) == [Start(0, "a")]
        made.ended("a", 0, FAILED, 0.0, "silent")
    assert decided(made) == [Check("a", 1000.0, 1)]
    made.checked("a", "silent", 0.0)
    assert made.next_s == 100.0
    assert decided(made, 99.0) == []
    why = "No board has been in service for 100 s. kind: 1 quarantined, a: silent"
    assert decided(made, 100.0) == [GiveUp(0, False, why)]


def test_a_job_waits_for_a_lost_board_that_comes_back() -> None:
    made = policy(["a"])
    made.add_job(0, "kind", 0.0)
    assert decided(made) == [Start(0, "a")]
    made.lose_board("a", "gone", 1.0)
    assert decided(made, 2.0) == []
    assert made.waits_for("kind") == "kind: no board"
    made.add_board("a", ("kind", "a"))
    assert decided(made, 3.0) == [Start(0, "a")]


def test_a_job_sent_ahead_keeps_its_attempts_when_the_board_is_lost() -> None:
    made = policy(["a"], retries=0)
    made.sends_ahead = True
    made.add_job(0, "kind", 0.0)
    made.add_job(1, "kind", 0.0)
    made.add_job(2, "kind", 0.0)
    assert decided(made) == [Start(0, "a"), Start(1, "a")]
    made.lose_board("a", "gone", 1.0)
    assert decided(made, 1.0) == [GiveUp(0, False, "gone")]
    made.add_board("a", ("kind", "a"))
    assert decided(made, 2.0) == [Start(1, "a"), Start(2, "a")]


def test_a_job_that_may_run_only_once_is_not_sent_ahead() -> None:
    made = policy(["a"])
    made.sends_ahead = True
    made.add_job(0, "kind", 0.0)
    made.add_job(1, "kind", 0.0, once=True)
    assert decided(made) == [Start(0, "a")]
    made.ended("a", 0, OVER, 1.0)
    assert decided(made) == [Start(1, "a")]


@pytest.mark.parametrize(
    ("boards", "jobs"),
    [
        (200, 10_000),
        pytest.param(10_000, 1_000_000, marks=[pytest.mark.nightly, pytest.mark.timeout(900)]),
    ],
)
def test_every_job_ends_once_whatever_boards_and_hosts_do(boards: int, jobs: int) -> None:
    seen = simulate(boards, jobs, seed=1)
    assert seen.ended + sum(seen.given_up.values()) == jobs
    assert seen.ended >= 0.999 * jobs
    assert (seen.overlaps, seen.repeated) == (0, 0)
    assert seen.checks >= 2 * boards // 50
    assert seen.attempts > jobs
    assert seen.virtual_s < 1.3 * seen.busy_s / boards + 600.0


def spent(jobs: int) -> Seen:
    return simulate(jobs // 50, jobs, seed=2)


def test_a_seed_gives_the_same_decisions_again() -> None:
    assert spent(5_000) == spent(5_000)
