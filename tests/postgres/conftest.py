# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.postgres.server import Server, running_server


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A PostgreSQL server for the tests of a module."""
    with running_server() as started:
        yield started


@pytest.fixture
def url(server: Server, request: pytest.FixtureRequest) -> str:
    """The URL of an empty database."""
    return server.database(f"db{abs(hash(request.node.nodeid))}")
