# SPDX-License-Identifier: Apache-2.0
"""The boards of the tests of TVM's interface, with the layers of a small network on them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from boardprof.measure.board.board import Board
from boardprof.measure.connect import build
from tests.support import requires_tool

__all__ = ["LAYERS", "board", "native", "rv32"]

LAYERS = Path(__file__).parent / "fixtures" / "layers.c"


@pytest.fixture(scope="module")
def native() -> Iterator[Board]:
    """A board with a real clock."""
    with build(LAYERS, board="native").open() as connected:
        yield connected


@pytest.fixture(scope="module")
def rv32() -> Iterator[Board]:
    """A deterministic one, whose clock is simulated."""
    requires_tool("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf")
    requires_tool("qemu-system-riscv32", "qemu-system-misc")
    with build(LAYERS, board="qemu-rv32").open() as connected:
        yield connected


@pytest.fixture(params=["native", "rv32"])
def board(request: pytest.FixtureRequest) -> Board:
    """Both in turn."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Board)
    return found
