# SPDX-License-Identifier: Apache-2.0
"""Which runs a reference means, and what a history needs of the database that has them.

Another package brings a database by an entry point of the group ``boardprof.histories``. Its name
is the scheme of the URLs in ``BOARDPROF_HISTORY``, and it names a function that takes a URL and a
timeout in seconds, and returns a `Database`.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol

from boardprof.base.errors import UnknownNameError, UsageError
from boardprof.base.metrics import digits
from boardprof.results.history.run import (
    CONTENTS,
    KINDS,
    LAST,
    Project,
    Run,
    StoredRun,
    git_refusal,
    record_of,
    run_of,
    storable,
)


@dataclass(frozen=True)
class Choice:
    """Conditions that a run must meet, all of them; one that is None does not matter."""

    id: int | None = None
    before: int | None = None  # only runs with a smaller number
    name: str | None = None
    branch: str | None = None
    commit: str | None = None  # the beginning of the id of its commit, in lower case
    # True for a run that did not fail and whose sources were not changed; False for all others
    is_clean: bool | None = None
    has_failed: bool | None = None
    project: Project | None = None
    boards: frozenset[str] | None = None
    functions: frozenset[str] | None = None

    def has(self, run: Run) -> bool:
        """Tell whether a run meets the conditions on its project, its boards and its functions.

        The others are columns of every history, so its database checks them. It may check these,
        too, to find fewer runs.
        """
        return (
            (self.project is None or self.project.has(run.project))
            and (self.boards is None or not self.boards.isdisjoint(run.boards))
            and (self.functions is None or not self.functions.isdisjoint(run.functions))
        )


def only(name: str | None) -> frozenset[str] | None:
    """Return the boards or functions of a `Choice` of one, or of any if it is None."""
    return None if name is None else frozenset([name])


# -- SQL ---------------------------------------------------------------------------------------

_FACTS: Final = (
    *("time", "name", "command", "project", "git_commit", "git_branch", "git_dirty"),
    *("version", "failed"),
)
"""Columns of a run, besides its number, its Report, the number of rows, and its contents."""

_KEYS_AT_ONCE: Final = 500


class SqlRuns:
    """The runs in a database, and the results of tuning, within one transaction.

    A database's own class says how statements are executed. Their values stand as question marks. A
    database without SQL has a class with the same public methods from `runs` on.
    """

    tables = ""  # what is before the names of tables
    order = "time DESC, id DESC"
    contents: Sequence[str] = CONTENTS  # the columns with what a Report is of
    is_same = "IS NOT DISTINCT FROM"  # compares values that may be NULL

    def execute(self, statement: str, values: Sequence[object] = ()) -> Iterable[Any]:
        """Execute a statement; return its rows, whose values are found by column."""
        raise NotImplementedError

    def select(self, statement: str, values: Sequence[object]) -> Iterable[Any]:
        """Return the rows of a statement; usually only the first ones are read."""
        return self.execute(statement, values)

    def insert_row(self, statement: str, values: Sequence[object]) -> int:
        """Execute an INSERT; return the number of the new row."""
        raise NotImplementedError

    def kept_contents(self, row: Any) -> Mapping[str, Sequence[str]]:
        """Return what a run is of from its row, by the names of `CONTENTS`."""
        # Others may write NULL.
        return {name: [*filter(None, row[name] or ())] for name in CONTENTS}

    def written_contents(self, contents: Mapping[str, Sequence[str]]) -> Sequence[object]:
        """Return the values of the columns with the contents."""
        return [[*contents[name]] for name in self.contents]

    def conditions(self, choice: Choice) -> dict[str, object]:
        """Return conditions, each with its value; None for one that does not matter."""
        return {
            "id = ?": choice.id,
            "id < ?": choice.before,
            "name = ?": choice.name,
            "git_branch = ?": choice.branch,
            # Hexadecimal: it has no wildcard.
            "git_commit LIKE ?": None if choice.commit is None else f"{choice.commit}%",
            "(git_dirty OR failed) = ?": None if choice.is_clean is None else not choice.is_clean,
            "failed = ?": choice.has_failed,
        }

    def runs(self, choice: Choice) -> Iterator[Run]:
        """Yield runs, newest first by time, then by number; those that `Choice.has` are meant.

        An imported run keeps the time of its measurement.
        """
        columns = ", ".join(["id", *_FACTS, "rows", *self.contents])
        where, values = self._where(choice)
        statement = f"SELECT {columns} FROM {self.tables}runs {where} ORDER BY {self.order}"
        return (run_of(row, self.kept_contents(row)) for row in self.select(statement, values))

    def count(self, choice: Choice) -> int:
        """Return the number of runs; the choice has no project."""
        where, values = self._where(choice)
        [row] = self.execute(f"SELECT count(*) AS n FROM {self.tables}runs {where}", values)
        return int(row["n"])

    def _where(self, choice: Choice) -> tuple[str, list[object]]:
        given = {text: each for text, each in self.conditions(choice).items() if each is not None}
        return f"WHERE {' AND '.join(given)}" if given else "", [*given.values()]

    def report(self, number: int) -> bytes | None:
        """Return the packed Report of a run; None if there is no such run."""
        for row in self.execute(f"SELECT report FROM {self.tables}runs WHERE id = ?", [number]):
            return row["report"] if isinstance(row["report"], bytes) else b""  # it is damaged
        return None

    def record(self, number: int) -> StoredRun | None:
        """Return a run with its Report; None if absent, ValueError if damaged."""
        columns = ", ".join([*_FACTS, "report"])
        statement = f"SELECT {columns} FROM {self.tables}runs WHERE id = ?"
        return next(map(record_of, self.execute(statement, [number])), None)

    def like(self, record: StoredRun) -> Iterator[bytes]:
        """Yield the packed Reports of runs with the same time, command and commit."""
        same = f"time = ? AND command = ? AND git_commit {self.is_same} ?"
        values = [record.time, record.command, record.commit]
        found = self.execute(f"SELECT report FROM {self.tables}runs WHERE {same}", values)
        return (row["report"] for row in found)

    def insert(
        self, record: StoredRun, packed: bytes, rows: int, contents: Mapping[str, Sequence[str]]
    ) -> int:
        """Add a run; return its number, which no run has had before."""
        *facts, _ = astuple(record)  # all but its Report, in the order of the columns
        values = [*facts, packed, rows, *self.written_contents(contents)]
        columns = ", ".join([*_FACTS, "report", "rows", *self.contents])
        marks = ", ".join("?" * len(values))
        statement = f"INSERT INTO {self.tables}runs ({columns}) VALUES ({marks})"
        return self.insert_row(statement, values)

    def remove(self, number: int) -> None:
        """Remove a run."""
        self.execute(f"DELETE FROM {self.tables}runs WHERE id = ?", [number])

    def rename(self, number: int, name: str | None) -> None:
        """Name a run, or take its name away."""
        self.execute(f"UPDATE {self.tables}runs SET name = ? WHERE id = ?", [name, number])

    def results(self, keys: Sequence[str]) -> dict[str, str]:
        """Return the results of tuning that are kept."""
        found: dict[str, str] = {}
        for at in range(0, len(keys), _KEYS_AT_ONCE):
            some = keys[at : at + _KEYS_AT_ONCE]
            among = f"WHERE key IN ({', '.join('?' * len(some))})"
            rows = self.execute(f"SELECT key, result FROM {self.tables}candidates {among}", some)
            found |= {row["key"]: str(row["result"]) for row in rows}
        return found

    def keep_results(self, results: Mapping[str, str]) -> None:
        """Keep results of tuning by their keys."""
        ordered = sorted(results.items())  # two processes must not wait for each other
        for at in range(0, len(ordered), _KEYS_AT_ONCE):
            some = ordered[at : at + _KEYS_AT_ONCE]
            self.execute(
                f"INSERT INTO {self.tables}candidates (key, result) "
                f"VALUES {', '.join(['(?, ?)'] * len(some))} "
                "ON CONFLICT (key) DO UPDATE SET result = excluded.result",
                [*itertools.chain.from_iterable(some)],
            )


class Database(Protocol):
    """Where a history is.

    Attributes:
        name: for people: a file's path, or a URL without secrets.
    """

    name: str

    def may_exist(self) -> bool:
        """Tell whether it exists, as far as that is known without opening it."""

    def reading(self) -> AbstractContextManager[SqlRuns | None]:
        """Provide the runs as they are at one moment; None if nothing was kept yet.

        Raises:
            HistoryError: they cannot be read.
        """

    def writing(self) -> AbstractContextManager[SqlRuns]:
        """Provide the runs within a transaction, which is committed as a whole at the end.

        Raises:
            HistoryError: they cannot be written.
            StorageError: the disk has no room, or fails.
        """

    def adding(self) -> AbstractContextManager[SqlRuns]:
        """Do the same while no other process adds runs that it has read elsewhere."""

    def upgrade(self) -> str:
        """Create or convert the tables for this version of boardprof; return what was done.

        Raises:
            HistoryError: that cannot be done.
        """


# -- paths and URLs ----------------------------------------------------------------------------

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_ALMOST_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/|postgres(?:ql)?:", re.IGNORECASE)
_LOGIN: Final = re.compile(r":[^/]*@|^(?!/[^/]|[.~]).*:.*@", re.DOTALL)
_SETTING: Final = re.compile(
    r"(?:^|\s)(?:host|hostaddr|port|dbname|user|password|passfile|service|sslmode)\s*=",
    re.IGNORECASE,
)
"""libpq's other form of a connection: ``host=db.lab dbname=boardprof``."""


