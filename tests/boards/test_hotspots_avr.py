# SPDX-License-Identifier: Apache-2.0
"""Exact profiles on simavr's boards: cycles, each held against the board's own timer."""

from __future__ import annotations

from pathlib import Path

import pytest

from boardprof.target.build.build_options import BuildOptions
from tests.boards.conftest import SMALL, available
from tests.firmware import build

PATHS = Path(__file__).parent / "fixtures" / "hotspots" / "paths.c"
SPIN = """\
#include <stdint.h>
__attribute__((noinline)) static void wait(uint16_t n) {
    while (n--) __asm__ volatile("");
}
void spin(uint16_t n) { wait(n); }
"""

CALLS = """\
#include <stdint.h>
static void nothing(void) {}
void (*volatile callee)(void) = nothing;
void calls(uint16_t n) {
    while (n--) callee();
}
"""


@pytest.mark.parametrize("name", ["arduino-uno", "arduino-mega"])
def test_the_cycles_of_all_instructions_are_those_that_the_board_counts(name: str) -> None:
    with build(available(name), [SMALL]).open() as board:
        for function in ("checksum", "dot", "mix", "sort"):
            profile = board.hotspots(function)
            assert profile.is_complete
            assert profile.counted == {"cycles": profile.sum("cycles")}
            assert sum(each.self for each in profile.functions()) == profile.sum("cycles")
            assert sum(each.self for each in profile.lines()) == profile.sum("cycles")


def test_an_instructions_cycles_are_its_own_and_interrupts_are_split_off(tmp_path: Path) -> None:
    """A round of the loop is four cycles: SBIW is two, and BRNE that jumps two, else one.

    TIMER1 wraps each 65,536 cycles, in an interrupt of the agent's.
    """
    source = tmp_path / "spin.c"
    source.write_text(SPIN)
    with build(available("arduino-uno"), [source]).open() as board:
        profile = board.hotspots("spin", 60_000)
    own = {each.name: each for each in profile.functions()}
    assert own["wait"].calls == 1
    assert own["wait"].self in range(240_000, 240_016)
    assert profile.counted == {"cycles": profile.sum("cycles")}
    assert profile.interrupts("cycles") > 100  # three or four wraps
    assert profile.interrupts("cycles") < 1000


def test_an_interrupt_between_a_call_by_a_pointer_and_the_callee_is_an_interrupt(
    tmp_path: Path,
) -> None:
    """TIMER1 wraps at another moment of each call: in ten calls, also after an ICALL or a RET."""
    source = tmp_path / "calls.c"
    source.write_text(CALLS)
    with build(available("arduino-uno"), [source]).open() as board:
        for _ in range(10):
            profile = board.hotspots("calls", 6_000)
            assert profile.counted == {"cycles": profile.sum("cycles")}
            assert profile.interrupts("cycles") > 0
            own = {each.name: each.calls for each in profile.functions()}
            assert own == {"calls": 1, "nothing": 6_000}


def test_paths_on_an_avr_are_those_of_the_code() -> None:
    with build(available("arduino-mega"), [PATHS], BuildOptions("-O1")).open() as board:
        fib = board.hotspots("fib", 8)
        assert [(each.functions, each.calls) for each in fib.paths()] == [(("fib",), 67)]
        tennis = board.hotspots("table_tennis", 100)
        turns = {e.functions[1:]: e.calls for e in tennis.paths()}
        assert turns == {(): 1, ("ping",): 51, ("ping", "pong"): 50}
        ping, pong = (e for n in ("ping", "pong") for e in tennis.functions() if e.name == n)
        assert (ping.total, ping.total - pong.total) == (ping.self + pong.self, pong.self // 50)
        caught = {e.functions[1:]: e.calls for e in board.hotspots("caught", 3).paths()}
        assert caught["thrower",] == 4
        assert caught["after",] == 1
