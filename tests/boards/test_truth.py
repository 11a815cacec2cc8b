# SPDX-License-Identifier: Apache-2.0
"""Counts held against counts that this project's code did not make: those of QEMU itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from boardprof.measure.connect import connect
from tests.boards.conftest import WORKLOADS, available
from tests.boards.witness import (
    NAMES,
    SIGNATURES,
    Witness,
    argument,
    counts_of,
    watch_windows,
    witness,
)
from tests.firmware import build
from tests.tools.insn_count import build_plugin, plugin_argument, read_counts, symbol_range


@pytest.fixture(scope="module")
def rv32(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Witness]:
    found = witness(available("qemu-rv32"), tmp_path_factory.mktemp("rv32"), WORKLOADS)
    with found.board:
        yield found


@pytest.fixture(scope="module")
def cortex_m3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Witness]:
    found = witness(available("qemu-cortex-m3"), tmp_path_factory.mktemp("m3"), WORKLOADS)
    with found.board:
        yield found


@pytest.mark.parametrize("function", NAMES)
def test_net_instructions_equal_those_that_the_emulator_executed(
    rv32: Witness, function: str
) -> None:
    report = rv32.board.profile(function, warmup=1, repeat=3)
    assert counts_of(report, "instructions") == rv32.measured(function, 3)


@pytest.mark.parametrize("function", NAMES)
def test_net_instructions_of_many_calls_equal_the_emulators_sum(
    rv32: Witness, function: str
) -> None:
    report = rv32.board.profile(function, warmup=0, repeat=2, number=4)
    executed = rv32.measured(function, 8)
    assert counts_of(report, "instructions") == [sum(executed[:4]), sum(executed[4:])]


@pytest.mark.parametrize("optimize", ["-O0", "-Os", "-O3"])
def test_net_instructions_are_exact_at_other_optimisations(
    tmp_path_factory: pytest.TempPathFactory, optimize: str
) -> None:
    folder = tmp_path_factory.mktemp("flags")
    found = witness(available("qemu-rv32"), folder, WORKLOADS / "quicksort.c", optimize)
    with found.board:
        report = found.board.profile("quicksort", warmup=0, repeat=2)
        assert counts_of(report, "instructions") == found.measured("quicksort", 2)


def test_net_instructions_are_exact_whatever_the_flags_of_the_board(tmp_path: Path) -> None:
    """The empty function is one instruction even where a board's flags would make it more."""
    spec = available("qemu-rv32")
    slow = (*spec.build.cflags, "-O0", "-fno-omit-frame-pointer")
    slow_board = dataclasses.replace(spec, build=dataclasses.replace(spec.build, cflags=slow))
    found = witness(slow_board, tmp_path, WORKLOADS / "crc32.c")
    with found.board:
        report = found.board.profile("crc32", warmup=0, repeat=2, number=3)
        executed = found.measured("crc32", 6)
        assert counts_of(report, "instructions") == [sum(executed[:3]), sum(executed[3:])]


