# SPDX-License-Identifier: Apache-2.0
"""The first call of all, measured apart: what it costs, and what it must not change."""

from __future__ import annotations

from typing import Any

import pytest

from boardprof.base.metrics import Count
from boardprof.measure.connect import Firmware, build
from boardprof.results.report.report import Report
from boardprof.results.stats.groups import summaries
from tests.support import requires_tool

LAZY = """
static volatile int calls;
int lazy(void)
{
    if (++calls == 1) {
        for (volatile int i = 0; i < 100; i++) {
        }
    }
    return calls;
}
"""


@pytest.fixture(scope="module")
def firmware(tmp_path_factory: pytest.TempPathFactory) -> Firmware:
    requires_tool("qemu-system-riscv32", "qemu-system-misc")
    requires_tool("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf")
    source = tmp_path_factory.mktemp("cold") / "lazy.c"
    source.write_text(LAZY)
    return build(source, board="qemu-rv32")


def profiled(firmware: Firmware, **options: Any) -> Report:
    with firmware.open() as board:  # a board that has just started: nothing has called it yet
        return board.profile("lazy", metrics="instructions", **options)


def cold(report: Report) -> float | None:
    [found] = [each for each in summaries(report) if each.metric == "instructions"]
    return found.summary.first


def result(report: Report) -> int:
    assert report.extra is not None
    value: int = report.extra["measurements"][0]["result"]
    return value


def test_the_first_call_stands_apart_from_the_warm_ones(firmware: Firmware) -> None:
    first = profiled(firmware, warmup=0, repeat=1).calls[0]["instructions"]
    report = profiled(firmware, warmup=2, repeat=3, cold=True)
    warm = [row["instructions"] for row in report.calls]
    assert isinstance(first, Count)
    assert cold(report) == first.value
    assert warm[0] == warm[1] == warm[2]
    assert isinstance(warm[0], Count)
    assert first.value > warm[0].value + 100


def test_it_is_one_call_also_where_samples_hold_several(firmware: Firmware) -> None:
    single = profiled(firmware, warmup=2, repeat=2, cold=True)
    several = profiled(firmware, warmup=2, repeat=2, number=7, cold=True)
    assert cold(several) == cold(single)


def test_it_costs_one_more_call_of_the_function_and_nothing_without(firmware: Firmware) -> None:
    plain = profiled(firmware, warmup=2, repeat=3)
    assert cold(plain) is None
    assert result(profiled(firmware, warmup=2, repeat=3, cold=True)) == result(plain) + 1
