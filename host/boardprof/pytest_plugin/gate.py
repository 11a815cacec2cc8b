# SPDX-License-Identifier: Apache-2.0
"""What a test's measurements must keep: limits, and rules against an earlier run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from boardprof.errors import UnknownNameError, UsageError
from boardprof.report.report import Report
from boardprof.stats.groups import summaries

__all__ = ["Gate", "Verdict", "check_rules"]


@dataclass(frozen=True)
class Verdict:
    """What came of holding a Report against a gate.

    Attributes:
        failures: what is over its limit, or broke a rule, each as a text with the numbers.
        notes: what could not be compared, and why.
    """

    failures: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Gate:
    """Limits and rules.

    Attributes:
        limits: metric -> the most that its median per call may be.
        rules: such as ``cycles:median>2%``.
        baseline: the earlier run: its name and its Report; None: there is none.
        allow: mismatches to compare in spite of.
    """

    limits: Mapping[str, float]
    rules: Sequence[str]
    baseline: tuple[str, Report] | None
    allow: Sequence[str] = ()

    def judge(self, report: Report) -> Verdict:
        """Hold a test's Report against it.

        Raises:
            UnknownNameError: a limit's metric was not counted.
            UsageError: a rule does not parse, or the runs are not to be compared.
        """
        failures = [*self._over_limit(report)]
        if self.baseline is None:
            return Verdict(tuple(failures), ())
        name, earlier = self.baseline
        common = _rows_of(earlier, report, any_board="board" in self.allow)
        if common is None:
            names = ", ".join(dict.fromkeys(str(row["Name"]) for row in report.calls))
            return Verdict(tuple(failures), (f"{name} has no such run of {names}",))
        from boardprof.comparison.compare import compare

        found = compare(
            common, report, self.rules, allow=self.allow, before_name=name, after_name="now"
        )
        if found.regressed:
            broken = ", ".join(f"{row.rule}" for row in found.regressions)
            failures.append(f"regression: {broken}\n{found.table(changed_only=True)}")
        return Verdict(tuple(failures), found.notes)

    def _over_limit(self, report: Report) -> Iterator[str]:
        found = [each for each in summaries(report) if each.metric in self.limits]
        for missing in self.limits.keys() - {each.metric for each in found}:
            raise UnknownNameError("metric", missing, [each.metric for each in summaries(report)])
        for each in found:
            limit = self.limits[each.metric]
            if each.summary.median > limit:
                yield (
                    f"{each.key.name} on {each.key.device}: {each.metric} is "
                    f"{float(each.summary.median):,.6g} per call (median of {each.summary.n}), "
                    f"over its limit of {limit:,.6g}"
                )


def _rows_of(earlier: Report, report: Report, *, any_board: bool) -> Report | None:
    """Return the part of an earlier run that is about the same; None: there is none."""
    keys = ["Name", "Argument Shapes"] if any_board else ["Name", "Argument Shapes", "Device"]
    wanted = {tuple(row.get(key) for key in keys) for row in report.calls}
    rows = [row for row in earlier.calls if tuple(row.get(key) for key in keys) in wanted]
    if not rows:
        return None
    return Report(rows, earlier.device_metrics, earlier.configuration, earlier.extra)


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
