# SPDX-License-Identifier: Apache-2.0
"""Create the tables of runs and of results of tuning."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_SCHEMA = "boardprof"


def upgrade() -> None:
    """Create them."""
    bytewise = sa.Text(collation="C")
    op.create_table(
        "runs",
        sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True),
        sa.Column("time", bytewise, nullable=False),
        sa.Column("name", sa.Text),
        sa.Column("command", sa.Text, nullable=False),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("git_commit", bytewise),
        sa.Column("git_branch", sa.Text),
        sa.Column("git_dirty", sa.Boolean),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("failed", sa.Boolean, nullable=False),
        sa.Column("report", sa.LargeBinary, nullable=False),
        sa.Column("rows", sa.Integer, nullable=False),
        sa.Column("boards", sa.ARRAY(sa.Text), nullable=False),
        sa.Column("functions", sa.ARRAY(sa.Text), nullable=False),
        sa.Column("build_ids", sa.ARRAY(sa.Text), nullable=False),
        sa.Column("flags", sa.ARRAY(sa.Text), nullable=False),
        schema=_SCHEMA,
    )
    for name, columns in (
        ("runs_by_time", ["time", "id"]),
        ("runs_by_name", ["name", "time", "id"]),
        ("runs_by_branch", ["git_branch", "time", "id"]),
        ("runs_by_commit", ["git_commit"]),
    ):
        op.create_index(name, "runs", columns, schema=_SCHEMA)
    op.create_index(
        "runs_by_functions", "runs", ["functions"], schema=_SCHEMA, postgresql_using="gin"
    )
    op.create_table(
        "candidates",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("result", sa.Text, nullable=False),
        schema=_SCHEMA,
    )
