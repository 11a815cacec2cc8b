# SPDX-License-Identifier: Apache-2.0
"""Count, Duration, Percent, Ratio and str, and their tagged form in JSON."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boardprof.base.metrics import (
    Count,
    Duration,
    Metric,
    Percent,
    Ratio,
    as_metric,
    metric_from_json,
    metric_to_json,
)

FLOAT_KINDS: list[Any] = [Duration, Percent, Ratio]


def test_attributes_are_named_as_in_tvm() -> None:
    assert Count(3).value == 3
    assert Duration(1.5).microseconds == 1.5
    assert Percent(40.0).percent == 40.0
    assert Ratio(1.25).ratio == 1.25


@pytest.mark.parametrize("metric", [Count(1), Duration(1.0), Percent(1.0), Ratio(1.0)])
def test_metrics_cannot_be_changed(metric: Any) -> None:
    [field] = dataclasses.fields(metric)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(metric, field.name, 2)


def test_kinds_of_equal_number_differ() -> None:
    assert len({Count(1), Duration(1.0), Percent(1.0), Ratio(1.0), "1"}) == 5


@pytest.mark.parametrize("kind", FLOAT_KINDS)
def test_nan_equals_nan_and_hashes_alike(kind: Any) -> None:
    assert kind(float("nan")) == kind(-float("nan"))
    assert hash(kind(float("nan"))) == hash(kind(-float("nan")))
    assert kind(math.nan) != kind(0.0)


class TestConstruction:
    @pytest.mark.parametrize("flag", [True, False])
    def test_a_bool_is_not_a_count(self, flag: bool) -> None:
        with pytest.raises(TypeError, match=r"a bool .* is not a Count"):
            Count(flag)

    @pytest.mark.parametrize("value", [1.0, "1", None, Decimal(1)])
    def test_a_count_is_an_integer(self, value: Any) -> None:
        with pytest.raises(TypeError, match=f"a Count is an integer, not {type(value).__name__}"):
            Count(value)

    def test_numpy_numbers_become_plain_ones(self) -> None:
        assert type(Count(np.uint64(2**64 - 1)).value) is int  # type: ignore[arg-type]
        assert Count(np.uint64(2**64 - 1)).value == 18446744073709551615  # type: ignore[arg-type]
        assert type(Duration(np.float64(1.5)).microseconds) is float
        assert type(Ratio(np.float32(0.5)).ratio) is float  # type: ignore[arg-type]

    @pytest.mark.parametrize("kind", FLOAT_KINDS)
    @pytest.mark.parametrize("number", [2, 2.0, Fraction(2), Decimal(2)])
    def test_any_real_number_becomes_a_float(self, kind: Any, number: Any) -> None:
        metric = kind(number)
        assert metric == kind(2.0)
        assert type(dataclasses.astuple(metric)[0]) is float

    @pytest.mark.parametrize("kind", FLOAT_KINDS)
    @pytest.mark.parametrize("value", [True, "1.5", b"1.5", None, 1j])
    def test_nothing_else_is_a_real_number(self, kind: Any, value: Any) -> None:
        with pytest.raises(TypeError, match=f"a {kind.__name__} is a real number, not "):
            kind(value)

    @pytest.mark.parametrize("kind", FLOAT_KINDS)
    def test_infinities_are_allowed(self, kind: Any) -> None:
        assert kind(math.inf) != kind(-math.inf)


class TestAsMetric:
    @pytest.mark.parametrize("metric", [Count(1), Duration(1.0), Percent(1.0), Ratio(1.0), "x"])
    def test_a_metric_stays_as_it_is(self, metric: Metric) -> None:
        assert as_metric(metric) is metric

    def test_an_int_is_a_count(self) -> None:
        assert as_metric(7) == Count(7)
        assert as_metric(np.int32(7)) == Count(7)

    def test_a_subclass_of_str_becomes_its_text(self) -> None:
        class Kind(str, enum.Enum):  # noqa: UP042  # str() of it is not its text
            MEASURED = "measured"

        assert type(as_metric(Kind.MEASURED)) is str
        assert as_metric(Kind.MEASURED) == "measured"

    def test_a_float_is_refused_with_what_to_use(self) -> None:
        with pytest.raises(TypeError, match=r"a float \(1.5\) has no unit: use Duration"):
            as_metric(1.5)

    @pytest.mark.parametrize("value", [None, True, [], b"x", {"count": 1}])
    def test_anything_else_is_refused(self, value: object) -> None:
        with pytest.raises(TypeError, match=r"is not a Count|a Count is an integer, not"):
            as_metric(value)


TAGGED: list[tuple[Metric, str]] = [
    (Count(1), '{"count": 1}'),
    (Count(-(2**70)), '{"count": -1180591620717411303424}'),
    (Duration(1.5), '{"microseconds": 1.5}'),
    (Percent(40.0), '{"percent": 40.0}'),
    (Ratio(0.1), '{"ratio": 0.1}'),
    ("fir", '{"string": "fir"}'),
    ('a"b\n', '{"string": "a\\"b\\n"}'),
    (Duration(math.inf), '{"microseconds": "inf"}'),
    (Percent(-math.inf), '{"percent": "-inf"}'),
    (Ratio(math.nan), '{"ratio": "nan"}'),
]


class TestJson:
    @pytest.mark.parametrize(("metric", "text"), TAGGED)
    def test_the_tagged_form(self, metric: Metric, text: str) -> None:
        assert json.dumps(metric_to_json(metric), allow_nan=False) == text
        assert metric_from_json(json.loads(text)) == metric

    @given(
        st.one_of(
            st.builds(Count, st.integers()),
            *(st.builds(kind, st.floats()) for kind in FLOAT_KINDS),
            st.text(),
        )
    )
    def test_reading_is_the_inverse_of_writing(self, metric: Metric) -> None:
        text = json.dumps(metric_to_json(metric), allow_nan=False)
        assert metric_from_json(json.loads(text)) == metric

    def test_a_plain_string_is_read(self) -> None:
        assert metric_from_json("fir") == "fir"

    def test_a_whole_number_of_microseconds_is_read(self) -> None:
        assert metric_from_json({"microseconds": 2}) == Duration(2.0)

    @pytest.mark.parametrize(
        ("value", "message"),
        [
            (5, "a metric is an object with one tag, not int 5"),
            (None, "a metric is an object with one tag, not NoneType None"),
            ([1], r"a metric is an object with one tag, not list \[1\]"),
            ({}, "a metric is an object with one tag, not dict {}"),
            ({"count": 1, "ratio": 1}, "a metric is an object with one tag, not dict"),
            ({"bytes": 1}, "unknown metric tag 'bytes'; valid tags are count, microseconds"),
            ({"count": 1.0}, "a count is an integer, not float 1.0"),
            ({"count": True}, "a count is an integer, not bool True"),
            ({"count": "1"}, "a count is an integer, not str '1'"),
            ({"microseconds": None}, "a number, .* is needed, not NoneType None"),
            ({"percent": "1.5"}, "a number, .* is needed, not str '1.5'"),
            ({"ratio": "Infinity"}, "a number, .* is needed, not str 'Infinity'"),
            ({"ratio": False}, "a number, .* is needed, not bool False"),
            ({"ratio": math.inf}, "the number is too large for a 64-bit float"),
            ({"ratio": 10**400}, "the number is too large for a 64-bit float"),
            ({"string": 1}, "a string is needed, not int 1"),
        ],
    )
    def test_what_is_not_a_metric_is_refused(self, value: object, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            metric_from_json(value)
