# SPDX-License-Identifier: Apache-2.0
"""`boardprof metrics`: all that a board can count, and why it cannot count the rest."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.command import boardprof


@pytest.fixture(scope="module")
def listed() -> dict[str, Any]:
    done = boardprof("metrics", "-b", "linux", "--json")
    assert (done.code, done.err) == (0, "")
    found: dict[str, Any] = json.loads(done.out)
    return found


def named(listed: dict[str, Any], name: str) -> dict[str, Any]:
    (metric,) = [metric for metric in listed["metrics"] if metric["name"] == name]
    return dict(metric)


def test_fixed_counters_and_events_stand_side_by_side(listed: dict[str, Any]) -> None:
    assert (listed["schema_version"], listed["board"]) == (1, "linux")
    assert listed["slots"] == {"papi": 10, "perf": 10}
    assert named(listed, "duration_time") == {
        "name": "duration_time",
        "collector": "clock",
        "description": "CLOCK_MONOTONIC_RAW",
        "reason": None,
        "available": True,
    }
    faults = named(listed, "minor-faults")
    assert faults["collector"] == "perf"
    assert faults["description"] == "page faults without reading a disk"


def test_what_another_collector_counts_has_its_own_in_front(listed: dict[str, Any]) -> None:
    assert named(listed, "page-faults")["collector"] == "faults"
    assert named(listed, "perf.page-faults")["collector"] == "perf"


def test_whatever_is_not_available_has_a_reason(listed: dict[str, Any]) -> None:
    for metric in listed["metrics"]:
        assert metric["available"] is (metric["reason"] is None)
        assert metric["name"] or metric["reason"]
    assert len(listed["metrics"]) > 60


def test_the_text_lists_what_is_there_and_the_rest_by_reason() -> None:
    done = boardprof("metrics", "-b", "linux")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == "Metrics of linux"
    (head,) = [line for line in lines if line.startswith("perf: ")]
    assert head.endswith(" available, 10 in one pass")
    assert "  cpu-clock         ns in which the thread ran, by the CPU's own clock" in lines
    assert max(map(len, lines)) < 300


def test_a_board_without_events_lists_its_counters() -> None:
    done = boardprof("metrics", "-b", "native")
    assert (done.code, done.err) == (0, "")
    assert "\nclock: 2 available\n  duration_time  CLOCK_MONOTONIC_RAW\n" in done.out
