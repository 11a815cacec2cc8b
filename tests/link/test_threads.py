# SPDX-License-Identifier: Apache-2.0
"""Threads take turns on one board, and a wait for another thread has a deadline."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import boardprof
from boardprof.board.board import Board
from boardprof.errors import UsageError
from boardprof.link import thread_lock
from boardprof.link.thread_lock import ThreadLock

ADD = Path(__file__).parent / "fixtures" / "constants.c"


@pytest.fixture(scope="module")
def board() -> Iterator[Board]:
    with boardprof.build(ADD, board="native").open() as board:
        yield board


def test_calls_of_four_threads_have_each_their_own_results(board: Board) -> None:
    def work(number: int) -> bool:
        w = np.full(600 + number, number, np.int8)
        y = np.full(600 + number, 1000, np.int32)
        board.functions.add(w, y, 600 + number)
        total = board.functions.sum(w, 600 + number)
        return total == number * (600 + number) and y.tolist() == [1000 + number] * (600 + number)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(100)))
    assert board.memory.held_bytes == 0


def test_measurements_of_two_threads_have_each_their_own_results(board: Board) -> None:
    def results(value: int) -> list[object]:
        w = np.full(300, value, np.int8)
        return [board.measure("sum", w, 300, repeat=3).result for _ in range(5)]

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(results, [1, 2])) == [[300] * 5, [600] * 5]
    assert board.memory.held_bytes == 0


def test_a_call_from_the_on_progress_of_another_one_is_refused(board: Board) -> None:
    def call_again(_done: int, _total: int) -> None:
        board.functions.sum(np.ones(3, np.int8), 3)

    with pytest.raises(UsageError, match=r"call on .* is under way") as refused:
        board.profile("sum", np.ones(300, np.int8), 300, on_progress=call_again)
    assert refused.value.hint == "call the board after that call, not within its on_progress"
    assert board.functions.sum(np.ones(3, np.int8), 3) == 3


@pytest.fixture
def holder(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadLock]:
    """A lock that thread ``first`` holds, without a word from the board, until the test ends."""
    monkeypatch.setattr(thread_lock, "_GRACE_S", 0.1)
    lock, held, done = ThreadLock("/dev/ttyACM0"), threading.Event(), threading.Event()

    def hold() -> None:
        lock.acquire("fir", 1)
        held.set()
        done.wait(30)
        lock.release()

    thread = threading.Thread(target=hold, name="first")
    thread.start()
    assert held.wait(30)
    yield lock
    done.set()
    thread.join(30)


def test_a_wait_for_a_silent_thread_ends_and_names_it(holder: ThreadLock) -> None:
    began_s = time.monotonic()
    with pytest.raises(UsageError) as late:
        holder.acquire("dot", 0.2)
    assert 0.3 <= time.monotonic() - began_s < 5
    assert late.value.message == (
        "dot waited 0.3 s for thread first, which holds /dev/ttyACM0 for fir and hears nothing "
        "from it."
    )
    assert late.value.hint == "let that thread end its work on the board first"


def test_frames_that_the_other_thread_gets_renew_the_deadline(holder: ThreadLock) -> None:
    began_s = time.monotonic()

    def get_frames() -> None:
        while time.monotonic() - began_s < 1:
            holder.tell_frames(1)
            time.sleep(0.01)

    thread = threading.Thread(target=get_frames)
    thread.start()
    with pytest.raises(UsageError, match=r"waited 0\.3 s"):
        holder.acquire("dot", 0.2)
    assert time.monotonic() - began_s >= 1
    thread.join(30)
