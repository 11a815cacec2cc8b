# SPDX-License-Identifier: Apache-2.0
"""Rules applied to what has changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from boardprof.comparison.comparison import (
    ComparisonError,
    Difference,
    Gap,
    Unjudged,
    place_of,
)
from boardprof.comparison.notes import LONGER, first_of
from boardprof.comparison.rule import Rule, RuleError, statistic
from boardprof.errors import UnknownNameError
from boardprof.metrics import Duration, Percent
from boardprof.stats.ranks import smallest_p
from boardprof.stats.summary import Number

__all__ = ["Gated", "apply_rules"]

_COLD = "cold"
_SPREAD = "stddev"
"""What is subtracted from all samples alike says nothing of it."""

_OTHER_CALLS = (
    "its samples differ from call to call, and are not of the same calls before and after: that "
    "takes the same --repeat, --number, --warmup, --cold and --metrics, and the same functions "
    "called ahead of it"
)


@dataclass(frozen=True)
class Gated:
    """What came of rules.

    Attributes:
        rows: with the rules that they break.
        notes: what is to be known of the rules.
        unjudged: what they are for, and could not judge.
        judged: how many rows at least one rule could judge.
    """

    rows: tuple[Difference, ...]
    notes: tuple[str, ...]
    unjudged: tuple[Unjudged, ...]
    judged: int


def apply_rules(
    rows: Sequence[Difference], rules: Sequence[Rule], alpha: float, gaps: Sequence[Gap] = ()
) -> Gated:
    """Hold rows against rules.

    A rule is broken where the change is beyond its limit and is no noise. It cannot judge a change
    that no two runs tell from none where its limit is even smaller. What a cold call costs is known
    of one call: it is judged by the limit and the steps of its clock alone.

    Args:
        rows: what has changed.
        rules: what must not.
        alpha: the level of the rank test.
        gaps: what is not compared, or not with all samples.

    Raises:
        UnknownNameError: a rule names a metric, or a pattern of them, that there is not.
        RuleError: its unit is none of the metric's.
        ComparisonError: its metric is gone, or its statistic is nowhere: nothing could be said.
    """
    notes: list[str] = []
    unjudged: list[Unjudged] = []
    broken: dict[int, list[Rule]] = {}
    held: set[tuple[str, ...]] = set()
    for rule in rules:
        own = [gap for gap in gaps if _is_for(rule, gap)]
        chosen = _rows_of(rule, rows, own)
        pairs = {i: pair for i in chosen if (pair := _pair(rows[i], rule)) is not None}
        notes += _notes_of(rule, [rows[i] for i in chosen], [*pairs.values()], alpha)
        beyond = [i for i, pair in pairs.items() if pair.is_broken(rule)]
        for i in beyond:
            broken.setdefault(i, []).append(rule)
        over = {place_of(rows[i]) for i in beyond}
        missing = [*own, *_missing(rule, [rows[i] for i in chosen], [*pairs.values()], alpha)]
        by_place = {place_of(gap): gap for gap in reversed(missing)}
        unjudged += [
            Unjudged(rule, gap) for place, gap in reversed(by_place.items()) if place not in over
        ]
        seen = {place_of(pair.row) for pair in pairs.values() if pair.is_seen}
        held |= over | (seen - by_place.keys())
    gated = [
        replace(row, rule=broken[i][0], broken=tuple(broken[i])) if i in broken else row
        for i, row in enumerate(rows)
    ]
    return Gated(tuple(gated), tuple(notes), tuple(unjudged), len(held))


@dataclass(frozen=True)
class _Pair:
    """A row that is there before and after, and what a rule looks at: None where it is lacking."""

    row: Difference
    old: Number | None
    new: Number | None
    smallest_p: float

    @property
    def is_seen(self) -> bool:
        """Whether what the rule looks at is on both sides."""
        return self.old is not None and self.new is not None

    def is_broken(self, rule: Rule) -> bool:
        if self.old is None or self.new is None:
            return False
        is_cold = rule.statistic == _COLD
        is_real = self.row.is_cold_apart if is_cold else self.row.verdict in ("better", "worse")
        return is_real and rule.is_broken(self.old, self.new)

    def lacks(self, rule: Rule) -> bool:
        """Tell whether what the rule looks at is not on both sides; a glob takes what there is."""
        missing = (self.old, self.new).count(None)
        return missing == 1 or (missing == 2 and not rule.is_glob)

    def is_of_few(self, rule: Rule, alpha: float) -> bool:
        """Tell whether the rank test can never say anything, so that the rule cannot be broken."""
        is_tested = rule.statistic != _COLD and self.row.p is not None
        return is_tested and self.smallest_p >= alpha

    def is_too_fine(self, rule: Rule) -> bool:
        """Tell whether what is allowed is less than the measuring is sure, and no more was seen."""
        if self.old is None or rule.statistic in (_COLD, _SPREAD):
            return False
        is_open = self.row.verdict in ("noise", "within overhead")
        return is_open and rule.largest(self.old) < self.row.doubt


def _pair(row: Difference, rule: Rule) -> _Pair | None:
    if row.before is None or row.after is None:
        return None
    old, new = statistic(row.before, rule.statistic), statistic(row.after, rule.statistic)
    return _Pair(row, old, new, smallest_p(row.before.n, row.after.n))


def _missing(
    rule: Rule, chosen: Sequence[Difference], pairs: Sequence[_Pair], alpha: float
) -> Iterable[Gap]:
    """Yield the rows that a rule is for and cannot judge: what is new has nothing to be kept."""
    for row in chosen:
        if row.verdict == "removed":
            yield _gap(row, "it is gone")
    for pair in pairs:
        if pair.lacks(rule):
            yield _gap(pair.row, f"{rule.statistic} is not on both sides")
        elif pair.row.verdict == "other calls" and rule.statistic != _COLD:
            yield _gap(pair.row, _OTHER_CALLS)
        elif pair.row.verdict == "too few samples" and rule.statistic != _COLD:
            yield _gap(pair.row, f"so few samples never give p < {alpha:g}")
        elif pair.is_too_fine(rule):
            yield _gap(pair.row, _too_fine(pair.row))


def _too_fine(row: Difference) -> str:
    unit = " us" if row.kind is Duration else f" {row.metric}"
    return (
        f"two runs may differ by {float(row.doubt):.3g}{unit} a call in what the measuring itself "
        f"takes, which is more than the limit: {LONGER}"
    )


def _gap(row: Difference, why: str) -> Gap:
    return Gap(row.name, row.shapes, row.device, row.flags, row.metric, why, row.label)


def _names(row: Difference | Gap) -> tuple[str, str]:
    """Return what a row's metric may be called: its name, or DEVICE.NAME."""
    return row.metric, f"{row.device}.{row.metric}"


