# SPDX-License-Identifier: Apache-2.0
"""Threads take turns on one board: each gets its own right answers, and a wait has a deadline."""

from __future__ import annotations

import asyncio
import os
import signal
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import boardprof
from boardprof.base.errors import DeviceFaultError, LinkError, RpcError, UsageError
from boardprof.measure.board import board as board_module
from boardprof.measure.board.board import Board
from boardprof.results.report.measurement import Measurement
from boardprof.results.report.report import Report
from boardprof.wire.link import line
from boardprof.wire.link.line import ThreadLock
from boardprof_protocol.codes import ErrorCode
from tests.support import awake

FIXTURES = Path(__file__).parent / "fixtures"
ENDLESS = 1 << 30
"""Warm-up calls of a measurement that only ends when it is cancelled."""


@pytest.fixture(scope="module")
def constants() -> Iterator[Board]:
    with boardprof.build(FIXTURES / "constants.c", board="native").open() as board:
        yield board


def opened(name: str) -> Board:
    return boardprof.build(FIXTURES / "threads.c", board=name).open()


@pytest.fixture(
    scope="module", params=["native", "linux", pytest.param("qemu-rv32", marks=pytest.mark.slow)]
)
def board(request: pytest.FixtureRequest) -> Iterator[Board]:
    with opened(request.param) as board:
        yield board


def together(*works: Callable[[], object]) -> list[object]:
    """Run each in a thread of its own, beginning at the same time; return their results."""
    gate = threading.Barrier(len(works), timeout=30)

    def run(work: Callable[[], object]) -> object:
        gate.wait()
        return work()

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(run, works, timeout=60))


def under_way(board: Board, call: Future[object]) -> None:
    """Wait until the board works on a call of another thread."""
    deadline_s = time.monotonic() + 30
    while not board.session.requests.waits:
        assert not call.done()
        assert time.monotonic() < deadline_s
        time.sleep(0.001)


# -- right answers ------------------------------------------------------------------------------


def mixed(x: int) -> int:
    return (x * 2654435761 + 7) % 2**32


def scalars(board: Board, thread: int) -> bool:
    values = range(thread * 1_000_003, thread * 1_000_003 + 40 * 17, 17)
    return [board.functions.mix(x) for x in values] == [mixed(x) for x in values]


@pytest.mark.parametrize("threads", [2, 8])
def test_each_thread_gets_the_answers_to_its_own_numbers(board: Board, threads: int) -> None:
    works = [lambda each=each: scalars(board, each) for each in range(threads)]
    assert together(*works) == [True] * threads


def arrays(board: Board, thread: int) -> bool:
    size = 100 + thread
    x = np.full(size, 7 * thread, np.uint16)
    for turn in range(6):
        y = np.full(size, 1000 * turn, np.uint16)
        board.functions.add(x, y, size)
        if y.tolist() != [1000 * turn + 7 * thread] * size:
            return False
        if board.functions.sum(np.full(size, thread, np.uint8), size) != size * thread:
            return False
    return True


def memory(board: Board, thread: int) -> bool:
    content = bytes([thread]) * (3000 + thread)
    for _ in range(3):
        block = board.memory.alloc(len(content))
        board.memory.write(block, content)
        right = board.memory.read(block) == content
        board.memory.free(block)
        if not right:
            return False
    return True


def profiles(board: Board, thread: int) -> bool:
    size = 50 + thread
    x = np.full(size, 3, np.uint16)
    for turn in range(2):
        y = np.full(size, thread, np.uint16)
        found = board.measure("mix", thread + turn, warmup=1, repeat=2)
        board.profile("add", x, y, size, warmup=1, repeat=2)
        if found.result != mixed(thread + turn) or y.tolist() != [thread + 3] * size:
            return False
    return True


def test_calls_arrays_memory_and_profiles_of_eight_threads_do_not_disturb_each_other(
    board: Board,
) -> None:
    kinds = [scalars, arrays, memory, profiles] * 2
    works = [lambda kind=kind, n=n: kind(board, n) for n, kind in enumerate(kinds, 1)]
    assert together(*works) == [True] * 8
    assert board.memory.held_bytes == 0
    assert board.functions.mix(5) == 387276924


@pytest.mark.parametrize("name", ["native", "linux"])
def test_threads_whose_arrays_fit_one_by_one_are_not_refused(name: str) -> None:
    with opened(name) as board:
        size = 3_200_000  # of 8,388,608 bytes

        def work(thread: int) -> object:
            return board.functions.sum(np.full(size, thread, np.uint8), size)

        sums = together(*[lambda n=n: work(n) for n in (1, 2, 3, 4)])
        assert sums == [3_200_000, 6_400_000, 9_600_000, 12_800_000]
        assert board.memory.held_bytes == 0