def test_the_smallest_function_there_is_counts_its_own_return(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("nothing")
    (folder / "nothing.c").write_text("void nothing(void); void nothing(void) {}\n")
    found = witness(available("qemu-rv32"), folder, folder / "nothing.c")
    with found.board:
        report = found.board.profile("nothing", warmup=0, repeat=1)
        assert counts_of(report, "instructions") == [1]
        assert found.measured("nothing", 1) == [1]


@pytest.mark.parametrize("function", NAMES)
def test_net_instructions_by_the_clock_equal_those_that_the_emulator_executed(
    cortex_m3: Witness, function: str
) -> None:
    report = cortex_m3.board.profile(function, warmup=1, repeat=3)
    assert counts_of(report, "instructions") == cortex_m3.measured(function, 3)


def test_two_runs_of_the_same_build_count_the_same_instructions() -> None:
    spec = available("qemu-rv32")
    image = build(spec, [WORKLOADS]).image
    runs = []
    for _ in range(2):
        with connect(spec, image=image) as board:
            runs.append({n: counts_of(board.profile(n, repeat=3), "instructions") for n in NAMES})
    assert runs[0] == runs[1]


def test_a_window_of_the_host_counts_the_instructions_that_the_emulator_executed(
    tmp_path: Path,
) -> None:
    """The agent's polling between two calls is in it; time in which nothing ran is not."""
    found = watch_windows(available("qemu-rv32"), tmp_path, "cycles_instret")
    with found.board:
        for _ in range(3):
            with found.board.collectors["cycles"] as window:
                found.board.functions.crc32()
            (executed,) = found.last("cycles_instret", 1)
            # Between start's first instruction and its read of minstret, and before stop's.
            assert 0 <= executed - window.readings["instructions"].value <= 20


def test_a_window_of_the_host_counts_by_the_clock_what_the_emulator_executed(
    tmp_path: Path,
) -> None:
    found = watch_windows(available("qemu-cortex-m3"), tmp_path, "ticks")
    with found.board:
        for _ in range(3):
            with found.board.collectors["ticks"] as window:
                found.board.functions.crc32()
            (executed,) = found.last("ticks", 1)
            assert 0 <= executed - window.readings["instructions"].value <= 30


def test_a_function_with_arguments_and_a_result_is_counted_without_its_glue(
    tmp_path: Path,
) -> None:
    """Unpacking, the loads of the thunk and the store of the result are in the calibration too."""
    source = tmp_path / "poly.c"
    source.write_text(
        "#include <stdint.h>\n"
        "int64_t poly(int32_t x, uint8_t degree, float scale);\n"
        "int64_t poly(int32_t x, uint8_t degree, float scale) {\n"
        "    int64_t sum = (int64_t)scale;\n"
        "    for (uint8_t i = 0; i < degree; i++) { sum = sum * x + i; }\n"
        "    return sum;\n"
        "}\n"
    )
    spec = available("qemu-rv32")
    firmware = build(spec, [source])
    entry, _ = symbol_range(firmware.image, "poly")
    stops = [symbol_range(firmware.image, n) for n in ("bp_thunk_of_poly", "bp_window")]
    counts = tmp_path / "counts.txt"
    plugin = plugin_argument(build_plugin(), [entry], stops, counts)
    launch = dataclasses.replace(spec.launch, command=(*spec.launch.command, *plugin))
    with connect(dataclasses.replace(spec, launch=launch), image=firmware.image) as board:
        assert board.functions.poly(-3, 5, 2.5) == -2 * 243 + 1 * 0 - 1 * 27 + 2 * 9 - 3 * 3 + 4
        report = board.profile("poly", -3, 5, 2.5, warmup=0, repeat=2)
    assert counts_of(report, "instructions") == read_counts(counts)[entry][-4:-2]


### Pointers, and every kind of signature ###


MANY = pytest.mark.parametrize("many", [50, pytest.param(1000, marks=pytest.mark.nightly)])
"""Calls in a sample."""


@MANY
@pytest.mark.parametrize("optimize", ["-O0", "-O2", "-O3", "-Os"])
def test_net_instructions_are_exact_for_every_kind_of_signature(
    tmp_path: Path, optimize: str, many: int
) -> None:
    """Once and many times: what puts arrays back is outside of each window."""
    found = witness(available("qemu-rv32"), tmp_path, SIGNATURES, optimize)
    assert len(found.functions) >= 40
    with found.board:
        for fn in found.functions:
            arguments = [argument(p.name, p.type) for p in fn.parameters]
            for warmup, repeat, number in ((1, 3, 1), (0, 1, many)):
                start = found.written()
                report = found.board.profile(
                    fn.name, *arguments, warmup=warmup, repeat=repeat, number=number
                )
                executed = found.measured(fn.name, repeat * number, start)
                assert len(executed) == repeat * number, fn.name
                sums = [sum(executed[i * number : (i + 1) * number]) for i in range(repeat)]
                assert counts_of(report, "instructions") == sums, f"{fn.name}, number={number}"


@MANY
@pytest.mark.parametrize("optimize", ["-O0", "-O3"])
def test_net_instructions_by_the_clock_are_exact_for_every_kind_of_signature(
    tmp_path: Path, optimize: str, many: int
) -> None:
    found = witness(available("qemu-cortex-m3"), tmp_path, SIGNATURES, optimize)
    with found.board:
        for fn in found.functions:
            arguments = [argument(p.name, p.type) for p in fn.parameters]
            start = found.written()
            report = found.board.profile(fn.name, *arguments, warmup=1, repeat=1, number=many)
            expected = sum(found.measured(fn.name, many, start))
            assert counts_of(report, "instructions") == [expected], fn.name


def test_in_and_out_arrays_are_the_same_in_each_sample(tmp_path: Path) -> None:
    """Sorting what is sorted takes fewer instructions: each sample has the caller's array."""
    source = tmp_path / "sort.c"
    source.write_text(
        "#include <stdint.h>\n"
        "void sort(int16_t *x, uint32_t n) {\n"
        "    for (uint32_t i = 1; i < n; i++) {\n"
        "        int16_t moved = x[i];\n"
        "        uint32_t at = i;\n"
        "        for (; at > 0 && x[at - 1] > moved; at--) { x[at] = x[at - 1]; }\n"
        "        x[at] = moved;\n"
        "    }\n"
        "}\n"
    )
    found = witness(available("qemu-rv32"), tmp_path, source)
    with found.board:
        falling = np.arange(100, 0, -1, dtype=np.int16)
        report = found.board.profile("sort", falling, 100, warmup=2, repeat=4)
        executed = found.measured("sort", 4)
        assert counts_of(report, "instructions") == executed
        assert len(set(executed)) == 1
        assert list(falling) == list(range(1, 101))
        again = found.board.profile("sort", falling, 100, warmup=0, repeat=1)
        assert counts_of(again, "instructions")[0] * 10 < executed[0]
