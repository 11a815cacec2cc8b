# SPDX-License-Identifier: Apache-2.0
"""The measurement of one function: samples, calibration, totals, corrected values and metrics."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from boardprof.base.formula import Formula
from boardprof.base.metrics import Count, Duration, Metric, Percent, Ratio
from boardprof.results.record import CallFacts, Device, Interrupts, Stack, devices_by_name
from boardprof.results.report.calls import DURATION, Row
from boardprof.results.report.profile import Profile
from boardprof.wire.decode.samples import Reading, Sample

if TYPE_CHECKING:
    import numpy.typing as npt


def clock_of(readings: Mapping[str, Reading], clock_kind: str) -> str | None:
    """Return the counter of wall time: the system's clock, else the ticks of a real clock."""
    if "duration_time" in readings:
        return "duration_time"
    if clock_kind == "simulated":
        return None
    ticks = (name for name, r in readings.items() if r.unit == "ticks" and r.hz)
    return next(ticks, None)


@dataclass(frozen=True)
class PassResult:
    """The result of one pass over all rounds, with one set of counters."""

    samples: tuple[Sample, ...]  # the measured windows, in order
    calibration_samples: tuple[Sample, ...]  # the same loop around the empty function
    totals: tuple[Sample, ...]  # from before the first to after the last sample, one for each reply
    mask: int = 0  # the collectors of the blobs: bit i is ``device.collectors[i]``
    # what the slots counted, by collector
    events: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # of one interrupt, outside its hooks, by counter; it is in ``outside_hooks`` of the readings
    interrupt_costs: Mapping[str, float] = field(default_factory=dict)
    user_only: tuple[str, ...] = ()  # counters that the system lets count user mode alone

    def changed(self, change: Callable[[Sample], Sample]) -> PassResult:
        """Return the pass with a change to each of its windows."""
        samples, calibration, totals = (
            tuple(map(change, each))
            for each in (self.samples, self.calibration_samples, self.totals)
        )
        return replace(self, samples=samples, calibration_samples=calibration, totals=totals)

    @cached_property
    def counters(self) -> tuple[str, ...]:
        """Names of the counters that were read in every window."""
        every = (*self.samples, *self.calibration_samples, *self.totals)
        return tuple(n for n in self.samples[0].readings if all(n in s.readings for s in every))

    @cached_property
    def overheads(self) -> dict[str, int]:
        """The counts of the empty function's window: the median over the calibration's samples."""
        return {
            name: statistics.median_low(
                [each.readings[name].uninterrupted for each in self.calibration_samples]
            )
            for name in self.counters
        }


@dataclass(frozen=True)
class Cold:
    """The first call of a measurement, before the warm-up: its code and data are not cached."""

    sample: Sample  # of this one call, with the first pass's counters
    overhead: Mapping[str, int]  # what the empty function's window of one call counted, by counter

    @property
    def nets(self) -> dict[str, int]:
        """The counts of the function itself; see `Measurement.net`."""
        return {
            counter: reading.uninterrupted - self.overhead[counter] + reading.own_return
            for counter, reading in self.sample.readings.items()
            if counter in self.overhead
        }


