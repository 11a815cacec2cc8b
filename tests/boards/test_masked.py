# SPDX-License-Identifier: Apache-2.0
"""Masked windows on boards of the tree: hangs, and clocks whose interrupts count their wraps."""

from __future__ import annotations

import re
import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest

from boardprof.base.errors import DeviceResetError, DeviceTimeoutError, LinkError, UsageError
from boardprof.base.metrics import Count
from boardprof.compat.torch.profiler import profile
from boardprof.compat.tvm_profiler.function import profile_function
from boardprof.compat.tvm_profiler.host_collectors import MetricCollector
from boardprof.compat.tvm_profiler.program import Program
from boardprof.compat.tvm_profiler.timing import time_evaluator
from boardprof.measure.board.board import Board
from boardprof.results.report.report import Report
from boardprof.target.descriptions.board import BoardSpec, board_spec
from tests.boards.conftest import available
from tests.firmware import build

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


class Idle(MetricCollector):
    """A collector of the host, so that each sample is a call of the board of its own."""

    def Init(self, devices: object) -> None: ...

    def Start(self, device: object) -> object:
        return self

    def Stop(self, state: object) -> dict[str, float]:
        return {}


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
        with pytest.raises(UsageError, match="at most 1,638 us is allowed with interrupts masked"):
            board.profile("spin", 60000, repeat=3, mask_interrupts=True)


def test_each_way_to_measure_tries_an_unmasked_window_before_a_masked_one(tmp_path: Path) -> None:
    source = tmp_path / "spin.c"
    source.write_text(SPIN)
    with build(available("arduino-uno"), [source]).open() as board:
        program = Program(board)
        program.add("spin", 60000)
        spin = profile_function(board, None, [Idle()], "spin", 0, mask_interrupts=True)
        evaluate = time_evaluator(board, "spin", number=1, mask_interrupts=True)
        assert spin(5000) is not None
        assert evaluate(5000).mean > 0
        for too_long in (
            lambda: program.profile(warmup=0, mask_interrupts=True),
            lambda: spin(60000),
            lambda: evaluate(60000),
        ):
            with pytest.raises(
                UsageError, match="at most 1,638 us is allowed with interrupts masked"
            ):
                too_long()


def test_a_profile_cannot_try_what_it_calls_once(tmp_path: Path) -> None:
    source = tmp_path / "spin.c"
    source.write_text(SPIN)
    with (
        build(available("arduino-uno"), [source]).open() as board,
        profile(metrics="cycles", mask_interrupts=True),
        pytest.raises(UsageError, match="cannot mask interrupts of a single call"),
    ):
        board.functions.spin(5000)


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
        truth = column(board.profile("sum", 5000, mask_interrupts=True), "instructions")[0]
        hooked = board.profile("sum", 5000)
        counts = column(hooked, "interrupts")
        for instructions, count in zip(column(hooked, "instructions"), counts, strict=True):
            assert 4 <= count <= 24
            # What a handler does before its first hook may differ from the empty one's by an
            # instruction.
            assert abs(instructions - truth) <= count
        assert board.functions.sum(5000) == 12_497_500
        with pytest.raises(DeviceTimeoutError):
            board.functions.late()
        assert board.functions.sum(5000) == 12_497_500


def test_cycles_of_an_avr_leave_hooked_interrupts_out(tmp_path: Path) -> None:
    """TIMER1, which counts them, has an interrupt of its own in each of the windows."""
    changes = {
        '["timer16"]': '["timer16", "interrupts"]',
        "active_collectors = 1, state_bytes = 16": "active_collectors = 2, state_bytes = 80",
    }
    spec = ticking("arduino-mega", tmp_path / "ticking", "ticking_mega_port.c", changes)
    source = tmp_path / "spin.c"
    source.write_text(SPIN)
    with build(spec, [source]).open() as board:
        [truth] = {*column(board.profile("spin", 2000, mask_interrupts=True), "cycles")}
        assert truth == 8009  # four cycles a round
        hooked = board.profile("spin", 60_000, repeat=20)
    cycles_of_each = column(hooked, "cycles")
    assert min(cycles_of_each) == 240_009
    # where both interrupts meet, as in every second sample, hooks take another time
    assert max(cycles_of_each) <= 240_009 + 60
    # 240,009 cycles are 15 ms, and the interrupts with their hooks take 1 to 2 ms more
    assert {16, 17, 18} >= {*column(hooked, "interrupts")}
    assert "ticking warning" not in hooked.configuration


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


RACE = """\
#include <stdint.h>
#include "boardprof/bp_trace.h"
extern volatile uint32_t counts[4];
uint32_t counted(uint32_t at) { return counts[at]; }
void race(uint32_t n) {
    for (uint32_t i = 0; i < n; i++) BP_VALUE(race, i);
}
"""


