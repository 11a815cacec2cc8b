# SPDX-License-Identifier: Apache-2.0
"""A history in a PostgreSQL database: its runs, transactions, deadlines and messages.

The URL is libpq's, with all its options. SQLAlchemy gets connections and never sees the URL, so
that its messages cannot quote it. libpq's messages are shown without the password.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import threading
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from boardprof.base.errors import BoardprofError, StorageError, UsageError
from boardprof.results.history.databases import Choice, SqlRuns
from boardprof.results.history.run import HistoryError, storable

_FORM: Final = "postgresql://USER@HOST:PORT/DATABASE, with the password in ~/.pgpass or PGPASSWORD"
_ELSEWHERE: Final = "BOARDPROF_HISTORY=FILE uses a file, BOARDPROF_HISTORY=off keeps no history"
_SECRETS: Final = ("password", "sslpassword", "oauth_client_secret")
_SHORTEST: Final = 4  # a shorter text is part of many words

_ONE_MOMENT: Final = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
"""All reads see the same state, even if others write meanwhile."""

_GRACE_S: Final = 2.0  # the server is to give up by itself first: it knows why


class PostgresDatabase:
    """A history in a PostgreSQL database; ``timeout_s`` limits each wait for it."""

    def __init__(self, url: str, timeout_s: float) -> None:
        """Read the URL; nothing is opened yet."""
        self._url = url
        self.timeout_s = timeout_s
        parts = _parts(url)
        secrets = [os.environ.get("PGPASSWORD"), *(parts.get(key) for key in _SECRETS)]
        self._secrets = [str(each) for each in secrets if len(str(each or "")) >= _SHORTEST]
        self.name = _name(parts)
        self._connecting = threading.local()  # the watch of the connection that a thread opens

    def may_exist(self) -> bool:
        """Return True: only opening it tells."""
        return True

    @contextlib.contextmanager
    def reading(self) -> Iterator[PostgresRuns | None]:
        """See `Database`."""
        with self._connected("read", _ONE_MOMENT) as connection:
            found = version_of(connection)
            if found is None:
                yield None
                return
            self._check_version(found)
            yield PostgresRuns(connection)

    @contextlib.contextmanager
    def writing(self) -> Iterator[PostgresRuns]:
        """See `Database`; the first one to write creates the tables."""
        with self._connected("written") as connection:
            found = version_of(connection)
            if found is None:
                migrate(connection)
            else:
                self._check_version(found)
            yield PostgresRuns(connection)

    @contextlib.contextmanager
    def adding(self) -> Iterator[PostgresRuns]:
        """See `Database`."""
        with self.writing() as runs:
            lock(runs.connection, "import")
            yield runs

    def upgrade(self) -> str:
        """See `Database`."""
        with self._connected("upgraded") as connection:
            found = version_of(connection)
            if found is not None and found not in VERSIONS:
                self._check_version(found)
            migrate(connection)
        newest = VERSIONS[-1]
        if found == newest:
            return f"its tables already have version {newest}"
        before = "there were none" if found is None else f"they had version {found}"
        return f"its tables have version {newest} now; before, {before}"

    def _check_version(self, found: str) -> None:
        if found == VERSIONS[-1]:
            return
        is_old = found in VERSIONS
        raise HistoryError(
            f"The history {self.name} has tables of version {found}, this boardprof needs "
            f"{VERSIONS[-1]}.",
            hint="run `boardprof history upgrade` as the owner of the tables; older versions of "
            "boardprof cannot use them then"
            if is_old
            else "install a newer boardprof",
        )

    @contextlib.contextmanager
    def _connected(self, done: str, *settings: str) -> Iterator[Connection]:
        """Provide a connection within a transaction; say in plain words what goes wrong."""
        self._connecting.watch = watch = _Watch(self.timeout_s + _GRACE_S)
        wait_ms = max(1, round(self.timeout_s * 1000))
        limits = (f"SET LOCAL {name}_timeout = {wait_ms}" for name in ("statement", "lock"))
        try:
            watching = contextlib.closing(watch)
            with watching, self._engine.connect() as connection, connection.begin():
                connection.exec_driver_sql("; ".join([*settings, *limits]))
                yield connection
        except (DBAPIError, psycopg.Error, VersionRowError) as error:
            cause = error.orig if isinstance(error, DBAPIError) else error
            raise self._told(cause, done, watch.has_ended) from None

    @cached_property
    def _engine(self) -> Engine:
        """What compiles statements and remembers them. Each transaction has its own connection."""
        return create_engine(
            "postgresql+psycopg://", creator=self._connect, poolclass=NullPool, hide_parameters=True
        )

    def _connect(self) -> _WatchedConnection:
        connection = _WatchedConnection.connect(
            self._url,
            connect_timeout=max(2, round(self.timeout_s)),  # libpq takes 1 s for 2 s
            application_name="boardprof",
            client_encoding="utf8",
            prepare_threshold=None,  # a pooler before the server may not know prepared statements
        )
        connection.watch = self._connecting.watch
        return connection

    def _told(self, error: BaseException | None, done: str, has_ended: bool) -> BoardprofError:
        what = f"The history {self.name}"
        if has_ended or isinstance(error, errors.QueryCanceled | errors.LockNotAvailable):
            return HistoryError(
                f"{what} did not answer within {self.timeout_s:g} s.",
                hint=f"see whether the server is overloaded or another program has locked the "
                f"tables, and try again; {_ELSEWHERE}",
            )
        if isinstance(error, errors.InsufficientPrivilege | errors.ReadOnlySqlTransaction):
            why = self._shown(error)
            return HistoryError(
                f"{what} cannot be {done} by this user: {why}.", hint=_needed_rights(done)
            )
        if isinstance(error, errors.DiskFull | errors.IoError):
            return StorageError(f"{what} cannot be {done}: {self._shown(error)}.", hint=_ELSEWHERE)
        if isinstance(
            error,
            errors.DuplicateTable
            | errors.UndefinedTable
            | errors.UndefinedColumn
            | VersionRowError,
        ):
            return HistoryError(
                f"{what} cannot be {done}: {self._shown(error)}. Its tables are not as boardprof "
                "has made them.",
                hint="restore the schema boardprof, above all the row of "
                f"boardprof.alembic_version, from a backup; {_ELSEWHERE}",
            )
        return HistoryError(
            f"{what} cannot be {done}: {self._shown(error)}.",
            hint=f"see that the server runs, and host, user and password; {_FORM}",
        )

    def _shown(self, error: BaseException | None) -> str:
        """Return the first line of a message, without secrets and full stop."""
        message = str(error).strip() or type(error).__name__
        for secret in self._secrets:
            message = message.replace(secret, "***")
        return message.splitlines()[0].rstrip(".")


class _Watch:
    """Ends a connection on which the server does not answer in time."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._socket: socket.socket | None = None
        self.has_ended = False

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    @contextlib.contextmanager
    def waiting(self, descriptor: int) -> Iterator[None]:
        """Limit the time of the block, which waits for an answer on a connection."""
        if self._socket is None:
            # A descriptor of its own: the other may be closed, and its number be another file's.
            self._socket = socket.socket(fileno=os.dup(descriptor))
        timer = threading.Timer(self._limit_s, self._end)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _end(self) -> None:
        self.has_ended = True
        with contextlib.suppress(OSError, AttributeError):
            self._socket.shutdown(socket.SHUT_RDWR)  # type: ignore[union-attr]