def test_the_list_of_metrics_and_the_clock_are_read_while_others_call(board: Board) -> None:
    names = [each.name for each in board.metrics()]

    def listed() -> object:
        return [each.name for each in board.metrics()]

    found = together(listed, lambda: profiles(board, 9), lambda: scalars(board, 1), listed)
    assert found == [names, True, True, names]


def test_a_stream_loses_nothing_while_another_thread_calls(board: Board) -> None:
    got = bytearray()
    with board.stream(timeout_s=0.05) as stream:
        over = threading.Event()

        def read() -> None:
            while not over.is_set():
                got.extend(stream.read())

        def emit() -> int:
            try:
                return sum(board.functions.emit(10) for _ in range(20))
            finally:
                over.set()

        assert together(read, emit, lambda: memory(board, 3)) == [None, 200, True]
    got += stream.read()
    numbers = struct.unpack("<200I", got)
    assert numbers == tuple(range(numbers[0], numbers[0] + 200))


def test_a_recording_of_probes_has_the_events_of_the_calls_of_all_threads(board: Board) -> None:
    with board.tracing() as recorder:

        def mark(thread: int) -> None:
            for turn in range(20):
                board.functions.mark(100 * thread + turn)

        def read() -> None:
            for _ in range(20):
                recorder.read(0.01)

        together(read, lambda: mark(1), lambda: mark(2))
    events = recorder.recording().timelines()[0].events
    values = sorted(events.value[events.value >= 100].tolist())
    assert values == [*range(100, 120), *range(200, 220)]


def test_a_window_has_no_calls_of_other_threads_because_they_wait(board: Board) -> None:
    with ThreadPoolExecutor(1) as pool:
        with board.collectors[next(iter(board.collectors))]:
            assert board.functions.mix(1) == mixed(1)
            other = pool.submit(board.functions.mix, 5)
            time.sleep(0.3)
            assert not other.done()
        assert other.result(30) == 387276924


def test_tasks_of_asyncio_call_in_threads(board: Board) -> None:
    async def work() -> list[object]:
        calls = [asyncio.to_thread(board.functions.mix, x) for x in range(30)]
        return await asyncio.gather(*calls)

    assert asyncio.run(work()) == [mixed(x) for x in range(30)]


def test_calls_of_four_threads_share_constant_arrays(constants: Board) -> None:
    def work(number: int) -> bool:
        w = np.full(600 + number, number, np.int8)
        y = np.full(600 + number, 1000, np.int32)
        constants.functions.add(w, y, 600 + number)
        total = constants.functions.sum(w, 600 + number)
        return total == number * (600 + number) and y.tolist() == [1000 + number] * (600 + number)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(100)))
    assert constants.memory.held_bytes == 0


def test_a_call_from_the_on_progress_of_another_one_is_refused(constants: Board) -> None:
    def call_again(_done: int, _total: int) -> None:
        constants.functions.sum(np.ones(3, np.int8), 3)

    with pytest.raises(UsageError, match=r"call on .* is under way") as refused:
        constants.profile("sum", np.ones(300, np.int8), 300, on_progress=call_again)
    assert refused.value.hint == "call the board after that call, not within its on_progress"
    assert constants.functions.sum(np.ones(3, np.int8), 3) == 3


# -- ends ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["native", "linux"])
def test_a_call_that_fails_lets_the_others_go_on(name: str) -> None:
    with opened(name) as board:

        def fail() -> object:
            for _ in range(5):
                with pytest.raises(DeviceFaultError):
                    board.functions.trap()
                with pytest.raises(UsageError):
                    board.functions.mix("many")
            return None

        assert together(fail, lambda: scalars(board, 1), lambda: arrays(board, 2)) == [
            None,
            True,
            True,
        ]


def test_another_thread_cancels_a_measurement_without_waiting_and_the_next_call_works(
    board: Board,
) -> None:
    began = threading.Event()
    with ThreadPoolExecutor(2) as pool:
        measured = pool.submit(
            board.measure, "mix", 1, warmup=ENDLESS, on_progress=lambda *_: began.set()
        )
        assert began.wait(30)
        waiting = pool.submit(board.functions.mix, 5)
        board.session.cancel()
        with pytest.raises(RpcError) as caught:
            measured.result(30)
        assert caught.value.code == ErrorCode.CANCELLED
        assert waiting.result(30) == 387276924
    assert board.measure("mix", 5, warmup=1, repeat=1).result == 387276924


