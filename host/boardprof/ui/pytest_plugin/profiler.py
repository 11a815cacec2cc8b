# SPDX-License-Identifier: Apache-2.0
"""The fixture ``boardprof``: measures functions for one test and checks them against its gate.

With ``--bp-ab`` and ``--bp-ab-rev`` it measures two versions of the code in turns.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from boardprof.base.errors import BoardTimeoutError, DeviceError
from boardprof.jobs.run.alternating import Worktree, sessions_on, turns, two_settings, worktree_of
from boardprof.jobs.run.plan import split_target
from boardprof.results.report.assemble import assemble
from boardprof.results.report.measurement import Measurement
from boardprof.results.report.report import Report
from boardprof.target.arguments.copies import copied_arguments
from boardprof.target.descriptions.board_lookup import board_spec, default_board
from boardprof.ui.pytest_plugin.gate import Gate, Verdict
from boardprof.ui.pytest_plugin.item import numbered
from boardprof.ui.pytest_plugin.measured import Measured
from boardprof.ui.pytest_plugin.worker_boards import Boards, Wanted

__all__ = ["Profiler"]


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
            wanted: the test's board and sources.
            folder: of the test's file.
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


class Profiler:
    """Measures the functions of one test. Call it; see `__call__`.

    Attributes:
        measurements: all that the test has measured.
        sources: the measured files and folders, each once.
        compiled: the files that they were compiled from, including headers, each once.
        verdicts: the result of checking each against the gate.
    """

    def __init__(
        self,
        boards: Boards,
        wanted: Wanted,
        folder: Path,
        label: str,
        gate: Gate,
        defaults: Mapping[str, Any],
        turns: Turns | None = None,
        *,
        hotspots: bool = False,
    ) -> None:
        """Measure nothing yet.

        Args:
            boards: of this worker.
            wanted: the board of this test.
            folder: of the test's file, where relative paths start.
            label: of the test, for its rows.
            gate: limits and rules.
            defaults: of ``warmup``, ``repeat``, ``number`` and ``metrics``, from the marker.
            turns: measures in turns with other code. None if absent.
            hotspots: also record where each call spends its cost.
        """
        self._boards = boards
        self._wanted = wanted
        self._folder = folder
        self._label = label
        self._gate = gate
        self._defaults = defaults
        self._turns = turns
        self._hotspots = hotspots
        self.measurements: list[Measurement] = []
        self.sources: dict[Path, None] = {}
        self.compiled: dict[Path, None] = {}
        self.verdicts: list[Verdict] = []

    def __call__(
        self,
        target: str,
        *args: object,
        optimize: str | None = None,
        define: Sequence[str] = (),
        cflags: str = "",
        **options: Any,
    ) -> Measured:
        """Measure a function on the test's board.

        Args:
            target: ``PATH:FUNCTION``, the path relative to the test's file; or a function that the
                board's firmware has.
            args: the function's arguments, as for `boardprof.Board.profile`.
            optimize: level for the sources, as ``-O3``; None takes the marker's or ``-O2``.
            define: macros for the sources.
            cflags: more flags for the sources.
            options: ``metrics``, ``warmup``, ``repeat``, ``number``, ``named`` and
                ``mask_interrupts`` of `boardprof.Board.profile`.

        Raises:
            BoardprofError: as `boardprof.Board.profile` and `boardprof.build`.
        """
        path, function = split_target(target)
        build = self._wanted.options
        build = replace(
            build,
            optimize=optimize or build.optimize,
            defines=(*build.defines, *define),
            cflags=f"{build.cflags} {cflags}".strip(),
        )
        sources = (self._folder / path,) if path else self._wanted.sources
        wanted = replace(self._wanted, sources=tuple(sources), options=build)

        def measure(wanted: Wanted) -> Measurement:
            with self._boards.board(wanted) as board:
                try:
                    again, named = copied_arguments(args, options.get("named"))
                    found = board.measure(function, *args, **{**self._defaults, **options})
                    if not self._hotspots:
                        return found
                    profile = board.hotspots(function, *again, named=named, warmup=found.warmup)
                    return replace(found, profile=profile)
                except (BoardTimeoutError, DeviceError):
                    self._boards.forget(wanted)
                    raise

        other = None
        if self._turns is None:
            sessions = [measure(wanted)]
        else:
            other, sessions = self._turns.measured(wanted, self._folder, measure)
        label = self._label_for(sessions[0])
        sessions = [replace(each, label=label) for each in sessions]
        self.measurements += sessions
        self.sources |= dict.fromkeys(wanted.sources)
        self.compiled |= dict.fromkeys(self._boards.compiled.get(wanted, ()))
        found = Measured(*sessions)
        self.verdicts.append(self._gate.judge(found.report, other))
        return found

    def _label_for(self, measured: Measurement) -> str:
        """Return the test's label; with a number, if it has measured the same before."""
        such = (measured.function, measured.arguments)
        before = {m.label for m in self.measurements if (m.function, m.arguments) == such}
        return numbered(self._label, len(before) + 1)
