# SPDX-License-Identifier: Apache-2.0
"""The result of comparing two Reports, and the geometric mean of many functions."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from boardprof.base.errors import UsageError, option
from boardprof.base.metrics import Count, Duration, Kind
from boardprof.results.comparison.profile_difference import ProfileDifference
from boardprof.results.comparison.rule import Rule
from boardprof.results.record import SourcePlace
from boardprof.results.report.calls import SHARES, one_of
from boardprof.results.row_origins import GroupKey, titled
from boardprof.results.stats.summary import Summary

_MOST_LISTED = 8

Verdict: TypeAlias = Literal[
    "same",
    "better",
    "worse",
    "changed",
    "noise",
    "within overhead",
    "too few samples",
    "other calls",
    "other inputs",
    "doubtful",
    "output changed",
    "added",
    "removed",
]
"""``changed``: a ratio or a percentage differs, and more may be better or worse, or a time without
CPU time; ``noise``: a difference that may be chance; ``within overhead``: one that may come from
the subtracted measurement overhead; ``too few samples``: one that no rank test can tell from
chance, however large it is; ``other calls``: a function with a state, and the two runs measured
different calls of it; ``other inputs``: a change, and its arrays had other contents; ``doubtful``:
something was found that may make the numbers of a side wrong (`Finding.spoils`); ``output
changed``: a difference of a function that now returns or writes something else.
"""


DIFFERENT: Final = ("better", "worse", "changed")  # verdicts on a difference that is real


class ComparisonError(UsageError):
    """Two Reports cannot be compared, or not in the requested way."""


@dataclass(frozen=True, kw_only=True)
class MetricRow:
    """One metric of one group of rows."""

    name: str  # of the function; "" for the metric of all functions
    shapes: str  # of its arguments
    device: str  # the board or part of it; ``OLD -> NEW`` where they differ
    flags: str  # the setting of a sweep
    label: str  # given to the call by the user, as in a program
    metric: str  # column name

    @property
    def title(self) -> str:
        """The function's name, and the label if there is one."""
        return titled(self.name, self.label)

    @property
    def what(self) -> str:
        """The metric and the function: ``cycles of fir``."""
        return f"{self.metric} of {self.title}" if self.name else self.metric

    @property
    def place(self) -> tuple[str, ...]:
        """The key that identifies the row."""
        return place_in(self, self.metric)


@dataclass(frozen=True, kw_only=True)
class Difference(MetricRow):
    """One metric of one group of rows, before and after."""

    kind: Kind  #: of the column: Count, Duration, Percent or Ratio
    before: Summary | None  #: its samples per call; None if absent before
    after: Summary | None  #: likewise
    #: of the medians, relative to the old one; None if that is 0 or one is missing. It is an
    #: int if it is whole.
    change: int | float | None
    p: float | None  #: of the rank test; None for exact values, or if one side is missing
    is_exact: bool  #: both sides are from deterministic boards, so any difference is real
    verdict: Verdict  #: the result, see `Verdict`
    rule: Rule | None = None  #: the first rule that it breaks
    broken: tuple[Rule, ...] = ()  #: all rules that it breaks
    #: the cost of the first calls differs by more than the steps of their clock
    is_cold_apart: bool = False
    #: the largest difference between two runs in the overhead subtracted from a call's time
    doubt: float = 0.0
    #: both sides are from emulators or simulators, which are the same in each run
    is_emulated: bool = False
    is_paired: bool = False  #: it is judged in pairs of alternating sessions, not sample by sample


@dataclass(frozen=True, kw_only=True)
class Gap(MetricRow):
    """Why one metric of one group is not compared, or not with all its samples."""

    why: str  # the reason, as a sentence without subject and full stop
    awaits_runs: bool = False  # further runs of the branch will make it comparable


@dataclass(frozen=True, kw_only=True)
class OutputChange(MetricRow):
    """An output of a function that is no longer the same; ``metric`` is ``output NAME``."""

    text: str  # how it differs


