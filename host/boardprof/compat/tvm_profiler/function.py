# SPDX-License-Identifier: Apache-2.0
"""TVM's way to profile one function, over any transport."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Self

from boardprof.base.errors import UsageError
from boardprof.base.metrics import Count, Duration, Metric
from boardprof.compat.tvm_profiler.board_calls import (
    Collector,
    Module,
    board_of,
    bound_call,
    check_device,
    choose,
    observed_sample,
    observed_value,
    planned_passes,
)
from boardprof.compat.tvm_profiler.host_collectors import Collecting, Gathered, columns_for
from boardprof.compat.tvm_profiler.timing import (
    LIMIT_ZERO,
    Stopwatch,
    check_ms,
    check_time,
    time_long_enough,
)
from boardprof.measure.board.board import Board
from boardprof.measure.sampling.counted_pass import UNMASKED, CountedCalls, CountedPass
from boardprof.measure.sampling.measure_function import Rounds
from boardprof.results.report.assemble import assemble
from boardprof.results.report.calls import DURATION, Row
from boardprof.results.report.measurement import Measurement, PassResult
from boardprof.results.report.report import Report
from boardprof_protocol.codes import MeasureFlag

_OF_ROWS = ("Name", "Device", "Percent", "Argument Shapes", "Flags")
"""Columns of a Report that identify a row and are not metrics."""

_REFERENCES = (DURATION, "instructions", "ticks", "cycles")
"""Metrics by which samples are ordered: the first available one."""


class Metrics(dict[str, Metric]):
    """Metric name -> metric, as TVM's profiled functions return it.

    With several samples, these are the metrics of one real sample: the median one (the lower of
    two) by Duration, else by instructions, ticks or cycles. So all values belong together. With
    ``number`` > 1 they are totals of that many calls; ``Count`` is the number.

    Attributes:
        report: all samples, with the board's totals, configuration and raw data.
    """

    report: Report

    def __init__(self, metrics: Mapping[str, Metric], report: Report) -> None:
        """Take the metrics of one sample of a report."""
        super().__init__(metrics)
        self.report = report


@dataclass(eq=False, repr=False)
class ProfiledFunction:
    """The result of `profile_function`: call it with the function's arguments."""

    board: Board
    name: str
    _chosen: tuple[str, ...] | None  # as `Board.measure` takes it
    _collecting: Collecting
    _rounds: Rounds
    _min_repeat_ms: float
    _masks: bool
    _opened: ExitStack  # with the board, if it was started for this

    def __call__(self, *args: object, **named: object) -> Metrics:
        """Measure the function with these arguments.

        In/out arrays begin each sample with the caller's values. Afterwards they hold the result of
        one extra call.

        Raises:
            UsageError: the arguments do not fit, or a host collector failed; the message names it.
            DeviceError, LinkError: see ``Board.profile``.
        """
        with self.board.session.exclusive(self.name):
            return self._metrics(args, named)

    def _metrics(self, args: Sequence[object], named: Mapping[str, object]) -> Metrics:
        rounds = self._rounds
        if self._min_repeat_ms > 0:
            rounds = Rounds(rounds.warmup, rounds.repeat, self._number(args, named))
        if self._collecting:
            return _middle(self._collected(args, named, rounds))
        measurement = self.board.measure(
            self.name,
            *args,
            metrics=self._chosen,
            warmup=rounds.warmup,
            repeat=rounds.repeat,
            number=rounds.number,
            named=named,
            mask_interrupts=self._masks,
        )
        return _middle(assemble([measurement]))

    def _number(self, args: Sequence[object], named: Mapping[str, object]) -> int:
        """Return the number of calls with which a sample is long enough."""
        call, placement = bound_call(self.board, self.name, args, named)
        with placement:
            watch = Stopwatch(call, placement, mask_interrupts=self._masks)
            watch.warm_up()
            number, _ = time_long_enough(
                watch.timed,
                self._rounds.number,
                self._min_repeat_ms,
                LIMIT_ZERO,
                may_grow=lambda: not watch.is_ambiguous,
            )
        return number

    def _collected(
        self, args: Sequence[object], named: Mapping[str, object], rounds: Rounds
    ) -> Report:
        """Measure with host collectors around each sample of the first pass."""
        board, name, collecting = self.board, self.name, self._collecting
        passes = planned_passes(board, self._chosen, mask_interrupts=self._masks)
        gathered: list[Gathered] = []
        windows: list[PassResult] = []
        calls_before, number = board.calls_before, rounds.number
        call, placement = bound_call(board, name, args, named)
        info, arguments = call.function.info, placement.arguments
        inputs_crc32 = arguments.inputs_crc32()

        def sample(
            counted: CountedPass, number: int = 1, flags: MeasureFlag | None = None
        ) -> CountedCalls:
            placement.send_again()
            return observed_sample(counted, call, placement.call(info), number, flags)

        with placement:
            while counted := passes.next(lambda counted: counted.try_out(placement.call(info))):
                calibration = counted.calibration_samples(placement.call(info), number)
                for _ in range(rounds.warmup):
                    sample(counted, flags=UNMASKED)
                if counted.needs_trial:
                    sample(counted, number, UNMASKED)
                taken = []
                for _ in range(rounds.repeat):
                    if windows:  # another pass
                        taken.append(sample(counted, number))
                        continue
                    with collecting.around(board) as metrics:
                        taken.append(sample(counted, number))
                    gathered.append(metrics)
                windows.append(counted.result(taken, calibration))
            value, outputs = placement.call_for_outputs(
                lambda: observed_value(call, placement.call(info))
            )
            result = call.function.reported(value, placement, outputs)
        measurement = Measurement(
            name,
            passes.device(windows),
            number,
            rounds.warmup,
            tuple(windows),
            arguments=arguments.text,
            result=result,
            result_type=call.function.signature.result,
            outputs=outputs,
            kept=tuple(array.name for array in arguments.arrays if array.is_kept),
            changed=placement.changed,
            sent_again=placement.why_again,
            interrupts=board.link.interrupts_during(windows, masked=self._masks),
            inputs_crc32=inputs_crc32,
        )
        measurement = board.described(measurement, calls_before)
        return _with_gathered(assemble([measurement]), gathered)

    def close(self) -> None:
        """Stop the board, if it was started for this."""
        self._opened.close()

    def __enter__(self) -> Self:
        """Return this object."""
        return self

    def __exit__(self, *_: object) -> None:
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
    mask_interrupts: bool = False,
) -> ProfiledFunction:
    """Wrap a board's function so that calling it measures it.

    The names, their order and the defaults are those of ``tvm.runtime.profiling``; unlike TVM's, it
    works over RPC, and there is a Duration if the board has a real clock::

        fir = profile_function(board, None, ["cycles", PowerMeter()], "fir")
        print(fir(x, h, y, 256)["cycles"])

    The board counts in windows around the call alone, corrected by the calibration. Host collectors
    run around the board's call, see `MetricCollector`. With host collectors, each sample is a
    separate request, which begins as cold as the link leaves the board. If a metric's name is
    taken, it gets the collector's name in front: ``PowerMeter.cycles``.

    Args:
        mod: a connected board; or a Firmware, which is started: then use the result in a ``with``.
        dev: the device to measure on: None, the board, its name, or a `DeviceWrapper` of it.
        collectors: names of the board's collectors or metrics, `MetricCollector` of the host, or
            both; a `PAPIMetricCollector` counts on the board. None takes all of the board's, and an
            empty list the time, or on a simulated clock instructions, else ticks.
        func_name: the function; may be None when the board has exactly one.
        warmup_iters: calls before the first sample, >= 0.
        number: calls in each sample, >= 1.
        repeat: samples, >= 1.
        min_repeat_ms: shortest time of a sample, in milliseconds; ``number`` grows until a sample
            takes that long, by the rule of `time_evaluator`.
        mask_interrupts: mask interrupts within the windows of samples; see ``Board.profile``.

    Returns:
        A callable that takes the function's arguments and returns `Metrics`, which is a dict.

    Raises:
        UsageError: another device; no name although the board has several functions; a number out
            of range; a shortest time without a clock; interrupts that the board cannot mask; or a
            collector whose `Init` failed.
        UnknownNameError: no such function or collector.
    """
    rounds = Rounds(warmup_iters, repeat, number)
    check_ms("min_repeat_ms", min_repeat_ms)
    with ExitStack() as opened:
        board = board_of(mod, opened)
        check_device(board, dev)
        name = board.measurable(_only_function(board) if func_name is None else func_name).info.name
        if min_repeat_ms > 0:
            check_time(board)
        board.link.flags(mask=mask_interrupts)
        chosen, collecting = choose([board], collectors)
        collecting.init([board])
        masks = mask_interrupts
        return ProfiledFunction(
            board, name, chosen[board], collecting, rounds, min_repeat_ms, masks, opened.pop_all()
        )


def _only_function(board: Board) -> str:
    names = [function.name for function in board.dictionary.user_functions if function.measurable]
    if len(names) != 1:
        raise UsageError(
            f"{board.device.name} has {len(names)} functions: {', '.join(names)}.",
            hint="say which: func_name=...",
        )
    return names[0]


def _with_gathered(report: Report, gathered: Sequence[Gathered]) -> Report:
    """Add the gathered metrics of each sample to its first row, which is the CPU's."""
    rows: list[Row] = [dict(row) for row in report.calls]
    columns = columns_for(gathered, (name for row in rows for name in row))
    per_sample = len(rows) // len(gathered)
    for row, found in zip(rows[::per_sample], gathered, strict=True):
        for label, metrics in found.items():
            row |= {columns[label, name]: metric for name, metric in metrics.items()}
    return Report(rows, report.device_metrics, report.configuration, record=report.record)


def _middle(report: Report) -> Metrics:
    """Return the metrics of the median sample, including the board's other parts."""
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
