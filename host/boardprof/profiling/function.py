# SPDX-License-Identifier: Apache-2.0
"""TVM's way to profile one function, over any transport."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from boardprof.board.board import Board
from boardprof.board.measuring import Rounds
from boardprof.errors import UsageError
from boardprof.metrics import Count, Duration, Metric
from boardprof.profiling.benchmark import time_long_enough
from boardprof.profiling.choice import (
    Choice,
    Collector,
    Module,
    OpenBoard,
    check_device,
    choose,
)
from boardprof.profiling.collecting import Gathered, columns_for
from boardprof.profiling.counted import Passes
from boardprof.profiling.placed import PlacedFunction, measurable
from boardprof.profiling.timing import Stopwatch, check_ms, check_time
from boardprof.report.assemble import assemble
from boardprof.report.counter_metrics import DURATION
from boardprof.report.measurement import Measurement, Windows
from boardprof.report.report import Report, Row

__all__ = ["Metrics", "ProfiledFunction", "profile_function"]

_LIMIT_ZERO = 100
"""As in TVM's time evaluator: attempts that take no time before ``number`` is left as it is."""

_OF_ROWS = ("Name", "Device", "Percent", "Argument Shapes", "Flags")
"""Columns of a Report that say what a row is of, and are no metrics."""

_REFERENCES = (DURATION, "instructions", "ticks", "cycles")
"""What samples are ordered by: the first that there is."""


class Metrics(dict[str, Metric]):
    """Metric name -> metric, as TVM's profiled functions return it.

    With several samples these are the metrics of one of them, the middle one (of two the lower) by
    Duration, else by instructions, ticks or cycles: so they belong together, and none is made up.
    With ``number`` > 1 they are of so many calls together, which ``Count`` tells then.

    Attributes:
        report: all samples, with the board's totals, configuration and raw data.
    """

    report: Report

    def __init__(self, metrics: Mapping[str, Metric], report: Report) -> None:
        """Take the metrics of one sample of a report."""
        super().__init__(metrics)
        self.report = report