@dataclass(frozen=True)
class Measurement(CallFacts):
    """One function's samples on one board."""

    function: str
    device: Device
    number: int  # calls in each sample
    warmup: int  # calls before the first sample
    passes: tuple[PassResult, ...]  # one for each pass that was needed to count all metrics
    libc: str | None = None  # in the image, or ``none``; None if every image has one, or not known
    added: tuple[str, ...] = ()  # what the build took that was not asked for
    stack: Stack | str | None = None  # or why it is not known; None if not requested
    result: object = None  # of one extra call after the samples; None if absent
    result_type: str = "void"  # as in signatures: ``i32``, ``void``
    # arrays that come back from that extra call, by parameter name
    outputs: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict, compare=False)
    kept: tuple[str, ...] = ()  # arrays and blocks that were not restored between calls
    changed: tuple[str, ...] = ()  # in/out arrays that a call leaves with another content
    sent_again: str = ""  # why the host sent in/out arrays before each round; "" if it did not
    # counter -> its part of the board, if not the CPU
    parts: Mapping[str, str] = field(default_factory=dict)
    # kind and formula of metrics computed from others
    formulas: Mapping[str, tuple[str, Formula]] = field(default_factory=dict)
    cold: Cold | None = None  # the very first call; None if not measured
    profile: Profile | None = None  # None if not recorded

    @cached_property
    def samples(self) -> tuple[Sample, ...]:
        """The samples, each with the readings of all passes and the blobs of the first."""
        if len(self.passes) == 1:
            return self.passes[0].samples
        rows = zip(*(each.samples for each in self.passes), strict=True)
        return tuple(
            Sample({name: r for s in row for name, r in s.readings.items()}, row[0].raw)
            for row in rows
        )

    @cached_property
    def counters(self) -> tuple[str, ...]:
        """Names of the counters that were read."""
        return tuple(dict.fromkeys(name for each in self.passes for name in each.counters))

    @cached_property
    def clock(self) -> str | None:
        """The counter whose value is the Duration; None on a simulated clock."""
        return clock_of(self.samples[0].readings, self.device.clock_kind)

    def overhead(self, counter: str) -> int:
        """The counts of the empty function's window; see `PassResult.overheads`."""
        return self._by_counter[counter].overheads[counter]

    def net(self, sample: Sample, counter: str) -> int:
        """The counts of the function itself, from its first instruction to its return.

        This is ``raw - overhead``, plus the cost of the empty function's own return if it is known
        exactly, minus what interrupts took outside of their hooks.
        """
        reading = sample.readings[counter]
        own = reading.own_return * self.number
        return reading.uninterrupted - self.overhead(counter) + own

    def total(self, counter: str) -> Reading:
        """The counter over the whole run on the board, the agent's work included."""
        readings = [sample.readings[counter] for sample in self._by_counter[counter].totals]
        return replace(
            readings[0],
            value=sum(reading.value for reading in readings),
            wrapped=sum(reading.wrapped for reading in readings),
            ambiguous=any(reading.ambiguous for reading in readings),
            estimated=any(reading.estimated for reading in readings),
        )

    @cached_property
    def nets(self) -> dict[str, list[int]]:
        """The `net` values of each sample, by counter."""
        return {name: [self.net(each, name) for each in self.samples] for name in self.counters}

    @cached_property
    def _by_counter(self) -> dict[str, PassResult]:
        """The first pass that has read each counter."""
        return {name: each for each in reversed(self.passes) for name in each.counters}

    @cached_property
    def reference(self) -> str:
        """The counter for percentages: time, else instructions, else ticks."""
        wanted = (self.clock, "instructions", "ticks", "cycles")
        return next((name for name in wanted if name in self.counters), self.counters[0])

    @cached_property
    def perturbations(self) -> list[float | None]:
        """Overhead of each window in percent; None if the window is empty."""
        raws = [sample.readings[self.reference].value for sample in self.samples]
        nets = self.nets[self.reference]
        return [
            100.0 * (raw - net) / raw if raw else None for raw, net in zip(raws, nets, strict=True)
        ]


def devices_of(measurements: Sequence[Measurement]) -> list[Device]:
    """Return the boards of measurements, each once."""
    return [*devices_by_name(m.device for m in measurements).values()]


def part_name(measurement: Measurement, part: str | None) -> str:
    """Return the Report's name of a part of the board; None is its CPU."""
    name = measurement.device.name
    return name if part is None else f"{name} {part}"


def busy_parts(measurement: Measurement) -> list[str]:
    """Return the parts besides the CPU that counted anything, or if only they were requested."""
    parts, nets = measurement.parts, measurement.nets
    if all(name in parts for name in measurement.counters):
        return list(dict.fromkeys(parts[name] for name in measurement.counters))
    busy = {part for name, part in parts.items() if any(nets.get(name, ()))}
    return [part for part in dict.fromkeys(parts.values()) if part in busy]


def metrics_of(counter: str, value: int, reading: Reading, clock: str | None) -> dict[str, Metric]:
    """Return a counter's value as metrics; ticks of the ``clock`` become a Duration, too."""
    if reading.unit == "ns":
        name = DURATION if counter == clock else f"{counter} (us)"
        return {name: Duration(value / 1000.0)}
    metrics: dict[str, Metric] = {counter: Count(value)}
    if counter == clock:
        metrics[DURATION] = Duration(value * 1e6 / reading.hz)
    return metrics


