# SPDX-License-Identifier: Apache-2.0
"""Which counts give an emulator away that nobody has named. Every number is written by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from boardprof.base.metrics import Count
from boardprof.results.record import Device
from boardprof.results.report.assemble import assemble
from boardprof.results.report.measurement import Cold, Measurement, PassResult
from boardprof.wire.decode.clock import ClockFit
from boardprof.wire.decode.samples import Reading, Sample

DEVICE = Device("m4", "declared", False, "socket://lab:7101", "0.1.0", "00" * 8, 1, {})
Pair = tuple[int, int]
"""Cycles and instructions of a window."""


def sample(pair: Pair) -> Sample:
    cycles, instructions = pair
    counts = {"cycles": cycles, "instructions": instructions}
    readings = {name: Reading(value, "count") for name, value in counts.items()}
    return Sample({**readings, "ticks": Reading(9, "ticks", 1_000_000)}, b"")


def measurement(
    *pairs: Pair,
    device: Device = DEVICE,
    empty: tuple[Pair, ...] = ((46, 40), (46, 40)),
    total: Pair = (90_000, 80_001),
) -> Measurement:
    samples = tuple(map(sample, pairs))
    windows = PassResult(samples, tuple(map(sample, empty)), (sample(total),))
    return Measurement("fir", device, 1, 0, (windows,))


EMULATED = ((1046, 1040), (5006, 5000))
"""Cycles are six more than instructions everywhere, as in the empty function's windows."""


def test_cycles_that_are_instructions_and_a_constant_are_an_emulators() -> None:
    report = assemble([measurement(*EMULATED)])
    assert {"cycles", "Duration (us)"}.isdisjoint(report.calls[0])
    assert report.calls[0]["instructions"] == Count(1000)
    assert report.configuration["m4 clock"] == (
        "simulated, 1,000,000 ticks a second of the emulator's own time; there is no Duration: "
        "each instruction takes one cycle, as on an emulator; if the core is real, use --clock "
        "measured"
    )
    assert report.configuration["m4 unsupported"] == (
        "cycles (each instruction takes one cycle, as on an emulator)"
    )
    assert report.device_metrics["m4"].keys() == {"instructions", "ticks"}


def test_an_emulators_instruction_may_take_a_power_of_two() -> None:
    report = assemble([measurement((8326, 1040), (40006, 5000), empty=((326, 40),) * 2)])
    assert "each instruction takes 8 cycles" in str(report.configuration["m4 clock"])


@pytest.mark.parametrize(
    ("pairs", "why"),
    [
        (((1047, 1040), (5006, 5000)), "one cycle more in one of the windows"),
        (((5007, 5000), (5007, 5000)), "one cycle more than in the empty function"),
        (((3046, 1040), (3046, 1040)), "three cycles each, as an unpipelined core's"),
        (((1045, 1039), (1045, 1039)), "999 instructions, too few to tell"),
        (((40, 1040), (40, 1040)), "no cycles at all"),
    ],
)
def test_one_window_that_says_otherwise_is_a_real_cores(pairs: tuple[Pair, ...], why: str) -> None:
    report = assemble([measurement(*pairs)])
    assert {"cycles", "Duration (us)"} <= {*report.calls[0]}, why


def test_all_functions_of_a_board_must_agree_and_what_is_too_short_does_not_hinder() -> None:
    short, stalls = measurement((56, 50)), measurement((58, 50))
    report = assemble([short, measurement(*EMULATED)])
    assert all("Duration (us)" not in row for row in report.calls)
    report = assemble([stalls, measurement(*EMULATED)])
    assert all("Duration (us)" in row for row in report.calls)


@pytest.mark.parametrize(
    "known",
    [
        replace(DEVICE, clock_given=True),  # --clock measured
        replace(DEVICE, emulated=True),  # cycle by cycle, as its board.toml says
    ],
)
def test_nothing_is_found_out_where_the_clock_is_known(known: Device) -> None:
    report = assemble([measurement(*EMULATED, device=known)])
    assert {"cycles", "Duration (us)"} <= {*report.calls[0]}


def test_the_first_call_and_the_fit_of_the_clock_are_the_emulators_too() -> None:
    found = replace(
        measurement(*EMULATED),
        cold=Cold(sample((9006, 9000)), {"cycles": 46, "instructions": 40}),
        clock_fit=ClockFit(1_000_000, 1e-6, 0, 0.0, 1e-6, 1.0, 4.0, 16),
    )
    report = assemble([found])
    assert "m4 clock by the host's" not in report.configuration
    assert report.extra is not None
    [stored] = report.extra["measurements"]
    assert stored["cold"]["metrics"] == {"instructions": {"count": 8960}}


HOST_TIME = ((6448, 4628), (4810, 3978), (4420, 3718), (4264, 3666), (4316, 3744), (4264, 3692))
"""One function in six windows on QEMU 7.2 without ``-icount``, read on a PC."""
HOST_TIME_EMPTY = ((48334, 44694), (3718, 2730), (2626, 1820), (2470, 1820), (2314, 1742))


def test_counts_that_follow_the_hosts_time_are_an_emulators() -> None:
    found = measurement(*HOST_TIME, empty=HOST_TIME_EMPTY, total=(695_890, 693_446))
    report = assemble([found])
    assert {"cycles", "instructions", "Duration (us)"}.isdisjoint(report.calls[0])
    why = "cycles and instructions follow the host's time, as with QEMU without -icount"
    assert why in str(report.configuration["m4 clock"])
    assert report.configuration["m4 unsupported"] == f"cycles ({why}); instructions ({why})"


@pytest.mark.parametrize(
    ("empty", "total", "why"),
    [
        (HOST_TIME_EMPTY, (695_890, 680_000), "2 % fewer instructions than cycles"),
        (((46, 40),) * 3 + ((60, 54),), (695_890, 693_446), "one window with an interrupt"),
    ],
)
def test_a_real_cores_counts_do_not_follow_the_time(
    empty: tuple[Pair, ...], total: Pair, why: str
) -> None:
    report = assemble([measurement(*HOST_TIME, empty=empty, total=total)])
    assert {"cycles", "instructions", "Duration (us)"} <= {*report.calls[0]}, why


def test_counts_that_are_all_multiples_of_eight_are_no_instructions() -> None:
    eightfold = ((8320, 8320), (40_040, 40_040))
    many = measurement(*eightfold, empty=((320, 320),) * 2, total=(99_000, 88_008))
    report = assemble([many])
    assert {"cycles", "instructions"}.isdisjoint(report.calls[0])
    assert str(report.configuration["m4 unsupported"]).endswith(
        "; instructions (all counts are multiples of 8, as with QEMU's -icount shift=N)"
    )


def test_a_few_even_counts_are_a_chance() -> None:
    even = measurement((2046, 2040), (2046, 2040), total=(90_000, 80_002))
    assert assemble([even]).calls[0]["instructions"] == Count(2000)
