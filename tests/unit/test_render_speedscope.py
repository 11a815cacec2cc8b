# SPDX-License-Identifier: Apache-2.0
"""speedscope's file: its schema's rules, a profile a device and metric, samples in run order."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boardprof.base.errors import UsageError
from boardprof.base.metrics import Duration, Metric, Ratio
from boardprof.results.report.report import Report
from boardprof.show.flame_graph import render_speedscope

UNITS = {"none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes"}


def rendered(*calls: dict[str, Metric | int]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(render_speedscope(Report(calls, {}, {})))
    check(document)
    return document


def check(document: dict[str, Any]) -> None:
    """Hold a document against the format: what its schema asks for, and what it cannot say."""
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert set(document) <= {"$schema", "exporter", "name", "activeProfileIndex", "shared"} | {
        "profiles"
    }
    frames = document["shared"]["frames"]
    assert all(isinstance(frame["name"], str) for frame in frames)
    assert 0 <= document["activeProfileIndex"] < len(document["profiles"])
    for profile in document["profiles"]:
        assert profile["type"] == "sampled"
        assert profile["unit"] in UNITS
        assert isinstance(profile["name"], str)
        assert len(profile["samples"]) == len(profile["weights"])
        assert all(0 <= frame < len(frames) for stack in profile["samples"] for frame in stack)
        assert all(weight >= 0 for weight in profile["weights"])
        span = profile["endValue"] - profile["startValue"]
        assert math.isclose(span, math.fsum(profile["weights"]), rel_tol=1e-9)


def test_a_profile_a_device_and_metric_with_time_first() -> None:
    document = rendered(
        {"Name": "fir", "Device": "a", "cycles": 400, "Duration (us)": Duration(2.5)},
        {"Name": "crc", "Device": "a", "cycles": 70, "Duration (us)": Duration(0.5)},
        {"Name": "fir", "Device": "b", "ticks": 9},
    )
    assert document["shared"] == {"frames": [{"name": "fir"}, {"name": "crc"}]}
    times, cycles, ticks = document["profiles"]
    assert times == {
        "type": "sampled",
        "name": "a: Duration (us)",
        "unit": "microseconds",
        "startValue": 0,
        "endValue": 3.0,
        "samples": [[0], [1]],
        "weights": [2.5, 0.5],
    }
    assert (cycles["name"], cycles["unit"], cycles["weights"]) == ("a: cycles", "none", [400, 70])
    assert (ticks["name"], ticks["samples"], ticks["endValue"]) == ("b: ticks", [[0]], 9)


def test_a_sum_of_times_is_rounded_once_by_every_python() -> None:
    tenths = [{"Name": "fir", "Duration (us)": Duration(0.1)}] * 10
    (profile,) = rendered(*tenths)["profiles"]
    assert profile["endValue"] == 1.0  # one after the other they make 0.9999999999999999


def test_flags_and_arguments_are_frames_of_their_own() -> None:
    document = rendered({"Name": "fir", "Flags": "-O3", "Argument Shapes": "n=8", "ticks": 1})
    assert [frame["name"] for frame in document["shared"]["frames"]] == ["fir", "-O3", "n=8"]
    assert document["profiles"][0]["samples"] == [[0, 1, 2]]


def test_how_many_samples_were_left_out_stands_in_the_profiles_name() -> None:
    document = rendered(
        {"Name": "f", "Device": "b", "ticks": -2},
        {"Name": "f", "Device": "b", "ticks": 3},
        {"Name": "f", "Device": "b"},
    )
    (profile,) = document["profiles"]
    assert profile["name"] == "b: ticks (1 of 2 samples left out: below 0 or infinite)"
    assert profile["weights"] == [3]


def test_levels_and_ratios_are_no_profiles() -> None:
    document = rendered({"Name": "f", "Stack (bytes)": 64, "IPC": Ratio(0.5), "ticks": 1})
    assert [profile["name"] for profile in document["profiles"]] == ["(no device): ticks"]


def test_a_metric_that_is_0_everywhere_is_no_profile() -> None:
    document = rendered({"Name": "f", "Device": "b", "page-faults": 0, "ticks": 4})
    assert [profile["name"] for profile in document["profiles"]] == ["b: ticks"]


def test_a_report_without_anything_to_draw_is_refused() -> None:
    with pytest.raises(UsageError, match="nothing to draw"):
        rendered({"Name": "f", "IPC": Ratio(0.5)})


def test_times_that_no_float_holds_together_are_refused() -> None:
    huge: dict[str, Metric | int] = {"Name": "f", "Device": "b", "t": Duration(1e308)}
    with pytest.raises(UsageError, match="t on b adds up to more than a float"):
        rendered(huge, huge)


def test_sixty_thousand_rows_are_drawn_as_few_rows_are() -> None:
    # From so many rows on, groups of them are found by numpy.
    document = rendered(
        *({"Name": "fg"[n % 2], "Device": "ab"[n % 3 == 2], "ticks": n} for n in range(60_000))
    )
    a, b = document["profiles"]
    assert document["shared"]["frames"] == [{"name": "f"}, {"name": "g"}]
    # Of 0 to 59,999 every third, from 2 on, is on b: 20,000 * (2 + 59,999) / 2.
    assert (a["name"], a["endValue"], a["samples"][:3]) == (
        "a: ticks",
        1_199_960_000,
        [[0], [1], [1]],
    )
    assert (b["name"], b["endValue"], b["weights"][:2]) == ("b: ticks", 600_010_000, [2, 5])


@given(
    st.lists(
        st.fixed_dictionaries(
            {"Name": st.text(), "Device": st.sampled_from(["a", "b"])},
            optional={
                "n": st.integers(0, 1 << 40),
                "Duration (us)": st.builds(Duration, st.floats(0, 1e9) | st.just(math.inf)),
            },
        ),
        min_size=1,
        max_size=8,
    )
)
def test_whatever_is_written_keeps_the_formats_rules(calls: list[dict[str, Metric | int]]) -> None:
    try:
        rendered(*calls)
    except UsageError:
        drawable = [
            value
            for row in calls
            for key, value in row.items()
            if (key == "n" and value != 0)
            or (isinstance(value, Duration) and 0 < value.microseconds < math.inf)
        ]
        assert not drawable
