# SPDX-License-Identifier: Apache-2.0
"""Constant arrays of direct calls stay on the board, and no call ever sees wrong content."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import boardprof
from boardprof.base.errors import RpcError
from boardprof.measure.board.board import Board
from boardprof.target.arguments.passing import BoardPointer
from tests.support import requires_tool

CONSTANTS = Path(__file__).parent / "fixtures" / "constants.c"


@pytest.fixture(scope="module", params=["native", "qemu-rv32"])
def board(request: pytest.FixtureRequest) -> Iterator[Board]:
    if request.param == "qemu-rv32":
        requires_tool("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf")
        requires_tool("qemu-system-riscv32", "qemu-system-misc")
    with boardprof.build(CONSTANTS, board=request.param).open() as board:
        yield board


def weights(seed: int, size: int = 4096) -> np.ndarray:
    return np.random.default_rng(seed).integers(-100, 100, size).astype(np.int8)


def sent(board: Board, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the size of each piece that goes to the board."""
    sizes: list[int] = []
    write = board.session.transport.write

    def counting(data: bytes, timeout_s: float) -> None:
        sizes.append(len(data))
        write(data, timeout_s)

    monkeypatch.setattr(board.session.transport, "write", counting)
    return sizes


def test_content_that_the_board_has_is_not_sent_again(
    board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = weights(1)
    assert board.functions.sum(w, 4096) == int(w.sum())
    sizes = sent(board, monkeypatch)
    assert board.functions.sum(w, 4096) == int(w.sum())
    assert board.functions.sum(w.copy(), 4096) == int(w.sum())
    assert sum(sizes) < 200


def test_an_array_that_the_caller_changes_is_sent(board: Board) -> None:
    w = weights(2)
    assert board.functions.sum(w, 4096) == int(w.sum())
    w[5] += 3
    assert board.functions.sum(w, 4096) == int(w.sum())


def test_a_function_that_casts_const_away_changes_no_later_result(board: Board) -> None:
    w = weights(3)
    expected = int(w.sum())
    assert [board.functions.spoil(w, 4096) for _ in range(3)] == [expected] * 3
    assert board.functions.sum(w, 4096) == expected


def test_a_function_that_writes_to_the_array_of_an_earlier_call_changes_no_later_result(
    board: Board,
) -> None:
    w = weights(4)
    w[7] = 1
    board.functions.keep(w)
    board.functions.write_later()
    assert board.functions.sum(w, 4096) == int(w.sum())


def test_memory_that_is_overwritten_on_the_board_is_sent_again(board: Board) -> None:
    w = weights(5)
    board.functions.sum(w, 4096)
    ((block, offset),) = board.memory.constants.take([w.tobytes()], besides=0)
    board.memory.write(block, bytes(4096), offset)
    board.memory.constants.give_back()
    assert board.functions.sum(w, 4096) == int(w.sum())


def test_arrays_with_equal_content_have_places_of_their_own(board: Board) -> None:
    w = weights(6, 512)
    for _ in range(2):
        assert board.functions.distance(w, w.copy()) != 0
    assert board.functions.distance(w, w) == 0


def test_a_pointer_into_a_stored_array_is_named_after_it(board: Board) -> None:
    w = weights(7)
    w[:100], w[100] = 0, 77
    for _ in range(2):
        found = board.functions.find(w, 4096, 77)
        assert isinstance(found, BoardPointer)
        assert str(found) == "w+100"


def test_a_measurement_places_its_arrays_as_if_nothing_was_stored(board: Board) -> None:
    w = weights(8)
    board.memory.constants.free()
    before = board.measure("address", w, repeat=1).result
    board.functions.sum(w, 4096)
    assert board.functions.address(w) != before
    assert board.measure("address", w, repeat=1).result == before


ROOM = 16384


@pytest.fixture
def full(board: Board) -> Iterator[Board]:
    """A board whose arena has only 16 KiB left."""
    board.memory.constants.free()
    block = board.memory.alloc(board.memory.size - ROOM)
    yield board
    board.memory.free(block)
    assert board.memory.held_bytes == 0


def test_what_is_stored_makes_room_for_what_is_needed(
    full: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = weights(9)
    full.functions.sum(w, 4096)
    sizes = sent(full, monkeypatch)
    full.functions.sum(w, 4096)
    assert sum(sizes) < 200
    full.memory.free(full.memory.alloc(ROOM))
    assert full.functions.sum(w, 4096) == int(w.sum())
    assert full.functions.sum(np.ones(ROOM, np.int8), ROOM) == ROOM
    for n in (3000, 3276, 3276):  # of 3276 elements, both arrays fill the arena without fences
        y = np.ones(n, np.int32)
        full.functions.add(w[:n], y, n)
        assert y.tolist() == (w[:n].astype(np.int32) + 1).tolist()


def test_what_is_stored_makes_room_for_what_fits_into_no_gap_between_blocks(full: Board) -> None:
    w = weights(10, 1400)
    full.functions.sum(w, 1400)  # from now on, the upper 8 KiB are for constants
    gap, block = full.memory.alloc(2048), full.memory.alloc(2048)
    full.memory.free(gap)  # 2 KiB are free below the block, and 4 above it
    y = np.ones(1400, np.int32)
    full.functions.add(w, y, 1400)
    assert y.tolist() == (w.astype(np.int32) + 1).tolist()
    full.memory.free(block)


def test_more_constants_than_there_is_room_for_are_all_right(full: Board) -> None:
    for _ in range(2):
        for seed in range(20, 26):
            w = weights(seed, 2000)
            assert full.functions.sum(w, 2000) == int(w.sum())


def test_with_all_handles_in_use_a_call_sends_its_arrays(board: Board) -> None:
    w = weights(10)
    board.memory.constants.free()
    blocks = []
    with contextlib.suppress(RpcError):  # until there are no more handles
        while True:
            blocks.append(board.memory.alloc(16))
    board.memory.free(blocks.pop())
    for _ in range(2):
        assert board.functions.sum(w, 4096) == int(w.sum())
    for block in blocks:
        board.memory.free(block)
    board.functions.sum(w, 4096)
    assert board.memory.held_bytes == 0


def test_small_arrays_are_sent_as_before(board: Board) -> None:
    board.memory.constants.free()
    assert board.functions.sum(weights(11, 255), 255) == int(weights(11, 255).sum())
    assert not board.memory.constants.free()


def test_images_without_constant_arrays_do_not_compute_a_crc(tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text("void f(int *x) { x[0] = 1; }\n")
    with boardprof.build(tmp_path / "f.c", board="native").open() as plain:
        assert "bp.crc" not in [each.name for each in plain.dictionary.functions]
