# SPDX-License-Identifier: Apache-2.0
"""What a test's measurements must keep: limits, and rules against an earlier run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING

from boardprof.errors import UnknownNameError, UsageError
from boardprof.metrics import digits
from boardprof.pytest_plugin.baseline import part_about
from boardprof.report.report import Report
from boardprof.stats.groups import SHARES, GroupSummary, summaries

if TYPE_CHECKING:
    from boardprof.comparison.comparison import Comparison, Difference, Unjudged
    from boardprof.pytest_plugin.turns import Other

__all__ = ["Gate", "Verdict", "check_counted", "check_limits", "check_rules"]


@dataclass(frozen=True)
class Verdict:
    """What came of holding a Report against a gate.

    Attributes:
        failures: what is over its limit, or broke a rule, each as a text with the numbers.
        notes: what could not be compared, and why.
        is_compared: with the baseline; None: there is none.
        is_ruled: there are rules, so that a change can be a failure.
        rows: without rules, what came of comparing each metric.
    """

    failures: tuple[str, ...]
    notes: tuple[str, ...]
    is_compared: bool | None = None
    is_ruled: bool = False
    rows: tuple[Difference, ...] = ()


@dataclass(frozen=True)
class Gate:
    """Limits and rules.

    Attributes:
        limits: metric -> the most that its median per call may be.
        rules: such as ``cycles:median>2%``.
        baseline: the earlier run: its name and its Report; None: there is none.
        allow: mismatches to compare in spite of.
        is_baseline_required: what the baseline lacks, or a rule could not judge, is a failure.
    """

    limits: Mapping[str, float]
    rules: Sequence[str]
    baseline: tuple[str, Report] | None
    allow: Sequence[str] = ()
    is_baseline_required: bool = False

    def judge(self, report: Report, other: Other | None = None) -> Verdict:
        """Hold a test's Report against it.

        Args:
            report: of one call.
            other: what was measured in turns with it, in place of the baseline; None: nothing.

        Raises:
            UnknownNameError: a limit's metric was not counted.
            UsageError: a rule does not parse, or the runs are not to be compared.
        """
        groups = summaries(report)
        uncounted = [*self._uncounted(groups)]
        failures = [*self._over_limit(groups), *uncounted]
        if uncounted or (self.baseline is None and other is None):
            return Verdict(tuple(failures), ())
        is_ruled = bool(self.rules)
        name, common = self._before(report, other)
        if common is None:
            names = ", ".join(dict.fromkeys(each.key.name for each in groups))
            text = f"{name} has no such run of {names} by this test"
            failures += self._required([f"not compared: {text}"])
            return Verdict(tuple(failures), (text,), is_compared=False, is_ruled=is_ruled)
        from boardprof.comparison.compare import compare

        found = compare(
            common,
            report,
            self.rules,
            allow=self.allow if other is None else (*self.allow, *other.allow),
            before_name=name,
            after_name="now",
            sessions=1 if other is None else other.sessions,
        )
        if found.regressed:
            broken = ", ".join(f"{row.rule}" for row in found.regressions)
            failures.append(f"regression: {broken}\n{found.table(changed_only=True)}")
        new = [*_of_new_metrics(found)]
        failures += self._required([*map(_unjudged_text, found.unjudged), *new])
        return Verdict(
            tuple(failures),
            (*_untold(found), *found.notes),
            is_compared=not new or len(new) < len(self.rules),
            is_ruled=is_ruled,
            rows=() if is_ruled else found.rows,
        )

    def _before(self, report: Report, other: Other | None) -> tuple[str, Report | None]:
        """Return the name of the older side, and what of it is about the same; None: nothing."""
        held = self.baseline if other is None else (other.name, other.report)
        assert held is not None
        name, earlier = held
        return name, part_about(earlier, report, any_board="board" in self.allow)

    def _required(self, texts: Sequence[str]) -> Iterator[str]:
        """Yield what could not be compared, or not be judged, where that is a failure."""
        if self.is_baseline_required:
            yield from (f"{text} (--bp-require-baseline)" for text in texts)

    def _over_limit(self, groups: Sequence[GroupSummary]) -> Iterator[str]:
        found = [each for each in groups if each.metric in self.limits]
        for missing in self.limits.keys() - {each.metric for each in found}:
            raise UnknownNameError("metric", missing, [each.metric for each in groups])
        for each in found:
            limit = self.limits[each.metric]
            if each.summary.median > limit:
                yield (
                    f"{each.key.name} on {each.key.device}: {each.metric} is "
                    f"{_text(each.summary.median)} per call (median of {each.summary.n}), "
                    f"over its limit of {_text(limit)}"
                )

    def _uncounted(self, groups: Sequence[GroupSummary]) -> Iterator[str]:
        """Yield the rules whose metric is not there: that nobody has counted it breaks no rule."""
        boards = ", ".join(dict.fromkeys(each.board for each in groups))
        for rule, error in _without_metric(self.rules, groups, boards):
            yield f"the rule {rule} cannot be kept, its metric was not counted: {error}"


def _without_metric(
    rules: Sequence[str], groups: Sequence[GroupSummary], owner: str
) -> Iterator[tuple[str, UnknownNameError]]:
    """Yield rules of whose metric there is nothing, and what to say of it."""
    from boardprof.comparison.rule import parse_rule

    metrics = list(dict.fromkeys(each.metric for each in groups))
    names = [*metrics, *SHARES, *(f"{each.key.device}.{each.metric}" for each in groups)]
    for rule in map(parse_rule, rules):
        if not rule.is_glob and not rule.chosen(names):
            yield rule.text, UnknownNameError("metric", rule.metric, metrics, owner=owner)


def _unjudged_text(each: Unjudged) -> str:
    return f"{each.what} is not judged by {each.rule}: {each.why}"


def _untold(found: Comparison) -> Iterator[str]:
    """Yield what rules could not judge for a reason that no note gives."""
    for each in found.unjudged:
        if not any(each.why in note for note in found.notes):
            yield _unjudged_text(each)


def _of_new_metrics(found: Comparison) -> Iterator[str]:
    """Yield the rules that are for metrics which were not counted before."""
    for rule in found.rules:
        rows = [
            row for row in found.rows if rule.chosen([row.metric, f"{row.device}.{row.metric}"])
        ]
        if rows and all(row.before is None for row in rows):
            metrics = ", ".join(dict.fromkeys(row.metric for row in rows))
            yield f"the rule {rule} is for {metrics}, which {found.before_name} lacks here"


def _text(value: int | float) -> str:
    return digits(value, ",") if isinstance(value, int) else f"{value:,.6g}"


def check_rules(rules: Sequence[str]) -> None:
    """See before anything is measured that rules parse.

    Raises:
        UsageError: one does not.
    """
    from boardprof.comparison.rule import parse_rule

    for rule in rules:
        if not isinstance(rule, str):
            raise UsageError(f"{rule!r} is no rule.", hint="fail_if=['cycles:median>2%']")
        parse_rule(rule)


def check_limits(limits: object) -> None:
    """See before anything is measured that limits are numbers, by metric.

    Raises:
        UsageError: they are not.
    """
    values = [*limits.values()] if isinstance(limits, Mapping) else [limits]
    is_right = isinstance(limits, Mapping) and all(isinstance(each, Real) for each in values)
    if not is_right or any(each != each for each in values):
        raise UsageError(
            f"limit={limits!r} has no number for each metric.",
            hint="limit={'instructions': 50_000}",
        )


def check_counted(rules: Sequence[str], name: str, baseline: Report) -> None:
    """See before anything is measured that a baseline has what rules are about.

    Args:
        rules: of all tests that have none of their own.
        name: of the baseline.
        baseline: the earlier run.

    Raises:
        UnknownNameError: it has nothing of a rule's metric.
    """
    for _, error in _without_metric(rules, summaries(baseline), name):
        raise error
