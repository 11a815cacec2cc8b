# SPDX-License-Identifier: Apache-2.0
"""Masked windows on boards of the tree: hangs, and clocks whose interrupts count their wraps."""

from __future__ import annotations

from pathlib import Path

import pytest

from boardprof.errors import DeviceTimeoutError, UsageError
from boardprof.firmware.builder import build
from boardprof.metrics import Count
from boardprof.report.report import Report
from tests.boards.conftest import available

HANG = """\
static volatile int calls;
void late(void) {
    if (++calls > 2)
        for (;;) __asm__ volatile("");
}
"""
SPIN = """\
#include <stdint.h>
void spin(uint16_t n) {
    while (n--) __asm__ volatile("");
}
"""


def cycles(report: Report) -> list[int]:
    return [each.value for row in report.calls if isinstance(each := row["cycles"], Count)]


@pytest.mark.parametrize("name", ["qemu-cortex-m4", "qemu-rv32"])
def test_a_hang_in_a_masked_window_ends_where_the_guards_timer_is_not_masked(
    name: str, tmp_path: Path
) -> None:
    source = tmp_path / "hang.c"
    source.write_text(HANG)
    with build(available(name), [source]).open(timeout_s=0.05) as board:
        assert board.interrupts is not None
        assert not board.interrupts.needs_trial
        with pytest.raises(DeviceTimeoutError):
            board.profile("late", warmup=1, mask_interrupts=True)
        with pytest.raises(DeviceTimeoutError):
            board.functions.late()


def test_where_it_is_masked_a_window_must_have_ended_unmasked_first(tmp_path: Path) -> None:
    source = tmp_path / "hang.c"
    source.write_text(HANG.replace("> 2", "> 1"))
    with build(available("qemu-cortex-a53"), [source]).open(timeout_s=0.05) as board:
        notes: list[str] = []
        with pytest.raises(DeviceTimeoutError):  # one warm-up call, and the sample on trial
            board.measure("late", warmup=1, mask_interrupts=True, on_note=notes.append)
        assert "is masked with the other interrupts" in notes[0]


def test_a_masked_window_that_the_boards_clock_would_not_survive_is_refused(tmp_path: Path) -> None:
    """TIMER1 of an AVR counts its wraps in an interrupt; 32,768 cycles of 20 MHz are 1,638 us."""
    source = tmp_path / "spin.c"
    source.write_text(SPIN)
    with build(available("arduino-uno"), [source]).open() as board:
        exact = cycles(board.profile("spin", 5000, repeat=3))
        assert cycles(board.profile("spin", 5000, repeat=3, mask_interrupts=True)) == exact
        with pytest.raises(UsageError, match="with interrupts masked it may take 1,638 us"):
            board.profile("spin", 60000, repeat=3, mask_interrupts=True)
