# SPDX-License-Identifier: Apache-2.0
"""Assembly of a Report from measurements: rows, totals, configuration and raw data."""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from boardprof.base.metrics import Count, Duration, Metric, Percent, Ratio, metric_to_json
from boardprof.results.report.calls import DURATION, LABEL, PERTURBATION, SHARE, STACK, Row
from boardprof.results.report.configuration import configuration_of
from boardprof.results.report.emulator_detection import mark_emulators
from boardprof.results.report.interrupts import NOT_MASKED
from boardprof.results.report.measurement import (
    Cold,
    Device,
    Measurement,
    Stack,
    Windows,
    busy_parts,
    computed_metrics,
    devices_of,
    metrics_of,
    part_name,
)
from boardprof.results.report.profile_json import profile_record
from boardprof.results.report.report import SCHEMA_VERSION, Report, plain_json
from boardprof.wire.decode.samples import Sample

if TYPE_CHECKING:
    import numpy.typing as npt


def assemble(
    measurements: Sequence[Measurement],
    *,
    swept: bool = False,
    missing: Sequence[str] = (),
    wrong: Sequence[str] = (),
) -> Report:
    """Build the Report of measurements on one or more boards.

    Args:
        measurements: at least one.
        swept: rows name their compiler flags; they always do if these differ.
        missing: what could not be measured, e.g. ``iir on m4: it ran too long``.
        wrong: outputs that differ from what was expected; their functions were measured.
    """
    measurements = mark_emulators(measurements)
    totals = totals_of(measurements)
    swept = swept or len({m.flags for m in measurements if m.flags is not None}) > 1
    rows = (row for m in measurements for row in rows_of(m, totals.get(m.device.name, {}), swept))
    configuration = configuration_of(measurements)
    if missing:
        configuration["Missing"] = "; ".join(missing)
    if wrong:
        configuration["Wrong output"] = "; ".join(wrong)
    raw_data = {**_raw_data(measurements), "missing": list(missing)}
    return Report.owning(rows, totals, configuration, raw_data)


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
                    row[name] = _sum(row.get(name), metric)
        for part in (None, *dict.fromkeys(ours[0].parts.values())):
            if part_name(ours[0], part) in totals:
                totals[part_name(ours[0], part)] |= computed_metrics(ours[0], counts, part)
    return totals


def _sum(left: Metric | None, right: Metric) -> Metric:
    if isinstance(left, Count) and isinstance(right, Count):
        return Count(left.value + right.value)
    if isinstance(left, Duration) and isinstance(right, Duration):
        return Duration(left.microseconds + right.microseconds)
    return right


def rows_of(measurement: Measurement, device_total: Row, swept: bool) -> Iterator[Row]:
    """Yield a measurement's rows.

    Args:
        measurement: of one function.
        device_total: the total of the whole board, to which the rows' Percent refers.
        swept: whether rows name their compiler flags.
    """
    busy = busy_parts(measurement)
    has_cpu = any(name not in measurement.parts for name in measurement.counters)
    values = zip(*measurement.nets.values(), strict=True)
    samples = zip(measurement.samples, values, measurement.perturbations, strict=True)
    for sample, row_of_nets, perturbation in samples:
        nets = dict(zip(measurement.nets, row_of_nets, strict=True))
        row = _cpu_row(measurement, sample, nets, device_total, swept)
        if perturbation is not None:
            row[PERTURBATION] = Ratio(perturbation)
        if isinstance(measurement.stack, Stack):
            row[STACK] = Count(measurement.stack.used)
        if has_cpu:
            yield row
        for part in busy:
            metrics = _metrics(measurement, sample, nets, part)
            yield _part_row(row, part_name(measurement, part), metrics)


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


# -- raw data -----------------------------------------------------------------------------------


def _raw_data(measurements: Sequence[Measurement]) -> dict[str, Any]:
    """Return the raw data in the Report's JSON, from which its rows can be computed again."""
    return {
        "schema_version": SCHEMA_VERSION,
        "devices": plain_json(
            {device.name: _device_json(device) for device in devices_of(measurements)}
        ),
        "measurements": [_measurement_json(m) for m in measurements],
    }


def _device_json(device: Device) -> dict[str, Any]:
    return {
        "clock_kind": device.clock_kind,
        "emulated": device.emulated,
        "port": device.port,
        "agent_version": device.agent_version,
        "build_id": device.build_id,
        "cflags": list(device.cflags),
        "boot_id": device.boot_id,
        "unsupported": dict(device.unsupported),
        "collectors": [asdict(collector) for collector in device.collectors],
    }


