# SPDX-License-Identifier: Apache-2.0
"""The profile's steps: what each passage between two actions does, and when a trace is ready."""

from __future__ import annotations

import asyncio
import contextlib
import linecache
import threading
import time
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

import pytest

from boardprof.base.errors import UnknownNameError, UsageError
from boardprof.compat.torch.export import tensorboard_trace_handler
from boardprof.compat.torch.host_events import RECORDINGS, record_function
from boardprof.compat.torch.profiler import profile
from boardprof.compat.torch.settings import (
    ProfilerAction,
    ProfilerActivity,
    schedule,
)
from boardprof.measure.board.board import OBSERVERS
from tests.memory_session import connected

N, W, R, S = ProfilerAction


def listed(*actions: ProfilerAction) -> Callable[[int], ProfilerAction]:
    """A schedule as a list."""
    return lambda step: actions[step]


def ranges(prof: profile) -> list[str]:
    return [event.name for event in prof.events() if event.kind == "range"]


class Ready:
    """Notes each trace that is ready: the step's number, and the ranges in it."""

    def __init__(self) -> None:
        self.traces: list[tuple[int, list[str]]] = []

    def __call__(self, prof: profile) -> None:
        self.traces.append((prof.step_num, ranges(prof)))


def play(actions: Sequence[ProfilerAction]) -> tuple[Ready, list[bool]]:
    """Run a step for each action, with a range in it; return also in which steps calls are watched.

    No warning is let through.
    """
    ready, watched = Ready(), []
    with profile(schedule=listed(*actions), on_trace_ready=ready) as prof:
        for step in range(len(actions)):
            with record_function(f"in {step}"):
                watched.append(bool(OBSERVERS))
            if step + 1 < len(actions):
                prof.step()
    assert OBSERVERS == []
    assert RECORDINGS == []
    return ready, watched


@pytest.mark.parametrize(
    ("actions", "traces", "watched"),
    [
        # The trace is ready in the step() behind the last recorded step, whose number is one more.
        ((N, W, R, S, N, N), [(4, ["in 2", "in 3"])], "nyyynn"),
        ((S, N), [(1, ["in 0"])], "yn"),
        ((S, W, S, N), [(1, ["in 0"]), (3, ["in 2"])], "yyyn"),
        ((S, R, S, N), [(1, ["in 0"]), (3, ["in 1", "in 2"])], "yyyn"),
        ((S, S, N), [(1, ["in 0"]), (2, ["in 1"])], "yyn"),
        ((N, N), [], "nn"),
        ((N, S, N), [(2, ["in 1"])], "nyn"),
        ((W, W, S, N), [(3, ["in 2"])], "yyyn"),
        # At the end it is ready while recording, complete or not, and thrown away while warming up.
        ((R,), [(0, ["in 0"])], "y"),
        ((R, S), [(1, ["in 0", "in 1"])], "yy"),
        ((N, R, R), [(2, ["in 1", "in 2"])], "nyy"),
        ((N, W), [], "ny"),
        ((W,), [], "y"),
        ((N,), [], "n"),
    ],
)
def test_a_trace_is_ready_behind_the_step_that_saves_and_at_the_end(
    actions: tuple[ProfilerAction, ...], traces: list[tuple[int, list[str]]], watched: str
) -> None:
    ready, seen = play(actions)
    assert ready.traces == traces
    assert "".join("y" if each else "n" for each in seen) == watched


@pytest.mark.parametrize(
    ("actions", "message", "traces"),
    [
        ((W, N), "from WARMUP to NONE", []),
        ((R, N), "from RECORD to NONE", []),
        ((R, W, S, N), "from RECORD to WARMUP", [(3, ["in 2"])]),
    ],
)
def test_a_cycle_that_is_not_finished_is_thrown_away_with_a_warning(
    actions: tuple[ProfilerAction, ...], message: str, traces: list[tuple[int, list[str]]]
) -> None:
    with pytest.warns(UserWarning, match=f"{message}.*discarded"):
        ready, _ = play(actions)
    assert ready.traces == traces


def test_a_warning_stands_at_the_line_of_the_program() -> None:
    prof = profile(schedule=listed(R, N))
    prof.start()
    with pytest.warns(UserWarning, match="discarded") as warned:
        prof.step()
    prof.stop()
    assert [each.filename for each in warned] == [__file__]
    assert linecache.getline(__file__, warned[0].lineno).strip() == "prof.step()"


