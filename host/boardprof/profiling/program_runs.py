# SPDX-License-Identifier: Apache-2.0
"""The runs of a program: pass by pass, warm-up and samples, each call measured separately."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from boardprof.board.board import Board
from boardprof.decode.samples import Sample
from boardprof.measure.board_interrupts import said_of
from boardprof.measure.counted_pass import CountedPass, Taken
from boardprof.measure.function_sampler import Progress
from boardprof.measure.passes import PassQueue
from boardprof.measure.rounds import Rounds
from boardprof.profiling.host_collectors import Collecting, Gathered
from boardprof.profiling.observed_calls import UNMASKED, observed_sample, observed_value
from boardprof.profiling.program_arrays import ProgramArrays
from boardprof.profiling.program_call import ProgramCall
from boardprof.profiling.program_rows import Executed
from boardprof.report.measurement import Measurement, Windows

_Place = tuple[int, int]
"""The run, and the call within it."""


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
        passes: Mapping[Board, PassQueue],
        collecting: Collecting,
        on_progress: Progress | None,
        *,
        mask_interrupts: bool,
    ) -> None:
        """Keep the settings, which `Program.profile` has checked; nothing is called yet."""
        self.elapsed_s: list[float] = []
        self._calls = calls
        self._arrays = arrays
        self._rounds = rounds
        self._masks = mask_interrupts
        self._collecting = collecting
        self._on_progress = on_progress
        self._passes = passes
        self._gathered: dict[_Place, Gathered] = {}
        self._calls_before: dict[_Place, int | None] = {}
        self._done = 0

    def executed(self) -> Iterator[Executed]:
        """Run all, then yield the executions: run by run, call by call."""
        windows: dict[_Place, list[Windows]] = defaultdict(list)
        while counted := self._next():
            is_first = not windows
            self._done = 0
            calibrations = self._calibrations(counted)
            for _ in range(max(self._rounds.warmup, any(c.needs_trial for c in counted.values()))):
                self._arrays.restart()
                self._run(counted, None, is_warmup=True)
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
        for place in sorted(windows):
            call = self._calls[place[1]]
            measurement = Measurement(
                call.name,
                devices[call.board],
                1,
                self._rounds.warmup,
                tuple(windows[place]),
                call.shapes,
                interrupts=said_of(call.board.link, windows[place], masked=self._masks),
            )
            measurement = call.board.described(measurement, self._calls_before[place])
            yield Executed(call, measurement, self._gathered.get(place, {}))

    def _next(self) -> dict[Board, CountedPass]:
        """Program the boards that have another pass."""
        counted = {}
        for board, passes in self._passes.items():
            probe = self._arrays.call(next(call for call in self._calls if call.board is board))
            found = passes.next(partial(CountedPass.try_out, call=probe))
            if found is not None:
                counted[board] = found
        return counted

    def _calibrations(
        self, counted: Mapping[Board, CountedPass]
    ) -> dict[tuple[Board, str], tuple[Sample, ...]]:
        """Calibrate once per function: the empty function takes the same arguments."""
        first = {(call.board, call.name): call for call in reversed(self._calls)}
        return {
            key: counted[call.board].calibration(self._arrays.call(call))
            for key, call in first.items()
            if call.board in counted
        }

    def _run(
        self,
        counted: Mapping[Board, CountedPass],
        collected: int | None,
        *,
        is_warmup: bool = False,
    ) -> dict[int, Taken]:
        """Run the program once; ``collected`` is the run with host collectors."""
        samples: dict[int, Taken] = {}
        for index, call in enumerate(self._calls):
            packed = self._arrays.call(call)
            counter = counted.get(call.board)
            if counter is None or is_warmup:
                if counter is None:  # the board has counted everything in earlier passes
                    observed_value(call.host_call, packed)
                else:
                    observed_sample(counter, call.host_call, packed, flags=UNMASKED)
                self._show_progress()
                continue
            around: AbstractContextManager[Gathered] = nullcontext({})
            if collected is not None:
                around = self._collecting.around(call.board)
                self._calls_before[collected, index] = call.board.calls
            with around as gathered:
                samples[index] = observed_sample(counter, call.host_call, packed)
            if collected is not None:
                self._gathered[collected, index] = gathered
            self._show_progress()
        return samples

    def _show_progress(self) -> None:
        self._done += 1
        if self._on_progress is not None:
            in_all = (self._rounds.warmup + self._rounds.repeat) * len(self._calls)
            self._on_progress(self._done, in_all)
