# SPDX-License-Identifier: Apache-2.0
"""A core with an FPU, simulated from its RTL: hard float beside soft float."""

from __future__ import annotations

import pytest

from boardprof.base.metrics import Count
from boardprof.target.build.build_options import BuildOptions
from tests.boards.conftest import WORKLOADS, available
from tests.firmware import build

pytestmark = pytest.mark.timeout(900)  # the first of them builds the simulator


@pytest.mark.parametrize(
    ("flags", "low", "high"),
    [("-O2 -march=rv32imfc", 5_000, 7_000), ("-O2 -march=rv32imc", 120_000, 150_000)],
)
def test_one_function_runs_with_the_fpu_and_without_it(flags: str, low: int, high: int) -> None:
    """The same result (the workload checks it), in a twentieth of the cycles."""
    source = WORKLOADS / "matmul_f32.c"
    with build(available("cv32e40p-rtl"), [source], BuildOptions(flags)).open() as board:
        report = board.profile("matmul_f32", metrics=["cycles"], warmup=0, repeat=2)
    cycles = [row["cycles"] for row in report.calls]
    assert all(isinstance(each, Count) and low < each.value < high for each in cycles)


def test_waits_for_loads_are_counted_by_the_cores_own_counters() -> None:
    """In each of 4,096 steps, the CRC uses the byte of a table that it has just loaded."""
    source = WORKLOADS / "crc32.c"
    with build(available("cv32e40p-rtl"), [source]).open() as board:
        report = board.profile("crc32", metrics=["load-use-waits"], warmup=0, repeat=2)
        profile = board.hotspots("crc32")
    assert [row["load-use-waits"] for row in report.calls] == [Count(4096)] * 2
    assert profile.sum("load-use-waits") == 4096