def racing(folder: Path) -> Board:
    changes = {"interrupts = 1": "interrupts = 1, basepri = 0x40"}
    spec = ticking("qemu-cortex-m4", folder / "urgent", "urgent_port.c", changes)
    source = folder / "race.c"
    source.write_text(RACE)
    return build(spec, [source]).open()


def test_an_interrupt_above_basepri_is_never_masked(tmp_path: Path) -> None:
    with racing(tmp_path) as board:

        def counts() -> list[int]:
            return [int(board.functions.counted(at)) for at in range(4)]

        with board.tracing():
            board.functions.race(20_000)
        urgent, urgent_locked, usual, usual_locked = counts()
        assert urgent_locked > 100  # it ran within the locks of probes
        assert usual_locked == 0
        assert usual > urgent // 2
        found = board.measure("race", 5000, repeat=3, warmup=0, mask_interrupts=True).findings
        _, now_locked, _, usual_locked = counts()
        assert now_locked - urgent_locked > 50  # it ran within masked samples, too
        assert usual_locked == 0
    assert [each.text for each in found if each.kind == "interrupts"] == [
        "race was measured while 1 interrupt source of the firmware was enabled: the time of those "
        "above BP_CFG_BASEPRI that came is in its numbers, and their stack in its stack"
    ]


def test_an_interrupt_above_basepri_between_two_clocks_is_no_change_of_them(tmp_path: Path) -> None:
    with racing(tmp_path) as board:
        # It comes each 780 instructions; 2000 comparisons take a few of these each.
        found = board.measure("race", 10, repeat=1000, warmup=0, mask_interrupts=True)
    assert len(found.samples) == 1000


TIMER0 = """\
#include <avr/interrupt.h>
#include <avr/io.h>
#include <stdint.h>
volatile uint16_t milliseconds;
ISR(TIMER0_COMPA_vect) { milliseconds++; }
void count_milliseconds(void) {
    TCCR0A = _BV(WGM01);
    OCR0A = 249;
    TCCR0B = _BV(CS01) | _BV(CS00);
    TIMSK0 = _BV(OCIE0A);
}
void stop_counting(void) { TIMSK0 = 0; }
uint8_t spins(uint16_t n) {
    for (uint16_t i = 0; i < n; i++) __asm__ volatile("");
    return 0;
}
"""


@pytest.mark.parametrize("name", ["arduino-uno", "arduino-mega"])
def test_an_interrupt_of_the_firmware_on_avr_is_told(name: str, tmp_path: Path) -> None:
    source = tmp_path / "timer.c"
    source.write_text(TIMER0)
    with build(available(name), [source]).open() as board:

        def interrupts() -> list[str]:
            found = board.measure("spins", 1000, repeat=3).findings
            return [each.text for each in found if each.kind == "interrupts"]

        assert interrupts() == []
        board.functions.count_milliseconds()
        board.measure("spins", 1000, repeat=1, mask_interrupts=True)
        board.functions.stop_counting()
        assert interrupts() == []  # what the masked one has seen is not of this one
        board.functions.count_milliseconds()
        assert interrupts() == [
            "spins was measured while 1 interrupt source of the firmware was enabled: the time of "
            "interrupts that came is in its numbers, and their stack in its stack. "
            "--mask-interrupts leaves their time out"
        ]


SYSTICK = """\
#include <stdint.h>
#define R(a) (*(volatile uint32_t *)(a))
volatile uint32_t ticks;
void SysTick_Handler(void) { ticks++; }
void spins_setup(void) { R(0xE000E014) = 1999; R(0xE000E018) = 0; R(0xE000E010) = 7; }
int spins_check(void) { R(0xE000E010) = 0; return 0; }
void spins(uint32_t n) {
    for (uint32_t i = 0; i < n; i++) __asm__ volatile("");
}
"""


def test_an_interrupt_that_is_on_from_set_up_to_check_is_told(tmp_path: Path) -> None:
    source = tmp_path / "systick.c"
    source.write_text(SYSTICK)
    with build(available("qemu-cortex-m4"), [source]).open() as board:
        found = board.measure("spins", 5000, repeat=3, warmup=0).findings
    assert [each.text for each in found if each.kind == "interrupts"] == [
        "spins was measured while 1 interrupt source of the firmware was enabled: the time of "
        "interrupts that came is in its numbers, and their stack in its stack. "
        "--mask-interrupts leaves their time out"
    ]


SET_UP_RESCALES = """\
#include <stdint.h>
void spins_setup(void) { *(volatile uint32_t *)0xE000E010 = 3; }
int spins_check(void) { *(volatile uint32_t *)0xE000E010 = 7; return 0; }
void spins(unsigned n) { for (unsigned i = 0; i < n; i++) __asm__ volatile(""); }
"""


