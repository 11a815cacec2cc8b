# SPDX-License-Identifier: Apache-2.0
"""Merging, summing and medians by column: the same as row by row, with numpy and without it."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from boardprof.base.metrics import Count, Duration, Metric, Percent, Ratio
from boardprof.results.report import calls as columns
from boardprof.results.report.calls import Calls, grouped
from boardprof.results.report.report import Report
from boardprof.results.stats.groups import summaries
from boardprof.show import aggregate
from boardprof.show.aggregate import merge_calls, per_call_medians, sort_order, sum_rows

Row = dict[str, Metric]


@pytest.fixture(params=[False, True], ids=["without numpy", "with numpy"])
def by_numpy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Do what is done with many rows, whatever their number."""
    if request.param:
        monkeypatch.setattr(columns, "LARGE", 0)
        monkeypatch.setattr(aggregate, "_MANY", 0)
    return bool(request.param)


# -- the oracle: row by row, one value after the other ----------------------------------------


def number(metric: Metric) -> Any:
    return next(getattr(metric, slot) for slot in metric.__slots__)  # type: ignore[union-attr]


def added(metrics: list[Any]) -> Any:
    exact = sum((Fraction(number(metric)) for metric in metrics), Fraction(0))
    return int(exact) if isinstance(metrics[0], Count) else float(exact)


def oracle(rows: list[Row]) -> list[Row]:
    """Merge rows of equal name or hash, device and shapes, in first-seen order."""
    together: dict[Any, dict[str, list[Metric]]] = {}
    for row in rows:
        key = (row.get("Hash", row.get("Name", "")), row.get("Device", ""))
        columns = together.setdefault(key, {})
        for name, metric in row.items():
            columns.setdefault(name, []).append(metric)
    return [{name: one(name, v) for name, v in columns.items()} for columns in together.values()]


def one(name: str, metrics: list[Metric]) -> Metric:
    kind: Any = type(metrics[0])
    if any(type(metric) is not kind for metric in metrics):
        return ""
    if kind is str:
        return metrics[0] if len(set(metrics)) == 1 else ""
    if name == "Stack (bytes)" and kind is Count:
        return Count(max(map(number, metrics)))
    if kind is Ratio or (kind is Percent and name != "Percent"):
        ordered = sorted(map(number, metrics))
        low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
        return kind(low + (high - low) / 2)  # type: ignore[no-any-return]
    return kind(added(metrics))  # type: ignore[no-any-return]


