# SPDX-License-Identifier: Apache-2.0
"""Counters of single calls: of the call alone if the board can, else of a window around it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from boardprof.base.errors import RpcError, UsageError, agent_option
from boardprof.base.metrics import Metric
from boardprof.compat.torch.board_activity import sample_spans, window_spans
from boardprof.compat.torch.host_events import HostEvent
from boardprof.compat.torch.settings import NotSupportedByAgentError
from boardprof.measure.board.board import Board
from boardprof.measure.board.functions import RemoteFunction
from boardprof.measure.sampling.board_link import BoardLink, Window
from boardprof.measure.sampling.counted_pass import CountedPass, PackedCall, Value
from boardprof.results.report.measurement import (
    Measurement,
    clock_of,
    computed,
    interrupts_in,
    metrics_of,
)
from boardprof.wire.decode.samples import Reading
from boardprof_protocol.codes import ErrorCode, MeasureFlag

_NOT_MASKED = "not masked: the window contains more than the function"
_TOLD_OTHERWISE = "a profile within this one has reprogrammed the counters"


class CallCounters:
    """The counters of each call of one board."""

    # A function is called as one sample of a measurement. The board reads its counters around the
    # call alone, and a calibration corrects them. Agents without open windows, and older ones, do
    # not return a result of what they measure, as the calibration shows. Within another profile,
    # the call belongs to that one. Such calls are made normally, in a window that the host opens
    # and closes. Their counts include the agent's work and its wait for the link.

    def __init__(
        self,
        board: Board,
        metrics: Sequence[str],
        *,
        mask_interrupts: bool = False,
        only_alone: bool = False,
    ) -> None:
        """Choose the collectors and program the programmable ones.

        ``only_alone``: a call that needs a window is made without counting.
        """
        flags = _flags(board.link, mask_interrupts)
        self._board = board
        self._asked = tuple(metrics)
        self._only_alone = only_alone
        passes = board.offer.passes(metrics)
        if len(passes) > 1:
            raise UsageError(
                f"{board.device.name} cannot count {', '.join(metrics)} at once, and a call is "
                "made only once.",
                hint="fewer metrics; board.profile(..., metrics=[...]) makes several passes",
            )
        slots = passes[0].slots(board.offer.programmable)
        for name, why in {n: w for each in slots for n, w in each.refused.items()}.items():
            raise UsageError(
                f"{board.device.name} cannot count {name} together with the others: {why}."
            )
        self._selection = passes[0].selection(slots)
        self._collectors = self._selection.collectors
        selection = self._selection.with_all_of(board.link.hooks)
        self._pass = CountedPass(board.link, slots, selection, flags, passes[0].slots)
        self._calibrated: set[int] = set()
        self._returns: bool | None = None  # whether the agent returns results of what it measures

    @property
    def read_a_clock(self) -> bool:
        """Whether any of them is a clock, which tells when a call was."""
        return any(
            counter.hz and counter.name in self._selection.counters
            for collector in self._collectors
            for counter in collector.counters
        )

    def through(
        self, record: HostEvent, function: RemoteFunction, value: Value, is_plain: bool
    ) -> Value:
        """Return a function that makes a call and counts; the record has the counts afterwards."""
        # ``is_plain``: ``value`` does nothing but make the call. It raises NotSupportedByAgentError
        # if a window is needed, and the agent cannot keep windows open.
        is_returned = self._returns is not False or function.signature.result == "void"
        if is_plain and function.info.measurable and is_returned:
            return self._measured(record, function, value)
        return self._in_windows(record, value)

    # -- measured by the board ------------------------------------------------------------------

    def _measured(self, record: HostEvent, function: RemoteFunction, value: Value) -> Value:
        is_void = function.signature.result == "void"
        wanted = MeasureFlag(0) if is_void else MeasureFlag.RESULT

        def call(function_id: int, content: bytes, count: int, name: str) -> object:
            packed = PackedCall(function.info, content, count)
            if function_id not in self._calibrated:
                found = self._pass.calibrate(packed, wanted=wanted)
                self._returns = self._returns if is_void else found.returned
                self._calibrated.add(function_id)
            if not is_void and not self._returns:
                return self._in_windows(record, value)(function_id, content, count, name)
            taken = self._pass.take(packed, 0, 1, flags=wanted | self._pass.flags)
            self._note_sample(record, self._pass.measurement(packed, taken))
            return taken.result

        return call

    def _note_sample(self, record: HostEvent, measurement: Measurement) -> None:
        (sample,) = measurement.samples
        if interrupts_in(sample):
            record.args["interrupts"] = interrupts_in(sample)
        self.note_measurement(record, measurement)
        record.device_spans = tuple(sample_spans(measurement, self._pass.layouts))

    def note_measurement(self, record: HostEvent, measurement: Measurement) -> None:
        """Add the sums of the call counters over a measurement's samples to its record."""
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
                    f"that of {self._board.device.name} cannot keep windows open",
                    hint=f"compile the agent with {agent_option('open_windows', 8)}, or measure "
                    "it by board.profile",
                )

    def _in_windows(self, record: HostEvent, value: Value) -> Value:
        if self._only_alone:
            return value

        def call(function_id: int, packed: bytes, count: int, name: str) -> object:
            self._check_windows(name)
            self._pass.renew()
            with self._around(record):
                return value(function_id, packed, count, name)

        return call

    @contextmanager
    def _around(self, record: HostEvent) -> Iterator[None]:
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
        if self._pass.flags:
            record.args["interrupts"] = _NOT_MASKED
        blobs = zip(self._collectors, (window.blob for window in windows), strict=True)
        board = self._board
        record.device_spans = tuple(
            window_spans(record.name, blobs, wanted, board.device, board.link.layouts)
        )

    @contextmanager
    def _opened(self, collector: str) -> Iterator[Window]:
        window = self._board.collectors[collector]
        try:
            window.start()
        except RpcError as error:
            if error.code != ErrorCode.NO_MEMORY:
                raise
            raise UsageError(
                f"{self._board.device.name} can keep fewer windows open than the "
                f"{len(self._collectors)} that {', '.join(self._asked)} need.",
                hint="fewer metrics, or compile the agent with a larger "
                f"{agent_option('open_windows')}",
            ) from error
        try:
            yield window
        except BaseException as error:
            window.__exit__(type(error), error, error.__traceback__)
            raise
        try:
            window.stop()
        except RpcError as error:
            # The board closes the windows of reprogrammed slots, for example by a profile within
            # this one. They have no readings then.
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
            kind, formula = self._board.offer.formulas.get(name, ("", None))
            found = None if formula is None else formula.value(values)
            if found is not None:
                metrics[name] = computed(kind, found)
        return metrics


def _flags(link: BoardLink, mask_interrupts: bool) -> MeasureFlag:
    flags = link.flags(mask=mask_interrupts)
    if flags and link.interrupts is not None and link.interrupts.needs_trial:
        raise UsageError(
            f"{link.device.name} cannot mask interrupts of a single call until a call with "
            "interrupts on has ended.",
            hint="leave mask_interrupts out, or measure the function by board.profile",
        )
    return flags
