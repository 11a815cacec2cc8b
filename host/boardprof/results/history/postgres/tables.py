# SPDX-License-Identifier: Apache-2.0
"""The tables of a history in PostgreSQL, in a schema of their own.

They are as the newest migration leaves them; a test compares both.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
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
