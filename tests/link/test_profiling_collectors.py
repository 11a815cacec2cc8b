# SPDX-License-Identifier: Apache-2.0
"""Collectors in Python around real boards: the order, None, names that clash, and what they raise.

The function `tick` counts its calls on the board, and `ticked` tells; so a collector sees by itself
what has run before its Start and its Stop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from boardprof.base.errors import BusyError, DeviceFaultError, UsageError
from boardprof.base.metrics import Count, Duration, Metric, Ratio
from boardprof.compat.tvm_profiler import DeviceWrapper, MetricCollector, Report, profile_function
from boardprof.measure.board.board import Board
from boardprof.measure.connect import build, connect
from tests.link.peers import running_agent
from tests.link.profiling_boards import LAYERS, board, native, rv32

__all__ = ["board", "native", "rv32"]

Event = tuple[str, str, int]


class Witness(MetricCollector):
    """Writes down when it was called, and how often the function had run by then."""

    def __init__(self, name: str, log: list[Event], *, metric: str = "calls") -> None:
        self.name = name
        self.log = log
        self.metric = metric
        self.devices: list[DeviceWrapper] = []

    def Init(self, devs: Sequence[DeviceWrapper]) -> None:
        self.devices = list(devs)
        self.note("Init", devs[0].device)

    def Start(self, dev: Board) -> object | None:
        return dev, self.note("Start", dev)

    def Stop(self, obj: Any) -> Mapping[str, Metric | int]:
        dev, before = obj
        return {self.metric: Count(self.note("Stop", dev) - before)}

    def note(self, step: str, dev: Board) -> int:
        ticked = dev.functions.ticked()
        assert isinstance(ticked, int)
        self.log.append((self.name, step, ticked))
        return ticked


class Deaf(Witness):
    """Supports no device."""

    def Start(self, dev: Board) -> object | None:
        self.note("Start", dev)
        return None


class Failing(Witness):
    """Fails in one step."""

    def __init__(self, name: str, log: list[Event], step: str) -> None:
        super().__init__(name, log)
        self.step = step

    def note(self, step: str, dev: Board) -> int:
        if step == self.step:
            raise KeyError("no such probe")
        return super().note(step, dev)


def ticked(board: Board) -> int:
    value = board.functions.ticked()
    assert isinstance(value, int)
    return value


def test_all_start_before_the_boards_window_and_all_stop_behind_it(board: Board) -> None:
    log: list[Event] = []
    collectors = [Witness("a", log), Witness("b", log)]
    profiled = profile_function(board, None, collectors, "tick", warmup_iters=2, number=5)
    began = ticked(board)
    assert [event[:2] for event in log] == [("a", "Init"), ("b", "Init")]
    del log[:]
    metrics = profiled()
    assert log == [
        ("a", "Start", began + 2),
        ("b", "Start", began + 2),
        ("a", "Stop", began + 7),
        ("b", "Stop", began + 7),
    ]
    assert metrics["calls"] == Count(5)
    assert metrics["Witness-2.calls"] == Count(5)


def test_what_collectors_do_is_not_in_the_boards_counts(rv32: Board) -> None:
    alone = profile_function(rv32, func_name="work")(100)["instructions"]
    log: list[Event] = []
    core = next(c.name for c in rv32.dictionary.collectors if len(c.counters) == 2)
    both = profile_function(rv32, None, [Witness("a", log), core], "work")(100)
    assert both["instructions"] == alone
    assert both["calls"] == Count(0)
    assert "ticks" not in both  # it was not asked for


def test_init_is_called_once_and_not_at_each_invocation(native: Board) -> None:
    log: list[Event] = []
    collector = Witness("a", log)
    profiled = profile_function(native, native, [collector], "tick")
    assert collector.devices == [DeviceWrapper(native)]
    assert collector.devices[0].device is native
    profiled()
    profiled()
    steps = [step for _, step, _ in log]
    assert steps == ["Init", "Start", "Stop", "Start", "Stop"]


def test_none_means_unsupported_and_stop_is_never_called(native: Board) -> None:
    log: list[Event] = []
    metrics = profile_function(native, None, [Deaf("deaf", log), Witness("a", log)], "tick")()
    assert [event[:2] for event in log][2:] == [("deaf", "Start"), ("a", "Start"), ("a", "Stop")]
    assert metrics["calls"] == Count(1)
    assert not any("Deaf" in name for name in metrics)


def test_with_collectors_of_the_host_alone_the_board_measures_its_time(
    native: Board, rv32: Board
) -> None:
    for each, timer in ((native, "Duration (us)"), (rv32, "instructions")):
        metrics = profile_function(each, None, [Witness("a", [])], "work")(1000)
        assert set(metrics) == {timer, "Perturbation (%)", "calls"}


def test_a_clock_times_what_is_asked_for_as_well(native: Board) -> None:
    assert {"page-faults", "Duration (us)"} <= set(
        profile_function(native, None, ["faults"], "tick")()
    )


def test_a_name_that_is_taken_is_prefixed_and_nothing_is_lost(rv32: Board) -> None:
    metric = Witness("a", [], metric="ticks")
    time = Witness("b", [], metric="Duration (us)")
    metrics = profile_function(rv32, None, ["ticks", metric, time], "tick", number=3)()
    assert metrics["Witness.ticks"] == Count(3)
    assert metrics["Witness-2.Duration (us)"] == Count(3)
    assert isinstance(metrics["ticks"], Count)
    assert "Duration (us)" not in metrics


# -- several samples --------------------------------------------------------------------------


class Rising(MetricCollector):
    """Counts its samples."""

    stopped = 0

    def Start(self, dev: Board) -> object | None:
        return self

    def Stop(self, obj: object) -> Mapping[str, Metric | int]:
        self.stopped += 1
        return {"sample": self.stopped, "share": Ratio(0.5), "mode": "fast"}


def test_several_samples_give_one_of_them_and_all_in_the_report(native: Board) -> None:
    profiled = profile_function(native, None, [Rising()], "work", number=4, repeat=5)
    metrics = profiled(1000)
    rows = list(metrics.report.calls)
    assert [row["sample"] for row in rows] == [Count(n) for n in (1, 2, 3, 4, 5)]
    assert [row["Count"] for row in rows] == [Count(4)] * 5
    times = [row["Duration (us)"].microseconds for row in rows]  # type: ignore[union-attr]
    assert metrics["Duration (us)"] == Duration(sorted(times)[2])
    middle = sorted(range(5), key=times.__getitem__)[2]  # two may have taken the same time
    assert metrics["sample"] == rows[middle]["sample"]
    assert (metrics["share"], metrics["mode"]) == (Ratio(0.5), "fast")
    assert metrics["Count"] == Count(4)


def test_of_two_samples_it_is_the_lower(native: Board) -> None:
    metrics = profile_function(native, func_name="work", repeat=2)(1000)
    times = [row["Duration (us)"].microseconds for row in metrics.report.calls]  # type: ignore[union-attr]
    assert metrics["Duration (us)"] == Duration(min(times))


def test_one_sample_of_one_call_is_a_flat_dict_of_metrics(rv32: Board) -> None:
    metrics = profile_function(rv32, func_name="work")(100)
    assert set(metrics) == {"instructions", "ticks", "Perturbation (%)", "Stack (bytes)"}
    assert isinstance(metrics, dict)
    assert isinstance(metrics.report, Report)
    assert len(metrics.report.calls) == 1


def test_a_sample_takes_as_long_as_it_shall(native: Board) -> None:
    profiled = profile_function(native, None, ["clock"], "work", min_repeat_ms=2)

    def is_long_enough() -> bool:
        metrics = profiled(1000)
        assert isinstance(metrics["Duration (us)"], Duration)
        count = metrics.get("Count", Count(1))
        assert isinstance(count, Count)
        return metrics["Duration (us)"].microseconds > 500 and count.value > 10

    # An attempt in which the machine does something else is long enough with fewer calls.
    assert any(is_long_enough() for _ in range(3))


def test_a_simulated_clock_cannot_say_how_long_a_sample_takes(rv32: Board) -> None:
    with pytest.raises(UsageError, match=r"its clock is simulated.*\nTry: .*instructions"):
        profile_function(rv32, func_name="work", min_repeat_ms=1)


def test_arrays_are_put_back_before_each_sample_and_hold_one_calls_result(board: Board) -> None:
    x = np.array([1, 2, 3], np.int32)
    profile_function(board, None, [Rising()], "twice", repeat=3)(x, 3)
    assert x.tolist() == [2, 4, 6]


# -- what goes wrong --------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["Init", "Start", "Stop"])
def test_a_collector_that_fails_is_named_and_the_board_goes_on(native: Board, step: str) -> None:
    log: list[Event] = []
    collectors = [Witness("a", log), Failing("bad", log, step), Witness("c", log)]
    with pytest.raises(
        UsageError, match=rf"The collector Failing failed in {step}: KeyError: 'no such probe'\."
    ) as caught:
        profile_function(native, None, collectors, "tick")()
    assert isinstance(caught.value.__cause__, KeyError)
    started = [name for name, what, _ in log if what == "Start"]
    stopped = [name for name, what, _ in log if what == "Stop"]
    assert set(stopped) == set(started) - {"bad"}
    assert profile_function(native, func_name="work")(100)


def test_our_own_errors_keep_their_kind_and_say_where_they_were(native: Board) -> None:
    class Taken(Rising):
        def Start(self, dev: Board) -> object | None:
            raise BusyError("The meter is in use.", owner="somebody")

    with pytest.raises(BusyError, match=r"The meter is in use\.") as caught:
        profile_function(native, None, [Taken()], "tick")()
    assert caught.value.__notes__ == ["This happened in Start of the collector Taken."]


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (None, "it returned None, not a dict of metrics"),
        ({"energy": 1.5}, r"energy: a float \(1.5\) has no unit"),
        ({7: 1}, "a metric's name must be a str, not 7"),
    ],
)
def test_what_is_no_metric_is_refused(native: Board, found: Any, told: str) -> None:
    class Odd(Rising):
        def Stop(self, obj: object) -> Mapping[str, Metric | int]:
            return found  # type: ignore[no-any-return]

    with pytest.raises(UsageError, match=rf"The collector Odd failed in Stop: TypeError: {told}"):
        profile_function(native, None, [Odd()], "tick")()


def test_when_the_function_traps_that_is_the_error_and_collectors_are_stopped(
    board: Board,
) -> None:
    log: list[Event] = []
    profiled = profile_function(board, None, [Witness("a", log)], "trap", warmup_iters=0)
    with pytest.raises(DeviceFaultError):
        profiled()
    assert [step for _, step, _ in log] == ["Init", "Start", "Stop"]
    assert board.functions.work(3) == 3


def test_what_is_no_collector_is_told(native: Board) -> None:
    with pytest.raises(UsageError, match=r"is not a collector.*\nTry: .* Rising\(\)"):
        profile_function(native, None, [Rising], "tick")  # type: ignore[list-item]
    with pytest.raises(UsageError, match=r"3 is not a collector.*\nTry: derive its class"):
        profile_function(native, None, [3], "tick")  # type: ignore[list-item]
    with pytest.raises(TypeError, match="abstract"):
        MetricCollector()  # type: ignore[abstract]


def test_a_device_is_the_board_its_name_or_a_wrapper_of_it(native: Board, rv32: Board) -> None:
    for device in (native, DeviceWrapper(native), DeviceWrapper(DeviceWrapper(native)), "native"):
        assert profile_function(native, device, ["clock"], "tick")()
    for device in (rv32, DeviceWrapper(rv32), "qemu-rv32"):
        with pytest.raises(UsageError, match=r"The board native has no device qemu-rv32\."):
            profile_function(native, device, func_name="tick")
    with pytest.raises(UsageError, match="'cpu' is not a device"):
        DeviceWrapper("cpu")  # type: ignore[arg-type]
    assert (str(DeviceWrapper(native)), repr(DeviceWrapper(native))) == (
        "native",
        "DeviceWrapper(native at in-process:native.so)",
    )


# -- modules and transports -------------------------------------------------------------------


def test_firmware_is_started_for_its_function_and_stopped_with_it() -> None:
    with profile_function(build(LAYERS, board="native"), func_name="tick") as profiled:
        assert "Duration (us)" in profiled()
        session = profiled.board.session
    with pytest.raises(Exception, match="closed"):
        session.value(0, b"", 0, "tick")


def test_a_connected_board_stays_so(native: Board) -> None:
    with profile_function(native, func_name="tick") as profiled:
        profiled()
    assert native.functions.work(3) == 3


def test_a_function_is_no_module(native: Board) -> None:
    with pytest.raises(UsageError, match=r"is not a module.*\nTry: pass the board"):
        profile_function(native.functions.tick)  # type: ignore[arg-type]


def test_collectors_work_over_a_socket_as_well() -> None:
    log: list[Event] = []
    with running_agent(LAYERS) as (_, port), connect(port=port) as remote:
        metrics = profile_function(remote, None, [Witness("a", log)], "tick", number=2)()
    assert metrics["calls"] == Count(2)
    assert isinstance(metrics["Duration (us)"], Duration)
