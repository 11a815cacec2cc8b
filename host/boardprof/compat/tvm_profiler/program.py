# SPDX-License-Identifier: Apache-2.0
"""Whole programs: a sequence of calls, such as a network's layers, profiled as one."""

from __future__ import annotations

import itertools
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from boardprof.base.errors import BoardprofError, UsageError
from boardprof.base.metrics import Count, Duration, Metric, Percent
from boardprof.compat.tvm_profiler.board_calls import (
    Collector,
    ProgramArrays,
    ProgramCall,
    check_device,
    check_open,
    choose,
    inputs_of,
    observed_sample,
    observed_value,
    planned_passes,
    program_call,
)
from boardprof.compat.tvm_profiler.host_collectors import (
    Collecting,
    DeviceWrapper,
    Gathered,
    MetricCollector,
    columns_for,
)
from boardprof.measure.board.board import Board
from boardprof.measure.sampling.counted_pass import UNMASKED, CountedCalls, CountedPass
from boardprof.measure.sampling.measure_function import PassQueue, Progress, Rounds, paint_stack
from boardprof.results.record import Stack
from boardprof.results.report.assemble import assemble
from boardprof.results.report.calls import DURATION, Row
from boardprof.results.report.measurement import Measurement, PassResult, busy_parts
from boardprof.results.report.report import Report
from boardprof.results.report_json import tvm_totals

_Place = tuple[int, int]
"""The run, and the call within it."""


_END_TO_END = "End to end (us)"
"""Time of a whole run by the host's clock."""


class ProgramError(BoardprofError):
    """A call of a Program failed; ``report`` has the rows before it, ``__cause__`` the reason."""

    def __init__(
        self,
        message: str,
        *,
        cause: BoardprofError,
        call: int,
        label: str | None,
        report: Report | None,
    ) -> None:
        """Keep what was measured; the hint and the exit code are those of the cause.

        Args:
            message: which call failed.
            cause: the board's error.
            call: the call's number in the program, from 0.
            label: the caller's name for it, or None.
            report: the rows that were measured before; None if there are none.
        """
        super().__init__(f"{message}: {cause.message}", hint=cause.hint)
        self.call = call
        self.label = label
        self.report = report
        self.exit_code = cause.exit_code


