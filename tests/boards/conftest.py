# SPDX-License-Identifier: Apache-2.0
"""Every board that this machine can start, with the demonstration workloads on it.

A new board is tested by these fixtures without an edit: they go by the folders under boards/.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from boardprof.board.board import Board
from boardprof.boards.finding import BoardSpec, board_spec, find_boards
from boardprof.connection import connect
from boardprof.firmware.builder import Firmware, build
from tests.support import requires_tool

WORKLOADS = Path(__file__).parents[2] / "examples" / "workloads"
NAMES = sorted(find_boards())
SIMULATED = [name for name in NAMES if board_spec(name).clock.kind == "simulated"]


@pytest.fixture(scope="session", params=NAMES)
def spec(request: pytest.FixtureRequest) -> BoardSpec:
    """Each board in turn; skipped, or failed where all are required, if its tools are missing."""
    return available(request.param)


@pytest.fixture(scope="session", params=SIMULATED)
def simulated_spec(request: pytest.FixtureRequest) -> BoardSpec:
    """Each deterministic board in turn."""
    return available(request.param)


def available(name: str) -> BoardSpec:
    found = board_spec(name)
    requires_tool(found.build.cc, found.build.package)
    program = found.launch.command[0] if found.launch.command else ""
    if program and "{" not in program and shutil.which(program) is None:
        requires_tool(program, found.launch.package or program)
    return found


@pytest.fixture(scope="session")
def firmware(spec: BoardSpec) -> Firmware:
    return build(spec, [WORKLOADS])


@pytest.fixture
def board(spec: BoardSpec, firmware: Firmware) -> Iterator[Board]:
    with connect(spec, image=firmware.image) as connected:
        yield connected
