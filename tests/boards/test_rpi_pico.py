# SPDX-License-Identifier: Apache-2.0
"""The Pico in rp2040js, and what the board's folder adds to that.

Cycles are held against ARM's manual, instructions against the source and against QEMU, flags
against the sums themselves.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from boardprof.base.errors import DeviceEndedError, DeviceFaultError, DeviceTimeoutError
from boardprof.measure.board.board import Board
from boardprof.measure.connect import connect, guard_calls
from boardprof.target.build.build_options import BuildOptions
from boardprof.target.descriptions.board import board_spec
from tests.boards.conftest import WORKLOADS, available, hang_limit_s
from tests.boards.witness import counts_of
from tests.firmware import build
from tests.tools.insn_count import symbol_range

FIXTURES = Path(__file__).parent / "fixtures" / "pico"

BX = 2

COSTS = {
    "nops": (100 * 1 + BX, 101),
    "products": (100 * 1 + BX, 101),
    "loads": (1 + 100 * 2 + BX, 102),
    "literals": (10 * 2 + BX, 11),
    "stores": (3 + 100 * 2 + 1 + BX, 105),
    "pushes": (10 * (1 + 5 + 1) + BX, 21),
    "pops": (10 * (1 + 1 + 4) + BX, 21),
    "returns": (1 + 3 + 3 + 3, 2),
    "load_many": (1 + 10 * (1 + 1 + 2) + BX, 22),
    "store_many": (2 + 10 * (1 + 1 + 3) + 1 + BX, 24),
    "jumps": (10 * 2 + BX, 11),
    "taken": (1 + 10 * 2 + BX, 12),
    "not_taken": (1 + 10 * 1 + BX, 12),
    "calls": (1 + 10 * (3 + BX) + BX, 22),
    "calls_by_register": (1 + 1 + 1 + 10 * (2 + BX) + BX, 24),
    "calls_by_lr": (4 + 2 + BX + BX, 7),
    "moves_to_pc": (10 * (1 + 2) + BX, 21),
    "special": (10 * (3 + 3) + BX, 21),
    "barriers": (10 * (3 + 3 + 3) + BX, 31),
    "masks": (10 * (1 + 1) + BX, 21),
    "single_cycle_io": (2 + 10 * 1 + BX, 12),
}
"""Cycles by table 3-1 of the Cortex-M0+ TRM (DDI 0484C), and instructions, of each function."""


def test_cycles_are_those_of_arms_table_and_instructions_those_of_the_source() -> None:
    found = {}
    with build(available("rpi-pico"), [FIXTURES / "cycles.c"]).open() as board:
        for function in COSTS:
            report = board.profile(function, warmup=0, repeat=2)
            (cycles,) = set(counts_of(report, "cycles"))
            (instructions,) = set(counts_of(report, "instructions"))
            found[function] = (cycles, instructions)
    assert found == COSTS


def test_it_executes_what_qemu_executes_of_the_same_code() -> None:
    """The Cortex-M0 of a micro:bit has the same instructions, and room for these three."""
    pico, microbit = available("rpi-pico"), available("microbit")
    names = ["fir_q15", "matmul_f32", "sha256"]
    flags = tuple(f.replace("cortex-m0plus", "cortex-m0") for f in pico.build.cflags)
    pico = dataclasses.replace(pico, build=dataclasses.replace(pico.build, cflags=flags))
    counted = {}
    for spec in (pico, microbit):
        sources = [WORKLOADS / f"{name}.c" for name in names]
        firmware = build(spec, sources, BuildOptions("-Os"))
        with connect(spec, image=firmware.image) as board:
            counted[spec.name] = {
                name: counts_of(board.profile(name, warmup=1, repeat=1), "instructions")
                for name in names
            }
    assert counted["rpi-pico"] == counted["microbit"]


def test_a_profile_has_the_cycles_that_the_board_counts() -> None:
    """They are the emulator's, or computed from the counts of instructions by another table."""
    with build(available("rpi-pico"), [WORKLOADS]).open() as board:
        for name in ("quicksort", "matmul_f32"):
            report = board.profile(name, warmup=1, repeat=1)
            profile = board.hotspots(name)
            assert profile.is_complete
            recorded = dict(zip(profile.columns, profile.total, strict=True))
            assert [recorded["instructions"]] == counts_of(report, "instructions")
            assert [recorded.get("cycles", recorded.get("core-cycles"))] == counts_of(
                report, "cycles"
            )


