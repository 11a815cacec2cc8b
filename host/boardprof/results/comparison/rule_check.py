# SPDX-License-Identifier: Apache-2.0
"""Application of rules to changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final, TypeAlias

from boardprof.base.errors import UnknownNameError, option
from boardprof.base.metrics import Duration, Percent
from boardprof.results.comparison.comparison import (
    DIFFERENT,
    ComparisonError,
    Difference,
    Gap,
    Unjudged,
    first_of,
    gap_in,
    longer,
    place_in,
)
from boardprof.results.comparison.rule import Rule, RuleError, Usual, statistic
from boardprof.results.report.calls import SHARE, STACK, one_of
from boardprof.results.stats.summary import smallest_p

_MOST_REASONS = 4
_COLD = "cold"
_SPREAD = "stddev"  # the overhead, which is subtracted from all samples alike, does not affect it


def _other_calls() -> str:
    *names, last = map(option, ("--repeat", "--number", "--warmup", "--cold", "--metrics"))
    return (
        "its samples differ from call to call, and the two runs did not measure the same calls: "
        f"use the same {', '.join(names)} and {last}, and call the same functions before it"
    )


def _other_inputs() -> str:
    return (
        "its arrays had other contents, which may be what changed it: give both runs the same "
        f"files or seeds, and :out for an array that is only written, or "
        f"{option('--allow', 'inputs')}"
    )


@dataclass(frozen=True)
class Gated:
    """The result of applying rules."""

    rows: tuple[Difference, ...]  # all rows, with the rules that they break
    notes: tuple[str, ...]  # for the reader, about the rules
    unjudged: tuple[Unjudged, ...]  # rows that rules apply to but could not judge
    judged: int  # how many rows at least one rule could judge
    idle: tuple[Rule, ...] = ()  # for metrics that functions of the older run did not have then


UsualOf: TypeAlias = Callable[[Difference, str], "Usual | None"]
"""From a row and a statistic to what is usual for it; None if no earlier run has it."""

FEWEST_RUNS: Final = 5  # the spread of fewer runs says too little


def apply_rules(
    rows: Sequence[Difference],
    rules: Sequence[Rule],
    alpha: float,
    gaps: Sequence[Gap],
    usual_of: UsualOf,
    unknown_stacks: Mapping[tuple[str, ...], str],
) -> Gated:
    """Check rows against rules.

    A rule is broken if the change is beyond its limit and is not noise. It cannot judge a change
    within the measurement uncertainty if its limit is even smaller. A cold call is measured once,
    so it is judged only by the limit and the steps of its clock.
    """
    notes: list[str] = []
    idle: list[Rule] = []
    unjudged: list[Unjudged] = []
    broken: dict[int, list[Rule]] = {}
    held: set[tuple[str, ...]] = set()
    for rule in rules:
        own = [gap for gap in gaps if _is_for(rule, gap)]
        if unknown_stacks and rule.chosen([STACK]):
            of_rule = [row for row in rows if rule.is_about(row.name, row.label)]
            _check_stacks(rule, of_rule, own, unknown_stacks)
        chosen = _rows_of(rule, rows, own)
        pairs = {i: pair for i in chosen if (pair := _pair(rows[i], rule, usual_of)) is not None}
        notes += _notes_of(rule, [rows[i] for i in chosen], [*pairs.values()], alpha)
        if not pairs and _is_of_known(rule, rows, [rows[i] for i in chosen]):
            idle.append(rule)
        beyond = [i for i, pair in pairs.items() if pair.is_broken(rule)]
        notes += [pairs[i].distance for i in beyond if rule.needs_runs]
        for i in beyond:
            broken.setdefault(i, []).append(rule)
        over = {rows[i].place for i in beyond}
        removed = [_removed(rows[i], unknown_stacks) for i in chosen if rows[i].after is None]
        open_pairs = [gap for pair in pairs.values() if (gap := pair.gap(rule, alpha)) is not None]
        by_place = {gap.place: gap for gap in reversed([*own, *removed, *open_pairs])}
        unjudged += [
            Unjudged(**vars(gap), rule=rule)
            for place, gap in reversed(by_place.items())
            if place not in over
        ]
        seen = {pair.row.place for pair in pairs.values() if pair.is_seen}
        held |= over | (seen - by_place.keys())
    gated = [
        replace(row, rule=broken[i][0], broken=tuple(broken[i])) if i in broken else row
        for i, row in enumerate(rows)
    ]
    return Gated(tuple(gated), tuple(notes), tuple(unjudged), len(held), tuple(idle))


@dataclass(frozen=True)
class _Pair:
    """A row that exists before and after, with the rule's statistic; None if that is missing."""

    row: Difference
    old: int | float | None
    new: int | float | None
    smallest_p: float
    usual: Usual | None = None

    @property
    def known(self) -> Usual | None:
        """What is usual; None if too few runs tell."""
        return self.usual if self.usual is not None and self.usual.runs >= FEWEST_RUNS else None

    @property
    def distance(self) -> str:
        """How far the new value is from what is usual."""
        assert self.usual is not None
        assert self.new is not None
        middle, spread = self.usual.middle, self.usual.spread
        away = self.new - middle
        new, usual = _number(self.new), _number(middle)
        runs = f"{self.usual.runs} earlier runs"
        if not spread:
            return f"{self.row.what}: {new} differs from {usual}, the median of {runs}."
        return (
            f"{self.row.what}: {new} is {_number(away / spread, '+.3g')} spreads of "
            f"{Decimal(str(spread)):,.4g} from {usual}, the median of {runs}."
        )

    @property
    def is_seen(self) -> bool:
        """Whether the rule's statistic is on both sides."""
        return self.old is not None and self.new is not None

    def is_broken(self, rule: Rule) -> bool:
        if self.old is None or self.new is None or self.row.verdict in ("other inputs", "doubtful"):
            return False
        is_cold = rule.statistic == _COLD
        is_real = self.row.is_cold_apart if is_cold else self.row.verdict in DIFFERENT
        return is_real and rule.is_broken(self.old, self.new, self.known)

    def lacks(self, rule: Rule) -> bool:
        """Tell whether the rule's statistic is missing on a side; a glob ignores missing ones."""
        missing = (self.old, self.new).count(None)
        return missing == 1 or (missing == 2 and not rule.is_glob)

    def gap(self, rule: Rule, alpha: float) -> Gap | None:
        """Return why the rule cannot judge the row; None if it can."""
        row, is_cold = self.row, rule.statistic == _COLD
        why = ""
        if self.lacks(rule):
            why = f"{rule.statistic} is missing on one side"
        elif rule.needs_runs and self.known is None:
            found = 0 if self.usual is None else self.usual.runs
            why = (
                f"a spread needs {FEWEST_RUNS} earlier runs of the branch since its last change, "
                f"and there {'is' if found == 1 else 'are'} {found}"
            )
            return gap_in(row, row.metric, why, awaits_runs=True)
        elif row.verdict == "other calls" and not is_cold:
            why = _other_calls()
        elif row.verdict == "other inputs":
            why = _other_inputs()
        elif row.verdict == "doubtful":
            why = "the numbers of one side may be wrong, see the warning of its run"
        elif row.verdict == "too few samples" and not is_cold:
            why = f"too few samples to reach p < {alpha:g}"
        elif self.is_too_fine(rule):
            one = one_of([row.label])
            why = (
                f"the measurement overhead may differ by {row.doubt:.3g}"
                f"{' us' if row.kind is Duration else f' {row.metric}'} per {one} between two "
                f"runs, which is more than the limit: {longer(one)}"
            )
        return gap_in(row, row.metric, why) if why else None

    def is_too_fine(self, rule: Rule) -> bool:
        """Tell whether the limit and the change are both within the measurement uncertainty."""
        if self.old is None or rule.statistic in (_COLD, _SPREAD):
            return False
        is_open = self.row.verdict in ("noise", "within overhead")
        return is_open and rule.largest(self.old, self.known) < self.row.doubt


