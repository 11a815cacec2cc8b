# SPDX-License-Identifier: Apache-2.0
"""Assembly of a Report from measurements: rows, totals, configuration and raw data."""

from __future__ import annotations

import base64
import math
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from boardprof.base.metrics import Count, Duration, Metric, Percent, Ratio, raw_of
from boardprof.results.record import (
    ColdRecord,
    MeasurementRecord,
    Output,
    PassRecord,
    Record,
    SampleRecord,
    Stack,
)
from boardprof.results.report.calls import DURATION, ENERGY, LABEL, PERTURBATION, SHARE, STACK, Row
from boardprof.results.report.configuration import configuration_of
from boardprof.results.report.measurement import (
    Cold,
    Measurement,
    PassResult,
    busy_parts,
    computed_metrics,
    devices_of,
    metrics_of,
    part_name,
)
from boardprof.results.report.profile import MODELLED
from boardprof.results.report.report import Report
from boardprof.wire.decode.samples import Sample

if TYPE_CHECKING:
    import numpy.typing as npt


def assemble(
    measurements: Sequence[Measurement],
    *,
    swept: bool | None = None,
    missing: Sequence[str] = (),
    wrong: Sequence[str] = (),
    alternatives: bool = False,
) -> Report:
    """Build the Report of at least one measurement, on one or more boards.

    ``missing`` could not be measured, e.g. ``iir on m4: it ran too long``; ``wrong`` are outputs
    that differ from what was expected. Rows name their flags if ``swept``; None if these differ.
    ``alternatives``: the functions do the same.
    """
    measurements = mark_emulators(measurements)
    totals = totals_of(measurements)
    if swept is None:
        swept = len({m.flags for m in measurements if m.flags is not None}) > 1
    # A sum over samples with other numbers of calls is not a whole that anything is a share of.
    wholes = totals if len({m.number for m in measurements}) == 1 else {}
    rows = (row for m in measurements for row in rows_of(m, wholes.get(m.device.name, {}), swept))
    configuration = configuration_of(measurements)
    if missing:
        configuration["Missing"] = "; ".join(missing)
    if wrong:
        configuration["Wrong output"] = "; ".join(wrong)
    record = replace(record_of(measurements), missing=tuple(missing), alternatives=alternatives)
    return Report(rows, totals, configuration, record=record)


def totals_of(measurements: Sequence[Measurement]) -> dict[str, Row]:
    """Return the sums over all measurements, by device; a part beside the CPU is a device."""
    totals: dict[str, Row] = {}
    for device in devices_of(measurements):
        ours = [m for m in measurements if m.device.name == device.name]
        counts: Counter[str] = Counter()
        if any(name not in m.parts for m in ours for name in m.counters):
            totals[device.name] = {}  # before its parts
        for measurement in ours:
            for counter in measurement.counters:
                row = totals.setdefault(part_name(measurement, measurement.parts.get(counter)), {})
                total = measurement.total(counter)
                counts[counter] += total.value
                found = metrics_of(counter, total.value, total, measurement.clock)
                for name, metric in found.items():
                    row[name] = added(row.get(name), metric)
        for part in (None, *dict.fromkeys(ours[0].parts.values())):
            if part_name(ours[0], part) in totals:
                totals[part_name(ours[0], part)] |= computed_metrics(ours[0], counts, part)
    return totals


def added(left: Metric | None, right: Metric) -> Metric:
    """Return a sum; ``right`` if it is of another kind, or if there is nothing to add it to."""
    if isinstance(left, Count) and isinstance(right, Count):
        return Count(left.value + right.value)
    if isinstance(left, Duration) and isinstance(right, Duration):
        return Duration(left.microseconds + right.microseconds)
    return right


