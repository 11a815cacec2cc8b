# SPDX-License-Identifier: Apache-2.0
"""Where the rows of a Report come from: what its record says of them."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from boardprof.base.formula import names_in
from boardprof.base.metrics import raw_of
from boardprof.results.record import NO_RECORD, Device, MeasurementRecord, SourcePlace
from boardprof.results.report.calls import DURATION
from boardprof.results.report.profile import MODELLED, Profile
from boardprof.results.report.report import Report

_CPU_CLOCK = "cycles"  # the CPU's own cycle counter: a clock without a grain, whatever its rate


@dataclass(frozen=True, order=True)
class GroupKey:
    """The columns that all samples of one thing have in common."""

    #: of the function. The ``Hash`` of rows separates groups of equal name, and is not shown.
    name: str
    shapes: str = ""  #: of its arguments; "" if it has none
    flags: str = ""  #: the setting of a sweep; "" without a sweep
    device: str = ""  #: the board, or a part of it
    hash: str = ""  #: of the function; "" if rows have none
    label: str = ""  #: given to the call by the user, as in a program; "" if rows have none

    @property
    def title(self) -> str:
        """The name, and the label if there is one: ``conv2d [layer 3]``."""
        return titled(self.name, self.label)


def titled(name: str, label: str) -> str:
    """Return the name of a call: the function, and the user's label."""
    return f"{name} [{label}]" if label else name


@dataclass(frozen=True)
class Overhead:
    """The measurement overhead, from windows around the empty function."""

    taken: float = 0.0  # their median, which is subtracted
    doubt: float = 0.0  # how far off that may be; 0 if all are equal

    def __mul__(self, factor: float) -> Overhead:
        """Return it in another unit."""
        return Overhead(self.taken * factor, self.doubt * factor)


NOTHING: Final = Overhead()


@dataclass(frozen=True)
class Origin:
    """Where the rows of a group come from."""

    board: str = ""  # also for rows of a part of it; "" if not known
    is_emulated: bool | None = None  # it is an emulator or a simulator; None if not known
    clock_kind: str = ""  # ``measured``, ``declared`` or ``simulated``; "" if not known
    rates: Mapping[str, int] = field(default_factory=dict)  # of each counter that is a clock, in Hz
    steps: Mapping[str, float] = field(default_factory=dict)  # of clocks that skip ticks
    cold: Mapping[str, int | float] = field(default_factory=dict)  # of the first call, by column
    overheads: Mapping[str, Overhead] = field(default_factory=dict)  # by counter
    # calls before each sample; if the same in two runs, n-th samples are of the same calls
    course: tuple[int, ...] = ()
    # names of the board's counters, and of metrics computed from those that are not clocks
    counters: frozenset[str] = frozenset()
    # the first one of the rows
    measurement: MeasurementRecord = field(default_factory=MeasurementRecord)
    inputs: str = ""  # CRC-32 of what each found in its arrays, joined by +; "" if one is not known
    doubts: tuple[str, ...] = ()  # texts of what spoils the numbers
    sessions: int = 1  # measurements of these rows, one after the other

    def is_counted(self, column: str) -> bool:
        """Tell whether a column was counted on the board alone, not on the host."""
        return self.clock(column) in self.counters

    def grain(self, column: str) -> float:
        """Return one step of a column's clock in its unit; 0 for cycles and what is not a clock."""
        clock = self.clock(column)
        step = self.steps.get(clock, 1.0)
        if clock != column:
            return step * self._tick_us(clock)
        return step * float(clock in self.rates and clock != _CPU_CLOCK)

    def overhead(self, column: str) -> Overhead:
        """Return the overhead of a window in a column of time; zero for others and on emulators."""
        clock = self.clock(column)
        if self.is_emulated or clock not in {*self.rates, _CPU_CLOCK}:
            return NOTHING
        step = 1.0 if clock == column else self._tick_us(clock)
        return self.overheads.get(clock, NOTHING) * step

    def hz(self, column: str) -> int | None:
        """Return the rate of the clock whose steps a column counts; None for CPU cycles."""
        return None if column == _CPU_CLOCK else self.rates.get(column)

    def clock(self, column: str) -> str:
        """Return the counter that a column is read from."""
        return clock_of_column(column, self.rates)

    def _tick_us(self, clock: str) -> float:
        hz = self.rates.get(clock, 0)
        return 1e6 / hz if hz and clock != _CPU_CLOCK else 0.0


