# SPDX-License-Identifier: Apache-2.0
"""References to runs, their lookup in an open history, and suggestions if nothing is found.

A reference is ``#42``, ``last``, ``last~1``, a name, a branch or a commit.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace

from boardprof.base.errors import UnknownNameError, UsageError
from boardprof.base.metrics import digits
from boardprof.results.history.databases import Choice, SqlRuns
from boardprof.results.history.project import Project, git_refusal
from boardprof.results.history.run import KINDS, LAST, Run, storable

_LARGEST = (1 << 63) - 1
"""Largest number in SQLite; no run has it."""

_FORMS = "#NUMBER, last, last~1, a name, a branch or a commit"
_BACK = r"(?s)(.*?)~(\d*)"
_COMMIT = r"(?i)[0-9a-f]{4,64}"

_NAMES_LISTED = 20
_NAMES_READ = 1000


@dataclass(frozen=True)
class Reference:
    """A parsed reference."""

    text: str
    word: str  # without ``#``, ``KIND:`` and ``~N``, in the form that the file stores
    back: int  # number of runs to go back from the newest match, >= 0
    number: int | None  # if the word is a number; limited like ``back`` to what the file can store
    must_be_number: bool
    kind: str = ""  # required kind, ``name``, ``branch`` or ``commit``; "" if any

    @property
    def commit(self) -> str | None:
        """The beginning of a commit's id, if the word may be one; else None."""
        return self.word.lower() if re.fullmatch(_COMMIT, self.word) else None


def parse_reference(ref: str | int) -> Reference:
    """Parse a reference."""
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


def run_by_number(table: SqlRuns, reference: Reference) -> Run | None:
    """Return the run of a reference's number; None if it has none, or no such run exists."""
    if reference.number is None:
        return None
    return next(table.runs(Choice(id=reference.number)), None)


def own_runs(
    table: SqlRuns, project: Project | None, choice: Choice | None = None
) -> Iterator[Run]:
    """Yield the runs of a project, newest first; of all projects if it is None."""
    own = replace(choice or Choice(), project=project)
    return filter(own.has, table.runs(own))


@dataclass(frozen=True)
class WordLookup:
    """A reference's word looked up among the runs of a project; None for all projects."""

    table: SqlRuns
    reference: Reference
    project: Project | None

    def run(self) -> Run | None:
        """Return the run that the word means: ``last``, else a name or a branch, else a commit."""
        reference = self.reference
        if reference.must_be_number:
            return None
        if reference.word == LAST and not reference.kind:
            return _newest(own_runs(self.table, self.project), reference.back)
        found: dict[str, Run | None] = {}
        for kind in ("name", "branch"):
            runs = self._of_kind(kind)
            newest = next(runs, None)
            if newest is not None:
                found[kind] = _newest(runs, reference.back - 1) if reference.back else newest
        if len({run and run.id for run in found.values()}) > 1:
            raise self._ambiguous()
        return (
            next(iter(found.values()))
            if found
            else _newest(self._of_kind("commit"), reference.back)
        )

    def error(self) -> UnknownNameError:
        """Return the error for a reference without a run; it suggests what exists instead."""
        kind, hint, reference = "run", "boardprof history", self.reference
        word = reference.word
        if not reference.must_be_number:
            if count := sum(1 for _ in own_runs(self.table, self.project, Choice(name=word))):
                oldest = f"{word}~{count - 1}" if count > 1 else word
                runs = "runs were" if count > 1 else "run was"
                hint = f"{count} {runs} saved as {word}: {oldest} is the oldest"
            elif (unclean := self._unclean()) is not None:
                kind, hint = _why_unclean(unclean, word)
            elif (elsewhere := self._elsewhere()) is not None:
                hint = (
                    f"there is a run called {reference.text!r} of the project {elsewhere.place}: "
                    f"#{elsewhere.id}"
                )
            elif self.project is not None and (refused := git_refusal(self.project.folder or ".")):
                hint = f"{refused[1]} ({refused[0]})"
        return UnknownNameError(kind, reference.text, self._names(), hint=hint)

    def _of_kind(self, kind: str, *, is_clean: bool = True) -> Iterator[Run]:
        """Yield the runs of a name, or those of a branch or commit that are clean, or are not."""
        word, commit = self.reference.word, self.reference.commit
        if self.reference.kind not in ("", kind) or (kind == "commit" and commit is None):
            return iter(())
        choice = {
            "name": Choice(name=word),
            "branch": Choice(branch=word, is_clean=is_clean),
            "commit": Choice(commit=commit, is_clean=is_clean),
        }[kind]
        return own_runs(self.table, self.project, choice)

    def _ambiguous(self) -> UsageError:
        named, on_branch = (next(self._of_kind(kind)) for kind in ("name", "branch"))
        word = self.reference.word
        return UsageError(
            f"{word!r} is ambiguous: #{named.id} was saved as {word}, and #{on_branch.id} is the "
            f"newest clean run of the branch {word}.",
            hint=f"name:{word} or branch:{word}; `boardprof history rename #{named.id} NAME` "
            "resolves it",
        )

    def _unclean(self) -> Run | None:
        """Return the newest run of a branch, or else of a commit, that is not clean."""
        kinds = (self._of_kind(kind, is_clean=False) for kind in ("branch", "commit"))
        return next(itertools.chain.from_iterable(kinds), None)

    def _elsewhere(self) -> Run | None:
        """Return the run of another project that a reference would mean."""
        try:
            found = replace(self, project=None).run()
        except UsageError:
            return None
        is_own = self.project is None or found is None or self.project.has(found.project)
        return None if is_own else found

    def _names(self) -> list[str]:
        """Return names and branches by which runs can be found, newest first."""
        runs = [*itertools.islice(own_runs(self.table, self.project), _NAMES_READ)]
        names = dict.fromkeys([LAST] if runs else [])
        for run in runs:
            git = None if run.has_failed else run.git
            branch = git.branch if git and not git.is_dirty else None
            names |= dict.fromkeys(filter(None, [run.name, branch]))
        return [*names][:_NAMES_LISTED]


def _newest(runs: Iterator[Run], back: int) -> Run | None:
    """Return the run that is N before the newest; None if there is none."""
    return next(itertools.islice(runs, min(back, sys.maxsize), None), None)


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
