# SPDX-License-Identifier: Apache-2.0
"""Comparison with runs of the history, by name or the newest clean one of a branch; trends."""

from __future__ import annotations

import itertools
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path, PurePath
from typing import Any

from boardprof.base.errors import UnknownNameError, UsageError
from boardprof.results.comparison.compare import SPREAD_RUNS, Trend, trends_of
from boardprof.results.comparison.compare import compare as compare_reports
from boardprof.results.comparison.comparison import Comparison, ComparisonError
from boardprof.results.comparison.compatibility import comparable_flags
from boardprof.results.comparison.rule import Rule, parse_rules
from boardprof.results.history.databases import Choice, only
from boardprof.results.history.report_lookup import (
    Found,
    branch_reports,
    find_run,
    like_runs_of,
    user_history,
)
from boardprof.results.history.run import NothingKeptError, Run, contents_of, git_output
from boardprof.results.report.report import Report
from boardprof.results.row_origins import places_of

_LISTED = 1000  # clean runs of a board and a function that are looked at; few of them are read


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
    tolerance: float = 0.0,
) -> Comparison:
    """Compare two Reports row by row and metric by metric.

    Args:
        before: the old Report, or a reference to it in the history or the file system: ``last``,
            ``#42``, its number, a name given by ``--save``, a branch, a commit, a JSON file or its
            Path.
        after: the new Report, likewise.
        rules: one or more rules that a change must not break, such as ``cycles:median>2%``.
        alpha: metrics that are not exact differ if the rank test gives a smaller p; 0 < alpha < 1.
        allow: mismatches to ignore: ``clock``, ``board``, ``compiler``, ``inputs``,
            ``outputs``.
        before_name: name of the old Report in output.
        after_name: name of the new Report in output.
        fail_if_missing: rows that a rule could not judge are failures, like regressions.
        sessions: number of sessions in each Report. Each has the same number of samples, and they
            follow one after the other. Sessions of the two Reports alternated and are judged in
            pairs.
        earlier: Reports of earlier runs, the oldest first, for rules in spreads. None for the clean
            runs of the branch of ``before`` up to it, which is then a run of the history.
        spread_runs: how many of them, at most.
        tolerance: largest relative difference of floats in outputs that does not count.

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
        tolerance=tolerance,
    )


def _resolved(side: Report | str | int | Path, name: str) -> tuple[Report, str, Run | None]:
    """Return a Report, its name in output, and its run in the history, if it is one."""
    if isinstance(side, Report):
        return side, name, None
    found = find_run(side)
    return found.report, found.label, found.run


class BranchRuns:
    """The clean runs of a branch; each is read once."""

    def __init__(self, branch: str, folder: str | Path = ".") -> None:
        """Read nothing yet."""
        self.branch = branch
        self._listed = cache(lambda choice: user_history(folder).own_runs(choice, limit=_LISTED))
        self._loaded = cache(lambda run: user_history(folder).load(run))
        # a run and those before it, see `branch_reports`
        self.earlier = cache(lambda run: branch_reports(run, SPREAD_RUNS, folder))

    def baseline(
        self,
        report: Report,
        *,
        rules: Iterable[str | Rule] = (),
        allow: Sequence[str] = (),
        target: str = "",
        part: Callable[[Report], Report | None] = lambda report: report,
    ) -> Found | None:
        """Return the run that a Report is compared with; None if none is like it.

        A run is like the Report if it can be compared with it (functions, arguments, board, clock,
        compiler and flags), its functions are in the same files, and it has the rules' metrics. Of
        these, the one with most of the Report's rows is returned; of several such runs, one of the
        same target or without further rows, then one with the same inputs, and then the newest.
        """
        parsed, any_board = parse_rules(rules), "board" in allow
        wanted = contents_of(report)
        choice = Choice(
            branch=self.branch,
            is_clean=True,
            boards=None if any_board else frozenset(wanted["boards"]),
            functions=frozenset(wanted["functions"]),
        )
        flags = frozenset() if "compiler" in allow else _comparable(wanted["flags"])
        runs = (run for run in self._listed(choice) if _may_have(run, flags))
        best: tuple[tuple[int, bool, bool], Found] | None = None
        for run, earlier in like_runs_of(report, runs, self._loaded, part, any_board=any_board):
            compared = _compared(earlier, report, parsed, allow)
            if compared is None:
                continue
            verdicts = Counter(row.verdict for row in compared.rows)
            is_told = target != "" and target not in _words(run.command)
            is_other = is_told and verdicts["removed"] > 0
            rank = -verdicts["added"], not is_other, verdicts["other inputs"] == 0
            if best is None or rank > best[0]:
                best = rank, Found(earlier, run.label, run.time, run)
            if rank == (0, True, True):
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
        found = compare_reports(before, after, allow=allow)
    except ComparisonError:
        return None
    for rule in rules:
        about = (row for row in found.rows if rule.is_about(row.name, row.label))
        rows = [row for row in about if rule.chosen([row.metric, f"{row.device}.{row.metric}"])]
        if not rule.is_glob and rows and all(row.before is None for row in rows):
            return None
    return found


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # its end is missing
        return []


# -- trends -----------------------------------------------------------------------------------

_READ_FOR_NAMES = 1000


@dataclass(frozen=True)
class RunTrend:
    """One metric of a function over several runs."""

    trend: Trend
    runs: tuple[Run, ...]
    file: str | None = None  # where the function is, as its repository calls it; None if not known


@dataclass(frozen=True)
class FunctionTrends:
    """All trends of a function."""

    function: str
    branch: str | None  # whose clean runs were read; None for all runs that did not fail
    trends: tuple[RunTrend, ...]
    # reason -> runs that cannot be compared with the newest one, the oldest first
    left_out: Mapping[str, tuple[Run, ...]]

    def for_people(self) -> list[RunTrend]:
        """Return the trends; if the function is in several files, named as ``src/fir.c:fir``."""
        if len({each.file for each in self.trends}) < 2:
            return [*self.trends]
        found = []
        for each in self.trends:
            name = f"{each.file or '(unknown file)'}:{each.trend.row.name}"
            trend = replace(each.trend, row=replace(each.trend.row, name=name))
            found.append(replace(each, trend=trend))
        return found

    def json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "schema_version": 1,
            "function": self.function,
            "branch": self.branch,
            "trends": [_json(each) for each in self.trends],
            "left_out": [
                {"why": why, "runs": [run.id for run in runs]}
                for why, runs in self.left_out.items()
            ],
        }


def function_trends(
    function: str,
    *,
    file: str = "",
    branch: str | None = None,
    board: str | None = None,
    limit: int = 50,
    allow: Iterable[str] = (),
) -> FunctionTrends:
    """Return the trends of a function over the last runs of this project.

    Each run is compared with the newest run of the same function, arguments, board and flags. One
    with another clock or compiler is left out, as `compare` refuses it. Functions of this name in
    different files have trends of their own.
    """
    history = user_history()
    choice = Choice(
        branch=branch,
        is_clean=None if branch is None else True,
        has_failed=False,
        boards=only(board),
        functions=only(function),
    )
    runs = history.own_runs(choice, limit=limit)[::-1]
    if not runs:
        known = history.own_runs(limit=_READ_FOR_NAMES)
        if not known:
            raise NothingKeptError(
                f"There is no run of {function}: {history.name} has no run of this project.",
                hint="measure first: `boardprof run` keeps each run",
            )
        names = dict.fromkeys(name for run in known for name in run.functions)
        where = "in the runs of this project"
        where += "" if branch is None else f" on the branch {branch} without changes"
        where += "" if board is None else f" measured on {board}"
        if function in names:
            raise UsageError(
                f"There is no run of {function} {where}.",
                hint="`boardprof history` lists the runs with their boards and branches",
            )
        raise UnknownNameError("function", function, names, where=where)
    reports = history.load_all(runs)
    trends, left_out = _trends(function, board, runs, reports, allow)
    chosen = tuple(each for each in trends if _is_in(each.file, file))
    if not chosen and trends:
        files = dict.fromkeys(each.file for each in trends if each.file)
        raise UnknownNameError("file", file, files, where=f"of {function} in these runs")
    return FunctionTrends(function, branch, chosen, left_out)


def usual_branch(function: str, board: str | None = None) -> str | None:
    """Return the current branch if it has a clean run of a function; else None."""
    branch = (git_output(".", "symbolic-ref", "--short", "-q", "HEAD") or "").rstrip("\n")
    if not branch:
        return None
    choice = Choice(branch=branch, is_clean=True, boards=only(board), functions=only(function))
    return branch if user_history().own_runs(choice, limit=1) else None


def _trends(
    function: str,
    board: str | None,
    runs: Sequence[Run],
    reports: Sequence[Report],
    allow: Iterable[str],
) -> tuple[tuple[RunTrend, ...], dict[str, tuple[Run, ...]]]:
    """Return the trends, and the runs that are left out; see `FunctionTrends`."""
    found: dict[tuple[str, ...], list[RunTrend]] = {}
    files = [_file(function, report) for report in reports]
    refused: dict[int, str] = {}
    used: set[int] = set()
    for newest in range(len(runs) - 1, -1, -1):
        if newest in used:
            continue
        one, why_not = trends_of(
            reports[: newest + 1], partial(_compared_there, function, reports[newest], tuple(allow))
        )
        for place, trend in one.items():
            if trend.row.name != function or board not in (None, trend.row.device):
                continue
            file = next(filter(None, (files[number] for number in trend.runs[::-1])), None)
            alike = found.setdefault(place, [])
            if any(file is None or each.file in (None, file) for each in alike):
                continue
            used.update(trend.runs)
            alike.append(RunTrend(trend, tuple(runs[number] for number in trend.runs), file))
        refused = {**why_not, **refused}
    left_out: dict[str, list[Run]] = {}
    for number in sorted(refused.keys() - used):
        left_out.setdefault(refused[number], []).append(runs[number])
    every = (*itertools.chain.from_iterable(found.values()),)
    return every, {why: (*each,) for why, each in left_out.items()}


def _compared_there(
    function: str, newest: Report, allow: Sequence[str], report: Report
) -> Comparison:
    """Compare a Report with the newest one, unless the function is another of the same name."""
    old, new = _file(function, report), _file(function, newest)
    if old is not None and new is not None and old != new:
        raise ComparisonError(f"{function} is in {old} there, and in {new} in later runs.")
    return compare_reports(report, newest, allow=allow)


def _file(function: str, report: Report) -> str | None:
    place = places_of(report).get(function)
    return None if place is None else place.file


def _is_in(file: str | None, wanted: str) -> bool:
    """Tell whether a path ends with another one; "" is the end of each."""
    if not wanted or file is None:
        return not wanted
    return PurePath(file).parts[-len(PurePath(wanted).parts) :] == PurePath(wanted).parts


def _json(found: RunTrend) -> dict[str, Any]:
    trend, row = found.trend, found.trend.row
    usual = trend.usual()
    assert usual is not None  # each point has a median
    return {
        "name": row.name,
        "file": found.file,
        "label": row.label,
        "arguments": row.shapes,
        "device": row.device,
        "flags": row.flags,
        "metric": row.metric,
        "exact": trend.is_exact,
        "runs": [
            {**_facts(run), "median": median}
            for run, median in zip(found.runs, trend.medians, strict=True)
        ],
        "usual": {"median": usual.middle, "spread": _rounded(usual.spread), "runs": usual.runs},
        "changes": [
            {
                **_facts(found.runs[each.at]),
                "previous": _facts(found.runs[each.at - 1]),
                "before": each.before,
                "after": each.after,
                "p": each.p,
            }
            for each in trend.changes
        ],
    }


def _rounded(value: float) -> int | float:
    """Return a number of twelve digits; an int if it is whole."""
    found = float(f"{value:.12g}")
    return int(found) if found.is_integer() else found


def _facts(run: Run) -> dict[str, Any]:
    git = run.git.json() if run.git else dict.fromkeys(("commit", "branch", "dirty"))
    return {"id": run.id, "time": run.time, **git}