def _measurement_json(measurement: Measurement) -> dict[str, Any]:
    interrupts = measurement.interrupts
    found: dict[str, Any] = {
        "name": measurement.function,
        "device": measurement.device.name,
        "arguments": measurement.arguments,
        **({"inputs_crc32": measurement.inputs_crc32} if measurement.inputs_crc32 else {}),
        **({"label": measurement.label} if measurement.label else {}),
        "stack": asdict(measurement.stack) if isinstance(measurement.stack, Stack) else None,
        **({"stack_unknown": measurement.stack} if isinstance(measurement.stack, str) else {}),
        "result": _result_json(measurement.result),
        "outputs": {name: _array_json(array) for name, array in measurement.outputs.items()},
        "flags": measurement.flags,
        "build_id": measurement.device.build_id,
        "clock_fit": asdict(measurement.clock_fit) if measurement.clock_fit else None,
        "number": measurement.number,
        "warmup": measurement.warmup,
        "calls_before": measurement.calls_before,
        "formulas": {n: [kind, f.text] for n, (kind, f) in measurement.formulas.items()},
        **({"compilers": list(measurement.compilers)} if measurement.compilers else {}),
        **({"libc": measurement.libc} if measurement.libc else {}),
        **({"source": asdict(measurement.source)} if measurement.source else {}),
        **({} if interrupts == NOT_MASKED else {"interrupts": asdict(interrupts)}),
        **({"cold": _cold_json(measurement.cold, measurement.clock)} if measurement.cold else {}),
        "calibration": {c: measurement.overhead(c) for c in measurement.counters},
        **({"hotspots": profile_record(measurement.profile)} if measurement.profile else {}),
    }
    # There are many samples, and they already are JSON types, so do not copy them.
    return {
        **plain_json(found),
        **_windows_json(measurement.windows[0]),
        "further_passes": [_windows_json(each) for each in measurement.windows[1:]],
    }


def _cold_json(cold: Cold, clock: str | None) -> dict[str, Any]:
    """Return the very first call: its net metrics and their raw data."""
    metrics: Row = {}
    for counter, net in cold.nets.items():
        metrics |= metrics_of(counter, net, cold.sample.readings[counter], clock)
    return {
        "metrics": {name: metric_to_json(metric) for name, metric in metrics.items()},
        "calibration": dict(cold.overhead),
        **_sample_json(cold.sample),
    }


def _windows_json(windows: Windows) -> dict[str, Any]:
    costs = {name: float(cost) for name, cost in windows.interrupt_costs.items()}
    return {
        "collectors": [i for i in range(8) if windows.mask >> i & 1],
        "events": {name: list(events) for name, events in windows.events.items()},
        "samples": [_sample_json(s) for s in windows.samples],
        "calibration_samples": [_sample_json(s) for s in windows.calibration],
        "totals": [_sample_json(s) for s in windows.totals],
        **({"interrupt_costs": costs} if costs else {}),
    }


def _sample_json(sample: Sample) -> dict[str, Any]:
    raw: dict[str, Any] = {"raw": {c: r.value for c, r in sample.readings.items()}}
    if any(r.wrapped or r.estimated or r.ambiguous for r in sample.readings.values()):
        raw |= _doubts_json(sample)
    raw["blobs"] = sample.raw.hex()
    return raw


def _doubts_json(sample: Sample) -> dict[str, Any]:
    readings = sample.readings.items()
    found = {
        "wraps": {c: r.wrapped for c, r in readings if r.wrapped},
        "estimated": [c for c, r in readings if r.estimated],
        "ambiguous": [c for c, r in readings if r.ambiguous],
    }
    return {key: doubts for key, doubts in found.items() if doubts}


def _result_json(result: object) -> object:
    """Return a function's result; as text if JSON has no such number."""
    return str(result) if isinstance(result, float) and not math.isfinite(result) else result


def _array_json(array: npt.NDArray[Any]) -> dict[str, Any]:
    """Describe an output without its data; the CRC-32 is of its bytes on this machine."""
    return {
        "dtype": str(array.dtype),
        "shape": list(array.shape),
        "crc32": f"{zlib.crc32(array.tobytes()):08x}",
    }