def rows_of(measurement: Measurement, device_total: Row, swept: bool) -> Iterator[Row]:
    """Yield a measurement's rows; their Percent refers to the total of the whole board."""
    busy = busy_parts(measurement)
    has_cpu = any(name not in measurement.parts for name in measurement.counters)
    values = zip(*measurement.nets.values(), strict=True)
    energy = measurement.energy
    energies = (None,) * len(measurement.samples) if energy is None else energy.nanojoules
    samples = zip(measurement.samples, values, measurement.perturbations, energies, strict=True)
    for sample, row_of_nets, perturbation, nanojoules in samples:
        nets = dict(zip(measurement.nets, row_of_nets, strict=True))
        row = _cpu_row(measurement, sample, nets, device_total, swept)
        if perturbation is not None:
            row[PERTURBATION] = Ratio(perturbation)
        if isinstance(measurement.stack, Stack):
            row[STACK] = Count(measurement.stack.used)
        if nanojoules is not None:
            row[ENERGY] = Count(round(nanojoules))
        row |= _modelled(measurement)
        if has_cpu:
            yield row
        for part in busy:
            metrics = _metrics(measurement, sample, nets, part)
            yield _part_row(row, part_name(measurement, part), metrics)


def _modelled(measurement: Measurement) -> Row:
    """Return the modelled cycles of a sample's calls, which all take what the recorded one took."""
    profile = measurement.profile
    if profile is None or not profile.modelled or not profile.is_complete:
        return {}
    return {name: Count(profile.sum(name) * measurement.number) for name in MODELLED}


def _cpu_row(
    measurement: Measurement,
    sample: Sample,
    nets: Mapping[str, int],
    device_total: Row,
    swept: bool,
) -> Row:
    row: Row = {"Name": measurement.function}
    row |= _metrics(measurement, sample, nets, None)
    reference = measurement.reference
    whole = _size(device_total, reference)
    if whole > 0:
        row[SHARE] = Percent(100.0 * _size(row, reference) / whole)
    if measurement.arguments:
        row["Argument Shapes"] = measurement.arguments
    if swept and measurement.flags is not None:
        row["Flags"] = measurement.flags
    if measurement.label:
        row[LABEL] = measurement.label
    row["Device"] = measurement.device.name
    row["Count"] = Count(measurement.number)
    return row


def _part_row(row: Row, device: str, metrics: Row) -> Row:
    """Return the row of a part of the board besides its CPU, for the sample of ``row``."""
    same = ("Name", "Argument Shapes", "Flags", "Label", "Count")
    named = {key: row[key] for key in same if key in row}
    return {"Name": named.pop("Name"), **metrics, **named, "Device": device}


def _metrics(
    measurement: Measurement, sample: Sample, nets: Mapping[str, int], part: str | None
) -> Row:
    """Return the counters of one part (None for the CPU), and the metrics computed from them."""
    row: Row = {}
    for counter, net in nets.items():
        if measurement.parts.get(counter) == part:
            row |= metrics_of(counter, net, sample.readings[counter], measurement.clock)
    return row | computed_metrics(measurement, nets, part)


def _size(row: Row, counter: str) -> float:
    """Return a counter's value in a row, whatever its column name."""
    metric = row.get(counter) or row.get(f"{counter} (us)") or row.get(DURATION)
    if isinstance(metric, Count):
        return float(metric.value)
    return metric.microseconds if isinstance(metric, Duration) else 0.0


def samples_of(measurement: Measurement) -> dict[str, list[float]]:
    """Return a measurement's samples per call, by metric, as a Report has them."""
    not_per_call = {"Count", SHARE, PERTURBATION, STACK}
    found: dict[str, list[float]] = {}
    [measurement] = mark_emulators([measurement])
    for row in rows_of(measurement, {}, False):
        for name, metric in row.items():
            if name in not_per_call or isinstance(metric, str):
                continue
            calls = measurement.number if isinstance(metric, Count | Duration) else 1
            found.setdefault(name, []).append(float(raw_of(metric)) / calls)
    return found


# -- the record ---------------------------------------------------------------------------------


