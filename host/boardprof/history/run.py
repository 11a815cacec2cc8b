# SPDX-License-Identifier: Apache-2.0
"""A run: what the history stores besides its Report, and references to it.

A reference is ``#42``, ``last``, ``last~1``, a name, a branch or a commit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NewType

from boardprof.errors import UsageError
from boardprof.metrics import digits
from boardprof.report.report import Report

RunId = NewType("RunId", int)


class HistoryError(UsageError):
    """The history cannot be read or written."""


@dataclass(frozen=True)
class GitState:
    """The state of a run's sources in git.

    Attributes:
        commit: 40 hexadecimal digits, or 64; "" before the first commit.
        branch: "" if HEAD is detached, or the sources are from another repository than the run.
        is_dirty: a tracked file was changed, or a measured source is not tracked.
    """

    commit: str
    branch: str
    is_dirty: bool

    @property
    def text(self) -> str:
        """Branch and short commit; a ``+`` after them stands for ``is_dirty``."""
        where = f"branch {self.branch}" if self.branch else "commit" if self.commit else ""
        parts = (", " if self.branch else " ").join(filter(None, [where, self.commit[:8]]))
        return parts + ("+" if self.is_dirty else "")


@dataclass(frozen=True)
class Run:
    """One run, without its Report.

    Attributes:
        id: increasing, never used twice.
        time: when it was saved, ISO 8601 in UTC, e.g. ``2026-11-21T09:14:00Z``.
        name: given by ``--save``, or None.
        boards: that were measured.
        functions: likewise.
        build_ids: of their firmware.
        flags: of the compiler.
        command: the command line; "" if not known.
        git: the state of the work tree that the measured sources are in; None outside of one.
        version: of boardprof.
        rows: in the Report.
        project: of the run, see `boardprof.history.project`; "" if it has none.
        has_failed: it failed or was interrupted, and so is not found by its branch or commit. False
            for runs of older versions, which did not record this.
    """

    id: RunId
    time: str
    name: str | None
    boards: tuple[str, ...]
    functions: tuple[str, ...]
    build_ids: tuple[str, ...]
    flags: tuple[str, ...]
    command: str
    git: GitState | None
    version: str
    rows: int
    project: str = ""
    has_failed: bool = False

    @property
    def place(self) -> str:
        """Its project for people: a repository's folder without ``/.git``."""
        return self.project.removesuffix("/.git")

    @property
    def label(self) -> str:
        """Its name in output: ``#42 (saved as before)``, ``#43 (failed; branch main, 3f2a91c0)``.

        It tells that a run failed, since a comparison with it may mislead.
        """
        other = f"saved as {self.name}" if self.name else self.git.text if self.git else ""
        facts = "; ".join(filter(None, ["failed" if self.has_failed else "", other]))
        return f"#{self.id} ({facts})" if facts else f"#{self.id}"

    def json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        git = self.git
        return {
            "id": self.id,
            "time": self.time,
            "name": self.name,
            "boards": [*self.boards],
            "functions": [*self.functions],
            "build_ids": [*self.build_ids],
            "flags": [*self.flags],
            "command": self.command,
            "git": git
            and {
                "commit": git.commit,
                "branch": git.branch,
                "dirty": git.is_dirty,
            },
            "project": self.project,
            "version": self.version,
            "rows": self.rows,
            "failed": self.has_failed,
        }


def contents_of(report: Report) -> dict[str, tuple[str, ...]]:
    """Return the contents of a Report: its boards, functions, build ids and flags."""
    extra = report.extra or {}
    devices = extra.get("devices")
    boards = [str(name) for name in devices] if isinstance(devices, Mapping) else []
    measurements = [m for m in extra.get("measurements") or () if isinstance(m, Mapping)]
    return {
        "boards": _texts(boards or report.calls.column("Device").filled("")),
        "functions": _texts(report.calls.column("Name").filled("")),
        "build_ids": _texts(m.get("build_id") for m in measurements),
        "flags": _texts(m.get("flags") for m in measurements),
    }


def kept_contents(text: object) -> dict[str, tuple[str, ...]]:
    """Read the contents from stored JSON, see `contents_of`; empty if the run is damaged.

    So other runs can still be listed, and this one can be removed.
    """
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        found = None
    kept = found if isinstance(found, dict) else {}
    return {
        kind: _texts(names if isinstance(names := kept.get(kind), list) else ())
        for kind in ("boards", "functions", "build_ids", "flags")
    }


def _texts(values: Iterable[object]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for value in values if isinstance(value, str) and value))


LAST = "last"

_LONGEST_NAME = 200
_LARGEST = (1 << 63) - 1
"""Largest number in SQLite; no run has it."""

_FORMS = "#NUMBER, last, last~1, a name, a branch or a commit"
_KINDS = ("name", "branch", "commit")
_BACK = r"(?s)(.*?)~(\d*)"
_COMMIT = r"(?i)[0-9a-f]{4,64}"


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
    kind, word = (kind, rest) if colon and kind in _KINDS else ("", word)
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


def storable(text: str) -> str:
    """Return text that SQLite can store: file names that are not UTF-8 have lone surrogates."""
    return text.encode("utf-8", "replace").decode("utf-8")


def check_name(name: str) -> None:
    """Check that a run can be found again by its name.

    Raises:
        UsageError: the name is empty, too long, or means something else.
    """
    why = ""
    if not isinstance(name, str):
        why = "it is not a string"
    elif not name or name != name.strip():
        why = "it is empty" if not name.strip() else "it begins or ends with a blank"
    elif len(name) > _LONGEST_NAME:
        why = f"it is longer than {_LONGEST_NAME} characters"
    elif not name.isprintable():
        why = "it has characters that cannot be shown"
    elif name == LAST or name.isdigit() or name.startswith(("#", "-")) or "~" in name:
        why = "it means something else: last, -OPTION, #NUMBER and NAME~1 do"
    elif name.partition(":")[0] in _KINDS and ":" in name:
        why = "it means something else: name:NAME, branch:BRANCH and commit:COMMIT do"
    elif name.endswith(".json"):
        why = "it looks like a file name"
    if why:
        raise UsageError(f"{name!r} cannot be the name of a run: {why}.", hint="e.g. --save pr-118")