def clock_of_column(column: str, rates: Collection[str]) -> str:
    """Return the counter that a column is read from, given the board's clocks."""
    if column != DURATION:
        return column.removesuffix(" (us)")
    return "duration_time" if "duration_time" in rates else next(iter(rates), "")


class RowOrigins:
    """Finds the `Origin` of rows. Without a record nothing is known."""

    def __init__(self, report: Report) -> None:
        """Index the record's measurements."""
        record = report.record or NO_RECORD
        self._devices = record.devices
        self._measurements: dict[tuple[str, str], list[MeasurementRecord]] = {}
        for each in record.measurements:
            self._measurements.setdefault((each.name, each.arguments), []).append(each)
        self._steps: dict[str, dict[str, float]] = {}  # of each board's clocks

    def origin(self, key: GroupKey) -> Origin:
        """Return where the rows of a group come from."""
        found = [
            each
            for each in self._measurements.get((key.name, key.shapes), ())
            if not key.flags or each.flags == key.flags
        ]
        own = [each for each in found if each.device == key.device] or found
        chosen = [each for each in own if each.label == key.label] or own
        measurement = chosen[0] if chosen else MeasurementRecord()
        board = key.device if key.device in self._devices else measurement.device
        device = self._devices.get(board)
        if device is None:
            return Origin(board=board, measurement=measurement)
        # the clocks that it read; if not known, all clocks of the board
        read, clocks = measurement.calibration, [c for c in device.counters if c.hz > 0]
        rates = {c.name: c.hz for c in clocks if read is None or c.name in read}
        metrics = measurement.cold.metrics if measurement.cold and board == key.device else {}
        cold = ((column, raw_of(metric)) for column, metric in metrics.items())
        names = (counter.name for counter in device.counters)
        return Origin(
            board=board,
            is_emulated=device.is_emulator,
            clock_kind=device.clock_kind,
            rates=rates,
            steps=self._steps_on(board, device, rates),
            cold={column: number for column, number in cold if not isinstance(number, str)},
            overheads=dict(_overheads(measurement)),
            course=_course(measurement),
            counters=frozenset([*names, *_computed(measurement, rates), *MODELLED]),
            measurement=measurement,
            inputs=_inputs(chosen),
            doubts=tuple(f.text for each in chosen for f in each.findings if f.spoils),
            sessions=max(1, len(chosen)),
        )

    def _steps_on(self, board: str, device: Device, clocks: Iterable[str]) -> dict[str, float]:
        """Return the steps of those clocks of a board that advance by several ticks at once."""
        if board not in self._steps:
            found: dict[str, float] = {}
            if device.clock_kind == "measured":
                every = itertools.chain.from_iterable(self._measurements.values())
                own = (each.passes[0] for each in every if each.device == board)
                passes = list(itertools.islice(own, _MOST_WINDOWS))
                windows = [
                    window.raw
                    for each in passes
                    for kind in (each.calibration_samples, each.samples)
                    for window in kind[:_MOST_WINDOWS]
                ]
                for clock in clocks:
                    step = observed_step(raw[clock] for raw in windows if clock in raw)
                    found |= {clock: step} if step > 1 else {}
            self._steps[board] = found
        return self._steps[board]


_MOST_WINDOWS: Final = 100  # of each measurement whose windows tell the step of a clock
_MOST_STEPS: Final = 300  # in a longer window, the error of the step adds up to more than a tick

_BY_CHANCE: Final = 0.001


def observed_step(windows: Iterable[int]) -> float:
    """Return by how many ticks a clock advances at once, by what it counted; 1.0 if unknown.

    Linux tells times in nanoseconds, but the hardware's counter may advance every 10 or 18.5 of
    them. Then all differences are multiples of that, rounded up or down.
    """
    middles: list[float] = []
    low = last = -9.0
    for each in sorted({*windows} - {0}):
        if each - last > 2:
            middles.append(each)
            low = each
        else:
            middles[-1] = (low + each) / 2
        last = each
    gaps = [after - before for before, after in itertools.pairwise(middles)]
    step: float = min(gaps, default=1.0)
    if step < 4:
        return 1.0
    near = [each for each in middles if each <= _MOST_STEPS * step]
    for middle in near:
        step = middle / max(1, round(middle / step))
    if any(abs(middle - step * round(middle / step)) > 1 for middle in near):
        return 1.0
    return step if (3 / step) ** len(near) < _BY_CHANCE else 1.0


