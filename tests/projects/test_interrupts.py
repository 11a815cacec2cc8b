# SPDX-License-Identifier: Apache-2.0
"""Firmware whose timer interrupts what is measured, on QEMU's mps2-an385.

What a function counts while the timer is off is the truth. The handler takes about 211
ticks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from boardprof.board.board import Board
from boardprof.connection import connect
from boardprof.metrics import Count
from boardprof.report.report import Report
from boardprof.stats.warnings import warnings
from tests.cli.command import boardprof
from tests.projects.firmware import EXAMPLE, command, requires_board, shell

FIRMWARE = Path(__file__).parent / "fixtures" / "interrupts"
BOARD = "qemu-cortex-m3"
KHZ = 25_000
"""Ticks of 25 MHz between two interrupts at 1 kHz."""

Made = Callable[..., Path]


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Return what builds the firmware with options of the agent, once for each."""
    requires_board(BOARD)
    made: dict[tuple[str, str], Path] = {}

    def image(config: str, collectors: str = "ticks") -> Path:
        if (config, collectors) not in made:
            folder = tmp_path_factory.mktemp("interrupts")
            options = [f"HAL={EXAMPLE / 'hal' / 'mps2_an385'}", f"BOARDPROF={command(folder)}"]
            options += [f"CONFIG={config}", f"COLLECTORS={collectors}"]
            shell(["make", "-j2", "-f", FIRMWARE / "Makefile", *options], folder)
            made[config, collectors] = folder / "firmware.elf"
        return made[config, collectors]

    return image


@pytest.fixture
def masks(make: Made) -> Iterator[Board]:
    """The firmware with an agent that can mask, and handlers without hooks."""
    with connect(BOARD, image=make("BP_CFG_INTERRUPTS=1")) as board:
        yield board


def measured(board: Board, n: int, timer: int, *, repeat: int = 10, mask: bool = False) -> Report:
    """Return a Report of crc16(n) with an interrupt each ``timer`` ticks; 0: none."""
    board.functions.timer(timer)
    report = board.profile("crc16", n, warmup=2, repeat=repeat, mask_interrupts=mask)
    board.functions.timer(0)
    return report


def column(report: Report, name: str) -> list[int]:
    return [each.value for row in report.calls if isinstance(each := row[name], Count)]


def told(report: Report) -> str:
    return str(report.configuration.get(f"{BOARD} warning", ""))


def test_a_timer_of_1_khz_is_in_each_window_that_is_longer_and_the_report_says_so(
    masks: Board,
) -> None:
    truth = measured(masks, 400, 0)
    report = measured(masks, 400, KHZ)
    extra = min(column(report, "ticks")) - max(column(truth, "ticks"))
    assert 190 < extra < 230
    assert told(report) == (
        "each sample of crc16 is longer than the 1,000 us between two interrupts of a timer, and "
        "has 1 of them in it or more: --mask-interrupts leaves them out"
    )


def test_a_window_that_runs_masked_counts_the_function_alone(masks: Board) -> None:
    [truth, *_] = sorted(column(measured(masks, 400, 0), "ticks"))
    report = measured(masks, 400, KHZ, mask=True)
    assert all(abs(ticks - truth) <= 1 for ticks in column(report, "ticks"))
    assert told(report) == ""
    assert report.configuration[f"{BOARD} interrupts"] == "masked in each sample"
    assert report.extra is not None
    [facts] = report.extra["measurements"]
    assert facts["interrupts"]["masked"]


def test_samples_that_the_timer_has_hit_are_told_apart(masks: Board) -> None:
    found = warnings(measured(masks, 40, KHZ, repeat=100))
    assert [each.kind for each in found] == ["apart"]
    assert "ticks longer than the others" in found[0].text
    assert warnings(measured(masks, 40, KHZ, repeat=100, mask=True)) == []


def test_run_masks_and_info_tells_who_can(make: Made) -> None:
    image = ("-b", BOARD, "--image", make("BP_CFG_INTERRUPTS=1"))
    done = boardprof("run", *image, "crc16", "n=400", "--mask-interrupts", "--repeat", "3")
    assert done.code == 0, done.err
    assert "masked in each sample" in done.out
    info = boardprof("info", *image)
    assert "  interrupts  can be masked; a timer's come every 1,000 us\n" in info.out
    assert "  interrupts  cannot be masked\n" in boardprof("info", "-b", "native").out


def test_a_board_that_cannot_mask_says_so_before_it_measures() -> None:
    done = boardprof(
        "run", "-b", "native", EXAMPLE / "app/control.c:isqrt", "x=9", "--mask-interrupts"
    )
    assert done.code == 2
    assert "native cannot mask interrupts" in done.err