class Program:
    """A sequence of calls of packed functions that share arrays.

    ::

        program = Program(board)
        program.add("dense", x, w1, h, 64, 32, label="hidden")
        program.add("relu", h, 32)
        program.add("dense", h, w2, y, 32, 10, label="output")
        print(program.profile().table())

    An array that several calls take is on the board once: the next call reads there what one call
    has written, without the wire. So a graph becomes its calls in an order in which inputs are
    written before they are read. A view of another shape is the same array; other overlaps are
    refused. Blocks of ``board.memory`` are passed directly, and are not restored.
    """

    def __init__(self, board: Board, inputs: Sequence[npt.NDArray[Any]] = ()) -> None:
        """Begin an empty program.

        Args:
            board: connected; used for each call that does not name another.
            inputs: arrays of the calls that `run` and `profile` fill with what they are given.

        Raises:
            UsageError: it is not a connected board, or the inputs are not arrays.
        """
        if not isinstance(board, Board):
            raise UsageError(
                f"{board!r:.60} is not a connected board.",
                hint="pass what boardprof.connect returned",
            )
        if not isinstance(inputs, Sequence) or not all(isinstance(i, np.ndarray) for i in inputs):
            raise UsageError(f"inputs={inputs!r:.60} is not a list of arrays.")
        self._board = board
        self._inputs = tuple(inputs)
        self._calls: list[ProgramCall] = []

    def add(
        self,
        function: str,
        *args: object,
        label: str | None = None,
        device: Board | DeviceWrapper | str | None = None,
        named: Mapping[str, object] | None = None,
    ) -> None:
        """Append a call.

        Args:
            function: its name.
            args: as for ``Board.profile``; arrays are looked at when the program runs.
            label: a name for the call, in a column of its own.
            device: another connected board to call. Data written on one board cannot be read on
                another.
            named: arguments by parameter name.

        Raises:
            UnknownNameError: no such function.
            LinkError: the board is closed.
            UsageError: it cannot be measured; the arguments do not fit; there is no such device; or
                the label is not a string.
        """
        if not isinstance(named, Mapping | None):
            raise UsageError(f"named={named!r:.60} is not a dict of arguments by name.")
        board = device.device if isinstance(device, DeviceWrapper) else device
        if not isinstance(board, Board):
            check_device(self._board, board)
            board = self._board
        check_open(board)
        self._calls.append(program_call(board, function, args, named or {}, label))

    def __len__(self) -> int:
        """Return the number of calls."""
        return len(self._calls)

    def run(self, *data: object) -> list[object]:
        """Run it once without measuring; return each function's result. Arrays hold the outputs.

        Args:
            data: values of the inputs, one by one or as one list. Without any, the arrays keep
                theirs.

        Raises:
            UsageError: there are no calls, or their arrays do not fit; see `profile`.
            ProgramError: a call failed on its board.
        """
        self._check()
        self._fill(data)
        values: list[object] = []
        with ProgramArrays(self._calls) as arrays:
            for number, call in enumerate(self._calls):
                with _naming_call(number, call, lambda: None):
                    values.append(observed_value(call.host_call, arrays.call(call)))
            arrays.fetch()
        return values

    def profile(
        self,
        *data: object,
        collectors: Sequence[Collector] | None = None,
        func_name: str = "main",
        warmup: int = 3,
        repeat: int = 1,
        mask_interrupts: bool = False,
        on_progress: Progress | None = None,
    ) -> Report:
        """Run it and measure each call, like ``graph_executor.profile`` and ``vm.profile``.

        The Report has a row for each call in the order of execution, run after run: Name, Count 1,
        Duration if there is a clock, the counters, Percent of the board's total, the arguments'
        shapes, a Hash that is the same for the same function, Label, Device. The totals are of the
        board's work between the calls' first and last instruction on it, argument handling
        included; ``End to end (us)`` in the configuration is a run by the host's clock, wire and
        collectors included, the median of the runs.

        Each run begins with the caller's values in all arrays. Afterwards they hold the results of
        the last run. More counters than fit one pass need more runs; host ``collectors`` run in
        those of the first pass. One more run at the end finds the stack of each call.

        Args:
            data: values of the inputs, as for `run`; or only the collectors.
            collectors: as for `profile_function`.
            func_name: as in TVM; a program has only its main function.
            warmup: runs before the measured ones, >= 0.
            repeat: measured runs, >= 1.
            mask_interrupts: mask interrupts within the windows of the measured runs. If this also
                masks the guard's timer, one warm-up run is needed, and is added if there is none.
            on_progress: called with (calls done, total calls) of a pass, warm-up included.

        Raises:
            UsageError: there are no calls; two boards have the same name; arrays overlap, do not
                fit the arena, or are written on one board and taken on another; a collector is
                unknown or failed; a board cannot mask interrupts, or not for so long.
            ProgramError: a call failed on its board; the rows before it are in the ``report``.
        """
        rounds = Rounds(warmup, repeat, 1)
        if func_name != "main":
            raise UsageError(f"The program has no function {func_name!r:.60}, only 'main'.")
        self._check()
        is_list = len(data) == 1 and (not self._inputs or _are_collectors(data[0]))
        if collectors is None and is_list:
            (collectors,), data = cast(tuple[Sequence[Collector]], data), ()
        self._fill(data)
        boards = list(dict.fromkeys(call.board for call in self._calls))
        names = [board.device.name for board in boards]
        if len({*names}) < len(names):
            raise UsageError(
                f"Two boards of the program have the same name: {', '.join(sorted(names))}.",
                hint="give them different names: a Report tells boards apart by name",
            )
        chosen, collecting = choose(boards, collectors)
        passes = {
            board: planned_passes(board, metrics, mask_interrupts=mask_interrupts)
            for board, metrics in chosen.items()
        }
        collecting.init(boards)
        with ProgramArrays(self._calls) as arrays:
            runs = _Runs(
                self._calls, arrays, rounds, passes, collecting, on_progress, mask_interrupts
            )
            executed = list(runs.executed())
            arrays.fetch()
        return _report(executed, warmup, runs.elapsed_s)

    def _fill(self, data: Sequence[object]) -> None:
        """Copy what was given into the arrays of the inputs."""
        values = data[0] if len(data) == 1 and isinstance(data[0], list | tuple) else data
        if not values:
            return
        if len(values) != len(self._inputs):
            raise UsageError(
                f"Inputs given: {len(values)}; inputs of the program: {len(self._inputs)}.",
                hint="Program(board, inputs=[x]) names the arrays that are filled",
            )
        for number, (array, value) in enumerate(zip(self._inputs, values, strict=True)):
            array[...] = _converted(number, array, value)

    def _check(self) -> None:
        if not self._calls:
            raise UsageError(
                "The program has no calls.", hint='program.add("function", arguments, ...)'
            )
        for call in self._calls:
            call.board.stack_check.require(call.name)