def is_url(place: str | Path) -> bool:
    """Tell whether a place is a URL rather than the path of a file."""
    return isinstance(place, str) and _SCHEME.match(place.strip()) is not None


def require_place(place: str) -> None:
    """Require text to be the path of a file, or to look like a URL."""
    text = place.strip()
    if is_url(text):
        return
    form = "postgresql://USER@HOST:PORT/DATABASE, with the password in ~/.pgpass or PGPASSWORD"
    hidden = "It is not shown, because it may have a password."
    if _SETTING.search(text):
        raise UsageError(
            "The history cannot be given as host=... dbname=..., only as a file or a URL. "
            f"{hidden}",
            hint=form,
        )
    if _ALMOST_URL.match(text) or _LOGIN.search(text):
        raise UsageError(f"The URL of the history is not valid. {hidden}", hint=form)


def has_password(url: str) -> bool:
    """Tell whether a URL has a password, or may have one."""
    rest = url.partition("://")[2]
    user, at, _ = rest.rpartition("@")
    return bool(at and ":" in user) or "password" in rest.partition("?")[2].casefold()


# -- references to runs --------------------------------------------------------------------------
#
# A reference is ``#42``, ``last``, ``last~1``, a name, a branch or a commit.

_LARGEST = (1 << 63) - 1  # largest number in SQLite; no run has it

