# SPDX-License-Identifier: Apache-2.0
"""References to runs, their lookup in an open history, and suggestions if nothing is found.

A reference is ``#42``, ``last``, ``last~1``, a name, a branch or a commit.
"""

from __future__ import annotations

import itertools
import re
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from boardprof.errors import UnknownNameError, UsageError
from boardprof.history.project import Project
from boardprof.history.run import KINDS, LAST, GitState, Run, RunId, kept_contents, storable
from boardprof.metrics import digits

_LARGEST = (1 << 63) - 1
"""Largest number in SQLite; no run has it."""

_FORMS = "#NUMBER, last, last~1, a name, a branch or a commit"
_BACK = r"(?s)(.*?)~(\d*)"
_COMMIT = r"(?i)[0-9a-f]{4,64}"

_COLUMNS = "id, time, name, command, git_commit, git_branch, git_dirty, version, rows, contents"
_COLUMNS += ", project, failed"
_NAMES_LISTED = 20
_NAMES_READ = 1000
_CLEAN = "NOT git_dirty AND NOT failed"
_UNCLEAN = "(git_dirty OR failed)"


@dataclass(frozen=True)
class Reference:
    """A parsed reference.

    Attributes:
        text: as it was written.
        word: without ``#``, ``KIND:`` and ``~N``, in the form that the file stores.
        back: number of runs to go back from the newest match, >= 0.
        number: of the run, if the word is a number; else None. Like ``back``, it is limited to the
            largest number that the file can store.
        must_be_number: it was written with ``#``.
        kind: required kind, ``name``, ``branch`` or ``commit``; "" if any.
    """

    text: str
    word: str
    back: int
    number: int | None
    must_be_number: bool
    kind: str = ""

    @property
    def commit(self) -> str | None:
        """The beginning of a commit's id, if the word may be one; else None."""
        return self.word.lower() if re.fullmatch(_COMMIT, self.word) else None


def parse_reference(ref: str | int) -> Reference:
    """Parse a reference.

    Raises:
        UsageError: it is empty, ``#`` has no number, or it is neither a string nor a number.
    """
    text = f"#{digits(ref)}" if type(ref) is int else ref
    if not isinstance(text, str):
        raise UsageError(f"{ref!r:.60} does not name a run.", hint=_FORMS)
    found = re.fullmatch(_BACK, text)
    word, back = (found[1], _bounded(found[2] or "1")) if found else (text, 0)
    has_sign = word.startswith("#")
    kind, colon, rest = word.partition(":")
    kind, word = (kind, rest) if colon and kind in KINDS else ("", word)
    word = storable(word.removeprefix("#").strip())
    is_number = not kind and word.isascii() and word.isdigit()
    if not word or (has_sign and not is_number):
        raise UsageError(f"{text!r} does not name a run.", hint=_FORMS)
    number = _bounded(word) if is_number and back == 0 else None
    return Reference(text, word, back, number, has_sign, kind)


def _bounded(text: str) -> int:
    """Return a number, limited to the largest that a file can store."""
    significant = text.lstrip("0") or "0"
    return int(significant) if len(significant) < len(str(_LARGEST)) else _LARGEST


def run_by_number(file: sqlite3.Connection, reference: Reference) -> Run | None:
    """Return the run of a reference's number; None if it has none, or no such run exists."""
    if reference.number is None:
        return None
    return next(all_runs(file, "id = ?", [reference.number]), None)


def run_by_word(
    file: sqlite3.Connection, reference: Reference, project: Project | None
) -> Run | None:
    """Return the run that a word means: ``last``, else a name or a branch, else a commit.

    Args:
        file: open for reading.
        reference: the word.
        project: whose runs are meant; None for all.

    Raises:
        UsageError: it is both a name and a branch, of different runs.
    """
    if reference.must_be_number:
        return None
    if reference.word == LAST and not reference.kind:
        return _newest(own_runs(file, project), reference.back)
    found: dict[str, Run | None] = {}
    for kind in ("name", "branch"):
        runs = _of_kind(file, reference, project, kind)
        newest = next(runs, None) if reference.kind in ("", kind) else None
        if newest is not None:
            found[kind] = _newest(runs, reference.back - 1) if reference.back else newest
    if len({run and run.id for run in found.values()}) > 1:
        raise _ambiguous(file, reference, project)
    if found:
        return next(iter(found.values()))
    is_commit = reference.kind in ("", "commit")
    runs = _of_kind(file, reference, project, "commit") if is_commit else iter(())
    return _newest(runs, reference.back)


def _of_kind(
    file: sqlite3.Connection,
    reference: Reference,
    project: Project | None,
    kind: str,
    condition: str = _CLEAN,
) -> Iterator[Run]:
    """Yield the runs of a name, or those of a branch or commit that meet a condition."""
    if kind == "name":
        return own_runs(file, project, "name = ?", [reference.word])
    if kind == "branch":
        return own_runs(file, project, f"git_branch = ? AND {condition}", [reference.word])
    if (commit := reference.commit) is None:
        return iter(())
    begins = f"substr(git_commit, 1, ?) = ? AND {condition}"
    return own_runs(file, project, begins, [len(commit), commit])


