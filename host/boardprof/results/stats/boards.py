# SPDX-License-Identifier: Apache-2.0
"""What a Report's ``extra`` says about the board of a row: its clocks, its kind, cold calls."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from boardprof.base.metrics import metric_from_json, raw_of
from boardprof.results.report.calls import DURATION
from boardprof.results.report.report import Report

_CPU_CLOCK = "cycles"
"""The CPU's own cycle counter: a clock without a grain, whatever its rate."""


@dataclass(frozen=True)
class Overhead:
    """The measurement overhead, from windows around the empty function.

    Attributes:
        taken: their median, which is subtracted.
        doubt: how far off that may be; 0 if all are equal.
    """

    taken: Fraction = Fraction(0)
    doubt: Fraction = Fraction(0)

    def __mul__(self, factor: Fraction) -> Overhead:
        """Return it in another unit."""
        return Overhead(self.taken * factor, self.doubt * factor)


NOTHING: Final = Overhead()


@dataclass(frozen=True)
class Source:
    """Where the rows of a group come from.

    Attributes:
        board: the board's name, also for rows of a part of it; "" if not known.
        is_emulated: it is an emulator or a simulator; None if not known.
        clock_kind: ``measured``, ``declared`` or ``simulated``; "" if not known.
        rates: rate of each counter that is a clock, in Hz.
        cold: value of the first call, before the warm-up, by column.
        overheads: what the windows around the empty function counted, by counter.
        course: how often the board ran functions before each sample. If two runs have the same
            course, their n-th samples are of the same calls. () if the Report does not say.
        counters: names of the counters that the board reads, and of metrics computed from those
            that are not clocks.
        measurement: what the Report keeps of the measurement; empty if not known.
        inputs: CRC-32 of what each measurement found in its arrays, joined by +; "" if one
            is not known.
    """

    board: str = ""
    is_emulated: bool | None = None
    clock_kind: str = ""
    rates: Mapping[str, int] = field(default_factory=dict)
    cold: Mapping[str, int | float] = field(default_factory=dict)
    overheads: Mapping[str, Overhead] = field(default_factory=dict)
    course: tuple[int, ...] = ()
    counters: frozenset[str] = frozenset()
    measurement: Mapping[str, Any] = field(default_factory=dict)
    inputs: str = ""

    def is_counted(self, column: str) -> bool:
        """Tell whether a column was counted on the board alone, not on the host."""
        return self.clock(column) in self.counters

    def grain(self, column: str) -> Fraction:
        """Return one step of a column's clock, in the column's unit; 0 if it is not a clock.

        The CPU's own cycles have no grain: one cycle is the smallest possible difference.
        """
        clock = self.clock(column)
        if clock != column:
            return self._step_us(clock)
        return Fraction(clock in self.rates and clock != _CPU_CLOCK)

    def overhead(self, column: str) -> Overhead:
        """Return the measurement overhead of a window in a column of time; zero for other columns.

        It is also zero on an emulator, and if the Report does not say.
        """
        clock = self.clock(column)
        if self.is_emulated or clock not in {*self.rates, _CPU_CLOCK}:
            return NOTHING
        step = Fraction(1) if clock == column else self._step_us(clock)
        return self.overheads.get(clock, NOTHING) * step

    def hz(self, column: str) -> int | None:
        """Return the rate of the clock whose steps a column counts; None for CPU cycles."""
        return None if column == _CPU_CLOCK else self.rates.get(column)

    def clock(self, column: str) -> str:
        """Return the counter that a column is read from."""
        if column != DURATION:
            return column.removesuffix(" (us)")
        return "duration_time" if "duration_time" in self.rates else next(iter(self.rates), "")

    def _step_us(self, clock: str) -> Fraction:
        hz = self.rates.get(clock, 0)
        return Fraction(10**6, hz) if hz and clock != _CPU_CLOCK else Fraction(0)


