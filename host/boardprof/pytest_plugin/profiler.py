# SPDX-License-Identifier: Apache-2.0
"""The fixture ``boardprof``: measures functions for one test and checks them against its gate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from boardprof.errors import BoardTimeoutError, DeviceError
from boardprof.pytest_plugin.boards import Boards, Wanted
from boardprof.pytest_plugin.gate import Gate, Verdict
from boardprof.pytest_plugin.item import numbered
from boardprof.pytest_plugin.measured import Measured
from boardprof.pytest_plugin.turns import Turns
from boardprof.report.measurement import Measurement

__all__ = ["Profiler"]


class Profiler:
    """Measures the functions of one test. Call it; see `__call__`.

    Attributes:
        measurements: all that the test has measured.
        sources: files and folders that they are of, each once.
        compiled: the files that these were compiled of, headers among them, each once.
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
    ) -> None:
        """Measure nothing yet.

        Args:
            boards: the worker's.
            wanted: the board of this test.
            folder: what relative paths begin at: the test file's.
            label: of the rows: the test's.
            gate: limits and rules.
            defaults: of ``warmup``, ``repeat``, ``number`` and ``metrics``, from the marker.
            turns: measures in turns with other code. None if absent.
        """
        self._boards = boards
        self._wanted = wanted
        self._folder = folder
        self._label = label
        self._gate = gate
        self._defaults = defaults
        self._turns = turns
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
        path, colon, function = target.rpartition(":")
        build = self._wanted.options
        build = replace(
            build,
            optimize=optimize or build.optimize,
            defines=(*build.defines, *define),
            cflags=f"{build.cflags} {cflags}".strip(),
        )
        sources = (self._folder / path,) if colon else self._wanted.sources
        wanted = replace(self._wanted, sources=tuple(sources), options=build)

        def measure(wanted: Wanted) -> Measurement:
            with self._boards.board(wanted) as board:
                try:
                    return board.measure(function, *args, **{**self._defaults, **options})
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
