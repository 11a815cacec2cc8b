# SPDX-License-Identifier: Apache-2.0
"""Detection of an undeclared emulator by its counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from boardprof.decode.samples import Sample
from boardprof.report.measurement import Cold, Device, Measurement, Windows, devices_of

_CYCLES, _INSTRUCTIONS = "cycles", "instructions"
_FEWEST = 1000
"""Least number of instructions in a useful sample: this many include branches, loads and calls."""


def mark_emulators(measurements: Sequence[Measurement]) -> list[Measurement]:
    """Mark clocks as simulated on boards whose cycles only follow the instructions.

    An emulator without a pipeline takes the same time for each instruction: one cycle, or a power
    of two with QEMU's ``-icount shift=N``. In all windows of such a board, calibration included,
    the cycles are those of the instructions plus a constant, for the code between the two readings.
    A real pipeline stalls somewhere in the thousand instructions of a sample.

    Args:
        measurements: of any boards. One window that contradicts this clears its board, and so does
            a clock given by the user.
    """
    found = {}
    for device in devices_of(measurements):
        ours = [m for m in measurements if m.device.name == device.name]
        if device.clock_kind != "simulated" and not (device.emulated or device.clock_given):
            found[device.name] = _rate_of(ours)
    return [
        _simulated(m, rate) if (rate := found.get(m.device.name)) is not None else m
        for m in measurements
    ]


def _rate_of(measurements: Iterable[Measurement]) -> int | None:
    """Return the cycles per instruction; None if they differ, or if there are too few."""
    both = {_CYCLES, _INSTRUCTIONS}
    passes = [each for m in measurements for each in m.windows if both <= {*each.counters}]
    rates = {_rate(each) for each in passes if _own_instructions(each) >= _FEWEST}
    rate = rates.pop() if len(rates) == 1 else None
    return rate if rate and all(_is_constant(each, rate) for each in passes) else None


def _own_instructions(windows: Windows) -> int:
    """Return the instructions of the shortest sample, minus those of the empty function."""
    shortest = min(_value(each, _INSTRUCTIONS) for each in windows.samples)
    return shortest - max(_value(each, _INSTRUCTIONS) for each in windows.calibration)


def _rate(windows: Windows) -> int:
    """Return the cycles per instruction of a sample; 0 if that is not a power of two."""
    sample, empty = windows.samples[0], windows.calibration[0]
    cycles, instructions = (
        _value(sample, name) - _value(empty, name) for name in (_CYCLES, _INSTRUCTIONS)
    )
    rate, rest = divmod(cycles, instructions)
    return rate if rate > 0 and rest == 0 and rate & (rate - 1) == 0 else 0


def _is_constant(windows: Windows, rate: int) -> bool:
    every = (*windows.samples, *windows.calibration)
    return len({_value(s, _CYCLES) - rate * _value(s, _INSTRUCTIONS) for s in every}) == 1


def _value(sample: Sample, counter: str) -> int:
    return sample.readings[counter].value


def _simulated(measurement: Measurement, rate: int) -> Measurement:
    """Return a measurement with a simulated clock, without cycles."""
    return replace(
        measurement,
        device=_device(measurement.device, rate),
        windows=tuple(
            replace(
                each,
                samples=_without_cycles(each.samples),
                calibration=_without_cycles(each.calibration),
                totals=_without_cycles(each.totals),
            )
            for each in measurement.windows
        ),
        clock_fit=None,
        cold=None if measurement.cold is None else _cold(measurement.cold),
    )


def _device(device: Device, rate: int) -> Device:
    each = "one cycle" if rate == 1 else f"{rate} cycles"
    why = f"each instruction takes {each}, as on an emulator"
    return replace(
        device,
        clock_kind="simulated",
        emulated=True,
        clock_reason=f"{why}; if the core is real, use --clock measured",
        unsupported={**device.unsupported, _CYCLES: why},
    )


def _cold(cold: Cold) -> Cold:
    return replace(cold, sample=_without_cycles([cold.sample])[0])


def _without_cycles(samples: Iterable[Sample]) -> tuple[Sample, ...]:
    return tuple(
        replace(each, readings={n: r for n, r in each.readings.items() if n != _CYCLES})
        for each in samples
    )
