# SPDX-License-Identifier: Apache-2.0
"""One set of counters around calls of functions: calibration, samples, the cost of interrupts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import msgpack

from boardprof.base.errors import (
    DeviceCounterError,
    DeviceError,
    DeviceTimeoutError,
    FrameError,
    RpcError,
    longer,
    option,
)
from boardprof.measure.energy import matched
from boardprof.measure.meter import MarkedWindow, Meter
from boardprof.measure.sampling.board_link import BoardInterrupts, BoardLink
from boardprof.measure.sampling.programmable import Programmable, Slots
from boardprof.results.report.measurement import (
    HOOKED,
    TICKS,
    Measurement,
    PassResult,
    interrupt_costs,
    without_costs,
)
from boardprof.wire.decode.dictionary import CollectorInfo, FunctionInfo
from boardprof.wire.decode.samples import MANY, Sample, decode_batch, decode_samples
from boardprof_protocol.codes import BuiltIn, ErrorCode, MeasureFlag
from boardprof_protocol.layout import Layout

CALIBRATION_SAMPLES = 9
"""Windows around the empty function; their median is subtracted."""

_TRIGGERED = 8
"""Empty interrupts in a window, so that a clock's step is small compared with their cost."""

Prepare = Callable[[], None]
"""Called before each round. Each round is then a separate request."""

Value = Callable[[int, bytes, int, str], object]
"""`Session.value`."""

UNMASKED = MeasureFlag(0)
"""Flags of windows with interrupts on."""


@dataclass(frozen=True)
class Selection:
    """The collectors to run in one pass, and the wanted ones of their counters."""

    collectors: tuple[CollectorInfo, ...]
    counters: frozenset[str]

    @property
    def mask(self) -> int:
        """The collectors in the form of ``bp.measure``: bit i is collector i."""
        return sum(1 << collector.index for collector in self.collectors)

    def without_last(self) -> Selection:
        """Leave out the last collector, for an agent that cannot run this many in one pass."""
        *kept, left_out = self.collectors
        names = {counter.name for counter in left_out.counters}
        return Selection(tuple(kept), self.counters - names)

    def with_all_of(self, collectors: Sequence[CollectorInfo]) -> Selection:
        """Add collectors with all of their counters, unless nothing runs at all."""
        more = [each for each in collectors if each not in self.collectors]
        if not self.collectors or not collectors:
            return self
        names = {counter.name for each in collectors for counter in each.counters}
        active = sorted((*self.collectors, *more), key=lambda each: each.index)
        return Selection(tuple(active), self.counters | names)

    def keep(self, sample: Sample) -> Sample:
        """Leave out readings that are unsupported or not wanted; the blobs stay complete."""
        if sample.readings.keys() <= self.counters:
            return sample
        readings = {name: r for name, r in sample.readings.items() if name in self.counters}
        return Sample(readings, sample.raw)


@dataclass(frozen=True)
class PackedCall:
    """A function and its arguments, packed for the wire."""

    function: FunctionInfo
    content: bytes  # the arguments in msgpack
    count: int  # number of arguments

    def execute(self, value: Value) -> object:
        """Make the call through `Session.value` or its replacement; return the result."""
        return value(self.function.id, self.content, self.count, self.function.name)


@dataclass(frozen=True)
class CountedCalls:
    """The result of one request, or of several in a row."""

    samples: tuple[Sample, ...]  # net of the cost of interrupts outside their hooks
    # from before the first to after the last sample, one for each request
    totals: tuple[Sample, ...]
    elapsed_s: float  # wall time of the last request
    returned: bool  # whether the board has sent `result`; agents without open windows do not
    result: object
    windows: tuple[MarkedWindow, ...] = ()  # of the samples; empty without a meter


