# SPDX-License-Identifier: Apache-2.0
"""Runs looked up in an open history: by number, name, branch, commit; and what is there instead."""

from __future__ import annotations

import itertools
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from boardprof.errors import UnknownNameError
from boardprof.history.reference import LAST, Reference
from boardprof.history.run import GitState, Run, RunId, kept_contents
from boardprof.history.scope import Scope

__all__ = ["all_runs", "run_by_number", "run_by_word", "unknown_run"]

_COLUMNS = "id, time, name, command, git_commit, git_branch, git_dirty, version, rows, contents"
_COLUMNS += ", git_repository, started_in, failed"
_NAMES_LISTED = 20
_NAMES_READ = 1000
_CLEAN = "NOT git_dirty AND NOT failed"
_UNCLEAN = "(git_dirty OR failed)"


def run_by_number(file: sqlite3.Connection, reference: Reference) -> Run | None:
    """Return the run of a reference's number; None where it has none, or there is no such run."""
    if reference.number is None:
        return None
    return next(all_runs(file, "id = ?", [reference.number]), None)


def run_by_word(file: sqlite3.Connection, reference: Reference, scope: Scope) -> Run | None:
    """Return the run that a word means: ``last``, else a name, else a branch, else a commit.

    What it is first, it is: beyond the oldest run of a name there is none.
    """
    word, back = reference.word, reference.back
    if reference.must_be_number:
        return None
    if word == LAST:
        return _newest(all_runs(file), scope.is_seen, back)
    named = _newest(_named(file, reference), scope.is_seen, back)
    if named is not None or _newest(_named(file, reference), scope.is_seen, 0) is not None:
        return named
    return _of_git(file, reference, scope, _CLEAN, back)


def _named(file: sqlite3.Connection, reference: Reference) -> Iterator[Run]:
    """Yield the runs of any repository that were saved as a word, the newest first."""
    return all_runs(file, "name = ?", [reference.word])


def _of_git(
    file: sqlite3.Connection, reference: Reference, scope: Scope, condition: str, back: int
) -> Run | None:
    """Return the run of a branch, or else of a commit, of which a condition holds."""
    on_branch = all_runs(file, f"git_branch = ? AND {condition}", [reference.word])
    found = _newest(on_branch, scope.is_of_it, back)
    if found is None and (commit := reference.commit) is not None:
        begins = f"substr(git_commit, 1, ?) = ? AND {condition}"
        found = _newest(all_runs(file, begins, [len(commit), commit]), scope.is_of_it, back)
    return found


def _newest(runs: Iterator[Run], is_meant: Callable[[Run], bool], back: int) -> Run | None:
    return next(itertools.islice(filter(is_meant, runs), min(back, sys.maxsize), None), None)


def all_runs(
    file: sqlite3.Connection, condition: str = "1", values: Sequence[object] = ()
) -> Iterator[Run]:
    """Yield the runs of which a condition holds, the newest first."""
    statement = f"SELECT {_COLUMNS} FROM runs WHERE {condition} ORDER BY id DESC"
    return map(_run, file.execute(statement, values))


def unknown_run(file: sqlite3.Connection, reference: Reference, scope: Scope) -> UnknownNameError:
    """Return the error for a reference to no run, which says what there is instead."""
    kind, hint = "run", "boardprof history"
    if reference.must_be_number:
        return UnknownNameError(kind, reference.text, _names(file, scope), hint=hint)
    if count := sum(map(scope.is_seen, _named(file, reference))):
        oldest = f"{reference.word}~{count - 1}" if count > 1 else reference.word
        runs = "runs were" if count > 1 else "run was"
        hint = f"{count} {runs} saved as {reference.word}: {oldest} is the oldest"
        return UnknownNameError(kind, reference.text, _names(file, scope), hint=hint)
    unclean = _of_git(file, reference, scope, _UNCLEAN, 0)
    elsewhere = run_by_word(file, reference, Scope(file, None))
    if unclean is not None:
        kind, hint = _why_unclean(unclean, reference.word)
    elif elsewhere is not None and not scope.is_seen(elsewhere):
        place = elsewhere.git.place if elsewhere.git else ""
        whose = f"the repository {place}" if place else "another repository"
        hint = f"there is a run called {reference.text!r} of {whose}: #{elsewhere.id}"
    return UnknownNameError(kind, reference.text, _names(file, scope), hint=hint)


def _why_unclean(run: Run, word: str) -> tuple[str, str]:
    """Return what there is not of a branch or commit that has this run, and what to do."""
    if run.git is not None and run.git.is_dirty:
        return "run of an unchanged", (
            f"#{run.id} is of {word} with changes, or of a source that git does not track; "
            "commit and run again"
        )
    return "whole run of", (
        f"#{run.id} is of {word}, and failed or was interrupted; see why, and run again"
    )


def _names(file: sqlite3.Connection, scope: Scope) -> list[str]:
    """Return names and branches that runs can be found by, the newest first."""
    runs = [run for run in itertools.islice(all_runs(file), _NAMES_READ) if scope.is_seen(run)]
    names = dict.fromkeys([LAST] if runs else [])
    for run in runs:
        git = None if run.has_failed else run.git
        branch = git.branch if git and not git.is_dirty and scope.is_of_it(run) else None
        names |= dict.fromkeys(filter(None, [run.name, branch]))
    return [*names][:_NAMES_LISTED]


def _run(row: tuple[Any, ...]) -> Run:
    number, time, name, command, *git_columns, version, rows, contents, where, begun, failed = row
    commit, branch, is_dirty = git_columns
    kept = kept_contents(contents)
    git = None
    if isinstance(commit, str):
        git = GitState(commit, _text(branch), bool(is_dirty), _text(where))
    return Run(
        id=RunId(number),
        time=_text(time),
        name=name if isinstance(name, str) else None,
        boards=kept["boards"],
        functions=kept["functions"],
        build_ids=kept["build_ids"],
        flags=kept["flags"],
        command=_text(command),
        git=git,
        version=_text(version),
        rows=rows if isinstance(rows, int) else 0,
        started_in=_text(begun),
        has_failed=bool(failed),
    )


def _text(value: object) -> str:
    """Return a column's text; of a damaged run, as of one without, nothing."""
    return value if isinstance(value, str) else ""
