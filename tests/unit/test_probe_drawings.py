# SPDX-License-Identifier: Apache-2.0
"""Recordings of probes as Chrome traces, for speedscope and as collapsed stacks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from boardprof.base.errors import UsageError
from boardprof.show.probe_files import (
    render_probe_chrome,
    render_probe_collapsed,
    render_probe_speedscope,
)
from tests.unit.recordings import CONTROL, FILTER, STEP, VOLTS, block, event, recording, two_tasks


def chrome(**facts: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(render_probe_chrome(two_tasks()))["traceEvents"]
    return found


def test_a_chrome_trace_has_a_process_a_core_and_a_thread_a_track() -> None:
    names = [(each["name"], each["tid"], each["args"]["name"]) for each in chrome()[:6]]
    assert names == [
        ("process_name", 0, "bench, core 0 (times are cycles, not ns)"),
        ("thread_name", 1, "what runs"),
        ("thread_name", 2, "(scheduler)"),
        ("thread_name", 3, "task 0x20000100"),
        ("thread_name", 4, "task 0x20000200"),
        ("thread_name", 5, "systick"),
    ]


def test_slices_marks_and_values_of_a_chrome_trace_are_in_the_order_of_time() -> None:
    events = [
        (each["ph"], each["name"], each.get("tid"), each["ts"], each.get("dur", each.get("args")))
        for each in chrome()[6:]
    ]
    assert events == [
        ("X", "task 0x20000100", 1, 0.010, 0.02),
        ("X", "control", 3, 0.020, 0.04),
        ("i", "step", 3, 0.025, None),
        ("X", "systick", 1, 0.030, 0.01),
        ("X", "systick", 5, 0.030, 0.01),
        ("C", "count", None, 0.034, {"value": 7}),
        ("X", "task 0x20000100", 1, 0.040, 0.03),
        ("C", "error", None, 0.050, {"value": -2}),
        ("X", "task 0x20000200", 1, 0.070, 0.04),
        ("X", "filter", 4, 0.080, 0.02),
        ("C", "volts", None, 0.085, {"value": 2.5}),
        ("i", "events dropped", 1, 0.110, None),
        ("C", "events dropped", None, 0.110, {"events": 3}),
        ("X", "(scheduler)", 1, 0.120, 0.08),
        ("i", "step", 2, 0.200, None),
    ]


def test_a_chrome_trace_leaves_out_values_that_json_has_not() -> None:
    records = [
        event(1, VOLTS, 0x7F800000),
        event(1, VOLTS, 0x3F000000),
        event(1, VOLTS, 0x7FC00000),
    ]
    text = render_probe_chrome(recording(block(records, 3)))
    found = [each for each in json.loads(text)["traceEvents"] if each["ph"] == "C"]
    assert [(each["ts"], each["args"]) for each in found] == [(0.002, {"value": 0.5})]


def test_speedscope_gets_a_profile_a_track_whose_frames_open_and_close_in_order() -> None:
    document = json.loads(render_probe_speedscope(two_tasks()))
    frames = [each["name"] for each in document["shared"]["frames"]]
    found = {
        each["name"]: [(e["type"], frames[e["frame"]], e["at"]) for e in each["events"]]
        for each in document["profiles"]
    }
    assert found == {
        "core 0: what runs (cycles)": [
            ("O", "task 0x20000100", 10),
            ("C", "task 0x20000100", 30),
            ("O", "systick", 30),
            ("C", "systick", 40),
            ("O", "task 0x20000100", 40),
            ("C", "task 0x20000100", 70),
            ("O", "task 0x20000200", 70),
            ("C", "task 0x20000200", 110),
            ("O", "(scheduler)", 120),
            ("C", "(scheduler)", 200),
        ],
        "core 0: task 0x20000100 (cycles)": [("O", "control", 20), ("C", "control", 60)],
        "core 0: task 0x20000200 (cycles)": [("O", "filter", 80), ("C", "filter", 100)],
        "core 0: systick (cycles)": [("O", "systick", 30), ("C", "systick", 40)],
    }
    kinds = {(p["type"], p["unit"], p["startValue"], p["endValue"]) for p in document["profiles"]}
    assert kinds == {("evented", "none", 0, 200)}


def test_with_a_rate_speedscope_gets_nanoseconds() -> None:
    records = [event(64, CONTROL), event(32, CONTROL + 1)]
    made = recording(block(records, 96), hz=64_000_000)
    (profile,) = json.loads(render_probe_speedscope(made))["profiles"]
    assert (profile["name"], profile["unit"]) == ("core 0: code", "nanoseconds")
    assert [each["at"] for each in profile["events"]] == [1000, 1500]


def test_collapsed_stacks_add_up_to_all_that_the_core_did() -> None:
    assert render_probe_collapsed(two_tasks()).splitlines() == [
        "core 0;code 20",  # before the first task is known, and after events were dropped
        "core 0;(scheduler) 80",
        "core 0;task 0x20000100 20",
        "core 0;task 0x20000200 20",
        "core 0;task 0x20000100;control 30",  # 40 without 10 of systick
        "core 0;task 0x20000200;filter 20",
        "core 0;systick 10",
    ]


def test_a_range_within_another_is_taken_from_it() -> None:
    records = [
        event(10, CONTROL),
        event(3, FILTER),
        event(7, FILTER + 1),
        event(1, FILTER),
        event(2, FILTER + 1),
        event(5, CONTROL + 1),
    ]
    assert render_probe_collapsed(recording(block(records, 28))).splitlines() == [
        "core 0;code 10",
        "core 0;code;control 9",
        "core 0;code;control;filter 9",
    ]


def test_a_recording_without_ranges_has_no_stacks() -> None:
    made = recording(block([event(1, STEP)], 1))
    for render in (render_probe_collapsed, render_probe_speedscope):
        with pytest.raises(UsageError, match="no complete pass of a range"):
            render(made)
