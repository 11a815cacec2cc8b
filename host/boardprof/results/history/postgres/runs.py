# SPDX-License-Identifier: Apache-2.0
"""Runs in a PostgreSQL database, and the migrations that make its tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, text

from boardprof.results.history.databases import Choice, SqlRuns
from boardprof.results.history.run import storable

SCHEMA: Final = "boardprof"

VERSIONS: Final = ("0001",)
"""Versions of the tables that this boardprof can convert, the oldest first; the last is its own."""

FOLDER: Final = Path(__file__).parent / "migrations"
"""The migrations; a test compares them with `VERSIONS`."""

_TABLES: Final = text(
    "SELECT relname FROM pg_catalog.pg_class WHERE relnamespace = to_regnamespace(:schema) "
    "AND relname IN ('alembic_version', 'runs', 'candidates')"
)

_FETCHED: Final = 200
"""Rows that are fetched at a time: a name usually means the first one."""


class VersionRowError(Exception):
    """Nobody knows which version the tables have."""


class PostgresRuns(SqlRuns):
    """The runs in a database, within one transaction."""

    tables = f"{SCHEMA}."

    def __init__(self, connection: Connection) -> None:
        """Take a connection within a transaction."""
        self.connection = connection

    def execute(self, statement: str, values: Sequence[object] = ()) -> Iterable[Any]:
        """Execute a statement."""
        found = self.connection.exec_driver_sql(_marked(statement), _storable(values))
        return found.mappings() if found.returns_rows else ()

    def execute_each(self, statement: str, values: Sequence[Sequence[object]]) -> None:
        """Execute a statement for each of several lists of values."""
        self.connection.exec_driver_sql(_marked(statement), [*map(_storable, values)])

    def select(self, statement: str, values: Sequence[object]) -> Iterator[Any]:
        """Yield the rows of a statement, some at a time."""
        options = {"yield_per": _FETCHED}
        marked, given = _marked(statement), _storable(values)
        with self.connection.exec_driver_sql(marked, given, execution_options=options) as rows:
            yield from rows.mappings()

    def insert_row(self, statement: str, values: Sequence[object]) -> int:
        """Execute an INSERT; return the number of the new row."""
        [row] = self.execute(f"{statement} RETURNING id", values)
        return int(row["id"])

    def conditions(self, choice: Choice) -> dict[str, list[object] | None]:
        """Return conditions, also on the project: each of its runs meets them."""
        project, boards, functions = choice.project, choice.boards, choice.functions
        # A run may be known by the first commit of its project.
        known = "(project = ANY(?::text[]) OR project ~ '^([0-9a-f]{40}|[0-9a-f]{64})$')"
        return {
            **super().conditions(choice),
            known: None if project is None else [[*project.ids]],
            "boards && ?::text[]": None if boards is None else [sorted(boards)],
            "functions && ?::text[]": None if functions is None else [sorted(functions)],
        }


def _marked(statement: str) -> str:
    """Return a statement with the marks of values that the driver has."""
    return statement.replace("?", "%s")


def _storable(values: Sequence[object]) -> tuple[object, ...]:
    """Return values whose texts PostgreSQL can store: in UTF-8, and without zero bytes."""
    return tuple(
        [_text(each) for each in value]
        if isinstance(value, list)
        else _text(value)
        if isinstance(value, str)
        else value
        for value in values
    )


def _text(text: str) -> str:
    return storable(text).replace("\0", "\N{REPLACEMENT CHARACTER}")


def migrate(connection: Connection) -> None:
    """Create or convert the tables within the connection's transaction; others wait for it."""
    lock(connection, "migration")
    found = version_of(connection)
    if found == VERSIONS[-1]:
        return
    from alembic import command  # here: it takes as long to import as a short command runs
    from alembic.config import Config

    if found is None:
        connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}"))
    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, VERSIONS[-1])


def version_of(connection: Connection) -> str | None:
    """Return the version of a database's tables; None if it has none.

    Raises VersionRowError if there are tables, and not one version.
    """
    # Not to_regclass: it may know tables that were committed after the transaction's moment.
    there = {*connection.execute(_TABLES, {"schema": SCHEMA}).scalars()}
    versions = "alembic_version"
    found: list[Any] = []
    if versions in there:
        found = [
            *connection.execute(text(f"SELECT version_num FROM {SCHEMA}.{versions}")).scalars()
        ]
    if len(found) > 1 or (not found and there - {versions}):
        what = f"has {len(found)} rows" if versions in there else "is missing"
        raise VersionRowError(f"{SCHEMA}.{versions} {what}")
    return str(found[0]) if found else None


def lock(connection: Connection, what: str) -> None:
    """Wait until no other transaction has this lock; it is released at the transaction's end."""
    connection.execute(
        text("SELECT pg_advisory_xact_lock(hashtext(:name))"), {"name": f"boardprof {what}"}
    )
