# SPDX-License-Identifier: Apache-2.0
"""A metric over several runs: its usual value, its spread, and where it changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from boardprof.base.metrics import Kind
from boardprof.results.comparison.comparison import (
    Comparison,
    ComparisonError,
    Difference,
    place_in,
)
from boardprof.results.comparison.rule import Usual, statistic
from boardprof.results.report.report import Report
from boardprof.results.stats.ranks import Change, change_points
from boardprof.results.stats.summary import Summary, percentile

_TO_SIGMA: Final = 14826
"""A normal distribution's standard deviation over its median absolute deviation, times 10,000."""


@dataclass(frozen=True)
class Point:
    """One run in a trend."""

    run: int  # its place in the list of runs, from 0
    summary: Summary  # of the metric's samples per call


@dataclass(frozen=True)
class Trend:
    """One metric of one group of rows over several runs."""

    row: Difference  # the group and the metric, as in the comparison of the newest run
    points: tuple[Point, ...]  # the runs that have it, the oldest first
    is_exact: bool  # its value repeats exactly as long as the code does not change

    @property
    def kind(self) -> Kind:
        """Count, Duration, Percent or Ratio."""
        return self.row.kind

    @cached_property
    def medians(self) -> list[int | float]:
        """The median of each run."""
        return [each.summary.median for each in self.points]

    @cached_property
    def changes(self) -> list[Change]:
        """The changes of the median; `Change.at` counts points."""
        return change_points(self.medians, is_exact=self.is_exact)

    def usual(self, name: str = "median") -> Usual | None:
        """Return what is usual for a statistic since the last change; None if no run has it."""
        first = self.changes[-1].at if self.changes else 0
        found = (statistic(each.summary, name) for each in self.points[first:])
        values = [value for value in found if value is not None]
        if not values:
            return None
        middle = percentile(sorted(values), 50)
        distances = sorted(abs(value - middle) for value in values)
        spread = _TO_SIGMA * percentile(distances, 50) / 10_000
        return Usual(middle, spread, len(values))


@dataclass(frozen=True)
class Trends:
    """The trends of a Report's rows."""

    by_place: Mapping[tuple[str, ...], Trend]  # see `MetricRow.place`
    left_out: Mapping[int, str]  # number of a run -> why it cannot be compared


def trends_of(runs: Sequence[Report], compared: Callable[[Report], Comparison]) -> Trends:
    """Return the trends of a Report's rows over several runs, the oldest first."""
    rows: dict[tuple[str, ...], list[tuple[int, Difference]]] = {}
    left_out: dict[int, str] = {}
    for number, run in enumerate(runs):
        try:
            found = compared(run)
        except ComparisonError as error:  # such as another compiler
            left_out[number] = error.message
            continue
        places = Counter(row.place for row in found.rows)
        others = {place_in(row, "") for row in found.rows if row.verdict == "other inputs"}
        if others and others == {place_in(row, "") for row in found.rows}:
            left_out[number] = "Its arrays had other contents (--allow inputs includes it)."
        for row in found.rows:
            # Rows that only a hash distinguishes have the same place, and no trend.
            is_alone = places[row.place] == 1 and place_in(row, "") not in others
            if is_alone and row.before and row.after and row.verdict != "other calls":
                rows.setdefault(row.place, []).append((number, row))
    trends = {}
    for place, each in rows.items():
        points = tuple(Point(number, row.before) for number, row in each if row.before is not None)
        trends[place] = Trend(each[-1][1], points, all(row.is_exact for _, row in each))
    return Trends(trends, left_out)