def test_a_warning_of_a_profile_in_an_exit_stack_stands_where_the_stack_ends() -> None:
    stack = contextlib.ExitStack()
    prof = stack.enter_context(profile(schedule=listed(R, N)))
    stack.callback(prof.step)
    with pytest.warns(UserWarning, match="discarded") as warned:
        stack.close()
    assert [each.filename for each in warned] == [__file__]


def test_without_a_schedule_all_is_one_trace_and_steps_have_no_ranges() -> None:
    ready = Ready()
    with profile(on_trace_ready=ready) as prof:
        prof.step()
        with record_function("a"):
            prof.step()
    assert ready.traces == [(2, ["a"])]
    assert [event.name for event in prof.events()] == ["a"]


def test_with_a_schedule_each_recorded_step_has_a_range_and_they_are_averaged_as_one() -> None:
    with profile(schedule=schedule(wait=1, warmup=1, active=2, repeat=1)) as prof:
        for _ in range(5):
            prof.step()
    assert [event.name for event in prof.events()] == ["ProfilerStep#2", "ProfilerStep#3"]
    (average,) = prof.key_averages()
    assert (average.key, average.count) == ("ProfilerStep*", 2)


def test_events_of_earlier_cycles_are_kept_only_if_asked_for() -> None:
    for keeps, expected in ((False, ["b"]), (True, ["a", "b"])):
        with profile(schedule=listed(S, S, N), acc_events=keeps) as prof:
            for name in "ab":
                with record_function(name):
                    pass
                prof.step()
        assert ranges(prof) == expected
        assert [event.id for event in prof.events()] == list(range(len(prof.events())))
        times = [event.time_range for event in prof.events()]
        assert all(0 <= time.start <= time.end for time in times)
        assert times == sorted(times)


def test_an_error_in_a_handler_is_raised_and_leaves_nothing_behind() -> None:
    def fails(_: profile) -> None:
        raise KeyError("handler")

    with pytest.raises(KeyError, match="handler"), profile(on_trace_ready=fails):
        pass
    prof = profile(schedule=listed(S, R, R), on_trace_ready=fails)
    with pytest.raises(KeyError, match="handler"), prof:
        prof.step()
    assert OBSERVERS == []
    assert RECORDINGS == []
    prof.stop()  # again, without another trace


def test_behind_an_error_in_a_handler_a_profile_goes_on() -> None:
    ready = Ready()

    def fails_first(prof: profile) -> None:
        ready(prof)
        if prof.step_num == 1:
            raise KeyError("handler")

    with profile(schedule=listed(S, S, N), on_trace_ready=fails_first) as prof:
        with record_function("a"):
            pass
        with pytest.raises(KeyError, match="handler"):
            prof.step()
        with record_function("b"):
            pass
        prof.step()
    assert ready.traces == [(1, ["a"]), (2, ["b"])]
    assert [event.name for event in prof.events()] == ["ProfilerStep#1", "b"]


def test_what_came_before_an_error_is_in_the_trace() -> None:
    ready = Ready()

    def run() -> None:
        with profile(on_trace_ready=ready), record_function("a"):
            raise ValueError("in the program")

    with pytest.raises(ValueError, match="in the program"):
        run()
    assert ready.traces == [(0, ["a"])]


def test_a_range_that_has_not_ended_is_cut_off_and_told() -> None:
    prof = profile()
    prof.start()
    around = record_function("endless")
    with around:
        prof.stop()
    (event,) = prof.events()
    assert event.is_unfinished
    assert event.end_ns >= event.start_ns
    assert prof.diagnostics == ("had not ended when the trace did, and are cut off there: endless",)


def test_another_profiles_end_does_not_end_a_range() -> None:
    outer, inner = profile(), profile()
    outer.start()
    inner.start()
    with record_function("a"):
        inner.stop()
        after_ns = time.monotonic_ns()
        outer.stop()
    (seen,) = outer.events()
    assert seen.is_unfinished
    assert seen.end_ns >= after_ns
    assert inner.events()[0].end_ns <= after_ns


