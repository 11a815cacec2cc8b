# SPDX-License-Identifier: Apache-2.0
"""The history: runs are kept, found and removed, by several processes at once."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from boardprof import __version__
from boardprof.base.errors import ReportFileError, UnknownNameError, UsageError
from boardprof.base.packages import entries, named_function
from boardprof.results.history.databases import (
    Choice,
    Database,
    SqlRuns,
    WordLookup,
    is_url,
    only,
    own_runs,
    parse_reference,
    require_place,
)
from boardprof.results.history.run import (
    FILES,
    FOLDER,
    GitState,
    HistoryError,
    NothingKeptError,
    Project,
    Run,
    RunId,
    StoredRun,
    check_name,
    contents_of,
    packed,
    project_of,
    storable,
    unpacked,
)
from boardprof.results.history.sqlite import SqliteDatabase
from boardprof.results.report.report import Report


class History:
    """Runs in a SQLite file or in a database on a server.

    Each method opens it, runs one transaction, and closes it.

    Attributes:
        path: of the file, which is made when the first run is saved; None for a server.
        name: for people: the path, or the URL without its password.
        folder: the current folder; None for none in particular.
    """

    def __init__(
        self, place: str | Path, *, timeout_s: float = 10.0, folder: str | Path | None = None
    ) -> None:
        """Set the place; nothing is opened yet.

        Args:
            place: the path of a file, or ``postgresql://USER@HOST/DATABASE``, which needs
                ``boardprof[postgres]``. Other packages may bring more kinds of URLs.
            timeout_s: how long a method waits for the server, or for other processes that write.
            folder: a name, a branch, a commit and ``last`` mean runs of its project or without a
                project; see `boardprof.results.history.run`. A folder that is in no project is
                one by itself. With None they mean all runs. Saved runs belong to the folder's
                project.

        Raises:
            UsageError: there is no such kind of database, or a package for it is missing.
        """
        self._database = _database_of(place, timeout_s)
        self.path: Path | None = getattr(self._database, "path", None)
        self.name = self._database.name
        self.folder = folder

    def may_exist(self) -> bool:
        """Tell whether it exists; a server's is not asked."""
        return self._database.may_exist()

    def save(
        self,
        report: Report,
        name: str | None = None,
        command: Sequence[str] | str | None = None,
        *,
        git: GitState | None = None,
        has_failed: bool = False,
        files: Sequence[str] = (),
    ) -> RunId:
        """Keep a Report, completely or not at all.

        Args:
            report: of the run.
            name: to find it by; if several runs have it, the newest is meant.
            command: the command line, as one text or in words.
            git: the state of its sources.
            has_failed: it is incomplete or wrong, and so is not found by its branch or commit.
            files: what was measured, as paths in its project.

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
        project = None
        with contextlib.suppress(HistoryError):  # git does not answer, but the run is kept anyway
            project = self._project()
        record = StoredRun(
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
        with self._database.writing() as table:
            return RunId(_insert(table, record, report, project, files))

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
        return self.load_all([run])[0]

    def load_all(self, runs: Iterable[Run]) -> list[Report]:
        """Return the Reports of runs that `run` or `runs` gave, in their order."""
        texts = []
        with self._database.reading() as table:
            for run in runs:
                kept = None if table is None else table.report(run.id)
                if kept is None:
                    raise UnknownNameError("run", f"#{run.id}", [])
                with self._damage_told(run.id):
                    texts.append(unpacked(kept))
        return [*map(Report.from_json, texts)]

    def run(self, ref: str | int) -> Run:
        """Return what is known about a run; see `find`."""
        reference = parse_reference(ref)
        with self._database.reading() as table:
            if table is None:
                raise NothingKeptError(
                    f"There is no run {reference.text!r}: nothing was kept in {self.name} yet.",
                    hint="measure first: `boardprof run` keeps each run",
                )
            number = reference.number
            found = None if number is None else next(table.runs(Choice(id=number)), None)
            if found is None:
                words = WordLookup(table, reference, self._project())
                found = words.run()
                if found is None:
                    raise words.error()
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
        choice = Choice(boards=only(board), functions=only(function))
        with self._database.reading() as table:
            if table is None:
                return []
            found = filter(choice.has, table.runs(choice))
            return [*itertools.islice(found, limit)]

    def count(self, *, board: str | None = None, function: str | None = None) -> int:
        """Return the number of runs that `runs` would return without a limit.

        Raises:
            HistoryError: the file cannot be read.
        """
        with self._database.reading() as table:
            choice = Choice(boards=only(board), functions=only(function))
            return 0 if table is None else table.count(choice)

    def remove(self, ref: str | int) -> Run:
        """Remove one run permanently, and return what was known about it.

        Raises:
            UnknownNameError: there is no such run.
            HistoryError: the file cannot be written.
        """
        run = self.run(ref)
        with self._database.writing() as table:
            table.remove(run.id)
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
        with self._database.writing() as table:
            table.rename(run.id, name)
        return run

    def own_runs(self, choice: Choice | None = None, *, limit: int | None = None) -> list[Run]:
        """Return the runs of the folder's project, newest first; without a folder, all runs."""
        with self._database.reading() as table:
            if table is None:
                return []
            return [*itertools.islice(own_runs(table, self._project(), choice), limit)]

    def records(self, runs: Iterable[Run] | None = None) -> Iterator[StoredRun]:
        """Yield runs with their Reports, for import into another history.

        Each is read when it is asked for; one that is removed meanwhile is left out.
        """
        chosen = self.runs() if runs is None else runs
        for batch in _batches(chosen):
            found: list[StoredRun] = []
            with self._database.reading() as table:
                for run in batch if table is not None else ():
                    assert table is not None
                    with self._damage_told(run.id):
                        record = table.record(run.id)
                    found += [] if record is None else [record]
            yield from found

    def add(self, records: Iterable[StoredRun]) -> int:
        """Add runs of another history that are not there yet; return how many.

        They are added in the order of their times, all of them or none. A run is there if one with
        the same time, command, commit and Report is, whatever its name.
        """
        ordered = sorted(records, key=lambda record: record.time)
        read = [(each, Report.from_json(each.report)) for each in ordered]  # before others wait
        added = 0
        with self._database.adding() as table:
            for each, report in read:
                if not any(_is_same(kept, report) for kept in table.like(each)):
                    _insert(table, each, report)
                    added += 1
        return added

    def copy(self, runs: Iterable[Run], target: History) -> tuple[int, int]:
        """Add runs of this history to another one, see `add`, a batch at a time.

        If it is stopped, the next copy goes on where it was: runs that are there are left out.
        """
        added = read = 0
        for batch in _batches(sorted(runs, key=lambda run: (run.time, run.id))):
            records = [*self.records(batch)]
            added, read = added + target.add(records), read + len(records)
        return added, read

    def results(self, keys: Sequence[str]) -> dict[str, str]:
        """Return the results of tuning that are kept for ``keys``."""
        with self._database.reading() as table:
            return {} if table is None else table.results(keys)

    def keep_results(self, results: Mapping[str, str]) -> None:
        """Keep results of tuning by their keys, each a digest of all that it depends on."""
        if results:
            with self._database.writing() as table:
                table.keep_results(results)

    def upgrade(self) -> str:
        """Create or convert its tables for this version of boardprof; return what was done."""
        return self._database.upgrade()

    @contextlib.contextmanager
    def _damage_told(self, number: int) -> Iterator[None]:
        try:
            yield
        except ValueError as error:
            raise HistoryError(
                f"Run #{number} in {self.name} is damaged: {error}.",
                hint=f"boardprof history remove {number}",
            ) from error

    def _project(self) -> Project | None:
        return None if self.folder is None else project_of(self.folder)


