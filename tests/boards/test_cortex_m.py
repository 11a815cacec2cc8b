# SPDX-License-Identifier: Apache-2.0
"""What is promised of the Cortex-M boards: ticks that are true, faults caught on each core.

The emulator's own count of instructions is the witness, as in witness.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import msgpack
import pytest

from boardprof.base.errors import DeviceFaultError, DeviceTimeoutError, UsageError
from boardprof.measure.board.board import Board
from boardprof.measure.connect import Firmware, connect
from boardprof.target.descriptions.board import board_spec, find_boards
from boardprof.target.elf.addresses import locate
from boardprof_protocol.codes import CounterStatus
from tests.boards.conftest import NAMES, SMALL, WORKLOADS, available, spec_of
from tests.boards.test_guards_bare import FAULTS, marked
from tests.boards.witness import Witness, counts_of, witness
from tests.firmware import build

CORTEX_M = [
    n
    for n in NAMES
    if spec_of(n).build.arch == "cortex_m" and spec_of(n).launch.command[0] == "qemu-system-arm"
]
WITH_NMI = ["qemu-cortex-m4", "qemu-cortex-m7", "qemu-cortex-m33", "qemu-cortex-m55"]
"""Boards whose time-out comes by NMI, beside qemu-cortex-m3, which test_guards_bare.py is of."""

WITHOUT_CYCLES = {"microbit"}
"""Its core has no DWT CYCCNT, and its board offers none."""

FUNCTIONS = ["checksum", "dot", "mix", "sort"]


@pytest.fixture(scope="module", params=CORTEX_M)
def counted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Witness]:
    """Each emulated Cortex-M with the functions of fixtures/small, and QEMU counting for itself."""
    folder = tmp_path_factory.mktemp(request.param)
    found = witness(available(request.param), folder, SMALL)
    with found.board:
        yield found


# -- instructions by the clock ----------------------------------------------------------------

TICKS_AN_INSTRUCTION = {  # 2^shift ns at the clock's rate
    "microbit": 4.096,
    "netduinoplus2": 10.752,
    "qemu-cortex-m3": 6.4,
    "qemu-cortex-m33": 5.12,
    "qemu-cortex-m4": 6.4,
    "qemu-cortex-m55": 5.12,
    "qemu-cortex-m7": 6.4,
    "stm32vldiscovery": 6.144,
}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_net_instructions_are_those_that_the_emulator_executed_on_every_cortex_m(
    counted: Witness, function: str
) -> None:
    report = counted.board.profile(function, warmup=1, repeat=5)
    assert counts_of(report, "instructions") == counted.measured(function, 5)
    masked = counted.board.profile(function, warmup=1, repeat=2, mask_interrupts=True)
    assert counts_of(masked, "instructions") == counted.measured(function, 2)


def test_the_report_says_how_instructions_are_counted(counted: Witness) -> None:
    name = counted.board.spec.name
    report = counted.board.profile("dot", warmup=0, repeat=1)
    each = TICKS_AN_INSTRUCTION[name]
    found = report.configuration[f"{name} instructions"]
    assert found == f"from the emulator's virtual time, {each:g} ticks each"


def test_a_real_board_of_the_same_folder_has_no_instructions_by_its_clock() -> None:
    assert [n for n in CORTEX_M if spec_of(n).port] == [
        *("microbit", "netduinoplus2", "stm32vldiscovery"),
    ]
    assert all(
        spec_of(name).at_port().instruction_ns == 0 for name in CORTEX_M if spec_of(name).port
    )


LONG = """\
#include <stdint.h>
uint32_t spin(uint32_t turns);
uint32_t spin(uint32_t turns) {
    uint32_t x = 1;
    while (turns--) { __asm__ volatile("mov %0, %0\\n" : "+r"(x)); }
    return x;
}
"""


@pytest.mark.parametrize(
    ("name", "turns"), [("netduinoplus2", 1_200_000), ("stm32vldiscovery", 4_000_000)]
)
def test_wraps_of_systick_are_counted_and_what_counting_them_took_is_left_out(
    name: str, turns: int, tmp_path: Path
) -> None:
    """It wraps after 1.5 million instructions at 168 MHz, after 2.7 million at 24 MHz."""
    (tmp_path / "long.c").write_text(LONG)
    found = witness(available(name), tmp_path, tmp_path / "long.c")
    with found.board:
        found.board.profile("spin", 1000, warmup=0, repeat=1)
        (short,) = found.measured("spin", 1)
        found.board.profile("spin", 2000, warmup=0, repeat=1)
        (longer,) = found.measured("spin", 1)
        report = found.board.profile("spin", turns, warmup=0, repeat=2)
    a_turn, rest = divmod(longer - short, 1000)
    assert rest == 0
    assert min(counts_of(report, "ticks")) > 2**24
    assert counts_of(report, "instructions") == [short + (turns - 1000) * a_turn] * 2


# -- counters that stand still ----------------------------------------------------------------


def test_a_cycle_counter_that_stands_still_is_unsupported_and_never_0(counted: Witness) -> None:
    board = counted.board
    report = board.profile("dot", warmup=0, repeat=2)
    if board.spec.name in WITHOUT_CYCLES:
        assert "cycles" not in board.device.unsupported
    else:
        assert board.device.unsupported["cycles"] == "DWT CYCCNT does not advance"
    assert all("cycles" not in row for row in report.calls)
    assert "cycles" not in report.device_metrics[board.spec.name]


def test_a_pmu_that_stands_still_refuses_every_event_and_is_never_0() -> None:
    """QEMU's Cortex-M55 has the registers of ARMv8.1-M's PMU on paper alone."""
    spec = available("qemu-cortex-m55")
    with connect(spec, image=build(spec, [SMALL]).image) as board:
        with pytest.raises(UsageError, match=r"does not count stall: .*does not advance"):
            board.profile("dot", metrics=["stall"])
        select = board.dictionary.function("armv8m_pmu.select")
        answer = board.session.value(select.id, msgpack.packb(0x11), 1, select.name)
        assert answer == [[CounterStatus.STUCK, 0]]
        report = board.profile("dot", warmup=0, repeat=2)
        assert all(f"slot{slot}" not in row for row in report.calls for slot in range(4))


# -- guards -----------------------------------------------------------------------------------

CAUSES = {
    "writes_null": "bad-address",
    "reads_nothing": "bad-address",
    "calls_null": "bad-address",
    "calls_data": "bad-address",
    "is_illegal": "illegal-instruction",
    "hangs": "time-out",
    "overflows": "stack-overflow",
    "reads_below_the_stack": "bad-address",
    "breaks": "breakpoint",
    "asks_a_system": "unknown",
    "divides": "divide",
    "writes_code": "bad-address",
    "is_illegal_and_masked": "illegal-instruction",
    "loads_two_misaligned": "misaligned",
    "hangs_masked": "time-out",
    "hangs_masked_harder": "time-out",
    "loses_its_stack": "stack-overflow",
}
"""The functions of fixtures/bare_faults.c, and the cause of what ends each."""

LIMIT_MS = 400


@pytest.fixture(scope="module")
def firmware() -> Callable[[str], Firmware]:
    return cache(lambda name: build(available(name), [FAULTS]))


@pytest.fixture(scope="module")
def board(request: pytest.FixtureRequest, firmware: Callable[[str], Firmware]) -> Iterator[Board]:
    with connect(board_spec(request.param), image=firmware(request.param).image) as connected:
        connected.session.line.locate = None
        guard = connected.dictionary.function("bp.guard")
        connected.session.call(guard.id, msgpack.packb(LIMIT_MS), 1)
        yield connected


@pytest.mark.parametrize("function", CAUSES)
@pytest.mark.parametrize("board", WITH_NMI, indirect=True)
def test_each_core_tells_what_ended_a_call_and_where(
    board: Board, function: str, firmware: Callable[[str], Firmware]
) -> None:
    with pytest.raises((DeviceFaultError, DeviceTimeoutError)) as caught:
        board.functions[function]()
    error = caught.value
    assert isinstance(error, DeviceFaultError | DeviceTimeoutError)
    assert error.cause == CAUSES[function]
    assert board.functions.deep(10) == 11
    if function == "loses_its_stack":
        return  # nothing tells any more where it was
    assert error.pc is not None
    found = locate(firmware(board.spec.name).image, error.pc)
    assert found is not None
    assert found.line in marked(function)


FLOATS = """\
static volatile float left = 1.5f, right = 2.25f;
static volatile int *volatile nowhere;
float product(void) { return left * right; }
float product_and_trap(void) { float p = left * right; *nowhere = 1; return p; }
"""


@pytest.mark.parametrize("name", ["netduinoplus2", *WITH_NMI])
def test_floating_point_goes_on_after_a_fault_amid_it(name: str, tmp_path: Path) -> None:
    """The core had registers to store for the exception that it never came back to."""
    (tmp_path / "floats.c").write_text(FLOATS)
    with connect(available(name), image=build(available(name), [tmp_path]).image) as board:
        for _ in range(3):
            with pytest.raises(DeviceFaultError):
                board.functions.product_and_trap()
            assert board.functions.product() == 3.375


# -- boards that no emulator models ---------------------------------------------------------------

BUILT = sorted(
    name
    for name in find_boards()
    if spec_of(name).build.arch == "cortex_m" and spec_of(name).launch.kind == "serial"
)


def test_the_boards_without_a_model_are_these() -> None:
    assert BUILT == ["nrf52840dk", "nucleo-f446re", "nucleo-h743zi"]


@pytest.mark.parametrize("name", BUILT)
def test_a_board_without_a_model_says_that_it_was_not_run_and_is_built(name: str) -> None:
    spec = available(name)
    assert spec.status == "built"
    assert spec.flash is not None
    assert len(build(spec, [WORKLOADS]).functions) == 10


def test_the_nucleo_f446re_runs_on_the_model_of_its_elder_brother() -> None:
    """What it uses of the STM32F446 is at the same place in the F405; its USART2 is the second."""
    elder, spec = available("netduinoplus2"), board_spec("nucleo-f446re")
    command = list(elder.launch.command)
    at = command.index("-serial")
    command[at:at] = ["-serial", "null"]
    launch = dataclasses.replace(elder.launch, command=tuple(command))
    modelled = dataclasses.replace(spec, launch=launch, clock=elder.clock)
    with connect(modelled, image=build(spec, [SMALL]).image) as board:
        assert len(board.profile("sort", repeat=3).calls) == 3
        # QEMU has no DWT: the cycle counter stands still, and no bit of the others can be set.
        assert board.device.unsupported["cycles"] == "DWT CYCCNT does not advance"
        assert {"cpi", "exc", "sleep", "lsu", "fold"} < set(board.device.unsupported)


# -- what is told of a board ------------------------------------------------------------------


def test_every_folder_of_a_cortex_m_is_small() -> None:
    """At most four files and 120 lines, as for each new board of a known family."""
    for name in find_boards():
        spec = board_spec(name)
        if spec.build.arch == "cortex_m":
            own = ("port.c", "link.ld", "board.toml", "README.md")  # others are an emulator's
            files = [path for path in spec.folder.iterdir() if path.name in own]
            assert sum(len(path.read_text().splitlines()) for path in files) <= 120, name
