# SPDX-License-Identifier: Apache-2.0
"""Exact profiles of code that accesses devices.

With -icount, QEMU ends a block at such an access, and executes it in a block that no plugin sees.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from boardprof.show.profile_tables import notes
from tests.boards.conftest import available
from tests.firmware import build

DEVICES = Path(__file__).parent / "fixtures" / "hotspots" / "devices.c"

EXECUTED = {
    "first": 5 * 20 + 2,
    "between": 5 * 20 + 2,
    "last": 5 * 20 + 2,
    "alone": 3 * 20 + 2,
    "twice": 7 * 20 + 2,
    "written": 5 * 20 + 2,
    "loop_after": 3 * 20 + 4,
    "branch_after": 3 * 20 + 4,
    "at_end": 4,
}
"""Instructions of each function with n = 20, by counting them in the source."""


@pytest.mark.parametrize(
    "name", ["qemu-rv32", "qemu-cortex-m4", "qemu-cortex-a53", "hifive1", "microbit"]
)
def test_an_instruction_that_accesses_a_device_is_executed_once(name: str) -> None:
    with build(available(name), [DEVICES]).open() as board:
        found = {}
        for function in EXECUTED:
            profile = board.hotspots(function, 20)
            assert profile.is_complete
            assert (profile.checked or "ticks") in profile.counted
            found[function] = profile.sum()
            loop = {each.self for each in profile.functions()}
            assert loop == {profile.sum()}
    assert found == EXECUTED


SLEEPS = """\
#include <stdint.h>
__attribute__((naked)) void sleeps(uint32_t ticks) {
    __asm__("lui a5, 0x2004\\n lui a4, 0x200c\\n lw a3, 0(a5)\\n lw a2, 4(a5)\\n"
            "csrrci t0, mstatus, 8\\n lw t1, -8(a4)\\n add t1, t1, a0\\n sw t1, 0(a5)\\n"
            "sw zero, 4(a5)\\n csrr t2, mie\\n li t3, 128\\n csrs mie, t3\\n wfi\\n"
            "csrw mie, t2\\n li t3, -1\\n sw t3, 4(a5)\\n sw a3, 0(a5)\\n sw a2, 4(a5)\\n"
            "andi t0, t0, 8\\n csrs mstatus, t0\\n ret");
}
"""


def test_a_call_that_sleeps_has_a_profile_though_the_boards_counter_goes_on(tmp_path: Path) -> None:
    """mtime counts every hundredth instruction of QEMU's clock."""
    source = tmp_path / "sleeps.c"
    source.write_text(SLEEPS)
    with build(available("qemu-rv32"), [source]).open() as board:
        profile = board.hotspots("sleeps", 1000)
    assert (profile.state, profile.sum(), profile.counted) == ("complete", 21, {})
    assert notes(profile) == ["total not checked: the board's counters go on while the core sleeps"]


def test_a_profile_of_a_function_that_sets_the_boards_clock_says_so(tmp_path: Path) -> None:
    source = tmp_path / "sets.c"
    source.write_text(
        "#include <stdint.h>\nvoid sets(uint32_t n) { *(volatile uint32_t *)0x40028018u += n; }\n"
    )
    with build(available("qemu-cortex-m4"), [source]).open() as board:
        profile = board.hotspots("sets", 500)
    assert (profile.state, profile.sum(), profile.counted) == ("incomplete left", 5, {})
    assert profile.failure is not None
    assert "sets stopped, set or reprogrammed the counter that measures it" in profile.failure
