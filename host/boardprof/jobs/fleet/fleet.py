# SPDX-License-Identifier: Apache-2.0
"""A fleet runs batches of jobs, or of candidates, on the boards of one machine or of many hosts."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from boardprof.base.errors import BoardError, BoardprofError, UnknownNameError, UsageError
from boardprof.jobs.fleet.batch import Batch, Perform, Progress, Provider
from boardprof.jobs.fleet.boards import FleetBoard, boards_of_host, check_startable, lease
from boardprof.jobs.fleet.job import DONE, Job, JobError, Limits, Result, ResultsFolder
from boardprof.jobs.fleet.policy import Rules
from boardprof.jobs.fleet.provider import LocalProvider
from boardprof.jobs.fleet.work import AttemptResult, is_boards_fault, perform
from boardprof.jobs.tune.candidate import Candidate, MeasureResult, as_candidates
from boardprof.jobs.tune.measuring import ArgumentValues
from boardprof.jobs.tune.runner import OnResult, Runner, metric_name
from boardprof.target.build.build_options import BuildOptions
from boardprof.target.descriptions.board import BoardSpec


class Fleet:
    """Boards that jobs are run on, each board for one job at a time."""

    def __init__(
        self,
        scheduler: str | None = None,
        *,
        boards: Sequence[str] = (),
        rules: Rules | None = None,
        perform: Perform = perform,
    ) -> None:
        """Choose the boards; nothing is started yet.

        Args:
            scheduler: address of dask's scheduler, such as ``tls://127.0.0.1:8786``. None for the
                boards of this machine.
            boards: of this machine, as for ``boardprof worker --board``. If empty, those that the
                jobs name and that need no port.
            rules: retries, quarantine and how long jobs wait for boards.
            perform: carries out a job in the process of its board; a function of a module. The
                usual one gets a `Work`, another one the job itself.

        Raises:
            UsageError: boards were given although there is a scheduler.
            MissingExtraError: ``boardprof[fleet]`` is not installed, and a scheduler was given.
        """
        if scheduler is not None and boards:
            raise UsageError(
                "Boards of this machine cannot be given together with a scheduler.",
                hint="start a worker that has them: boardprof worker --board KIND",
            )
        self._scheduler, self._texts = scheduler, tuple(boards)
        self._rules, self._perform = rules or Rules(), perform

    def map(self, jobs: Iterable[Job], **options: Any) -> list[Result]:
        """Run jobs, and return their results in the same order; see `as_completed`."""
        wanted = list(jobs)
        found = {result.job: result for result in self.as_completed(wanted, **options)}
        return [found[job] for job in wanted]

    def as_completed(
        self,
        jobs: Iterable[Job],
        *,
        results: str | Path | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        on_sources: Callable[[Sequence[Path]], None] | None = None,
    ) -> Iterator[Result]:
        """Run jobs, and yield each result as soon as it is there.

        Args:
            jobs: any number; equal ones run once and have one result.
            results: folder that gets each result at once. If it has results already, only the
                others are measured. None to keep none.
            on_progress: called after each event.
            on_sources: gets the files that each image was compiled from, including headers.

        Raises:
            BusyError: another batch has the folder.
            UsageError, StorageError: the folder cannot be used.
            BoardError: the scheduler cannot be reached.
        """
        wanted = list(dict.fromkeys(jobs))
        with ResultsFolder(results) if results is not None else nullcontext() as folder:
            faults: dict[str, BoardprofError] = {}
            provider = self._provider(wanted, faults)
            told = on_progress, on_sources
            batch = Batch(wanted, provider, self._rules, self._perform, folder, faults, *told)
            try:
                yield from batch.run()
            finally:
                batch.close()

    def _provider(self, jobs: Sequence[Job], faults: dict[str, BoardprofError]) -> Provider:
        """Return the boards; ``faults`` gets why those that jobs name are not among them."""
        if self._scheduler is not None:
            from boardprof.jobs.fleet.dask_provider import DaskProvider

            return DaskProvider(self._scheduler)
        boards = boards_of_host(self._texts, "local")
        for kind in dict.fromkeys(board.kind for board in boards if board.port is None):
            check_startable(kind)
        there = {name for board in boards for name in (board.kind, board.serial)}
        for need in dict.fromkeys(job.board for job in jobs):
            try:
                if need not in there and _can_be_started(need, there) and not self._texts:
                    boards += boards_of_host([need], "local")
            except BoardprofError as error:
                faults[need] = error
        return LocalProvider(boards)


def _can_be_started(kind: str, there: Collection[str]) -> bool:
    """Tell whether a board of this kind could be started here; raises with the reason if not."""
    from boardprof.target.descriptions.board import board_spec, find_boards

    try:
        spec = board_spec(kind)
    except UnknownNameError:
        raise UnknownNameError("board", kind, [*find_boards(), *sorted(there)]) from None
    if spec.launch.kind == "serial":
        raise UsageError(f"{kind} is a real board and needs a port.", hint=f"give -b {kind}=PORT")
    check_startable(kind)
    return True


# -- of a tuner --------------------------------------------------------------------------------

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
        self, candidates: Sequence[Candidate | str | Path], *, on_result: OnResult | None = None
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


def measure_share(share: _Share, board: FleetBoard) -> AttemptResult:
    """Measure a share on one board; runs in the process of the board."""
    try:
        with lease(board) as port:
            runner = Runner(board.kind, port=port, **share.settings)
            return AttemptResult(value=runner.measure(share.candidates))
    except BoardprofError as error:
        return AttemptResult(errors=(JobError.of(error),), is_boards_fault=is_boards_fault(error))
