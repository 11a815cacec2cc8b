# SPDX-License-Identifier: Apache-2.0
"""What came of comparing two Reports."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, TypeAlias

from boardprof.comparison.rule import Rule
from boardprof.errors import UsageError
from boardprof.metrics import Kind
from boardprof.stats.groups import titled
from boardprof.stats.summary import Summary

__all__ = ["Comparison", "ComparisonError", "Difference", "Gap", "Unjudged", "Verdict", "place_of"]

Verdict: TypeAlias = Literal[
    "same",
    "better",
    "worse",
    "noise",
    "within overhead",
    "too few samples",
    "other calls",
    "added",
    "removed",
]
"""``noise``: a difference that may be chance; ``within overhead``: one that may be in what was
subtracted for the measuring itself; ``too few samples``: one that could only be taken for chance,
however large it is; ``other calls``: a function with a state, of which each run has measured
others."""


class ComparisonError(UsageError):
    """Two Reports cannot be compared, or not as asked."""


@dataclass(frozen=True)
class Difference:
    """One metric of one group of rows, before and after.

    Attributes:
        name: of the function.
        shapes: of its arguments.
        device: the board or part of it; ``OLD -> NEW`` where they differ.
        flags: the setting of a sweep.
        metric: column name.
        kind: of the column: Count, Duration, Percent or Ratio.
        before: its samples per call; None: not there before.
        after: likewise.
        change: of the medians, relative to the old one; None where that is 0 or one is missing. It
            is a float, or whole where it is 0 or beyond every float.
        p: of the rank test; None of exact values, and where one is missing.
        is_exact: both sides are of deterministic boards, and any difference is one.
        verdict: what it amounts to.
        rule: the first rule that it breaks.
        broken: all rules that it breaks.
        label: that the user gave the call, as a program's calls may have.
        is_cold_apart: what the first calls cost differs by more than the steps of their clock.
        doubt: how much two runs may differ in what is subtracted of a call's time for the measuring
            itself, at most.
        is_emulated: both sides are of emulators or simulators, which are the same in each run.
        is_paired: it is judged in pairs of sessions that alternated, not sample by sample.
    """

    name: str
    shapes: str
    device: str
    flags: str
    metric: str
    kind: Kind
    before: Summary | None
    after: Summary | None
    change: int | float | None
    p: float | None
    is_exact: bool
    verdict: Verdict
    rule: Rule | None = None
    broken: tuple[Rule, ...] = ()
    label: str = ""
    is_cold_apart: bool = False
    doubt: Fraction = Fraction(0)
    is_emulated: bool = False
    is_paired: bool = False

    @property
    def title(self) -> str:
        """The function's name, and the label where there is one."""
        return titled(self.name, self.label)


@dataclass(frozen=True)
class Gap:
    """Why one metric of one group is not compared, or not with all its samples.

    Attributes:
        name: of the function; "" for the metric of all.
        shapes: of its arguments.
        device: as in `Difference`.
        flags: likewise.
        metric: column name.
        why: as a sentence without its subject and its point.
        label: as in `Difference`.
    """

    name: str
    shapes: str
    device: str
    flags: str
    metric: str
    why: str
    label: str = ""

    @property
    def title(self) -> str:
        """As in `Difference`."""
        return titled(self.name, self.label)

    @property
    def what(self) -> str:
        """What it is about, for people."""
        return f"{self.metric} of {self.title}" if self.name else self.metric


def place_of(row: Difference | Gap) -> tuple[str, ...]:
    """Return what tells a row from all others."""
    return row.name, row.label, row.shapes, row.device, row.flags, row.metric


@dataclass(frozen=True)
class Unjudged:
    """What a rule is for, and could not judge.

    Attributes:
        rule: the rule.
        gap: what it is for, and why it could not.
    """

    rule: Rule
    gap: Gap

    @property
    def what(self) -> str:
        """Metric and function."""
        return self.gap.what

    @property
    def why(self) -> str:
        """As in `Gap`."""
        return self.gap.why


@dataclass(frozen=True)
class Comparison:
    """Two Reports against each other.

    Attributes:
        rows: one a metric and group; in the order of the Reports.
        notes: what the reader should know: allowed mismatches, rules that could not bite ...
        rules: all that were applied.
        alpha: the level of the rank test.
        before_name: what the old side is called.
        after_name: what the new one is called.
        before_facts: what identifies the old one: build, compiler, flags.
        after_facts: likewise.
        unjudged: what rules are for, and could not judge: it is gone, not to be compared, of so few
            samples that no rank test says anything, or the limit is less than two runs may differ
            in what measuring takes.
        fails_if_missing: that is a failure.
        judged: how many rows at least one rule could judge.
    """

    rows: tuple[Difference, ...]
    notes: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    alpha: float = 0.01
    before_name: str = "before"
    after_name: str = "after"
    before_facts: tuple[tuple[str, str], ...] = field(default=())
    after_facts: tuple[tuple[str, str], ...] = field(default=())
    unjudged: tuple[Unjudged, ...] = ()
    fails_if_missing: bool = False
    judged: int = 0

    @property
    def failed(self) -> bool:
        """Whether a rule is broken, or could not judge what it is for where that is a failure."""
        return self.regressed or (self.fails_if_missing and bool(self.unjudged))

    @property
    def regressed(self) -> bool:
        """Whether a rule is broken."""
        return any(row.rule is not None for row in self.rows)

    @property
    def held(self) -> bool:
        """Whether rules could judge all that they are for, and none is broken."""
        return self.judged > 0 and not self.unjudged and not self.regressed

    @property
    def regressions(self) -> tuple[Difference, ...]:
        """The rows that break a rule."""
        return tuple(row for row in self.rows if row.rule is not None)

    def table(self, *, changed_only: bool = False) -> str:
        """Return it as a text table."""
        from boardprof.render.comparison_table import comparison_table

        return comparison_table(self, changed_only=changed_only)

    def markdown(self) -> str:
        """Return it as GitHub-flavoured Markdown for a pull request."""
        from boardprof.render.comparison_markdown import comparison_markdown

        return comparison_markdown(self)

    def junit(self) -> str:
        """Return it as JUnit XML: a test case a row, and one for what no rule could judge."""
        from boardprof.render.comparison_junit import comparison_junit

        return comparison_junit(self)

    def json(self) -> str:
        """Return it as one line of JSON."""
        from boardprof.render.comparison_json import comparison_json

        return comparison_json(self)

    def __str__(self) -> str:
        """Return the table."""
        return self.table()
