# SPDX-License-Identifier: Apache-2.0
"""The real C agent's bp.sample: what a timer hits while a function runs (SPEC 5.11)."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable

import pytest

from boardprof_protocol.codes import ErrorCode, FaultCause
from tests.memory_board import CHANNELS, FULL, BoardError, MemoryBoard

Boards = Callable[[dict[str, int]], MemoryBoard]

SAMPLING = {**FULL, "BP_CFG_ARENA": 65536, "BP_CFG_GUARD": 1, "BP_CFG_SAMPLING": 1}
SIZE = 16
"""Bytes of a sample on this machine."""


@pytest.fixture
def sampled(boards: Boards) -> MemoryBoard:
    """Its functions take 1,000 ticks of the timer."""
    board = boards(SAMPLING)
    board.hello()
    board.lib.test_call_ticks = 1000
    board.log  # noqa: B018 - forgets the start
    return board


def sample(
    board: MemoryBoard,
    room: int,
    *,
    half: int = 100,
    seed: int = 1,
    rounds: int = 1_000_000,
    wanted: int | None = None,
    function: str = "work",
) -> tuple[list[int], int, int]:
    """Return the places that were hit, in ticks, the rounds, and half in the end."""
    handle = board.call("bp.alloc", room * SIZE)
    number = board.names().index(function)
    want = room // 2 if wanted is None else wanted
    done, count, last, top = board.call("bp.sample", number, handle, half, seed, rounds, want)
    data = b"".join(
        board.call("bp.read", handle, at, min(160, count * SIZE - at))
        for at in range(0, count * SIZE, 160)
    )
    board.call("bp.free", handle)
    found = list(struct.iter_unpack("<QQ", data))
    assert top > 0
    assert {sp for _, sp in found} <= {0}
    return [pc for pc, _ in found], done, last


def test_the_board_names_its_timer_and_the_usual_time_between_samples(sampled: MemoryBoard) -> None:
    assert sampled.call("bp.sampling") == ["test_timer", 10, 100]


def test_a_round_is_set_up_call_and_check_and_the_timer_runs_in_the_call(
    sampled: MemoryBoard,
) -> None:
    _, done, _ = sample(sampled, 64, rounds=2)
    assert done == 2
    assert sampled.log == "(uTftc)(uTftc)"
    assert sampled.lib.test_timer == 0


def test_each_part_of_the_call_is_hit_in_proportion_to_its_time(sampled: MemoryBoard) -> None:
    places, _, half = sample(sampled, 4000, wanted=2000)
    assert half == 100
    tenths = [0] * 10
    for place in places:
        tenths[(place - 1) // 100] += 1
    mean = len(places) / 10
    # Four standard deviations of a tenth, which has 200: 54.
    assert max(abs(count - mean) for count in tenths) < 54
    assert 2000 <= len(places) < 2050


def test_a_delay_is_the_sum_of_two_random_stages(sampled: MemoryBoard) -> None:
    sampled.lib.test_call_ticks = 600_000
    places, done, _ = sample(sampled, 4000, rounds=1, wanted=3999)
    delays = [b - a for a, b in itertools.pairwise(places)]
    assert done == 1
    assert len(delays) > 1900
    # Of the sum of two stages with the half-life 100: 1 - (1 + x) exp(-x), with x = t ln 2 / 100.
    for ticks, share in ((100, 0.1534), (200, 0.4034), (300, 0.6151), (600, 0.9194)):
        assert abs(sum(delay < ticks for delay in delays) / len(delays) - share) < 0.035
    assert sum(delays) / len(delays) == pytest.approx(288.5, rel=0.06)
    assert min(delays) >= 10


def test_the_same_seed_gives_the_same_samples(sampled: MemoryBoard) -> None:
    first = sample(sampled, 64, seed=7)
    assert sample(sampled, 64, seed=7) == first
    assert sample(sampled, 64, seed=8) != first


def test_a_round_ends_although_there_are_enough_samples(sampled: MemoryBoard) -> None:
    sampled.lib.test_call_ticks = 100_000
    places, done, _ = sample(sampled, 2000, wanted=1)
    assert done == 1
    assert 290 < len(places) < 400
    assert places[-1] > 97_000


def test_a_full_block_is_thinned_and_has_the_whole_call_still(sampled: MemoryBoard) -> None:
    sampled.lib.test_call_ticks = 100_000
    places, done, half = sample(sampled, 100, rounds=1, wanted=100)
    assert done == 1
    assert half in (400, 800, 1600)  # 347 samples of half 100 would be 87 of 400
    assert 20 <= len(places) <= 100
    quarters = [sum(place // 25_000 == n for place in places) for n in range(4)]
    assert min(quarters) >= 2
    assert places == sorted(places)


def test_a_short_function_is_called_until_it_is_hit(sampled: MemoryBoard) -> None:
    sampled.lib.test_call_ticks = 1  # so that a call is hit once at most
    places, done, _ = sample(sampled, 16, wanted=3, rounds=5000)
    assert places == [1] * 3
    assert done > 50


def test_rounds_are_a_limit(sampled: MemoryBoard) -> None:
    sampled.lib.test_call_ticks = 0
    assert sample(sampled, 16, rounds=9) == ([], 9, 100)


@pytest.mark.parametrize(("half", "wanted"), [(0, 1), (1_000_001, 1), (100, 0), (100, 5)])
def test_what_is_out_of_range_is_refused_with_the_blocks_room(
    sampled: MemoryBoard, half: int, wanted: int
) -> None:
    with pytest.raises(BoardError) as refused:
        sample(sampled, 4, half=half, wanted=wanted)
    assert (refused.value.code, refused.value.detail) == (ErrorCode.ARG_RANGE, 4)
    assert sampled.log == ""


def test_a_handle_or_a_function_that_is_not_there_is_refused(sampled: MemoryBoard) -> None:
    work = sampled.names().index("work")
    with pytest.raises(BoardError) as refused:
        sampled.call("bp.sample", work, 77, 100, 1, 1, 1)
    assert refused.value.code == ErrorCode.BAD_HANDLE
    handle = sampled.call("bp.alloc", 64)
    with pytest.raises(BoardError) as refused:
        sampled.call("bp.sample", sampled.names().index("echo"), handle, 100, 1, 1, 1)
    assert refused.value.code == ErrorCode.NOT_MEASURABLE


def test_a_fault_stops_the_timer_and_is_the_answer(sampled: MemoryBoard) -> None:
    sampled.lib.test_trap_at = b"f"
    sampled.lib.test_trap_after = 3
    sampled.lib.test_trap_cause = FaultCause.BAD_ADDRESS
    with pytest.raises(BoardError) as refused:
        sample(sampled, 64, wanted=64)
    assert (refused.value.code, refused.value.detail) == (
        ErrorCode.FAULT,
        FaultCause.BAD_ADDRESS,
    )
    assert sampled.lib.test_timer == 0
    assert sampled.log.endswith("(uTf)t")


def test_a_failed_check_is_the_answer(sampled: MemoryBoard) -> None:
    sampled.lib.test_check_after = 2
    with pytest.raises(BoardError) as refused:
        sample(sampled, 64, wanted=64)
    assert (refused.value.code, refused.value.detail) == (ErrorCode.CHECK_FAILED, 42)


@pytest.mark.parametrize("without", ["BP_CFG_ARENA", "BP_CFG_GUARD"])
def test_an_agent_without_arena_or_guard_takes_no_samples(boards: Boards, without: str) -> None:
    board = boards({**SAMPLING, without: 0})
    board.hello()
    assert not {"bp.sample", "bp.sampling"} & {*board.names()}


def test_the_last_functions_of_an_agent_are_those_that_sample(boards: Boards) -> None:
    board = boards({**CHANNELS, "BP_CFG_GUARD": 1, "BP_CFG_SAMPLING": 1})
    board.hello()
    names = board.names()
    assert names.index("bp.sample") == names.index("bp.sampling") + 1