class _WatchedConnection(psycopg.Connection[Any]):
    """A connection whose waits are limited by a watch, once it has one."""

    watch: _Watch | None = None

    def wait(self, *arguments: Any, **options: Any) -> Any:
        """Wait for the server; psycopg does that here alone."""
        if self.watch is None or self.closed:
            return super().wait(*arguments, **options)
        with self.watch.waiting(self.fileno()):
            return super().wait(*arguments, **options)


def _parts(url: str) -> dict[str, object]:
    refused = UsageError("The URL of the history is not a valid PostgreSQL URL.", hint=_FORM)
    try:
        parts: dict[str, object] = {**conninfo_to_dict(url)}
    except psycopg.Error as error:
        if found := re.search(r'invalid URI query parameter: "([\w.-]+)"', str(error)):
            refused = UsageError(
                f"The URL of the history has the option {found[1]}, which PostgreSQL does not "
                "know.",
                hint=f"see libpq's options, such as sslmode; {_FORM}",
            )
        raise refused from None
    ports = str(parts.get("port") or "").split(",")
    names = [str(parts.get(key) or "") for key in ("user", "host", "dbname")]
    # An unescaped @, : or / in a password puts parts of it into host, port or database.
    if any(port and not port.isdecimal() for port in ports) or "@" in "".join(names):
        refused.hint = f"write @, : and / in a password as %40, %3A and %2F; {_FORM}"
        raise refused
    return parts


def _name(parts: dict[str, object]) -> str:
    user, host, port, name = (str(parts.get(k) or "") for k in ("user", "host", "port", "dbname"))
    host = ",".join(f"[{each}]" if ":" in each else each for each in host.split(","))
    if not host and parts.get("service"):
        return f"postgresql://?service={parts['service']}"
    place = f"{host}:{port}" if port else host
    return f"postgresql://{user}@{place}/{name}" if user else f"postgresql://{place}/{name}"


def _needed_rights(done: str) -> str:
    if done == "read":
        return "ask the owner for USAGE on the schema boardprof and SELECT on its tables"
    if done == "upgraded":
        return "run it as the owner of the database or of the schema boardprof"
    return (
        "ask the owner for INSERT, UPDATE and DELETE on the tables of the schema boardprof; in a "
        f"new database the owner first runs `boardprof history upgrade`; {_ELSEWHERE}"
    )


# -- the runs, and the migrations that make their tables ------------------------------------------


SCHEMA: Final = "boardprof"

VERSIONS: Final = ("0001",)
"""Versions of the tables that this boardprof can convert, the oldest first; the last is its own."""

FOLDER: Final = Path(__file__).parent / "migrations"
"""The migrations; a test compares them with `VERSIONS`."""

_TABLES: Final = text(
    "SELECT relname FROM pg_catalog.pg_class WHERE relnamespace = to_regnamespace(:schema) "
    "AND relname IN ('alembic_version', 'runs', 'candidates')"
)

_FETCHED: Final = 200  # rows that are fetched at a time: a name usually means the first one


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

    def conditions(self, choice: Choice) -> dict[str, object]:
        """Return conditions, also on the project: each of its runs meets them."""
        project, boards, functions = choice.project, choice.boards, choice.functions
        # A run may be known by the first commit of its project.
        known = "(project = ANY(?::text[]) OR project ~ '^([0-9a-f]{40}|[0-9a-f]{64})$')"
        return {
            **super().conditions(choice),
            known: None if project is None else [*project.ids],
            "boards && ?::text[]": None if boards is None else sorted(boards),
            "functions && ?::text[]": None if functions is None else sorted(functions),
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
