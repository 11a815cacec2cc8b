# SPDX-License-Identifier: Apache-2.0
"""Runs of the history as text: one line each, or all facts about one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from boardprof.history.run import Run
from boardprof.render.layout import Page, text_table

_HEADERS = (
    *("Run", "Time (UTC)", "Name", "Result", "Project"),
    *("Git", "Boards", "Functions", "Flags"),
)
_LONGEST = 40


def run_page(runs: Sequence[Run]) -> Page:
    """Return a table, a line a run, in the order given.

    Where they are of several projects, it names each.
    """
    projects = {run.project for run in runs if run.project}
    rows = [
        (
            f"#{run.id}",
            run.time.removesuffix("Z").replace("T", " "),
            _cut(run.name or ""),
            _result(run),
            _cut(Path(run.place).name) if len(projects) > 1 else "",
            _cut(git_text(run)),
            _some_of(run.boards),
            _some_of(run.functions),
            _cut(" | ".join(run.flags)),
        )
        for run in runs
    ]
    return [text_table(_HEADERS, rows)]


def run_facts(run: Run) -> Page:
    """Return what is known of a run, a fact a line."""
    facts = {
        "Run": run.label,
        "Time (UTC)": run.time.removesuffix("Z").replace("T", " "),
        "Result": _result(run),
        "Git": git_text(run, whole=True),
        "Project": run.place,
        "Builds": ", ".join(run.build_ids),
        "Command": run.command,
    }
    return [f"{name}: {value}" for name, value in facts.items() if value]


def git_text(run: Run, *, whole: bool = False) -> str:
    """Return branch and commit; a ``+`` after it means changes, see `GitState`."""
    if run.git is None:
        return ""
    commit = run.git.commit if whole else run.git.commit[:8]
    return " ".join(filter(None, [run.git.branch, commit])) + ("+" if run.git.is_dirty else "")


def _result(run: Run) -> str:
    return "failed" if run.has_failed else ""


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _some_of(names: Sequence[str]) -> str:
    """Return names with commas; of many, the first and how many more there are."""
    text = ", ".join(names)
    shown = len(names)
    while len(text) > _LONGEST and shown > 1:
        shown -= 1
        text = f"{', '.join(names[:shown])} and {len(names) - shown} more"
    return _cut(text)
