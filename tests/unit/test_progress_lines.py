# SPDX-License-Identifier: Apache-2.0
"""A log gets a line when something turns out to be long, and one now and then after it."""

from __future__ import annotations

from boardprof.ui.cli.output import ProgressLines


def lines(calls: list[tuple[float, str, int, int]]) -> list[str]:
    """Return what is told of calls at times, in seconds."""
    told: list[str] = []
    times = iter([time_s for time_s, *_ in calls])
    show = ProgressLines(told.append, lambda: next(times))
    for _, what, done, total in calls:
        show(what, done, total)
    return told


def test_a_long_run_is_told_after_a_second_with_what_is_left() -> None:
    assert lines([(0.0, "fir", 0, 1000), (0.5, "fir", 5, 1000), (1.0, "fir", 10, 1000)]) == [
        "fir: 10 of 1,000, about 1 min 39 s left"
    ]


def test_then_every_half_minute() -> None:
    calls = [(float(second), "fir", second, 100) for second in range(100)]
    assert lines(calls) == [
        "fir: 1 of 100, about 1 min 39 s left",
        "fir: 31 of 100, about 1 min 9 s left",
        "fir: 61 of 100, about 39 s left",
        "fir: 91 of 100, about 9 s left",
    ]


def test_a_short_one_is_not_told() -> None:
    assert lines([(0.3 * step, "fir", step, 20) for step in range(21)]) == []


def test_one_that_gets_slower_is_told_when_it_does() -> None:
    assert lines(
        [(0, "fir", 0, 20), (1, "fir", 10, 20), (4, "fir", 11, 20), (9, "fir", 12, 20)]
    ) == ["fir: 12 of 20, about 6 s left"]


def test_each_thing_has_a_time_of_its_own() -> None:
    calls = [(0, "fir", 0, 100), (2, "fir", 50, 100), (4, "fir, bytes", 10, 1000)]
    assert lines([*calls, (6, "fir, bytes", 30, 1000)]) == [
        "fir, bytes: 30 of 1,000, about 1 min 37 s left"
    ]


def test_what_begins_again_is_told_from_there() -> None:
    assert lines([(0, "up", 0, 10), (1, "up", 9, 10), (2, "up", 0, 10), (3, "up", 1, 100)]) == [
        "up: 1 of 100, about 1 min 39 s left"
    ]


def test_things_that_take_turns_are_told_each_now_and_then() -> None:
    calls = [(0.0, "fir", 0, 12)]
    for turn in range(1, 5):
        at = 10.0 * turn
        calls += [(at - 9, "bytes", 0, 100), (at - 7, "bytes", 10, 100), (at, "fir", turn, 12)]
    assert lines(calls) == [
        "bytes: 10 of 100, about 18 s left",
        "fir: 1 of 12, about 1 min 50 s left",
        "bytes: 10 of 100, about 18 s left",
        "fir: 4 of 12, about 1 min 20 s left",
    ]


def test_details_that_change_do_not_make_a_line_each() -> None:
    told: list[str] = []
    show = ProgressLines(told.append)
    for second in range(1, 45):
        show(f"recording; {second} events/s", second, None)
    assert told == ["recording; 10 events/s: 10 s so far", "recording; 40 events/s: 40 s so far"]


def test_what_nobody_knows_the_end_of_is_told_by_the_seconds_that_have_passed() -> None:
    told: list[str] = []
    show = ProgressLines(told.append)
    for second in range(1, 73):
        show("building", second, None)
    show("", 0, None)
    show("starting", 9, None)
    assert told == ["building: 10 s so far", "building: 40 s so far", "building: 1 min 10 s so far"]
