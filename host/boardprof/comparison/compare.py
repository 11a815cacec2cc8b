# SPDX-License-Identifier: Apache-2.0
"""Compare two Reports: exact counters exactly, others by rank test and threshold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Real
from pathlib import Path

from boardprof.comparison.comparison import (
    Comparison,
    ComparisonError,
    Difference,
    Gap,
    place_of,
)
from boardprof.comparison.compatibility import (
    BoardFacts,
    check_allowed,
    check_same,
    facts_of,
    paired_boards,
)
from boardprof.comparison.judgement import difference
from boardprof.comparison.notes import (
    first_of,
    in_pairs,
    masked_once,
    not_compared,
    of_one_build,
    of_one_run,
    only_once,
    within_overhead,
)
from boardprof.comparison.pairing import (
    SHARE,
    Key,
    Pairing,
    Side,
    lost_samples,
    needs_hash,
    side_of,
    why_not,
)
from boardprof.comparison.profile_difference import ProfileDifference, profile_difference
from boardprof.comparison.rule import Rule, parse_rule
from boardprof.comparison.rule_check import apply_rules
from boardprof.errors import UsageError
from boardprof.report.profile_json import ProfiledRow, profiles_of
from boardprof.report.report import Report
from boardprof.stats.groups import SHARES, GroupKey, summaries, titled

__all__ = ["compare", "parse_rules"]


def compare(
    before: Report | str | int | Path,
    after: Report | str | int | Path,
    rules: str | Rule | Iterable[str | Rule] = (),
    *,
    alpha: float = 0.01,
    allow: Iterable[str] = (),
    before_name: str | None = None,
    after_name: str | None = None,
    fail_if_missing: bool = False,
    sessions: int = 1,
) -> Comparison:
    """Compare two Reports row by row and metric by metric.

    Args:
        before: the old Report, or a reference to it in the history or the file system: ``last``,
            ``#42``, its number, a name given by ``--save``, a branch, a commit, a JSON file or its
            Path.
        after: the new Report, likewise.
        rules: one or more rules that a change must not break, such as ``cycles:median>2%``.
        alpha: metrics that are not exact differ if the rank test gives a smaller p; 0 < alpha < 1.
        allow: mismatches to ignore: ``clock``, ``board``, ``compiler``.
        before_name: name of the old Report in output.
        after_name: name of the new Report in output.
        fail_if_missing: rows that a rule could not judge are failures, like regressions.
        sessions: number of sessions in each Report. Each has the same number of samples, and they
            follow one after the other. Sessions of the two Reports alternated and are judged in
            pairs.

    Raises:
        UsageError: an argument has the wrong type, or alpha is out of range.
        RuleError: a rule does not parse.
        UnknownNameError: a rule's metric or a mismatch to allow does not exist.
        ComparisonError: the Reports have nothing in common, have a mismatch that is not allowed, or
            are the same run of the history.
    """
    parsed = parse_rules(rules)
    allowed = _checked(alpha, allow)
    old, old_name, old_run = _resolved(before, before_name or "before")
    new, new_name, new_run = _resolved(after, after_name or "after")
    if old_run is not None and old_run == new_run:
        raise ComparisonError(
            f"Before and after are the same run, {new_name}: nothing could differ.",
            hint="name an older one, such as last~1; boardprof history lists them",
        )
    _check_rows(old, new)
    old_boards, new_boards = facts_of(old), facts_of(new)
    devices = paired_boards(old_boards, new_boards, allowed)
    notes = check_same(devices, old_boards, new_boards, allowed)
    old_groups, new_groups = summaries(old), summaries(new)
    pairing = Pairing(devices, needs_hash(old_groups) or needs_hash(new_groups))
    named = {name for rule in parsed if not rule.is_glob for name in rule.chosen(SHARES)}
    olds = side_of(old, old_groups, pairing, named, is_old=True)
    news = side_of(new, new_groups, pairing, named, is_old=False)
    _check_common(olds, news)
    rows, apart = _rows(olds, news, pairing, alpha, sessions)
    gaps = [
        *lost_samples(old, pairing, named, is_old=True),
        *lost_samples(new, pairing, named, is_old=False),
        *apart,
    ]
    gated = apply_rules(rows, parsed, alpha, gaps)
    if any(row.metric == SHARE for row in rows):
        notes.append(
            f"{SHARE} is the share of a function, with all its samples, of its board's total."
        )
    return Comparison(
        gated.rows,
        (
            *notes,
            *masked_once(old_boards, new_boards),
            *of_one_build(rows, old_boards, new_boards),
            *not_compared(gaps),
            *only_once(rows),
            *within_overhead(rows),
            *in_pairs(rows, sessions),
            *gated.notes,
            *of_one_run(gated.rows),
        ),
        parsed,
        float(alpha),
        old_name,
        new_name,
        _facts(old, old_boards),
        _facts(new, new_boards),
        gated.unjudged,
        fail_if_missing,
        gated.judged,
        gated.idle,
        _reasons(old, new, gated.rows, pairing),
    )


def parse_rules(rules: object) -> tuple[Rule, ...]:
    """Parse rules in the form that `compare` takes.

    Raises:
        UsageError: they are not rules.
        RuleError: one does not parse.
    """
    if not isinstance(rules, str | Rule | Iterable):
        raise UsageError(f"rules={rules!r:.60} are not rules.", hint="rules=['cycles>2%']")
    return tuple(map(_parsed, [rules] if isinstance(rules, str | Rule) else rules))


def _parsed(rule: object) -> Rule:
    if not isinstance(rule, str | Rule):
        raise UsageError(f"{rule!r:.60} is not a rule.", hint="e.g. 'cycles:median>2%'")
    return rule if isinstance(rule, Rule) else parse_rule(rule)


def _checked(alpha: float, allow: Iterable[str]) -> frozenset[str]:
    if not isinstance(alpha, Real) or not 0 < alpha < 1:
        raise UsageError(f"alpha={alpha!r} is not a probability between 0 and 1.")
    names = [allow] if isinstance(allow, str) or not isinstance(allow, Iterable) else [*allow]
    if not all(isinstance(name, str) for name in names):
        raise UsageError(
            f"allow={allow!r:.60} does not name mismatches.", hint="allow=['compiler']"
        )
    check_allowed(names)
    return frozenset(names)


def _check_rows(old: Report, new: Report) -> None:
    empty = [when for when, side in (("before", old), ("after", new)) if not len(side.calls)]
    if empty:
        which = "Neither Report has a row" if len(empty) == 2 else f"The Report {empty[0]} is empty"
        raise ComparisonError(
            f"{which}: there is nothing to compare.", hint="compare Reports that have rows"
        )


def _resolved(side: Report | str | int | Path, name: str) -> tuple[Report, str, int | None]:
    """Return a Report, its name in output, and its number in the history, if it has one."""
    if isinstance(side, Report):
        return side, name, None
    from boardprof.history.report_lookup import find_run

    found = find_run(side)
    return found.report, found.label, None if found.run is None else int(found.run.id)


def _check_common(old: Side, new: Side) -> None:
    olds, news = old.metrics, new.metrics
    if any(olds[key].keys() & news[key].keys() for key in olds.keys() & news.keys()):
        return
    if olds.keys() & news.keys():
        names = [
            ", ".join(dict.fromkeys(name for each in side.values() for name in each))
            for side in (olds, news)
        ]
        what = f"metric in common: {names[0]} before, {names[1]} after"
    else:
        what = f"row in common.\nBefore: {_listed(olds)}.\nAfter: {_listed(news)}"
    raise ComparisonError(
        f"The Reports have no {what}.",
        hint="rows match if name, label, arguments, flags of a sweep and board are the same",
    )


def _listed(side: Iterable[Key]) -> str:
    return first_of(_text(*key) for key in side) or "nothing"


def _text(name: str, shapes: str, flags: str, device: str, _: str, label: str) -> str:
    place = f"on {device}" if device else ""
    return " ".join(filter(None, [f"{titled(name, label)}({shapes})", flags, place]))


def _rows(
    old: Side, new: Side, pairing: Pairing, alpha: float, sessions: int
) -> tuple[list[Difference], list[Gap]]:
    """Return a row for each metric of each group, and the metrics that are not compared."""
    rows: list[Difference] = []
    gaps: list[Gap] = []
    for key in dict.fromkeys([*old.metrics, *new.metrics]):
        olds, news = old.metrics.get(key, {}), new.metrics.get(key, {})
        for metric in dict.fromkeys([*olds, *news]):
            why = why_not(key, metric, old, new) if metric in olds and metric in news else None
            if why is not None:
                gaps.append(pairing.gap(key, metric, why))
                continue
            shown = pairing.shown(key)
            rows.append(difference(shown, olds.get(metric), news.get(metric), alpha, sessions))
    return rows, gaps


def _reasons(
    old: Report, new: Report, rows: Iterable[Difference], pairing: Pairing
) -> dict[tuple[str, ...], ProfileDifference]:
    """Return where functions changed, by the places of the rows that did."""
    before, after = (
        {
            pairing.shown(pairing.key(GroupKey(*_key(each)), is_old=is_old)): each.profile
            for each in profiles_of(side)
            if each.profile.is_complete
        }
        for side, is_old in ((old, True), (new, False))
    )
    found: dict[tuple[str, ...], ProfileDifference] = {}
    for row in rows if before and after else ():
        key = GroupKey(row.name, row.shapes, row.flags, row.device, "", row.label)
        one, other = before.get(key), after.get(key)
        if one is None or other is None or not row.change:
            continue
        if row.metric in one.columns and row.metric in other.columns:
            found[place_of(row)] = profile_difference(one, other, row.metric)
    return found


def _key(row: ProfiledRow) -> tuple[str, ...]:
    return row.name, row.shapes, row.flags, row.device, "", row.label


def _facts(report: Report, boards: Mapping[str, BoardFacts]) -> tuple[tuple[str, str], ...]:
    """Return what identifies a side, for people."""
    facts: list[tuple[str, str]] = []
    version = report.configuration.get("boardprof")
    if isinstance(version, str):
        facts.append(("boardprof", version))
    for name, board in boards.items():
        lines = {
            "clock": board.clock_kind + (", emulated" if board.is_emulated else ""),
            "build": ", ".join(board.builds),
            "compiler": ", ".join(sorted(board.compilers)),
            "C library": ", ".join(sorted(board.libcs)),
            "flags": " | ".join(dict.fromkeys(filter(None, board.flags.values()))),
        }
        facts += [(f"{name} {what}", text) for what, text in lines.items() if text]
    return tuple(facts)
