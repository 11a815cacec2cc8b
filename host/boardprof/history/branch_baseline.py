# SPDX-License-Identifier: Apache-2.0
"""The run of a branch that a new run is compared with: the newest clean one like it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from boardprof.comparison.compare import compare
from boardprof.comparison.comparison import Comparison, ComparisonError
from boardprof.comparison.compatibility import comparable_flags
from boardprof.comparison.rule import Rule, parse_rules
from boardprof.history.choice import Choice
from boardprof.history.report_lookup import Found, like_runs_of, user_history
from boardprof.history.run import Run, contents_of
from boardprof.report.report import Report
from boardprof.report.source_place import places_of

__all__ = ["branch_baseline"]


def branch_baseline(
    report: Report,
    branch: str,
    *,
    rules: Iterable[str] = (),
    allow: Sequence[str] = (),
    target: str = "",
    folder: str | Path = ".",
) -> Found | None:
    """Return the clean run of a branch that a Report is compared with; None if none is like it.

    A run is like the Report if it can be compared with it (functions, arguments, board, clock,
    compiler and flags), its functions are in the same files, and it has the rules' metrics. Several
    jobs may measure other things on one branch. So of these runs, the one with most of the Report's
    rows is returned; of several such runs, one of the same target, and then the newest.

    Args:
        report: of the new run.
        branch: its name.
        rules: that will be checked.
        allow: mismatches to ignore, see `compare`.
        target: what was measured, such as ``fir.c:fir``; "" if not known.
        folder: the current folder, whose project counts.

    Raises:
        HistoryError: the history cannot be read.
        RuleError: a rule does not parse.
    """
    parsed = parse_rules(rules)
    wanted = contents_of(report)
    choice = Choice(
        branch=branch,
        is_clean=True,
        boards=None if "board" in allow else frozenset(wanted["boards"]),
        functions=frozenset(wanted["functions"]),
    )
    history = user_history(folder)
    flags = frozenset() if "compiler" in allow else _comparable(wanted["flags"])
    runs = (run for run in history.own_runs(choice) if _may_have(run, flags))
    best: tuple[tuple[int, bool], Found] | None = None
    for found in like_runs_of(report, history, runs, any_board="board" in allow):
        compared = _compared(found.report, report, parsed, allow)
        if compared is None or found.run is None:
            continue
        added = sum(row.verdict == "added" for row in compared.rows)
        rank = -added, not target or target in _words(found.run.command)
        if best is None or rank > best[0]:
            best = rank, Found(found.report, found.run.label, found.time, found.run)
        if rank == (0, True):
            break
    return None if best is None else best[1]


def _comparable(flags: Iterable[str]) -> frozenset[str]:
    return frozenset(map(comparable_flags, flags))


def _may_have(run: Run, flags: frozenset[str]) -> bool:
    """Tell without its Report whether a run may have been compiled with one of some flags."""
    return not flags or not run.flags or not flags.isdisjoint(_comparable(run.flags))


def _compared(
    before: Report, after: Report, rules: Iterable[Rule], allow: Sequence[str]
) -> Comparison | None:
    """Return the comparison with a run that is like the Report, without rules; else None."""
    olds, news = places_of(before), places_of(after)
    if any(olds[name].file != news[name].file for name in olds.keys() & news.keys()):
        return None
    try:
        found = compare(before, after, allow=allow)
    except ComparisonError:
        return None
    for rule in rules:
        rows = [
            row for row in found.rows if rule.chosen([row.metric, f"{row.device}.{row.metric}"])
        ]
        if not rule.is_glob and rows and all(row.before is None for row in rows):
            return None
    return found


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # its end is missing
        return []
