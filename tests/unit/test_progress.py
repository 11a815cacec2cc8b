# SPDX-License-Identifier: Apache-2.0
"""What takes its time says so to whoever shows it, and says when it has ended."""

from __future__ import annotations

import itertools
import threading
import time
from types import SimpleNamespace
from typing import TypeAlias

import pytest

from boardprof import progress
from boardprof.progress import activity, shown_by

Shown: TypeAlias = list[tuple[str, int, int | None]]


@pytest.fixture
def shown() -> Shown:
    return []


def test_steps_are_shown_and_then_the_end(shown: Shown) -> None:
    with shown_by(lambda *told: shown.append(told)), activity("compiling", 3) as step:
        step(1)
        step(3)
    assert shown == [("compiling", 0, 3), ("compiling", 1, 3), ("compiling", 3, 3), ("", 0, None)]


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
