# SPDX-License-Identifier: Apache-2.0
"""The Report itself: what it takes, what it refuses, and when two are equal."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
from typing import Any

import pytest

from boardprof.base.metrics import Count, Duration, Ratio
from boardprof.results.report.calls import place_text
from boardprof.results.report.report import Report


def test_plain_ints_and_strings_become_metrics() -> None:
    report = Report([{"Name": "f", "Count": 2}], {"cpu0": {"cycles": 3}}, {"threads": 1, "b": "x"})
    assert report.calls == [{"Name": "f", "Count": Count(2)}]
    assert report.device_metrics == {"cpu0": {"cycles": Count(3)}}
    assert report.configuration == {"threads": Count(1), "b": "x"}
    assert report.extra is None


@pytest.mark.parametrize(
    ("calls", "totals", "configuration", "place"),
    [
        ([{}, {"cycles": 1.5}], {}, {}, 'calls[1]["cycles"]'),
        ([], {"cpu0": {"cycles": 1.5}}, {}, 'device_metrics["cpu0"]["cycles"]'),
        ([], {}, {"cycles": 1.5}, 'configuration["cycles"]'),
    ],
)
def test_a_bare_float_is_refused_with_its_place_and_what_to_use(
    calls: Any, totals: Any, configuration: Any, place: str
) -> None:
    with pytest.raises(TypeError) as caught:
        Report(calls, totals, configuration)
    assert str(caught.value) == (
        f"{place}: a float (1.5) has no unit: use Duration(microseconds), Percent, Ratio, "
        "or Count for a whole number"
    )


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        ([{"x": True}], r'calls\[0\]\["x"\]: a bool \(True\) is not a Count'),
        ([{"x": None}], r'calls\[0\]\["x"\]: a Count is an integer, not NoneType None'),
        ([{1: "x"}], r"calls\[0\]: a column name must be a str, not 1"),
        ([["x"]], r"calls\[0\]: a dict of metrics is needed, not \['x'\]"),
    ],
)
def test_other_wrong_rows_are_refused_with_their_place(calls: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Report(calls, {}, {})


EMPTY = {"schema_version": 1, "devices": {}, "measurements": [], "missing": []}


def test_later_changes_to_what_was_passed_do_not_reach_the_report() -> None:
    row: dict[str, Any] = {"Name": "f"}
    extra: dict[str, Any] = {"schema_version": 1, "samples": [1]}
    report = Report([row], {}, {}, extra)
    row["Name"] = "g"
    extra["samples"].append(2)
    assert report.calls == [{"Name": "f"}]
    assert report.extra == {**EMPTY, "samples": [1]}


def test_fields_cannot_be_replaced() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Report([], {}, {}).calls = []  # type: ignore[misc]


def test_a_short_repr_however_many_rows() -> None:
    report = Report([{"Name": "f"}] * 1000, {"cpu0": {}, "npu0": {}}, {})
    assert repr(report) == "<Report: 1000 rows, devices: cpu0, npu0>"
    assert repr(Report([], {}, {})) == "<Report: 0 rows, devices: none>"


def test_a_notebook_shows_the_table() -> None:
    report = Report([{"Name": "a<b>", "cycles": 5}], {}, {})
    html = report._repr_html_()
    assert html.startswith("<pre>Name ")
    assert "a&lt;b&gt;" in html
    assert html.count("\n") == report.table().count("\n")


def test_a_report_can_be_copied_and_pickled() -> None:
    report = Report([{"t": Duration(math.nan)}], {}, {}, {"schema_version": 1})
    assert copy.deepcopy(report) == report
    assert pickle.loads(pickle.dumps(report)) == report


class TestEquality:
    def test_is_by_content(self) -> None:
        def make() -> Report:
            return Report(
                [{"t": Duration(math.nan), "r": Ratio(1.0)}],
                {"cpu0": {"n": 1}},
                {"b": "x"},
                {"schema_version": 1, "a": [1, None]},
            )

        assert make() == make()

    def test_does_not_depend_on_the_order_of_columns(self) -> None:
        assert Report([{"a": 1, "b": 2}], {}, {}) == Report([{"b": 2, "a": 1}], {}, {})

    @pytest.mark.parametrize(
        "other",
        [
            Report([{"n": 2}], {}, {}),
            Report([{"n": Duration(1.0)}], {}, {}),
            Report([{"n": 1}, {}], {}, {}),
            Report([{"n": 1}], {"cpu0": {}}, {}),
            Report([{"n": 1}], {}, {"b": "x"}),
            Report([{"n": 1}], {}, {}, {"schema_version": 1}),
        ],
    )
    def test_every_part_counts(self, other: Report) -> None:
        assert Report([{"n": 1}], {}, {}) != other


class TestExtra:
    @pytest.mark.parametrize("extra", [{}, {"schema_version": 2}, {"schema_version": True}])
    def test_it_must_say_its_schema_version(self, extra: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match='extra must contain "schema_version": 1'):
            Report([], {}, {}, extra)

    def test_what_a_record_does_not_have_in_its_place_is_refused_with_it(self) -> None:
        extra = {"schema_version": 1, "measurements": [{"number": "ten"}]}
        place = r'extra\["measurements"\]\[0\]\["number"\]: an integer is needed, not a string'
        with pytest.raises(TypeError, match=place):
            Report([], {}, {}, extra)

    def test_tuples_become_lists(self) -> None:
        report = Report([], {}, {}, {"schema_version": 1, "samples": ((1, 2), ())})
        assert report.extra == {**EMPTY, "samples": [[1, 2], []]}

    @pytest.mark.parametrize("value", [[1, {"t": math.nan}], math.inf])
    def test_non_finite_floats_are_refused(self, value: Any) -> None:
        with pytest.raises(ValueError, match="Out of range float values are not JSON compliant"):
            Report([], {}, {}, {"schema_version": 1, "x": value})

    @pytest.mark.parametrize(
        ("value", "kind"), [({"a": [b"blob"]}, "bytes"), ([Count(1)], "Count")]
    )
    def test_what_json_cannot_hold_is_refused(self, value: Any, kind: str) -> None:
        with pytest.raises(TypeError, match=f"Object of type {kind} is not JSON serializable"):
            Report([], {}, {}, {"schema_version": 1, "x": value})


def test_places_are_written_as_python_would() -> None:
    assert place_text("calls", 3, "cycles") == 'calls[3]["cycles"]'
    assert place_text("calls") == "calls"
    assert place_text("configuration", 'a"b\n') == 'configuration["a\\"b\\n"]'
