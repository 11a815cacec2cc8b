# SPDX-License-Identifier: Apache-2.0
"""Whatever a board records, slices nest on their lanes, none is lost, and all ticks add up."""

from __future__ import annotations

import json
import re

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from boardprof.show.ctf import render_ctf
from boardprof.show.probe_files import (
    render_perfetto,
    render_probe_chrome,
    render_probe_collapsed,
    render_probe_page,
)
from boardprof.show.probe_tracks import ProbeTracks, TrackKind, lanes_of
from tests.unit.recordings import (
    CONTROL,
    COUNT,
    DROPPED,
    FILTER,
    INTERRUPT_ENTER,
    INTERRUPT_EXIT,
    STEP,
    SYSTICK,
    TASK,
    ProbeRun,
    block,
    event,
    recording,
)

VALUED = {
    COUNT: st.just(1),
    DROPPED: st.integers(1, 3),
    INTERRUPT_ENTER: st.integers(15, 16),
    TASK: st.sampled_from([0, 0x100, 0x200]),
}
NUMBERS = [CONTROL, CONTROL + 1, FILTER, FILTER + 1, SYSTICK, SYSTICK + 1, STEP, INTERRUPT_EXIT]


@st.composite
def recordings(draw: st.DrawFn) -> ProbeRun:
    """Any events in any order, many of them at the same time."""
    blocks = []
    for core in range(draw(st.integers(1, 2))):
        numbers = draw(st.lists(st.sampled_from([*NUMBERS, *VALUED]), max_size=40))
        deltas = draw(st.lists(st.integers(0, 3), min_size=len(numbers), max_size=len(numbers)))
        values = [draw(VALUED[n]) if n in VALUED else None for n in numbers]
        dropped = sum(v or 0 for n, v in zip(numbers, values, strict=True) if n == DROPPED)
        records = [event(*each) for each in zip(deltas, numbers, values, strict=True)]
        blocks.append(block(records, sum(deltas), core=core, dropped=dropped))
    return recording(*blocks)


@given(recordings())
def test_slices_nest_and_none_is_lost(made: ProbeRun) -> None:
    drawing = ProbeTracks(made)
    shown = {TrackKind.TASK: 0, TrackKind.INTERRUPT: 0, TrackKind.CORE: 0}
    for track in drawing.tracks:
        for lane in track.lanes:
            shown[track.kind] += len(lane.begin)
            open_ones: list[int] = []
            last = 0
            for which, is_begin in zip(*(each.tolist() for each in lane.edges()), strict=True):
                now = int(lane.begin[which] if is_begin else lane.end[which])
                assert now >= last
                last = now
                if is_begin:
                    assert int(lane.parent[which]) == (open_ones[-1] if open_ones else -1)
                    open_ones.append(which)
                else:
                    assert open_ones.pop() == which
            assert open_ones == []
    ranges = sum(len(each.ranges) for each in drawing.timelines.values())
    interrupts = sum(len(each.interrupts) for each in drawing.timelines.values())
    assert shown[TrackKind.TASK] + shown[TrackKind.INTERRUPT] == ranges + interrupts
    marks = sum(int((each.events.number == STEP).sum()) for each in drawing.timelines.values())
    drops = sum(int((each.events.number == DROPPED).sum()) for each in drawing.timelines.values())
    assert sum(len(each.mark_time) for each in drawing.tracks) == marks + drops


@given(recordings())
def test_what_runs_is_what_tasks_and_interrupts_took(made: ProbeRun) -> None:
    drawing = ProbeTracks(made)
    for core, line in drawing.timelines.items():
        (own,) = [t for t in drawing.tracks if t.core == core and t.kind == TrackKind.CORE]
        drawn = sum(int(lane.own.sum()) for lane in own.lanes)
        known = sum(ticks for task, ticks in line.task_ticks().items() if task >= 0)
        assert drawn == known + line.interrupt_ticks()
        assert all((lane.end[:-1] <= lane.begin[1:]).all() for lane in own.lanes)


@given(recordings())
@example(recording(block([event(3, CONTROL), event(2, CONTROL + 1)], 5)))
def test_every_exporter_takes_it(made: ProbeRun) -> None:
    render_perfetto(made)
    render_probe_page(made)
    json.loads(render_probe_chrome(made))
    assert set(render_ctf(made)) == {"metadata", *(f"core{core}" for core in made.timelines())}
    drawing = ProbeTracks(made)
    if any(track.lanes for track in drawing.tracks):
        stacks = render_probe_collapsed(made)
        assert all(re.fullmatch(r"core \d;[^\n]+ [1-9]\d*", line) for line in stacks.splitlines())


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=12))
def test_slices_that_nest_stay_on_one_lane(pairs: list[tuple[int, int]]) -> None:
    """Slices from brackets: each begin opens one, each end closes the innermost."""
    begins, ends, open_ones, now = [], [], [], 0
    for opens, delta in [(a % 2, b) for a, b in pairs]:
        now += delta
        if opens:
            open_ones.append(now)
        elif open_ones:
            begins.append(open_ones.pop())
            ends.append(now)
    columns = [np.array(each, np.int64) for each in (begins, ends)]
    zeros = np.zeros(len(begins), np.int64)
    assert len(lanes_of(*columns, zeros, zeros)) <= 1
