# SPDX-License-Identifier: Apache-2.0
"""Markers of the host: depths, instants, and what they do while nothing records."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from boardprof import itt
from boardprof.base.errors import UsageError
from boardprof.compat.torch.profiler import profile


def test_the_markers_are_always_there() -> None:
    assert itt.is_available() is True


def test_push_and_pop_return_the_depth_of_the_range_from_zero_on() -> None:
    assert [itt.range_push("a"), itt.range_push("b")] == [0, 1]
    assert [itt.range_pop(), itt.range_pop()] == [1, 0]


def test_a_pop_without_a_push_is_refused() -> None:
    with pytest.raises(UsageError, match="range_pop without a range"):
        itt.range_pop()


def test_each_thread_has_depths_of_its_own() -> None:
    depths: list[int] = []
    itt.range_push("here")
    thread = threading.Thread(target=lambda: depths.extend([itt.range_push("x"), itt.range_pop()]))
    thread.start()
    thread.join(10)
    assert depths == [0, 0]
    assert itt.range_pop() == 0


def test_ranges_and_marks_stand_in_the_trace() -> None:
    with profile() as prof:
        itt.range_push("outer")
        with itt.range("layer {} of {net}", 3, net="tiny"):
            itt.mark("now")
        itt.range_pop()
    events = prof.events()
    assert [event.name for event in events] == ["outer", "layer 3 of tiny"]
    assert events[1].cpu_parent is events[0]
    assert [mark.name for mark in prof._ready.marks] == ["now"]


def test_a_range_ends_with_an_error_too() -> None:
    with profile() as prof, pytest.raises(KeyError), itt.range("fails"):
        raise KeyError("x")
    assert [event.error for event in prof.events()] == ["KeyError"]
    with pytest.raises(UsageError):
        itt.range_pop()


def test_a_function_can_be_decorated_with_a_range() -> None:
    @itt.range("decorated")
    def double(x: int) -> int:
        return 2 * x

    with profile() as prof:
        assert [double(2), double(3)] == [4, 6]
    assert [event.name for event in prof.events()] == ["decorated", "decorated"]


def test_a_range_counts_for_the_depth_of_those_in_it() -> None:
    with itt.range("outer"):
        assert itt.range_push("inner") == 1
        assert itt.range_pop() == 1


@pytest.mark.parametrize("begin", [itt.mark, itt.range_push, itt.range])
def test_a_name_that_is_no_text_is_refused(begin: Callable[[object], object]) -> None:
    with pytest.raises(UsageError, match="5 is not the name of a range or a mark"):
        begin(5)
    with pytest.raises(UsageError, match="range_pop without a range"):
        itt.range_pop()