_FORMS = "#NUMBER, last, last~1, a name, a branch or a commit"
_BACK = r"(?s)(.*?)~(\d*)"
_COMMIT = r"(?i)[0-9a-f]{4,64}"

_NAMES_LISTED = 20
_NAMES_READ = 1000


@dataclass(frozen=True)
class Reference:
    """A parsed reference."""

    text: str
    word: str  # without ``#``, ``KIND:`` and ``~N``, in the form that the file stores
    back: int  # number of runs to go back from the newest match, >= 0
    number: int | None  # if the word is a number; limited like ``back`` to what the file can store
    must_be_number: bool
    kind: str = ""  # required kind, ``name``, ``branch`` or ``commit``; "" if any

    @property
    def commit(self) -> str | None:
        """The beginning of a commit's id, if the word may be one; else None."""
        return self.word.lower() if re.fullmatch(_COMMIT, self.word) else None


def parse_reference(ref: str | int) -> Reference:
    """Parse a reference."""
    text = f"#{digits(ref)}" if type(ref) is int else ref
    if not isinstance(text, str):
        raise UsageError(f"{ref!r:.60} does not name a run.", hint=_FORMS)
    found = re.fullmatch(_BACK, text)
    word, back = (found[1], _bounded(found[2] or "1")) if found else (text, 0)
    has_sign = word.startswith("#")
    kind, colon, rest = word.partition(":")
    kind, word = (kind, rest) if colon and kind in KINDS else ("", word)
    word = storable(word.removeprefix("#").strip())
    is_number = not kind and word.isascii() and word.isdigit()
    if not word or (has_sign and not is_number):
        raise UsageError(f"{text!r} does not name a run.", hint=_FORMS)
    number = _bounded(word) if is_number and back == 0 else None
    return Reference(text, word, back, number, has_sign, kind)


def _bounded(text: str) -> int:
    """Return a number, limited to the largest that a file can store."""
    significant = text.lstrip("0") or "0"
    return int(significant) if len(significant) < len(str(_LARGEST)) else _LARGEST


def own_runs(
    table: SqlRuns, project: Project | None, choice: Choice | None = None
) -> Iterator[Run]:
    """Yield the runs of a project, newest first; of all projects if it is None."""
    own = replace(choice or Choice(), project=project)
    return filter(own.has, table.runs(own))


