# SPDX-License-Identifier: Apache-2.0
"""Detection of an undeclared emulator by its counts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from boardprof.results.record import Device
from boardprof.results.report.measurement import Measurement, PassResult, devices_of
from boardprof.wire.decode.samples import Sample

_CYCLES, _INSTRUCTIONS = "cycles", "instructions"
_FEWEST = 1000
"""Least number of instructions in a useful sample: this many include branches, loads and calls."""


_CHANCE = 1000
"""Counts that are all multiples by chance once in more than this are multiples by design."""

_SAME = 0.01
"""Relative difference of cycles and instructions in a whole reply, if both are the host's time."""


@dataclass(frozen=True)
class _Finding:
    """What gives an emulator away, and which counters have no meaning there."""

    why: str
    unsupported: dict[str, str]


def mark_emulators(measurements: Sequence[Measurement]) -> list[Measurement]:
    """Mark clocks as simulated on boards whose cycles only follow the instructions.

    An emulator without a pipeline takes the same time for each instruction: one cycle, or a power
    of two with QEMU's ``-icount shift=N``. In all windows of such a board, calibration included,
    the cycles are those of the instructions plus a constant, for the code between the two readings.
    A real pipeline stalls somewhere in the thousand instructions of a sample.

    QEMU's RISC-V counts 2^N for each instruction with ``shift=N``: then all counts are multiples.
    Without ``-icount``, both counters show the host's time: as much in the long run, and another
    number of "instructions" in each window around the empty function.

    One window that contradicts this clears its board, and so does a clock given by the user.
    """
    found = {}
    for device in devices_of(measurements):
        ours = [m for m in measurements if m.device.name == device.name]
        if device.clock_kind != "simulated" and not (device.emulated or device.clock_given):
            found[device.name] = _finding(ours)
    return [
        _simulated(m, finding) if (finding := found.get(m.device.name)) is not None else m
        for m in measurements
    ]


def _finding(measurements: Iterable[Measurement]) -> _Finding | None:
    both = {_CYCLES, _INSTRUCTIONS}
    passes = [each for m in measurements for each in m.passes if both <= {*each.counters}]
    if passes and all(map(_is_host_time, passes)):
        why = "cycles and instructions follow the host's time, as with QEMU without -icount"
        return _Finding(why, dict.fromkeys((_CYCLES, _INSTRUCTIONS), why))
    rates = {_rate(each) for each in passes if _own_instructions(each) >= _FEWEST}
    rate = rates.pop() if len(rates) == 1 else None
    if not rate or not all(_is_constant(each, rate) for each in passes):
        return None
    counts = {_value(s, _INSTRUCTIONS) for each in passes for s in _every(each)}
    step = math.gcd(*counts)
    each = "one cycle" if rate == 1 else f"{rate} cycles"
    why = f"each instruction takes {each}, as on an emulator"
    if step ** len(counts) < _CHANCE:
        return _Finding(why, {_CYCLES: why})
    multiples = f"all counts are multiples of {step}, as with QEMU's -icount shift=N"
    return _Finding(why, {_CYCLES: why, _INSTRUCTIONS: multiples})


def _every(windows: PassResult) -> tuple[Sample, ...]:
    return (*windows.samples, *windows.calibration_samples, *windows.totals)


def _is_host_time(windows: PassResult) -> bool:
    """Return whether instructions do not count code: a core counts equal code equally."""
    counts = Counter(_value(s, _INSTRUCTIONS) for s in windows.calibration_samples)
    [(_, alike)] = counts.most_common(1)
    return 3 * alike <= 2 * counts.total() and all(
        math.isclose(_value(s, _CYCLES), _value(s, _INSTRUCTIONS), rel_tol=_SAME)
        for s in windows.totals
    )


def _own_instructions(windows: PassResult) -> int:
    """Return the instructions of the shortest sample, minus those of the empty function."""
    shortest = min(_value(each, _INSTRUCTIONS) for each in windows.samples)
    return shortest - max(_value(each, _INSTRUCTIONS) for each in windows.calibration_samples)


def _rate(windows: PassResult) -> int:
    """Return the cycles per instruction of a sample; 0 if that is not a power of two."""
    sample, empty = windows.samples[0], windows.calibration_samples[0]
    cycles, instructions = (
        _value(sample, name) - _value(empty, name) for name in (_CYCLES, _INSTRUCTIONS)
    )
    rate, rest = divmod(cycles, instructions)
    return rate if rate > 0 and rest == 0 and rate & (rate - 1) == 0 else 0


def _is_constant(windows: PassResult, rate: int) -> bool:
    every = (*windows.samples, *windows.calibration_samples)
    return len({_value(s, _CYCLES) - rate * _value(s, _INSTRUCTIONS) for s in every}) == 1


def _value(sample: Sample, counter: str) -> int:
    return sample.readings[counter].value


def _simulated(measurement: Measurement, finding: _Finding) -> Measurement:
    """Return a measurement with a simulated clock, without the counters that have no meaning."""
    lost = finding.unsupported
    cold = measurement.cold
    return replace(
        measurement,
        device=_device(measurement.device, finding),
        passes=tuple(
            replace(
                each,
                samples=_without(lost, each.samples),
                calibration_samples=_without(lost, each.calibration_samples),
                totals=_without(lost, each.totals),
            )
            for each in measurement.passes
        ),
        clock_fit=None,
        cold=None if cold is None else replace(cold, sample=_without(lost, [cold.sample])[0]),
    )


def _device(device: Device, finding: _Finding) -> Device:
    return replace(
        device,
        clock_kind="simulated",
        emulated=True,
        clock_reason=f"{finding.why}; if the core is real, use --clock measured",
        unsupported={**device.unsupported, **finding.unsupported},
    )


def _without(lost: Collection[str], samples: Iterable[Sample]) -> tuple[Sample, ...]:
    return tuple(
        replace(each, readings={n: r for n, r in each.readings.items() if n not in lost})
        for each in samples
    )
