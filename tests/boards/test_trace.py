# SPDX-License-Identifier: Apache-2.0
"""A profile of what the host does with a board: in this process, and one whose counts are exact."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import threading
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boardprof
from boardprof.base.errors import CheckFailedError, UnknownNameError, UsageError
from boardprof.base.metrics import Count
from boardprof.compat.torch.flops import register_flops, unregister_flops
from boardprof.compat.torch.host_events import record_function
from boardprof.compat.torch.profiler import profile
from boardprof.compat.torch.settings import NotSupportedByAgentError, ProfilerActivity, schedule
from boardprof.measure.board.board import OBSERVERS, Board
from boardprof.measure.connect import connect
from boardprof.target.descriptions.board import board_spec, load_board
from tests.boards.conftest import available
from tests.cli.command import FIXTURES
from tests.firmware import build
from tests.link.peers import running_agent
from tests.support import requires_tool

SOURCES = [FIXTURES / "kernels.c", FIXTURES / "faulty.c", FIXTURES / "same.c"]


def started(name: str) -> Iterator[Board]:
    available(name)
    with connect(name, image=build(board_spec(name), SOURCES).image) as board:
        yield board


@pytest.fixture(scope="module")
def native() -> Iterator[Board]:
    yield from started("native")


@pytest.fixture(scope="module")
def rv32() -> Iterator[Board]:
    yield from started("qemu-rv32")


@pytest.fixture(params=["native", "qemu-rv32"])
def board(request: pytest.FixtureRequest) -> Board:
    name = {"native": "native", "qemu-rv32": "rv32"}[request.param]
    found: Board = request.getfixturevalue(name)
    return found


def fir_arguments() -> dict[str, Any]:
    x = np.array([1, 2, 3, 4, 5], np.int16)
    return {"x": x, "h": np.array([1, 10], np.int16), "y": np.zeros(4, np.int32), "n": 4}


def long_fir_arguments() -> dict[str, Any]:
    """Those of a call of many microseconds; what measuring takes is in doubt by some 20 ns."""
    x, h = np.ones(20_001, np.int16), np.array([1, 10], np.int16)
    return {"x": x, "h": h, "y": np.zeros(20_000, np.int32), "n": 20_000}


def exported(prof: profile, folder: Path) -> dict[str, Any]:
    prof.export_chrome_trace(folder / "trace.json")
    trace: dict[str, Any] = json.loads((folder / "trace.json").read_text())
    return trace


def processes(trace: dict[str, Any]) -> dict[int, str]:
    named = [e for e in trace["traceEvents"] if e["name"] == "process_name"]
    return {e["pid"]: e["args"]["name"] for e in named}


# -- calls ------------------------------------------------------------------------------------


def test_each_call_is_an_event_with_its_arguments(board: Board) -> None:
    board.functions.sum([1, 2], 2)  # before: not in the trace
    with profile(record_shapes=True) as prof:
        with record_function("layer"):
            assert board.functions.sum([1, 2, 3], 3) == 6
            assert board.functions.same_i16(-5) == -5
        board.functions.sum([4, 5, 6], n=3)
        board.functions.a_right()
    layer, *calls = prof.events()
    assert [(e.name, e.kind, e.board, e.input_shapes) for e in calls] == [
        ("sum", "call", board.device.name, "x=int32[3], n=3"),
        ("same_i16", "call", board.device.name, "value=-5"),
        ("sum", "call", board.device.name, "x=int32[3], n=3"),
        ("a_right", "call", board.device.name, ""),
    ]
    assert [e.cpu_parent for e in calls] == [layer, layer, None, None]
    assert layer.start_ns <= calls[0].start_ns <= calls[0].end_ns <= calls[1].start_ns
    averages = {(a.key, a.count) for a in prof.key_averages(group_by_input_shape=True)}
    assert averages == {("layer", 1), ("sum", 2), ("same_i16", 1), ("a_right", 1)}
    assert OBSERVERS == []


def test_warming_up_calls_the_board_and_keeps_nothing(board: Board) -> None:
    chosen = schedule(wait=1, warmup=1, active=1, repeat=1)
    with profile(schedule=chosen) as prof:
        for value in range(4):
            assert board.functions.same_u8(value) == value
            prof.step()
    assert [e.name for e in prof.events()] == ["ProfilerStep#2", "same_u8"]
    assert prof.events()[1].cpu_parent is prof.events()[0]


def test_a_call_that_fails_is_an_event_and_one_that_the_host_refuses_is_none(native: Board) -> None:
    for metrics in (None, ["duration_time"]):
        with profile(metrics=metrics, record_shapes=True) as prof:
            with pytest.raises(CheckFailedError):
                native.functions.b_wrong()
            with pytest.raises(UsageError):
                native.functions.same_i8("x")
            with pytest.raises(UsageError):
                native.functions.sum(np.zeros(3, np.float64), 3)
            with pytest.raises(UsageError):
                native.profile("same_i8", "x")
            with pytest.raises(AttributeError, match="none"):
                _ = native.functions.none
        found = [(e.name, e.error, dict(e.metrics)) for e in prof.events()]
        assert found == [("b_wrong", "CheckFailedError", {})]
        assert native.functions.same_i8(3) == 3


def test_calls_of_another_thread_stand_on_its_own_lane(native: Board, tmp_path: Path) -> None:
    with profile() as prof, record_function("main"):
        thread = threading.Thread(target=native.functions.a_right, name="worker")
        thread.start()
        thread.join(30)
    call = next(e for e in prof.events() if e.name == "a_right")
    assert (call.thread.name, call.cpu_parent) == ("worker", None)
    lanes = {
        e["args"]["name"]: e["tid"]
        for e in exported(prof, tmp_path)["traceEvents"]
        if e["name"] == "thread_name"
    }
    assert sorted(re.sub(r"\d+", "N", name) for name in lanes) == ["MainThread (N)", "worker (N)"]


def test_operations_are_counted_where_a_formula_is_registered(native: Board) -> None:
    register_flops("fir")(lambda shapes, args: int(2 * shapes["h"][0] * args["n"]))
    try:
        with profile(with_flops=True) as prof:
            native.functions.fir(**fir_arguments())
            native.functions.sum([1], 1)
            native.profile("fir", named=fir_arguments(), repeat=3, number=2, warmup=0)
        register_flops("fir")(lambda shapes, args: int(args["taps"]))
        with (
            pytest.warns(UserWarning, match="flops for fir fails: KeyError") as warned,
            profile(with_flops=True) as failed,
        ):
            native.functions.fir(**fir_arguments())
    finally:
        unregister_flops("fir")
    found = [(e.name, e.flops) for e in prof.events()]
    assert found == [("fir", 16), ("sum", None), ("profile(fir)", 96)]
    assert [e.flops for e in failed.events()] == [None]
    assert [each.filename for each in warned] == [__file__]
    assert prof.key_averages().table().splitlines()[1].endswith("Total FLOPs")


def test_a_formula_that_fails_is_told_of_in_the_diagnostics_of_each_trace(native: Board) -> None:
    told: list[tuple[str, ...]] = []

    def run() -> None:
        with profile(
            schedule=schedule(wait=0, warmup=1, active=1, repeat=3),
            on_trace_ready=lambda prof: told.append(prof.diagnostics),
            with_flops=True,
        ) as prof:
            for step in range(6):
                for _ in range(0 if step == 3 else 2):
                    native.functions.fir(**fir_arguments())
                prof.step()

    register_flops("fir")(lambda shapes, args: int(args["taps"]))
    try:
        with pytest.warns(UserWarning, match="flops for fir fails") as warned:
            run()
    finally:
        unregister_flops("fir")
    assert [len(each) for each in told] == [1, 0, 1]
    assert len(warned) == 2
    for each in (told[0], told[2]):
        assert each[0].startswith("The formula of flops for fir fails: KeyError('taps')")


# -- counters of each call --------------------------------------------------------------------


def test_calls_of_coroutines_count_for_the_ranges_of_their_own_task(rv32: Board) -> None:
    def alone(count: int) -> int:
        report = rv32.profile("sum", [1] * count, count, metrics=["instructions"], repeat=1)
        found = report.calls[0]["instructions"]
        assert isinstance(found, Count)
        return found.value

    @record_function("A")
    async def a() -> None:
        await asyncio.sleep(0.01)
        rv32.functions.sum([1] * 3, 3)
        await asyncio.sleep(0.1)

    @record_function("B")
    async def b() -> None:
        await asyncio.sleep(0.05)
        rv32.functions.sum([1] * 50, 50)
        await asyncio.sleep(0.1)
        await asyncio.to_thread(rv32.functions.sum, [1] * 7, 7)

    async def both() -> None:
        await asyncio.wait_for(asyncio.gather(a(), b()), 60)

    with profile(metrics="instructions") as prof, record_function("both"):
        asyncio.run(both())
    counts = {e.name: e.metric_total("instructions") for e in prof.events() if e.kind == "range"}
    three, fifty, seven = map(alone, (3, 50, 7))
    assert counts == {
        "A": Count(three),
        "B": Count(fifty + seven),
        "both": Count(three + fifty + seven),
    }
    rows = {row.key: row.metric("instructions") for row in prof.key_averages()}
    assert rows["A"] == three
    assert prof.diagnostics == ()


def test_a_function_without_a_result_is_counted_as_a_measurement_counts_it(rv32: Board) -> None:
    report = rv32.profile("fir", named=fir_arguments(), metrics=["instructions"], repeat=1)
    exact = report.calls[0]["instructions"]
    assert isinstance(exact, Count)
    with profile(metrics=["instructions", "ticks"]) as prof:
        arguments = fir_arguments()
        for _ in range(3):
            assert rv32.functions.fir(**arguments) is None
        again = rv32.profile("fir", named=fir_arguments(), metrics=["instructions"], repeat=5)
    # y += x[i] + 10 x[i + 1], once in each of three calls
    assert arguments["y"].tolist() == [3 * value for value in (21, 32, 43, 54)]
    *calls, measured = prof.events()
    assert [e.metrics["instructions"] for e in calls] == [exact] * 3
    assert not any(e.is_raw for e in calls)
    assert measured.key == "profile(fir)"
    assert measured.metrics == {"instructions": Count(5 * exact.value)}
    assert {row["instructions"] for row in again.calls} == {exact}
    assert measured.args == {"repeat": 5, "number": 1, "warmup": 10}


def test_a_function_with_a_result_is_counted_alone_and_called_once(rv32: Board) -> None:
    (row,) = rv32.profile("sum", [1, 2], 2, metrics=["instructions"], repeat=1).calls
    with profile(metrics=["instructions"]) as prof:
        assert rv32.functions.sum([1, 2], 2) == 3
        assert rv32.functions.same_i16(-5) == -5
        assert rv32.functions.same_f32(0.5) == 0.5
        assert rv32.functions.same_u64(1 << 63) == 1 << 63
    assert prof.events()[0].metrics == {"instructions": row["instructions"]}
    assert not any(event.is_raw for event in prof.events())
    assert "raw" not in prof.key_averages().table()


def test_within_another_profile_a_function_is_counted_in_a_window_and_marked(rv32: Board) -> None:
    (row,) = rv32.profile("sum", [1, 2], 2, metrics=["instructions"], repeat=1).calls
    with profile(metrics=["instructions"]) as outer, profile(metrics=["instructions"]) as inner:
        assert rv32.functions.sum([1, 2], 2) == 3
    (event,), (within,) = outer.events(), inner.events()
    assert within.metrics == {"instructions": row["instructions"]}  # the inner one makes the call
    assert event.is_raw
    raw, exact = event.metrics["instructions"], row["instructions"]
    assert isinstance(raw, Count)
    assert isinstance(exact, Count)
    assert raw.value > exact.value
    table = outer.key_averages().table()
    assert f"~{raw.value:,}" in table
    assert "~ raw: " in table


def test_programmable_counters_count_the_same_behind_a_measurement_of_others(rv32: Board) -> None:
    event = "riscv_hpm.instructions"
    with profile(metrics=[event]) as prof:
        rv32.functions.a_right()
        rv32.profile("a_right", metrics=["iTLB-load-misses"], repeat=1)
        rv32.functions.a_right()
    first, measured, last = prof.events()
    assert list(first.metrics) == list(last.metrics) == [event]
    assert measured.metrics == {}
    counts = [e.metrics[event] for e in (first, last)]
    assert counts[0] == counts[1]
    assert counts[0] != Count(0)


def test_what_one_board_does_not_count_another_one_does(native: Board, rv32: Board) -> None:
    with profile(metrics=["instructions", "page-faults"]) as prof:
        native.functions.a_right()
        rv32.functions.a_right()
    assert [list(e.metrics) for e in prof.events()] == [["page-faults"], ["instructions"]]
    assert prof.diagnostics[:2] == (
        "instructions is not counted on native: it has no metric with that name",
        "page-faults is not counted on qemu-rv32: it has no metric with that name",
    )


def test_each_board_counts_what_is_named_for_it(native: Board, rv32: Board) -> None:
    by_board = {"native": ["page-faults"], "qemu-rv32": ["instructions"]}
    with profile(experimental_config={"metrics": by_board}) as prof:
        native.functions.a_right()
        rv32.functions.a_right()
    assert [list(e.metrics) for e in prof.events()] == [["page-faults"], ["instructions"]]
    assert not any("not counted" in told for told in prof.diagnostics)


def test_metrics_for_a_board_that_is_not_called_are_warned_of(native: Board) -> None:
    told = r"Settings are named for qemu-rv32, but no board of that name was called\."
    with (
        pytest.warns(UserWarning, match=told),
        profile(metrics={"qemu-rv32": ["instructions"]}) as prof,
    ):
        native.functions.a_right()
    assert [list(e.metrics) for e in prof.events()] == [[]]


def test_metrics_for_a_board_that_does_not_exist_are_refused() -> None:
    told = r"There is no board 'qemu-rv23'; did you mean 'qemu-rv32'\?"
    with pytest.raises(UnknownNameError, match=told):
        profile(experimental_config={"metrics": {"qemu-rv23": ["instructions"]}})


def test_metrics_are_named_for_a_connected_board_that_has_no_folder() -> None:
    spec = replace(board_spec("native"), name="bench-3")
    image = build(spec, SOURCES).image
    with (
        connect(spec, image=image) as board,
        profile(metrics={"bench-3": ["page-faults"]}) as prof,
    ):
        board.functions.a_right()
    assert [list(e.metrics) for e in prof.events()] == [["page-faults"]]


def test_boards_of_one_name_at_two_ports_are_two(tmp_path: Path) -> None:
    with (
        running_agent(SOURCES[0]) as (_, here),
        running_agent(SOURCES[0]) as (_, there),
        connect(port=here) as first,
        connect(port=there) as second,
        profile(metrics=["duration_time", "tocks"]) as prof,
        warnings.catch_warnings(),
    ):
        for board in (first, second, first):
            board.functions.fir(**fir_arguments())
            board.functions.fir(**fir_arguments())
        warnings.simplefilter("ignore")  # nobody has tocks
        prof.stop()
    assert [(a.board, a.count) for a in prof.key_averages()] == [("linux", 4), ("linux (2)", 2)]
    assert [told.partition(":")[0] for told in prof.diagnostics] == [
        "tocks is not counted on linux",
        "tocks is not counted on linux (2)",
    ]
    assert list(processes(exported(prof, tmp_path)).values())[1:] == ["linux", "linux (2)"]


def test_a_board_that_has_none_of_the_metrics_is_called_without(native: Board, rv32: Board) -> None:
    with profile(metrics=["page-faults"]) as prof:
        rv32.functions.a_right()
        native.functions.a_right()
    assert [list(e.metrics) for e in prof.events()] == [[], ["page-faults"]]


def test_what_no_board_counts_is_warned_of_at_the_end(rv32: Board) -> None:
    wanted = (
        r"No board that was called counts cycles, tocks \(qemu-rv32: QEMU has no cycle model: "
        r"mcycle counts instructions; qemu-rv32: it has no metric with that name\); "
    )
    with (
        pytest.warns(UserWarning, match=wanted) as warned,
        profile(metrics=["cycles", "tocks"]) as prof,
    ):
        rv32.functions.a_right()
    assert [each.filename for each in warned] == [__file__]
    assert [dict(e.metrics) for e in prof.events()] == [{}]
    assert OBSERVERS == []


def test_without_windows_functions_with_a_result_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "native"
    shutil.copytree(board_spec("native").folder, folder)
    file = folder / "board.toml"
    file.write_text(file.read_text().replace("open_windows = 8", "open_windows = 0"))
    spec = load_board(folder)
    image = build(spec, SOURCES).image
    with connect(spec, image=image) as native, profile(metrics=["duration_time"]) as prof:
        native.functions.a_right()
        with pytest.raises(NotSupportedByAgentError, match="not supported by this agent"):
            native.functions.same_i8(1)
        native.functions.a_right()
    assert [e.name for e in prof.events()] == ["a_right", "a_right"]


def test_a_measurement_counts_its_calls_and_means_are_for_one(rv32: Board) -> None:
    with profile(metrics=["instructions"]) as prof:
        rv32.functions.fir(**fir_arguments())
        rv32.profile("fir", named=fir_arguments(), repeat=4, number=5, warmup=3)
    call, measured = prof.key_averages()
    assert (call.key, call.count) == ("fir", 1)
    assert (measured.key, measured.count) == ("profile(fir)", 20)
    # A loop of 5 calls has less to correct each of them by than one call has.
    exact = call.metric("instructions")
    assert measured.metric("instructions") == pytest.approx(exact, rel=0.05)
    assert measured.cpu_time == measured.cpu_time_total / 20
    assert [e.name for e in prof.events()] == ["fir", "profile(fir)"]
    assert prof.events()[1].metrics["instructions"] == Count(
        round(20 * measured.metric("instructions"))
    )


def test_what_another_profile_within_programs_anew_is_not_known(rv32: Board) -> None:
    event = "riscv_hpm.instructions"
    with profile(metrics=[event]) as alone:
        rv32.functions.a_right()
    with profile(metrics=["iTLB-load-misses"]) as outer, profile(metrics=[event]) as inner:
        rv32.functions.a_right()
    assert inner.events()[0].metrics == alone.events()[0].metrics
    assert outer.events()[0].metrics == {}
    why = "a profile within this one has reprogrammed the counters"
    assert outer.events()[0].args == {"not counted": why}


# -- the board's clock ------------------------------------------------------------------------


def test_a_real_clock_stands_on_the_hosts_time(native: Board, tmp_path: Path) -> None:
    with profile(metrics=["duration_time"]) as prof:
        native.functions.fir(**long_fir_arguments())
        native.profile("fir", named=fir_arguments(), repeat=4, warmup=1)
        with profile(metrics=["duration_time"]):
            native.functions.same_i8(1)
    call, measured, window = prof.events()
    assert [len(e.device_spans) for e in prof.events()] == [1, 4, 1]
    for event in prof.events():
        before = event.start_ns
        for span in event.device_spans:
            assert span.start_ns is not None
            assert span.error_ns is not None
            assert span.start_ns >= before - span.error_ns
            before = span.start_ns
        assert before <= event.end_ns + span.error_ns
    assert call.device_time_total is not None
    assert 0 < call.device_time_total < call.cpu_time_total
    assert measured.device_time_total is not None
    assert window.device_time_total is None  # there is more in it than the function
    trace = exported(prof, tmp_path)
    assert [re.sub(r"\d+", "N", name) for name in processes(trace).values()] == [
        "host, process N",
        "native",
    ]
    samples = [e for e in trace["traceEvents"] if e.get("cat") == "sample"]
    assert len(samples) == 5
    assert prof.diagnostics == ()


def test_calls_have_a_time_on_the_board_where_duration_is_among_the_metrics(native: Board) -> None:
    with profile() as without:
        native.functions.a_right()
        native.profile("fir", named=fir_arguments(), repeat=4, number=5)
    call, measured = without.key_averages()
    assert (call.device_time, call.events[0].untimed) == (
        None,
        'its clock was not read; metrics="duration" reads it',
    )
    assert measured.device_time_total is not None
    assert measured.device_time == measured.device_time_total / 20
    last = without.key_averages().table().splitlines()[-1]
    assert last.startswith(
        'No BOARD time for 1 call on native: its clock was not read; metrics="du'
    )
    with profile(metrics="duration") as prof:
        native.functions.a_right()
    (average,) = prof.key_averages()
    assert average.device_time == average.metric("Duration (us)")
    assert "No BOARD time" not in prof.key_averages().table()


def test_calls_on_a_simulated_clock_say_that_it_tells_no_time(rv32: Board) -> None:
    with profile() as prof:
        rv32.functions.a_right()
    assert prof.events()[0].untimed == "its clock is simulated and does not measure time"
    with profile(activities=[ProfilerActivity.CPU]) as host:
        rv32.functions.a_right()
    assert host.events()[0].untimed == ""


def test_a_simulated_clock_has_a_track_of_its_own_that_says_so(rv32: Board, tmp_path: Path) -> None:
    with profile(metrics=["ticks"]) as prof:
        rv32.functions.a_right()
        rv32.profile("a_right", metrics=["ticks"], repeat=2)
    assert all(e.device_time_total is None for e in prof.events())
    assert prof.diagnostics == (
        "3 stretches on qemu-rv32 have no place on the host's time: its clock is "
        "simulated, and runs by the emulator's own time",
    )
    trace = exported(prof, tmp_path)
    assert trace["diagnostics"] == list(prof.diagnostics)
    (own,) = [pid for pid, name in processes(trace).items() if name.startswith("qemu-rv32, ticks")]
    on_board = [e for e in trace["traceEvents"] if e["pid"] == own and e["ph"] == "X"]
    assert len(on_board) == 3
    assert on_board[0]["ts"] == 0.0
    begins = [e["args"]["first tick"] for e in on_board]
    assert begins == sorted(begins)
    # At 10 MHz a tick is 0.1 us of the emulator's time.
    assert [e["ts"] for e in on_board] == [round((b - begins[0]) / 10, 3) for b in begins]


def test_activities_choose_what_is_recorded(native: Board, tmp_path: Path) -> None:
    for activity, lanes in (
        (ProfilerActivity.CPU, ["host, process N"]),
        (ProfilerActivity.BOARD, ["native"]),
    ):
        with profile(activities=[activity]) as prof, record_function("range"):
            native.profile("a_right", repeat=2)
        trace = exported(prof, tmp_path)
        names = [re.sub(r"\d+", "N", name) for name in processes(trace).values()]
        assert names == lanes


# -- functions within calls -------------------------------------------------------------------

HALVES = """\
#include <stdint.h>
__attribute__((noinline)) static int32_t half(int32_t x) { return x / 2; }
void halve(int32_t *a, uint32_t n) { for (uint32_t i = 0; i < n; i++) a[i] = half(a[i]); }
void wide(int64_t *a, uint32_t n) { for (uint32_t i = 0; i < n; i++) a[i] = a[i] / n; }
"""


def test_with_stack_averages_and_stacks_have_the_functions_within_calls(tmp_path: Path) -> None:
    source = tmp_path / "halves.c"
    source.write_text(HALVES)
    spec = available("qemu-rv32")
    values = np.arange(16, dtype=np.int32)
    with build(spec, [source]).open() as board:
        counted = board.profile("halve", values.copy(), 16).calls[0]["instructions"].value
        with profile(with_stack=True) as prof, record_function("step"):
            board.functions.halve(values, 16)
            board.functions.wide(np.arange(4, dtype=np.int64), 3)
            board.functions.wide(np.arange(4, dtype=np.int64), 3)
    assert values.tolist() == [x // 2 for x in range(16)]  # once: the recorded call has a copy
    assert [event.name for event in prof.events()] == ["step", "halve", "wide", "wide"]
    rows = {each.key: each for each in prof.key_averages()}
    assert rows["halve"].metric("instructions") == counted
    assert (rows["half"].count, rows["half"].kind) == (16, "function")
    assert rows["__divdi3"].count == 2 * 3
    table = prof.key_averages(group_by_stack_n=2).table()
    assert "halves.c:3 (halve) < step" in table
    assert re.search(r"(?m)^half .* halves\.c:2 ", table)
    line = next(text for text in table.splitlines() if text.startswith("half "))
    assert line.split()[1:3] == ["--", "--"]  # no time of the host's
    prof.export_stacks(tmp_path / "stacks.txt", "instructions")
    lines = dict(text.rsplit(" ", 1) for text in (tmp_path / "stacks.txt").read_text().splitlines())
    whole = "step;halves.c:3_(halve)"
    halves = [int(lines[name]) for name in (whole, f"{whole};halves.c:2_(half)")]
    assert sum(halves) == counted
    assert any(re.fullmatch(r"step;halves\.c:4_\(wide\);.*__divdi3\)?", each) for each in lines)
    prof.export_chrome_trace(tmp_path / "trace.json")
    entries = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    stacks = {
        each["name"]: each.get("args", {}).get("Call stack") for each in entries if "cat" in each
    }
    assert stacks["halve"] == "halves.c:3 (halve);step"
    assert stacks["step"] is None
    assert prof.diagnostics == ()
    assert OBSERVERS == []


STATE = """\
#include <stdint.h>
static int32_t sums[8], ready, seen;
__attribute__((noinline)) static void fill(void) {
    for (int i = 0; i < 8; i++) sums[i] = i * seen;
    ready = 1;
}
int32_t step(int32_t i) { if (!ready) fill(); return sums[i & 7]; }
int32_t grow(void) {
    int32_t s = 0;
    for (int i = 0; i < seen; i++) s += sums[i & 7];
    seen += 3;
    return s;
}
void plain(int32_t *a, uint32_t n) { for (uint32_t i = 0; i < n; i++) a[i] += sums[i & 7]; }
"""


@pytest.mark.parametrize("metrics", [["instructions"], None])
def test_with_stack_a_call_whose_recording_did_other_work_keeps_its_own_count(
    metrics: list[str] | None, tmp_path: Path
) -> None:
    source = tmp_path / "state.c"
    source.write_text(STATE)
    spec = available("qemu-rv32")
    with build(spec, [source]).open() as board:
        for _ in range(3):
            board.functions.grow()
        with profile(with_stack=True, metrics=metrics) as prof:
            board.functions.step(1)
            board.functions.step(1)
            board.functions.grow()
            board.functions.plain(np.arange(4, dtype=np.int32), 4)
    own, recorded = [], []
    for event in prof.events():
        counted = event.metrics["instructions"]
        assert isinstance(counted, Count)
        assert event.profile is not None
        own.append(counted.value)
        recorded.append(event.profile.sum("instructions"))
    # The recorded calls come after one other call: `fill` has run, and `grow` adds three.
    assert own[0] > own[1] == recorded[0] == recorded[1]
    assert own[2] > recorded[2]
    assert own[3] == recorded[3]
    assert [bool(event.profile_differs) for event in prof.events()] == [True, False, True, False]
    assert prof.diagnostics == tuple(
        f"the functions within {name} on qemu-rv32 are not known: a second call was made to "
        f"record them, and did other work: this one took {own[i]} instructions, and the recorded "
        f"one {recorded[i]}"
        for i, name in ((0, "step"), (2, "grow"))
    )
    prof.export_stacks(tmp_path / "stacks.txt", "instructions")
    lines = (tmp_path / "stacks.txt").read_text().splitlines()
    assert sum(int(line.rsplit(" ", 1)[1]) for line in lines) == sum(own)


def test_with_stack_functions_in_this_process_run_once_more_under_callgrind(tmp_path: Path) -> None:
    requires_tool("valgrind", "valgrind")
    source = tmp_path / "halves.c"
    source.write_text(HALVES.replace("x / 2", "x / BY"))
    values = np.arange(16, dtype=np.int32)
    firmware = boardprof.build(source, board="native", define=["BY=2"])
    with firmware.open() as board, profile(with_stack=True) as prof:
        board.functions.halve(values, 16)
    assert values.tolist() == [x // 2 for x in range(16)]  # once
    rows = {each.key: each for each in prof.key_averages()}
    assert [(each.board, each.count) for each in rows.values()] == [("native", 1), ("native", 16)]
    assert (rows["half"].kind, rows["half"].source) == ("function", "halves.c:2")
    assert rows["halve"].metric("instructions") > 16 * 2  # type: ignore[operator]
    assert prof.diagnostics == (
        "the functions within calls on native are those of second calls with the same arguments; "
        "a function that keeps a state may do other work in them",
    )


def test_with_stack_a_board_that_cannot_record_says_why() -> None:
    with build(available("native"), SOURCES).open() as native, profile(with_stack=True) as prof:
        native.functions.sum(np.arange(4, dtype=np.int32), 4)
    (told,) = prof.diagnostics
    assert told.startswith("the functions within calls on native are not known: ")
    assert "take -b linux" in told
    (row,) = prof.key_averages()
    assert row.kind == "call"
    assert row.source == "kernels.c:24"  # file and line are known all the same