class ProfiledFunction:
    """What `profile_function` returns: call it with the function's arguments.

    Attributes:
        board: where it runs.
        name: of the function.
    """

    def __init__(
        self, target: OpenBoard, name: str, choice: Choice, rounds: Rounds, min_repeat_ms: float
    ) -> None:
        """Take what `profile_function` has checked."""
        self.board = target.board
        self.name = name
        self._target = target
        self._choice = choice
        self._rounds = rounds
        self._min_repeat_ms = min_repeat_ms

    def __call__(self, *args: object, **named: object) -> Metrics:
        """Measure the function with these arguments.

        In/out arrays begin each sample with the caller's values, and hold afterwards what one
        further call leaves in them.

        Raises:
            UsageError: the arguments do not fit, or a collector of the host failed; it is named.
            DeviceError, LinkError: see ``Board.profile``.
        """
        rounds = self._rounds
        if self._min_repeat_ms > 0:
            rounds = Rounds(rounds.warmup, rounds.repeat, self._number(args, named))
        if self._choice.collecting:
            return _middle(_collected(self.board, self.name, args, named, self._choice, rounds))
        measurement = self.board.measure(
            self.name,
            *args,
            metrics=self._choice.metrics,
            warmup=rounds.warmup,
            repeat=rounds.repeat,
            number=rounds.number,
            named=named,
        )
        return _middle(assemble([measurement]))

    def _number(self, args: Sequence[object], named: Mapping[str, object]) -> int:
        """Return how many calls a sample needs to take long enough."""
        with PlacedFunction(self.board, self.name, args, named) as placed:
            watch = Stopwatch(self.board, placed)
            watch.warm_up()
            number, _ = time_long_enough(
                watch.seconds,
                self._rounds.number,
                self._min_repeat_ms,
                _LIMIT_ZERO,
                may_grow=watch.is_certain,
            )
        return number

    def close(self) -> None:
        """Stop the board, if it was started for this."""
        self._target.close()

    def __enter__(self) -> Self:
        """Return this object."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()


def profile_function(
    mod: Module,
    dev: object = None,
    collectors: Sequence[Collector] | None = None,
    func_name: str | None = None,
    warmup_iters: int = 10,
    *,
    number: int = 1,
    repeat: int = 1,
    min_repeat_ms: float = 0,
) -> ProfiledFunction:
    """Wrap a function of a board so that calling it measures it.

    The names, their order and the defaults are those of ``tvm.runtime.profiling``; unlike there, it
    works over RPC, and there is a Duration wherever the board has a real clock::

        fir = profile_function(board, None, ["cycles", PowerMeter()], "fir")
        print(fir(x, h, y, 256)["cycles"])

    The board counts in windows of its own around the call alone, corrected by the calibration.
    Collectors of the host run around the board's call, see `MetricCollector`; with any, each sample
    is such a call, which begins as cold as the link leaves the board. Where a name of theirs is
    taken, the collector's stands before it: ``PowerMeter.cycles``.

    Args:
        mod: a connected board; or a Firmware, which is started: use the result by ``with`` then.
        dev: the device to measure on: None, the board, its name, or a `DeviceWrapper` of it.
        collectors: names of the board's collectors, `MetricCollector` of the host, or both; a
            `PAPIMetricCollector` counts on the board. None takes all of the board's.
        func_name: the function; may be None when the board has exactly one.
        warmup_iters: calls before the first sample, >= 0.
        number: calls in each sample, >= 1.
        repeat: samples, >= 1.
        min_repeat_ms: shortest time of a sample, in milliseconds; ``number`` grows until one is as
            long, by the rule of `time_evaluator`.

    Returns:
        A callable that takes the function's arguments and returns `Metrics`, which is a dict.

    Raises:
        UsageError: another device; no name where the board has several functions; a number out of
            range; a shortest time without a clock; or a collector whose `Init` failed.
        UnknownNameError: no such function or collector.
    """
    rounds = Rounds(warmup_iters, repeat, number)
    check_ms("min_repeat_ms", min_repeat_ms)
    target = OpenBoard(mod)
    try:
        board = target.board
        check_device(board, dev)
        name = measurable(
            board, _only_function(board) if func_name is None else func_name
        ).info.name
        if min_repeat_ms > 0:
            check_time(board)
        choice = choose(board, collectors)
        choice.collecting.init([board])
    except BaseException:
        target.close()
        raise
    return ProfiledFunction(target, name, choice, rounds, min_repeat_ms)


def _only_function(board: Board) -> str:
    names = [function.name for function in board.dictionary.user_functions if function.measurable]
    if len(names) != 1:
        raise UsageError(
            f"{board.device.name} has {len(names)} functions: {', '.join(names)}.",
            hint="say which: func_name=...",
        )
    return names[0]


def _collected(
    board: Board,
    name: str,
    args: Sequence[object],
    named: Mapping[str, object],
    choice: Choice,
    rounds: Rounds,
) -> Report:
    """Measure with collectors of the host around each sample; of the first pass, if several."""
    gathered: list[Gathered] = []
    windows: list[Windows] = []
    passes = Passes(board, choice.metrics)
    calls_before = board.calls
    with PlacedFunction(board, name, args, named) as placed:
        while (counted := passes.next(placed.call)) is not None:
            calibration = counted.calibration(placed.call, rounds.number)
            for _ in range(rounds.warmup):
                placed.put_back()
                counted.sample(placed.call)
            samples = []
            for _ in range(rounds.repeat):
                placed.put_back()
                if windows:  # a further pass
                    samples.append(counted.sample(placed.call, rounds.number))
                    continue
                with choice.collecting.around(board) as found:
                    samples.append(counted.sample(placed.call, rounds.number))
                gathered.append(found)
            windows.append(counted.windows(samples, calibration))
        result, outputs = placed.call_for_outputs()
    measurement = Measurement(
        name,
        passes.device(windows),
        rounds.number,
        rounds.warmup,
        tuple(windows),
        placed.arguments.text,
        flags=board.flags,
        libc=board.libc,
        result=result,
        result_type=placed.remote.signature.result,
        outputs=outputs,
        kept=tuple(array.name for array in placed.arguments.arrays if array.is_kept),
        sent_again=placed.why_again,
        parts=board.parts,
        formulas=board.formulas,
        compilers=board.compilers,
        calls_before=calls_before,
    )
    return _with_gathered(assemble([measurement]), gathered)


def _with_gathered(report: Report, gathered: Sequence[Gathered]) -> Report:
    """Add what was gathered around each sample to the sample's first row, which is the CPU's."""
    rows: list[Row] = [dict(row) for row in report.calls]
    columns = columns_for(gathered, (name for row in rows for name in row))
    per_sample = len(rows) // len(gathered)
    for row, found in zip(rows[::per_sample], gathered, strict=True):
        for label, metrics in found.items():
            row |= {columns[label, name]: metric for name, metric in metrics.items()}
    return Report(rows, report.device_metrics, report.configuration, report.extra)


def _middle(report: Report) -> Metrics:
    """Return the metrics of the middle sample, those of the board's other parts included."""
    rows: list[Row] = list(report.calls)
    device = rows[0]["Device"]
    starts = [index for index, row in enumerate(rows) if row["Device"] == device]
    reference = next((name for name in _REFERENCES if name in rows[0]), None)
    sizes = [0.0 if reference is None else _size(rows[start].get(reference)) for start in starts]
    middle = sorted(range(len(starts)), key=sizes.__getitem__)[(len(starts) - 1) // 2]
    metrics: Row = {}
    for row in rows[starts[middle] : (*starts, len(rows))[middle + 1]]:
        for name, metric in row.items():
            if name in _OF_ROWS or (name == "Count" and metric == Count(1)):
                continue
            is_taken = name in metrics and name != "Count"
            metrics[f"{row['Device']}.{name}" if is_taken else name] = metric
    return Metrics(metrics, report)


def _size(metric: Metric | None) -> float:
    if isinstance(metric, Duration):
        return metric.microseconds
    return float(metric.value) if isinstance(metric, Count) else 0.0
