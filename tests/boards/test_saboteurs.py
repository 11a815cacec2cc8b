# SPDX-License-Identifier: Apache-2.0
"""Functions that disturb what measures them, on every board: each has the right number or none, and
the function after it is measured as if nothing had happened.

A disturbance is a value in a register. The same code with a value that disturbs nothing, such as
the address of a variable, tells the right number.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from boardprof.base.errors import DeviceCounterError, DeviceFaultError
from boardprof.measure.board.board import Board
from boardprof.results.report.measurement import Measurement
from boardprof.target.descriptions.board import BoardSpec
from tests.firmware import build

SABOTEURS = Path(__file__).parent / "fixtures" / "saboteurs"
ONE_THIRD = 0x3EAAAAAB  # in single precision, rounded to nearest
TURNS = 500

SYSTICK_CSR, SYSTICK_RVR, SYSTICK_CVR, DWT_CTRL = 0xE000E010, 0xE000E014, 0xE000E018, 0xE0001000
FPGAIO_CLK100HZ, FPGAIO_COUNTER, FPGAIO_PRESCALE, FPGAIO_PSCNTR = 0x14, 0x18, 0x1C, 0x20
TIMER0_STOP, TIMER0_CLEAR, TIMER0_BITMODE = 0x40008004, 0x4000800C, 0x40008508  # nRF51, 19
TIMER0_CC1 = 0x40008544  # where the time limit of a call is
TCCR1A, TCCR1B, TIMSK1 = 0x80, 0x81, 0x6F

WITH_SYSTICK = ("netduinoplus2", "rpi-pico", "stm32vldiscovery")
"""Boards that count with SysTick."""

WITH_CACHES = ("vexriscv-rtl",)
"""Boards whose cycles depend on what ran before."""

WITHOUT_INHIBIT = ("hifive1", "vexriscv-rtl")
"""Boards without mcountinhibit, the register that stops a counter: a write traps."""

FPGAIO = {
    **dict.fromkeys(("qemu-cortex-m3", "qemu-cortex-m4", "qemu-cortex-m7"), 0x40028000),
    "qemu-cortex-m33": 0x50302000,
    "qemu-cortex-m55": 0x59302000,
}
"""The counters of QEMU's MPS2 and MPS3 boards, by their application notes."""

Call = tuple[str, tuple[int, ...]]


def disturbances(spec: BoardSpec, spare: int) -> Iterator[tuple[Call, Call | None]]:
    """Yield calls that disturb, each with one that counts the same; None: it has no number."""
    arch = spec.build.arch
    if arch == "cortex_m":
        for address, value in ((SYSTICK_CSR, 0), (SYSTICK_RVR, 999), (SYSTICK_CVR, 0)):
            twin = None if spec.name in WITH_SYSTICK else ("pokes", (spare, value, TURNS))
            yield ("pokes", (address, value, TURNS)), twin
        yield ("pokes", (DWT_CTRL, 0, TURNS)), ("pokes", (spare, 0, TURNS))
        if spec.name == "microbit":
            for address, value in (
                (TIMER0_STOP, 1),
                (TIMER0_CLEAR, 1),
                (TIMER0_BITMODE, 0),
                (TIMER0_CC1, 5),
            ):
                yield ("pokes", (address, value, TURNS)), None
        if base := FPGAIO.get(spec.name):
            for register, value in (
                (FPGAIO_COUNTER, 0), (FPGAIO_COUNTER, 0x40000000), (FPGAIO_PRESCALE, 7),
                (FPGAIO_PSCNTR, 1000), (FPGAIO_CLK100HZ, 100_000),
            ):  # fmt: skip
                yield ("pokes", (base + register, value, TURNS)), None
    elif arch == "riscv":
        for name, value in (("writes_inhibit", 5), ("writes_minstret", 0), ("writes_mcycle", 0)):
            yield (name, (value, TURNS)), None
        yield ("writes_mie", (0, TURNS)), ("writes_scratch", (0, TURNS))
    elif arch == "aarch64":
        yield ("writes_control", (0, TURNS)), None
        yield ("writes_off", (1, TURNS)), None
        yield ("writes_event", (0x11, TURNS)), None
        yield ("writes_count", (0, TURNS)), None
    elif arch == "avr":
        for register, value in ((TCCR1B, 0), (TCCR1B, 2), (TCCR1A, 3), (TIMSK1, 0)):
            yield ("pokes_byte", (register, value, TURNS)), None
        yield ("pokes_byte", (spare, 0, TURNS)), ("pokes_byte", (spare, 7, TURNS))


