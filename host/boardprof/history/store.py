# SPDX-License-Identifier: Apache-2.0
"""The history: runs are kept, found and removed, by several processes at once."""

from __future__ import annotations

import json
import shlex
import sqlite3
import zlib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from boardprof._version import __version__
from boardprof.errors import UnknownNameError, UsageError
from boardprof.history.database import reading, writing
from boardprof.history.reference import LAST, Reference, check_name, parse_reference, storable
from boardprof.history.run import GitState, HistoryError, Run, RunId, contents_of, kept_contents
from boardprof.report.report import Report

__all__ = ["History"]

_COLUMNS = "id, time, name, command, git_commit, git_branch, git_dirty, version, rows, contents"
_NAMES_LISTED = 20


class History:
    """Runs in a SQLite file; each method opens it, does one transaction, and closes it.

    Attributes:
        path: of the file; it is made when the first run is saved.
        timeout_s: how long a method waits for other processes that write.
    """

    def __init__(self, path: str | Path, *, timeout_s: float = 10.0) -> None:
        """Name the file; nothing is opened yet."""
        self.path = Path(path)
        self.timeout_s = timeout_s

    def save(
        self,
        report: Report,
        name: str | None = None,
        command: Sequence[str] | str | None = None,
        *,
        git: GitState | None = None,
    ) -> RunId:
        """Keep a Report; wholly, or not at all.

        Args:
            report: of the run.
            name: by which it can be found; several runs may have it, the newest counts.
            command: the command line, as one text or in words.
            git: what the run was made of.

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
        )
        with writing(self.path, self.timeout_s) as file:
            cursor = file.execute(
                "INSERT INTO runs (time, name, command, git_commit, git_branch, git_dirty, "
                f"version, rows, contents, report) VALUES ({', '.join('?' * len(values))})",
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
                nothing changed is taken.

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
            UnknownNameError: it was removed meanwhile.
            HistoryError: the file cannot be read.
        """
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
            found = _found(file, reference) if file is not None else None
            if found is None:
                raise self._unknown(file, reference)
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
            for row in file.execute(f"SELECT {_COLUMNS} FROM runs ORDER BY id DESC"):
                run = _run(row)
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

    def _unknown(self, file: sqlite3.Connection | None, reference: Reference) -> Exception:
        if file is None:
            return HistoryError(
                f"There is no run {reference.text!r}: nothing was kept in {self.path} yet.",
                hint="`boardprof run` keeps each run",
            )
        dirty = _newest(file, "git_branch = ? AND git_dirty", [reference.word], 0)
        if dirty is not None:
            return UnknownNameError(
                "run of an unchanged",
                reference.text,
                _names(file),
                hint=f"#{dirty.id} is of {reference.word} with changes; commit and run again",
            )
        return UnknownNameError("run", reference.text, _names(file), hint="boardprof history")


def _found(file: sqlite3.Connection, reference: Reference) -> Run | None:
    """Return the run that a reference means: a number first, then a name, branch and commit."""
    if reference.number is not None:
        found = _newest(file, "id = ?", [reference.number], 0)
        if found is not None or reference.must_be_number:
            return found
    if reference.word == LAST:
        return _newest(file, "1", [], reference.back)
    for condition in ("name = ?", "git_branch = ? AND NOT git_dirty"):
        found = _newest(file, condition, [reference.word], reference.back)
        if found is not None:
            return found
    if reference.commit is None:
        return None
    condition = "substr(git_commit, 1, ?) = ? AND NOT git_dirty"
    values = [len(reference.commit), reference.commit]
    return _newest(file, condition, values, reference.back)


def _newest(
    file: sqlite3.Connection, condition: str, values: Sequence[object], back: int
) -> Run | None:
    statement = f"SELECT {_COLUMNS} FROM runs WHERE {condition} ORDER BY id DESC LIMIT 1 OFFSET ?"
    row = file.execute(statement, [*values, back]).fetchone()
    return None if row is None else _run(row)


def _names(file: sqlite3.Connection) -> list[str]:
    """Return names and branches that runs can be found by, the newest first."""
    rows = file.execute(
        "SELECT name, git_branch, git_dirty FROM runs ORDER BY id DESC LIMIT 1000"
    ).fetchall()
    names = dict.fromkeys([LAST] if rows else [])
    for name, branch, is_dirty in rows:
        names |= dict.fromkeys(filter(None, [name, None if is_dirty else branch]))
    return [*names][:_NAMES_LISTED]


def _run(row: tuple[Any, ...]) -> Run:
    number, time, name, command, commit, branch, is_dirty, version, rows, contents = row
    kept = kept_contents(contents)
    git = None if commit is None else GitState(commit, branch or "", bool(is_dirty))
    return Run(
        id=RunId(number),
        time=time,
        name=name,
        boards=kept["boards"],
        functions=kept["functions"],
        build_ids=kept["build_ids"],
        flags=kept["flags"],
        command=command,
        git=git,
        version=version,
        rows=rows,
    )