@dataclass(frozen=True, kw_only=True)
class OverLimit(MetricRow):
    """A value that is above its limit, whatever it was before; ``metric`` is ``limit of NAME``."""

    text: str  # with the value and the limit


@dataclass(frozen=True, kw_only=True)
class Unjudged(Gap):
    """A row that a rule applies to but could not judge; or an output, which needs no rule."""

    rule: Rule | None = None

    @property
    def by(self) -> str:
        """What could not judge it."""
        return "the older outputs" if self.rule is None else self.rule.text


def first_of(names: Iterable[str]) -> str:
    """Return names separated by commas; of many, the first ones and the number of the others."""
    every = [*names]
    more = f" and {len(every) - _MOST_LISTED} more" if len(every) > _MOST_LISTED else ""
    return ", ".join(every[:_MOST_LISTED]) + more


def place_in(group: GroupKey | MetricRow, metric: str) -> tuple[str, ...]:
    """Return the key of the row that compares a metric of a group."""
    return group.name, group.label, group.shapes, group.device, group.flags, metric


def row_title(group: GroupKey | MetricRow) -> str:
    """Name a group of rows with arguments, flags and board: ``fir(n=256) -O3 on m4``."""
    flags = f" {group.flags}" if group.flags else ""
    device = f" on {group.device}" if group.device else ""
    return f"{group.title}({group.shapes}){flags}{device}"


def gap_in(group: GroupKey | MetricRow, metric: str, why: str, *, awaits_runs: bool = False) -> Gap:
    """Return why a metric of a group is not compared."""
    return Gap(**keys_of(group), metric=metric, why=why, awaits_runs=awaits_runs)


def keys_of(group: GroupKey | MetricRow) -> dict[str, Any]:
    """Return what a row has of its group."""
    return {each: getattr(group, each) for each in ("name", "shapes", "device", "flags", "label")}