def median(rows: list[Row], name: str, kind: Any) -> Any:
    found = [
        Fraction(number(row[name])) / number(row["Count"])
        if kind is Count
        else number(row[name]) / number(row["Count"])
        for row in rows
        if type(row.get(name)) is kind
        and isinstance(row.get("Count"), Count)
        and number(row["Count"]) > 0
    ]
    found.sort()
    n = len(found)
    return (found[n // 2] + found[(n - 1) // 2]) / 2 if n else None


finite = st.floats(-1e100, 1e100)
counts = st.builds(Count, st.integers(-(2**66), 2**66) | st.integers(0, 9))
metrics = st.one_of(
    counts, *(st.builds(kind, finite) for kind in (Duration, Percent, Ratio)), st.sampled_from("ab")
)
many = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "Name": st.sampled_from("fgh"),
            "Hash": st.sampled_from("fx"),
            "Device": st.sampled_from(["a", ""]),
            "Count": st.builds(Count, st.integers(-1, 4)) | metrics,
            "cycles": counts,
            "t": st.builds(Duration, finite),
            "Percent": st.builds(Percent, finite) | metrics,
            "Stalled (%)": st.builds(Percent, finite),
            "Stack (bytes)": counts | metrics,
            "IPC": st.builds(Ratio, finite),
        },
    ),
    max_size=20,
)
checked = settings(
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.mark.usefixtures("by_numpy")
class TestAgainstRows:
    @checked
    @given(many)
    @example([{"Name": "f", "t": Duration(1e100)}, {"Name": "f", "t": Duration(1e-9)}] * 2)
    @example([{"Name": "f", "cycles": Count(2**63)}, {"Name": "f", "cycles": Count(-1)}] * 2)
    def test_merged_rows(self, rows: list[Row]) -> None:
        calls = Calls(rows)
        assert list(merge_calls(calls, calls.tvm_groups())) == oracle(rows)

    @checked
    @given(many)
    def test_medians_per_call(self, rows: list[Row]) -> None:
        calls = Calls(rows)
        groups = calls.group_by("Name")
        for name, kind in (("cycles", Count), ("t", Duration)):
            expected = [
                median([row for row in rows if row.get("Name", "") == key], name, kind)
                for (key,) in groups.keys
            ]
            found = per_call_medians(calls, groups, name)
            numbers = [number(f) if isinstance(f, Duration) else f for f in found]
            largest = max((abs(number(row[name])) for row in rows if name in row), default=0)
            for mine, theirs in zip(numbers, expected, strict=True):
                close = pytest.approx(float(theirs or 0), rel=1e-12, abs=1e-12 * largest)
                assert (mine and float(mine)) == (None if theirs is None else close)

    @checked
    @given(many)
    def test_order(self, rows: list[Row]) -> None:
        order = sort_order(Calls(rows), "t")
        there = [i for i, row in enumerate(rows) if "t" in row]
        there.sort(key=lambda i: -number(rows[i]["t"]))
        lacking = [i for i, row in enumerate(rows) if "t" not in row]
        assert order == ([*there, *lacking] if there else None)

    def test_many_rows_of_few_functions(self) -> None:
        calls = Calls({"Name": "fgh"[n % 3], "Count": 2, "cycles": n} for n in range(3001))
        groups = calls.tvm_groups()
        assert list(merge_calls(calls, groups)) == [
            {"Name": "f", "Count": Count(2002), "cycles": Count(1_501_500)},
            {"Name": "g", "Count": Count(2000), "cycles": Count(1_499_500)},
            {"Name": "h", "Count": Count(2000), "cycles": Count(1_500_500)},
        ]
        # Of 0, 3 .. 3000 the middle is 1500; of 1 .. 2998 it is between 1498 and 1501.
        assert per_call_medians(calls, groups, "cycles") == [
            750,
            749.75,
            750.25,
        ]


@pytest.mark.parametrize(
    ("values", "one"),
    [([90.0, 91.5, 40.0], 90.0), ([1.0, 2.0, 4.0, 8.0], 3.0), ([2.0, math.inf, 3.0, 7.0], 3.0)],
)
@pytest.mark.parametrize(("name", "kind"), [("Branches taken (%)", Percent), ("IPC", Ratio)])
def test_of_a_rate_all_views_show_the_median_of_the_samples(
    name: str, kind: type[Percent] | type[Ratio], values: list[float], one: float
) -> None:
    row: Row = {"Name": "f", "Device": "b", "Count": Count(3)}
    report = Report([{**row, name: kind(each)} for each in values], {}, {})
    groups = report.calls.labelled_groups()
    assert merge_calls(report.calls, groups)[0][name] == kind(one)
    assert aggregate.CallGroups(report.calls, groups).typical(name) == [kind(one)]
    assert [each.summary.median for each in summaries(report)] == [one]


def test_adding_floats_does_not_depend_on_their_order() -> None:
    values = [1e16, 1.0, -1e16, 1.0]
    for order in ((0, 1, 2, 3), (1, 3, 0, 2), (0, 2, 1, 3)):
        rows: list[Row] = [{"Name": "f", "t": Duration(values[i])} for i in order]
        assert list(merge_calls(Calls(rows), Calls(rows).tvm_groups())) == [
            {"Name": "f", "t": Duration(2.0)}
        ]


@pytest.mark.parametrize(
    ("values", "total"),
    [
        ([math.inf, 1.0], math.inf),
        ([math.inf, -math.inf], math.nan),
        ([math.nan, 1.0], math.nan),
        ([1e308, 1e308], math.inf),
    ],
)
def test_sums_beyond_floats_are_infinite_or_nan(values: list[float], total: float) -> None:
    calls = Calls({"Name": "f", "t": Duration(value)} for value in values)
    assert sum_rows(calls, grouped([0] * len(values))) == [{"t": Duration(total)}]


def test_strings_beside_counts_are_passed_over_in_a_sum_and_other_kinds_forbid_it() -> None:
    calls = Calls([{"x": 1, "y": 1}, {"x": "", "y": Percent(1.0)}, {"x": 2}])
    assert sum_rows(calls, grouped([0, 0, 0])) == [{"x": Count(3)}]


def test_rates_and_levels_have_no_sum_in_ours_and_one_in_tvms() -> None:
    calls = Calls([{"Stall (%)": Percent(10.0), "Stack (bytes)": 8}] * 2)
    assert sum_rows(calls, grouped([0, 0])) == [{}]
    assert sum_rows(calls, grouped([0, 0]), "tvm") == [
        {"Stall (%)": Percent(20.0), "Stack (bytes)": Count(16)}
    ]


def test_text_in_a_column_of_levels_is_not_made_a_number() -> None:
    calls = Calls([{"Name": "f", "Stack (bytes)": "unknown"}] * 2)
    assert merge_calls(calls, calls.tvm_groups())[0]["Stack (bytes)"] == "unknown"


@pytest.mark.parametrize("aggregate_rows", [True, False])
def test_sixty_thousand_rows_print_as_few_rows_do(aggregate_rows: bool) -> None:
    rows: list[dict[str, Metric | int]] = [
        {"Name": "fg"[n % 2], "Count": 1, "cycles": n % 2 + 5} for n in range(60_000)
    ]
    text = Report(rows, {}, {}).table(aggregate=aggregate_rows).split("\n\n")[0].splitlines()
    if aggregate_rows:
        assert [line.split() for line in text[1:3]] == [
            ["f", "30,000", "150,000", "5"],
            ["g", "30,000", "180,000", "6"],
        ]
    assert len(text) == (2 if aggregate_rows else 60_000) + 3
    assert text[-1].split() == ["Sum", "60,000", "330,000"]
