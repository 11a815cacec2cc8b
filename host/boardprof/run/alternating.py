# SPDX-License-Identifier: Apache-2.0
"""Two plans measured in turns, session by session, so that nothing but the code differs."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from boardprof.boards.board_file import BoardSpec
from boardprof.errors import BoardprofError, UsageError
from boardprof.firmware.sweep import effective_flags
from boardprof.report.report import Report
from boardprof.run.measuring import Listener
from boardprof.run.plan import Plan, boards_of, with_each_setting
from boardprof.run.runner import Outcome, once, run_plan

__all__ = ["SESSIONS", "Alternated", "Side", "run_in_turns", "sides_of_flags"]

SESSIONS = 10
"""Of each side, where samples vary. Ten pairs that all go one way have p = 0.002."""


@dataclass(frozen=True)
class Side:
    """One of the two.

    Attributes:
        plan: what is measured.
        name: what output calls it.
        folder: where relative paths of the plan begin; None: at the current folder.
    """

    plan: Plan
    name: str
    folder: Path | None = None


@dataclass(frozen=True)
class Alternated:
    """What came of both.

    Attributes:
        before: of all sessions of the first side.
        after: of all sessions of the second.
        sessions: how many there were of each.
    """

    before: Outcome
    after: Outcome
    sessions: int


def sides_of_flags(plan: Plan, flags: str) -> tuple[Side, Side]:
    """Return a plan with each of two settings of compiler flags, which may be the same.

    Raises:
        UsageError: there are not two, or nothing that could be compiled with them.
    """
    texts = flags.split("|")
    if len(texts) != 2:
        raise UsageError(f"--ab {flags!r} is not two settings of flags.", hint="--ab '-O2|-O3'")
    (built,) = with_each_setting(replace(plan, sweep="-g"))  # what a sweep needs, this needs
    base = f"{plan.code.optimize} {plan.code.cflags}"
    found = [effective_flags(f"{base} {text}") for text in texts]
    code = [replace(built.code, cflags=each) for each in found]
    names = found if found[0] != found[1] else [f"{found[0]} (A)", f"{found[1]} (B)"]
    before, after = (
        Side(replace(plan, code=each), name) for each, name in zip(code, names, strict=True)
    )
    return before, after


def run_in_turns(before: Side, after: Side, listener: Listener) -> Alternated:
    """Measure two plans in sessions that alternate; each is a start of the board of its own.

    Which side begins changes from pair to pair, so that a drift is on both. On emulators one
    session each is enough: the next one would be the same.

    Raises:
        UsageError: a plan makes no sense.
    """
    specs = boards_of(after.plan)
    is_same_again = after.plan.port is None and all(map(_is_emulator, specs))
    sessions = 1 if is_same_again else SESSIONS
    listener = replace(listener, on_note=once(listener.on_note))
    outcomes: tuple[list[Outcome], list[Outcome]] = ([], [])
    for number in range(sessions):
        turns = [(before, outcomes[0]), (after, outcomes[1])]
        for side, found in turns if number % 2 == 0 else turns[::-1]:
            with contextlib.nullcontext() if side.folder is None else contextlib.chdir(side.folder):
                found.append(run_plan(side.plan, listener))
            if found[-1].interrupted or found[-1].failures:
                return Alternated(_joined(outcomes[0]), _joined(outcomes[1]), number + 1)
    return Alternated(_joined(outcomes[0]), _joined(outcomes[1]), sessions)


def _is_emulator(spec: BoardSpec) -> bool:
    return spec.clock.kind == "simulated" or spec.clock.emulated


def _joined(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the outcome of all sessions of one side."""
    failures: dict[str, BoardprofError] = {
        str(each): each for outcome in outcomes for each in outcome.failures
    }
    reports = [outcome.report for outcome in outcomes if outcome.report is not None]
    return Outcome(
        _joined_reports(reports) if reports else None,
        tuple(failures.values()),
        any(outcome.interrupted for outcome in outcomes),
    )


def _joined_reports(reports: Sequence[Report]) -> Report:
    last = reports[-1]
    extra = dict(last.extra or {})
    extra["measurements"] = [
        each for report in reports for each in (report.extra or {}).get("measurements", ())
    ]
    rows = [row for report in reports for row in report.calls]
    return Report(rows, last.device_metrics, last.configuration, extra)
