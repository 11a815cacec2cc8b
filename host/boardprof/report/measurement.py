# SPDX-License-Identifier: Apache-2.0
"""What one profiled function gave: samples, calibration, totals; and the corrected values."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from boardprof.decode.clock import ClockFit
from boardprof.decode.dictionary import CollectorInfo
from boardprof.decode.samples import Reading, Sample
from boardprof.formula import Formula
from boardprof.report.interrupts import NOT_MASKED, Interrupts

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["Cold", "Device", "Measurement", "Stack", "Windows", "clock_of"]


def clock_of(readings: Mapping[str, Reading], clock_kind: str) -> str | None:
    """Name the one counter that is wall time: the system's clock, else ticks of a real one."""
    if "duration_time" in readings:
        return "duration_time"
    if clock_kind == "simulated":
        return None
    ticks = (name for name, r in readings.items() if r.unit == "ticks" and r.hz)
    return next(ticks, None)


@dataclass(frozen=True)
class Device:
    """What a Report says of the board that a number comes from.

    Attributes:
        name: the board's name; the Report's Device column.
        clock_kind: ``measured``, ``declared`` or ``simulated``.
        emulated: the host started it as an emulator, or the board is nothing else.
        port: how it was reached.
        agent_version: of the firmware.
        build_id: 16 hexadecimal digits.
        boot_id: differs from one boot to the next.
        unsupported: counter name -> why there is no such count.
        collectors: as its dictionary has them; what it takes to decode the blobs again.
        cflags: what all code for the board is compiled with.
        clock_reason: why the clock is taken for that, where its description does not say so.
    """

    name: str
    clock_kind: str
    emulated: bool
    port: str
    agent_version: str
    build_id: str
    boot_id: int
    unsupported: dict[str, str]
    collectors: tuple[CollectorInfo, ...] = ()
    cflags: tuple[str, ...] = ()
    clock_reason: str = ""


@dataclass(frozen=True)
class Stack:
    """What a call takes of the stack, as found by painting.

    Attributes:
        used: bytes that the function and what it calls have taken.
        painted: bytes that were looked at; more than were used, or it may be more.
    """

    used: int
    painted: int


@dataclass(frozen=True)
class Windows:
    """What one pass of all rounds gave: one set of counters.

    Attributes:
        samples: the measured windows, in order.
        calibration: the same loop around the empty function.
        totals: from before the first to after the last sample, one for each reply of the board.
        mask: which collectors the blobs are from: bit i is ``device.collectors[i]``.
        events: programmable collector -> what its slots counted.
        interrupt_costs: counter -> what one interrupt takes outside of its hooks, which is in
            ``outside_hooks`` of the samples' readings; nothing where that is not known.
    """

    samples: tuple[Sample, ...]
    calibration: tuple[Sample, ...]
    totals: tuple[Sample, ...]
    mask: int = 0
    events: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    interrupt_costs: Mapping[str, Fraction] = field(default_factory=dict)

    @cached_property
    def counters(self) -> tuple[str, ...]:
        """Names of the counters that were read every time."""
        every = (*self.samples, *self.calibration, *self.totals)
        return tuple(n for n in self.samples[0].readings if all(n in s.readings for s in every))

    @cached_property
    def overheads(self) -> dict[str, int]:
        """What the empty function's window counted: the median over the calibration's samples."""
        return {
            name: statistics.median_low(
                [each.readings[name].uninterrupted for each in self.calibration]
            )
            for name in self.counters
        }


@dataclass(frozen=True)
class Cold:
    """The first call of a measurement, ahead of the warm-up: its code and data are in no cache.

    Attributes:
        sample: the window around this one call, of the first pass's counters.
        overhead: counter -> what the empty function's window of one call counted.
    """

    sample: Sample
    overhead: Mapping[str, int]

    @property
    def nets(self) -> dict[str, int]:
        """What the function itself counted; see `Measurement.net`."""
        return {
            counter: reading.uninterrupted - self.overhead[counter] + reading.own_return
            for counter, reading in self.sample.readings.items()
            if counter in self.overhead
        }


