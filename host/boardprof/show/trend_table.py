# SPDX-License-Identifier: Apache-2.0
"""Trends as tables for a terminal: medians of runs as a line of blocks, and where they changed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Final, NamedTuple

from boardprof.base.errors import UnknownNameError
from boardprof.base.metrics import metric_called
from boardprof.results.comparison.trend import Trend
from boardprof.results.report.calls import SHARES
from boardprof.results.stats.ranks import Change
from boardprof.results.stats.summary import Number, magnitude
from boardprof.show.answer import JUDGED_BY
from boardprof.show.cells import number_text, plural
from boardprof.show.comparison_table import ratio_text, row_title
from boardprof.show.layout import Column, Page, Table

_BLOCKS: Final = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"
_MOST_BLOCKS: Final = 24
_LEVEL: Final = Fraction(1, 50)
"""A range of values up to this share of them is drawn nearly level."""

_MOST_CHANGES: Final = 8


class RunName(NamedTuple):
    """What names a run in a trend."""

    number: str  # such as ``#42``
    source: str  # its commit and branch, and its saved name
    date: str  # such as ``2026-11-20``
    commit: str = ""  # of its unchanged sources; "" if changed or not known
    builds: tuple[str, ...] = ()  # ids of its firmware

    def __str__(self) -> str:
        """Return ``#42 (branch main, 3f2a91c0) of 2026-11-20``."""
        return f"{self.label} of {self.date}"

    @property
    def label(self) -> str:
        """``#42 (branch main, 3f2a91c0)``."""
        return f"{self.number} ({self.source})" if self.source else self.number


def why_not_code(before: RunName, after: RunName) -> str:
    """Return why a change between two runs is not of the code; "" if it may be."""
    if before.builds and before.builds == after.builds:
        return "the same build: not the code, but its inputs or the machine"
    if before.commit and before.commit == after.commit:
        return "the same commit: not the code"
    return ""


def chosen_trends(trends: Sequence[Trend], metrics: Sequence[str]) -> list[Trend]:
    """Return the trends of metrics; without names, of the metric that each row is judged by."""
    names = [*dict.fromkeys(each.row.metric for each in trends)]
    if metrics:
        found = {each: metric_called(each, names) for each in metrics}
        for name, known in found.items():
            if known is None:
                raise UnknownNameError("metric", name, names)
        return [each for each in trends if each.row.metric in found.values()]
    leading: dict[str, Trend] = {}
    for each in trends:
        title = row_title(each.row)
        if _rank(each) < (_rank(leading[title]) if title in leading else len(JUDGED_BY) + 2):
            leading[title] = each
    return [*leading.values()]


def _rank(trend: Trend) -> int:
    metric = trend.row.metric
    if metric in JUDGED_BY:
        return JUDGED_BY.index(metric)
    return len(JUDGED_BY) + (metric in SHARES)


def trend_page(trends: Sequence[tuple[Trend, Sequence[RunName]]]) -> Page:
    """Return a table for each row of a Report, with a line for each metric, and the changes."""
    by_row: dict[str, list[tuple[Trend, Sequence[RunName]]]] = {}
    for trend, names in trends:
        by_row.setdefault(row_title(trend.row), []).append((trend, names))
    lines: list[Table | str] = []
    for title, rows in by_row.items():
        _, names = rows[0]
        ends = dict.fromkeys(f"{each.number} of {each.date}" for each in (names[0], names[-1]))
        runs = plural(len(names), "run")
        lines += [*([""] if lines else []), f"{title}: {runs}, {' to '.join(ends)}"]
        lines.append(_table([trend for trend, _ in rows]))
        lines += [line for trend, names in rows for line in _change_lines(trend, names)]
    return lines


def _table(trends: Sequence[Trend]) -> Table:
    usual = [each.usual() for each in trends]
    levels = zip(trends, usual, strict=True)
    spreads = [
        "exact" if t.is_exact else number_text(u.spread, t.kind) if u and u.runs > 1 else ""
        for t, u in levels
    ]
    middles = [u.middle if u else None for u in usual]
    return Table(
        [
            Column("Metric", [each.row.metric for each in trends], is_text=True),
            Column(
                "Median", [number_text(m, t.kind) for m, t in zip(middles, trends, strict=True)]
            ),
            Column("Spread", spreads),
            Column("Last", [number_text(each.medians[-1], each.kind) for each in trends]),
            Column(_trend_header(trends), [blocks(each.medians) for each in trends], is_text=True),
        ]
    )


def _trend_header(trends: Sequence[Trend]) -> str:
    is_part = any(len(each.points) > _MOST_BLOCKS for each in trends)
    return f"Trend (last {_MOST_BLOCKS})" if is_part else "Trend"


def _change_lines(trend: Trend, names: Sequence[RunName]) -> Iterator[str]:
    changes = trend.changes
    if len(changes) > _MOST_CHANGES:
        yield f"{trend.row.metric} changed {len(changes)} times; the last {_MOST_CHANGES}:"
    for each in changes[-_MOST_CHANGES:]:
        yield change_line(trend, each, names)


def change_line(trend: Trend, change: Change, names: Sequence[RunName]) -> str:
    """Return one sentence about a change, with the last run before it and the first one after."""
    # Runs need not be of successive commits, so each commit after the former may have changed it.
    before, after = (number_text(each, trend.kind) for each in (change.before, change.after))
    share = ""
    if change.before:
        step = Fraction(change.after) - Fraction(change.before)
        with contextlib.suppress(OverflowError):  # a ratio beyond every float
            share = f" ({ratio_text(float(1 + step / Fraction(magnitude(change.before))))})"
    ends = names[change.at - 1], names[change.at]
    why = why_not_code(*ends)
    return (
        f"{trend.row.metric} changed from {before} to {after}{share} between {ends[0].label} and "
        f"{ends[1]}{f' ({why})' if why else ''}"
    )


def blocks(values: Sequence[Number]) -> str:
    """Return the last 24 values as blocks of eight heights."""
    shown = [Fraction(each) for each in values[-_MOST_BLOCKS:]]
    low, high = min(shown), max(shown)
    span = max(high - low, _LEVEL * max(abs(low), abs(high)))
    if span == 0:
        return _BLOCKS[0] * len(shown)
    floor = (low + high - span) / 2
    top = len(_BLOCKS) - 1
    return "".join(_BLOCKS[min(top, int((each - floor) / span * (top + 1)))] for each in shown)