def record_of(measurements: Sequence[Measurement]) -> Record:
    """Return what a Report keeps of measurements, from which its rows can be computed again."""
    devices = {device.name: device for device in devices_of(measurements)}
    return Record(devices, tuple(map(_measurement_record, measurements)))


def _measurement_record(measurement: Measurement) -> MeasurementRecord:
    stack, cold = measurement.stack, measurement.cold
    return MeasurementRecord(
        **measurement.facts,
        name=measurement.function,
        device=measurement.device.name,
        stack=stack if isinstance(stack, Stack) else None,
        stack_unknown=stack if isinstance(stack, str) else "",
        result=_result_json(measurement.result),
        outputs={name: _output(array) for name, array in measurement.outputs.items()},
        output_call=_output_call(measurement),
        build_id=measurement.device.build_id,
        number=measurement.number,
        warmup=measurement.warmup,
        formulas={name: (kind, f.text) for name, (kind, f) in measurement.formulas.items()},
        libc=measurement.libc or "",
        cold=None if cold is None else _cold_record(cold, measurement.clock),
        calibration={name: measurement.overhead(name) for name in measurement.counters},
        hotspots=measurement.profile,
        passes=tuple(map(_pass_record, measurement.passes)),
    )


def _cold_record(cold: Cold, clock: str | None) -> ColdRecord:
    """Return the very first call: its net metrics and their window."""
    metrics: Row = {}
    for counter, net in cold.nets.items():
        metrics |= metrics_of(counter, net, cold.sample.readings[counter], clock)
    return ColdRecord(metrics, cold.overhead, _sample_record(cold.sample))


def _pass_record(windows: PassResult) -> PassRecord:
    return PassRecord(
        collectors=tuple(i for i in range(8) if windows.mask >> i & 1),
        events=windows.events,
        samples=tuple(map(_sample_record, windows.samples)),
        calibration_samples=tuple(map(_sample_record, windows.calibration_samples)),
        totals=tuple(map(_sample_record, windows.totals)),
        interrupt_costs=windows.interrupt_costs,
    )


def _sample_record(sample: Sample) -> SampleRecord:
    readings = sample.readings
    raw = {name: each.value for name, each in readings.items()}
    if not any(each.wrapped or each.estimated or each.ambiguous for each in readings.values()):
        return SampleRecord(raw, sample.raw)
    return SampleRecord(
        raw,
        sample.raw,
        wraps={name: each.wrapped for name, each in readings.items() if each.wrapped},
        estimated=tuple(name for name, each in readings.items() if each.estimated),
        ambiguous=tuple(name for name, each in readings.items() if each.ambiguous),
    )


def _result_json(result: object) -> object:
    """Return a function's result; as text if JSON has no such number."""
    if isinstance(result, float) and not math.isfinite(result):
        return str(result)
    if result is not None and not isinstance(result, str | int | float):
        raise TypeError(f'extra["result"]: JSON cannot hold {type(result).__name__}')
    return result


def _output_call(measurement: Measurement) -> int:
    """Return how many calls there were before the one for the outputs."""
    calls = [
        measurement.warmup + len(each.samples) * measurement.number for each in measurement.passes
    ]
    return sum(calls) + (measurement.cold is not None) + (measurement.stack is not None)


def content_of(array: npt.NDArray[Any]) -> bytes:
    """Return the bytes of an array without the padding of structs, which has no meaning."""
    if array.dtype.names is not None:
        from numpy.lib.recfunctions import repack_fields

        array = repack_fields(array, recurse=True)
    return array.tobytes()


_MOST_BYTES = 4096  # largest array whose values a Report keeps


def _output(array: npt.NDArray[Any]) -> Output:
    """Describe an output; of a small array of numbers with its values."""
    crc32, values = f"{zlib.crc32(content_of(array)):08x}", ""
    if 0 < array.nbytes <= _MOST_BYTES and array.dtype.kind in "biuf":
        little = array.astype(array.dtype.newbyteorder("<"))
        values = base64.b64encode(zlib.compress(little.tobytes(), 9)).decode()
    return Output(str(array.dtype), array.shape, crc32, values)