LEAVES = {
    "cortex_m": ("leaves_primask", "leaves_faultmask", "leaves_rounding"),
    "aarch64": ("leaves_rounding",),
    "avr": ("leaves_interrupts_off",),
    "posix": (
        "leaves_rounding", "leaves_errno", "changes_handler", "blocks_signals", "sets_alarm",
    ),
}  # fmt: skip
"""Functions that leave a state behind: they are measured, and nobody else notices."""


def measured(board: Board, name: str, *arguments: int) -> Measurement:
    return board.measure(name, *arguments, repeat=2, warmup=1)


def assert_same(spec: BoardSpec, found: Measurement, right: Measurement) -> None:
    """Check counts; a clock has two readings of whole ticks each, and time is not repeatable."""
    if not spec.runs_here:
        name = "instructions" if spec.name in WITH_CACHES else found.reference
        apart = 0 if name in ("instructions", "cycles") else 2
        assert max(found.nets[name]) - min(right.nets[name]) <= apart
        assert max(right.nets[name]) - min(found.nets[name]) <= apart


@pytest.mark.slow
def test_a_function_that_disturbs_a_measurement_has_the_right_number_or_none(
    spec: BoardSpec,
) -> None:
    sources = [SABOTEURS / "common.c", SABOTEURS / f"{spec.build.arch}.c"]
    with build(spec, sources).open(timeout_s=5.0) as board:
        first = measured(board, "witness")
        spare = int(board.functions.spare_at()) if spec.build.arch != "posix" else 0

        def nobody_noticed() -> None:
            after = measured(board, "witness")
            assert after.result == ONE_THIRD
            assert_same(spec, after, first)

        assert first.result == ONE_THIRD
        for (name, arguments), twin in disturbances(spec, spare):
            if twin is None:
                traps = name == "writes_inhibit" and spec.name in WITHOUT_INHIBIT
                error = DeviceFaultError if traps else DeviceCounterError
                with pytest.raises(error, match=f"^{name} "):
                    measured(board, name, *arguments)
            else:
                right = measured(board, twin[0], *twin[1])
                assert_same(spec, measured(board, name, *arguments), right)
            nobody_noticed()
        if spec.build.arch == "riscv":
            (finding,) = measured(board, "restores_minstret", TURNS).findings
            assert (finding.kind, finding.spoils) == ("counter", True)
            nobody_noticed()
        for name in (*LEAVES.get(spec.build.arch, ()), "prints"):
            assert measured(board, name).result == 1
            nobody_noticed()


@pytest.mark.slow
def test_a_function_that_uses_up_the_heap_is_told(spec: BoardSpec) -> None:
    sources = [SABOTEURS / "common.c", SABOTEURS / f"{spec.build.arch}.c"]
    with build(spec, sources).open(timeout_s=5.0) as board:
        first = measured(board, "witness")
        assert first.findings == ()
        size = spec.build.libc_heap // 8 or 40
        kept = board.measure(
            "leaks", size, repeat=20 if spec.build.arch == "posix" else 3, warmup=0
        )
        if spec.launch.kind == "library":  # its heap is the host's
            assert kept.findings == ()
            return
        assert [each.kind for each in kept.findings] == ["heap-kept"]
        if spec.build.libc_heap:  # of a fixed size
            refused = board.measure("leaks", size, repeat=3, warmup=3)
            assert (refused.findings[0].kind, refused.findings[0].spoils) == ("heap-refused", True)
        (finding,) = measured(board, "asks_for_all").findings
        if spec.build.arch == "avr":  # avr-libc's malloc cannot be asked
            assert (finding.kind, finding.spoils) == ("memory", False)
            assert finding.text.startswith("asks_for_all asks for memory. ")
        else:
            assert (finding.kind, finding.spoils) == ("heap-refused", True)
            assert finding.text.startswith("asks_for_all got no memory in 2 of 2 samples")
        assert_same(spec, measured(board, "witness"), first)
