# SPDX-License-Identifier: Apache-2.0
"""Runs in a PostgreSQL database, and the results of tuning beside them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, and_, delete, func, not_, or_, select, update
from sqlalchemy.dialects.postgresql import insert

from boardprof.results.history.postgres.tables import CANDIDATES, RUNS
from boardprof.results.history.project import Project
from boardprof.results.history.run import GitState, Run, RunId, StoredRun, storable, unpacked
from boardprof.results.history.run_table import Choice

_C: Final = RUNS.c
_OF_RUN: Final = tuple(column for column in RUNS.columns if column is not _C.report)
_FETCHED: Final = 200
"""Rows that are fetched at a time: a name usually means the first one."""


class PostgresRuns:
    """The runs in a database, within one transaction; see `RunTable`."""

    def __init__(self, connection: Connection) -> None:
        """Take a connection within a transaction."""
        self.connection = connection

    def runs(self, choice: Choice) -> Iterator[Run]:
        """Yield runs, newest first."""
        chosen = select(*_OF_RUN).where(*_conditions(choice))
        chosen = chosen.order_by(_C.time.desc(), _C.id.desc())
        with self.connection.execution_options(yield_per=_FETCHED).execute(chosen) as rows:
            yield from map(_run, rows)

    def count(self, choice: Choice) -> int:
        """Return the number of runs."""
        counted = select(func.count()).select_from(RUNS).where(*_conditions(choice))
        return int(self.connection.execute(counted).scalar_one())

    def report(self, number: int) -> bytes | None:
        """Return the packed Report of a run."""
        chosen = select(_C.report).where(_C.id == number)
        return self.connection.execute(chosen).scalar()

    def record(self, number: int) -> StoredRun | None:
        """Return a run with its Report."""
        row = self.connection.execute(select(RUNS).where(_C.id == number)).first()
        if row is None:
            return None
        return StoredRun(
            time=row.time,
            name=row.name,
            command=row.command,
            project=row.project,
            commit=row.git_commit,
            branch=row.git_branch,
            dirty=row.git_dirty,
            version=row.version,
            failed=row.failed,
            report=unpacked(row.report),
        )

    def like(self, record: StoredRun) -> Iterator[bytes]:
        """Yield the packed Reports of runs with the same time, command and commit."""
        chosen = select(_C.report).where(
            _C.time == record.time,
            _C.command == _text(record.command),
            _C.git_commit.is_not_distinct_from(record.commit),
        )
        return iter(self.connection.execute(chosen).scalars().all())

    def insert(
        self, record: StoredRun, packed: bytes, rows: int, contents: Mapping[str, Sequence[str]]
    ) -> int:
        """Add a run."""
        texts = {name: [*map(_text, each)] for name, each in contents.items()}
        added = insert(RUNS).values(
            time=record.time,
            name=record.name,
            command=_text(record.command),
            project=_text(record.project),
            git_commit=record.commit,
            git_branch=None if record.branch is None else _text(record.branch),
            git_dirty=record.dirty,
            version=_text(record.version),
            failed=record.failed,
            report=packed,
            rows=rows,
            **texts,
        )
        return int(self.connection.execute(added.returning(_C.id)).scalar_one())

    def remove(self, number: int) -> None:
        """Remove a run."""
        self.connection.execute(delete(RUNS).where(_C.id == number))

    def rename(self, number: int, name: str | None) -> None:
        """Name a run, or take its name away."""
        self.connection.execute(update(RUNS).where(_C.id == number).values(name=name))

    def results(self, keys: Sequence[str]) -> dict[str, str]:
        """Return the results of tuning that are kept."""
        chosen = select(CANDIDATES).where(CANDIDATES.c.key.in_(keys))
        return {row.key: row.result for row in self.connection.execute(chosen)}

    def keep_results(self, results: Mapping[str, str]) -> None:
        """Keep results of tuning."""
        # In one order: two processes must not wait for each other.
        values = [{"key": key, "result": result} for key, result in sorted(results.items())]
        added = insert(CANDIDATES)
        replaced = added.on_conflict_do_update(
            index_elements=[CANDIDATES.c.key], set_={"result": added.excluded.result}
        )
        self.connection.execute(replaced, values)


def _conditions(choice: Choice) -> Iterator[ColumnElement[bool]]:
    if choice.id is not None:
        yield _C.id == choice.id
    if choice.before is not None:
        yield _C.id < choice.before
    if choice.name is not None:
        yield _C.name == _text(choice.name)
    if choice.branch is not None:
        yield _C.git_branch == _text(choice.branch)
    if choice.commit is not None:
        yield _C.git_commit.startswith(choice.commit)  # hexadecimal: it has no wildcard
    if choice.is_clean is not None:
        clean = and_(not_(_C.git_dirty), not_(_C.failed))
        yield clean if choice.is_clean else or_(_C.git_dirty, _C.failed)
    if choice.has_failed is not None:
        yield _C.failed if choice.has_failed else not_(_C.failed)
    if choice.project is not None:
        yield _may_be_of(choice.project)
    for column, names in ((_C.boards, choice.boards), (_C.functions, choice.functions)):
        if names is not None:
            yield column.overlap(sorted(map(_text, names)))


def _may_be_of(project: Project) -> ColumnElement[bool]:
    """Return a condition that all runs of a project meet, and runs that are known by a commit."""
    return or_(
        _C.project.in_(["", project.id, project.place]),
        _C.project.regexp_match("^([0-9a-f]{40}|[0-9a-f]{64})$"),
    )


def _run(row: Row[Any]) -> Run:
    commit = row.git_commit
    git = None if commit is None else GitState(commit, row.git_branch or "", bool(row.git_dirty))
    return Run(
        id=RunId(row.id),
        time=row.time,
        name=row.name,
        boards=tuple(row.boards),
        functions=tuple(row.functions),
        build_ids=tuple(row.build_ids),
        flags=tuple(row.flags),
        command=row.command,
        git=git,
        version=row.version,
        rows=row.rows,
        project=row.project,
        has_failed=row.failed,
    )


def _text(text: str) -> str:
    """Return text that PostgreSQL can store: in UTF-8, and without zero bytes."""
    return re.sub("\0", "\N{REPLACEMENT CHARACTER}", storable(text))
