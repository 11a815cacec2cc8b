# SPDX-License-Identifier: Apache-2.0
"""Events: which stands in which, what is whose own, averages, and their table."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boardprof.base.errors import UnknownNameError, UsageError
from boardprof.base.metrics import Count, Duration, Metric, Ratio
from boardprof.compat.torch.board_activity import DeviceSpan
from boardprof.compat.torch.events import FunctionEvent, FunctionEventAvg
from boardprof.compat.torch.export import chrome_trace_text, stacks_text
from boardprof.compat.torch.host_events import Kind, Thread
from boardprof.compat.torch.host_trace import HostTrace, nest
from boardprof.compat.torch.settings import ProfilerActivity, Settings
from boardprof.compat.torch.table import EventAverages, EventList, average

MAIN, OTHER = Thread(1, "MainThread"), Thread(2, "worker")


def event(
    name: str,
    start_us: int,
    end_us: int,
    *,
    thread: Thread = MAIN,
    kind: Kind = "range",
    metrics: dict[str, Metric] | None = None,
    **named: object,
) -> FunctionEvent:
    return FunctionEvent(
        name,
        kind,
        thread,
        start_us * 1000,
        end_us * 1000,
        metrics=metrics or {},
        **named,  # type: ignore[arg-type]
    )


def span(duration_us: float | None) -> DeviceSpan:
    return DeviceSpan("f", "sample", "m4", 0, 1, 1, 64, duration_us, None, None, "")


def nested(*events: FunctionEvent) -> list[FunctionEvent]:
    """Number events, and link those of each thread as a program without tasks would."""
    numbered = [replace(each) for each in events]
    # Of what began at once, the longest is around the others.
    order = sorted(numbered, key=lambda each: (each.start_ns, -each.end_ns))
    for number, each in enumerate(order):
        each.id = number
    around = [
        [
            other
            for other in reversed(order[:place])
            if other.thread == each.thread and other.end_ns > each.start_ns
        ]
        for place, each in enumerate(order)
    ]
    nest(order, around)
    return numbered


# -- nesting ----------------------------------------------------------------------------------


def test_an_event_stands_in_the_innermost_that_holds_all_of_it() -> None:
    a, b, c, d = nested(event("a", 0, 10), event("b", 1, 8), event("c", 2, 3), event("d", 8, 10))
    assert [each.cpu_parent for each in (a, b, c, d)] == [None, a, b, a]
    assert a.cpu_children == [b, d]
    assert c.stack == ("b", "a")
    assert c.module_hierarchy == "a.b"


def test_what_is_its_own_is_the_total_without_the_direct_children() -> None:
    a, b, c = nested(event("a", 0, 10), event("b", 1, 8), event("c", 2, 5))
    assert [each.cpu_time_total for each in (a, b, c)] == [10, 7, 3]
    assert [each.self_cpu_time_total for each in (a, b, c)] == [3, 4, 3]


def test_events_that_overlap_in_part_are_not_related() -> None:
    a, b = nested(event("a", 0, 6), event("b", 4, 9))
    assert (a.cpu_children, b.cpu_parent) == ([], None)


def test_an_event_that_begins_when_another_ends_does_not_stand_in_it() -> None:
    a, b, c = nested(event("a", 0, 5), event("b", 5, 5), event("c", 5, 7))
    assert a.cpu_children == []
    assert (b.cpu_parent, c.cpu_parent) == (c, None)


def test_of_two_events_of_the_same_time_the_first_holds_the_second() -> None:
    a, b = nested(event("a", 0, 5), event("b", 0, 5))
    assert (a.cpu_parent, b.cpu_parent) == (None, a)


def test_an_event_stands_in_none_of_another_thread() -> None:
    a, b = nested(event("a", 0, 10), event("b", 2, 3, thread=OTHER))
    assert (a.cpu_children, b.cpu_parent) == ([], None)


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 12)), max_size=12))
def test_what_is_an_events_own_is_when_nothing_stands_in_it(
    times: list[tuple[int, int]],
) -> None:
    events = nested(*[event(str(i), at, at + length) for i, (at, length) in enumerate(times)])
    for each in events:
        parent = each.cpu_parent
        if parent is not None:
            assert parent.start_ns <= each.start_ns
            assert each.end_ns <= parent.end_ns
            assert each in parent.cpu_children
        holders = [
            other
            for other in events
            if other is not each
            and other.start_ns <= each.start_ns < other.end_ns
            and each.end_ns <= other.end_ns
            and (other.time_range != each.time_range or other.id < each.id)
        ]
        assert (parent is None) == (not holders)
        if parent is not None:  # of all that hold it, the one that began last
            last = max(holders, key=lambda o: (o.start_ns, -o.end_ns, o.id))
            assert parent is last
        moments = set(range(int(each.time_range.start), int(each.time_range.end)))
        for child in each.cpu_children:
            moments -= set(range(int(child.time_range.start), int(child.time_range.end)))
        assert each.self_cpu_time_total == len(moments)


def test_a_range_has_the_time_on_boards_and_the_counts_of_what_stands_in_it() -> None:
    outer, _, _, beside = nested(
        event("outer", 0, 20),
        event(
            "f", 1, 2, kind="call", device_spans=(span(0.5), span(0.25)), metrics={"n": Count(3)}
        ),
        event("g", 3, 4, kind="call", device_spans=(span(2.0),), metrics={"n": Count(4)}),
        call("beside", 30, metrics={"time (us)": Duration(2.0), "ipc": Ratio(0.5)}),
    )
    assert (outer.self_device_time_total, outer.device_time_total) == (None, 2.75)
    assert outer.metric_total("n") == Count(7)
    assert outer.metric_total("ipc") is None
    assert beside.metric_total("time (us)") == Duration(2.0)
    assert beside.metric_total("ipc") == Ratio(0.5)
    assert beside.device_time_total is None


def call(name: str, start_us: int, board: str = "m4", **named: Any) -> FunctionEvent:
    return event(name, start_us, start_us + 1, kind="call", board=board, **named)


def test_a_sum_of_which_a_part_is_not_known_is_not_known_either() -> None:
    outer, *_ = nested(
        event("outer", 0, 20),
        call("f", 1, device_spans=(span(0.5),), metrics={"n": Count(3)}),
        call("g", 3, device_spans=(span(None),)),
    )
    assert outer.device_time_total is None
    assert outer.metric_total("n") is None


def test_times_on_several_boards_add_up_and_counts_do_not() -> None:
    events = nested(
        event("outer", 0, 20),
        call("f", 1, "m4", metrics={"ticks": Count(3), "t (us)": Duration(1.5)}),
        call("f", 3, "m0", metrics={"ticks": Count(90), "t (us)": Duration(2.0)}),
        event("outer", 30, 40),
        call("f", 31, "m4", metrics={"ticks": Count(5), "t (us)": Duration(0.5)}),
    )
    assert events[0].metric_total("t (us)") == Duration(3.5)
    assert events[0].metric_total("ticks") is None
    outer, m4, m0 = average(events)
    # Of one outer range the ticks are known, 5; but the other one's are of two boards.
    assert (outer.metric("ticks"), outer.metric("t (us)")) == (None, 2.0)
    assert (m4.metric("ticks"), m0.metric("ticks")) == (4.0, 90.0)


def test_counts_of_several_boards_are_in_stacks_of_their_own() -> None:
    events = nested(
        event("layer", 0, 20),
        call("f", 1, "m4", metrics={"ticks": Count(3)}),
        call("f", 3, "m4", metrics={"ticks": Count(4)}),
    )
    other = call("f", 30, "m0", metrics={"ticks": Count(90)})
    assert stacks_text(HostTrace(tuple(events), (), 0, 0, ()), "ticks") == "layer;f 7\n"
    both = HostTrace((*events, other), (), 0, 0, ())
    assert stacks_text(both, "ticks") == "m4;layer;f 7\nm0;f 90\n"
    other.is_raw = True
    assert stacks_text(both, "ticks") == "m4;layer;f 7\nm0;f_(raw) 90\n"
    assert stacks_text(both, "self_cpu_time_total") == "layer 18000\nlayer;f 2000\nf 1000\n"


def test_a_function_that_takes_the_board_less_than_a_microsecond_is_in_its_stacks() -> None:
    events = [
        call("short", 1, device_spans=(span(0.333),)),
        call("short", 2, device_spans=(span(0.333),)),
        call("long", 3, device_spans=(span(12.5),)),
    ]
    text = stacks_text(HostTrace(tuple(events), (), 0, 0, ()), "self_device_time_total")
    assert text == "short 666\nlong 12500\n"


def test_a_step_in_a_range_of_one_task_gives_it_none_of_what_others_do() -> None:
    # The task of `a` makes the step; another one calls within it, and so does that of `a` itself.
    a = event("a", 0, 20)
    step = event("ProfilerStep#1", 1, 19, kind="step")
    others = call("f", 2, metrics={"n": Count(3)})
    own = call("g", 4, metrics={"n": Count(4)})
    for number, each in enumerate((a, step, others, own)):
        each.id = number
    nest([a, step, others, own], [[], [a], [], [step, a]])
    assert [each.cpu_parent for each in (a, step, others, own)] == [None, a, None, step]
    assert (a.metric_total("n"), step.metric_total("n")) == (Count(4), Count(7))


def test_a_range_that_overlaps_a_step_has_all_of_its_own_calls() -> None:
    step = event("ProfilerStep#0", 0, 10, kind="step")
    a = event("a", 5, 20)
    second = event("ProfilerStep#1", 11, 30, kind="step")
    calls = [call("f", at, metrics={"n": Count(at)}) for at in (6, 12, 25)]
    order = sorted([step, a, second, *calls], key=lambda each: each.start_ns)
    for number, each in enumerate(order):
        each.id = number
    nest(order, [[], [step], [a, step], [a], [second, a], [second]])
    assert a.metric_total("n") == Count(18)
    assert [each.metric_total("n") for each in (step, second)] == [Count(6), Count(37)]
    assert [each.cpu_parent for each in (step, a, second)] == [None, None, None]


# -- averages ---------------------------------------------------------------------------------


def calls() -> list[FunctionEvent]:
    """Four calls of f, in two layers, and one of g; each layer takes 2 us of its own."""
    return nested(
        event("layer 1", 0, 10),
        event("f", 1, 5, kind="call", board="m4", input_shapes="n=1", flops=8),
        event("f", 5, 9, kind="call", board="m4", input_shapes="n=2", flops=16),
        event("layer 2", 10, 20),
        event("f", 11, 12, kind="call", board="m4", input_shapes="n=1", flops=8),
        event("f", 12, 19, kind="call", board="m4", input_shapes="n=1", flops=8),
        event("g", 30, 34, kind="call", board="m4", input_shapes="n=1"),
    )


def test_events_of_one_name_are_averaged_in_the_order_of_the_first() -> None:
    found = [(a.key, a.count, a.cpu_time_total, a.self_cpu_time_total) for a in average(calls())]
    assert found == [
        ("layer 1", 1, 10, 2),
        ("f", 4, 16, 16),
        ("layer 2", 1, 10, 2),
        ("g", 1, 4, 4),
    ]


def test_the_spread_of_an_average_is_that_of_its_events() -> None:
    f = average(calls())[1]  # 1, 4, 4 and 7 us
    assert (f.cpu_time, f.cpu_time_min, f.cpu_time_p50, f.cpu_time_max) == (4.0, 1.0, 4.0, 7.0)
    assert f.cpu_time_p10 == pytest.approx(1.9)  # a third and a bit less on the way from 1 to 4
    assert f.cpu_time_p90 == pytest.approx(6.1)
    with pytest.raises(UsageError, match="101 is not a percentile"):
        f.cpu_time_percentile(101)


def test_argument_shapes_and_stacks_part_the_groups_where_they_are_asked_for() -> None:
    by_shape = average(calls(), by_input_shape=True)
    assert [(a.key, a.input_shapes, a.count) for a in by_shape if a.key == "f"] == [
        ("f", "n=1", 3),
        ("f", "n=2", 1),
    ]
    by_stack = average(calls(), by_stack_n=1)
    assert [(a.key, a.stack, a.count) for a in by_stack if a.key == "f"] == [
        ("f", ("layer 1",), 2),
        ("f", ("layer 2",), 2),
    ]
    with pytest.raises(UsageError, match="group_by_stack_n=-1 is out of range"):
        average(calls(), by_stack_n=-1)


def test_a_measurement_is_no_call_and_neither_is_a_range_of_that_name() -> None:
    events = nested(
        event("f", 0, 1),
        event("f", 1, 2, kind="call", board="m4"),
        event("profile(f)", 2, 3, kind="measurement", board="m4"),
        event("f", 3, 4, kind="call", board="m0"),
    )
    found = [(a.key, a.kind, a.board) for a in average(events)]
    assert found == [
        ("f", "range", ""),
        ("f", "call", "m4"),
        ("profile(f)", "measurement", "m4"),
        ("f", "call", "m0"),
    ]


def test_counters_are_averaged_over_the_events_that_have_them() -> None:
    events = nested(
        event("f", 0, 1, kind="call", metrics={"cycles": Count(10)}),
        event("f", 1, 2, kind="call"),
        event("f", 2, 3, kind="call", metrics={"cycles": Count(15)}),
    )
    (f,) = average(events)
    assert f.metric("cycles") == 12.5
    assert f.metric("misses") is None


def test_a_measurement_stands_for_the_calls_in_its_samples() -> None:
    events = nested(
        event("layer", 0, 2200),
        event(
            "profile(f)",
            0,
            2000,
            kind="measurement",
            board="m4",
            count=20,
            device_spans=(span(25.0), span(15.0)),
            metrics={"n": Count(400), "ipc": Ratio(0.5)},
        ),
        event(
            "profile(f)",
            2000,
            2100,
            kind="measurement",
            board="m4",
            count=5,
            device_spans=(span(10.0),),
            metrics={"n": Count(50), "ipc": Ratio(1.0)},
        ),
    )
    layer, f = average(events)
    # 2000 and 100 us of the host, 40 and 10 us of the board, 400 and 50, each by 20 and 5 calls
    assert (f.count, f.cpu_time_total, f.cpu_time) == (25, 2100.0, 84.0)
    assert (f.device_time_total, f.device_time) == (50.0, 2.0)
    assert (f.metric("n"), f.metric("ipc")) == (18.0, pytest.approx(0.6))
    # A call of the first took 100 us, one of the second 20 us.
    assert (f.cpu_time_min, f.cpu_time_p50, f.cpu_time_max) == (20.0, 60.0, 100.0)
    first = events[1]
    assert (first.cpu_time_total, first.cpu_time, first.device_time) == (2000.0, 100.0, 2.0)
    # A range around it is one.
    assert (layer.count, layer.cpu_time, layer.device_time) == (1, 2200.0, 50.0)
    assert layer.metric("n") == 450.0


# -- the table --------------------------------------------------------------------------------


def test_the_table_has_torchs_columns_and_percentages_of_own_time() -> None:
    # 24 us in all: 2 + 2 of the layers, 16 of f, 4 of g.
    lines = average(calls(), by_input_shape=True).table(sort_by="cpu_time_total").splitlines()
    assert [" ".join(line.split()) for line in lines if not line.startswith("--")] == [
        "Name Self CPU % Self CPU CPU total % CPU total CPU time avg # of Calls Input Shapes "
        "Total FLOPs",
        "f 50.00% 12.000us 50.00% 12.000us 4.000us 3 n=1 24.000",
        "layer 1 8.33% 2.000us 41.67% 10.000us 10.000us 1 --",
        "layer 2 8.33% 2.000us 41.67% 10.000us 10.000us 1 --",
        "f 16.67% 4.000us 16.67% 4.000us 4.000us 1 n=2 16.000",
        "g 16.67% 4.000us 16.67% 4.000us 4.000us 1 n=1 --",
        "Self CPU time total: 24.000us",
    ]
    assert len({len(line) for line in lines[:-1]}) == 1  # all columns end below each other


def test_no_events_make_no_table() -> None:
    assert average([]).table() == ""
    assert EventList([]).table() == ""


def names(table: str) -> list[str]:
    lines = table.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("Name"))
    end = next(i for i in range(start + 2, len(lines)) if lines[i].startswith("--"))
    return [line.split("  ")[0] for line in lines[start + 2 : end]]


@pytest.mark.parametrize(
    ("sort_by", "expected"),
    [
        (None, ["layer 1", "f", "layer 2", "g"]),
        ("cpu_time_total", ["f", "layer 1", "layer 2", "g"]),
        ("self_cpu_time_total", ["f", "g", "layer 1", "layer 2"]),
        ("cpu_time", ["layer 1", "layer 2", "f", "g"]),
        ("count", ["f", "layer 1", "layer 2", "g"]),
        ("flops", ["f", "layer 1", "layer 2", "g"]),
        ("self_cuda_time_total", ["layer 1", "f", "layer 2", "g"]),
        ("board_time_total", ["layer 1", "f", "layer 2", "g"]),
    ],
)
def test_the_greatest_stands_first_and_what_has_no_value_last(
    sort_by: str | None, expected: list[str]
) -> None:
    assert names(average(calls()).table(sort_by=sort_by)) == expected


@pytest.mark.parametrize("name", ["duration", "time", "Duration (us)"])
def test_a_table_is_sorted_by_each_name_of_a_metric(name: str) -> None:
    events = nested(
        event("f", 0, 1, kind="call", metrics={"Duration (us)": Duration(1.5)}),
        event("g", 1, 2, kind="call", metrics={"Duration (us)": Duration(3.0)}),
    )
    assert names(average(events).table(sort_by=name)) == ["g", "f"]
    assert [each.metric(name) for each in average(events)] == [1.5, 3.0]
    assert events[1].metric_total(name) == Duration(3.0)


def test_what_a_table_cannot_be_sorted_by_is_refused_with_what_it_can() -> None:
    with pytest.raises(UnknownNameError, match="'cpu_tim'; did you mean 'cpu_time'"):
        average(calls()).table(sort_by="cpu_tim")
    with pytest.raises(UnknownNameError, match="unit of time 'ns'"):
        average(calls()).table(time_unit="ns")
    with pytest.raises(UsageError, match="row_limit=-2"):
        average(calls()).table(row_limit=-2)
    with pytest.raises(UsageError, match="column 3 wide"):
        average(calls()).table(max_name_column_width=3)
    with pytest.raises(UsageError, match=r"row_limit=2\.5"):
        average(calls()).table(row_limit=2.5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="group_by_stack_n='1' is out of range"):
        average(calls(), by_stack_n="1")  # type: ignore[arg-type]


def test_rows_are_left_out_beyond_the_limit_and_below_the_top_level() -> None:
    averages = average(calls())
    assert names(averages.table(row_limit=2)) == ["layer 1", "f"]
    assert names(averages.table(row_limit=-1)) == ["layer 1", "f", "layer 2", "g"]
    assert names(averages.table(top_level_events_only=True)) == ["layer 1", "layer 2", "g"]


def test_names_are_cut_to_their_width_and_escaped() -> None:
    table = average([event("a" * 60, 0, 1), event("new\nline", 1, 2)]).table(header="the\ttrace")
    assert names(table) == ["a" * 52 + "...", "new\\nline"]
    assert table.startswith("the\\ttrace\n")
    cut = average([event("a" * 60, 0, 1)]).table(max_name_column_width=8)
    assert names(cut) == ["aaaaa..."]
    whole = average([event("a" * 60, 0, 1)]).table(max_name_column_width=None)
    assert names(whole) == ["a" * 60]


@pytest.mark.parametrize(
    ("us", "unit", "text"),
    [
        (999, None, "999.000us"),
        (1000, None, "1.000ms"),
        (999_999, None, "999.999ms"),
        (1_500_000, None, "1.500s"),
        (1500, "us", "1500.000us"),
        (1500, "s", "0.002s"),
    ],
)
def test_times_have_three_decimals_and_their_unit(us: int, unit: str | None, text: str) -> None:
    assert f" {text}" in average([event("a", 0, us)]).table(time_unit=unit)


def test_boards_time_and_counters_have_columns_where_they_are_known() -> None:
    events = nested(
        event("f", 0, 4, kind="call", device_spans=(span(1.5),), metrics={"cycles": Count(1200)}),
        event("g", 4, 8, kind="call", metrics={"cycles": Count(7)}, is_raw=True),
        event("rest", 8, 9),
    )
    lines = average(events).table().splitlines()
    assert lines[1].split("  ")[-6:] == [
        "Self BOARD",
        "Self BOARD %",
        "BOARD total",
        "BOARD time avg",
        "cycles avg",
        "# of Calls",
    ]
    assert [line.split()[-6:] for line in lines[3:6]] == [
        ["1.500us", "--", "1.500us", "1.500us", "1,200", "1"],
        ["--", "--", "--", "--", "~7", "1"],
        ["--", "--", "--", "--", "--", "1"],
    ]
    assert lines[-2] == "Self BOARD time total: --, not known for all calls"
    assert lines[-1].startswith("~ raw: includes the agent")


def test_a_table_says_of_which_calls_the_boards_time_is_not_known_and_why() -> None:
    events = nested(
        call("f", 1, untimed="its clock was not read"),
        call("f", 3, untimed="its clock was not read"),
        event("profile(f)", 4, 5, kind="measurement", board="m4", count=20, untimed="it stood"),
        call("f", 6, "m0", device_spans=(span(1.0),)),
    )
    lines = average(events).table().splitlines()
    assert lines[-2:] == [
        "No BOARD time for 2 calls on m4: its clock was not read.",
        "No BOARD time for 20 calls on m4: it stood.",
    ]


def test_shares_of_the_boards_time_are_of_all_calls() -> None:
    events = nested(
        event("layer", 0, 9),
        call("f", 1, device_spans=(span(1.5),)),
        call("g", 3, "m0", device_spans=(span(4.5),)),
    )
    lines = average(events).table().splitlines()
    assert [line.split()[6:10] for line in lines[3:6]] == [
        ["--", "--", "6.000us", "6.000us"],
        ["1.500us", "25.00%", "1.500us", "1.500us"],
        ["4.500us", "75.00%", "4.500us", "4.500us"],
    ]
    assert lines[-1] == "Self BOARD time total: 6.000us"


def test_operations_are_in_the_unit_of_the_smallest_and_a_zero_that_is_known_is_one() -> None:
    counts = [2500, 0, 5_000_000]
    rows = [event(f"f{i}", i, i + 1, flops=count) for i, count in enumerate(counts)]
    lines = average(rows).table().splitlines()
    assert lines[1].endswith("Total KFLOPs")
    assert [line.split()[-1] for line in lines[3:6]] == ["2.500", "0.000", "5000.000"]


def test_each_event_can_have_a_row_of_its_own() -> None:
    events = EventList(calls())
    assert names(events.table(sort_by="cpu_time_total", row_limit=3)) == ["layer 1", "layer 2", "f"]
    assert isinstance(events[:2], EventList)
    assert isinstance(events.key_averages()[:1], EventAverages)


def test_times_are_texts_under_torchs_names() -> None:
    one = event("f", 0, 1500, kind="call", device_spans=(span(1.5),))
    for each in (one, FunctionEventAvg([one])):
        assert (each.cpu_time_str, each.cpu_time_total_str) == ("1.500ms", "1.500ms")
        assert each.self_cpu_time_total_str == "1.500ms"
        assert (each.device_time_str, each.device_time_total_str) == ("1.500us", "1.500us")
        assert each.self_device_time_total_str == "1.500us"
    assert event("rest", 0, 1).device_time_total_str == "--"


def test_all_events_have_a_total() -> None:
    events = nested(
        event("layer", 0, 9),
        call("f", 1, device_spans=(span(1.5),)),
        call("g", 3, "m0", device_spans=(span(4.5),)),
        event("rest", 9, 10),
    )
    for total in (EventList(events).total_average(), average(events).total_average()):
        assert (total.key, total.count, total.board) == ("Total", 4, "")
        # 9 and 1 us; the calls' own are of the 9.
        assert total.self_cpu_time_total == 10.0
        assert total.self_device_time_total == 6.0
    assert EventList(events).self_cpu_time_total == 10.0
    with pytest.raises(UsageError, match="Cannot total an empty list"):
        EventList([]).total_average()


def test_events_print_as_a_table() -> None:
    events = EventList([event("f", 0, 1)])
    assert str(events) == events.table()
    assert names(str(events)) == ["f"]


def test_spans_without_a_place_on_the_hosts_time_go_on_where_their_counter_wraps() -> None:
    """Of 24 bits at 1 MHz: 16 ticks behind the first, 6, and 15, in the order of their begins."""
    spans = [
        DeviceSpan("f", "sample", "m0", begin, 1, 1_000_000, 24, None, None, None, "no clock")
        for begin in ((1 << 24) - 10, 6, (1 << 24) - 4, 5)
    ]
    f = event("f", 0, 9, kind="call", board="m0", device_spans=tuple(spans))
    settings = Settings(frozenset({ProfilerActivity.BOARD}))
    text = chrome_trace_text(HostTrace((f,), (), 0, 0, ()), {}, settings)
    trace = json.loads(text)
    begins_us = [each["ts"] for each in trace["traceEvents"] if each.get("cat") == "sample"]
    assert begins_us == [0.0, 6.0, 15.0, 16.0]
