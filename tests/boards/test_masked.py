# SPDX-License-Identifier: Apache-2.0
"""Masked windows on boards of the tree: hangs, and clocks whose interrupts count their wraps."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from boardprof.boards.board_file import BoardSpec
from boardprof.boards.finding import board_spec
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


SUM = """\
#include <stdint.h>
uint32_t sum(uint32_t n) {
    volatile uint32_t buffer[64];
    uint32_t total = 0;
    for (uint32_t i = 0; i < n; i++) {
        buffer[i % 64] = i;
        total += buffer[i % 64];
    }
    return total;
}
void late(void) { for (;;) __asm__ volatile(""); }
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


def column(report: Report, name: str) -> list[int]:
    return [each.value for row in report.calls if isinstance(each := row[name], Count)]


def ticking(name: str, folder: Path, port: str, changes: dict[str, str]) -> BoardSpec:
    """Return a board like another one, with a port of its own and changes of its board.toml."""
    shutil.copytree(available(name).folder, folder)
    shutil.copy(Path(__file__).parent / "fixtures" / port, folder / "port.c")
    toml = (folder / "board.toml").read_text()
    for old, new in {"interrupts = 1": "interrupts = 2", **changes}.items():
        assert old in toml
        toml = toml.replace(old, new)
    if "guard = 1" not in toml:
        toml = re.sub(r"(?ms)^\[guard.*?(?=^\[(?!guard)|\Z)", "", toml)
    (folder / "board.toml").write_text(toml)
    return board_spec(str(folder))


def test_guarded_calls_with_hooked_interrupts_end_right_and_are_counted_right(
    tmp_path: Path,
) -> None:
    """The handlers of a Cortex-M stand on a stack between the guard's caller and the function."""
    changes = {'["cycles32", "ticks"]': '["ticks", "interrupts"]'}
    spec = ticking("qemu-cortex-m4", tmp_path / "ticking", "ticking_port.c", changes)
    source = tmp_path / "sum.c"
    source.write_text(SUM)
    with build(spec, [source]).open(timeout_s=0.5) as board:
        truth = column(board.profile("sum", 5000, mask_interrupts=True), "ticks")[0]
        hooked = board.profile("sum", 5000)
        counts = column(hooked, "interrupts")
        for ticks, count in zip(column(hooked, "ticks"), counts, strict=True):
            assert 1 <= count <= 6
            assert abs(ticks - truth) <= 2 + count
        assert board.functions.sum(5000) == 12_497_500
        with pytest.raises(DeviceTimeoutError):
            board.functions.late()
        assert board.functions.sum(5000) == 12_497_500


def test_instructions_without_hooked_interrupts_are_exact(tmp_path: Path) -> None:
    changes = {
        '"ticks", "riscv_hpm"]': '"riscv_hpm", "interrupts"]',
        "guard = 1, ": "",  # a guarded call lets no other interrupt in
    }
    spec = ticking("qemu-rv32", tmp_path / "ticking", "ticking_rv32_port.c", changes)
    source = tmp_path / "sum.c"
    source.write_text(SUM)
    with build(spec, [source]).open() as board:
        [truth] = {*column(board.profile("sum", 500_000, mask_interrupts=True), "instructions")}
        hooked = board.profile("sum", 500_000)
        assert column(hooked, "instructions") == [truth] * 10
        # 4.5 million instructions of 1 ns each
        assert {4, 5} >= {*column(hooked, "interrupts")}
