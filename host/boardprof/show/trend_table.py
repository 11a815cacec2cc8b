# SPDX-License-Identifier: Apache-2.0
"""Trends as tables for a terminal: medians of runs as a line of blocks, and where they changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from boardprof.base.errors import UnknownNameError
from boardprof.base.metrics import metric_called
from boardprof.results.comparison.compare import Trend
from boardprof.results.comparison.comparison import row_title
from boardprof.results.history.run import Run
from boardprof.results.history.run_comparison import RunTrend
from boardprof.results.report.calls import SHARES
from boardprof.results.report.profile import MODELLED
from boardprof.results.stats.summary import Change
from boardprof.show.cells import JUDGED_BY, number_text, plural
from boardprof.show.comparison_table import ratio_text
from boardprof.show.layout import Column, Page, Table

_BLOCKS: Final = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"
_MOST_BLOCKS: Final = 24
_LEVEL: Final = 0.02  # a range of values up to this share of them is drawn nearly level
_MOST_CHANGES: Final = 8


def chosen_trends(trends: Sequence[RunTrend], metrics: Sequence[str]) -> list[RunTrend]:
    """Return the trends of metrics; without names, of the metric that each row is judged by."""
    names = [*dict.fromkeys(each.trend.row.metric for each in trends)]
    if metrics:
        found = {each: metric_called(each, names) for each in metrics}
        for name, known in found.items():
            if known is None:
                raise UnknownNameError("metric", name, names)
        return [each for each in trends if each.trend.row.metric in found.values()]
    leading: dict[str, RunTrend] = {}
    for each in trends:
        title = row_title(each.trend.row)
        leading[title] = min(leading.get(title, each), each, key=_rank)
    return [*leading.values()]


def _rank(found: RunTrend) -> int:
    metric = found.trend.row.metric
    if metric in JUDGED_BY:
        return JUDGED_BY.index(metric)
    return len(JUDGED_BY) + (metric in SHARES)


def trend_page(trends: Sequence[RunTrend]) -> Page:
    """Return a table for each row of a Report, with a line for each metric, and the changes."""
    by_row: dict[str, list[RunTrend]] = {}
    for each in trends:
        by_row.setdefault(row_title(each.trend.row), []).append(each)
    lines: list[Table | str] = []
    for title, rows in by_row.items():
        runs = rows[0].runs
        ends = dict.fromkeys(f"#{run.id} of {run.time[:10]}" for run in (runs[0], runs[-1]))
        lines += [""] if lines else []
        lines.append(f"{title}: {plural(len(runs), 'run')}, {' to '.join(ends)}")
        lines.append(_table([each.trend for each in rows]))
        for each in rows:
            changes = each.trend.changes
            if len(changes) > _MOST_CHANGES:
                told = f"{each.trend.row.metric} changed {len(changes)} times"
                lines.append(f"{told}; the last {_MOST_CHANGES}:")
            lines += [_change_line(each, change) for change in changes[-_MOST_CHANGES:]]
    return lines


def _table(trends: Sequence[Trend]) -> Table:
    usual = [each.usual() for each in trends]
    levels = zip(trends, usual, strict=True)
    spreads = [
        "modelled"
        if t.row.metric in MODELLED
        else "exact"
        if t.is_exact
        else number_text(u.spread, t.row.kind)
        if u and u.runs > 1
        else ""
        for t, u in levels
    ]
    middles = [u.middle if u else None for u in usual]
    is_part = any(len(each.runs) > _MOST_BLOCKS for each in trends)
    header = f"Trend (last {_MOST_BLOCKS})" if is_part else "Trend"
    return Table(
        [
            Column("Metric", [each.row.metric for each in trends], is_text=True),
            Column(
                "Median", [number_text(m, t.row.kind) for m, t in zip(middles, trends, strict=True)]
            ),
            Column("Spread", spreads),
            Column("Last", [number_text(each.medians[-1], each.row.kind) for each in trends]),
            Column(header, [blocks(each.medians) for each in trends], is_text=True),
        ]
    )


def _change_line(found: RunTrend, change: Change) -> str:
    """Return one sentence about a change, with the last run before it and the first one after."""
    # Runs need not be of successive commits, so each commit after the former may have changed it.
    trend, before, after = found.trend, found.runs[change.at - 1], found.runs[change.at]
    old, new = (number_text(each, trend.row.kind) for each in (change.before, change.after))
    share = ""
    if change.before:
        step = float(change.after) - float(change.before)
        share = f" ({ratio_text(1 + step / abs(float(change.before)))})"
    why = _why_not_code(before, after)
    return (
        f"{trend.row.metric} changed from {old} to {new}{share} between {_run_text(before)} and "
        f"{_run_text(after)} of {after.time[:10]}{f' ({why})' if why else ''}"
    )


def _run_text(run: Run) -> str:
    """Return ``#42 (branch main, 3f2a91c0)``."""
    names = [f"saved as {run.name}" if run.name else "", run.git.text if run.git else ""]
    source = "; ".join(filter(None, names))
    return f"#{run.id} ({source})" if source else f"#{run.id}"


def _why_not_code(before: Run, after: Run) -> str:
    """Return why a change between two runs is not of the code; "" if it may be."""
    if before.build_ids and before.build_ids == after.build_ids:
        return "the same build: not the code, but its inputs or the machine"
    states = before.git, after.git
    commits = {state.commit if state and not state.is_dirty else "" for state in states}
    return "the same commit: not the code" if len(commits) == 1 and any(commits) else ""


def blocks(values: Sequence[int | float]) -> str:
    """Return the last 24 values as blocks of eight heights."""
    shown = [*map(float, values[-_MOST_BLOCKS:])]
    low, high = min(shown), max(shown)
    span = max(high - low, _LEVEL * max(abs(low), abs(high)))
    if span == 0:
        return _BLOCKS[0] * len(shown)
    below = (span - (high - low)) / 2
    top = len(_BLOCKS) - 1
    heights = ((each - low + below) / span * len(_BLOCKS) for each in shown)
    return "".join(_BLOCKS[min(top, int(height))] for height in heights)