# -- emulators that nobody declared ---------------------------------------------------------------


_FEWEST = 1000
"""Least number of instructions in a useful sample: this many include branches, loads and calls."""


_CHANCE = 1000  # counts that are multiples by chance once in more than this are so by design

_SAME = 0.01  # relative difference of cycles and instructions in a reply by the host's time


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
    both = {"cycles", "instructions"}
    passes = [each for m in measurements for each in m.passes if both <= {*each.counters}]
    if passes and all(map(_is_host_time, passes)):
        why = "cycles and instructions follow the host's time, as with QEMU without -icount"
        return _Finding(why, dict.fromkeys(("cycles", "instructions"), why))
    rates = {_rate(each) for each in passes if _own_instructions(each) >= _FEWEST}
    rate = rates.pop() if len(rates) == 1 else None
    if not rate or not all(_is_constant(each, rate) for each in passes):
        return None
    every = (_counts(s) for p in passes for s in (p.samples, p.calibration_samples, p.totals))
    counts = {instructions for windows in every for _, instructions in windows}
    step = math.gcd(*counts)
    each = "one cycle" if rate == 1 else f"{rate} cycles"
    why = f"each instruction takes {each}, as on an emulator"
    if step ** len(counts) < _CHANCE:
        return _Finding(why, {"cycles": why})
    multiples = f"all counts are multiples of {step}, as with QEMU's -icount shift=N"
    return _Finding(why, {"cycles": why, "instructions": multiples})


def _counts(samples: Iterable[Sample]) -> list[tuple[int, int]]:
    """Return the cycles and the instructions of windows."""
    readings = (each.readings for each in samples)
    return [(each["cycles"].value, each["instructions"].value) for each in readings]


def _is_host_time(windows: PassResult) -> bool:
    """Return whether instructions do not count code: a core counts equal code equally."""
    counts = Counter(instructions for _, instructions in _counts(windows.calibration_samples))
    [(_, alike)] = counts.most_common(1)
    totals = _counts(windows.totals)
    return 3 * alike <= 2 * counts.total() and all(
        math.isclose(cycles, instructions, rel_tol=_SAME) for cycles, instructions in totals
    )


def _own_instructions(windows: PassResult) -> int:
    """Return the instructions of the shortest sample, minus those of the empty function."""
    shortest = min(instructions for _, instructions in _counts(windows.samples))
    return shortest - max(instructions for _, instructions in _counts(windows.calibration_samples))


def _rate(windows: PassResult) -> int:
    """Return the cycles per instruction of a sample; 0 if that is not a power of two."""
    first = windows.samples[0], windows.calibration_samples[0]
    (cycles, instructions), (of_empty, in_empty) = _counts(first)
    rate, rest = divmod(cycles - of_empty, instructions - in_empty)
    return rate if rate > 0 and rest == 0 and rate & (rate - 1) == 0 else 0


def _is_constant(windows: PassResult, rate: int) -> bool:
    counts = _counts((*windows.samples, *windows.calibration_samples))
    return len({cycles - rate * instructions for cycles, instructions in counts}) == 1


def _simulated(measurement: Measurement, finding: _Finding) -> Measurement:
    """Return a measurement with a simulated clock, without the counters that have no meaning."""

    def without_lost(sample: Sample) -> Sample:
        readings = sample.readings.items()
        return replace(sample, readings={n: r for n, r in readings if n not in finding.unsupported})

    device, cold = measurement.device, measurement.cold
    device = replace(
        device,
        clock_kind="simulated",
        emulated=True,
        clock_reason=f"{finding.why}; if the core is real, use --clock measured",
        unsupported={**device.unsupported, **finding.unsupported},
    )
    return replace(
        measurement,
        device=device,
        passes=tuple(each.changed(without_lost) for each in measurement.passes),
        clock_fit=None,
        cold=cold and replace(cold, sample=without_lost(cold.sample)),
    )
