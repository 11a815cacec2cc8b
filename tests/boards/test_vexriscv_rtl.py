# SPDX-License-Identifier: Apache-2.0
"""A core with caches, simulated from its RTL: refills and waits of work that is counted by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from boardprof.base.metrics import Count
from boardprof.measure.board.board import Board
from boardprof.results.report.report import Report
from tests.boards.conftest import available
from tests.firmware import build

pytestmark = pytest.mark.timeout(900)  # the first of them builds the simulator

SOURCE = Path(__file__).parent / "fixtures" / "vexriscv.c"

WAITS = (
    *("fetch-waits", "load-waits", "store-waits"),
    *("hazard-waits", "divide-waits", "redirect-waits"),
)


@pytest.fixture(scope="module")
def board() -> Iterator[Board]:
    with build(available("vexriscv-rtl"), [SOURCE]).open() as opened:
        yield opened


def net(report: Report, name: str) -> list[int]:
    return [v.value for row in report.calls if isinstance(v := row.get(name), Count)]


@pytest.mark.parametrize(
    ("function", "times", "metric", "right", "besides"),
    [
        ("sweeps", 1, "dcache-refills", 2048, 16),
        ("sweeps", 1, "loads", 2048, 0),
        ("collides", 100, "dcache-refills", 200, 16),
        ("divides", 100, "divide-waits", 3300, 0),
    ],
)
def test_a_counter_counts_what_the_work_has_and_refills_around_it(
    board: Board, function: str, times: int, metric: str, right: int, besides: int
) -> None:
    """Around the call, lines are filled again that it has evicted, or that it was spared."""
    report = board.profile(function, times, metrics=[metric], warmup=2, repeat=4)
    assert all(abs(found - right) <= besides for found in net(report, metric))


@pytest.mark.parametrize(
    ("function", "times"), [("sweeps", 1), ("collides", 50), ("divides", 20), ("ten_nops", None)]
)
def test_instructions_and_waits_add_up_to_the_cycles_and_belong_to_lines(
    board: Board, function: str, times: int | None
) -> None:
    profile = board.hotspots(function, *([] if times is None else [times]))
    assert profile.is_complete
    assert set(profile.columns) == {"instructions", "cycles", "dcache-refills", *WAITS}
    whole = profile.sum("instructions") + sum(profile.sum(wait) for wait in WAITS)
    assert profile.sum("cycles") == whole
    for name in profile.columns:
        assert sum(each.self for each in profile.lines(name)) == profile.sum(name)


def test_a_profile_shows_the_line_whose_loads_miss(board: Board) -> None:
    profile = board.hotspots("sweeps", 1)
    assert profile.sum("dcache-refills") == 2048
    (line,) = [each for each in profile.lines("dcache-refills") if each.self]
    assert SOURCE.read_text().splitlines()[line.line - 1].strip() == "(void)words[i];"


def test_a_first_call_is_cold_and_waits_for_all_lines(board: Board) -> None:
    found = board.measure("reads_half", warmup=3, repeat=3, cold=True)
    assert found.cold is not None
    assert found.cold.nets["instructions"] == found.nets["instructions"][0]
    # Some lines are cold each time, since the agent uses the cache, too.
    assert found.cold.nets["cycles"] > max(found.nets["cycles"]) + 300


def test_one_more_instruction_is_one_more_cycle_when_the_code_is_cached(board: Board) -> None:
    """Within a window of 100 calls, all but the first have the code in the cache."""
    found = {
        name: board.profile(
            name, metrics=["instructions", "cycles"], warmup=2, repeat=4, number=100
        )
        for name in ("ten_nops", "eleven_nops")
    }
    ten, eleven = found.values()
    assert net(eleven, "instructions")[0] - net(ten, "instructions")[0] == 100
    cycles = sorted(net(eleven, "cycles"))[2] - sorted(net(ten, "cycles"))[2]
    assert 60 <= cycles <= 140
