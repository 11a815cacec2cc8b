# SPDX-License-Identifier: Apache-2.0
"""What takes its time says so to whoever shows it, and says when it has ended."""

from __future__ import annotations

import itertools
import threading
import time
from types import SimpleNamespace
from typing import TypeAlias

import pytest

from boardprof.base import progress
from boardprof.base.progress import activity, part_of, shown_by, waiting

Shown: TypeAlias = list[tuple[str, int, int | None]]


@pytest.fixture
def shown() -> Shown:
    return []


def test_steps_are_shown_and_then_the_end(shown: Shown) -> None:
    with shown_by(lambda *told: shown.append(told)), activity("compiling", 3) as step:
        step(1)
        step(3)
    assert shown == [("compiling", 0, 3), ("compiling", 1, 3), ("compiling", 3, 3), ("", 0, None)]


def test_a_part_is_named_after_each_activity_and_the_end_stays_the_end(shown: Shown) -> None:
    with (
        shown_by(lambda *told: shown.append(told)),
        part_of("session 2 of 20"),
        activity("compiling", 3) as step,
    ):
        step(1)
    name = "compiling; session 2 of 20"
    assert shown == [(name, 0, 3), (name, 1, 3), ("", 0, None)]


def test_what_has_no_steps_tells_the_seconds_that_have_passed(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_TICK_S", 0.05)
    # Its clock is the test's: a machine that stands still for a second changes nothing.
    times_s = itertools.chain([100.0, 100.9, 102.5], itertools.repeat(103.0))
    clock = SimpleNamespace(monotonic=lambda: next(times_s))
    monkeypatch.setattr(progress, "time", clock)
    told_twice = threading.Event()

    def show(what: str, done: int, total: int | None) -> None:
        shown.append((what, done, total))
        if len(shown) == 2:
            told_twice.set()

    with shown_by(show), activity("building"):
        assert told_twice.wait(10)
    assert shown[:2] == [("building", 0, None), ("building", 2, None)]
    assert shown[-1] == ("", 0, None)
    count = len(shown)
    time.sleep(0.15)
    assert len(shown) == count  # nobody tells any more


def test_the_end_is_shown_of_what_fails_too(shown: Shown) -> None:
    def fail() -> None:
        with shown_by(lambda *told: shown.append(told)), activity("flashing", 9):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert shown == [("flashing", 0, 9), ("", 0, None)]


def test_where_nobody_shows_it_nothing_happens() -> None:
    before = threading.active_count()
    with activity("building", seconds=5), activity("compiling", 2) as step:
        step(1)
        assert threading.active_count() == before


# -- waiting for a board ----------------------------------------------------------------------


def test_a_wait_that_gets_long_counts_the_seconds_since_something_came(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_TICK_S", 0.02)
    before = threading.active_count()
    now_s = 100.0
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now_s))

    def tell(what: str, done: int, total: int | None) -> None:
        shown.append((what, done, total))

    def told(seconds: int) -> bool:
        return ("waiting", seconds, None) in shown

    def wait_until(seconds: int) -> None:
        deadline = time.monotonic() + 10
        while not told(seconds) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert told(seconds)

    with shown_by(tell), waiting("waiting") as heard:
        now_s = 101.2
        wait_until(1)
        now_s = 120.0
        heard()
        shown.clear()
        now_s = 121.0
        time.sleep(0.1)
        assert shown == []
        now_s = 124.5
        wait_until(4)
    assert set(shown) == {("waiting", 4, None)}
    assert threading.active_count() == before


def test_a_wait_that_nobody_watches_takes_no_thread() -> None:
    before = threading.active_count()
    with waiting("waiting") as heard:
        heard()
        assert threading.active_count() == before
