# SPDX-License-Identifier: Apache-2.0
"""Data for the script of the HTML page: samples in columns, and their statistics.

Statistics are computed here and not by the script, so that a median is the same in the page, the
table and a comparison.
"""

from __future__ import annotations

import math
import posixpath
from collections.abc import Iterator, Sequence
from typing import Any, Final

from boardprof.base.metrics import Count, Duration, Metric, Percent, Ratio, digits, raw_of
from boardprof.base.printable import bounded
from boardprof.results.comparison.compare import compare, trends_of
from boardprof.results.comparison.comparison import Comparison, Difference, mean_ratios, place_in
from boardprof.results.comparison.profile_difference import AlignedLine, aligned_lines, plain_name
from boardprof.results.report.calls import DURATION, PERTURBATION, SHARE, STACK
from boardprof.results.report.profile import MODELLED, Profile
from boardprof.results.report.report import Report
from boardprof.results.row_origins import GroupKey, ProfiledRow, profiles_of
from boardprof.results.stats.groups import GroupSummary
from boardprof.results.stats.warnings import modes_of
from boardprof.show.aggregate import SORT_COLUMNS
from boardprof.show.answer import relatives, settings_of
from boardprof.show.cells import JUDGED_BY, number_text
from boardprof.show.comparison_table import output_lines
from boardprof.show.flame_graph import INTERRUPTED, stacks_of
from boardprof.show.profile_tables import CONTEXT, interval_text, notes

_KINDS: Final[dict[type[Metric], str]] = {
    Count: "count",
    Duration: "us",
    Percent: "percent",
    Ratio: "ratio",
}
_LAST: Final = (STACK, PERTURBATION)
_IDENTITY: Final = ("build", "compiler", "flags")  # facts that distinguish two runs
_COMPARABLE: Final = (DURATION, "cycles", "instructions")  # ticks depend on each board's clock
_OWN: Final = -1  # the leading metric of each row, if the rows have no metric in common
_EXACT_FLOAT: Final = 1 << 53  # integers below this are exact in JavaScript


def page_view(
    report: Report,
    groups: Sequence[GroupSummary],
    comparison: Comparison | None,
    earlier: Sequence[tuple[str, Report]] = (),
) -> dict[str, Any]:
    """Return the page's data as plain JSON; ``earlier`` has each row's history, oldest first."""
    names = _metric_names(report, groups)
    places = {name: i for i, name in enumerate(names)}
    kinds = {group.metric: _KINDS[group.kind] for group in groups}
    history = _History(report, earlier)
    rows: dict[GroupKey, dict[str, Any]] = {}
    for group in groups:
        if group.metric in places:
            row = rows.setdefault(group.key, {**_key(group.key), "metrics": {}})
            row["metrics"][places[group.metric]] = _series(group) | history.of(group)
    judged = [places[name] for name in JUDGED_BY if name in places]
    for row in rows.values():  # the metric that represents it
        row["leads"] = next((i for i in judged if i in row["metrics"]), min(row["metrics"]))
    _add_sweep(rows, {(each.key, places.get(each.metric)): each for each in groups})
    keys = [*rows.values(), *(_key(each) for each in (comparison.rows if comparison else ()))]
    return {
        "metrics": [
            {"name": bounded(name), "kind": kinds.get(name) or _kind_of_total(report, name)}
            for name in names
        ],
        "first": _first(list(rows.values()), places),
        "shows": {
            "device": len({row["device"] for row in keys}) > 1,
            "flags": any(row["flags"] for row in keys),
            "shapes": any(row["shapes"] for row in keys),
        },
        "groups": sorted(rows.values(), key=lambda row: row.get("function", 0)),
        "totals": [
            {"device": bounded(device), "metrics": _total(row, places)}
            for device, row in report.device_metrics.items()
        ],
        "changes": None if comparison is None else _changes(comparison),
    }


class _History:
    """The medians of earlier runs, by row and metric."""

    def __init__(self, report: Report, earlier: Sequence[tuple[str, Report]]) -> None:
        self._names = [*(bounded(name) for name, _ in earlier), "this run"]
        runs = [*(each for _, each in earlier), report]
        self._trends = trends_of(runs, lambda run: compare(run, report))[0] if earlier else {}

    def of(self, group: GroupSummary) -> dict[str, Any]:
        """Return the runs, their medians and the changes up to this run; empty if unknown."""
        trend = self._trends.get(place_in(group.key, group.metric))
        if trend is None or len(trend.runs) < 2:
            return {}
        names = [self._names[run] for run in trend.runs]
        medians = [_number(each) for each in trend.medians]
        if any(isinstance(each, str) for each in medians):  # a line needs numbers
            return {}
        found: dict[str, Any] = {"runs": names, "medians": medians}
        usual = trend.usual()
        if usual is not None and usual.spread:
            low, high = usual.middle - usual.spread, usual.middle + usual.spread
            found["usual"] = [_number(low), _number(high)]
            found["since"] = len(medians) - usual.runs
        if trend.changes:
            found["changes"] = [
                {"at": each.at, "before": _number(each.before), "after": _number(each.after)}
                for each in trend.changes
            ]
        return {"history": found}


