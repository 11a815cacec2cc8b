# SPDX-License-Identifier: Apache-2.0
"""The fixture ``boardprof``: measures functions for one test and checks them against its gate."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from boardprof.base.errors import BoardTimeoutError, BuildError, DeviceError, UnknownNameError
from boardprof.base.metrics import metric_called
from boardprof.base.processes import leased
from boardprof.jobs.run.alternating import Worktree, sessions_on, turns, two_settings, worktree_of
from boardprof.jobs.run.plan import split_target
from boardprof.measure.board.board import Board
from boardprof.measure.connect import connect_by, open_firmware
from boardprof.results.report.assemble import assemble
from boardprof.results.report.measurement import Measurement
from boardprof.results.stats.groups import summaries
from boardprof.results.stats.summary import Summary
from boardprof.target.arguments.passing import copied_arguments
from boardprof.target.build.build_options import BuildOptions
from boardprof.target.build.firmware import BuiltFirmware
from boardprof.target.descriptions.board import BoardSpec, board_spec, default_board
from boardprof.target.toolchain.cache import cache_root
from boardprof.ui.pytest_plugin.gate import MeasurementGate, Other, Verdict
from boardprof.ui.pytest_plugin.options import Options, numbered

__all__ = ["Measured", "Profiler"]


@dataclass(frozen=True)
class Wanted:
    """A board that a test needs, and what runs on it."""

    name: str | None = None  # of the board; None takes the default one, or the board at the port
    # files and folders to build; empty to use the firmware at the port
    sources: tuple[Path, ...] = ()
    options: BuildOptions = field(default_factory=BuildOptions)
    only: str = ""  # function that is linked alone, because all of them do not fit
    # builds the firmware of benchmarks, which has their functions only. None to build all functions
    make: Callable[[], BuiltFirmware | None] | None = field(default=None, compare=False)
    is_of_benchmarks: bool = False


def wanted_board(node: pytest.Item, name: str | None) -> Wanted:
    """Return the board of a name, with the sources that the marker adds."""
    marker = node.get_closest_marker("board")
    if marker is None:
        return Wanted(name)
    sources = tuple(node.path.parent / source for source in marker.args[1:])
    return Wanted(name, sources, BuildOptions(**marker.kwargs))


_KEPT = 4
"""Boards that keep running. Each may be an emulator, with the memory and time of its own."""


class OpenBoards:
    """Lends connected boards; the last ones that it has started keep running until `close`."""

    def __init__(self, options: Options) -> None:
        """Start nothing yet."""
        self._options = options
        self._open: dict[Wanted, Board] = {}  # the one that was lent last is the last
        self._lent: Counter[Wanted] = Counter()
        # for each build, the files that it was compiled from, including headers
        self.compiled: dict[Wanted, tuple[Path, ...]] = {}

    @contextlib.contextmanager
    def board(self, wanted: Wanted) -> Iterator[Board]:
        """Lend a board to one test."""
        # A board at a port and this machine are leased for that time, so that no other worker
        # measures there. An emulator with its own clock belongs to this worker and keeps running.
        port = self._options.connection.port
        spec = self._spec(wanted)
        if port is not None:
            with self._leased(port), self._connected(wanted, spec) as board:
                yield board
            return
        assert spec is not None
        if wanted not in self._open:
            idle = [each for each in self._open if not self._lent[each]]
            for each in idle[: max(0, len(self._open) - _KEPT + 1)]:
                self.forget(each)
            self._open[wanted] = self._connected(wanted, spec)
        board = self._open[wanted] = self._open.pop(wanted)
        is_own = spec.clock.kind == "simulated"
        self._lent[wanted] += 1
        try:
            with contextlib.nullcontext() if is_own else self._leased(spec.name):
                yield board
        finally:
            self._lent[wanted] -= 1

    def forget(self, wanted: Wanted) -> None:
        """Close a board that a test left in a bad state; the next test starts it again."""
        board = self._open.pop(wanted, None)
        if board is not None:
            board.close()

    def close(self) -> None:
        """Close what is open."""
        for wanted in [*self._open]:
            self.forget(wanted)

    def _leased(self, what: str) -> AbstractContextManager[None]:
        hint = "wait longer with --bp-wait SECONDS"
        return leased(cache_root() / "leases", what, self._options.wait_s, hint=hint)

    def _spec(self, wanted: Wanted) -> BoardSpec | None:
        if wanted.name is not None:
            return board_spec(wanted.name)
        return default_board() if self._options.connection.port is None else None

    def _connected(self, wanted: Wanted, spec: BoardSpec | None) -> Board:
        if not wanted.sources:
            return connect_by(self._options.connection, spec)
        from boardprof.target.build.builder import Build  # later: it knows all compilers

        spec = spec or default_board()
        firmware = None if wanted.make is None else wanted.make()
        if firmware is None:
            with Build(spec, wanted.sources, wanted.options, None).begin() as (_, finish):
                firmware = finish([wanted.only] if wanted.only else None)
        self.compiled[replace(wanted, only="")] = firmware.sources
        return open_firmware(firmware, self._options.connection)


class Measured(Mapping[str, Summary]):
    """Statistics per call by metric: ``measured["instructions"].median``.

    Attributes:
        report: with every sample.
        result: the return value; None for void.
        outputs: arrays that one call wrote, by parameter name.
    """

    def __init__(self, *measurements: Measurement) -> None:
        """Summarise a measurement, or its sessions."""
        measurement = measurements[-1]
        self.report = assemble(measurements)
        self.result = measurement.result
        self.outputs: Mapping[str, Any] = measurement.outputs
        self._board = measurement.device.name
        self._found = {each.metric: each.summary for each in reversed(summaries(self.report))}

    def __getitem__(self, metric: str) -> Summary:
        """Return a metric's statistics.

        Raises:
            UnknownNameError: the board did not measure it.
        """
        name = metric_called(metric, self._found)
        if name is None:
            raise UnknownNameError("metric", metric, self, owner=self._board)
        return self._found[name]

    def __contains__(self, metric: object) -> bool:
        """Tell whether the board has measured it."""
        return isinstance(metric, str) and metric_called(metric, self._found) is not None

    def __iter__(self) -> Iterator[str]:
        """Iterate over the metrics, in the Report's order."""
        return reversed(self._found)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._found)


