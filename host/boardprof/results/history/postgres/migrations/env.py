# SPDX-License-Identifier: Apache-2.0
"""Where alembic runs the migrations: on the connection that it is given, in its transaction."""

from alembic import context

from boardprof.results.history.postgres.server import SCHEMA

context.configure(connection=context.config.attributes["connection"], version_table_schema=SCHEMA)
context.run_migrations()