def _newest(runs: Iterator[Run], back: int) -> Run | None:
    """Return the run that is N before the newest; None if there is none."""
    return next(itertools.islice(runs, min(back, sys.maxsize), None), None)


def _ambiguous(
    file: sqlite3.Connection, reference: Reference, project: Project | None
) -> UsageError:
    named = _newest(_of_kind(file, reference, project, "name"), 0)
    on_branch = _newest(_of_kind(file, reference, project, "branch"), 0)
    assert named is not None
    assert on_branch is not None
    word = reference.word
    return UsageError(
        f"{word!r} is ambiguous: #{named.id} was saved as {word}, and #{on_branch.id} is the "
        f"newest clean run of the branch {word}.",
        hint=(
            f"name:{word} or branch:{word}; `boardprof history rename #{named.id} NAME` resolves it"
        ),
    )


def own_runs(
    file: sqlite3.Connection,
    project: Project | None,
    condition: str = "1",
    values: Sequence[object] = (),
) -> Iterator[Run]:
    """Yield the runs of a project that meet a condition, newest first; None means all projects."""
    runs = all_runs(file, condition, values)
    return runs if project is None else (run for run in runs if project.has(run.project))


def all_runs(
    file: sqlite3.Connection, condition: str = "1", values: Sequence[object] = ()
) -> Iterator[Run]:
    """Yield the runs that meet a condition, newest first.

    The order is by time: an imported run keeps the time of its measurement.
    """
    order = "time IS NULL DESC, time DESC, id DESC"  # damaged runs are shown
    statement = f"SELECT {_COLUMNS} FROM runs WHERE {condition} ORDER BY {order}"
    return map(_run, file.execute(statement, values))


def unknown_run(
    file: sqlite3.Connection, reference: Reference, project: Project | None
) -> UnknownNameError:
    """Return the error for a reference without a run; it suggests what exists instead."""
    kind, hint = "run", "boardprof history"
    if reference.must_be_number:
        return UnknownNameError(kind, reference.text, _names(file, project), hint=hint)
    if count := sum(1 for _ in _of_kind(file, reference, project, "name")):
        oldest = f"{reference.word}~{count - 1}" if count > 1 else reference.word
        runs = "runs were" if count > 1 else "run was"
        hint = f"{count} {runs} saved as {reference.word}: {oldest} is the oldest"
        return UnknownNameError(kind, reference.text, _names(file, project), hint=hint)
    unclean = _unclean(file, reference, project)
    elsewhere = _elsewhere(file, reference, project)
    if unclean is not None:
        kind, hint = _why_unclean(unclean, reference.word)
    elif elsewhere is not None:
        where = f"the project {elsewhere.place}"
        hint = f"there is a run called {reference.text!r} of {where}: #{elsewhere.id}"
    return UnknownNameError(kind, reference.text, _names(file, project), hint=hint)


def _unclean(file: sqlite3.Connection, reference: Reference, project: Project | None) -> Run | None:
    """Return the newest run of a branch, or else of a commit, that is not clean."""
    for kind in ("branch", "commit"):
        if reference.kind in ("", kind):
            found = next(_of_kind(file, reference, project, kind, _UNCLEAN), None)
            if found is not None:
                return found
    return None


def _elsewhere(
    file: sqlite3.Connection, reference: Reference, project: Project | None
) -> Run | None:
    """Return the run of another project that a reference would mean."""
    try:
        found = run_by_word(file, reference, None)
    except UsageError:
        return None
    return None if found is None or project is None or project.has(found.project) else found


def _why_unclean(run: Run, word: str) -> tuple[str, str]:
    """Return what is missing for a branch or commit that only has this run, and what to do."""
    if run.git is not None and run.git.is_dirty:
        return "run of an unchanged", (
            f"#{run.id} is of {word} with changes, or of a source that git does not track; "
            "commit and run again"
        )
    return "whole run of", (
        f"#{run.id} is of {word}, and failed or was interrupted; see why, and run again"
    )


def _names(file: sqlite3.Connection, project: Project | None) -> list[str]:
    """Return names and branches by which runs can be found, newest first."""
    runs = [*itertools.islice(own_runs(file, project), _NAMES_READ)]
    names = dict.fromkeys([LAST] if runs else [])
    for run in runs:
        git = None if run.has_failed else run.git
        branch = git.branch if git and not git.is_dirty else None
        names |= dict.fromkeys(filter(None, [run.name, branch]))
    return [*names][:_NAMES_LISTED]


def _run(row: tuple[Any, ...]) -> Run:
    number, time, name, command, *git_columns, version, rows, contents, project, failed = row
    commit, branch, is_dirty = git_columns
    kept = kept_contents(contents)
    return Run(
        id=RunId(number),
        time=_text(time),
        name=name if isinstance(name, str) else None,
        boards=kept["boards"],
        functions=kept["functions"],
        build_ids=kept["build_ids"],
        flags=kept["flags"],
        command=_text(command),
        git=GitState(commit, _text(branch), bool(is_dirty)) if isinstance(commit, str) else None,
        version=_text(version),
        rows=rows if isinstance(rows, int) else 0,
        project=_text(project),
        has_failed=bool(failed),
    )


def _text(value: object) -> str:
    """Return a column's text; empty if it is absent or damaged."""
    return value if isinstance(value, str) else ""