@dataclass(frozen=True)
class Measurement:
    """One function's samples on one board.

    Attributes:
        function: its name.
        device: where it ran.
        number: calls in each sample.
        warmup: calls before the first sample.
        windows: one a pass: as many as it took to count all that was wanted.
        arguments: of the function, such as ``n=256, gain=0.5``; "" where it takes none.
        clock_fit: the board's clock on the host's during the run; None where it has none to ask.
        flags: the compiler's for the function's code; None where it was not built here.
        libc: the C library in the image, or ``none``; None where each has one, or nobody knows.
        stack: what a call takes of the stack, or why that is not known; None: not asked.
        result: return value of the one call behind the samples; None where there is none.
        result_type: as in signatures: ``i32``, ``void``.
        outputs: by parameter name, what that one call left in the arrays that come back.
        kept: names of the arrays and blocks that were not put back between calls.
        sent_again: why the host sent in/out arrays before each round; "" where it did not.
        parts: counter -> the part of the board that it belongs to, where that is not the CPU.
        formulas: metrics that are computed of others: name -> its kind and the formula.
        cold: the first call of all; None: not measured.
        compilers: of the function's code; () where they are not known.
        label: what tells its rows from others of the same function and arguments; "": nothing.
        calls_before: how often the board had run functions before; None: not known.
        interrupts: whether interrupts ran within the windows.
    """

    function: str
    device: Device
    number: int
    warmup: int
    windows: tuple[Windows, ...]
    arguments: str = ""
    clock_fit: ClockFit | None = None
    flags: str | None = None
    libc: str | None = None
    stack: Stack | str | None = None
    result: object = None
    result_type: str = "void"
    outputs: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict, compare=False)
    kept: tuple[str, ...] = ()
    sent_again: str = ""
    parts: Mapping[str, str] = field(default_factory=dict)
    formulas: Mapping[str, tuple[str, Formula]] = field(default_factory=dict)
    cold: Cold | None = None
    compilers: tuple[str, ...] = ()
    label: str = ""
    calls_before: int | None = None
    interrupts: Interrupts = NOT_MASKED

    @cached_property
    def samples(self) -> tuple[Sample, ...]:
        """The samples, each with the readings of all passes and the blobs of the first."""
        rows = zip(*(each.samples for each in self.windows), strict=True)
        return tuple(
            Sample({name: r for s in row for name, r in s.readings.items()}, row[0].raw)
            for row in rows
        )

    @cached_property
    def counters(self) -> tuple[str, ...]:
        """Names of the counters that were read."""
        return tuple(dict.fromkeys(name for each in self.windows for name in each.counters))

    @property
    def clock(self) -> str | None:
        """The counter whose value is the Duration, None on a simulated clock."""
        return clock_of(self.samples[0].readings, self.device.clock_kind)

    def overhead(self, counter: str) -> int:
        """What the empty function's window counted; see `Windows.overheads`."""
        return self._pass(counter).overheads[counter]

    def net(self, sample: Sample, counter: str) -> int:
        """What the function itself counted, from its first instruction to its return.

        ``raw - overhead``, and back what the empty function's own return had in the overhead, where
        that is known exactly; less what interrupts took outside of their hooks.
        """
        reading = sample.readings[counter]
        own = reading.own_return * self.number
        return reading.uninterrupted - self.overhead(counter) + own

    def total(self, counter: str) -> Reading:
        """The counter over the whole run on the board, the agent's work included."""
        readings = [sample.readings[counter] for sample in self._pass(counter).totals]
        first = readings[0]
        return Reading(
            sum(reading.value for reading in readings),
            first.unit,
            first.hz,
            first.own_return,
            sum(reading.wrapped for reading in readings),
            any(reading.ambiguous for reading in readings),
            any(reading.estimated for reading in readings),
        )

    def _pass(self, counter: str) -> Windows:
        return next(each for each in self.windows if counter in each.counters)

    def reference(self) -> str:
        """The counter that percentages go by: time, else instructions, else ticks."""
        wanted = (self.clock, "instructions", "ticks", "cycles")
        return next((name for name in wanted if name in self.counters), self.counters[0])

    def perturbation_percent(self, sample: Sample) -> float | None:
        """Share of the window that is not the function's (raw less net); None of an empty one."""
        counter = self.reference()
        raw = sample.readings[counter].value
        return 100.0 * (raw - self.net(sample, counter)) / raw if raw else None
