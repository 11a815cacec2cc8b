# SPDX-License-Identifier: Apache-2.0
"""The history: runs are kept, found and removed, by several processes at once."""

from __future__ import annotations

import json
import shlex
import zlib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from boardprof._version import __version__
from boardprof.errors import UnknownNameError, UsageError
from boardprof.history.database import reading, writing
from boardprof.history.lookup import all_runs, run_by_number, run_by_word, unknown_run
from boardprof.history.reference import check_name, parse_reference, storable
from boardprof.history.repository import Repository, repository_of
from boardprof.history.run import GitState, HistoryError, Run, RunId, contents_of
from boardprof.history.scope import Scope
from boardprof.report.report import Report

__all__ = ["History"]


class History:
    """Runs in a SQLite file; each method opens it, does one transaction, and closes it.

    Attributes:
        path: of the file; it is made when the first run is saved.
        timeout_s: how long a method waits for other processes that write.
        folder: where the user is; None: nowhere in particular.
    """

    def __init__(
        self, path: str | Path, *, timeout_s: float = 10.0, folder: str | Path | None = None
    ) -> None:
        """Name the file; nothing is opened yet.

        Args:
            path: of the file.
            timeout_s: how long a method waits for other processes that write.
            folder: in a git repository, a name, a branch, a commit and ``last`` mean runs of this
                repository, or that were started in it, or of sources in no repository. Elsewhere,
                and with None, they mean runs of all.
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
        """Keep a Report; wholly, or not at all.

        Args:
            report: of the run.
            name: by which it can be found; several runs may have it, the newest counts.
            command: the command line, as one text or in words.
            git: what the run was made of.
            has_failed: it is not whole, or not what it should be: it is not found by its branch or
                commit.

        Returns:
            The run's number.

        Raises:
            UsageError: the name cannot be one.
            HistoryError: the file cannot be written.
        """
        if not isinstance(report, Report):
            raise UsageError(f"{report!r:.60} is no Report.")
        if name is not None:
            check_name(name)
        text = command if isinstance(command, str) else shlex.join(command or ())
        here = self._repository_told()
        packed = zlib.compress(report.json().encode("utf-8", "surrogatepass"))
        time = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        values = (
            time,
            name,
            storable(text),
            git.commit if git else None,
            storable(git.branch) if git else None,
            int(git.is_dirty) if git else None,
            __version__,
            len(report.calls),
            json.dumps(contents_of(report)),
            packed,
            git.repository if git else None,
            here.path if here else None,
            int(has_failed),
        )
        with writing(self.path, self.timeout_s) as file:
            cursor = file.execute(
                "INSERT INTO runs (time, name, command, git_commit, git_branch, git_dirty, "
                "version, rows, contents, report, git_repository, started_in, failed) "
                f"VALUES ({', '.join('?' * len(values))})",
                values,
            )
            number = cursor.lastrowid
        assert number is not None  # an INSERT has one
        return RunId(number)

    def find(self, ref: str | int) -> Report:
        """Return the Report of a run.

        Args:
            ref: its number, also as ``#42`` or ``"42"``; ``last``, ``last~1``; the name given by
                ``--save``; a branch or the beginning of a commit, of which the newest run with
                nothing changed that did not fail is taken. What it is first in this order, it is.

        Raises:
            UnknownNameError: there is no such run.
            UsageError: no run can be called so.
            HistoryError: the file cannot be read.
            ReportFileError: what was kept is no Report.
        """
        return self.load(self.run(ref))

    def load(self, run: Run) -> Report:
        """Return the Report of a run that `run` or `runs` gave.

        Raises:
            UsageError: it is no Run.
            UnknownNameError: it was removed meanwhile.
            HistoryError: the file cannot be read.
        """
        if not isinstance(run, Run):
            raise UsageError(f"{run!r:.60} is no Run.", hint="find() takes a number or a name")
        with reading(self.path, self.timeout_s) as file:
            statement = "SELECT report FROM runs WHERE id = ?"
            row = file.execute(statement, [run.id]).fetchone() if file is not None else None
        if row is None:
            raise UnknownNameError("run", f"#{run.id}", [])
        try:
            text = zlib.decompress(row[0]).decode("utf-8", "surrogatepass")
        except (zlib.error, TypeError, UnicodeDecodeError) as error:
            raise HistoryError(
                f"Run #{run.id} in {self.path} is damaged: {error}.",
                hint=f"boardprof history remove {run.id}",
            ) from error
        return Report.from_json(text)

    def run(self, ref: str | int) -> Run:
        """Return what is known of a run; see `find`."""
        reference = parse_reference(ref)
        with reading(self.path, self.timeout_s) as file:
            if file is None:
                raise HistoryError(
                    f"There is no run {reference.text!r}: nothing was kept in {self.path} yet.",
                    hint="`boardprof run` keeps each run",
                )
            found = run_by_number(file, reference)
            if found is None:
                scope = Scope(file, self._repository())
                found = run_by_word(file, reference, scope)
                if found is None:
                    raise unknown_run(file, reference, scope)
        return found

    def runs(
        self, *, board: str | None = None, function: str | None = None, limit: int | None = None
    ) -> list[Run]:
        """Return what is known of the runs, the newest first.

        Args:
            board: only those on it.
            function: only those of it.
            limit: so many at most, 0 or more.

        Raises:
            UsageError: the limit is none.
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
        """Remove one run for good, and return what was known of it.

        Raises:
            UnknownNameError: there is no such run.
            HistoryError: the file cannot be written.
        """
        run = self.run(ref)
        with writing(self.path, self.timeout_s) as file:
            file.execute("DELETE FROM runs WHERE id = ?", [run.id])
        return run

    def _repository(self) -> Repository | None:
        return None if self.folder is None else repository_of(self.folder)

    def _repository_told(self) -> Repository | None:
        """Return the same; None, too, where git does not answer: a run is kept all the same."""
        try:
            return self._repository()
        except HistoryError:
            return None
