# SPDX-License-Identifier: Apache-2.0
"""The counters of qemu-cortex-a53, against counts that this project's code did not make."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from boardprof.base.errors import RpcError
from boardprof.measure.board.board import Board
from boardprof.measure.connect import connect
from boardprof.target.descriptions.board import BoardSpec
from tests.boards.conftest import WORKLOADS, available
from tests.boards.witness import (
    NAMES,
    SIGNATURES,
    Witness,
    check_every_signature,
    check_net,
    counts_of,
    select,
    watch_windows,
    witness,
)
from tests.firmware import build

BOARD = "qemu-cortex-a53"


@pytest.fixture(scope="module")
def a53(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Witness]:
    found = witness(available(BOARD), tmp_path_factory.mktemp("a53"), WORKLOADS)
    with found.board:
        yield found


@pytest.mark.parametrize("function", NAMES)
def test_net_instructions_equal_those_that_the_emulator_executed(
    a53: Witness, function: str
) -> None:
    check_net(a53, function)


@pytest.mark.parametrize("optimize", ["-O0", "-O3"])
def test_net_instructions_are_exact_for_every_kind_of_signature(
    tmp_path: Path, optimize: str
) -> None:
    found = witness(available(BOARD), tmp_path, SIGNATURES, optimize)
    with found.board:
        check_every_signature(found)


def test_a_window_of_the_host_counts_the_instructions_that_the_emulator_executed(
    tmp_path: Path,
) -> None:
    """The agent's polling between two calls is in it; time in which nothing ran is not."""
    found = watch_windows(available(BOARD), tmp_path, "cycles_instret")
    with found.board:
        for _ in range(3):
            with found.board.collectors["cycles"] as window:
                found.board.functions.crc32()
            (executed,) = found.last("cycles_instret", 1)
            # Between start's first instruction and its read of the counter, and before stop's.
            assert 0 <= executed - window.readings["instructions"].value <= 30


def started(spec: BoardSpec, *command: str) -> Board:
    """Start the board with another command line."""
    launch = dataclasses.replace(spec.launch, command=command)
    image = build(spec, [WORKLOADS / "crc32.c"]).image
    return connect(dataclasses.replace(spec, launch=launch), image=image)


def test_without_icount_no_instructions_are_shown_and_it_is_said_why() -> None:
    """Then QEMU's PMU has no event INST_RETIRED, and a counter of it stands still."""
    spec = available(BOARD)
    at = spec.launch.command.index("-icount")
    with started(spec, *spec.launch.command[:at], *spec.launch.command[at + 2 :]) as board:
        reason = board.device.unsupported["instructions"]
        assert reason == "PMEVCNTR0_EL0, event INST_RETIRED does not advance"
        assert "instructions" not in board.profile("crc32", repeat=1).calls[0]


def test_without_a_pmu_its_counters_are_absent_and_ticks_remain() -> None:
    spec = available(BOARD)
    command = [word.replace("cortex-a53", "cortex-a53,pmu=off") for word in spec.launch.command]
    with started(spec, *command) as board:
        assert set(board.device.unsupported) >= {"cycles", "instructions"}
        assert "ticks" in board.profile("crc32", repeat=1).calls[0]


INCREMENTS = """\
void increments(unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        /* Each is of counters 2 and 3. */
        __asm__ volatile("msr pmswinc_el0, %0" : : "r"(12ul));
    }
}
"""


def test_programmed_events_are_counted_exactly(tmp_path: Path) -> None:
    (tmp_path / "increments.c").write_text(INCREMENTS)
    spec = available(BOARD)
    metrics = ["instructions", "pmuv3.instructions", "SW_INCR"]
    with connect(spec, image=build(spec, [tmp_path / "increments.c"]).image) as board:
        report = board.profile("increments", 37, metrics=metrics, repeat=3)
        assert counts_of(report, "SW_INCR") == [37] * 3
        assert counts_of(report, "pmuv3.instructions") == counts_of(report, "instructions")


def test_an_event_that_the_core_says_it_lacks_is_absent_and_others_count() -> None:
    """QEMU's register takes 0x03, the L1 data cache's refills, and counts nothing."""
    spec = available(BOARD)
    with started(spec, *spec.launch.command) as board:
        assert select(board, "pmuv3", 0x03, 0x08, 0x21) == [[1, 0], [0, 0], [1, 0]]
        with pytest.raises(RpcError, match="range"):
            select(board, "pmuv3", 1 << 16)
        with pytest.raises(RpcError, match="range"):
            select(board, "pmuv3", 0, 0, 0, 0, 0)


@pytest.mark.parametrize("metric", ["instructions", "pmuv3.instructions", "SW_INCR"])
def test_a_counter_of_32_bits_is_not_in_doubt_though_it_is_the_only_metric(
    a53: Witness, metric: str
) -> None:
    """A clock of 64 bits runs beside it; its ticks are not in the Report."""
    report = a53.board.profile("crc32", metrics=[metric], repeat=2)
    assert f"{BOARD} warning" not in report.configuration
    assert [column for column in report.calls[0] if "tick" in column] == []