def test_a_cancel_between_two_requests_of_a_measurement_is_not_lost(board: Board) -> None:
    with pytest.raises(RpcError) as caught:
        board.measure(
            "sum",
            np.ones(300, np.uint8),
            300,
            warmup=ENDLESS,
            on_transfer=lambda *_: board.session.cancel(),
        )
    assert caught.value.code == ErrorCode.CANCELLED
    board.session.cancel()  # nothing is under way
    assert board.measure("mix", 5, warmup=1, repeat=1).result == 387276924


def test_a_cancel_when_a_measurement_has_just_made_its_last_call_is_not_lost(board: Board) -> None:
    def cancel_at_the_end(done: int, total: int) -> None:
        if done == total:
            board.session.cancel()

    with pytest.raises(RpcError) as caught:
        board.measure("mix", 1, warmup=1, repeat=3, on_progress=cancel_at_the_end)
    assert caught.value.code == ErrorCode.CANCELLED
    assert board.measure("mix", 5, warmup=1, repeat=1).result == 387276924


def test_a_cancel_while_the_report_of_many_samples_is_made_is_not_lost(
    board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    assemble, others = board_module.assemble, 0

    def assembled(measurements: Sequence[Measurement]) -> Report:
        with ThreadPoolExecutor(1) as pool:
            for _ in range(others):
                pool.submit(board.functions.mix, 5).result(30)
            board.session.cancel()
        return assemble(measurements)

    monkeypatch.setattr(board_module, "assemble", assembled)
    with pytest.raises(RpcError) as caught:
        board.profile("mix", 1, warmup=1, repeat=3)
    assert caught.value.code == ErrorCode.CANCELLED
    others = 1  # it may be the other thread's call that is meant
    assert len(board.profile("mix", 1, warmup=1, repeat=3).calls) == 3


@pytest.mark.parametrize("name", ["native", "linux"])
def test_a_board_that_another_thread_closes_ends_the_call_and_those_that_wait(name: str) -> None:
    board = opened(name)
    with ThreadPoolExecutor(3) as pool:
        calls = [pool.submit(board.functions.work, 1_000_000_000)]
        under_way(board, calls[0])
        calls.append(pool.submit(board.functions.mix, 1))
        calls.append(pool.submit(board.measure, "mix", 1))
        with awake() as elapsed_s:
            board.close()
            assert elapsed_s() < 1.5
        for call in calls:
            with pytest.raises(LinkError, match="is closed") as caught:
                call.result(10)
            assert caught.value.hint == "connect again"
    with pytest.raises(LinkError, match="is closed"):
        board.functions.mix(1)


def test_a_board_is_closed_though_another_thread_stays_in_its_callback() -> None:
    board, inside, done = opened("linux"), threading.Event(), threading.Event()

    def stay(*_: object) -> None:
        inside.set()
        done.wait(30)

    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(board.measure, "mix", 1, on_progress=stay)
        assert inside.wait(30)
        board.close()
        done.set()
        with pytest.raises(LinkError, match="is closed"):
            call.result(10)


def test_ctrl_c_ends_the_wait_for_another_thread_and_leaves_the_board_to_it() -> None:
    with opened("linux") as board, ThreadPoolExecutor(1) as pool:
        measured = pool.submit(board.measure, "mix", 1, warmup=ENDLESS)
        under_way(board, measured)
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            board.functions.mix(5)
        assert not measured.done()
        board.session.cancel()
        with pytest.raises(RpcError):
            measured.result(10)
        assert board.functions.mix(5) == 387276924


# -- the lock -----------------------------------------------------------------------------------


@pytest.fixture
def holder(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadLock]:
    """A lock that thread ``first`` holds, without a word from the board, until the test ends."""
    monkeypatch.setattr(line, "_GRACE_S", 0.1)
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


def test_a_thread_that_works_in_a_loop_does_not_overtake_one_that_waits() -> None:
    lock, order = ThreadLock("/dev/ttyACM0"), []

    def wait() -> None:
        lock.acquire("dot", 30)
        order.append("waited")
        lock.release()

    lock.acquire("fir", 30)
    thread = threading.Thread(target=wait)
    thread.start()
    deadline_s = time.monotonic() + 30
    while not lock._next.locked():
        assert time.monotonic() < deadline_s
    lock.release()
    lock.acquire("fir", 30)
    order.append("again")
    lock.release()
    thread.join(30)
    assert order == ["waited", "again"]


def test_the_thread_that_holds_the_board_takes_it_again_and_keeps_it_to_the_end() -> None:
    lock, free = ThreadLock("/dev/ttyACM0"), []
    assert lock.acquire("fir", 30)
    assert not lock.acquire("dot", 30)

    def look() -> None:
        free.append(lock.acquire_within(0))

    for _ in range(2):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join(30)
        lock.release()
    assert free == [False, False]
    assert lock.acquire_within(0)
