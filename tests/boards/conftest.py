# SPDX-License-Identifier: Apache-2.0
"""Every board that this machine can start, with a few functions on it that fit the smallest.

A new board is tested by these fixtures without an edit: they go by the folders under boards/.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from boardprof.measure.board.board import Board
from boardprof.measure.connect import Firmware, attach, open_line
from boardprof.target.descriptions.board import BoardSpec, board_spec, find_boards
from boardprof.target.toolchain.simulator import build_simulator
from boardprof.target.toolchain.tools import missing_text, missing_tools
from boardprof.wire.transport.base import Transport
from tests.firmware import build
from tests.support import requires_tool

WORKLOADS = Path(__file__).parents[2] / "examples" / "workloads"
SMALL = Path(__file__).parent / "fixtures" / "small"
"""Functions that a board with 2 KB of RAM has room for."""


@cache
def spec_of(name: str) -> BoardSpec:
    """Return a board's description; lists of boards, made while tests are collected, share it."""
    return board_spec(name)


NAMES = sorted(name for name in find_boards() if spec_of(name).launch.kind != "serial")
"""Those that can be started here: they run in this process, in one of their own or in an emulator.
"""

_TEN_WORKLOADS = 32768
ROOMY = [n for n in NAMES if spec_of(n).build.config.get("arena", 0) >= _TEN_WORKLOADS]
"""Those with room for the ten workloads: RAM for so large an arena is RAM for these as well."""

_EIGHT_BITS = {"avr"}

SIMULATED = [name for name in NAMES if spec_of(name).clock.kind == "simulated"]


def hang_limit_s(spec: BoardSpec) -> float:
    """Return a time limit in seconds of the board's clock: long for what returns.

    Short for a hang, too: a simulator takes up to ten seconds for one of the board's.
    """
    return 0.03 if spec.clock.time_scale > 10 else 0.3


@pytest.fixture(scope="session", params=NAMES)
def spec(request: pytest.FixtureRequest) -> BoardSpec:
    """Each board in turn; skipped, or failed where all are required, if its tools are missing."""
    return available(request.param)


@pytest.fixture(
    scope="session", params=[n for n in NAMES if spec_of(n).build.arch not in _EIGHT_BITS]
)
def wide_spec(request: pytest.FixtureRequest) -> BoardSpec:
    """Each board whose int has 32 bits, and whose compiler is of this decade."""
    return available(request.param)


@pytest.fixture(scope="session", params=SIMULATED)
def simulated_spec(request: pytest.FixtureRequest) -> BoardSpec:
    """Each deterministic board in turn."""
    return available(request.param)


def available(name: str) -> BoardSpec:
    found = board_spec(name)
    for tool in missing_tools(found):
        assert "package" in tool, f"{missing_text(tool)} is missing: make setup"
        requires_tool(tool["tool"], tool["package"])
    if found.launch.simulator is not None:  # now, so that no test's time has it
        build_simulator(found, found.launch.simulator)
    return found


@pytest.fixture(scope="session")
def firmware(spec: BoardSpec) -> Firmware:
    return build(spec, [SMALL])


@pytest.fixture(scope="module")
def line(spec: BoardSpec, firmware: Firmware) -> Iterator[Transport]:
    """The line to one start of the board, for all tests of a module."""
    transport, _ = open_line(spec, image=firmware.image)
    yield transport
    transport.close()


@pytest.fixture
def board(spec: BoardSpec, firmware: Firmware, line: Transport) -> Board:
    """The board with a session of its own for each test; its functions go on where they were."""
    return attach(spec, line, image=firmware.image, is_started=True)
