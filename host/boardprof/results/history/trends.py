# SPDX-License-Identifier: Apache-2.0
"""The trends of a function over the runs of the history."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePath
from typing import Any

from boardprof.base.errors import UnknownNameError, UsageError
from boardprof.results.comparison.compare import compare
from boardprof.results.comparison.comparison import Comparison, ComparisonError
from boardprof.results.comparison.trend import Trend, trends_of
from boardprof.results.history.project import git_output
from boardprof.results.history.report_lookup import user_history
from boardprof.results.history.run import NothingKeptError, Run
from boardprof.results.history.run_table import Choice
from boardprof.results.report.report import Report
from boardprof.results.row_origins import places_of
from boardprof.results.stats.summary import Number, plain

_READ_FOR_NAMES = 1000


@dataclass(frozen=True)
class RunTrend:
    """One metric of a function over several runs."""

    trend: Trend
    runs: tuple[Run, ...]
    file: str | None = None  # where the function is, as its repository calls it; None if not known

    def named_with_file(self) -> RunTrend:
        """Return it with the file before the function's name, as ``src/fir.c:fir``."""
        row = self.trend.row
        named = replace(row, name=f"{self.file or '(unknown file)'}:{row.name}")
        return replace(self, trend=replace(self.trend, row=named))


@dataclass(frozen=True)
class FunctionTrends:
    """All trends of a function."""

    function: str
    branch: str | None  # whose clean runs were read; None for all runs that did not fail
    trends: tuple[RunTrend, ...]
    # reason -> runs that cannot be compared with the newest one, the oldest first
    left_out: Mapping[str, tuple[Run, ...]]

    def for_people(self) -> list[RunTrend]:
        """Return the trends, named with their files if the function is in several."""
        several = len({each.file for each in self.trends}) > 1
        return [each.named_with_file() if several else each for each in self.trends]

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
        boards=None if board is None else frozenset([board]),
        functions=frozenset([function]),
    )
    runs = history.own_runs(choice, limit=limit)[::-1]
    if not runs:
        known = history.own_runs(limit=_READ_FOR_NAMES)
        if not known:
            raise NothingKeptError(
                f"There is no run of {function}: nothing was kept in {history.name} yet.",
                hint="measure first: `boardprof run` keeps each run",
            )
        names = dict.fromkeys(name for run in known for name in run.functions)
        where = " ".join(
            [
                "in the runs of this project",
                *([] if branch is None else [f"on the branch {branch} without changes"]),
                *([] if board is None else [f"measured on {board}"]),
            ]
        )
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
    boards = None if board is None else frozenset([board])
    choice = Choice(branch=branch, is_clean=True, boards=boards, functions=frozenset([function]))
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
        one = trends_of(
            reports[: newest + 1], partial(_compared, function, reports[newest], tuple(allow))
        )
        for place, trend in one.by_place.items():
            is_other = trend.row.name != function or board not in (None, trend.row.device)
            if is_other:
                continue
            file = next((files[p.run] for p in trend.points[::-1] if files[p.run]), None)
            alike = found.setdefault(place, [])
            if any(file is None or each.file in (None, file) for each in alike):
                continue
            used.update(point.run for point in trend.points)
            own = tuple(runs[point.run] for point in trend.points)
            alike.append(RunTrend(trend, own, file))
        refused = {**one.left_out, **refused}
    left_out: dict[str, list[Run]] = {}
    for number in sorted(refused.keys() - used):
        left_out.setdefault(refused[number], []).append(runs[number])
    every = (*itertools.chain.from_iterable(found.values()),)
    return every, {why: (*each,) for why, each in left_out.items()}


def _compared(function: str, newest: Report, allow: Sequence[str], report: Report) -> Comparison:
    """Compare a Report with the newest one, unless the function is another of the same name."""
    old, new = _file(function, report), _file(function, newest)
    if old is not None and new is not None and old != new:
        raise ComparisonError(f"{function} is in {old} there, and in {new} in later runs.")
    return compare(report, newest, allow=allow)


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
    medians = [plain(each) for each in trend.medians]
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
            for run, median in zip(found.runs, medians, strict=True)
        ],
        "usual": {
            "median": plain(usual.middle),
            "spread": _rounded(usual.spread),
            "runs": usual.runs,
        },
        "changes": [
            {
                **_facts(found.runs[each.at]),
                "previous": _facts(found.runs[each.at - 1]),
                "before": plain(each.before),
                "after": plain(each.after),
                "p": each.p,
            }
            for each in trend.changes
        ],
    }


def _rounded(value: Number) -> int | float:
    """Return an integer as it is, and the nearest float of twelve digits for others."""
    found = plain(value)
    return float(f"{found:.12g}") if isinstance(found, float) else found


def _facts(run: Run) -> dict[str, Any]:
    git = run.git
    return {
        "id": run.id,
        "time": run.time,
        "commit": git.commit if git else None,
        "branch": git.branch if git else None,
        "dirty": git.is_dirty if git else None,
    }
