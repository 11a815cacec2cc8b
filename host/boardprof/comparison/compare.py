# SPDX-License-Identifier: Apache-2.0
"""Compare two Reports: exact counters exactly, others by rank test and threshold."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from boardprof.comparison.comparison import Comparison, ComparisonError, Difference
from boardprof.comparison.gate import apply_rules
from boardprof.comparison.judgement import difference
from boardprof.comparison.matching import (
    MISMATCHES,
    BoardFacts,
    check_same,
    facts_of,
    paired_boards,
)
from boardprof.comparison.rule import Rule, parse_rule
from boardprof.errors import UnknownNameError, UsageError
from boardprof.report.report import Report
from boardprof.stats.groups import SHARES, GroupKey, GroupSummary, summaries

__all__ = ["compare"]

_Key: TypeAlias = tuple[str, str, str, str, str]  # name, shapes, flags, device, hash
_Side: TypeAlias = dict[_Key, dict[str, GroupSummary]]

_MOST_LISTED = 8


def compare(
    before: Report | str,
    after: Report | str,
    rules: Sequence[str | Rule] = (),
    *,
    alpha: float = 0.01,
    allow: Iterable[str] = (),
    before_name: str | None = None,
    after_name: str | None = None,
) -> Comparison:
    """Compare two Reports row by row and metric by metric.

    Args:
        before: the old one, or a name that the history or the file system has: ``last``, ``#42``,
            a name given by ``--save``, a branch, a commit, a JSON file.
        after: the new one, likewise.
        rules: what a change must not break, such as ``cycles:median>2%``.
        alpha: what is no exact count differs where the rank test gives a smaller p; 0 < alpha < 1.
        allow: mismatches to compare in spite of: ``clock``, ``board``, ``compiler``.
        before_name: how output calls the old one.
        after_name: how output calls the new one.

    Raises:
        RuleError: a rule does not parse.
        UnknownNameError: a rule's metric, or what is to be allowed, is none.
        ComparisonError: the Reports have nothing in common, or differ in what was not allowed.
    """
    parsed = tuple(rule if isinstance(rule, Rule) else parse_rule(rule) for rule in rules)
    allowed = _checked(alpha, allow)
    old, old_name = _resolved(before, before_name or "before")
    new, new_name = _resolved(after, after_name or "after")
    old_boards, new_boards = facts_of(old), facts_of(new)
    pairs = paired_boards(old_boards, new_boards, allowed)
    notes = check_same(pairs, old_boards, new_boards, allowed)
    named = {rule.metric for rule in parsed}
    old_groups, new_groups = summaries(old), summaries(new)
    by_hash = _needs_hash(old_groups) or _needs_hash(new_groups)
    olds = _by_key(old_groups, pairs, named, by_hash)
    news = _by_key(new_groups, {}, named, by_hash)
    _check_common(olds, news)
    rows, gate_notes = apply_rules(_rows(olds, news, pairs, alpha), parsed, alpha)
    return Comparison(
        tuple(rows),
        (*notes, *_lost(rows), *gate_notes),
        parsed,
        alpha,
        old_name,
        new_name,
        _facts(old, old_boards),
        _facts(new, new_boards),
    )


def _checked(alpha: float, allow: Iterable[str]) -> frozenset[str]:
    if not 0 < alpha < 1:
        raise UsageError(f"alpha={alpha!r} is no probability between 0 and 1.")
    allowed = frozenset([allow] if isinstance(allow, str) else allow)
    for name in sorted(allowed - {*MISMATCHES}):
        raise UnknownNameError("mismatch", name, MISMATCHES)
    return allowed


def _resolved(side: Report | str, name: str) -> tuple[Report, str]:
    if isinstance(side, Report):
        return side, name
    from boardprof.history.finding import find_run

    found = find_run(side)
    return found.report, found.label


def _needs_hash(groups: Iterable[GroupSummary]) -> bool:
    """Tell whether only the hash tells some groups of equal name apart."""
    hashes: dict[GroupKey, str] = {}
    keys = dict.fromkeys(group.key for group in groups)
    return any(hashes.setdefault(replace(k, hash=""), k.hash) != k.hash for k in keys)


def _by_key(
    groups: Iterable[GroupSummary],
    renamed: Mapping[str, str],
    named: Collection[str],
    by_hash: bool,
) -> _Side:
    """Return the metrics to compare by group and name, on the boards' new names.

    Shares depend on what else was measured: they are compared only where a rule names them.
    """
    found: _Side = {}
    for group in groups:
        if group.metric in SHARES and group.metric not in named:
            continue
        key = group.key
        device = renamed.get(key.device, key.device)
        place = (key.name, key.shapes, key.flags, device, key.hash if by_hash else "")
        found.setdefault(place, {})[group.metric] = group
    return found


def _check_common(olds: _Side, news: _Side) -> None:
    if any(olds[key].keys() & news[key].keys() for key in olds.keys() & news.keys()):
        return
    if olds.keys() & news.keys():
        old, new = (
            ", ".join(dict.fromkeys(name for each in side.values() for name in each))
            for side in (olds, news)
        )
        what = f"metric in common: {old} before, {new} after"
    else:
        what = f"row in common.\nBefore: {_listed(olds)}.\nAfter: {_listed(news)}"
    raise ComparisonError(
        f"The Reports have no {what}.",
        hint="rows are the same by name, arguments, flags of a sweep, and board",
    )


def _listed(side: _Side) -> str:
    texts = [_text(*key) for key in side]
    more = f" and {len(texts) - _MOST_LISTED} more" if len(texts) > _MOST_LISTED else ""
    return (", ".join(texts[:_MOST_LISTED]) or "nothing") + more


def _text(name: str, shapes: str, flags: str, device: str, _: str) -> str:
    return " ".join(filter(None, [f"{name}({shapes})", flags, f"on {device}" if device else ""]))


def _rows(olds: _Side, news: _Side, pairs: Mapping[str, str], alpha: float) -> list[Difference]:
    shown = {new: old if old == new else f"{old} -> {new}" for old, new in pairs.items()}
    return [
        difference(
            GroupKey(key[0], key[1], key[2], shown.get(key[3], key[3]), key[4]),
            olds.get(key, {}).get(metric),
            news.get(key, {}).get(metric),
            alpha,
        )
        for key in dict.fromkeys([*olds, *news])
        for metric in dict.fromkeys([*olds.get(key, {}), *news.get(key, {})])
    ]


def _lost(rows: Sequence[Difference]) -> list[str]:
    """Say which functions, and which metrics, only one of the Reports has."""
    notes: list[str] = []
    for verdict, when in (("removed", "before"), ("added", "after")):
        found = dict.fromkeys(
            f"{row.metric} of {row.name}" for row in rows if row.verdict == verdict
        )
        if found:
            listed = ", ".join([*found][:_MOST_LISTED])
            more = f" and {len(found) - _MOST_LISTED} more" if len(found) > _MOST_LISTED else ""
            notes.append(f"Only {when}: {listed}{more}.")
    return notes


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
            "flags": " | ".join(dict.fromkeys(filter(None, board.flags.values()))),
        }
        facts += [(f"{name} {what}", text) for what, text in lines.items() if text]
    return tuple(facts)
