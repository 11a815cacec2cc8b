# SPDX-License-Identifier: Apache-2.0
"""Exact profiles and counts in firmware where another task runs the same functions.

The timer interrupts each 10,000 instructions on `qemu-rv32`, and each 15,625 on `qemu-cortex-m4`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from boardprof.base.metrics import Count
from boardprof.measure.board.board import Board
from boardprof.measure.connect import connect
from boardprof.results.report.report import Report
from tests.projects.firmware import command, requires_board, shell
from tests.support import ROOT

APP = Path(__file__).parent / "fixtures" / "tasks" / "shared.c"
MAKEFILE = ROOT / "examples" / "tasks" / "Makefile"
HZ = {"qemu-rv32": 100_000, "qemu-cortex-m4": 1000}
TURNS = {"qemu-rv32": 9 * 20_000 + 8, "qemu-cortex-m4": 9 * 20_000 + 3}


@pytest.fixture(scope="module", params=HZ)
def tasks(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Board]:
    folder = tmp_path_factory.mktemp("shared")
    requires_board(request.param)
    options = [f"BOARD={request.param}", f"APP={APP}", f"BOARDPROF={command(folder)}"]
    shell(["make", "-j2", "-f", MAKEFILE, *options, f"MORE=-DHZ={HZ[request.param]}"], folder)
    with connect(request.param, image=folder / "firmware.elf") as board:
        yield board


def counts(report: Report, name: str) -> list[int]:
    return [each.value for row in report.calls if isinstance(each := row[name], Count)]


def test_a_task_in_the_same_loop_is_not_in_the_profile(tasks: Board) -> None:
    """Its interrupted instruction is that of the call, too: the loop has two."""
    for warmup in range(1, 6):
        profile = tasks.hotspots("spin", 20_000, warmup=warmup)
        assert (profile.state, profile.sum()) == ("complete", 2 * 20_000 + 1)
        assert profile.interrupts() > 10_000  # the other task had its turns


def test_calls_of_another_task_are_not_in_the_profile(tasks: Board) -> None:
    for warmup in range(1, 4):
        profile = tasks.hotspots("turns", 20_000, warmup=warmup)
        assert (profile.state, profile.sum()) == ("complete", TURNS[tasks.spec.name])
        own = {each.name: (each.self, each.calls) for each in profile.functions()}
        assert own["spin"] == (5 * 20_000, 20_000)
        assert own["turns"] == (TURNS[tasks.spec.name] - 5 * 20_000, 1)


def test_a_sample_in_which_another_task_runs_counts_its_own_task_alone(tasks: Board) -> None:
    """Each switch is subtracted once, though an interrupt makes it."""
    masked, report = (
        tasks.profile("spin", 20_000, warmup=1, repeat=6, mask_interrupts=mask)
        for mask in (True, False)
    )
    switches = counts(report, "context-switches")
    assert min(switches) >= 1
    if tasks.spec.name == "qemu-rv32":
        assert counts(report, "instructions") == [2 * 20_000 + 1] * 6
    else:  # whole ticks are read around each interrupt
        truth = counts(masked, "ticks")[0]
        for ticks, count in zip(counts(report, "ticks"), switches, strict=True):
            assert abs(ticks - truth) <= 2 + 2 * count
