# SPDX-License-Identifier: Apache-2.0
"""A Report as a Chrome trace: samples end to end, a track a device, and no ticks taken for time."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from boardprof.base.errors import UsageError
from boardprof.base.metrics import Duration, Metric, Ratio
from boardprof.results.report.report import Report
from boardprof.show.chrome_trace import render_chrome


def trace(*calls: dict[str, Metric | int]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(render_chrome(Report(calls, {}, {"Repeat": 2})))
    return document


def slices(document: dict[str, Any]) -> list[tuple[str, int, float, float]]:
    return [
        (event["name"], event["pid"], event["ts"], event["dur"])
        for event in document["traceEvents"]
        if event["ph"] == "X"
    ]


def process_names(document: dict[str, Any]) -> list[str]:
    events = document["traceEvents"]
    return [e["args"]["name"] for e in events if e["name"] == "process_name"]


def test_samples_follow_each_other_and_last_as_long_as_they_did() -> None:
    document = trace(
        {"Name": "fir", "Device": "b", "Duration (us)": Duration(2.5), "cycles": 40},
        {"Name": "crc", "Device": "b", "Duration (us)": Duration(0.25)},
        {"Name": "fir", "Device": "b", "Duration (us)": Duration(3.0)},
    )
    assert slices(document) == [("fir", 1, 0.0, 2.5), ("crc", 1, 2.5, 0.25), ("fir", 1, 2.75, 3.0)]
    assert process_names(document) == ["b"]
    assert document["boardprof_time_base"] == {"b": "time"}
    assert document["boardprof_configuration"] == {"Repeat": 2}


def test_only_complete_events_and_names_are_written_in_the_order_of_time() -> None:
    document = trace(*({"Name": "f", "Device": d, "ticks": 3} for d in "abab"))
    assert {event["ph"] for event in document["traceEvents"]} == {"X", "M"}
    starts = [start for _, _, start, _ in slices(document)]
    assert starts == sorted(starts) == [0.0, 0.0, 3.0, 3.0]


def test_instructions_of_a_simulated_board_are_labelled_as_no_time() -> None:
    document = trace({"Name": "fir", "Device": "q", "instructions": 700, "ticks": 7})
    assert slices(document) == [("fir", 1, 0.0, 700.0)]
    assert process_names(document) == ["q (instructions, not time)"]
    told = {"q": "instructions, not time: one is drawn as 1 us"}
    assert document["boardprof_time_base"] == told


def test_the_metrics_of_a_sample_stand_in_its_args() -> None:
    row: dict[str, Metric | int] = {"Name": "f", "Device": "b", "ticks": 7, "IPC": Ratio(0.5)}
    document = trace({**row, "Argument Shapes": "n=4"})
    (event,) = (e for e in document["traceEvents"] if e["ph"] == "X")
    assert event["args"] == {"ticks": 7, "IPC": 0.5, "Argument Shapes": "n=4"}


def test_values_are_written_as_json_has_them() -> None:
    document = trace(
        {"Name": 'a "b"', "ticks": 1, 'x%y"': Duration(math.inf), "big": 1 << 70, "s": "\u202e"},
        {"Name": "f", "ticks": 2, 'x%y"': Duration(0.1), "mixed": Ratio(0.5)},
        {"Name": "f", "ticks": 2, "mixed": 3},
    )
    events = [e for e in document["traceEvents"] if e["ph"] == "X"]
    assert [e["name"] for e in events] == ['a "b"', "f", "f"]
    assert [e["args"] for e in events] == [
        {"ticks": 1, 'x%y"': "inf", "big": "1180591620717411303424", "s": "\u202e"},
        {"ticks": 2, 'x%y"': 0.1, "mixed": 0.5},
        {"ticks": 2, "mixed": 3},
    ]


def test_sixty_thousand_samples_are_drawn_as_few_are() -> None:
    document = trace(
        *({"Name": "fg"[n % 2], "Device": "ab"[n % 3 == 2], "ticks": 2} for n in range(60_000))
    )
    drawn = slices(document)
    assert len(drawn) == 60_000
    # Rows 2 and 5 are the first on b, 0, 1 and 3 on a; its last row, 59,998, is its 40,000th.
    assert drawn[:5] == [
        ("f", 1, 0.0, 2.0),
        ("f", 2, 0.0, 2.0),
        ("g", 1, 2.0, 2.0),
        ("g", 2, 2.0, 2.0),
        ("g", 1, 4.0, 2.0),
    ]
    assert drawn[-1] == ("f", 1, 79_998.0, 2.0)


def test_a_sample_that_cannot_be_drawn_takes_no_room() -> None:
    document = trace(
        {"Name": "f", "ticks": 5}, {"Name": "g", "ticks": -4}, {"Name": "h", "ticks": 2}
    )
    assert slices(document) == [("f", 1, 0.0, 5.0), ("h", 1, 5.0, 2.0)]


def test_a_length_beyond_what_readers_keep_exactly_is_refused() -> None:
    with pytest.raises(UsageError, match="too long for a trace"):
        trace({"Name": "f", "ticks": 1 << 60})


def test_a_report_without_anything_to_draw_is_refused() -> None:
    with pytest.raises(UsageError, match="nothing to draw"):
        trace({"Name": "f", "IPC": Ratio(0.5)})
