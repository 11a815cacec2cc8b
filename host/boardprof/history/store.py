# SPDX-License-Identifier: Apache-2.0
"""The history: runs are kept, found and removed, by several processes at once."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from boardprof import __version__
from boardprof.errors import UnknownNameError, UsageError
from boardprof.history.database import reading, writing
from boardprof.history.lookup import (
    all_runs,
    own_runs,
    parse_reference,
    run_by_number,
    run_by_word,
    unknown_run,
)
from boardprof.history.project import Project, project_of
from boardprof.history.run import (
    GitState,
    HistoryError,
    NothingKeptError,
    Record,
    Run,
    RunId,
    add_records,
    check_name,
    insert,
    records_of,
    storable,
    unpacked,
)
from boardprof.report.report import Report

__all__ = ["History"]


class History:
    """Runs in a SQLite file; each method opens it, runs one transaction, and closes it.

    Attributes:
        path: of the file; it is made when the first run is saved.
        timeout_s: how long a method waits for other processes that write.
        folder: the current folder; None for none in particular.
    """

    def __init__(
        self, path: str | Path, *, timeout_s: float = 10.0, folder: str | Path | None = None
    ) -> None:
        """Set the file; nothing is opened yet.

        Args:
            path: of the file.
            timeout_s: how long a method waits for other processes that write.
            folder: if it is in a project, then a name, a branch, a commit and ``last`` mean runs of
                this project or without a project; see `boardprof.history.project`. Elsewhere, and
                with None, they mean all runs. Saved runs belong to the folder's project.
        """
        self.path = Path(path)
        self.timeout_s = timeout_s
        self.folder = folder

    def save(
        self,
        report: Report,
        name: str | None = None,
        command: Sequence[str] | str | None = None,
        *,
        git: GitState | None = None,
        has_failed: bool = False,
    ) -> RunId:
        """Keep a Report, completely or not at all.

        Args:
            report: of the run.
            name: to find it by; if several runs have it, the newest is meant.
            command: the command line, as one text or in words.
            git: the state of its sources.
            has_failed: it is incomplete or wrong, and so is not found by its branch or commit.

        Returns:
            The run's number.

        Raises:
            UsageError: the name is not valid.
            HistoryError: the file cannot be written.
        """
        if not isinstance(report, Report):
            raise UsageError(f"{report!r:.60} is not a Report.")
        if name is not None:
            check_name(name)
        text = command if isinstance(command, str) else shlex.join(command or ())
        project = self._project_told()
        record = Record(
            time=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            name=name,
            command=storable(text),
            project="" if project is None else project.id,
            commit=git.commit if git else None,
            branch=storable(git.branch) if git else None,
            dirty=git.is_dirty if git else None,
            version=__version__,
            failed=has_failed,
            report=report.json(),
        )
        with writing(self.path, self.timeout_s) as file:
            return RunId(insert(file, record, report))

    def find(self, ref: str | int) -> Report:
        """Return the Report of a run.

        Args:
            ref: its number, also as ``#42`` or ``"42"``; ``last``, ``last~1``; the name given by
                ``--save``; a branch or the beginning of a commit, which mean the newest clean run
                that did not fail. The first match in this order wins; ``name:NAME``,
                ``branch:BRANCH`` and ``commit:COMMIT`` say which is meant.

        Raises:
            UnknownNameError: there is no such run.
            UsageError: it cannot refer to a run, or it is a name and a branch of different runs.
            HistoryError: the file cannot be read.
            ReportFileError: the stored data is not a Report.
        """
        return self.load(self.run(ref))

    def load(self, run: Run) -> Report:
        """Return the Report of a run that `run` or `runs` gave.

        Raises:
            UsageError: it is not a Run.
            UnknownNameError: it has been removed.
            HistoryError: the file cannot be read.
        """
        if not isinstance(run, Run):
            raise UsageError(f"{run!r:.60} is not a Run.", hint="find() takes a number or a name")
        with reading(self.path, self.timeout_s) as file:
            statement = "SELECT report FROM runs WHERE id = ?"
            row = file.execute(statement, [run.id]).fetchone() if file is not None else None
        if row is None:
            raise UnknownNameError("run", f"#{run.id}", [])
        with self._damage_told(run.id):
            text = unpacked(row[0])
        return Report.from_json(text)

    def run(self, ref: str | int) -> Run:
        """Return what is known about a run; see `find`."""
        reference = parse_reference(ref)
        with reading(self.path, self.timeout_s) as file:
            if file is None:
                raise NothingKeptError(
                    f"There is no run {reference.text!r}: nothing was kept in {self.path} yet.",
                    hint="`boardprof run` keeps each run",
                )
            found = run_by_number(file, reference)
            if found is None:
                project = self._project()
                found = run_by_word(file, reference, project)
                if found is None:
                    raise unknown_run(file, reference, project)
        return found

    def runs(
        self, *, board: str | None = None, function: str | None = None, limit: int | None = None
    ) -> list[Run]:
        """Return what is known about the runs, newest first.

        Args:
            board: only runs on this board.
            function: only runs of this function.
            limit: maximum number of runs, 0 or more; None for all.

        Raises:
            UsageError: the limit is out of range.
            HistoryError: the file cannot be read.
        """
        if limit is not None and (type(limit) is not int or limit < 0):
            raise UsageError(f"limit={limit!r:.60} is out of range: 0 or more, or None for all.")
        found: list[Run] = []
        with reading(self.path, self.timeout_s) as file:
            if file is None:
                return found
            for run in all_runs(file):
                if limit is not None and len(found) >= limit:
                    break
                if board in (None, *run.boards) and function in (None, *run.functions):
                    found.append(run)
        return found

    def remove(self, ref: str | int) -> Run:
        """Remove one run permanently, and return what was known about it.

        Raises:
            UnknownNameError: there is no such run.
            HistoryError: the file cannot be written.
        """
        run = self.run(ref)
        with writing(self.path, self.timeout_s) as file:
            file.execute("DELETE FROM runs WHERE id = ?", [run.id])
        return run

    def rename(self, ref: str | int, name: str | None) -> Run:
        """Rename a run, or remove its name.

        Args:
            ref: the run.
            name: the new one; None to remove it.

        Returns:
            What was known about it before.

        Raises:
            UnknownNameError: there is no such run.
            UsageError: the name is not valid.
            HistoryError: the file cannot be written.
        """
        if name is not None:
            check_name(name)
        run = self.run(ref)
        with writing(self.path, self.timeout_s) as file:
            file.execute("UPDATE runs SET name = ? WHERE id = ?", [name, run.id])
        return run

    def own_runs(self) -> list[Run]:
        """Return the runs of the folder's project, newest first; without a project, all runs.

        Raises:
            HistoryError: the file cannot be read, or git does not answer.
        """
        with reading(self.path, self.timeout_s) as file:
            return [] if file is None else [*own_runs(file, self._project())]

    def records(self, runs: Iterable[Run] | None = None) -> list[Record]:
        """Return runs with their Reports, for import into another history.

        Args:
            runs: the runs; None for all.

        Raises:
            HistoryError: the file cannot be read, or one is damaged.
        """
        with reading(self.path, self.timeout_s) as file:
            if file is None:
                return []
            found: list[Record] = []
            for run in all_runs(file) if runs is None else runs:
                with self._damage_told(run.id):
                    found += records_of(file, [run.id])
            return found

    def add(self, records: Iterable[Record]) -> int:
        """Add runs of another history that are not there yet; return how many.

        Raises:
            ReportFileError: one has no Report.
            HistoryError: the file cannot be written.
        """
        with writing(self.path, self.timeout_s) as file:
            return add_records(file, records)

    @contextlib.contextmanager
    def _damage_told(self, number: int) -> Iterator[None]:
        try:
            yield
        except ValueError as error:
            raise HistoryError(
                f"Run #{number} in {self.path} is damaged: {error}.",
                hint=f"boardprof history remove {number}",
            ) from error

    def _project(self) -> Project | None:
        return None if self.folder is None else project_of(self.folder)

    def _project_told(self) -> Project | None:
        """Return the same, or None if git does not answer: the run is kept anyway."""
        try:
            return self._project()
        except HistoryError:
            return None