def computed_metrics(measurement: Measurement, values: Mapping[str, int], part: str | None) -> Row:
    """Return the metrics of formulas; each belongs to the first counter that it names."""
    row: Row = {}
    for name, (kind, formula) in measurement.formulas.items():
        if measurement.parts.get(formula.names[0]) != part or not {*formula.names} <= {*values}:
            continue
        value = formula.value(values)
        if value is not None:
            row[name] = computed(kind, value)
    return row


def computed(kind: str, value: float) -> Metric:
    """Return a formula's value as a metric of its kind."""
    if kind == "Count":
        return Count(round(value))
    return Percent(value) if kind == "Percent" else Ratio(value)


HOOKED: Final = "interrupts"
"""The counter of interrupts with hooked handlers, and the collector that leaves them out."""

TICKS: Final = "interrupt-ticks"  # the counter of the time that they took, hooks included

_SWITCHES = "context-switches"


def interrupts_in(sample: Sample) -> int:
    """Return the number of interrupts with hooks in a window that did not switch tasks."""
    reading = sample.readings.get(HOOKED)
    return 0 if reading is None else reading.value


def switches_in(sample: Sample) -> int:
    """Return the number of switches to another task in a window."""
    reading = sample.readings.get(_SWITCHES)
    return 0 if reading is None else reading.value


def _left_out(sample: Sample) -> int:
    """Return how often something was left out of a window."""
    return interrupts_in(sample) + switches_in(sample)


def window_s(readings: Mapping[str, Reading]) -> float | None:
    """Return a window's length by the board's clock in seconds; None if no clock was read."""
    return next((each.value / each.hz for each in readings.values() if each.hz), None)


def interrupt_costs(
    triggered: Sequence[Sample], masked: Sequence[Sample], counters: Collection[str]
) -> dict[str, float]:
    """Return what one interrupt takes outside of its hooks, by counter, in its units.

    ``triggered`` are windows with empty interrupts, ``masked`` the same with interrupts waiting
    until the end. Empty if a window had no interrupt, or if one came that should have waited.
    """
    count = min(map(_left_out, triggered))
    if not count or any(map(_left_out, masked)):
        return {}
    hit = [each for each in triggered if _left_out(each) == count]  # with the fewest others
    found = {}
    for name in counters:
        if all(name in each.readings for each in (*hit, *masked)):
            taken, without = (
                statistics.median_low([each.readings[name].value for each in windows])
                for windows in (hit, masked)
            )
            found[name] = (taken - without) / count
    return found


def without_costs(sample: Sample, costs: Mapping[str, float]) -> Sample:
    """Return a sample with readings that have what interrupts took outside of their hooks.

    A switch to another task and back costs at least as much: the core saves and restores registers
    once, and the same hooks run.
    """
    count = _left_out(sample)
    if not count:
        return sample
    readings = {
        name: replace(each, outside_hooks=round(costs[name] * count)) if name in costs else each
        for name, each in sample.readings.items()
    }
    return replace(sample, readings=readings)


def missed_interrupts(interrupts: Interrupts, sample: Sample) -> int:
    """Return the least number of timer interrupts in a window's counts."""
    if (
        interrupts.masked
        or not interrupts.timer_us
        or (seconds := window_s(sample.readings)) is None
    ):
        return 0
    return max(0, int(seconds * 1e6 / interrupts.timer_us) - _left_out(sample))


def interrupt_doubts(
    interrupts: Interrupts, samples: Sequence[Sample], costs: Mapping[str, float]
) -> Iterator[str]:
    """Yield why the counts of windows with hooked interrupts are inexact."""
    hit = sum(interrupts_in(each) > 0 for each in samples)
    if hit and not costs:
        bound = f"up to {interrupts.bound_ns:,} ns" if interrupts.bound_ns else "an unknown amount"
        yield (
            f"{hit} of {len(samples)} samples include the part of interrupts that is outside "
            f"of their hooks, {bound} each"
        )
    if hit and interrupts.kept_by:
        yield (
            f"the interrupts in {hit} of {len(samples)} samples are included in "
            f"{', '.join(interrupts.kept_by)}"
        )
    switched = sum(switches_in(each) > 0 for each in samples)
    if switched:
        beyond = " beyond that of an interrupt" if costs else ""
        yield (
            f"{switched} of {len(samples)} samples include the cost of switching to other "
            f"tasks and back{beyond}"
        )
