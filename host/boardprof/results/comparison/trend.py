# SPDX-License-Identifier: Apache-2.0
"""A metric over several runs: its usual value, its spread, and where it changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from statistics import median
from typing import Final

from boardprof.base.metrics import Kind
from boardprof.results.comparison.comparison import (
    Comparison,
    ComparisonError,
    Difference,
    place_in,
    place_of,
)
from boardprof.results.comparison.rule import Usual, statistic
from boardprof.results.report.report import Report
from boardprof.results.row_origins import titled
from boardprof.results.stats.ranks import Change, change_points
from boardprof.results.stats.summary import Summary

_TO_SIGMA: Final = Fraction("1.4826")
"""A normal distribution's standard deviation over its median absolute deviation."""


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
    def title(self) -> str:
        """The function's name, and the label if there is one."""
        return titled(self.row.name, self.row.label)

    @property
    def kind(self) -> Kind:
        """Count, Duration, Percent or Ratio."""
        return self.row.kind

    @cached_property
    def medians(self) -> list[int | float]:
        """The median of each run."""
        return [each.summary.exactly("median") for each in self.points]

    @cached_property
    def changes(self) -> list[Change]:
        """The changes of the median; `Change.at` counts points."""
        return change_points(self.medians, is_exact=self.is_exact)

    def usual(self, name: str = "median") -> Usual | None:
        """Return what is usual for a statistic since the last change; None if no run has it."""
        first = self.changes[-1].at if self.changes else 0
        found = (statistic(each.summary, name) for each in self.points[first:])
        values = [Fraction(value) for value in found if value is not None]
        if not values:
            return None
        middle = median(values)
        spread = _TO_SIGMA * median(abs(value - middle) for value in values)
        return Usual(middle, spread, len(values))


@dataclass(frozen=True)
class Trends:
    """The trends of a Report's rows."""

    by_place: Mapping[tuple[str, ...], Trend]  # see `place_of`
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
        places = Counter(map(place_of, found.rows))
        others = {place_in(row, "") for row in found.rows if row.verdict == "other inputs"}
        if others and others == {place_in(row, "") for row in found.rows}:
            left_out[number] = "Its arrays had other contents (--allow inputs includes it)."
        for row in found.rows:
            # Rows that only a hash distinguishes have the same place, and no trend.
            is_alone = places[place_of(row)] == 1 and place_in(row, "") not in others
            if is_alone and row.before and row.after and row.verdict != "other calls":
                rows.setdefault(place_of(row), []).append((number, row))
    return Trends({place: _trend(each) for place, each in rows.items()}, left_out)


def _trend(rows: Sequence[tuple[int, Difference]]) -> Trend:
    points = tuple(Point(number, row.before) for number, row in rows if row.before is not None)
    return Trend(rows[-1][1], points, all(row.is_exact for _, row in rows))