def _are_collectors(given: object) -> bool:
    each = given if isinstance(given, list | tuple) else [given]
    return given is None or all(isinstance(one, str | MetricCollector) for one in each)


def _converted(number: int, array: npt.NDArray[Any], value: object) -> npt.NDArray[Any]:
    """Return an input's value in the form of its array, if that does not change it."""
    try:
        given = np.asarray(value)
        converted = given.astype(array.dtype)
    except (TypeError, ValueError) as error:
        raise UsageError(f"Input {number} is not an array of numbers: {error}.") from error
    if given.shape != array.shape:
        raise UsageError(f"Input {number} has the shape {given.shape}, not {array.shape}.")
    is_rounded = given.dtype.kind == array.dtype.kind == "f"
    if not is_rounded and not np.array_equal(converted, given):
        raise UsageError(f"Input {number} has values that {array.dtype} cannot hold.")
    return converted


# -- runs --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Executed:
    """One execution of one call."""

    call: ProgramCall
    measurement: Measurement  # of one sample
    gathered: Gathered


@dataclass(eq=False)
class _Runs:
    """All runs of a program, with settings that `Program.profile` has checked."""

    _calls: Sequence[ProgramCall]
    _arrays: ProgramArrays
    _rounds: Rounds
    _passes: Mapping[Board, PassQueue]
    _collecting: Collecting
    _on_progress: Progress | None
    _masks: bool
    elapsed_s: list[float] = field(default_factory=list)  # of each run of the first pass, host's
    _gathered: dict[_Place, Gathered] = field(default_factory=dict)
    _calls_before: dict[_Place, int | None] = field(default_factory=dict)
    _windows: dict[_Place, list[PassResult]] = field(default_factory=lambda: defaultdict(list))
    _done: int = 0
    _passes_done: int = 0

    def __post_init__(self) -> None:
        self._inputs = inputs_of(self._calls)

    def executed(self) -> Iterator[_Executed]:
        """Run all, then yield the executions: run by run, call by call."""
        while counted := self._next():
            self._done = 0
            self._calibrate(counted)
            for done in range(
                max(self._rounds.warmup, any(c.needs_trial for c in counted.values()))
            ):
                self._arrays.restart()
                self._run(counted, None, done)
            for run in range(self._rounds.repeat):
                self._arrays.restart()
                began_s = time.monotonic()
                samples = self._run(counted, run, self._rounds.warmup)
                if not self._passes_done:
                    self.elapsed_s.append(time.monotonic() - began_s)
                for index, found in self._counts(samples, counted):
                    self._windows[run, index].append(found)
            self._passes_done += 1
        yield from self._results(self._windows, self._rounds.warmup, self._stacks())

    def _stacks(self) -> list[Stack | str]:
        """Run the program once more on painted stacks; return what each call used."""
        stacks: list[Stack | str] = []
        self._arrays.restart()
        for index, call in enumerate(self._calls):
            with _naming_call(index, call, lambda: None):
                packed = self._arrays.call(call)
                stacks.append(paint_stack(call.board.link, packed))
        if any(isinstance(stack, str) for stack in stacks):  # a call may not have done its work
            self._arrays.restart()
            self._run({}, None, 0)
        return stacks

    def _results(
        self,
        windows: Mapping[_Place, Sequence[PassResult]],
        warmup: int,
        stacks: Sequence[Stack | str] = (),
    ) -> Iterator[_Executed]:
        of_board: dict[Board, list[PassResult]] = defaultdict(list)
        for (_, index), found in windows.items():
            of_board[self._calls[index].board] += found
        devices = {board: self._passes[board].device(found) for board, found in of_board.items()}
        for place in sorted(windows):
            call = self._calls[place[1]]
            measurement = Measurement(
                call.name,
                devices[call.board],
                1,
                warmup,
                tuple(windows[place]),
                arguments=call.shapes,
                stack=stacks[place[1]] if stacks else None,
                interrupts=call.board.link.interrupts_during(windows[place], masked=self._masks),
                inputs_crc32=self._inputs[place[1]],
            )
            measurement = call.board.described(measurement, self._calls_before.get(place))
            yield _Executed(call, measurement, self._gathered.get(place, {}))

    def _next(self) -> dict[Board, CountedPass]:
        """Program the boards that have another pass."""
        counted = {}
        for board, passes in self._passes.items():
            probe = self._arrays.call(next(call for call in self._calls if call.board is board))
            found = passes.next(partial(CountedPass.try_out, call=probe))
            if found is not None:
                counted[board] = found
        return counted

    def _calibrate(self, counted: Mapping[Board, CountedPass]) -> None:
        """Calibrate once per function: the empty function takes the same arguments."""
        first = {(call.board, call.name): call for call in reversed(self._calls)}
        for call in first.values():
            if call.board in counted:
                counted[call.board].calibration_samples(self._arrays.call(call))

    def _run(
        self, counted: Mapping[Board, CountedPass], run: int | None, warmup: int
    ) -> dict[int, CountedCalls]:
        """Run the program once; return what was counted, by the number of the call."""
        # Boards that are not in ``counted`` have counted everything. ``run`` is None for a warm-up
        # run; ``warmup`` is the number of warm-up runs before this one.
        samples: dict[int, CountedCalls] = {}

        def so_far() -> Report | None:
            windows = {
                place: found[: self._passes_done or 1] for place, found in self._windows.items()
            }
            if not self._passes_done:
                for index, found in self._counts(samples, counted):
                    windows[run or 0, index] = [found]
            executed = list(self._results(windows, warmup))
            return _report(executed, warmup, self.elapsed_s) if executed else None

        for index, call in enumerate(self._calls):
            with _naming_call(index, call, so_far):
                taken = self._take(
                    counted.get(call.board), call, None if run is None else (run, index)
                )
            if taken is not None:
                samples[index] = taken
            self._done += 1
            if self._on_progress is not None:
                in_all = (self._rounds.warmup + self._rounds.repeat) * len(self._calls)
                self._on_progress(self._done, in_all)
        return samples

    def _take(
        self, counter: CountedPass | None, call: ProgramCall, place: _Place | None
    ) -> CountedCalls | None:
        """Make a call; ``place`` is None in a warm-up run. None without a counter."""
        packed = self._arrays.call(call)
        if counter is None:
            observed_value(call.host_call, packed)
            return None
        if place is None:
            return observed_sample(counter, call.host_call, packed, flags=UNMASKED)
        if self._passes_done:
            return observed_sample(counter, call.host_call, packed)
        self._calls_before[place] = call.board.calls_before
        with self._collecting.around(call.board) as gathered:
            taken = observed_sample(counter, call.host_call, packed)
        self._gathered[place] = gathered
        return taken

    def _counts(
        self, samples: Mapping[int, CountedCalls], counted: Mapping[Board, CountedPass]
    ) -> Iterator[tuple[int, PassResult]]:
        for index, sample in samples.items():
            call = self._calls[index]
            counter = counted[call.board]
            calibration = counter.calibration_samples(self._arrays.call(call))
            yield index, counter.result([sample], calibration)


