# SPDX-License-Identifier: Apache-2.0
"""``--bp-ab`` and ``--bp-ab-rev``: what a test measures, in turns with the same of other code."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from boardprof.boards.board_lookup import board_spec, default_board
from boardprof.pytest_plugin.boards import Boards, Wanted
from boardprof.report.assemble import assemble
from boardprof.report.measurement import Measurement
from boardprof.report.report import Report
from boardprof.run.alternating import sessions_on, turns, two_settings
from boardprof.run.worktree import Worktree, worktree_of


@dataclass(frozen=True)
class Other:
    """The other side of a test's measurements.

    Attributes:
        name: as shown in output.
        report: of it.
        sessions: that each side was measured in.
        allow: mismatches that are intended.
    """

    name: str
    report: Report
    sessions: int
    allow: tuple[str, ...]


class Turns:
    """Measures each call of a test twice, in sessions that alternate."""

    def __init__(
        self, boards: Boards, port: str | None, *, flags: str | None, revision: str | None
    ) -> None:
        """Start nothing yet.

        Args:
            boards: of this worker.
            port: where the board is. None to start it.
            flags: two settings of compiler flags. None if a commit is the other side.
            revision: the commit.
        """
        self._boards = boards
        self._port = port
        self._flags = flags
        self._revision = revision
        self._open = contextlib.ExitStack()
        self._trees: dict[Path, Worktree] = {}

    def measured(
        self, wanted: Wanted, folder: Path, measure: Callable[[Wanted], Measurement]
    ) -> tuple[Other, list[Measurement]]:
        """Measure both sides; return the other one, and the test's own sessions.

        Args:
            wanted: what the test asks for.
            folder: that the test is in.
            measure: measures on a board.
        """
        name, *sides = self._sides(wanted, folder)
        spec = default_board() if wanted.name is None else board_spec(wanted.name)
        sessions = sessions_on([spec], self._port)
        found: tuple[list[Measurement], list[Measurement]] = ([], [])
        for turn in turns(sessions):
            self._boards.forget(sides[turn])
            found[turn].append(measure(sides[turn]))
            self._boards.forget(sides[turn])
        allow = () if self._flags is None else ("compiler",)
        return Other(name, assemble(found[0]), sessions, allow), found[1]

    def _sides(self, wanted: Wanted, folder: Path) -> tuple[str, Wanted, Wanted]:
        if self._flags is not None:
            (name, one), (_, two) = two_settings(wanted.options, self._flags)
            return name, replace(wanted, options=one), replace(wanted, options=two)
        assert self._revision is not None
        if folder not in self._trees:
            lending = worktree_of(folder, self._revision)
            self._trees[folder] = self._open.enter_context(lending)
        tree = self._trees[folder]
        sources = tuple(tree.inside(path) for path in wanted.sources)
        first = replace(wanted, sources=sources, options=tree.code(wanted.options))
        return f"{self._revision} ({tree.commit[:8]})", first, wanted

    def close(self) -> None:
        """Remove the worktrees."""
        self._open.close()