def _first(rows: Sequence[dict[str, Any]], places: dict[str, int]) -> int:
    """Return the metric that the page shows first; all rows must have it."""
    leading = {row["leads"] for row in rows}
    if len(leading) == 1:
        return int(leading.pop())
    common = (places[name] for name in _COMPARABLE if name in places)
    shared = (place for place in common if all(place in row["metrics"] for row in rows))
    return next(shared, _OWN if rows else 0)


def _add_sweep(
    rows: dict[GroupKey, dict[str, Any]], groups: dict[tuple[GroupKey, int | None], GroupSummary]
) -> None:
    """Add the number of its function, and the multiple of the first setting, to each row."""
    keys = list(rows)
    settings = settings_of(keys)
    if max(map(len, settings), default=0) < 2:
        return
    for number, members in enumerate(settings):
        swept = [keys[member] for member in members]
        for key in swept:
            rows[key]["function"] = number
        for metric in rows[swept[0]]["metrics"]:
            found = [groups[key, metric] for key in swept if metric in rows[key]["metrics"]]
            if found[0].kind in (Count, Duration):
                for group, each in zip(found, relatives(found) or (), strict=False):
                    more = {"relative": each.text, "best": each.is_best}
                    rows[group.key]["metrics"][metric] |= more


def _metric_names(report: Report, groups: Sequence[GroupSummary]) -> list[str]:
    found = dict.fromkeys(group.metric for group in groups)
    for row in report.device_metrics.values():
        found |= dict.fromkeys(n for n, metric in row.items() if not isinstance(metric, str))
    for name in ("Count", SHARE):
        found.pop(name, None)
    first = [name for name in SORT_COLUMNS[:1] if name in found]
    last = [name for name in _LAST if name in found]
    return [*first, *(n for n in found if n not in (*first, *last)), *last]


def _kind_of_total(report: Report, name: str) -> str:
    rows = report.device_metrics.values()
    kinds = (_KINDS.get(type(row[name])) for row in rows if name in row)
    return next((kind for kind in kinds if kind is not None), "count")


def _key(key: GroupKey | Difference) -> dict[str, str]:
    return {
        "name": bounded(key.title),
        "device": bounded(key.device),
        "flags": bounded(key.flags),
        "shapes": bounded(key.shapes),
    }


def _series(group: GroupSummary) -> dict[str, Any]:
    one = group.summary
    modes = None if one.minimum == one.maximum else modes_of(group)
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
        "outliers": [] if modes else list(one.outliers),
        "first": _number(one.first),
        "exact": one.is_exact,
        "modelled": group.metric in MODELLED,
    }
    if one.minimum != one.maximum:
        series["values"] = [_number(value) for value in group.values]
    if modes:
        near = (f"{each.n} near {number_text(each.middle, group.kind)}" for each in modes)
        series["modes"] = " and ".join(near)
    return series


def _total(row: dict[str, Metric], places: dict[str, int]) -> dict[int, int | float | str | None]:
    return {
        places[name]: _exact(raw_of(metric))
        for name, metric in row.items()
        if name in places and not isinstance(metric, str)
    }


def _changes(comparison: Comparison) -> dict[str, Any]:
    old, new = _identity(comparison.before_facts), _identity(comparison.after_facts)
    return {
        "before": bounded(comparison.before_name),
        "after": bounded(comparison.after_name),
        "facts": [
            [bounded(name), bounded(old.get(name, "")), bounded(new.get(name, ""))]
            for name in {**old, **new}
        ],
        "means": [
            {
                "metric": bounded(mean.metric),
                "device": bounded(mean.device),
                "change": _number(mean.ratio - 1),
                "of": mean.measured,
            }
            for mean in mean_ratios(comparison.rows)
        ],
        "notes": [
            *(bounded(f"Output changed: {line}.") for line in output_lines(comparison)),
            *(bounded(note) for note in comparison.notes),
        ],
        "rows": [_change(each) for each in comparison.rows],
    }


def _identity(facts: Sequence[tuple[str, str]]) -> dict[str, str]:
    return {name: value for name, value in facts if name.endswith(_IDENTITY)}


def _change(each: Difference) -> dict[str, Any]:
    return {
        **_key(each),
        "metric": bounded(each.metric),
        "kind": _KINDS[each.kind],
        "before": _exact(each.before.median if each.before else None),
        "after": _exact(each.after.median if each.after else None),
        "change": _number(each.change),
        "p": _number(each.p),
        "exact": each.is_exact,
        "modelled": each.metric in MODELLED,
        "verdict": each.verdict,
        "rule": None if each.rule is None else bounded(str(each.rule)),
    }


def _exact(value: int | float | str | None) -> int | float | str | None:
    """Return a number as `_number` does, but as text if a float of the script would be rounded."""
    if isinstance(value, int) and abs(value) >= _EXACT_FLOAT:
        return digits(value, ",")
    return _number(value)


