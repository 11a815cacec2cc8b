# SPDX-License-Identifier: Apache-2.0
"""Collectors of the host beside more events than one pass holds, by PAPI on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from boardprof.base.metrics import Count, Metric
from boardprof.compat.torch.profiler import profile
from boardprof.compat.tvm_profiler import (
    MetricCollector,
    PAPIMetricCollector,
    Program,
    profile_function,
)
from boardprof.measure.board.board import Board
from boardprof.measure.connect import connect
from boardprof_protocol.codes import CounterStatus
from tests.boards.conftest import available
from tests.boards.linux_slots import EVENTS_C, Slots
from tests.firmware import build
from tests.support import requires_tool

TEN = [
    "perf::PERF_COUNT_SW_PAGE_FAULTS",
    "perf::PAGE-FAULTS",
    "perf::FAULTS",
    "perf::PERF_COUNT_SW_PAGE_FAULTS_MIN",
    "perf::MINOR-FAULTS",
    "perf::PERF_COUNT_SW_CONTEXT_SWITCHES",
    "perf::CONTEXT-SWITCHES",
    "perf::CS",
    "perf::CPU-MIGRATIONS",
    "perf::MIGRATIONS",
]
ELEVENTH = "perf::MAJOR-FAULTS"


class Counter(MetricCollector):
    """Counts the samples that it was there for."""

    samples = 0

    def Start(self, dev: Board) -> object | None:
        self.samples += 1
        return self

    def Stop(self, obj: object) -> Mapping[str, Metric | int]:
        return {"sample": self.samples}


@pytest.fixture
def board() -> Iterator[Board]:
    requires_tool("papi_avail", package="papi-tools")
    spec = available("linux")
    with connect(spec, image=build(spec, [EVENTS_C]).image) as connected:
        faults = Slots(connected, "papi").select("perf::PAGE-FAULTS")[0]
        if faults.status is not CounterStatus.OK:
            pytest.skip(f"PAPI cannot count page faults: {faults.reason}")
        yield connected


def test_collectors_of_the_host_run_in_the_first_pass_alone(board: Board) -> None:
    counter = Counter()
    chosen = [PAPIMetricCollector({board: names}) for names in (TEN, [ELEVENTH])]
    profiled = profile_function(board, None, [*chosen, counter], "touch_pages", 1, repeat=2)
    report = profiled(64).report
    assert [row["sample"] for row in report.calls] == [Count(1), Count(2)]
    assert counter.samples == 2
    for row in report.calls:
        assert row["perf::PAGE-FAULTS"] == Count(64)
        assert row[ELEVENTH] == Count(0)  # in the second pass
    assert str(report.configuration["linux passes"]).startswith("2 runs")


def test_a_programs_rows_have_the_counters_of_all_passes(board: Board) -> None:
    counter = Counter()
    program = Program(board)
    program.add("touch_pages", 3)
    program.add("touch_pages", 64)
    chosen = [PAPIMetricCollector({board: names}) for names in (TEN, [ELEVENTH])]
    report = program.profile([*chosen, counter], warmup=1, repeat=2)
    assert [row["sample"] for row in report.calls] == [Count(n) for n in (1, 2, 3, 4)]
    assert counter.samples == 4
    faults = [row["perf::PAGE-FAULTS"] for row in report.calls]
    assert faults == [Count(n) for n in (3, 64, 3, 64)]
    assert [row[ELEVENTH] for row in report.calls] == [Count(0)] * 4
    assert str(report.configuration["linux passes"]).startswith("2 runs")


class Touches(Counter):
    """Calls the board, as a profile around it counts calls."""

    def Start(self, dev: Board) -> object | None:
        dev.functions.touch_pages(5)
        return super().Start(dev)


def test_what_a_profile_counts_around_it_does_not_change_what_a_program_counts(
    board: Board,
) -> None:
    program = Program(board)
    program.add("touch_pages", 3)
    program.add("touch_pages", 64)
    papi = PAPIMetricCollector({board: ["perf::PAGE-FAULTS"]})
    with profile(metrics=["papi.perf::MIGRATIONS", "perf::PAGE-FAULTS"]) as prof:
        report = program.profile([papi, Touches()], warmup=1, repeat=1)
    assert [row["perf::PAGE-FAULTS"] for row in report.calls] == [Count(3), Count(64)]
    assert [(e.kind, e.metrics.get("perf::PAGE-FAULTS")) for e in prof.events()] == [
        ("measurement", Count(3)),
        ("measurement", Count(64)),
        ("call", Count(5)),
        ("measurement", Count(3)),
        ("call", Count(5)),
        ("measurement", Count(64)),
    ]
    assert ["perf::MIGRATIONS" in e.metrics for e in prof.events()] == [
        e.kind == "call" for e in prof.events()
    ]