def _is_for(rule: Rule, row: Gap) -> bool:
    if rule.is_glob and rule.unit == "pp" and not _may_have_points(row.metric):
        return False
    return any(rule.chosen([name]) for name in _names(row))


def _rows_of(rule: Rule, rows: Sequence[Difference], gaps: Sequence[Gap]) -> list[int]:
    metrics = dict.fromkeys(row.metric for row in rows)
    of_parts = dict.fromkeys(_names(row)[1] for row in rows)
    chosen = rule.chosen(metrics) or rule.chosen(of_parts)
    found = [i for i, row in enumerate(rows) if chosen & {*_names(row)}]
    if not found and not gaps:
        raise UnknownNameError("metric", rule.metric, metrics, where=f"for the rule {rule.text!r}")
    with_points = [i for i in found if _has_points(rows[i])]
    if rule.is_glob and rule.unit == "pp" and (with_points or gaps):
        return with_points
    if rule.unit == "pp" and with_points != found:
        raise RuleError(
            rule.text,
            rule.text.rfind("pp"),
            f"{rule.metric} is no percentage: it has no points.",
            hint="% of the old value, or no unit",
        )
    return found


def _has_points(row: Difference) -> bool:
    return row.kind is Percent or _may_have_points(row.metric)


def _may_have_points(metric: str) -> bool:
    return metric == "Percent" or metric.endswith("(%)")


def _notes_of(
    rule: Rule,
    chosen: Sequence[Difference],
    pairs: Sequence[_Pair],
    alpha: float,
) -> Iterable[str]:
    if chosen and not pairs:
        if any(row.before is not None for row in chosen):
            raise ComparisonError(
                f"The rule {rule} cannot be judged: what it is for was measured before, and no "
                "longer.",
                hint="measure the same metrics as before, or leave the rule out",
            )
        yield f"The rule {rule} is for what was not measured before."
    if rule.is_glob and pairs and all(each.old is each.new is None for each in pairs):
        raise ComparisonError(
            f"The rule {rule} cannot be judged: there is no {rule.statistic} before or after.",
            hint="measure with --cold" if rule.statistic == _COLD else "leave the rule out",
        )
    lacking = dict.fromkeys(_what(each.row) for each in pairs if each.lacks(rule))
    if lacking:
        names = first_of(lacking)
        yield f"The rule {rule} says nothing of {names}: {rule.statistic} is not on both sides."
    few = dict.fromkeys(_what(each.row) for each in pairs if each.is_of_few(rule, alpha))
    if few:
        names = first_of(few)
        yield (
            f"The rule {rule} cannot be broken by {names}: so few samples never give "
            f"p < {alpha:g}. Take more with --repeat."
        )


def _what(row: Difference) -> str:
    return f"{row.metric} of {row.title}"