def test_one_range_object_on_two_threads_ends_on_each_what_began_there() -> None:
    shared, inside, over = record_function("shared"), threading.Event(), threading.Event()

    def work() -> None:
        with shared:
            inside.set()
            assert over.wait(10)

    with profile() as prof:
        thread = threading.Thread(target=work, name="worker")
        with record_function("around"):
            with record_function("before"):
                thread.start()
                assert inside.wait(10)
            with shared:
                pass
        over.set()
        thread.join(10)
    by_thread = {(e.thread.name, e.name): e for e in prof.events()}
    ours, theirs = by_thread["MainThread", "shared"], by_thread["worker", "shared"]
    assert ours.end_ns <= by_thread["MainThread", "around"].end_ns <= theirs.end_ns


def test_a_range_that_began_before_is_not_in_the_trace() -> None:
    with record_function("before"), profile() as prof:
        pass
    assert list(prof.events()) == []


def test_ranges_nest_on_each_thread_by_itself() -> None:
    inside = threading.Event()

    def work() -> None:
        with record_function("theirs"):
            inside.set()

    with profile() as prof, record_function("ours"):
        thread = threading.Thread(target=work, name="worker")
        thread.start()
        assert inside.wait(10)
        thread.join(10)
    ours, theirs = sorted(prof.events(), key=lambda event: event.name)
    assert (ours.thread.name, theirs.thread.name) == ("MainThread", "worker")
    assert theirs.cpu_parent is None
    assert ours.cpu_children == []


def test_two_profiles_record_beside_each_other() -> None:
    with profile() as outer, record_function("a"), profile() as inner, record_function("b"):
        pass
    assert ranges(outer) == ["a", "b"]
    assert ranges(inner) == ["b"]


def test_a_function_can_be_decorated_and_call_itself() -> None:
    @record_function("factorial", "by recursion")
    def factorial(n: int) -> int:
        """Return n!."""
        return n * factorial(n - 1) if n else 1

    assert factorial.__doc__ == "Return n!."
    with profile() as prof:
        assert factorial(2) == 2
    assert [event.stack for event in prof.events()] == [
        (),
        ("factorial",),
        ("factorial", "factorial"),
    ]
    assert prof.events()[0].args == {"args": "by recursion"}


def test_a_coroutine_is_measured_until_it_has_returned() -> None:
    @record_function("sleeps")
    async def sleeps(duration_s: float) -> float:
        await asyncio.sleep(duration_s)
        return duration_s

    async def both() -> list[float]:
        return await asyncio.gather(sleeps(0.05), sleeps(0.1))

    with profile() as prof:
        assert asyncio.run(both()) == [0.05, 0.1]
    assert [event.cpu_time_total > 40_000 for event in prof.events()] == [True, True]


def test_a_generator_is_refused_since_its_call_does_nothing() -> None:
    def numbers() -> Iterator[int]:
        yield 1

    async def later() -> AsyncIterator[int]:
        yield 1

    for function in (numbers, later):
        with pytest.raises(UsageError, match=f"{function.__name__} is a generator") as refused:
            record_function("numbers")(function)
        assert refused.value.hint is not None


def test_an_error_that_ends_a_range_is_named() -> None:
    with profile() as prof:
        with pytest.raises(KeyError), record_function("fails"):
            raise KeyError("in it")
        with record_function("ends"):
            pass
    assert [event.error for event in prof.events()] == ["KeyError", ""]


def test_a_range_that_cannot_be_is_refused() -> None:
    with pytest.raises(UsageError, match="5 is not the name of a range"):
        record_function(5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="'x' cannot end: it has not begun"):
        record_function("x").__exit__(None, None, None)


def test_a_trace_has_the_name_that_the_callback_gave_it() -> None:
    names = iter(["first", "second"])
    with profile(schedule=listed(S, S), custom_trace_id_callback=lambda: next(names)) as prof:
        assert prof.get_trace_id() == "first"
        prof.step()
        assert prof.get_trace_id() == "second"


def test_what_boards_record_needs_boards() -> None:
    host = [ProfilerActivity.CPU]
    by_board = {"device_ranges": {"native": True}}
    for config, memory in (({"device_ranges": True}, False), (by_board, False), ({}, True)):
        with pytest.raises(UsageError, match="profile_memory and device_ranges record boards"):
            profile(activities=host, experimental_config=config, profile_memory=memory)


