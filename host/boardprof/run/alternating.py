# SPDX-License-Identifier: Apache-2.0
"""Measure two plans in alternating sessions, so that only the code differs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from boardprof.boards.board_file import BoardSpec
from boardprof.errors import BoardprofError, UsageError
from boardprof.firmware.build_options import BuildOptions, effective_flags
from boardprof.report.report import Report
from boardprof.run.measure_plan import Listener
from boardprof.run.plan import Plan, boards_of, with_each_setting
from boardprof.run.runner import Outcome, once, run_plan

SESSIONS = 10
"""Sessions per side if samples vary. Ten pairs that all go one way have p = 0.002."""


@dataclass(frozen=True)
class Side:
    """One of the two sides.

    Attributes:
        plan: what is measured.
        name: as shown in output.
        folder: where relative paths of the plan start. None for the current folder.
    """

    plan: Plan
    name: str
    folder: Path | None = None


@dataclass(frozen=True)
class Alternated:
    """The results of both sides.

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
    with_each_setting(replace(plan, sweep="-g"))  # the same requirements as a sweep
    before, after = (
        Side(replace(plan, code=code), name) for name, code in two_settings(plan.code, flags)
    )
    return before, after


def two_settings(code: BuildOptions, flags: str) -> list[tuple[str, BuildOptions]]:
    """Return the build options for each of two settings of flags, and their names in output.

    Raises:
        UsageError: there are not two.
    """
    texts = flags.split("|")
    if len(texts) != 2:
        raise UsageError(f"--ab {flags!r} is not two settings of flags.", hint="--ab '-O2|-O3'")
    found = [effective_flags(f"{code.optimize} {code.cflags} {text}") for text in texts]
    names = found if found[0] != found[1] else [f"{found[0]} (A)", f"{found[1]} (B)"]
    return [
        (name, replace(code, optimize="", cflags=each))
        for name, each in zip(names, found, strict=True)
    ]


def run_in_turns(before: Side, after: Side, listener: Listener) -> Alternated:
    """Measure two plans in alternating sessions; each session starts the board again.

    Which side begins changes from pair to pair, so that a drift is on both. On emulators one
    session each is enough: the next one would be the same.

    Raises:
        UsageError: a plan makes no sense.
    """
    specs = boards_of(after.plan)
    sessions = sessions_on(specs, after.plan.port)
    listener = replace(listener, on_note=once(listener.on_note))
    outcomes: tuple[list[Outcome], list[Outcome]] = ([], [])
    for turn in turns(sessions):
        side, found = (before, after)[turn], outcomes[turn]
        with contextlib.nullcontext() if side.folder is None else contextlib.chdir(side.folder):
            found.append(run_plan(side.plan, listener))
        if found[-1].interrupted or found[-1].failures:
            break
    return Alternated(_joined(outcomes[0]), _joined(outcomes[1]), sessions)


def turns(sessions: int) -> Iterator[int]:
    """Yield whose turn it is, 0 or 1: pair by pair, and each pair begins with the other one."""
    for number in range(sessions):
        yield from (0, 1) if number % 2 == 0 else (1, 0)


def sessions_on(specs: Iterable[BoardSpec], port: str | None) -> int:
    """Return how many sessions of each side it takes; ``port`` is where the board is, if it is."""
    are_emulators = all(spec.clock.kind == "simulated" or spec.clock.emulated for spec in specs)
    return 1 if port is None and are_emulators else SESSIONS


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