@dataclass(frozen=True)
class WordLookup:
    """A reference's word looked up among the runs of a project; None for all projects."""

    table: SqlRuns
    reference: Reference
    project: Project | None

    def run(self) -> Run | None:
        """Return the run that the word means: ``last``, else a name or a branch, else a commit."""
        reference = self.reference
        if reference.must_be_number:
            return None
        if reference.word == LAST and not reference.kind:
            return _newest(own_runs(self.table, self.project), reference.back)
        found: dict[str, Run | None] = {}
        for kind in ("name", "branch"):
            runs = self._of_kind(kind)
            newest = next(runs, None)
            if newest is not None:
                found[kind] = _newest(runs, reference.back - 1) if reference.back else newest
        if len({run and run.id for run in found.values()}) > 1:
            raise self._ambiguous()
        if found:
            return next(iter(found.values()))
        return _newest(self._of_kind("commit"), reference.back)

    def error(self) -> UnknownNameError:
        """Return the error for a reference without a run; it suggests what exists instead."""
        kind, hint, reference = "run", "boardprof history", self.reference
        word = reference.word
        if newest := next(own_runs(self.table, self.project), None):
            hint += f"; the newest run is #{newest.id}"
        if not reference.must_be_number:
            if count := sum(1 for _ in own_runs(self.table, self.project, Choice(name=word))):
                oldest = f"{word}~{count - 1}" if count > 1 else word
                runs = "runs were" if count > 1 else "run was"
                hint = f"{count} {runs} saved as {word}: {oldest} is the oldest"
            elif (unclean := self._unclean()) is not None:
                kind, hint = _why_unclean(unclean, word)
            elif (elsewhere := self._elsewhere()) is not None:
                hint = (
                    f"there is a run called {reference.text!r} of the project {elsewhere.place}: "
                    f"#{elsewhere.id}"
                )
            elif self.project is not None and (refused := git_refusal(self.project.folder or ".")):
                hint = f"{refused[1]} ({refused[0]})"
            elif word == "HEAD":
                hint = f"boardprof run --ab-rev {reference.text} measures that commit"
        return UnknownNameError(kind, reference.text, self._names(), hint=hint)

    def _of_kind(self, kind: str, *, is_clean: bool = True) -> Iterator[Run]:
        """Yield the runs of a name, or those of a branch or commit that are clean, or are not."""
        word, commit = self.reference.word, self.reference.commit
        if self.reference.kind not in ("", kind) or (kind == "commit" and commit is None):
            return iter(())
        choice = {
            "name": Choice(name=word),
            "branch": Choice(branch=word, is_clean=is_clean),
            "commit": Choice(commit=commit, is_clean=is_clean),
        }[kind]
        return own_runs(self.table, self.project, choice)

    def _ambiguous(self) -> UsageError:
        named, on_branch = (next(self._of_kind(kind)) for kind in ("name", "branch"))
        word = self.reference.word
        return UsageError(
            f"{word!r} is ambiguous: #{named.id} was saved as {word}, and #{on_branch.id} is the "
            f"newest clean run of the branch {word}.",
            hint=f"name:{word} or branch:{word}; `boardprof history rename #{named.id} NAME` "
            "resolves it",
        )

    def _unclean(self) -> Run | None:
        """Return the newest run of a branch, or else of a commit, that is not clean."""
        kinds = (self._of_kind(kind, is_clean=False) for kind in ("branch", "commit"))
        return next(itertools.chain.from_iterable(kinds), None)

    def _elsewhere(self) -> Run | None:
        """Return the run of another project that a reference would mean."""
        try:
            found = replace(self, project=None).run()
        except UsageError:
            return None
        is_own = self.project is None or found is None or self.project.has(found.project)
        return None if is_own else found

    def _names(self) -> list[str]:
        """Return names and branches by which runs can be found, newest first."""
        runs = [*itertools.islice(own_runs(self.table, self.project), _NAMES_READ)]
        names = dict.fromkeys([LAST] if runs else [])
        for run in runs:
            git = None if run.has_failed else run.git
            branch = git.branch if git and not git.is_dirty else None
            names |= dict.fromkeys(filter(None, [run.name, branch]))
        return [*names][:_NAMES_LISTED]


def _newest(runs: Iterator[Run], back: int) -> Run | None:
    """Return the run that is N before the newest; None if there is none."""
    return next(itertools.islice(runs, min(back, sys.maxsize), None), None)


def _why_unclean(run: Run, word: str) -> tuple[str, str]:
    """Return what is missing for a branch or commit that only has this run, and what to do."""
    if run.git is not None and run.git.is_dirty:
        return "run of an unchanged", (
            f"#{run.id} is of {word} with changes, or of a source that git does not track; "
            "commit and run again"
        )
    return "whole run of", (
        f"#{run.id} is of {word}, and failed or was interrupted; see why, and run again"
    )
