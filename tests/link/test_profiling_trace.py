# SPDX-License-Identifier: Apache-2.0
"""Programs, the time evaluator and collectors of the host in a profile of what the host does.

Each sample that the host takes is a call of the board of its own, and so an event.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from boardprof.base.errors import DeviceFaultError
from boardprof.base.metrics import Count, Metric
from boardprof.compat.torch.events import FunctionEvent
from boardprof.compat.torch.profiler import profile
from boardprof.compat.tvm_profiler import MetricCollector, Program, profile_function, time_evaluator
from boardprof.measure.board.board import Board
from tests.link.profiling_boards import board, native, rv32

__all__ = ["board", "native", "rv32"]

# A call of two instructions may take less than the clock of a busy machine resolves.
pytestmark = pytest.mark.filterwarnings("ignore:.* takes less time than the clock")


class Calls(MetricCollector):
    """Calls the board itself, around each sample."""

    def Start(self, dev: Board) -> object | None:
        return dev, dev.functions.ticked()

    def Stop(self, obj: Any) -> Mapping[str, Metric | int]:
        dev, before = obj
        return {"ticks of the board": dev.functions.ticked() - before}


def program(board: Board) -> tuple[Program, Any]:
    x = np.array([-3, 5], np.float32)
    made = Program(board)
    made.add("relu", x, 2)
    made.add("largest", x, 2)
    return made, x


def keys(prof: profile) -> list[str]:
    return [event.key for event in prof.events()]


def numbers(events: list[FunctionEvent]) -> list[object]:
    return [event.args["number"] for event in events]


def test_a_label_is_a_range_around_its_call(board: Board) -> None:
    x = np.array([-3, 5], np.float32)
    made = Program(board)
    made.add("relu", x, 2, label="first")
    made.add("largest", x, 2)
    with profile(with_modules=True) as prof:
        made.run()
    assert [(e.name, e.kind, e.stack, e.module_hierarchy) for e in prof.events()] == [
        ("first", "range", (), ""),
        ("relu", "call", ("first",), "first"),
        ("largest", "call", (), ""),
    ]
    grouped = prof.key_averages(group_by_stack_n=1)
    assert {(each.key, each.stack) for each in grouped} == {
        ("first", ()),
        ("relu", ("first",)),
        ("largest", ()),
    }


def test_a_programs_calls_are_events_with_their_arguments(board: Board) -> None:
    made, x = program(board)
    with profile(record_shapes=True) as prof:
        assert made.run() == [None, 1]
    assert [(e.name, e.kind, e.board, e.input_shapes) for e in prof.events()] == [
        ("relu", "call", board.device.name, "x=float32[2], n=2"),
        ("largest", "call", board.device.name, "x=float32[2], n=2"),
    ]
    assert x.tolist() == [0, 5]


def test_a_programs_calls_are_counted_and_do_the_same(rv32: Board) -> None:
    made, x = program(rv32)
    exact = [row["instructions"] for row in made.profile(["cycles"]).calls]
    x[:] = [-3, 5]
    with profile(metrics=["instructions"]) as prof:
        assert made.run() == [None, 1]
    assert x.tolist() == [0, 5]
    relu, largest = prof.events()
    assert relu.metrics["instructions"] == exact[0]
    assert not relu.is_raw
    assert largest.name == "largest"


def test_a_profiled_programs_samples_are_measurements_with_their_counts(rv32: Board) -> None:
    made, x = program(rv32)
    with profile(metrics=["instructions"], record_shapes=True) as prof:
        report = made.profile(["cycles"], warmup=1, repeat=2)
    assert x.tolist() == [0, 5]
    assert keys(prof) == ["profile(relu)", "profile(largest)"] * 3
    exact = [row["instructions"] for row in report.calls]
    assert exact[:2] == exact[2:]
    assert [e.metrics["instructions"] for e in prof.events()] == exact[:2] * 3
    assert {e.args["number"] for e in prof.events()} == {1}
    assert {e.input_shapes for e in prof.events()} == {"x=float32[2], n=2"}


def test_each_attempt_of_the_time_evaluator_is_a_measurement(native: Board) -> None:
    before = native.functions.ticked()
    with profile() as prof:
        result = time_evaluator(native, "slow_tick", number=7, repeat=3)()
    # 7 * 3, one to warm up, and the one behind them for the outputs.
    assert native.functions.ticked() == before + 23  # type: ignore[operator]
    *samples, last = prof.events()
    assert [e.key for e in samples] == ["profile(slow_tick)"] * 4
    assert numbers(samples) == [1, 7, 7, 7]
    assert (last.key, last.kind) == ("slow_tick", "call")
    times = [e.device_time_total for e in samples[1:]]
    assert times == [pytest.approx(7e6 * seconds) for seconds in result.results]
    assert all(span.start_ns is not None for e in samples for span in e.device_spans)
    assert prof.diagnostics == ()


def test_a_profile_names_the_stack_as_what_it_does_not_measure(rv32: Board) -> None:
    refused = pytest.warns(UserWarning, match=r"counts stack \(qemu-rv32: it takes another call")
    with refused, profile(metrics=["instructions", "stack"]) as prof:
        rv32.functions.ticked()
    (event,) = prof.events()
    assert list(event.metrics) == ["instructions"]
    why = "it takes another call, which board.profile and Program.profile make"
    assert prof.diagnostics == (f"stack is not counted on qemu-rv32: {why}",)


def test_what_a_measurement_does_not_count_is_unknown(native: Board) -> None:
    with profile(metrics=["page-faults"]) as prof:
        time_evaluator(native, "work", number=2, f_preproc="tick")(10)
    assert keys(prof) == ["profile(work)", "tick", "profile(work)", "work"]
    assert [list(e.metrics) for e in prof.events()] == [[], ["page-faults"], [], ["page-faults"]]
    row = prof.key_averages().table().splitlines()[3].split()
    assert (row[0], row[-2:]) == ("profile(work)", ["--", "3"])  # 1 to warm up, 2 in the sample


def test_samples_between_collectors_of_the_host_are_measurements(rv32: Board) -> None:
    x = np.array([3, 5], np.int32)
    relu = profile_function(rv32, None, [Calls(), "cycles"], "twice", warmup_iters=1, repeat=2)
    with profile(metrics=["instructions"]) as prof:
        metrics = relu(x, 2)
    assert x.tolist() == [6, 10]
    taken = ["ticked", "profile(twice)", "ticked"]
    assert keys(prof) == ["profile(twice)", *taken, *taken, "twice"]
    counts = [
        e.metrics["instructions"] for e in prof.events() if e.name.endswith(("twice", "twice)"))
    ]
    assert counts == [metrics["instructions"]] * 4
    assert metrics["ticks of the board"] == Count(0)


def test_a_sample_that_fails_has_its_error(rv32: Board) -> None:
    with profile() as prof, pytest.raises(DeviceFaultError):
        profile_function(rv32, None, [Calls()], "trap", warmup_iters=0)()
    assert [(e.key, e.error) for e in prof.events()] == [
        ("ticked", ""),
        ("profile(trap)", "DeviceFaultError"),
        ("ticked", ""),  # of the collector's Stop
    ]
