# SPDX-License-Identifier: Apache-2.0
"""Counters of single calls: of the call alone where the board can, else of a window around it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from boardprof.board.counting import CALIBRATION_SAMPLES
from boardprof.board.pass_queue import ProgrammedPass
from boardprof.board.window import Window
from boardprof.decode.samples import Reading, Sample
from boardprof.errors import RpcError, UsageError
from boardprof.metrics import Metric
from boardprof.report.counter_metrics import computed, metrics_of
from boardprof.report.measurement import Measurement, clock_of
from boardprof.trace.device_spans import RawSpan, sample_spans, tick_counter, window_span
from boardprof.trace.records import Record
from boardprof.trace.unsupported import NotSupportedByAgentError
from boardprof_protocol.codes import ErrorCode, MeasureFlag

if TYPE_CHECKING:
    from boardprof.board.board import Board
    from boardprof.board.functions import RemoteFunction
    from boardprof.board.observing import Value
    from boardprof.board.passes import Pass

__all__ = ["CallCounters"]

_TOLD_OTHERWISE = "a profile within this one has told programmable counters something else"


class CallCounters:
    """What is counted of each call of one board.

    A function is called as one sample of a measurement: its counters are read on the board around
    nothing but the call, and corrected by a calibration. Agents without open windows, and older
    ones, return no result of what they measure, as the calibration shows; and within another
    profile the call is that one's. Such calls are made as always, in a window that the host opens
    and closes: the agent's work, and its waiting for the line, are in those counts.
    """

    def __init__(self, board: Board, metrics: Sequence[str]) -> None:
        """Choose the collectors, and tell the programmable ones what to count.

        Args:
            board: with an open session.
            metrics: names of counters, events or formulas.

        Raises:
            UnknownNameError: the board has no such metric.
            UsageError: it does not count it, or not all of them at once.
        """
        self._board = board
        self._asked = tuple(metrics)
        passes = board.offer.passes(metrics)
        if len(passes) > 1:
            raise UsageError(
                f"{board.device.name} does not count {', '.join(metrics)} at once, and a call is "
                "made once.",
                hint="fewer metrics; board.profile(..., metrics=[...]) makes several passes",
            )
        self._pass = _programmed(board, passes[0])
        self._selection = self._pass.selection
        self._collectors = self._selection.collectors
        self._calibrations: dict[int, tuple[Sample, ...]] = {}
        self._returns: bool | None = None  # whether the agent returns results of what it measures

    @property
    def read_a_clock(self) -> bool:
        """Whether any of them has a rate: it says when a call was."""
        return any(
            counter.hz and counter.name in self._selection.counters
            for collector in self._collectors
            for counter in collector.counters
        )

    def through(
        self, record: Record, function: RemoteFunction, value: Value, is_plain: bool
    ) -> Value:
        """Return what makes a call and counts; the record has the counts afterwards.

        Args:
            record: of the call.
            function: that is called.
            value: makes the call.
            is_plain: and does nothing else.

        Raises:
            NotSupportedByAgentError: the agent holds no windows open, and it takes one.
        """
        is_returned = self._returns is not False or function.signature.result == "void"
        if is_plain and function.info.measurable and is_returned:
            return self._measured(record, function, value)
        return self._in_windows(record, value)

    # -- measured by the board ------------------------------------------------------------------

    def _measured(self, record: Record, function: RemoteFunction, value: Value) -> Value:
        is_void = function.signature.result == "void"
        wanted = MeasureFlag(0) if is_void else MeasureFlag.RESULT

        def call(function_id: int, packed: bytes, count: int, name: str) -> object:
            run = self._pass.sampling(function.info, (packed, count), 1)
            if function_id not in self._calibrations:
                empty = run.samples(MeasureFlag.EMPTY | wanted, 1, CALIBRATION_SAMPLES)[0]
                self._calibrations[function_id] = empty
                self._returns = self._returns if is_void else run.returns
            if not is_void and not self._returns:
                return self._in_windows(record, value)(function_id, packed, count, name)
            samples, totals = run.samples(wanted, 0, 1)
            windows = self._pass.windows(samples, self._calibrations[function_id], totals)
            self._note_sample(record, Measurement(name, self._board.device, 1, 0, (windows,)))
            return run.result

        return call

    def _note_sample(self, record: Record, measurement: Measurement) -> None:
        (sample,) = measurement.samples
        nets = {name: measurement.net(sample, name) for name in measurement.counters}
        record.metrics = self._metrics(nets, sample.readings)
        record.spans = tuple(sample_spans(measurement, self._pass.layouts))

    def note_measurement(self, record: Record, measurement: Measurement) -> None:
        """Give a measurement's record the sums over its samples, of what is counted of calls."""
        counted = [name for name in measurement.counters if name in self._selection.counters]
        samples = measurement.samples
        nets = {name: sum(measurement.net(s, name) for s in samples) for name in counted}
        record.metrics = self._metrics(nets, samples[0].readings)

    # -- in windows of the host's ---------------------------------------------------------------

    def _check_windows(self, function: str) -> None:
        offered = {each.name for each in self._board.dictionary.functions}
        for collector in self._collectors:
            if f"{collector.name}.start" not in offered:
                raise NotSupportedByAgentError(
                    f"metrics={list(self._asked)} of calls of {function}, which has a result,",
                    f"that of {self._board.device.name} holds no windows open",
                    hint="set open_windows in [build] config of its board.toml, or measure it by "
                    "board.profile",
                )

    def _in_windows(self, record: Record, value: Value) -> Value:
        def call(function_id: int, packed: bytes, count: int, name: str) -> object:
            self._check_windows(name)
            self._pass.renew()
            with self._around(record):
                return value(function_id, packed, count, name)

        return call

    @contextmanager
    def _around(self, record: Record) -> Iterator[None]:
        windows: list[Window] = []
        with ExitStack() as stack:
            for collector in self._collectors:
                windows.append(stack.enter_context(self._opened(collector.name)))
            yield
        readings = {n: r for window in windows for n, r in window.readings.items()}
        wanted = {n: r for n, r in readings.items() if n in self._selection.counters}
        record.metrics = self._metrics({n: r.value for n, r in wanted.items()}, wanted)
        record.is_raw = True
        if not all(window.blob for window in windows):
            record.args["not counted"] = _TOLD_OTHERWISE
        record.spans = tuple(self._spans(record.name, windows, wanted))

    @contextmanager
    def _opened(self, collector: str) -> Iterator[Window]:
        window = self._board.window(collector)
        try:
            window.start()
        except RpcError as error:
            if error.code != ErrorCode.NO_MEMORY:
                raise
            raise UsageError(
                f"{self._board.device.name} holds fewer windows open than the "
                f"{len(self._collectors)} that {', '.join(self._asked)} take.",
                hint="fewer metrics, or set open_windows in [build] config of its board.toml",
            ) from error
        try:
            yield window
        except BaseException as error:
            window.__exit__(type(error), error, error.__traceback__)
            raise
        try:
            window.stop()
        except RpcError as error:
            # The board closes the windows of slots that are told something else, as by a profile
            # within this one. They have no readings then.
            if error.code != ErrorCode.BAD_HANDLE or self._pass.is_programmed:
                raise

    def _metrics(
        self, values: Mapping[str, int], readings: Mapping[str, Reading]
    ) -> dict[str, Metric]:
        clock = clock_of(readings, self._board.device.clock_kind)
        metrics: dict[str, Metric] = {}
        for name, value in values.items():
            metrics |= metrics_of(name, value, readings[name], clock)
        for name in self._asked:
            kind, formula = self._board.formulas.get(name, ("", None))
            found = None if formula is None else formula.value(values)
            if found is not None:
                metrics[name] = computed(kind, found)
        return metrics

    def _spans(
        self, name: str, windows: Sequence[Window], readings: Mapping[str, Reading]
    ) -> Iterator[RawSpan]:
        board = self._board
        counter = tick_counter(readings, board.device)
        for window, collector in zip(windows, self._collectors, strict=True):
            if counter is not None and counter in window.readings:
                span = window_span(
                    name,
                    readings[counter],
                    window.blob,
                    collector,
                    counter,
                    board.layouts,
                    board.device,
                )
                if span is not None:
                    yield span


def _programmed(board: Board, chosen: Pass) -> ProgrammedPass:
    """Tell the programmable collectors what to count.

    Raises:
        UsageError: the board refuses an event.
    """
    slots = chosen.slots(board.offer.programmable)
    for name, why in ((n, w) for each in slots for n, w in each.refused.items()):
        raise UsageError(f"{board.device.name} does not count {name} beside the others: {why}.")
    return ProgrammedPass(board, chosen, slots, chosen.selection(slots))