class CountedPass:
    """A set of counters that the board is programmed for."""

    def __init__(
        self,
        link: BoardLink,
        slots: Sequence[Slots],
        selection: Selection,
        flags: MeasureFlag,
        program: Callable[[Sequence[Programmable]], object],
    ) -> None:
        """Take the pass that `PassQueue.next` programmed; ``program`` programs its slots again."""
        self.link = link
        self.selection = selection
        self.flags = flags
        self._slots = slots
        self._program = program
        # with the names of programmed events
        self.layouts: dict[int, Layout] = {
            **link.layouts,
            **{each.collector.schema_id: each.layout for each in slots},
        }
        self._costs: dict[str, float] | None = {} if flags & MeasureFlag.MASK else None
        self._calibrations: dict[tuple[int, int], CountedCalls] = {}

    @property
    def is_programmed(self) -> bool:
        """Whether the slots still count this pass, and were not programmed for another."""
        current = [each.current for each in self.link.programmable]
        return all(slots in current for slots in self._slots)

    def renew(self) -> None:
        """Program the slots again if they were programmed for something else."""
        if not self.is_programmed:
            self._program(self.link.programmable)

    @property
    def needs_trial(self) -> bool:
        """Whether an unmasked window must have ended, soon enough, before one is masked."""
        known = self.link.interrupts if self.flags & MeasureFlag.MASK else None
        return known is not None and known.needs_trial

    def try_out(self, call: PackedCall) -> None:
        """Check that the agent can run all collectors at once; the function is not called."""
        self.take(call, 0, 1, flags=MeasureFlag.EMPTY)

    def calibrate(
        self,
        call: PackedCall,
        number: int = 1,
        *,
        warmup: int = 1,
        samples: int = CALIBRATION_SAMPLES,
        prepare: Prepare | None = None,
        wanted: MeasureFlag = UNMASKED,
        on_done: Callable[[int], None] | None = None,
    ) -> CountedCalls:
        """Measure the overhead with an empty function, and an interrupt's cost once; see `take`."""
        is_first = self._costs is None
        flags = MeasureFlag.EMPTY | self.flags | wanted
        found = self.take(
            call, warmup, samples, number, flags=flags, prepare=prepare, on_done=on_done
        )
        if is_first:
            self._costs = self._interrupt_costs(call)
            found = self._without_costs(found)
        self._calibrations[call.function.id, number] = found
        return found

    def calibration_samples(self, call: PackedCall, number: int = 1) -> tuple[Sample, ...]:
        """Return the windows around the empty function; they are taken once."""
        # On a real clock, each window comes after the same work of the link as a sample's window.
        # On a simulated clock that makes no difference, and all windows are one request.
        known = self._calibrations.get((call.function.id, number))
        if known is None:
            apart = (lambda: None) if self.link.is_real_time else None
            known = self.calibrate(call, number, prepare=apart)
        return known.samples

    def take(
        self,
        call: PackedCall,
        warmup: int,
        repeat: int,
        number: int = 1,
        *,
        flags: MeasureFlag | None = None,
        prepare: Prepare | None = None,
        on_done: Callable[[int], None] | None = None,
        meter: Meter | None = None,
        batches: list[CountedCalls] | None = None,
    ) -> CountedCalls:
        """Call a function and count; ``on_done`` is called with the number of rounds done.

        ``prepare`` is called before each round, also of a warm-up call. Each round is then its own
        request, so that all begin after the same work of the link. ``batches`` gets what each
        request has brought, also before one that fails.
        """
        flags = self.flags if flags is None else flags
        self.renew()
        batches = [] if batches is None else batches
        if prepare is None:
            for batch in self._in_batches(call, flags, warmup, repeat, number, on_done, meter):
                batches.append(batch)
        else:
            for done in range(warmup + repeat):
                prepare()
                if done < warmup:
                    self._request(call, flags, 0, 1, 1)
                else:
                    batches.append(self._request(call, flags, 0, 1, number, meter=meter))
                if on_done is not None:
                    on_done(done + 1)
        return self.joined(batches)

    def joined(self, batches: Sequence[CountedCalls]) -> CountedCalls:
        """Return what several requests in a row have brought."""
        found = replace(
            batches[-1],
            samples=tuple(sample for batch in batches for sample in batch.samples),
            totals=tuple(total for batch in batches for total in batch.totals),
            windows=tuple(window for batch in batches for window in batch.windows),
        )
        return self._without_costs(found)

    def _in_batches(
        self,
        call: PackedCall,
        flags: MeasureFlag,
        warmup: int,
        repeat: int,
        number: int,
        on_done: Callable[[int], None] | None,
        meter: Meter | None,
    ) -> Iterator[CountedCalls]:
        """Take samples: a board sends as many in a reply as its buffer holds."""
        done = samples = 0
        while samples < repeat:
            # The link's work between requests has cooled the caches: one call warms them again.
            warm = min(warmup, 1) if samples else warmup
            batch = self._request(
                call, flags, warm, repeat - samples, number, _after(on_done, done), meter
            )
            done += len(batch.samples) + (0 if samples else warmup)
            samples += len(batch.samples)
            if on_done is not None:
                on_done(done)
            yield batch

    def check_unmasked(self, call: PackedCall, taken: CountedCalls) -> None:
        """Check that masked windows as long as these unmasked ones are not too long."""
        known = self.link.interrupts
        if self.flags & MeasureFlag.MASK and known is not None:
            for sample in taken.samples:
                known.check_window(call.function.name, sample.readings)

    def result(
        self, taken: Sequence[CountedCalls], calibration_samples: tuple[Sample, ...]
    ) -> PassResult:
        """Return what this pass has counted of one function."""
        samples = tuple(sample for each in taken for sample in each.samples)
        totals = tuple(total for each in taken for total in each.totals)
        active = {collector.name for collector in self.selection.collectors}
        events = {s.collector.name: s.events for s in self._slots if s.collector.name in active}
        costs: Mapping[str, float] = self._costs or {}
        mask = self.selection.mask
        user_only = tuple(name for each in self._slots for name in each.user_only)
        return PassResult(samples, calibration_samples, totals, mask, events, costs, user_only)

    def measurement(self, call: PackedCall, taken: CountedCalls, number: int = 1) -> Measurement:
        """Return ``taken`` as a measurement of its own."""
        found = self.result([taken], self.calibration_samples(call, number))
        return Measurement(call.function.name, self.link.device, number, 0, (found,))

    def _without_costs(self, taken: CountedCalls) -> CountedCalls:
        costs = self._costs
        if not costs:  # there are none, or they are not known yet
            return taken
        return replace(taken, samples=tuple(without_costs(each, costs) for each in taken.samples))

    def _interrupt_costs(self, call: PackedCall) -> dict[str, float]:
        """Measure the cost of an interrupt outside its hooks, if the board can trigger one."""
        counters = _calibrated_counters(self.link.interrupts, self.selection)
        if not counters:
            return {}
        triggered, masked = (
            self.take(
                call, 1, CALIBRATION_SAMPLES, _TRIGGERED, flags=MeasureFlag.EMPTY | flags
            ).samples
            for flags in (MeasureFlag.INTERRUPT, MeasureFlag.INTERRUPT | MeasureFlag.MASK)
        )
        return interrupt_costs(triggered, masked, counters)

    def _request(
        self,
        call: PackedCall,
        flags: MeasureFlag,
        warmup: int,
        repeat: int,
        number: int,
        on_progress: Callable[[int, int], None] | None = None,
        meter: Meter | None = None,
    ) -> CountedCalls:
        """Make one call of ``bp.measure``."""
        session, name = self.link.session, call.function.name

        def check(done: int, total: int) -> None:
            # A board that adds rounds without end would hold the host for ever.
            if total > warmup + repeat:
                raise FrameError(
                    f"The board reported {total:,} rounds of {name} in progress; "
                    f"{warmup + repeat:,} were asked for.",
                    hint="check that it is a boardprof agent",
                )
            if on_progress is not None:
                on_progress(done, total)

        head = (call.function.id, int(flags), warmup, repeat, number, self.selection.mask)
        if meter is not None:
            meter.begin()
        try:
            answer = session.call(
                BuiltIn.MEASURE,
                b"".join(msgpack.packb(value) for value in head) + call.content,
                len(head) + call.count,
                name=name,
                on_progress=check,
            )
        except (DeviceError, RpcError) as error:
            # Another refusal comes before the first call.
            if isinstance(error, DeviceError) or error.code == ErrorCode.CANCELLED:
                self._count_calls(flags, 1, is_all=False)
            if isinstance(error, DeviceCounterError):
                raise self._changed(name, error) from None
            if isinstance(error, DeviceTimeoutError) and number > 1:
                limit = "--wall-timeout" if session.is_closed else "--timeout"
                error.hint = (
                    f"the {number:,} calls of a sample share one limit: lower "
                    f"{option('--number')}, or give {longer(limit, error.limit_s)}"
                )
            raise
        value = answer.value
        if not (isinstance(value, list) and len(value) in (2, 3) and isinstance(value[1], bytes)):
            raise FrameError(f"bp.measure returned {value!r}, not [samples, blobs].")
        *samples, total = (
            self.selection.keep(sample)
            for sample in (decode_batch if repeat >= MANY else decode_samples)(
                value[1],
                self.selection.collectors,
                self.layouts,
                # On a real clock no sample is longer than its request.
                longest_s=answer.elapsed_s if self.link.is_real_time else None,
            )
        )
        if len(samples) != value[0] or not samples:
            raise FrameError(f"bp.measure announced {value[0]} samples and sent {len(samples)}.")
        self._count_calls(flags, warmup + number * len(samples))
        returned = len(value) == 3
        result = value[2] if returned else None
        windows: tuple[MarkedWindow, ...] = ()
        if meter is not None:
            windows = matched(meter, samples, is_real_time=self.link.is_real_time)
        return CountedCalls(tuple(samples), (total,), answer.elapsed_s, returned, result, windows)

    def _count_calls(self, flags: MeasureFlag, calls: int, *, is_all: bool = True) -> None:
        """Count calls of the function; ``is_all``: there were no more."""
        if not flags & MeasureFlag.EMPTY:
            self.link.session.calls += calls
            self.link.session.has_counted &= is_all

    def _changed(self, name: str, error: DeviceCounterError) -> DeviceCounterError:
        """Return an error that names the counters that a function has changed."""
        sources = dict.fromkeys(
            counter.source or counter.name
            for collector in self.selection.collectors
            if collector.schema_id == error.schema_id
            for counter in collector.counters
            if counter.name in self.selection.counters
        )
        longest_us = self.link.interrupts.longest_us if self.link.interrupts else 0
        masked = (
            f", or masked interrupts for more than {longest_us:,} us, so that its wraps were missed"
            if longest_us
            else ""
        )
        return DeviceCounterError(
            f"{name} stopped, set or reprogrammed the counter that measures it: "
            f"{', '.join(sources) or 'a counter of its own'}{masked}. It has no number.",
            code=error.code or 0,
            schema_id=error.schema_id,
            hint="leave that out when the function is measured. The counter is restored, so other "
            "functions are measured as usual",
        )


def _after(on_done: Callable[[int], None] | None, before: int) -> Callable[[int, int], None] | None:
    """Return a callback that adds the rounds done before to those of one request."""
    return None if on_done is None else lambda done, _: on_done(before + done)


def _calibrated_counters(known: BoardInterrupts | None, selection: Selection) -> list[str]:
    """Return the counters for which the cost of an interrupt outside its hooks can be measured."""
    if known is None or not known.triggers or HOOKED not in selection.counters:
        return []
    counters = [
        counter.name
        for each in selection.collectors
        if known.skips >> each.index & 1
        for counter in each.counters
    ]
    return [*counters, TICKS]