def _number(value: int | float | str | None) -> int | float | str | None:
    """Return a number as JSON can hold it; infinities and NaN become their names."""
    if value is None or isinstance(value, str | int):
        return value
    if not math.isfinite(value):
        return str(value)
    is_whole = value.is_integer() and abs(value) < _EXACT_FLOAT
    return int(value) if is_whole else value


# -- profiles ----------------------------------------------------------------------------------


def profile_views(report: Report, before: Report | None = None) -> list[dict[str, Any]]:
    """Return the page's data of each profile, with the change since that of the same row before."""
    older = {_identity_of(row): row.profile for row in profiles_of(before)} if before else {}
    return [_profile(row, older.get(_identity_of(row))) for row in profiles_of(report)]


def _identity_of(row: ProfiledRow) -> tuple[str, ...]:
    return row.name, row.shapes, row.device, row.flags, row.label


def _profile(row: ProfiledRow, before: Profile | None) -> dict[str, Any]:
    after = row.profile
    sides = [after]
    # The numbers of samples of two runs cannot be compared.
    if before is not None and before.exact and after.exact:
        sides += [before] if set(after.columns) <= set(before.columns) else []
    return {
        "name": bounded(row.title),
        "device": bounded(row.device),
        "row": _key(GroupKey(row.name, row.shapes, row.flags, row.device, label=row.label)),
        "metrics": [bounded(name) for name in after.columns],
        "first": after.column(),
        "sampled": not after.exact,
        "notes": [[bounded(note) for note in notes(after, name)] for name in after.columns],
        "totals": [[side.sum(name) for name in after.columns] for side in sides],
        "nodes": _nodes(sides, after.columns),
        "functions": _functions(sides, after.columns),
        "files": list(_files(after, sides[-1])),
    }


def _nodes(sides: Sequence[Profile], metrics: Sequence[str]) -> list[list[Any]]:
    """Return the tree of calls, parents first: parent, name, place, and each side's own costs."""
    numbers: dict[tuple[str, ...], int] = {(): -1}
    nodes: list[list[Any]] = []
    for number, side in enumerate(sides):
        for column, metric in enumerate(metrics):
            for stack, cost in stacks_of(side, metric).items():
                if stack[0].function == INTERRUPTED:
                    continue  # they are not in the call's total
                # A clone of the compiler's stays the function that it was made of.
                names = tuple(plain_name(frame.function) for frame in stack)
                for depth, frame in enumerate(stack, 1):
                    if names[:depth] not in numbers:
                        own = [[0] * len(metrics) for _ in sides]
                        place = _where(frame.file, frame.line if depth < len(stack) else 0)
                        parent = numbers[names[: depth - 1]]
                        numbers[names[:depth]] = len(nodes)
                        nodes.append([parent, bounded(frame.function), bounded(place), *own])
                nodes[numbers[names]][3 + number][column] += cost
    return nodes


def _where(file: str, line: int) -> str:
    return f"{posixpath.basename(file)}:{line}" if file and line else posixpath.basename(file)


def _functions(sides: Sequence[Profile], metrics: Sequence[str]) -> list[dict[str, Any]]:
    """Return the functions: own costs and costs with all that they call, by side and metric."""
    rows: dict[str, dict[str, Any]] = {}
    for number, side in enumerate(sides):
        for column, metric in enumerate(metrics):
            for each in side.functions(metric):
                nothing = {
                    "name": bounded(each.name),
                    "place": bounded(_where(each.file, each.line)),
                    "self": [[0] * len(metrics) for _ in sides],
                    "total": [[0] * len(metrics) for _ in sides],
                    "calls": [0] * len(sides),
                    "interval": interval_text(each.interval),
                }
                row = rows.setdefault(plain_name(each.name), nothing)
                row["self"][number][column] += each.self
                row["total"][number][column] += each.total or 0
                row["calls"][number] = each.calls
    return list(rows.values())


def _files(after: Profile, before: Profile) -> Iterator[dict[str, Any]]:
    """Yield each source with the lines that ran, and some around them."""
    metrics = after.columns
    by_metric = [aligned_lines(before, after, name) for name in metrics]
    functions = {(each.file, each.line): plain_name(each.function) for each in after.lines()}
    for file, lines in by_metric[0].items():
        costs = [
            [(one[file][i].before, one[file][i].after) for one in by_metric]
            for i in range(len(lines))
        ]
        ran = {i for i, line in enumerate(lines) if line.before or line.after}
        near = {i + d for i in ran for d in range(-CONTEXT, CONTEXT + 1)}
        yield {
            "name": bounded(file),
            "rows": [
                _line(lines[i], functions.get((file, lines[i].new), ""), costs[i], i in ran)
                for i in sorted(near)
                if 0 <= i < len(lines)
            ],
        }


def _line(
    line: AlignedLine, function: str, costs: Sequence[tuple[int, int]], has_run: bool
) -> list[Any]:
    row = [line.new, bounded(line.text.expandtabs(4))]
    return [*row, bounded(function), line.times_after, *map(list, costs)] if has_run else row
