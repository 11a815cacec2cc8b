# SPDX-License-Identifier: Apache-2.0
"""A history in a SQLite file: opening, its tables, runs and results of tuning, error messages.

Write-ahead logging lets readers read while one process writes; every change is one transaction,
begun as ``IMMEDIATE``, so that a second writer waits instead of failing half-way.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from boardprof.base.errors import BoardprofError, StorageError, UsageError
from boardprof.base.files import check_owner, make_private, unwritable
from boardprof.base.processes import described, lock_holders
from boardprof.results.history.databases import Choice, SqlRuns
from boardprof.results.history.run import HistoryError, kept_contents

_APPLICATION_ID: Final = 0x62706869
"""``bphi``: identifies a SQLite file as a history (SQLite's "PRAGMA application_id")."""

SCHEMA_VERSION: Final = 4  # version of the tables, in the file's user_version

_SCHEMA: Final = (
    """
    CREATE TABLE runs (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        time TEXT NOT NULL,
        name TEXT,
        command TEXT NOT NULL,
        project TEXT,
        git_commit TEXT,
        git_branch TEXT,
        git_dirty INTEGER,
        version TEXT NOT NULL,
        failed INTEGER NOT NULL,
        report BLOB NOT NULL,
        rows INTEGER NOT NULL,
        contents TEXT NOT NULL
    )
    """,
    "CREATE INDEX runs_by_name ON runs (name)",
    "CREATE INDEX runs_by_branch ON runs (git_branch)",
    "CREATE INDEX runs_by_commit ON runs (git_commit)",
    "CREATE INDEX runs_by_time ON runs (time)",
    f"PRAGMA application_id = {_APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)

_ELSEWHERE = "BOARDPROF_HISTORY=FILE uses another file, BOARDPROF_HISTORY=off keeps no history"

_CANDIDATES: Final = (
    "CREATE TABLE IF NOT EXISTS candidates (key TEXT PRIMARY KEY, result TEXT NOT NULL)"
)
_HAS_CANDIDATES: Final = "SELECT 1 FROM sqlite_schema WHERE name = 'candidates'"


class SqliteDatabase:
    """A history in one file."""

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
        if not self.may_exist():
            yield None
            return
        path, limit = self.path, self.timeout_s
        with _told(path, limit, "read"), contextlib.closing(_open_to_read(path, limit)) as file:
            file.execute("BEGIN")  # all reads see the same state, even if others write meanwhile
            yield SqliteRuns(file) if _has_tables(file, path) else None

    @contextlib.contextmanager
    def writing(self) -> Iterator[SqliteRuns]:
        """See `Database`."""
        path, timeout_s = self.path, self.timeout_s
        with _told(path, timeout_s, "written"):
            _refuse_other_kinds(path)
            make_private(path.parent)
            uri = f"{path.absolute().as_uri()}?mode=rwc"
            with contextlib.closing(_open(uri, timeout_s)) as file:
                _begin(file, path)
                try:
                    yield SqliteRuns(file)
                    file.execute("COMMIT")
                except BaseException:
                    with contextlib.suppress(sqlite3.Error):  # SQLite may have rolled it back
                        file.execute("ROLLBACK")
                    raise

    def adding(self) -> AbstractContextManager[SqliteRuns]:
        """See `Database`: a file has one writer at a time."""
        return self.writing()

    def upgrade(self) -> str:
        """Create the tables if there are none yet."""
        with self.writing():
            return "it has the tables of this boardprof"


class SqliteRuns(SqlRuns):
    """The runs in a file, within one transaction."""

    order = "time IS NULL DESC, time DESC, id DESC"  # damaged runs are shown
    contents = ("contents",)
    is_same = "IS"

    def __init__(self, file: sqlite3.Connection) -> None:
        """Take an open file."""
        self._file = file

    def execute(self, statement: str, values: Sequence[object] = ()) -> Iterable[sqlite3.Row]:
        """Execute a statement."""
        return self._file.execute(statement, values)

    def insert_row(self, statement: str, values: Sequence[object]) -> int:
        """Execute an INSERT; return the number of the new row."""
        number = self._file.execute(statement, values).lastrowid
        assert number is not None  # an INSERT always sets it
        return number

    def kept_contents(self, row: sqlite3.Row) -> Mapping[str, Sequence[str]]:
        """Return what a run is of."""
        return kept_contents(row["contents"])

    def written_contents(self, contents: Mapping[str, Sequence[str]]) -> Sequence[object]:
        """Return the contents as JSON."""
        return [json.dumps(contents)]

    def count(self, choice: Choice) -> int:
        """Return the number of runs."""
        if choice.boards is None and choice.functions is None:
            return super().count(choice)
        return sum(map(choice.has, self.runs(choice)))

    def results(self, keys: Sequence[str]) -> dict[str, str]:
        """Return the results of tuning that are kept."""
        return super().results(keys) if [*self.execute(_HAS_CANDIDATES)] else {}

    def keep_results(self, results: Mapping[str, str]) -> None:
        """Keep results of tuning."""
        self.execute(_CANDIDATES)
        super().keep_results(results)


def may_exist(path: Path) -> bool:
    """Tell whether there is a file or a folder, or no permission to find out."""
    try:
        path.stat()
    except OSError as error:  # no permission, or links in a circle: opening it reports that
        return not isinstance(error, FileNotFoundError)
    return True


def _open(uri: str, timeout_s: float) -> sqlite3.Connection:
    # isolation_level=None: Python does not begin transactions itself.
    file = sqlite3.connect(uri, uri=True, timeout=timeout_s, isolation_level=None)
    file.row_factory = sqlite3.Row
    # one damaged run does not make the others unreadable
    file.text_factory = lambda text: text.decode("utf-8", "replace")
    return file


def _open_to_read(path: Path, timeout_s: float) -> sqlite3.Connection:
    """Open a file for reading; without the log's files if the folder is read-only."""
    _refuse_other_kinds(path)
    uri = path.absolute().as_uri()
    file = _open(f"{uri}?mode=ro", timeout_s)
    try:
        file.execute("SELECT count(*) FROM sqlite_schema")
    except sqlite3.OperationalError as error:
        file.close()
        if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            raise
        # If nobody can make a log, none is needed: nothing changes on a read-only disk.
        return _open(f"{uri}?mode=ro&immutable=1", timeout_s)
    except BaseException:  # also a message of SQLite that quotes damaged bytes
        file.close()
        raise
    return file


def _begin(file: sqlite3.Connection, path: Path) -> None:
    """Begin a transaction on a file, and create the tables in an empty one."""
    with contextlib.suppress(sqlite3.OperationalError):
        # If another process opens it at the same moment, that one wins. The mode is stored in the
        # file.
        file.execute("PRAGMA journal_mode = WAL")
    file.execute("BEGIN IMMEDIATE")
    if not _has_tables(file, path):
        for statement in _SCHEMA:
            file.execute(statement)


def _has_tables(file: sqlite3.Connection, path: Path) -> bool:
    """Tell whether a file is a history; False if it is empty."""
    (kind,) = file.execute("PRAGMA application_id").fetchone()
    (version,) = file.execute("PRAGMA user_version").fetchone()
    if kind != _APPLICATION_ID:
        (tables,) = file.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if kind or version or tables:
            raise HistoryError(
                f"{path} is the database of another program, not a history.", hint=_ELSEWHERE
            )
        return False
    if version != SCHEMA_VERSION:
        raise HistoryError(
            f"{path} was written by another version of boardprof: its schema is version "
            f"{version}, this boardprof needs {SCHEMA_VERSION}.",
            hint=f"use that version of boardprof, or move the file away; {_ELSEWHERE}",
        )
    return True


def _refuse_other_kinds(path: Path) -> None:
    """Check that it is a regular file: for others, SQLite only reports that it cannot open them."""
    try:
        check_owner(path)
    except UsageError as error:
        raise HistoryError(
            f"The history {path} is not used: {error.message}", hint=_ELSEWHERE
        ) from error
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
        raise HistoryError(f"The history {path} is {kind}.", hint=_ELSEWHERE)


@contextlib.contextmanager
def _told(path: Path, timeout_s: float, done: str) -> Iterator[None]:
    """Say in plain words why the file cannot be read or written."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        raise _error(path, timeout_s, done, code, error) from error
    except UnicodeDecodeError as error:  # SQLite's message quotes the damaged bytes
        raise _error(path, timeout_s, done, sqlite3.SQLITE_CORRUPT, error) from error
    except OSError as error:
        told = unwritable(f"The history {path}", error, _ELSEWHERE)
        if isinstance(told, StorageError):
            raise told from error
        raise HistoryError(
            f"The history {path} cannot be {done}: {error.strerror or error}.", hint=_ELSEWHERE
        ) from error


def _error(path: Path, timeout_s: float, done: str, code: int, error: Exception) -> BoardprofError:
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        holders = lock_holders(path, f"{path}-shm", f"{path}-wal")
        others = described(pid for pid in holders if pid != os.getpid())
        holder = f": {others} has it" if others else ""
        return HistoryError(
            f"The history {path} was locked for {timeout_s:g} s by another process{holder}.",
            hint=f"end that process, or try again; {_ELSEWHERE}",
        )
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        what = "is not a SQLite database" if code == sqlite3.SQLITE_NOTADB else "is damaged"
        return HistoryError(
            f"The history {path} {what}: {error}.",
            hint=f"move it away, and boardprof makes a new one; {_ELSEWHERE}",
        )
    why = {
        sqlite3.SQLITE_FULL: "the disk is full",
        sqlite3.SQLITE_READONLY: "it is read-only",
        sqlite3.SQLITE_CANTOPEN: f"{error}: see the permissions of {path.parent}",
        sqlite3.SQLITE_IOERR: f"{error}: the disk may be full or a limit of file sizes reached",
    }.get(code, str(error))
    kind = StorageError if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR) else HistoryError
    return kind(f"The history {path} cannot be {done}: {why}.", hint=_ELSEWHERE)
