# SPDX-License-Identifier: Apache-2.0
"""A runner for tuners that measures candidates on all boards of a kind at once."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from boardprof.base.errors import BoardError, BoardprofError, UsageError
from boardprof.jobs.fleet.boards import FleetBoard, lease_of
from boardprof.jobs.fleet.fleet import Fleet
from boardprof.jobs.fleet.job import DONE, Job, JobError, Limits
from boardprof.jobs.fleet.policy import Rules
from boardprof.jobs.fleet.work import LEASE_S, Answer, is_boards_fault
from boardprof.jobs.tune.candidate import Candidate, MeasureResult, as_candidates
from boardprof.jobs.tune.measuring import ArgumentValues
from boardprof.jobs.tune.runner import OnResult, Runner, metric_name
from boardprof.target.build.build_options import BuildOptions
from boardprof.target.descriptions.board import BoardSpec

_SHARE_S = 3600.0


@dataclass(frozen=True)
class _Share(Job):
    """Some of the candidates, which one board measures."""

    settings: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    candidates: tuple[Candidate, ...] = field(default=(), compare=False, repr=False)


class FleetRunner:
    """Measures candidates of one function on all boards of a kind at once, as `Runner` does on one.

    Each board measures a share of the candidates at a time, in a process of its own, which also
    builds them. So a host needs the compilers of its boards, and files of candidates at the same
    paths. If a board or a host fails, its share goes to another one.
    """

    def __init__(
        self,
        board: str | BoardSpec,
        arguments: ArgumentValues,
        metric: str = "cycles",
        *,
        scheduler: str | None = None,
        boards: Sequence[str] = (),
        share: int = 8,
        rules: Rules | None = None,
        **settings: Any,
    ) -> None:
        """Choose the boards; nothing is started yet.

        Args:
            board: a kind of board, or its description.
            arguments: as for `Runner`, like the following.
            metric: the cost.
            scheduler: as for `Fleet`, like the following.
            boards: of this machine.
            share: how many candidates a board measures at a time, >= 1.
            rules: retries and quarantine.
            **settings: of `Runner`, without a port. Relative paths start at the current folder.
        """
        self._board, self._share = board if isinstance(board, str) else board.name, share
        self._settings = {"arguments": arguments, "metric": metric, **_placed(settings)}
        limits = settings.get("constraints") or {}
        self.constraints = {metric_name(name): float(limit) for name, limit in limits.items()}
        self._fleet = Fleet(scheduler, boards=boards, rules=rules, perform=measure_share)

    def measure(
        self,
        candidates: Sequence[Candidate | str | Path],
        *,
        on_result: OnResult | None = None,
    ) -> list[MeasureResult]:
        """Measure candidates; see `Runner.measure`.

        Raises:
            UsageError: a setting is not valid, or the board does not count the metric.
            BoardError: some could not be measured; the message says why.
        """
        todo = as_candidates(candidates)
        found: dict[int, MeasureResult] = {}
        for result in self._fleet.as_completed(self._shares(todo)):
            first = int(result.job.function)
            if result.state != DONE:
                error = result.errors[0]
                kind = UsageError if error.kind == UsageError.__name__ else BoardError
                told = f"Candidates from number {first} on were not measured: {error.message}"
                raise kind(told)
            for index, measured in enumerate(result.value, start=first):
                found[index] = measured
                if on_result is not None:
                    on_result(index, measured)
        return [found[index] for index in range(len(todo))]

    def _shares(self, todo: Sequence[Candidate]) -> list[_Share]:
        return [
            _Share(
                file="candidates",
                board=self._board,
                function=f"{first}",
                flags="",
                limits=Limits(job_s=_SHARE_S),
                settings=self._settings,
                candidates=tuple(todo[first : first + self._share]),
            )
            for first in range(0, len(todo), self._share)
        ]


def _placed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings whose paths are absolute, because a worker has another current folder."""
    options = settings.get("options") or BuildOptions()
    return {
        **settings,
        "sources": [os.path.abspath(each) for each in settings.get("sources", ())],
        "options": replace(
            options,
            sources=tuple(map(os.path.abspath, options.sources)),
            includes=tuple(map(os.path.abspath, options.includes)),
        ),
    }


def measure_share(share: _Share, board: FleetBoard) -> Answer:
    """Measure a share on one board; runs in the process of the board."""
    try:
        with lease_of(board)(board, LEASE_S) as port:
            runner = Runner(board.kind, port=port, **share.settings)
            return Answer(value=runner.measure(share.candidates))
    except BoardprofError as error:
        return Answer(errors=(JobError.of(error),), is_boards_fault=is_boards_fault(error))
