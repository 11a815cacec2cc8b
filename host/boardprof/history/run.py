# SPDX-License-Identifier: Apache-2.0
"""What the history stores about a run besides its Report."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NewType

from boardprof.errors import UsageError
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