@dataclass(eq=False)
class Turns:
    """Measures each call of a test twice, in sessions that alternate."""

    boards: OpenBoards
    options: Options
    _open: contextlib.ExitStack = field(init=False, default_factory=contextlib.ExitStack)
    _trees: dict[Path, Worktree] = field(init=False, default_factory=dict)

    def measured(
        self, wanted: Wanted, folder: Path, measure: Callable[[Wanted], Measurement]
    ) -> tuple[Other, list[Measurement]]:
        """Measure both sides; return the other one, and the test's own sessions."""
        name, *sides = self._sides(wanted, folder)
        spec = default_board() if wanted.name is None else board_spec(wanted.name)
        sessions = sessions_on([spec], self.options.connection.port)
        found: tuple[list[Measurement], list[Measurement]] = ([], [])
        for turn in turns(sessions):
            self.boards.forget(sides[turn])
            found[turn].append(measure(sides[turn]))
            self.boards.forget(sides[turn])
        allow = () if self.options.ab_flags is None else ("compiler",)
        return Other(name, assemble(found[0]), sessions, allow), found[1]

    def _sides(self, wanted: Wanted, folder: Path) -> tuple[str, Wanted, Wanted]:
        flags, revision = self.options.ab_flags, self.options.ab_revision
        if flags is not None:
            (name, one), (_, two) = two_settings(wanted.options, flags)
            return name, replace(wanted, options=one), replace(wanted, options=two)
        assert revision is not None
        if folder not in self._trees:
            self._trees[folder] = self._open.enter_context(worktree_of(folder, revision))
        tree = self._trees[folder]
        sources = tuple(tree.inside(path) for path in wanted.sources)
        first = replace(wanted, sources=sources, options=tree.code(wanted.options))
        return f"{revision} ({tree.commit[:8]})", first, wanted

    def close(self) -> None:
        """Remove the worktrees."""
        self._open.close()


@dataclass(eq=False, repr=False)
class Profiler:
    """Measures the functions of one test. Call it; see `__call__`.

    Attributes:
        measurements: all that the test has measured.
        sources: the measured files and folders, each once.
        compiled: the files that they were compiled from, including headers, each once.
        verdicts: the result of checking each against the gate.
    """

    _boards: OpenBoards
    _wanted: Wanted
    _folder: Path
    _label: str
    _gate: MeasurementGate
    _defaults: Mapping[str, Any]
    _turns: Turns | None
    _records: Callable[[BoardSpec], bool]  #: whether to record calls on a board
    measurements: list[Measurement] = field(init=False, default_factory=list)
    sources: dict[Path, None] = field(init=False, default_factory=dict)
    compiled: dict[Path, None] = field(init=False, default_factory=dict)
    verdicts: list[Verdict] = field(init=False, default_factory=list)

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
            with contextlib.ExitStack() as lent:
                try:
                    board = lent.enter_context(self._boards.board(wanted))
                except BuildError:
                    if not wanted.sources:
                        raise
                    wanted = replace(wanted, only=function)
                    board = lent.enter_context(self._boards.board(wanted))
                try:
                    again, named = copied_arguments(args, options.get("named"))
                    found = board.measure(function, *args, **{**self._defaults, **options})
                    if not self._records(board.spec):
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
        # A test that has measured the same before has numbers in its labels.
        such = (sessions[0].function, sessions[0].arguments)
        before = {m.label for m in self.measurements if (m.function, m.arguments) == such}
        label = numbered(self._label, len(before) + 1)
        sessions = [replace(each, label=label) for each in sessions]
        self.measurements += sessions
        self.sources |= dict.fromkeys(wanted.sources)
        self.compiled |= dict.fromkeys(self._boards.compiled.get(wanted, ()))
        found = Measured(*sessions)
        self.verdicts.append(self._gate.judge(found.report, other))
        return found
