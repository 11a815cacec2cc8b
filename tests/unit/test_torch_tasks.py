# SPDX-License-Identifier: Apache-2.0
"""Ranges in coroutines: those of one task are nothing to another, however their times lie."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boardprof import itt
from boardprof.base.errors import UsageError
from boardprof.compat.torch.events import FunctionEvent
from boardprof.compat.torch.export import lanes_of
from boardprof.compat.torch.host_events import open_here, record_function
from boardprof.compat.torch.profiler import profile
from boardprof.compat.torch.settings import ProfilerAction

S, N = ProfilerAction.RECORD_AND_SAVE, ProfilerAction.NONE


def parents(prof: profile) -> dict[str, str | None]:
    """Return in which event each stands, by name."""
    return {e.name: None if e.cpu_parent is None else e.cpu_parent.name for e in prof.events()}


def by_name(prof: profile) -> dict[str, FunctionEvent]:
    return {event.name: event for event in prof.events()}


async def in_turn(*tasks: Coroutine[Any, Any, object]) -> None:
    """Run tasks beside each other; `asyncio.sleep(0)` gives the turn to the next."""
    await asyncio.wait_for(asyncio.gather(*tasks), 10)


def two_tasks() -> Awaitable[None]:
    """A range each, A around all of B's time but its end, and one within each."""

    @record_function("A")
    async def a() -> None:
        await asyncio.sleep(0)
        with record_function("in A"):
            await asyncio.sleep(0)
        await asyncio.sleep(0)

    @record_function("B")
    async def b() -> None:
        with record_function("in B"):
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    return in_turn(a(), b())


async def main_of(awaited: Awaitable[object]) -> None:
    with record_function("main"):
        await awaited


def test_what_a_task_does_stands_in_its_own_ranges() -> None:
    with profile() as prof:
        asyncio.run(main_of(two_tasks()))
    assert parents(prof) == {
        "main": None,
        "A": "main",
        "B": "main",
        "in A": "A",
        "in B": "B",
    }
    # B lies within A, and so do the times of both in each other's.
    found = by_name(prof)
    assert found["A"].start_ns < found["B"].start_ns < found["B"].end_ns < found["A"].end_ns


def test_a_range_has_for_its_own_what_none_of_the_tasks_in_it_takes() -> None:
    with profile() as prof:
        asyncio.run(main_of(two_tasks()))
    found = by_name(prof)
    main, a, inner = found["main"], found["A"], found["in A"]
    # A is around B: together they take what A takes.
    assert main.self_cpu_time_total == pytest.approx(main.cpu_time_total - a.cpu_time_total)
    assert a.self_cpu_time_total == pytest.approx(a.cpu_time_total - inner.cpu_time_total)


def test_slices_of_an_exported_trace_nest_as_the_events_do(tmp_path: Path) -> None:
    with profile() as prof:
        asyncio.run(main_of(two_tasks()))
    prof.export_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    slices = [e for e in events if e["ph"] == "X"]
    lanes = {e["name"]: e["tid"] for e in slices}
    assert lanes == {"main": 1, "A": 1, "in A": 1, "B": 2, "in B": 2}
    around = {
        inner["name"]: [
            outer["name"]
            for outer in slices
            if outer is not inner
            and outer["tid"] == inner["tid"]
            and outer["ts"] <= inner["ts"]
            and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"]
        ]
        for inner in slices
    }
    assert around == {
        "main": [],
        "A": ["main"],
        "B": [],
        "in A": ["main", "A"],
        "in B": ["B"],
    }


@given(st.lists(st.lists(st.booleans(), max_size=8), min_size=1, max_size=4))
def test_tasks_of_any_ranges_know_their_own_and_never_share_a_lane(
    programs: list[list[bool]],
) -> None:
    expected: dict[str, str] = {}

    async def task(number: int, program: list[bool]) -> None:
        """Open a range for True, and close the innermost for False; take turns between."""
        mine: list[record_function] = []
        for place, is_opened in enumerate(program):
            if is_opened:
                name = f"{number}.{place}"
                expected[name] = mine[-1].name if mine else "main"
                mine.append(record_function(name))
                mine[-1].__enter__()
            elif mine:
                mine.pop().__exit__(None, None, None)
            await asyncio.sleep(0)
        while mine:
            mine.pop().__exit__(None, None, None)

    with profile() as prof:
        asyncio.run(main_of(in_turn(*map(task, range(len(programs)), programs))))
    found = parents(prof)
    assert found.pop("main") is None
    assert found == expected
    lanes = lanes_of(prof.events())
    for inner, outer in permutations(prof.events(), 2):
        if lanes[inner] == lanes[outer] and outer.start_ns <= inner.start_ns < outer.end_ns:
            assert outer.name in inner.stack


