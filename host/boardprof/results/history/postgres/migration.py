# SPDX-License-Identifier: Apache-2.0
"""The version of a database's tables, and their migration to that of this boardprof.

alembic is imported only if there is something to migrate: it takes as long as a short command.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sqlalchemy import Connection, text

from boardprof.results.history.postgres.tables import SCHEMA

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
    from alembic import command
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