@contextmanager
def _naming_call(
    number: int, call: ProgramCall, so_far: Callable[[], Report | None]
) -> Iterator[None]:
    """Turn a board's error into one that names the call, and has what was measured before it."""
    try:
        yield
    except UsageError:
        raise
    except BoardprofError as error:
        label = "" if call.label is None else f", label {call.label!r}"
        raise ProgramError(
            f"Call {number} ({call.name}{label}) of the program failed",
            cause=error,
            call=number,
            label=call.label,
            report=so_far(),
        ) from error


def _report(executed: Sequence[_Executed], warmup: int, elapsed_s: Sequence[float]) -> Report:
    """Build the Report of a program's runs: all calls of the first run, then those of the next."""
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
        _END_TO_END: _end_to_end(executed, elapsed_s),
        **report.configuration,
        "Warm-up": Count(warmup),
        "Repeat": Count(max(len(elapsed_s), 1)),
    }
    return Report(rows, tvm_totals(report), configuration, record=report.record)


def _groups(rows: Sequence[Row], measurements: Sequence[Measurement]) -> Iterator[list[Row]]:
    """Assign rows to each measurement: the CPU's, and those of the board's other parts."""
    left = iter(rows)
    for measurement in measurements:
        has_cpu = any(name not in measurement.parts for name in measurement.counters)
        yield list(itertools.islice(left, has_cpu + len(busy_parts(measurement))))


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


def _end_to_end(executed: Sequence[_Executed], elapsed_s: Sequence[float]) -> Metric:
    """Return the median of the runs' times; an emulator's time is meaningless."""
    devices = {each.measurement.device.name: each.measurement.device for each in executed}
    if not elapsed_s:
        return "not known: the program did not reach its end"
    emulated = [device.name for device in devices.values() if device.emulated]
    if emulated:
        verb = "is" if len(emulated) == 1 else "are"
        return f"not known: {' and '.join(emulated)} {verb} emulated"
    return Duration(1e6 * statistics.median(elapsed_s))