def _computed(measurement: MeasurementRecord, clocks: Collection[str]) -> Iterator[str]:
    """Yield the metrics whose formulas use no clock other than the CPU's own."""
    others = {*clocks} - {_CPU_CLOCK}
    for name, (_, formula) in measurement.formulas.items():
        if not names_in(formula) & others:
            yield name


def _overheads(measurement: MeasurementRecord) -> Iterator[tuple[str, Overhead]]:
    """Yield the measurement overhead of each counter.

    The CPU's cycles are uncertain only by the spread of the windows around the empty function.
    Reading a clock through an operating system takes a different time in each process, so that
    whole overhead is uncertain.
    """
    seen: dict[str, set[int]] = {}
    for window in (window for each in measurement.passes for window in each.calibration_samples):
        for name, value in window.raw.items():
            seen.setdefault(name, set()).add(value)
    for name, value in (measurement.calibration or {}).items():
        if taken := seen.get(name):
            spread = max(taken) - min(taken)
            doubt = min(abs(value), spread) if name == _CPU_CLOCK or not spread else abs(value)
            yield name, Overhead(abs(value), doubt)


def _course(measurement: MeasurementRecord) -> tuple[int, ...]:
    """Return what determines the calls before each sample.

    A board sends samples in replies, each with a total, and calls the function between them.
    """
    number, warmup, before = measurement.number, measurement.warmup, measurement.calls_before
    if number is None or warmup is None or before is None:
        return ()
    replies = [len(each.totals) for each in measurement.passes]
    has_cold, masked = measurement.cold is not None, measurement.interrupts.masked
    return (number, warmup, before, int(has_cold), int(masked), *replies)


def _inputs(measurements: Sequence[MeasurementRecord]) -> str:
    found = {each.inputs_crc32 for each in measurements}
    return "" if "" in found else "+".join(sorted(found))


# -- facts of functions ---------------------------------------------------------------------------


def keyed_measurements(report: Report) -> Iterator[tuple[GroupKey, MeasurementRecord]]:
    """Yield the measurements of a Report with the key of their rows, without a hash."""
    swept = "Flags" in report.calls.names
    for each in (report.record or NO_RECORD).measurements:
        flags = each.flags if swept and each.flags else ""
        yield GroupKey(each.name, each.arguments, flags, each.device, label=each.label), each


def stack_reasons(report: Report) -> dict[GroupKey, str]:
    """Return why the stack of a call is unknown, by group without its hash; empty if none is."""
    found = keyed_measurements(report)
    return {key: each.stack_unknown for key, each in found if each.stack_unknown}


@dataclass(frozen=True)
class ProfiledRow:
    """The rows of a Report that a profile belongs to; texts are "" where rows have none."""

    name: str
    shapes: str
    device: str
    flags: str
    label: str
    profile: Profile

    @property
    def title(self) -> str:
        """The function with its label, arguments and flags: ``fir n=64, -O3``."""
        where = ", ".join(filter(None, (self.label, self.shapes, self.flags)))
        return f"{self.name} {where}".strip()


def profiles_of(report: Report) -> Iterator[ProfiledRow]:
    """Yield the profiles in a Report."""
    for key, each in keyed_measurements(report):
        if each.hotspots:
            row = (key.name, key.shapes, key.device, key.flags, key.label)
            yield ProfiledRow(*row, each.hotspots)


def places_of(report: Report) -> dict[str, SourcePlace]:
    """Return where the functions of a Report are defined, by name, unless in several places."""
    found: dict[str, set[SourcePlace]] = {}
    for key, each in keyed_measurements(report):
        if each.source is not None:
            found.setdefault(key.name, set()).add(each.source)
    return {name: places.pop() for name, places in found.items() if len(places) == 1}
