# SPDX-License-Identifier: Apache-2.0
"""Events over slots: as few passes as there can be, fixed counters in the first."""

from __future__ import annotations

from dataclasses import replace

import msgpack
import pytest

from boardprof.base.errors import UnknownNameError, UsageError
from boardprof.base.formula import parse_formula
from boardprof.measure.board.board import Board
from boardprof.measure.sampling.available_metrics import Pass, split_into_passes
from boardprof.measure.sampling.counted_pass import PackedCall, Selection
from boardprof.measure.sampling.measure_function import PassQueue
from boardprof.measure.sampling.programmable import ListedMetric, shown_name
from boardprof.results.report.measurement import PassResult
from boardprof.show.board_facts import metrics_text
from boardprof.ui.cli.boards import metrics_info
from boardprof_protocol.codes import CounterStatus, FrameKind
from boardprof_protocol.frame import Frame
from tests.memory_board import FULL
from tests.memory_session import altered, connected

FIXED = Selection((), frozenset({"ticks"}))
NOTHING = Selection((), frozenset())


def test_without_events_there_is_one_pass() -> None:
    assert split_into_passes(FIXED, {}, {}) == (Pass(FIXED, {}),)


def test_events_that_fit_share_the_first_pass_with_the_fixed_counters() -> None:
    passes = split_into_passes(FIXED, {"hpm": ["a", "b"]}, {"hpm": 2})
    assert passes == (Pass(FIXED, {"hpm": ("a", "b")}),)


def test_one_event_too_many_takes_a_second_pass_without_the_fixed_counters() -> None:
    passes = split_into_passes(FIXED, {"hpm": ["a", "b", "c"]}, {"hpm": 2})
    assert passes == (Pass(FIXED, {"hpm": ("a", "b")}), Pass(NOTHING, {"hpm": ("c",)}))


def test_collectors_take_their_passes_side_by_side() -> None:
    passes = split_into_passes(
        FIXED, {"hpm": ["a", "b", "c"], "bus": ["x", "y"]}, {"hpm": 2, "bus": 1}
    )
    assert passes == (
        Pass(FIXED, {"hpm": ("a", "b"), "bus": ("x",)}),
        Pass(NOTHING, {"hpm": ("c",), "bus": ("y",)}),
    )


def test_what_a_collector_counts_by_itself_is_one_pass() -> None:
    passes = split_into_passes(FIXED, {"perf": None, "hpm": ["a", "b"]}, {"perf": 4, "hpm": 1})
    assert passes == (
        Pass(FIXED, {"perf": None, "hpm": ("a",)}),
        Pass(NOTHING, {"hpm": ("b",)}),
    )


# -- on the real agent: `slots` has two slots, which count calls of `work` times an event's code ---

EVENTS = {"slots": {"once": 1, "twice": 2, "thrice": 3, "stuck": 13}}


@pytest.fixture
def board() -> Board:
    """A board whose file knows four events; the control register does not take code 13."""
    return connected({**FULL, "TEST_PROGRAMMABLE": 1}, events=EVENTS)[0]


def counted(windows: tuple[PassResult, ...]) -> list[dict[str, int]]:
    """Return what the first sample of each pass has counted."""
    first = [each.samples[0].readings for each in windows]
    return [{name: reading.value for name, reading in each.items()} for each in first]


def test_events_that_do_not_fit_side_by_side_are_counted_in_two_passes(board: Board) -> None:
    events = ["once", "twice", "thrice"]
    measured = board.measure("work", metrics=events, warmup=1, repeat=2, number=3)
    assert counted(measured.passes) == [{"once": 3, "twice": 6}, {"thrice": 9}]
    assert [each.events for each in measured.passes] == [
        {"slots": ("once", "twice")},
        {"slots": ("thrice",)},
    ]
    # Two passes of one warm-up call and two samples of three calls, and the call for the result.
    assert (measured.calls_before, board.calls) == (0, 2 * (1 + 2 * 3) + 1)
    board.functions.work()
    assert board.calls == 16