@dataclass(frozen=True)
class Comparison:
    """A comparison of two Reports."""

    rows: tuple[Difference, ...]  #: one for each metric and group, in the order of the Reports
    notes: tuple[str, ...] = ()  #: for the reader: allowed mismatches, rules without effect
    rules: tuple[Rule, ...] = ()  #: all rules that were applied
    alpha: float = 0.01  #: the level of the rank test
    before_name: str = "before"  #: name of the old side
    after_name: str = "after"  #: name of the new side
    #: identity of the old side: build, compiler, flags
    before_facts: tuple[tuple[str, str], ...] = field(default=())
    after_facts: tuple[tuple[str, str], ...] = field(default=())  #: likewise
    #: rows that rules apply to but could not judge. The row is missing or cannot be compared, it
    #: has too few samples for the rank test, or the limit is less than the uncertainty of the
    #: measurement overhead.
    unjudged: tuple[Unjudged, ...] = ()
    fails_if_missing: bool = False  #: unjudged rows are failures
    judged: int = 0  #: how many rows at least one rule could judge
    #: rules for metrics that functions of the older run did not have then
    idle: tuple[Rule, ...] = ()
    #: place of a row that changed -> where in the function it changed, if both Reports have a
    #: profile of it
    reasons: Mapping[tuple[str, ...], ProfileDifference] = field(default_factory=dict)
    #: function -> where it is defined, if a Report knows it
    sources: Mapping[str, SourcePlace] = field(default_factory=dict)
    #: what functions return or write now that they did not before
    outputs: tuple[OutputChange, ...] = ()
    #: the values of the newer Report that are above a limit of their benchmark
    over: tuple[OverLimit, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether something is worse, or an unjudged row is a failure."""
        return self.is_worse or (self.fails_if_missing and bool(self.unjudged))

    @property
    def is_worse(self) -> bool:
        """Whether a rule is broken, an output changed, or a value is above its limit."""
        return self.regressed or bool(self.outputs) or bool(self.over)

    @property
    def awaits_runs(self) -> bool:
        """Whether a rule in spreads could not judge a row because the branch has too few runs."""
        return any(each.awaits_runs for each in self.unjudged)

    @property
    def regressed(self) -> bool:
        """Whether a rule is broken."""
        return any(row.rule is not None for row in self.rows)

    @property
    def held(self) -> bool:
        """Whether rules could judge all their rows, and nothing is worse."""
        return self.judged > 0 and not self.unjudged and not self.is_worse

    @property
    def regressions(self) -> tuple[Difference, ...]:
        """The rows that break a rule."""
        return tuple(row for row in self.rows if row.rule is not None)

    def table(self, *, changed_only: bool = False) -> str:
        """Return it as a text table."""
        from boardprof import comparison_table

        return comparison_table(self, changed_only=changed_only)

    def markdown(self) -> str:
        """Return it as GitHub-flavoured Markdown for a pull request."""
        from boardprof import comparison_markdown

        return comparison_markdown(self)

    def junit(self) -> str:
        """Return it as JUnit XML: a test case for each row, and for each unjudged one."""
        from boardprof import comparison_junit

        return comparison_junit(self)

    def json(self) -> str:
        """Return it as one line of JSON."""
        from boardprof import comparison_json

        return comparison_json(self)

    def __str__(self) -> str:
        """Return the table."""
        return self.table()


@dataclass(frozen=True)
class MeanRatio:
    """The geometric mean of after over before."""

    metric: str
    device: str
    ratio: float  # of the medians; below 1 if the functions got faster, or smaller
    rows: int  # how many rows can be told apart from noise, or are equal; at least 2
    functions: int  # number of functions in these rows
    left_out: int = 0  # rows within noise or overhead, or without a ratio: a median is not above 0
    is_in_place: bool = False  # they are ranges of firmware

    @property
    def measured(self) -> str:
        """What the mean covers: ``10 functions``, ``30 measurements of 10 functions``."""
        one = "range" if self.is_in_place else "function"
        functions = f"{self.functions:,} {one}{'' if self.functions == 1 else 's'}"
        is_one_each = self.rows == self.functions
        measured = functions if is_one_each else f"{self.rows:,} measurements of {functions}"
        rest = f" ({self.left_out:,} left out: within noise, or not above 0)"
        return measured + (rest if self.left_out else "")


def mean_ratios(rows: Iterable[Difference]) -> list[MeanRatio]:
    """Return means over two or more counts or times above 0, for each metric and board."""
    found: dict[tuple[str, str], list[Difference]] = {}
    left_out: Counter[tuple[str, str]] = Counter()
    for row in rows:
        if row.kind not in (Count, Duration) or row.metric in SHARES:
            continue
        if row.before is None or row.after is None or row.verdict in _NOT_ALIKE:
            continue
        place = row.metric, row.device
        if row.verdict in _UNTOLD or row.before.median <= 0 or row.after.median <= 0:
            left_out[place] += 1
        else:
            found.setdefault(place, []).append(row)
    return [
        MeanRatio(
            *place,
            _mean(same),
            len(same),
            len({row.name for row in same}),
            left_out[place],
            one_of(row.label for row in same) == "pass",
        )
        for place, same in found.items()
        if len(same) > 1
    ]


_NOT_ALIKE: Final = ("other calls", "other inputs", "doubtful", "output changed")
_UNTOLD: Final = ("noise", "within overhead", "too few samples")


def _mean(rows: Iterable[Difference]) -> float:
    ratios = (r.after.median / r.before.median for r in rows if r.after and r.before)
    ratio = statistics.geometric_mean(ratios)
    return float(f"{ratio:.12g}")  # logarithms miss 1 by a few bits, which is not a change


def longer(unit: str) -> str:
    """Return what to do if the overhead is too large a part of a ``call``, or of a range."""
    if unit == "call":
        return f"use {option('--number', '1000')}, or do more work in each call"
    return "put the range around more code"