def test_a_mark_stands_on_the_lane_of_its_own_task(tmp_path: Path) -> None:
    async def marks(name: str) -> None:
        with record_function(name):
            await asyncio.sleep(0)
            itt.mark(f"of {name}")
            await asyncio.sleep(0)

    with profile() as prof:
        asyncio.run(in_turn(marks("A"), marks("B")))
    prof.export_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    lanes = {e["name"]: e["tid"] for e in events if e["ph"] != "M"}
    assert lanes == {"A": 1, "B": 2, "of A": 1, "of B": 2}


def test_a_task_has_the_ranges_that_were_open_when_it_was_made_and_no_later_ones() -> None:
    async def work(name: str) -> None:
        await asyncio.sleep(0)
        with record_function(name):
            pass

    async def main() -> None:
        with record_function("outer"):
            first = asyncio.create_task(work("made in outer"))
            with record_function("inner"):
                second = asyncio.create_task(work("made in inner"))
                await first
            with record_function("later"):
                await second

    with profile() as prof:
        asyncio.run(main())
    assert parents(prof) == {
        "outer": None,
        "inner": "outer",
        "made in outer": "outer",
        "made in inner": "inner",
        "later": "outer",
    }


def test_a_task_that_outlives_the_range_that_made_it_stands_in_it_no_longer() -> None:
    async def work() -> None:
        for name in ("before", "across", "behind"):
            with record_function(name):
                await asyncio.sleep(0)

    async def main() -> None:
        with record_function("around"):
            task = asyncio.create_task(work())
            for _ in range(2):
                await asyncio.sleep(0)
        await task

    with profile() as prof:
        asyncio.run(main())
    assert parents(prof) == {"around": None, "before": "around", "across": None, "behind": None}


def test_one_range_object_in_two_tasks_ends_in_each_what_began_there() -> None:
    shared = record_function("shared")

    async def uses(name: str, turns: int) -> None:
        with record_function(name), shared:
            for _ in range(turns):
                await asyncio.sleep(0)

    with profile() as prof:
        asyncio.run(in_turn(uses("long", 5), uses("short", 1)))
    found = [(e.name, None if e.cpu_parent is None else e.cpu_parent.name) for e in prof.events()]
    assert found == [("long", None), ("shared", "long"), ("short", None), ("shared", "short")]


def test_a_shared_range_object_that_began_before_the_profile_ends_nothing_in_it() -> None:
    shared, prof = record_function("shared"), profile()

    async def before() -> None:
        with shared:
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    async def within() -> None:
        prof.start()
        with shared:
            for _ in range(4):
                await asyncio.sleep(0)
        with record_function("behind"):
            prof.stop()

    asyncio.run(in_turn(before(), within()))
    found = [(e.name, e.is_unfinished) for e in prof.events()]
    assert found == [("shared", False), ("behind", True)]
    first, behind = prof.events()
    assert first.end_ns <= behind.start_ns


def test_pushed_ranges_are_those_of_their_task() -> None:
    depths: dict[str, list[int]] = {}

    async def pushes(name: str) -> None:
        found = depths.setdefault(name, [])
        found.append(itt.range_push(name))
        await asyncio.sleep(0)
        with itt.range("in {}", name):
            found.append(itt.range_push(f"inmost in {name}"))
            await asyncio.sleep(0)
            found.append(itt.range_pop())
        found.append(itt.range_pop())
        # What is open in the task that made this one is not for it to end.
        with pytest.raises(UsageError, match="this thread or task has no open range"):
            itt.range_pop()

    async def main() -> None:
        assert itt.range_push("main") == 0
        await in_turn(pushes("A"), pushes("B"))
        assert itt.range_pop() == 0

    with profile() as prof:
        asyncio.run(main())
    assert depths == {"A": [0, 2, 2, 0], "B": [0, 2, 2, 0]}
    assert parents(prof) == {
        "main": None,
        "A": "main",
        "B": "main",
        "in A": "A",
        "in B": "B",
        "inmost in A": "in A",
        "inmost in B": "in B",
    }


