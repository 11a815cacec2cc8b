# SPDX-License-Identifier: Apache-2.0
"""Rules applied to what has changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from boardprof.comparison.comparison import ComparisonError, Difference
from boardprof.comparison.rule import Rule, RuleError, statistic
from boardprof.errors import UnknownNameError
from boardprof.metrics import Percent
from boardprof.stats.ranks import smallest_p

__all__ = ["apply_rules"]

_COLD = "cold"


def apply_rules(
    rows: Sequence[Difference], rules: Sequence[Rule], alpha: float
) -> tuple[list[Difference], list[str]]:
    """Return the rows with the rules that they break, and what is to be known of the rules.

    A rule is broken where the change is beyond its limit and is no noise. What a cold call costs is
    known of one call: it is judged by the limit alone.

    Raises:
        UnknownNameError: a rule names a metric that there is not.
        RuleError: its unit is none of the metric's.
        ComparisonError: its metric is gone, and nothing could be said of it.
    """
    notes: list[str] = []
    broken: dict[int, list[Rule]] = {}
    for rule in rules:
        chosen = _rows_of(rule, rows)
        pairs = {i: pair for i in chosen if (pair := _pair(rows[i], rule)) is not None}
        notes += _notes_of(rule, [rows[i] for i in chosen], [*pairs.values()], alpha)
        for i, pair in pairs.items():
            if pair.is_broken(rule):
                broken.setdefault(i, []).append(rule)
    gated = [
        replace(row, rule=broken[i][0], broken=tuple(broken[i])) if i in broken else row
        for i, row in enumerate(rows)
    ]
    return gated, notes


@dataclass(frozen=True)
class _Pair:
    """A row that is there before and after, and what a rule looks at: None where it is lacking."""

    row: Difference
    old: float | None
    new: float | None
    smallest_p: float

    def is_broken(self, rule: Rule) -> bool:
        if self.old is None or self.new is None:
            return False
        is_real = self.row.verdict in ("better", "worse")
        is_real |= rule.statistic == _COLD and self.old != self.new
        return is_real and rule.is_broken(self.old, self.new)


def _pair(row: Difference, rule: Rule) -> _Pair | None:
    if row.before is None or row.after is None:
        return None
    old, new = statistic(row.before, rule.statistic), statistic(row.after, rule.statistic)
    return _Pair(row, old, new, smallest_p(row.before.n, row.after.n))


def _names(row: Difference) -> tuple[str, str]:
    """Return what a row's metric may be called: its name, or DEVICE.NAME."""
    return row.metric, f"{row.device}.{row.metric}"


def _rows_of(rule: Rule, rows: Sequence[Difference]) -> list[int]:
    metrics = dict.fromkeys(row.metric for row in rows)
    of_parts = dict.fromkeys(_names(row)[1] for row in rows)
    chosen = rule.chosen(metrics) or rule.chosen(of_parts)
    found = [i for i, row in enumerate(rows) if chosen & {*_names(row)}]
    if rule.is_glob and rule.unit == "pp":
        return [i for i in found if _has_points(rows[i])]
    if not found and not rule.is_glob:
        raise UnknownNameError("metric", rule.metric, metrics, where=f"for the rule {rule.text!r}")
    if rule.unit == "pp" and not all(_has_points(rows[i]) for i in found):
        raise RuleError(
            rule.text,
            rule.text.rfind("pp"),
            f"{rule.metric} is no percentage: it has no points.",
            hint="% of the old value, or no unit",
        )
    return found


def _has_points(row: Difference) -> bool:
    return row.kind is Percent or row.metric.endswith("(%)")


def _notes_of(
    rule: Rule, chosen: Sequence[Difference], pairs: Sequence[_Pair], alpha: float
) -> Iterable[str]:
    if not chosen:
        yield f"The rule {rule} is for no metric of these Reports."
    elif not pairs:
        if any(row.before is not None for row in chosen):
            raise ComparisonError(
                f"The rule {rule} cannot be judged: what it is for was measured before, and no "
                "longer.",
                hint="measure the same metrics as before, or leave the rule out",
            )
        yield f"The rule {rule} is for what was not measured before."
    lacking = dict.fromkeys(each.row.name for each in pairs if None in (each.old, each.new))
    if lacking:
        names = ", ".join(lacking)
        yield f"The rule {rule} says nothing of {names}: {rule.statistic} is not on both sides."
    few = [p.row for p in pairs if not p.row.is_exact and p.smallest_p >= alpha]
    if few and rule.statistic != _COLD:
        yield (
            f"The rule {rule} cannot be broken by {few[0].metric} of {few[0].name}: so few samples "
            f"never give p < {alpha:g}. Take more with --repeat."
        )
