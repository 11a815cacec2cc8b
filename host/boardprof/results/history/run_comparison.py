# SPDX-License-Identifier: Apache-2.0
"""Comparison with runs of the history: by name, or with the newest clean one of a branch."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from boardprof.results.comparison.compare import SPREAD_RUNS
from boardprof.results.comparison.compare import compare as compare_reports
from boardprof.results.comparison.comparison import Comparison, ComparisonError
from boardprof.results.comparison.compatibility import comparable_flags
from boardprof.results.comparison.rule import Rule, parse_rules
from boardprof.results.history.report_lookup import (
    Found,
    branch_reports,
    find_run,
    like_runs_of,
    user_history,
)
from boardprof.results.history.run import Run, RunId, contents_of
from boardprof.results.history.run_table import Choice
from boardprof.results.report.report import Report
from boardprof.results.row_origins import places_of

__all__ = ["BranchRuns", "compare"]

_LISTED = 1000
"""Clean runs of a board and a function that are looked at; few of them are read."""


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
    earlier: Sequence[Report] | None = None,
    spread_runs: int = SPREAD_RUNS,
) -> Comparison:
    """Compare two Reports row by row and metric by metric.

    Args:
        before: the old Report, or a reference to it in the history or the file system: ``last``,
            ``#42``, its number, a name given by ``--save``, a branch, a commit, a JSON file or its
            Path.
        after: the new Report, likewise.
        rules: one or more rules that a change must not break, such as ``cycles:median>2%``.
        alpha: metrics that are not exact differ if the rank test gives a smaller p; 0 < alpha < 1.
        allow: mismatches to ignore: ``clock``, ``board``, ``compiler``, ``inputs``.
        before_name: name of the old Report in output.
        after_name: name of the new Report in output.
        fail_if_missing: rows that a rule could not judge are failures, like regressions.
        sessions: number of sessions in each Report. Each has the same number of samples, and they
            follow one after the other. Sessions of the two Reports alternated and are judged in
            pairs.
        earlier: Reports of earlier runs, the oldest first, for rules in spreads. None for the clean
            runs of the branch of ``before`` up to it, which is then a run of the history.
        spread_runs: how many of them, at most.

    Raises:
        UsageError: an argument has the wrong type, or alpha is out of range.
        RuleError: a rule does not parse.
        UnknownNameError: a rule's metric or a mismatch to allow does not exist.
        ComparisonError: the Reports have nothing in common, have a mismatch that is not allowed, or
            are the same run of the history.
    """
    parsed = parse_rules(rules)
    old, old_name, old_run = _resolved(before, before_name or "before")
    new, new_name, new_run = _resolved(after, after_name or "after")
    if old_run is not None and new_run is not None and old_run.id == new_run.id:
        raise ComparisonError(
            f"Before and after are the same run, {new_name}: nothing could differ.",
            hint="name an older one, such as last~1; boardprof history lists them",
        )
    if earlier is None and old_run is not None and any(rule.needs_runs for rule in parsed):
        earlier = branch_reports(old_run, spread_runs)
    return compare_reports(
        old,
        new,
        parsed,
        alpha=alpha,
        allow=allow,
        before_name=old_name,
        after_name=new_name,
        fail_if_missing=fail_if_missing,
        sessions=sessions,
        earlier=earlier,
        spread_runs=spread_runs,
    )


def _resolved(side: Report | str | int | Path, name: str) -> tuple[Report, str, Run | None]:
    """Return a Report, its name in output, and its run in the history, if it is one."""
    if isinstance(side, Report):
        return side, name, None
    found = find_run(side)
    return found.report, found.label, found.run


def _whole(report: Report) -> Report | None:
    return report


class BranchRuns:
    """The clean runs of a branch; each is read once."""

    def __init__(self, branch: str, folder: str | Path = ".") -> None:
        """Read nothing yet."""
        self.branch = branch
        self._folder = folder
        self._runs: dict[Choice, list[Run]] = {}
        self._reports: dict[RunId, Report] = {}
        self._earlier: dict[RunId, list[Report]] = {}

    def baseline(
        self,
        report: Report,
        *,
        rules: Iterable[str] = (),
        allow: Sequence[str] = (),
        target: str = "",
        part: Callable[[Report], Report | None] = _whole,
    ) -> Found | None:
        """Return the run that a Report is compared with; None if none is like it.

        A run is like the Report if it can be compared with it (functions, arguments, board, clock,
        compiler and flags), its functions are in the same files, and it has the rules' metrics. Of
        these, the one with most of the Report's rows is returned; of several such runs, one of the
        same target or without further rows, then one with the same inputs, and then the newest.
        """
        parsed = parse_rules(rules)
        wanted = contents_of(report)
        choice = Choice(
            branch=self.branch,
            is_clean=True,
            boards=None if "board" in allow else frozenset(wanted["boards"]),
            functions=frozenset(wanted["functions"]),
        )
        flags = frozenset() if "compiler" in allow else _comparable(wanted["flags"])
        runs = (run for run in self._listed(choice) if _may_have(run, flags))
        best: tuple[tuple[int, bool, bool], Found] | None = None
        any_board = "board" in allow
        for run, earlier in like_runs_of(report, runs, self._loaded, part, any_board=any_board):
            compared = _compared(earlier, report, parsed, allow)
            if compared is None:
                continue
            added = sum(row.verdict == "added" for row in compared.rows)
            has_more = any(row.verdict == "removed" for row in compared.rows)
            is_other = has_more and target != "" and target not in _words(run.command)
            has_other_inputs = any(row.verdict == "other inputs" for row in compared.rows)
            rank = -added, not is_other, not has_other_inputs
            if best is None or rank > best[0]:
                best = rank, Found(earlier, run.label, run.time, run)
            if rank == (0, True, True):
                break
        return None if best is None else best[1]

    def earlier(self, run: Run) -> list[Report]:
        """Return a run and those before it, see `branch_reports`."""
        if run.id not in self._earlier:
            self._earlier[run.id] = branch_reports(run, SPREAD_RUNS, self._folder)
        return self._earlier[run.id]

    def _listed(self, choice: Choice) -> list[Run]:
        if choice not in self._runs:
            self._runs[choice] = user_history(self._folder).own_runs(choice, limit=_LISTED)
        return self._runs[choice]

    def _loaded(self, run: Run) -> Report:
        if run.id not in self._reports:
            self._reports[run.id] = user_history(self._folder).load(run)
        return self._reports[run.id]


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
        found = compare_reports(before, after, allow=allow)
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
