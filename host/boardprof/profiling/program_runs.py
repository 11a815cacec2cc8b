# SPDX-License-Identifier: Apache-2.0
"""The runs of a program, each call measured separately, and its Report: a row for each call."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial

from boardprof.board.board import Board
from boardprof.decode.samples import Sample
from boardprof.measure.counted_pass import UNMASKED, CountedPass, Taken
from boardprof.measure.measure_function import Progress
from boardprof.measure.passes import PassQueue, Rounds
from boardprof.metrics import Count, Duration, Metric, Percent
from boardprof.profiling.host_collectors import Collecting, Gathered, columns_for
from boardprof.profiling.observed_calls import observed_sample, observed_value
from boardprof.profiling.program_calls import ProgramArrays, ProgramCall
from boardprof.report.assemble import assemble
from boardprof.report.calls import DURATION
from boardprof.report.measurement import Measurement, Windows
from boardprof.report.report import Report, Row

_Place = tuple[int, int]
"""The run, and the call within it."""


END_TO_END = "End to end (us)"
"""Time of a whole run by the host's clock."""


@dataclass(frozen=True)
class Executed:
    """One execution of one call.

    Attributes:
        call: the call.
        measurement: of one sample.
        gathered: metrics of the host collectors.
    """

    call: ProgramCall
    measurement: Measurement
    gathered: Gathered


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
                interrupts=call.board.link.interrupts_during(windows[place], masked=self._masks),
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


def program_report(
    executed: Sequence[Executed], warmup: int, repeat: int, elapsed_s: Sequence[float]
) -> Report:
    """Build the Report of a program's runs.

    Args:
        executed: all calls of the first run, then those of the next; at least one.
        warmup: number of warm-up runs.
        repeat: number of measured runs.
        elapsed_s: time of each run by the host's clock.
    """
    measurements = [each.measurement for each in executed]
    report = assemble(measurements)
    rows: list[Row] = [dict(row) for row in report.calls]
    columns = columns_for((e.gathered for e in executed), (name for row in rows for name in row))
    for each, group in zip(executed, _groups(rows, measurements), strict=True):
        for row in group:
            row["Hash"] = each.call.hash
            if each.call.label is not None:
                row["Label"] = each.call.label
        for label, metrics in each.gathered.items():
            group[0] |= {columns[label, name]: metric for name, metric in metrics.items()}
    _share_of_the_longest(rows, report.device_metrics)
    configuration: Row = {
        "Executor": "Program",
        "Number of threads": Count(1),
        END_TO_END: _end_to_end(executed, elapsed_s),
        **report.configuration,
        "Warm-up": Count(warmup),
        "Repeat": Count(repeat),
    }
    return Report(rows, report.device_metrics, configuration, report.extra)


def _groups(rows: Sequence[Row], measurements: Sequence[Measurement]) -> Iterator[list[Row]]:
    """Assign rows to each measurement: the CPU's, and those of the board's other parts."""
    at = 0
    for measurement in measurements:
        parts = {f"{measurement.device.name} {part}" for part in measurement.parts.values()}
        end = at + 1
        parts.discard(f"{rows[at]['Device']}")
        while end < len(rows) and rows[end]["Device"] in parts:
            parts.discard(f"{rows[end]['Device']}")
            end += 1
        yield list(rows[at:end])
        at = end


def _share_of_the_longest(rows: Sequence[Row], totals: Mapping[str, Row]) -> None:
    """With several boards that all have a clock, refer Percent to the one that is busy longest."""
    boards = {row["Device"] for row in rows if "Percent" in row}
    times = [totals[f"{board}"].get(DURATION) for board in boards]
    spans = [time.microseconds for time in times if isinstance(time, Duration)]
    if len(boards) < 2 or len(spans) < len(boards) or max(spans) <= 0:
        return
    for row in rows:
        time = row.get(DURATION)
        if "Percent" in row and isinstance(time, Duration):
            row["Percent"] = Percent(100.0 * time.microseconds / max(spans))


def _end_to_end(executed: Sequence[Executed], elapsed_s: Sequence[float]) -> Metric:
    """Return the median of the runs' times; an emulator's time is meaningless."""
    devices = {each.measurement.device.name: each.measurement.device for each in executed}
    emulated = [device.name for device in devices.values() if device.emulated]
    if emulated:
        verb = "is" if len(emulated) == 1 else "are"
        return f"not known: {' and '.join(emulated)} {verb} emulated"
    return Duration(1e6 * statistics.median(elapsed_s))