class Boards:
    """Finds the `Source` of rows. Without ``extra`` nothing is known."""

    def __init__(self, report: Report) -> None:
        """Read the Report's ``extra``; anything in it may be missing."""
        extra = report.extra or {}
        self._devices = _objects(extra.get("devices"))
        self._measurements: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
        for each in extra.get("measurements") or ():
            if isinstance(each, Mapping):
                key = (_text(each.get("name")), _text(each.get("arguments")))
                self._measurements.setdefault(key, []).append(each)

    def source(self, name: str, shapes: str, flags: str, device: str, label: str = "") -> Source:
        """Return where rows of these keys come from."""
        found = [
            each
            for each in self._measurements.get((name, shapes), ())
            if not flags or each.get("flags") == flags
        ]
        own = [each for each in found if each.get("device") == device] or found
        named = [each for each in own if _text(each.get("label")) == label]
        chosen = named or own
        measurement: Mapping[str, Any] = (chosen or [{}])[0]
        board = device if device in self._devices else _text(measurement.get("device"))
        facts = self._devices.get(board)
        if facts is None:
            return Source(board=board)
        kind, rates = _text(facts.get("clock_kind")), dict(_rates(facts, measurement))
        emulated = facts.get("emulated")
        return Source(
            board=board,
            is_emulated=kind == "simulated" or bool(emulated) if kind else None,
            clock_kind=kind,
            rates=rates,
            cold=dict(_cold(measurement)) if board == device else {},
            overheads=dict(_overheads(measurement)),
            course=_course(measurement),
            counters=frozenset([*_names(facts), *_computed(measurement, rates)]),
            measurement=measurement,
            inputs=_inputs(chosen),
        )


def _rates(facts: Mapping[str, Any], measurement: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield the clocks that a measurement read; if not known, all clocks of the board."""
    read = measurement.get("calibration")
    for counter in _counters(facts):
        name, hz = _text(counter.get("name")), counter.get("hz")
        if type(hz) is int and hz > 0 and (not isinstance(read, Mapping) or name in read):
            yield name, hz


def _counters(facts: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for collector in _mappings(facts.get("collectors")):
        yield from _mappings(collector.get("counters"))


def _names(facts: Mapping[str, Any]) -> Iterator[str]:
    return (_text(counter.get("name")) for counter in _counters(facts))


def _computed(measurement: Mapping[str, Any], clocks: Collection[str]) -> Iterator[str]:
    """Yield the metrics whose formulas use no clock other than the CPU's own."""
    formulas = measurement.get("formulas")
    for name, formula in formulas.items() if isinstance(formulas, Mapping) else ():
        text = repr(formula)
        if not any(clock in text for clock in clocks if clock != _CPU_CLOCK):
            yield name


def _overheads(measurement: Mapping[str, Any]) -> Iterator[tuple[str, Overhead]]:
    """Yield the measurement overhead of each counter.

    The CPU's cycles are uncertain only by the spread of the windows around the empty function.
    Reading a clock through an operating system takes a different time in each process, so that
    whole overhead is uncertain.
    """
    seen: dict[str, set[int]] = {}
    for each in (measurement, *_mappings(measurement.get("further_passes"))):
        for window in _mappings(each.get("calibration_samples")):
            for name, value in (window.get("raw") or {}).items():
                if type(value) is int:
                    seen.setdefault(name, set()).add(value)
    for name, value in (measurement.get("calibration") or {}).items():
        if type(value) is int and (taken := seen.get(name)):
            spread = max(taken) - min(taken)
            doubt = min(abs(value), spread) if name == _CPU_CLOCK or not spread else abs(value)
            yield name, Overhead(Fraction(abs(value)), Fraction(doubt))


def _course(measurement: Mapping[str, Any]) -> tuple[int, ...]:
    """Return what determines the calls before each sample.

    A board sends samples in replies, each with a total, and calls the function between them.
    """
    told = [measurement.get(key) for key in ("number", "warmup", "calls_before")]
    numbers = [each for each in told if type(each) is int]
    if len(numbers) != len(told):
        return ()
    passes = (measurement, *_mappings(measurement.get("further_passes")))
    replies = [len(_mappings(each.get("totals"))) for each in passes]
    interrupts = measurement.get("interrupts")
    masked = isinstance(interrupts, Mapping) and bool(interrupts.get("masked"))
    return (*numbers, int(bool(measurement.get("cold"))), int(masked), *replies)


def _inputs(measurements: Sequence[Mapping[str, Any]]) -> str:
    found = {_text(each.get("inputs_crc32")) for each in measurements}
    return "" if "" in found else "+".join(sorted(found))


def _cold(measurement: Mapping[str, Any]) -> Iterator[tuple[str, int | float]]:
    for column, value in _objects((measurement.get("cold") or {}).get("metrics")).items():
        try:
            number = raw_of(metric_from_json(value))
        except ValueError:
            continue
        if not isinstance(number, str):
            yield column, number


def _objects(value: object) -> dict[str, Mapping[str, Any]]:
    if not isinstance(value, Mapping):
        return {}
    return {str(k): v for k, v in value.items() if isinstance(v, Mapping)}


def _mappings(value: object) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