def test_many_ranges_that_are_never_popped_stand_in_one_another() -> None:
    with profile() as prof:
        for n in range(1000):
            itt.range_push(str(n))
    for _ in range(1000):
        itt.range_pop()
    assert parents(prof) == {"0": None} | {str(n): str(n - 1) for n in range(1, 1000)}


def test_a_thread_that_is_given_the_context_has_its_ranges() -> None:
    def work() -> None:
        with record_function("in the thread"):
            pass

    async def main() -> None:
        with record_function("A"):
            await asyncio.to_thread(work)
            await asyncio.get_running_loop().run_in_executor(None, other)

    def other() -> None:
        with record_function("in an executor"):
            pass

    with profile() as prof:
        asyncio.run(main())
    assert parents(prof) == {"A": None, "in the thread": "A", "in an executor": None}
    threads = {e.name: e.thread.name for e in prof.events()}
    assert threads["A"] != threads["in the thread"]


def test_a_step_holds_what_all_tasks_do_within_it() -> None:
    async def work() -> None:
        for name in ("in 0", "in 1"):
            with record_function(name):
                pass
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    async def main() -> None:
        task = asyncio.create_task(work())
        with profile(schedule=saved(2), acc_events=True) as prof:
            await asyncio.sleep(0)
            prof.step()
            with record_function("own"):
                await task
            prof.step()
        traces.append(prof)

    traces: list[profile] = []
    asyncio.run(main())
    assert parents(traces[0]) == {
        "ProfilerStep#0": None,
        "in 0": "ProfilerStep#0",
        "ProfilerStep#1": None,
        "own": "ProfilerStep#1",
        "in 1": "ProfilerStep#1",
    }


def saved(count: int) -> Callable[[int], ProfilerAction]:
    """A schedule that makes a trace of each of the first steps."""
    return lambda step: S if step < count else N


def test_a_step_that_another_task_ends_goes_on_to_the_next() -> None:
    async def main() -> None:
        prof = profile(schedule=saved(2), acc_events=True)
        traces.append(prof)
        prof.start()

        async def steps() -> None:
            prof.step()

        await asyncio.create_task(steps())
        with record_function("own"):
            pass
        prof.step()
        prof.stop()

    traces: list[profile] = []
    asyncio.run(main())
    assert parents(traces[0]) == {
        "ProfilerStep#0": None,
        "ProfilerStep#1": None,
        "own": "ProfilerStep#1",
    }
    assert traces[0].diagnostics == ()


def test_a_generators_range_stands_in_its_callers_and_goes_on_between_its_turns() -> None:
    def turns() -> Generator[None, None, None]:
        with record_function("generator"):
            yield
            with record_function("in it"):
                pass
            yield

    with profile() as prof, record_function("around"):
        made = turns()
        with record_function("first"):
            next(made)
        with record_function("second"):
            next(made)
        made.close()
        with record_function("behind"):
            pass
    assert parents(prof) == {
        "around": None,
        "first": "around",
        "generator": "around",  # not in the first, which ends before it
        "second": "generator",
        "in it": "second",
        "behind": "around",
    }


def test_an_asynchronous_generator_that_another_task_closes_ends_its_range() -> None:
    async def turns() -> AsyncGenerator[None, None]:
        with record_function("generator"):
            yield

    async def main() -> None:
        made = turns()
        await anext(made)
        await asyncio.create_task(made.aclose())
        with record_function("behind"):
            pass

    with profile() as prof:
        asyncio.run(main())
    assert parents(prof) == {"generator": None, "behind": None}
    assert prof.diagnostics == ()


def test_what_has_ended_is_not_kept_for_what_comes_behind() -> None:
    with record_function("around"):
        for _ in range(3):
            with record_function("each"):
                pass
        (around,) = open_here()
        assert around.around is None
        # Nothing is between the next one and the range around it.
        with record_function("next"):
            assert [each.around for each in open_here()] == [around, None]
    assert list(open_here()) == []