def test_progress_knows_the_rounds_of_all_passes_from_the_beginning(board: Board) -> None:
    seen: list[tuple[int, int]] = []
    board.measure(
        "work",
        metrics=["once", "twice", "thrice"],
        warmup=1,
        repeat=2,
        on_progress=lambda done, total: seen.append((done, total)),
    )
    # A pass has 1 + 9 rounds of the empty function, and 1 + 2 of this one.
    assert {total for _, total in seen} == {26}
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (26, 26)


def test_an_event_that_the_board_refuses_is_left_out_of_all_with_the_reason(board: Board) -> None:
    measured = board.measure("work", metrics="all", warmup=1, repeat=1)
    names = {name for each in counted(measured.passes) for name in each}
    assert {"once", "twice", "thrice", "calls", "cycles", "ticks"} <= names
    assert measured.device.unsupported == {"stuck": "stuck does not advance"}


def test_an_event_that_the_board_refuses_is_an_error_if_it_was_asked_for(board: Board) -> None:
    for metrics in ("stuck", ["stuck", "once"], ["once", "twice", "thrice", "stuck"]):
        with pytest.raises(
            UsageError, match=r"^memory does not count stuck: stuck does not advance\.$"
        ):
            board.measure("work", metrics=metrics)


def test_a_formula_is_counted_by_the_events_that_it_is_computed_from(board: Board) -> None:
    share = ("ratio", parse_formula("once / thrice"))
    passes = replace(board.offer, formulas={"share": share}).passes(["share"])
    assert [each.events for each in passes] == [{"slots": ("once", "thrice")}]


def test_without_metrics_no_event_is_counted_that_has_to_be_chosen(board: Board) -> None:
    measured = board.measure("work", warmup=1, repeat=1)
    assert {name for each in counted(measured.passes) for name in each} == {
        "calls",
        "probe_b.calls",
        "cycles",
        "instructions",
        "ticks",
    }
    assert measured.device.unsupported == {}


def test_a_clock_that_never_wraps_runs_beside_counters_that_may(board: Board) -> None:
    passes = board.offer.passes(["once"])
    assert [each.name for each in passes[0].fixed.collectors] == ["ticks"]
    assert passes[0].fixed.counters == frozenset()
    slow = [  # one tick a second
        replace(each, counters=tuple(replace(k, hz=min(k.hz, 1)) for k in each.counters))
        for each in board.offer.fixed
    ]
    passes = replace(board.offer, fixed=tuple(slow)).passes(["once"])
    assert [each.name for each in passes[0].fixed.collectors] == ["ticks"]
    measured = board.measure("work", metrics=["once"], warmup=0, repeat=1)
    assert counted(measured.passes) == [{"once": 1}]
    # Collector 2, and the clock, which is collector 4.
    assert measured.passes[0].mask == 0b10100
    measured = board.measure("work", metrics=["cycles"], warmup=0, repeat=1)
    assert measured.passes[0].mask == 0b1000


def test_an_event_that_is_misspelt_is_told_with_all_that_there_is(board: Board) -> None:
    with pytest.raises(UnknownNameError) as caught:
        board.measure("work", metrics=["twic"])
    assert str(caught.value) == (
        "memory has no metric 'twic'; did you mean 'twice'? Known: calls, probe_b.calls, cycles, "
        "instructions, ticks, once, twice, thrice, stuck"
    )


def test_events_are_listed_with_the_reason_of_each_that_is_not_available(board: Board) -> None:
    text = metrics_text(metrics_info(board))
    assert text[text.index("probe_b: ") :] == (
        "probe_b: 1 available\n"
        "  probe_b.calls  test_worked\n"
        "\n"
        "cycles: 2 available\n"
        "  cycles        test_cycles\n"
        "  instructions  test_instructions\n"
        "\n"
        "ticks: 1 available\n"
        "  ticks  test_ticks\n"
        "\n"
        "slots: 3 available, 2 in one pass\n"
        "  once    event 0x1\n"
        "  twice   event 0x2\n"
        "  thrice  event 0x3\n"
        "  not available: stuck does not advance\n"
        "    stuck"
    )


def test_what_one_board_lacks_of_the_metrics_of_several_is_told_by_name(board: Board) -> None:
    found, lacking = board.offer.split(["twice", "joules", "ticks"])
    assert found == ("twice", "ticks")
    assert [(name, type(error)) for name, error in lacking.items()] == [
        ("joules", UnknownNameError)
    ]