_GROUP: Final = "histories"
_POSTGRES: Final = ("postgresql", "postgres")  # schemes that libpq knows

_EXTRA: Final = "boardprof[postgres]"


class MissingPackagesError(UsageError):
    """The Python packages for a kind of history are not installed."""

    exit_code = 7  # like a missing tool


def _database_of(place: str | Path, timeout_s: float) -> Database:
    """Return the database at a place; nothing is opened yet."""
    if not is_url(place):
        if isinstance(place, str):
            require_place(place)
        return SqliteDatabase(Path(place), timeout_s)
    url = str(place).strip()
    scheme = url.partition("://")[0].casefold()
    if scheme in _POSTGRES:
        return _postgres(url, timeout_s)
    found = named_function(_GROUP, scheme, f"The history {scheme}")
    if found is None:
        known = sorted({*_POSTGRES, *(entry.name for entry in entries(_GROUP))})
        hint = "BOARDPROF_HISTORY=FILE, or postgresql://USER@HOST/DATABASE"
        raise UnknownNameError("kind of history", f"{scheme}://", known, hint=hint)
    database: Database = found.function(url, timeout_s)
    return database


def _postgres(url: str, timeout_s: float) -> Database:
    try:
        server = importlib.import_module("boardprof.results.history.postgres.server")
    except ImportError as error:
        if (error.name or "").startswith("boardprof"):
            raise
        raise MissingPackagesError(
            f"A history on PostgreSQL needs packages that are not installed: {_EXTRA}.",
            hint=f"pip install '{_EXTRA}'",
        ) from error
    database: Database = server.PostgresDatabase(url, timeout_s)
    return database


_BATCH = 100  # runs that are copied in one transaction


def _batches(runs: Iterable[Run]) -> Iterator[list[Run]]:
    left = iter(runs)
    while batch := [*itertools.islice(left, _BATCH)]:
        yield batch


def _insert(
    table: SqlRuns,
    record: StoredRun,
    report: Report,
    project: Project | None = None,
    files: Sequence[str] = (),
) -> int:
    contents = {**contents_of(report), FILES: tuple(files)}
    if project is not None:
        contents[FOLDER] = (project.folder_name,)
    return table.insert(record, packed(record.report), len(report.calls), contents)


def _is_same(kept: bytes, report: Report) -> bool:
    with contextlib.suppress(ValueError, ReportFileError):
        return Report.from_json(unpacked(kept)) == report
    return False
