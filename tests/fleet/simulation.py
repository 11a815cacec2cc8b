# SPDX-License-Identifier: Apache-2.0
"""The policy of fleets under a virtual clock: boards that fail, vanish and come back."""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter
from dataclasses import dataclass, field

from boardprof.jobs.fleet.policy import AttemptEnd, Check, GiveUp, Policy, Rules, Start

KINDS = ("m0", "m3", "m4", "m7", "rv32")


@dataclass
class Seen:
    """What happened in a simulation.

    Attributes:
        ended: how many jobs have a result.
        given_up: how many jobs have none, with the reasons.
        attempts: how many attempts there were.
        checks: of boards.
        overlaps: how often a board was given more jobs than it may have.
        repeated: jobs that ended twice.
        virtual_s: time of the last event.
        busy_s: sum over all boards.
    """

    ended: int = 0
    given_up: Counter[str] = field(default_factory=Counter)
    attempts: int = 0
    checks: int = 0
    overlaps: int = 0
    repeated: int = 0
    virtual_s: float = 0.0
    busy_s: float = 0.0


def simulate(boards: int, jobs: int, seed: int, *, failing: float = 0.01) -> Seen:
    """Run jobs of one to three seconds on boards of five kinds; one in 100 attempts fails.

    Every 50th board fails each job until it was in quarantine three times. Every 200th loses its
    host once, for ten seconds.
    """
    chance, seen = random.Random(seed), Seen()
    policy = Policy(Rules(retries=5))
    broken: dict[str, int] = {}
    running: dict[str, dict[int, int]] = {}
    over = bytearray(jobs)
    events: list[tuple[float, int, str, str, int, int]] = []
    order = itertools.count()

    def later(at_s: float, what: str, board: str, job: int = -1, attempt: int = 0) -> None:
        heapq.heappush(events, (at_s, next(order), what, board, job, attempt))

    def join(board: str) -> None:
        running[board] = {}
        policy.add_board(board, (KINDS[int(board) % len(KINDS)], f"#{board}"))

    for number in range(boards):
        join(f"{number}")
        if number % 50 == 7:
            broken[f"{number}"] = 3
        if number % 200 == 11:
            later(chance.uniform(1.0, 20.0), "lose", f"{number}")
    for number in range(jobs):
        policy.add_job(number, KINDS[number % len(KINDS)], 0.0)
    now_s = 0.0
    attempts = itertools.count()
    while True:
        for decision in policy.decisions(now_s):
            match decision:
                case Start(job, board):
                    attempt = next(attempts)
                    seen.attempts += 1
                    seen.overlaps += bool(running[board])
                    running[board][job] = attempt
                    took_s = chance.uniform(1.0, 3.0)
                    seen.busy_s += took_s
                    later(now_s + took_s, "end", board, job, attempt)
                case Check(board):
                    seen.checks += 1
                    later(now_s + 2.0, "check", board)
                case GiveUp(job, _, why):
                    seen.given_up[why] += 1
                    seen.repeated += over[job]
                    over[job] = 1
        due_s = policy.next_s
        if not events and (due_s is None or sum(over) == jobs):
            break
        if events and (due_s is None or events[0][0] <= due_s):
            now_s, _, what, board, job, attempt = heapq.heappop(events)
        else:
            assert due_s is not None
            now_s, what, board = due_s, "", ""
        if what == "end" and running.get(board, {}).get(job) == attempt:
            del running[board][job]
            is_bad = board in broken or chance.random() < failing
            outcome = AttemptEnd.BOARD_FAILED if is_bad else AttemptEnd.OVER
            policy.ended(board, job, outcome, now_s, "no answer")
            if not is_bad:
                seen.ended += 1
                seen.repeated += over[job]
                over[job] = 1
        elif what == "check" and board in running:
            left = broken.get(board, 0)
            if left:
                broken[board] = left - 1
                policy.checked(board, "silent", now_s)
            else:
                broken.pop(board, None)
                policy.checked(board, None, now_s)
        elif what == "lose" and board not in broken:
            del running[board]
            policy.lose_board(board, "its host is gone", now_s)
            later(now_s + 10.0, "join", board)
        elif what == "join":
            join(board)
        seen.virtual_s = now_s
    return seen