def test_a_memory_timeline_needs_memory_that_was_recorded() -> None:
    with pytest.raises(UsageError, match="needs memory that was recorded") as error:
        profile().export_memory_timeline("memory.json")
    assert error.value.hint == "profile(profile_memory=True)"


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(UsageError, match="no activity to record"):
        profile(activities=[])
    with pytest.raises(UsageError, match="'cpu' is not an activity"):
        profile(activities=["cpu"])  # type: ignore[list-item]
    with pytest.raises(UnknownNameError, match="'metric'; did you mean 'metrics'"):
        profile(experimental_config={"metric": ["ticks"]})
    with pytest.raises(UnknownNameError, match="setting of experimental_config") as unknown:
        profile(experimental_config={"verbose": True})
    assert "Known: metrics, device_ranges" in str(unknown.value)
    with pytest.raises(UsageError, match="given twice"):
        profile(experimental_config={"metrics": ["ticks"]}, metrics="ticks")
    with pytest.raises(UsageError, match="No metric is named"):
        profile(metrics=[])
    with pytest.raises(UsageError, match="No metric is named"):
        profile(metrics={"native": []})
    with pytest.raises(UsageError, match="metrics: 5 is not the name of a board"):
        profile(metrics={5: ["ticks"]})  # type: ignore[dict-item]
    for wrong in ("no", [0], 1, {"native": 1}):
        with pytest.raises(UsageError, match="is neither True nor False, nor a dict"):
            profile(experimental_config={"device_ranges": wrong})
    for name in ("metrics", "device_ranges"):
        with pytest.raises(UnknownNameError, match="no board 'nativ'; did you mean 'native'"):
            profile(experimental_config={name: {"nativ": ["ticks"]}})
    with pytest.raises(UsageError, match="device_ranges: 5 is not the name of a board"):
        profile(experimental_config={"device_ranges": {5: True}})
    with pytest.raises(UsageError, match="BOARD is not among"):
        profile(activities=[ProfilerActivity.CPU], metrics=["ticks"])
    for name in ("schedule", "on_trace_ready", "custom_trace_id_callback"):
        with pytest.raises(UsageError, match=f"{name}=3 cannot be called"):
            profile(**{name: 3})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="gave 'record' for step 0, which is not a ProfilerAction"):
        profile(schedule=lambda step: "record")  # type: ignore[arg-type,return-value]


def test_what_is_no_text_or_no_function_is_refused_at_once() -> None:
    with profile() as prof, record_function("a"):
        pass
    with pytest.raises(UsageError, match="'key' is not a string: 6"):
        prof.add_metadata("key", 6)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="5 is not a key of metadata"):
        prof.add_metadata(5, "value")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="dir_name=5"):
        tensorboard_trace_handler(5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="5 is not a function"):
        record_function("a")(5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="'half' is not a percentile"):
        prof.key_averages()[0].cpu_time_percentile("half")  # type: ignore[arg-type]
    assert prof.key_averages().table(header=5).startswith("5\n")  # type: ignore[arg-type]


def test_results_are_refused_while_there_are_none() -> None:
    prof = profile()
    for ask in (prof.events, prof.key_averages, lambda: prof.diagnostics):
        with pytest.raises(UsageError, match="No trace is ready"):
            ask()
    with pytest.raises(UsageError, match="is not running"):
        prof.step()
    with prof, pytest.raises(UsageError, match="already running"):
        prof.start()
    for grouped in (prof.key_averages, prof.events().key_averages, prof.events()[:1].key_averages):
        with pytest.raises(UsageError, match="no shapes were recorded"):
            grouped(group_by_input_shape=True)
    assert prof.profiler.events is not None


def test_ranges_cost_no_record_while_nothing_records() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with record_function("nobody looks") as range_:
            assert [each.record for each in range_._open] == [None]


def test_with_boards_alone_the_host_has_no_ranges() -> None:
    with profile(activities=[ProfilerActivity.BOARD]) as prof, record_function("a"):
        pass
    assert list(prof.events()) == []


# -- calls of a board, whose agent is in memory ------------------------------------------------


def test_what_is_called_and_measured_within_a_trace_returns_the_same_and_is_in_it() -> None:
    board, *_ = connected()
    assert board.functions.add(2, 3) == 5
    with profile() as prof:
        assert board.functions.add(2, 3) == 5
        measured = board.measure("work", metrics=["calls"], warmup=0, repeat=2)
    assert [each.readings["calls"].value for each in measured.samples] == [1, 1]
    kinds = [(event.name, event.kind) for event in prof.events()]
    assert kinds == [("add", "call"), ("profile(work)", "measurement")]