# -- flags ----------------------------------------------------------------------------------------

VALUES = [0, 1, 2, 31, 32, 33, 0xFF, 0x100, 0x7FFFFFFE, 0x7FFFFFFF]
VALUES += [0x80000000, 0x80000001, 0xFFFFFFFE, 0xFFFFFFFF]
WORD = 1 << 32


def signed(value: int) -> int:
    return value - WORD if value >> 31 else value


def of_sum(a: int, b: int, carry: int) -> int:
    """Return the flags of a sum of three (DDI 0419, A2.2.1, AddWithCarry)."""
    total = a + b + carry
    result = total % WORD
    overflows = signed(result) != signed(a) + signed(b) + carry
    return (result >> 31) << 3 | (result == 0) << 2 | (total >= WORD) << 1 | overflows


def of_shift(name: str, a: int, b: int, carry: int) -> int:
    """Return the flags of a shift (A2.2.1, Shift_C); V stays 0."""
    amount = b & 0xFF
    if name == "shifts_left":
        wide = a << amount
        result, out = wide % WORD, wide >> 32 & 1
    elif name == "rotates":
        by = amount % 32
        result = (a >> by | a << (32 - by)) % WORD
        out = result >> 31
    else:
        source = signed(a) if name == "shifts_sign" else a
        result, out = (source >> amount) % WORD, source >> (amount - 1) & 1 if amount else 0
    if amount == 0:
        out = carry
    return (result >> 31) << 3 | (result == 0) << 2 | out << 1


def test_flags_are_those_of_the_architecture() -> None:
    values = np.array(VALUES, np.uint32)
    with build(available("rpi-pico"), [FIXTURES / "flags.c"]).open() as board:
        for name in ("adds_carry", "subtracts_borrow"):
            out = np.zeros(2 * len(VALUES) ** 2, np.uint8)
            board.functions[name](values, len(values), out)
            assert list(out) == [
                of_sum(a, b if name == "adds_carry" else b ^ (WORD - 1), carry)
                for a in VALUES
                for b in VALUES
                for carry in (0, 1)
            ]
        for name in ("shifts_left", "shifts_right", "shifts_sign", "rotates"):
            out = np.zeros(2 * len(VALUES) ** 2, np.uint8)
            board.functions[name](values, len(values), out)
            assert list(out) == [
                of_shift(name, a, b, carry) for a in VALUES for b in VALUES for carry in (0, 1)
            ]


# -- faults and sleep -----------------------------------------------------------------------------

CAUSES = {
    "jumps_to_even": "bad-address",
    "executes_data": "bad-address",
    "asks_masked": "unknown",
    "loads_beyond": "bad-address",
    "writes_flash": "bad-address",
}


@pytest.fixture
def core() -> Iterator[Board]:
    with build(available("rpi-pico"), [FIXTURES / "core.c"]).open() as board:
        guard_calls(board.session, board.dictionary, board.spec, hang_limit_s(board.spec))
        yield board


def test_the_core_refuses_what_an_rp2040_refuses(core: Board) -> None:
    assert core.functions.stores_base() == 2
    for function, cause in CAUSES.items():
        with pytest.raises(DeviceFaultError) as caught:
            core.functions[function]()
        assert caught.value.cause == cause, function
        assert core.functions.stores_base() == 2


def test_a_core_that_sleeps_is_woken_by_its_timers(core: Board) -> None:
    assert core.functions.sleeps_for_systick() == 1
    with pytest.raises(DeviceTimeoutError, match="sleeps"):
        core.functions.sleeps()
    assert core.functions.stores_base() == 2


def test_a_function_that_resets_the_chip_ends_the_emulator_with_the_reason(core: Board) -> None:
    with pytest.raises(DeviceEndedError, match="the program has reset it"):
        core.functions.resets()
    assert "good bye" in core.console


def test_one_image_serves_the_emulator_and_the_board() -> None:
    at_port = board_spec("rpi-pico").at_port()
    assert at_port.launch.kind == "serial"
    assert (at_port.clock.kind, at_port.clock.emulated) == ("declared", False)
    assert at_port.unsupported == {"instructions": "an RP2040 has no counter of instructions"}
    image = build(available("rpi-pico")).image
    start, end = symbol_range(image, "bp_emulated_instructions_init")
    assert start < end