def test_a_set_up_that_rescales_the_counter_makes_a_number_doubtful(tmp_path: Path) -> None:
    source = tmp_path / "spins.c"
    source.write_text(SET_UP_RESCALES)
    with build(available("netduinoplus2"), [source]).open() as board:
        (found,) = board.measure("spins", 1000, repeat=1, warmup=0).findings
    assert (found.kind, found.spoils) == ("masked", True)
    assert found.text.startswith("spins sets a timer or its interrupt. ")


COUNTER_STOPS = """#include <stdint.h>
void stops(void) {
    *(volatile uint32_t *)0xE000E010 = 4;
    __asm__ volatile(".rept 80\\n nop\\n .endr");
    *(volatile uint32_t *)0xE000E010 = 5;
}
"""


def test_a_counter_of_cycles_that_stood_still_for_a_microsecond_is_doubtful(tmp_path: Path) -> None:
    source = tmp_path / "stops.c"
    source.write_text(COUNTER_STOPS)
    with build(available("rpi-pico"), [source]).open() as board:
        (found,) = board.measure("stops", repeat=1, warmup=0).findings
    assert (found.kind, found.spoils) == ("masked", True)


GROWS = """#include <stdlib.h>
static char *all;
static int used, room;
int push(int x) {
    if (used == room) {
        room = room ? room * 2 : 1;
        all = realloc(all, room);
    }
    all[used++] = (char)x;
    return 0;
}
"""


def test_memory_that_some_calls_keep_is_not_told_as_of_each_call(tmp_path: Path) -> None:
    source = tmp_path / "grows.c"
    source.write_text(GROWS)
    with build(available("qemu-rv32"), [source]).open() as board:
        (found,) = board.measure("push", 1, repeat=60, warmup=10).findings
    assert found.kind == "heap-grown"
    assert re.match(r"push keeps memory of the heap in [2-6] of 60 samples: \d+ bytes", found.text)


SET_UP_MASKS = """\
void spins_setup(void) { __asm__ volatile("cpsid i"); }
int spins_check(void) { __asm__ volatile("cpsie i"); return 0; }
void spins(unsigned n) { for (unsigned i = 0; i < n; i++) __asm__ volatile(""); }
"""


def test_a_set_up_that_leaves_interrupts_masked_makes_a_number_doubtful(tmp_path: Path) -> None:
    source = tmp_path / "spins.c"
    source.write_text(SET_UP_MASKS)
    with build(available("netduinoplus2"), [source]).open() as board:
        found = board.measure("spins", 1000, repeat=1, warmup=0).findings
    assert [(each.kind, each.spoils) for each in found] == [("masked", True)]


@pytest.mark.parametrize("forgets", [False, True])
def test_a_watchdog_is_kicked_between_rounds_and_while_the_board_waits(
    forgets: bool, tmp_path: Path
) -> None:
    changes = {"guard = 1, ": "", "interrupts = 1": "interrupts = 1"}
    if forgets:
        changes["cflags = ["] = 'cflags = ["-DFORGETS", '
    spec = ticking("qemu-cortex-m3", tmp_path / "dog", "watchdog_port.c", changes)
    source = tmp_path / "spin.c"
    source.write_text(SPIN)
    # On a loaded machine each frame may meet a reset.
    with (
        pytest.raises((DeviceResetError, LinkError)) if forgets else nullcontext(),
        build(spec, [source]).open() as board,
    ):
        board.profile("spin", 65_000, repeat=40)  # of 130,000 instructions of 256 ns: 33 ms


def test_a_function_that_masks_interrupts_is_named_where_the_clock_would_miss_wraps(
    tmp_path: Path,
) -> None:
    source = tmp_path / "critical.c"
    source.write_text(
        '#include <stdint.h>\nstatic void mask(void) { __asm__ volatile("cli"); }\n'
        "uint8_t critical(void) { volatile uint8_t a[40]; mask();\n"
        'for (uint8_t i = 0; i < 40; i++) a[i] = i; __asm__ volatile("sei"); return a[1]; }\n'
        "uint8_t plain(void) { volatile uint8_t a[40]; a[1] = 1; return a[1]; }\n"
    )
    with build(available("arduino-uno"), [source]).open() as board:
        assert board.measure("plain", repeat=1, warmup=0).findings == ()
        (found,) = board.measure("critical", repeat=1, warmup=0).findings
    assert found.text == (
        "critical masks interrupts. If it stops the clock of arduino-uno or its interrupt for more "
        "than 1,638 us, wraps are missed, and the numbers are too small"
    )
    assert found.spoils
