# SPDX-License-Identifier: Apache-2.0
"""What the page's script draws: the samples in columns, and statistics that are computed here.

The script computes no statistics of its own: a median is the same in the page, in the table and
in a comparison. Of samples that are all alike, one value is kept.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from boardprof.metrics import Count, Duration, Metric, Percent, Ratio, digits, raw_of
from boardprof.render.aggregate import SORT_COLUMNS
from boardprof.render.cells import escaped
from boardprof.report.report import Report
from boardprof.stats.groups import GroupKey, GroupSummary
from boardprof.stats.summary import Number, Summary
from boardprof.stats.summary import plain as rounded

if TYPE_CHECKING:
    from boardprof.comparison.comparison import Comparison, Difference

__all__ = ["page_view"]

_KINDS: Final[dict[type[Metric], str]] = {
    Count: "count",
    Duration: "us",
    Percent: "percent",
    Ratio: "ratio",
}
_SHARE: Final = "Percent"
"""Each sample's share of its device's total: it says nothing of one call."""

_LAST: Final = ("Stack (bytes)", "Perturbation (%)")
_IDENTITY: Final = ("build", "compiler", "flags")
"""Which facts tell two runs apart."""

_EXACT_FLOAT: Final = 1 << 53
"""Integers up to here are exact in JavaScript."""


def page_view(
    report: Report, groups: Sequence[GroupSummary], comparison: Comparison | None
) -> dict[str, Any]:
    """Return the page's data as plain JSON.

    Args:
        report: what the page is about.
        groups: its `summaries`.
        comparison: with an older one, or None.
    """
    names = _metric_names(report, groups)
    places = {name: i for i, name in enumerate(names)}
    kinds = {group.metric: _KINDS[group.kind] for group in groups}
    rows: dict[GroupKey, dict[str, Any]] = {}
    for group in groups:
        if group.metric in places:
            row = rows.setdefault(group.key, {**_key(group.key), "metrics": {}})
            row["metrics"][places[group.metric]] = _series(group)
    keys = [*rows.values(), *(_changed_keys(comparison) if comparison else ())]
    return {
        "metrics": [
            {"name": escaped(name), "kind": kinds.get(name) or _kind_of_total(report, name)}
            for name in names
        ],
        "first": _first(names, {group.metric for group in groups}),
        "shows": {
            "device": len({row["device"] for row in keys}) > 1,
            "flags": any(row["flags"] for row in keys),
            "shapes": any(row["shapes"] for row in keys),
        },
        "groups": list(rows.values()),
        "totals": [
            {"device": escaped(device), "metrics": _total(row, places)}
            for device, row in report.device_metrics.items()
        ],
        "changes": None if comparison is None else _changes(comparison),
    }


def _metric_names(report: Report, groups: Sequence[GroupSummary]) -> list[str]:
    found = dict.fromkeys(group.metric for group in groups)
    for row in report.device_metrics.values():
        found |= dict.fromkeys(n for n, metric in row.items() if not isinstance(metric, str))
    for name in ("Count", _SHARE):
        found.pop(name, None)
    first = [name for name in SORT_COLUMNS[:1] if name in found]
    last = [name for name in _LAST if name in found]
    return [*first, *(n for n in found if n not in (*first, *last)), *last]


def _first(names: Sequence[str], sampled: set[str]) -> int:
    """Return the metric that the page begins with."""
    return next((names.index(name) for name in (*SORT_COLUMNS, *names) if name in sampled), 0)


def _kind_of_total(report: Report, name: str) -> str:
    rows = report.device_metrics.values()
    kinds = (_KINDS.get(type(row[name])) for row in rows if name in row)
    return next((kind for kind in kinds if kind is not None), "count")


def _key(key: GroupKey | Difference) -> dict[str, str]:
    return {
        "name": escaped(key.title),
        "device": escaped(key.device),
        "flags": escaped(key.flags),
        "shapes": escaped(key.shapes),
    }


def _series(group: GroupSummary) -> dict[str, Any]:
    one = group.summary
    series: dict[str, Any] = {
        "n": one.n,
        "minimum": _number(one.minimum),
        "p5": _number(one.percentiles[5]),
        "p25": _number(one.percentiles[25]),
        "median": _number(one.median),
        "p75": _number(one.percentiles[75]),
        "p95": _number(one.percentiles[95]),
        "maximum": _number(one.maximum),
        "mean": _number(one.mean),
        "stddev": _number(one.stddev),
        "cv": _number(one.cv),
        "outliers": list(one.outliers),
        "first": _number(one.first),
        "exact": one.is_exact,
    }
    if one.minimum != one.maximum:
        series["values"] = [_number(value) for value in group.values]
    return series


def _total(row: dict[str, Metric], places: dict[str, int]) -> dict[int, int | float | str | None]:
    found: dict[int, int | float | str | None] = {}
    for name, metric in row.items():
        if name in places and not isinstance(metric, str):
            value = raw_of(metric)
            big = isinstance(value, int) and abs(value) >= _EXACT_FLOAT
            found[places[name]] = f"{value:,}" if big else _number(value)
    return found


def _changes(comparison: Comparison) -> dict[str, Any]:
    old, new = _identity(comparison.before_facts), _identity(comparison.after_facts)
    return {
        "before": escaped(comparison.before_name),
        "after": escaped(comparison.after_name),
        "facts": [
            [escaped(name), escaped(old.get(name, "")), escaped(new.get(name, ""))]
            for name in {**old, **new}
        ],
        "notes": [escaped(note) for note in comparison.notes],
        "rows": [_change(each) for each in comparison.rows],
    }


def _identity(facts: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return build, compiler and flags of a side."""
    return {name: value for name, value in facts if name.endswith(_IDENTITY)}


def _changed_keys(comparison: Comparison) -> list[dict[str, str]]:
    return [_key(each) for each in comparison.rows]


def _change(each: Difference) -> dict[str, Any]:
    return {
        **_key(each),
        "metric": escaped(each.metric),
        "kind": _KINDS[each.kind],
        "before": _median(each.before),
        "after": _median(each.after),
        "change": _number(each.change),
        "p": _number(each.p),
        "exact": each.is_exact,
        "verdict": each.verdict,
        "rule": None if each.rule is None else escaped(str(each.rule)),
    }


def _median(summary: Summary | None) -> int | float | str | None:
    """Return the median; as text where a float of the script would be another number."""
    if summary is None:
        return None
    median = summary.median
    is_big = isinstance(median, int) and abs(median) >= _EXACT_FLOAT
    return digits(int(median), ",") if is_big else _number(median)


def _number(value: Number | str | None) -> int | float | str | None:
    """Return a number as JSON can carry it; infinities and NaN become their names."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return value if abs(value) <= sys.float_info.max else digits(value, ",")
    number = rounded(value) if isinstance(value, Fraction) else value
    if isinstance(number, int):
        return _number(number)
    if not math.isfinite(number):
        return str(number)
    whole = number.is_integer() and abs(number) < _EXACT_FLOAT
    return int(number) if whole else number
