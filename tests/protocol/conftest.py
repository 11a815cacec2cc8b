# SPDX-License-Identifier: Apache-2.0
"""The C agent as a library, compiled once for each configuration that a test asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from cffi import FFI

from tests.memory_board import CHANNELS, FULL, MemoryBoard, build_library

Libraries = Callable[[dict[str, int]], tuple[FFI, Any]]


@pytest.fixture(scope="session")
def libraries() -> Libraries:
    built: dict[tuple[tuple[str, int], ...], tuple[FFI, Any]] = {}

    def library(config: dict[str, int]) -> tuple[FFI, Any]:
        key = tuple(sorted(config.items()))
        if key not in built:
            built[key] = build_library(config)
        return built[key]

    return library


@pytest.fixture
def boards(libraries: Libraries) -> Callable[[dict[str, int]], MemoryBoard]:
    return lambda config: MemoryBoard(*libraries(config))


@pytest.fixture
def board(boards: Callable[[dict[str, int]], MemoryBoard]) -> MemoryBoard:
    """The agent with all that it can do, MTU 256."""
    return boards(FULL)


@pytest.fixture(scope="session", params=["byte by byte", "in groups"])
def codec(request: pytest.FixtureRequest, libraries: Libraries) -> tuple[FFI, Any]:
    """The C functions one by one, with buffers that hold the longest vectors."""
    if request.param == "in groups":  # as agents with long frames do it
        fast = {"BP_CFG_MTU": 4096, "BP_CFG_BULK": 4096, "BP_CFG_CRC_TABLE": 8}
        return libraries({**CHANNELS, **fast})
    return libraries({**FULL, "BP_CFG_MTU": 2048})