def _number(value: int | float, form: str = ",.6g") -> str:
    return format(Decimal(value), form)


def _pair(row: Difference, rule: Rule, usual_of: UsualOf) -> _Pair | None:
    if row.before is None or row.after is None:
        return None
    old, new = statistic(row.before, rule.statistic), statistic(row.after, rule.statistic)
    usual = usual_of(row, rule.statistic) if rule.needs_runs else None
    return _Pair(row, old, new, smallest_p(row.before.n, row.after.n), usual)


def _removed(row: Difference, unknown_stacks: Mapping[tuple[str, ...], str]) -> Gap:
    """Return why a rule cannot judge a row of the older run alone."""
    why = unknown_stacks.get(row.place)
    return gap_in(row, row.metric, f"it is unknown: {why}" if why else "it is no longer there")


def _names(row: Difference | Gap) -> tuple[str, str]:
    """Return the names of a row's metric: NAME, or DEVICE.NAME."""
    return row.metric, f"{row.device}.{row.metric}"


def _is_for(rule: Rule, row: Gap) -> bool:
    if rule.is_glob and rule.unit == "pp" and not _may_have_points(row.metric):
        return False
    return rule.is_about(row.name, row.label) and any(rule.chosen([name]) for name in _names(row))


def _check_stacks(
    rule: Rule,
    rows: Sequence[Difference],
    gaps: Sequence[Gap],
    unknown_stacks: Mapping[tuple[str, ...], str],
) -> None:
    """Check that a rule about the stack has a stack to judge, unless it is a glob."""
    found = [row for row in rows if row.metric == STACK]
    if rule.is_glob or gaps or any(row.verdict != "removed" for row in found):
        return
    if any(row.place not in unknown_stacks for row in found):
        return
    reasons = [*unknown_stacks.items()]
    listed = "".join(
        f"\n{name}{f' on {device}' if device else ''}: {why}."
        for (name, _, _, device, *_), why in reasons[:_MOST_REASONS]
    )
    more = len(reasons) - _MOST_REASONS
    raise ComparisonError(
        f"The rule {rule} cannot be judged: the stack of a call is unknown.{listed}"
        + (f"\n{more} more." if more > 0 else ""),
        hint="leave the rule out",
    )


