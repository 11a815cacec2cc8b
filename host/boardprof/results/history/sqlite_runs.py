# SPDX-License-Identifier: Apache-2.0
"""Runs in the history's SQLite file, and the results of tuning beside them."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

from boardprof.results.history.choice import Choice
from boardprof.results.history.database import may_exist, reading, writing
from boardprof.results.history.run import GitState, Record, Run, RunId, kept_contents, unpacked

_COLUMNS: Final = (
    "id, time, name, command, git_commit, git_branch, git_dirty, version, rows, contents, project, "
    "failed"
)
_RECORD: Final = (
    "time, name, command, project, git_commit, git_branch, git_dirty, version, failed, report"
)
_CANDIDATES: Final = (
    "CREATE TABLE IF NOT EXISTS candidates (key TEXT PRIMARY KEY, result TEXT NOT NULL)"
)
_HAS_CANDIDATES: Final = "SELECT count(*) FROM sqlite_schema WHERE name = 'candidates'"


class SqliteDatabase:
    """A history in one file.

    Attributes:
        path: of the file; it is made when the first run is saved.
        timeout_s: how long to wait for other processes that write.
        name: the path.
    """

    def __init__(self, path: Path, timeout_s: float) -> None:
        """Set the file; nothing is opened yet."""
        self.path = path
        self.timeout_s = timeout_s
        self.name = str(path)

    def may_exist(self) -> bool:
        """Tell whether there is a file, or no permission to find out."""
        return may_exist(self.path)

    @contextlib.contextmanager
    def reading(self) -> Iterator[SqliteRuns | None]:
        """See `Database`."""
        with reading(self.path, self.timeout_s) as file:
            yield None if file is None else SqliteRuns(file)

    @contextlib.contextmanager
    def writing(self) -> Iterator[SqliteRuns]:
        """See `Database`."""
        with writing(self.path, self.timeout_s) as file:
            yield SqliteRuns(file)

    def adding(self) -> AbstractContextManager[SqliteRuns]:
        """See `Database`: a file has one writer at a time."""
        return self.writing()

    def upgrade(self) -> str:
        """Create the tables if there are none yet."""
        with self.writing():
            return "it has the tables of this boardprof"


class SqliteRuns:
    """The runs in a file, within one transaction; see `RunTable`."""

    def __init__(self, file: sqlite3.Connection) -> None:
        """Take an open file."""
        self._file = file

    def runs(self, choice: Choice) -> Iterator[Run]:
        """Yield runs, newest first.

        The order is by time: an imported run keeps the time of its measurement.
        """
        condition, values = _condition(choice)
        order = "time IS NULL DESC, time DESC, id DESC"  # damaged runs are shown
        statement = f"SELECT {_COLUMNS} FROM runs WHERE {condition} ORDER BY {order}"
        return map(_run, self._file.execute(statement, values))

    def count(self, choice: Choice) -> int:
        """Return the number of runs."""
        if choice.boards is not None or choice.functions is not None:
            return sum(map(choice.has, self.runs(choice)))
        condition, values = _condition(choice)
        statement = f"SELECT count(*) FROM runs WHERE {condition}"
        return int(self._file.execute(statement, values).fetchone()[0])

    def report(self, number: int) -> bytes | None:
        """Return the packed Report of a run."""
        row = self._file.execute("SELECT report FROM runs WHERE id = ?", [number]).fetchone()
        if row is None:
            return None
        return row[0] if isinstance(row[0], bytes) else b""  # damaged: no Report is that

    def record(self, number: int) -> Record | None:
        """Return a run with its Report."""
        row = self._file.execute(f"SELECT {_RECORD} FROM runs WHERE id = ?", [number]).fetchone()
        if row is None:
            return None
        time, name, command, project, commit, branch, dirty, version, failed, report = row
        if not isinstance(time, str) or not isinstance(command, str):
            raise ValueError("its time or its command is missing")
        git = (commit, branch, None if dirty is None else bool(dirty))
        return Record(
            time, name, command, project or "", *git, version, bool(failed), unpacked(report)
        )

    def like(self, record: Record) -> Iterator[bytes]:
        """Yield the packed Reports of runs with the same time, command and commit."""
        same = "SELECT report FROM runs WHERE time = ? AND command = ? AND git_commit IS ?"
        found = self._file.execute(same, [record.time, record.command, record.commit])
        return (kept for (kept,) in found)

    def insert(
        self, record: Record, packed: bytes, rows: int, contents: Mapping[str, Sequence[str]]
    ) -> int:
        """Add a run."""
        each = record
        values = (
            *(each.time, each.name, each.command, each.project),
            *(each.commit, each.branch, each.dirty, each.version, each.failed),
            *(packed, rows, json.dumps(contents)),
        )
        marks = ", ".join("?" * len(values))
        statement = f"INSERT INTO runs ({_RECORD}, rows, contents) VALUES ({marks})"
        number = self._file.execute(statement, values).lastrowid
        assert number is not None  # an INSERT always sets it
        return number

    def remove(self, number: int) -> None:
        """Remove a run."""
        self._file.execute("DELETE FROM runs WHERE id = ?", [number])

    def rename(self, number: int, name: str | None) -> None:
        """Name a run, or take its name away."""
        self._file.execute("UPDATE runs SET name = ? WHERE id = ?", [name, number])

    def results(self, keys: Sequence[str]) -> dict[str, str]:
        """Return the results of tuning that are kept."""
        if not self._file.execute(_HAS_CANDIDATES).fetchone()[0]:
            return {}
        statement = "SELECT result FROM candidates WHERE key = ?"
        rows = ((key, self._file.execute(statement, [key]).fetchone()) for key in keys)
        return {key: str(row[0]) for key, row in rows if row is not None}

    def keep_results(self, results: Mapping[str, str]) -> None:
        """Keep results of tuning."""
        self._file.execute(_CANDIDATES)
        statement = "INSERT OR REPLACE INTO candidates VALUES (?, ?)"
        self._file.executemany(statement, results.items())


def _condition(choice: Choice) -> tuple[str, list[object]]:
    """Return SQL for the conditions on columns, and its values."""
    commit = choice.commit
    known: dict[str, list[object] | None] = {
        "id = ?": None if choice.id is None else [choice.id],
        "id < ?": None if choice.before is None else [choice.before],
        "name = ?": None if choice.name is None else [choice.name],
        "git_branch = ?": None if choice.branch is None else [choice.branch],
        "substr(git_commit, 1, ?) = ?": None if commit is None else [len(commit), commit],
        "NOT git_dirty AND NOT failed": [] if choice.is_clean is True else None,
        "(git_dirty OR failed)": [] if choice.is_clean is False else None,
        "failed = ?": None if choice.has_failed is None else [choice.has_failed],
    }
    given = {text: values for text, values in known.items() if values is not None}
    return " AND ".join(given) or "1", [value for values in given.values() for value in values]


def _run(row: tuple[Any, ...]) -> Run:
    number, time, name, command, *git_columns, version, rows, contents, project, failed = row
    commit, branch, is_dirty = git_columns
    kept = kept_contents(contents)
    return Run(
        id=RunId(number),
        time=_text(time),
        name=name if isinstance(name, str) else None,
        boards=kept["boards"],
        functions=kept["functions"],
        build_ids=kept["build_ids"],
        flags=kept["flags"],
        command=_text(command),
        git=GitState(commit, _text(branch), bool(is_dirty)) if isinstance(commit, str) else None,
        version=_text(version),
        rows=rows if isinstance(rows, int) else 0,
        project=_text(project),
        has_failed=bool(failed),
    )


def _text(value: object) -> str:
    """Return a column's text; empty if it is absent or damaged."""
    return value if isinstance(value, str) else ""
