# SPDX-License-Identifier: Apache-2.0
"""The version of a database's tables, and their migration to that of this boardprof."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from boardprof.history.postgres.tables import SCHEMA

_FOLDER: Final = Path(__file__).parent / "migrations"


def migrate(connection: Connection) -> None:
    """Create or convert the tables within the connection's transaction; others wait for it."""
    lock(connection, "migration")
    found = version_of(connection)
    if found == newest_version():
        return
    if found is None:
        connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}"))
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def version_of(connection: Connection) -> str | None:
    """Return the version of a database's tables; None if it has none."""
    table = f"{SCHEMA}.alembic_version"
    if connection.execute(text("SELECT to_regclass(:table)"), {"table": table}).scalar() is None:
        return None
    options = {"version_table_schema": SCHEMA}
    return MigrationContext.configure(connection, opts=options).get_current_revision()


@cache
def newest_version() -> str:
    """Return the version of the tables that this boardprof uses."""
    newest = ScriptDirectory.from_config(_config()).get_current_head()
    assert newest is not None
    return newest


@cache
def known_versions() -> frozenset[str]:
    """Return the versions that this boardprof can convert, and its own."""
    scripts = ScriptDirectory.from_config(_config())
    return frozenset(each.revision for each in scripts.walk_revisions())


def lock(connection: Connection, what: str) -> None:
    """Wait until no other transaction has this lock; it is released at the transaction's end."""
    connection.execute(
        text("SELECT pg_advisory_xact_lock(hashtext(:name))"), {"name": f"boardprof {what}"}
    )


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