def _rows_of(rule: Rule, rows: Sequence[Difference], gaps: Sequence[Gap]) -> list[int]:
    own = {i: row for i, row in enumerate(rows) if rule.is_about(row.name, row.label)}
    metrics = dict.fromkeys(row.metric for row in own.values())
    of_parts = dict.fromkeys(_names(row)[1] for row in own.values())
    chosen = rule.chosen(metrics) or rule.chosen(of_parts)
    found = [i for i, row in own.items() if chosen & {*_names(row)}]
    if not found and not gaps:
        raise UnknownNameError("metric", rule.metric, metrics, where=f"for the rule {rule.text!r}")
    with_points = [i for i in found if rows[i].kind is Percent or _may_have_points(rows[i].metric)]
    if rule.is_glob and rule.unit == "pp" and (with_points or gaps):
        return with_points
    if rule.unit == "pp" and with_points != found:
        raise RuleError(
            rule.text,
            rule.text.rfind("pp"),
            f"{rule.metric} is not a percentage, so it has no points.",
            hint="% of the old value, or no unit",
        )
    return found


def _may_have_points(metric: str) -> bool:
    return metric == SHARE or metric.endswith("(%)")


def _notes_of(
    rule: Rule, chosen: Sequence[Difference], pairs: Sequence[_Pair], alpha: float
) -> Iterable[str]:
    if chosen and not pairs:
        if any(row.before is not None for row in chosen):
            raise ComparisonError(
                f"The rule {rule} cannot be judged: its metric was measured before, but not after.",
                hint="measure the same metrics as before, or leave the rule out",
            )
        yield f"The rule {rule} has no effect: its metric was not measured before."
    if rule.is_glob and pairs and all(each.old is each.new is None for each in pairs):
        raise ComparisonError(
            f"The rule {rule} cannot be judged: there is no {rule.statistic} before or after.",
            hint=f"measure with {option('--cold')}"
            if rule.statistic == _COLD
            else "leave the rule out",
        )
    lacking = dict.fromkeys(each.row.what for each in pairs if each.lacks(rule))
    if lacking:
        names = first_of(lacking)
        yield f"The rule {rule} does not apply to {names}: {rule.statistic} is missing on one side."
    tested = [each for each in pairs if rule.statistic != _COLD and each.row.p is not None]
    few = dict.fromkeys(each.row.what for each in tested if each.smallest_p >= alpha)
    if few:
        names = first_of(few)
        yield (
            f"The rule {rule} cannot be broken by {names}: there are too few samples to reach p < "
            f"{alpha:g}. {_more(each.row for each in pairs)}"
        )


def _more(rows: Iterable[Difference]) -> str:
    is_called = one_of(row.label for row in rows) == "call"
    return f"Take more with {option('--repeat')}." if is_called else "Record events for longer."


def _is_of_known(rule: Rule, rows: Sequence[Difference], chosen: Sequence[Difference]) -> bool:
    """Return whether a rule's metric is new for a function that was measured before."""
    known = {place_in(row, "") for row in rows if row.before is not None}
    return not rule.is_glob and any(place_in(row, "") in known for row in chosen)
