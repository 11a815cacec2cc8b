# SPDX-License-Identifier: Apache-2.0
"""TVM's interface on a deterministic board with a clock: each time can be told in advance.

On the ATmega328P of 16 MHz `spin(n)` takes 14 cycles for each of n and 33 beside: the same cycles
in every call, however many there are in a window.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from boardprof.base.metrics import Count, Duration
from boardprof.compat.tvm_profiler import Program, profile_function, time_evaluator
from boardprof.measure.board.board import Board
from boardprof.measure.connect import build
from tests.boards.conftest import available

SPIN = """
#include <stdint.h>
uint16_t spin(uint16_t n);
uint16_t spin(uint16_t n) {
    volatile uint16_t sum = 0;
    while (n--) { sum += n; }
    return sum;
}
"""


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Board]:
    source: Path = tmp_path_factory.mktemp("spin") / "spin.c"
    source.write_text(SPIN)
    with build(source, board=available("arduino-uno")).open() as connected:
        yield connected


def test_a_call_takes_its_cycles_by_the_boards_clock(board: Board) -> None:
    result = time_evaluator(board, "spin", number=4, repeat=3)(100)
    assert result.results == (1433 / 16e6,) * 3
    assert (result.mean, result.std) == (pytest.approx(89.5625e-6), pytest.approx(0))


def test_a_sample_has_as_many_calls_as_the_rule_gives(board: Board) -> None:
    # A window with one call takes 1,698 cycles, 0.106125 ms: 1 / 0.106125 + 1 = 10.4 calls are the
    # next attempt. Its 0.94 ms are too short: 10 * 1.618 = 16.2.
    metrics = profile_function(board, func_name="spin", min_repeat_ms=1)(100)
    assert metrics["Count"] == Count(16)
    assert metrics["cycles"] == Count(16 * 1433)
    assert metrics["Duration (us)"] == Duration(16 * 89.5625)
    assert time_evaluator(board, "spin", number=1, min_repeat_ms=1)(100).min == 1433 / 16e6


def test_a_programs_rows_have_the_cycles_of_each_call(board: Board) -> None:
    program = Program(board)
    program.add("spin", 100)
    program.add("spin", 10)
    report = program.profile(repeat=2)
    assert [row["cycles"] for row in report.calls] == [Count(1433), Count(173)] * 2
    assert [row["Argument Shapes"] for row in report.calls] == ["100", "10"] * 2
    assert report.configuration["End to end (us)"] == "not known: arduino-uno is emulated"
