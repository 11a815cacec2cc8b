# SPDX-License-Identifier: Apache-2.0
"""The tables of a history in PostgreSQL, as the newest migration leaves them, and the migration."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY

SCHEMA: Final = "boardprof"

METADATA: Final = MetaData(schema=SCHEMA)

_BYTEWISE = Text(collation="C")
"""Times sort and commits are searched by their bytes, whatever language the server speaks."""

RUNS: Final = Table(
    "runs",
    METADATA,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("time", _BYTEWISE, nullable=False),
    Column("name", Text),
    Column("command", Text, nullable=False),
    Column("project", Text, nullable=False),
    Column("git_commit", _BYTEWISE),
    Column("git_branch", Text),
    Column("git_dirty", Boolean),
    Column("version", Text, nullable=False),
    Column("failed", Boolean, nullable=False),
    Column("report", LargeBinary, nullable=False),
    Column("rows", Integer, nullable=False),
    Column("boards", ARRAY(Text), nullable=False),
    Column("functions", ARRAY(Text), nullable=False),
    Column("build_ids", ARRAY(Text), nullable=False),
    Column("flags", ARRAY(Text), nullable=False),
    Index("runs_by_time", "time", "id"),
    Index("runs_by_name", "name", "time", "id"),
    Index("runs_by_branch", "git_branch", "time", "id"),
    Index("runs_by_commit", "git_commit"),
    Index("runs_by_functions", "functions", postgresql_using="gin"),
)

CANDIDATES: Final = Table(
    "candidates",
    METADATA,
    Column("key", Text, primary_key=True),
    Column("result", Text, nullable=False),
)

VERSIONS: Final = ("0001",)
"""Versions of the tables that this boardprof can convert, the oldest first; the last is its own."""

FOLDER: Final = Path(__file__).parent / "migrations"
"""The migrations; a test compares them with `VERSIONS`."""


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
    """Return the version of a database's tables; None if it has none."""
    table = f"{SCHEMA}.alembic_version"
    there = connection.execute(text("SELECT to_regclass(:table)"), {"table": table}).scalar()
    if there is None:
        return None
    found = connection.execute(text(f"SELECT version_num FROM {table}")).scalar()
    return None if found is None else str(found)


def lock(connection: Connection, what: str) -> None:
    """Wait until no other transaction has this lock; it is released at the transaction's end."""
    connection.execute(
        text("SELECT pg_advisory_xact_lock(hashtext(:name))"), {"name": f"boardprof {what}"}
    )
