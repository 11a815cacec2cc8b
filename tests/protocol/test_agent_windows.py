# SPDX-License-Identifier: Apache-2.0
"""The real C agent's collector windows, opened and closed by the host: four at a time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from boardprof_protocol.codes import ErrorCode
from tests.memory_board import FULL, BoardError, MemoryBoard, blob_counts

Boards = Callable[[dict[str, int]], MemoryBoard]


@pytest.fixture(autouse=True)
def _session(board: MemoryBoard) -> None:
    board.hello()


def work(board: MemoryBoard, times: int) -> None:
    for _ in range(times):
        board.call("work")


def test_a_window_counts_what_happens_between_start_and_stop(board: MemoryBoard) -> None:
    work(board, 1)
    window = board.call("probe_a.start")
    work(board, 3)
    blob = board.call("probe_a.stop", window)
    work(board, 1)
    assert blob_counts(blob) == [3]


def test_windows_nest_and_overlap(board: MemoryBoard) -> None:
    outer = board.call("probe_a.start")
    work(board, 1)
    inner = board.call("probe_a.start")
    other = board.call("probe_b.start")
    work(board, 2)
    assert blob_counts(board.call("probe_a.stop", outer)) == [3]
    work(board, 4)
    assert blob_counts(board.call("probe_b.stop", other)) == [6]
    assert blob_counts(board.call("probe_a.stop", inner)) == [6]


def test_there_are_as_many_windows_as_configured(board: MemoryBoard) -> None:
    windows = [board.call("probe_a.start") for _ in range(4)]
    assert len(set(windows)) == 4
    with pytest.raises(BoardError, match="NO_MEMORY, detail 4"):
        board.call("probe_b.start")
    board.call("probe_a.stop", windows[2])
    assert board.call("probe_b.start") == windows[2]


def test_a_window_that_is_closed_or_was_never_open_is_refused(board: MemoryBoard) -> None:
    window = board.call("probe_a.start")
    board.call("probe_a.stop", window)
    for number in (window, 3, 4, 0xFFFFFFFF):
        with pytest.raises(BoardError, match=f"BAD_HANDLE, detail {number}"):
            board.call("probe_a.stop", number)


def test_a_window_of_another_collector_is_refused_and_stays_open(board: MemoryBoard) -> None:
    window = board.call("probe_a.start")
    with pytest.raises(BoardError, match="BAD_HANDLE"):
        board.call("probe_b.stop", window)
    assert blob_counts(board.call("probe_a.stop", window)) == [0]


def test_a_new_session_forgets_open_windows(board: MemoryBoard) -> None:
    window = board.call("probe_a.start")
    board.hello(session=0x4321)
    with pytest.raises(BoardError, match="BAD_HANDLE"):
        board.call("probe_a.stop", window)


def test_init_runs_the_collectors_init_and_says_nil(board: MemoryBoard) -> None:
    number = board.names().index("probe_b.init")
    assert board.started == "ii"  # both probes
    assert board.call(number) is None
    assert board.log == "i"


def test_start_and_stop_call_the_collector_once_each(board: MemoryBoard) -> None:
    start = board.names().index("probe_a.start")
    window = board.call(start)
    assert board.log == "A"
    board.call(start + 1, window)
    assert board.log == "a"


def test_a_duplicate_start_opens_no_second_window(board: MemoryBoard) -> None:
    start = board.frame(board.names().index("probe_a.start"))
    assert board.exchange(start) == board.exchange(start)
    assert board.log == "A"


@pytest.mark.parametrize(
    "call", [("probe_a.init", 1), ("probe_a.start", 1), ("probe_a.stop",), ("probe_a.stop", 0, 0)]
)
def test_the_wrong_number_of_arguments_is_refused(
    board: MemoryBoard, call: tuple[str, ...]
) -> None:
    with pytest.raises(BoardError, match="ARG_COUNT"):
        board.call(*call)
    assert board.log == ""


def test_a_collector_whose_state_is_too_large_for_a_window_is_refused(boards: Boards) -> None:
    board = boards({**FULL, "BP_CFG_STATE_BYTES": 16})
    board.hello()
    with pytest.raises(BoardError) as caught:
        board.call("cycles.start")  # four counters of 64 bits: 32 bytes
    assert (caught.value.code, caught.value.detail) == (ErrorCode.NO_MEMORY, 16)
    assert board.call("probe_a.start") == 0
