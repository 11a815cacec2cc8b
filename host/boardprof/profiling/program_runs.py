# SPDX-License-Identifier: Apache-2.0
"""A program's runs: pass by pass, warm-up and samples, each call measured on its own."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from boardprof.board.board import Board
from boardprof.board.measuring import Rounds
from boardprof.board.sampling import Progress
from boardprof.decode.samples import Sample
from boardprof.profiling.choice import Choice
from boardprof.profiling.collecting import Collecting, Gathered
from boardprof.profiling.counted import CountedPass, Passes
from boardprof.profiling.program_arrays import ProgramArrays
from boardprof.profiling.program_call import ProgramCall
from boardprof.profiling.program_rows import Executed
from boardprof.report.measurement import Measurement, Windows

__all__ = ["ProgramRuns"]

_Round = tuple[Sample, Sample]
_Place = tuple[int, int]
"""Which run, and which call of it."""


class ProgramRuns:
    """All runs of a program.

    Attributes:
        elapsed_s: time of each run of the first pass by the host's clock.
    """

    def __init__(
        self,
        calls: Sequence[ProgramCall],
        arrays: ProgramArrays,
        rounds: Rounds,
        choices: Mapping[Board, Choice],
        collecting: Collecting,
        on_progress: Progress | None,
    ) -> None:
        """Take what `Program.profile` has checked; nothing is called yet."""
        self.elapsed_s: list[float] = []
        self._calls = calls
        self._arrays = arrays
        self._rounds = rounds
        self._collecting = collecting
        self._on_progress = on_progress
        self._passes = {board: Passes(board, c.metrics) for board, c in choices.items()}
        self._gathered: dict[_Place, Gathered] = {}
        self._calls_before: dict[_Place, int | None] = {}
        self._done = 0

    def executed(self) -> Iterator[Executed]:
        """Run them all, then go through the executions: run by run, call by call."""
        windows: dict[_Place, list[Windows]] = defaultdict(list)
        while counted := self._next():
            is_first = not windows
            self._done = 0
            calibrations = self._calibrations(counted)
            for _ in range(self._rounds.warmup):
                self._arrays.restart()
                self._run(counted, None)
            for run in range(self._rounds.repeat):
                self._arrays.restart()
                began_s = time.monotonic()
                samples = self._run(counted, run if is_first else None)
                if is_first:
                    self.elapsed_s.append(time.monotonic() - began_s)
                for index, sample in samples.items():
                    call = self._calls[index]
                    calibration = calibrations[call.board, call.name]
                    found = counted[call.board].windows([sample], calibration)
                    windows[run, index].append(found)
        yield from self._results(windows)

    def _results(self, windows: Mapping[_Place, Sequence[Windows]]) -> Iterator[Executed]:
        of_board: dict[Board, list[Windows]] = defaultdict(list)
        for (_, index), found in windows.items():
            of_board[self._calls[index].board] += found
        devices = {board: self._passes[board].device(found) for board, found in of_board.items()}
        compilers = {board: board.compilers for board in of_board}  # each reads the image
        for place in sorted(windows):
            call = self._calls[place[1]]
            measurement = Measurement(
                call.name,
                devices[call.board],
                1,
                self._rounds.warmup,
                tuple(windows[place]),
                call.shapes,
                flags=call.board.flags,
                libc=call.board.libc,
                parts=call.board.parts,
                formulas=call.board.formulas,
                compilers=compilers[call.board],
                calls_before=self._calls_before[place],
            )
            yield Executed(call, measurement, self._gathered.get(place, {}))

    def _next(self) -> dict[Board, CountedPass]:
        """Program the boards that have a further pass."""
        counted = {}
        for board, passes in self._passes.items():
            probe = next(call for call in self._calls if call.board is board)
            found = passes.next(self._arrays.call(probe))
            if found is not None:
                counted[board] = found
        return counted

    def _calibrations(
        self, counted: Mapping[Board, CountedPass]
    ) -> dict[tuple[Board, str], tuple[Sample, ...]]:
        """Calibrate once a function: the empty one that stands for it takes its arguments."""
        first = {(call.board, call.name): call for call in reversed(self._calls)}
        return {
            key: counted[call.board].calibration(self._arrays.call(call))
            for key, call in first.items()
            if call.board in counted
        }

    def _run(
        self, counted: Mapping[Board, CountedPass], collected: int | None
    ) -> dict[int, _Round]:
        """Run the program once; ``collected``: the run for which collectors of the host work."""
        samples: dict[int, _Round] = {}
        for index, call in enumerate(self._calls):
            placed = self._arrays.call(call)
            if call.board not in counted:  # it has counted everything in earlier passes
                placed.value()
                self._show_progress()
                continue
            around: AbstractContextManager[Gathered] = nullcontext({})
            if collected is not None:
                around = self._collecting.around(call.board)
                self._calls_before[collected, index] = call.board.calls
            with around as gathered:
                samples[index] = counted[call.board].sample(placed)
            if collected is not None:
                self._gathered[collected, index] = gathered
            self._show_progress()
        return samples

    def _show_progress(self) -> None:
        self._done += 1
        if self._on_progress is not None:
            in_all = (self._rounds.warmup + self._rounds.repeat) * len(self._calls)
            self._on_progress(self._done, in_all)
