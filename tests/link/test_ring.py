# SPDX-License-Identifier: Apache-2.0
"""A receiver of an AVR's size: 64 bytes between the line and the agent, and what is more is lost.

The host sends as fast as it may; only the credits keep it from overrunning the ring.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from boardprof.measure.board.board import Board
from boardprof.measure.connect import connect
from boardprof.target.descriptions.board import board_spec, load_board
from tests.link.peers import running_agent
from tests.support import requires_tool

RING = Path(__file__).parent / "fixtures" / "ring.c"
SMALL = {
    'cflags = ["-O2"]': 'cflags = ["-O2", "-DBP_POSIX_RING=64"]',
    "mtu = 65535": "mtu = 64",
    "bulk = 65535": "bulk = 64",
    "rx_bytes = 262144": "rx_bytes = 64",
}


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Board]:
    requires_tool("gcc", package="gcc")
    folder = tmp_path_factory.mktemp("ring") / "linux"
    shutil.copytree(board_spec("linux").folder, folder)
    file = folder / "board.toml"
    text = file.read_text()
    for old, new in SMALL.items():
        assert old in text
        text = text.replace(old, new)
    file.write_text(text)
    spec = load_board(folder)
    with running_agent(RING, spec=spec) as (_, port), connect(spec, port) as connected:
        # What a busy machine is late to take is not lost: nothing is sent again without credit.
        connected.session.requests.rtt.floor_s = 5.0
        yield connected


def test_a_ring_of_64_bytes_loses_none_of_an_upload(board: Board) -> None:
    content = random.Random(64).randbytes(20_000)
    before = board.functions.ring_dropped()
    block = board.memory.alloc(len(content))
    board.memory.write(block, content)
    assert board.memory.read(block) == content
    assert board.functions.ring_dropped() == before
    board.memory.free(block)


def test_nor_of_a_thousand_calls(board: Board) -> None:
    assert len({board.functions.ring_dropped() for _ in range(1000)}) == 1


def test_the_ring_does_drop_what_is_sent_without_credit(board: Board) -> None:
    """The control: 64 bytes that nobody has taken, and the rest is gone."""
    before = board.functions.ring_dropped()
    board.session.transport.write(b"\1" * 4096, 1.0)
    dropped = board.functions.ring_dropped()
    assert isinstance(before, int)
    assert isinstance(dropped, int)
    assert dropped > before
