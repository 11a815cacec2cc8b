# SPDX-License-Identifier: Apache-2.0
"""The receive ring of an AVR, 64 bytes, on a line whose bytes come at their rate whatever happens.

simavr's USART keeps two bytes beside the one that comes in, as the real one does; what nobody has
read by then is lost, and the board counts it. Only the credits keep the host from sending more. It
has time where nothing may be lost: what it sends twice is more, which a busy machine makes it do.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from boardprof.measure.board.board import Board
from boardprof.measure.board.line import fetch_dictionary
from boardprof.measure.connect import connect, open_line
from boardprof.target.descriptions.board import BoardSpec, load_board
from boardprof.wire.decode.schemas import layouts_for
from boardprof.wire.link.session import Session
from tests.boards.conftest import available
from tests.faults.boards import Line, hurried
from tests.firmware import build

SOURCE = Path(__file__).parents[1] / "boards" / "fixtures" / "avr.c"

UNHURRIED = 1 / 20
"""A second of the host's clock takes 20 s."""


def patient(spec: BoardSpec) -> Board:
    """Return a session whose time-outs are twenty times as long as others'."""
    line = Line(open_line(spec, image=build(spec, [SOURCE]).image)[0], UNHURRIED)
    session = Session(line, timeout_s=3.0, clock=hurried(UNHURRIED))
    welcome = session.open()
    return Board(spec, session, welcome, fetch_dictionary(session, None), layouts_for(spec.folder))


@pytest.fixture(scope="module", params=["arduino-uno", "arduino-mega"])
def board(request: pytest.FixtureRequest) -> Iterator[Board]:
    with patient(available(request.param)) as connected:
        yield connected


def test_nothing_is_lost_of_what_fills_the_arena(board: Board) -> None:
    """Through a channel with credits on the mega; the uno has none, and takes call after call."""
    size = board.dictionary.arena_bytes
    content = random.Random(size).randbytes(size)
    for _ in range(3):
        block = board.memory.alloc(size)
        board.memory.write(block, content)
        assert board.memory.read(block) == content
        board.memory.free(block)
    assert board.functions.dropped() == 0


def test_nor_of_sixty_calls_with_arrays(board: Board) -> None:
    values = np.arange(40, dtype=np.uint8)
    for _ in range(60):
        board.functions.reverse(values, 40)
    assert list(values) == list(range(40))
    assert board.functions.dropped() == 0


def fast_board(folder: Path, *flags: str, rx_bytes: int = 64) -> BoardSpec:
    """Return the mega with a line of 1 Mbit/s, on which bytes come faster than it can take them."""
    copy = folder / "arduino-mega"
    shutil.copytree(available("arduino-mega").folder, copy)
    file = copy / "board.toml"
    text = file.read_text()
    added = "".join(f', "{flag}"' for flag in ("-DBP_BAUD_DIVISOR=1", *flags))
    for old, new in (
        ('"-mrelax"', f'"-mrelax"{added}'),
        ("rx_bytes = 64", f"rx_bytes = {rx_bytes}"),
    ):
        assert old in text
        text = text.replace(old, new)
    file.write_text(text)
    return load_board(copy)


def upload(board: Board) -> int:
    """Send as much as the arena holds, see that it has come, and return what was dropped."""
    size = board.dictionary.arena_bytes
    content = random.Random(1).randbytes(size)
    before = board.functions.dropped()
    block = board.memory.alloc(size)
    board.memory.write(block, content)
    assert board.memory.read(block) == content
    after = board.functions.dropped()
    assert isinstance(before, int)
    assert isinstance(after, int)
    return after - before


def test_credit_of_the_rings_size_loses_nothing_on_a_line_that_is_too_fast(tmp_path: Path) -> None:
    with patient(fast_board(tmp_path)) as board:
        assert upload(board) == 0


def test_without_such_credit_the_same_line_loses_bytes(tmp_path: Path) -> None:
    """The control: the same 64 bytes, of which the host believes that they are 256."""
    spec = fast_board(tmp_path, "-DBP_AVR_OVERRUNS", rx_bytes=256)
    with connect(spec, image=build(spec, [SOURCE]).image) as board:
        assert upload(board) > 0


def test_though_every_long_frame_is_lost_the_host_finds_how_long_one_may_be(tmp_path: Path) -> None:
    """Of 1024 bytes of credit it makes frames of 512, none of which the 64 bytes ever hold."""
    spec = fast_board(tmp_path, "-DBP_AVR_OVERRUNS", rx_bytes=1024)
    with connect(spec, image=build(spec, [SOURCE]).image) as board:
        assert upload(board) > 500
