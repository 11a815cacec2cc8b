# SPDX-License-Identifier: Apache-2.0
"""Events over slots: as few passes as there can be, fixed counters in the first."""

from __future__ import annotations

from boardprof.board.passes import Pass, split_into_passes
from boardprof.board.selection import Selection

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