def test_slots_that_count_nothing_by_themselves_say_why(board: Board) -> None:
    (slots,) = board.offer.programmable
    assert slots.select(["twice"]).events == ("twice",)
    found = slots.counting()
    assert (found.events, found.refused) == (("twice",), {})
    found = slots.select_default()
    assert found.events == ()
    assert found.refused == {"test_worked": "this core has no test_worked"}


def test_a_window_counts_what_the_slots_were_told_last(board: Board) -> None:
    (slots,) = board.offer.programmable
    with board.collectors["slots"] as window:
        board.functions.work()
    assert list(window.metrics) == []
    slots.select(["thrice"])
    with board.collectors["slots"] as window:
        board.functions.work()
    assert {name: metric.value for name, metric in window.metrics.items()} == {"thrice": 3}


def test_slots_that_were_told_something_else_are_programmed_again(board: Board) -> None:
    (slots,) = board.offer.programmable
    queue = PassQueue(board.link, board.offer.passes(["twice"]), may_drop=False)
    call = PackedCall(board.functions["work"].info, b"", 0)
    counted = queue.next(lambda each: each.try_out(call))
    assert counted is not None
    assert counted.is_programmed
    slots.select(["once"])
    assert not counted.is_programmed
    (sample,) = counted.take(call, 0, 1).samples
    assert sample.readings["twice"].value == 2


# -- where the board knows its events by name --------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "event"),
    [
        (["loads", "all loads"], ("all loads", None)),
        (["loads", "all loads", 0], ("all loads", None)),
        (["loads", "all loads", 3, 13], ("all loads", "it cannot be selected")),
        (["loads", "all loads", 3, 13, ""], ("all loads", "it cannot be selected")),
        (["loads", "all loads", 3, 13, "not here"], ("all loads", "not here")),
    ],
)
def test_an_agent_may_say_less_or_more_of_an_event(
    entry: list[object], event: tuple[str, str | None]
) -> None:
    board, _, line = connected({**FULL, "TEST_PROGRAMMABLE": 1})
    (slots,) = board.offer.programmable
    said = bytes(msgpack.packb(entry))
    line.change = altered(lambda each: each._replace(body=said) if b"twice" in each.body else each)
    assert list(slots.listed()) == [ListedMetric("loads", slots.collector.name, *event)]


def test_a_board_is_asked_once_why_an_event_of_its_own_does_not_count() -> None:
    board, _, line = connected({**FULL, "TEST_PROGRAMMABLE": 1})
    (slots,) = board.offer.programmable
    asked = 0

    def answered(frame: Frame) -> Frame:
        """Let the agent, which knows no event of this name, say so in an answer of its own."""
        nonlocal asked
        if frame.kind != FrameKind.ERROR:
            return frame
        asked += 1
        body = bytes(msgpack.packb([[CounterStatus.REFUSED, 1, 0, 0, "not in this machine"]]))
        return frame._replace(kind=FrameKind.RESULT, body=body)

    line.change = altered(answered)
    for _ in range(2):
        assert slots.select_default().refused == {"test_worked": "not in this machine"}
    assert asked == 1
    measured = board.measure("work", warmup=0, repeat=1)
    assert measured.device.unsupported == {"test_worked": "not in this machine"}


def test_an_event_that_is_refused_with_a_modifier_is_known_all_the_same() -> None:
    board, _, line = connected({**FULL, "TEST_PROGRAMMABLE": 1})
    refused = bytes(msgpack.packb([[CounterStatus.REFUSED, 1, 0, 0, "no such modifier"]]))
    line.change = altered(
        lambda frame: (
            frame._replace(kind=FrameKind.RESULT, body=refused)
            if frame.kind == FrameKind.ERROR
            else frame
        )
    )
    told = r"^memory does not count twice:u: slots: no such modifier\."
    with pytest.raises(UsageError, match=told):
        board.measure("work", metrics=["twice:u"])


def test_an_event_has_a_name_outside_with_its_collector_only_if_it_is_taken(board: Board) -> None:
    collectors = board.offer.programmable
    names = ("slots.twice", "slots.ticks", "ticks")
    assert [shown_name(collectors, name) for name in names] == ["twice", "slots.ticks", "ticks"]
