# SPDX-License-Identifier: Apache-2.0
"""Measurements to a Report: rows, totals, configuration, and the raw data beside them."""

from __future__ import annotations

import math
import platform
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from boardprof._version import __version__
from boardprof.decode.clock import ClockFit
from boardprof.decode.samples import Reading, Sample
from boardprof.metrics import Count, Duration, Metric, Percent, Ratio
from boardprof.report.measurement import Device, Measurement, Stack
from boardprof.report.report import SCHEMA_VERSION, Report, Row

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["DURATION", "STACK", "assemble", "metrics_of"]

DURATION = "Duration (us)"
"""TVM's name for the column of wall time."""

PERTURBATION = "Perturbation (%)"
"""Share of the raw window that was the measuring itself, subtracted from the row's counts."""


STACK = "Stack (bytes)"
"""What one call takes of the stack; the same in each row of a measurement."""


_LIBC = {
    False: "none; memcpy and its like are the agent's, byte by byte, unless the code has its own",
    True: "linked; memcpy and its like are its own",
}


def assemble(measurements: Sequence[Measurement], *, swept: bool = False) -> Report:
    """Build the Report of measurements on one board or several.

    Args:
        measurements: at least one.
        swept: rows name their compiler flags, as they do by themselves where these differ.
    """
    totals = _totals(measurements)
    swept = swept or len({m.flags for m in measurements if m.flags is not None}) > 1
    rows = [row for m in measurements for row in _rows(m, totals[m.device.name], swept)]
    return Report(rows, totals, _configuration(measurements), _extra(measurements))


def metrics_of(counter: str, value: int, reading: Reading, clock: str | None) -> dict[str, Metric]:
    """Return a counter's value as the metrics that it stands for.

    Nanoseconds become a Duration; ticks stay ticks and become a Duration as well where they are the
    ``clock`` (see `clock_of`): of several clocks one gives the Duration.
    """
    if reading.unit == "ns":
        name = DURATION if counter == clock else f"{counter} (us)"
        return {name: Duration(value / 1000.0)}
    metrics: dict[str, Metric] = {counter: Count(value)}
    if counter == clock:
        metrics[DURATION] = Duration(value * 1e6 / reading.hz)
    return metrics


def _rows(measurement: Measurement, device_total: Row, swept: bool) -> Iterable[Row]:
    reference = measurement.reference()
    whole = _size(device_total, reference)
    for sample in measurement.samples:
        row: Row = {"Name": measurement.function}
        for counter in measurement.counters:
            net = measurement.net(sample, counter)
            row |= metrics_of(counter, net, sample.readings[counter], measurement.clock)
        if whole > 0:
            part = _size(row, reference)
            row["Percent"] = Percent(100.0 * part / whole)
        if measurement.arguments:
            row["Argument Shapes"] = measurement.arguments
        if swept and measurement.flags is not None:
            row["Flags"] = measurement.flags
        row["Device"] = measurement.device.name
        row["Count"] = Count(measurement.number)
        perturbation = measurement.perturbation_percent(sample)
        if perturbation is not None:
            row[PERTURBATION] = Ratio(perturbation)
        if isinstance(measurement.stack, Stack):
            row[STACK] = Count(measurement.stack.used)
        yield row


def _size(row: Row, counter: str) -> float:
    """Return a counter's value in a row, under whichever name it stands there."""
    metric = row.get(counter) or row.get(f"{counter} (us)") or row.get(DURATION)
    if isinstance(metric, Count):
        return float(metric.value)
    return metric.microseconds if isinstance(metric, Duration) else 0.0


def _totals(measurements: Sequence[Measurement]) -> dict[str, Row]:
    totals: dict[str, Row] = {}
    for measurement in measurements:
        row = totals.setdefault(measurement.device.name, {})
        for counter in measurement.counters:
            total = measurement.total(counter)
            found = metrics_of(counter, total.value, total, measurement.clock)
            for name, metric in found.items():
                row[name] = _sum(row.get(name), metric)
    return totals


def _sum(left: Metric | None, right: Metric) -> Metric:
    if isinstance(left, Count) and isinstance(right, Count):
        return Count(left.value + right.value)
    if isinstance(left, Duration) and isinstance(right, Duration):
        return Duration(left.microseconds + right.microseconds)
    return right


def _configuration(measurements: Sequence[Measurement]) -> Row:
    configuration: Row = {
        "boardprof": __version__,
        "Host": f"{platform.system()} {platform.machine()}",
        "Warm-up": _same(m.warmup for m in measurements),
        "Repeat": _same(len(m.samples) for m in measurements),
        "Number": _same(m.number for m in measurements),
    }
    if any(m.number > 1 for m in measurements):
        configuration["Note"] = "Number > 1: later calls of a sample see what earlier ones left"
    for device in _devices(measurements):
        ours = [m for m in measurements if m.device.name == device.name]
        configuration |= _device_lines(device, ours)
    return configuration


def _same(values: Iterable[int]) -> Metric:
    found = sorted(set(values))
    return Count(found[0]) if len(found) == 1 else ", ".join(map(str, found))


def _device_lines(device: Device, measurements: Sequence[Measurement]) -> Row:
    lines: Row = {f"{device.name} clock": _clock_line(device, measurements)}
    fits = [m.clock_fit for m in measurements if m.clock_fit is not None]
    if fits:
        lines[f"{device.name} clock by the host's"] = _fit_line(fits)
    unsupported = dict(device.unsupported)
    if why := dict.fromkeys(m.stack for m in measurements if isinstance(m.stack, str)):
        unsupported["stack"] = "; ".join(why)
    if unsupported:
        lines[f"{device.name} unsupported"] = "; ".join(
            f"{what} ({why})" for what, why in unsupported.items()
        )
    lines |= _argument_lines(device, measurements)
    lines[f"{device.name} perturbation"] = _perturbation_line(measurements)
    flags = sorted({f for m in measurements for f in _flags(m)})
    if flags:
        lines[f"{device.name} warning"] = "; ".join(flags)
    builds = ", ".join(dict.fromkeys(m.device.build_id for m in measurements))
    lines[f"{device.name} agent"] = f"{device.agent_version}, build {builds}"
    settings = list(dict.fromkeys(m.flags for m in measurements if m.flags is not None))
    if settings:
        lines[f"{device.name} flags"] = _flags_line(device.cflags, settings)
    libc = dict.fromkeys(_LIBC[m.libc] for m in measurements if m.libc is not None)
    if libc:
        lines[f"{device.name} libc"] = " | ".join(libc)
    return lines


def _flags_line(board: Sequence[str], settings: Sequence[str]) -> str:
    """Return the board's flags and each setting's, with the level of optimisation that counts."""
    level = [flag for flag in board if flag.startswith("-O")][-1:]
    brings = [any(word.startswith("-O") for word in setting.split()) for setting in settings]
    own = [flag for flag in board if not flag.startswith("-O")]
    shown = [
        setting if brings_one else " ".join(filter(None, [*level, setting]))
        for setting, brings_one in zip(settings, brings, strict=True)
    ]
    return " ".join(filter(None, [*own, " | ".join(shown)]))


def _argument_lines(device: Device, measurements: Sequence[Measurement]) -> Row:
    """Say what in/out arrays held in each call, where that is not what the host gave; the result.

    Of several functions the results stand in the JSON alone.
    """
    lines: Row = {}
    results = dict.fromkeys(f"{m.result}" for m in measurements if m.result is not None)
    if results and len({m.function for m in measurements}) == 1:
        lines[f"{device.name} returned"] = ", ".join(results)
    kept = [f"{name} of {m.function}" for m in measurements for name in m.kept]
    if kept:
        lines[f"{device.name} kept"] = f"{', '.join(kept)}: not put back between calls"
    again = {m.function: m.sent_again for m in measurements if m.sent_again}
    if again:
        lines[f"{device.name} sent again"] = "; ".join(
            f"in/out arrays of {name}, before each round, which begins cold: {why}"
            for name, why in again.items()
        )
    return lines


def _clock_line(device: Device, measurements: Sequence[Measurement]) -> str:
    rates = {m.samples[0].readings["ticks"].hz for m in measurements if "ticks" in m.counters}
    ticks = "".join(f", {hz:,} ticks a second" for hz in sorted(rates))
    if device.clock_kind == "simulated":
        return f"simulated{ticks} of the emulator's own time; there is no Duration"
    return f"{device.clock_kind}{ticks}"


def _fit_line(fits: Sequence[ClockFit]) -> str:
    """Say of the fit over the longest time: only that one bounds the drift well."""
    fit = max(fits, key=lambda each: each.span_s)
    return (
        f"within {max(each.error_s for each in fits) * 1e6:.3g} us, drift {fit.drift_ppm:+.3g} ppm "
        f"(within {fit.drift_error_ppm:.3g}) over {fit.span_s:.3g} s"
    )


def _perturbation_line(measurements: Sequence[Measurement]) -> str:
    shares = [
        share
        for m in measurements
        for s in m.samples
        if (share := m.perturbation_percent(s)) is not None
    ]
    if not shares:
        return "unknown: every raw window reads 0"
    ends = dict.fromkeys(f"{share:.3g}" for share in (min(shares), max(shares)))
    return f"{' to '.join(ends)} % of the raw windows was the measuring itself, subtracted"


def _flags(measurement: Measurement) -> Iterable[str]:
    for counter in measurement.counters:
        if any(s.readings[counter].ambiguous for s in measurement.samples):
            yield f"{counter} of {measurement.function} may have wrapped unseen"
        if any(measurement.net(s, counter) < 0 for s in measurement.samples):
            yield f"{counter} of {measurement.function} is below what can be resolved (net < 0)"
    if isinstance(measurement.stack, Stack) and measurement.stack.is_at_least:
        yield (
            f"the stack of {measurement.function} is at least {measurement.stack.used:,} bytes: "
            "all that was painted was used"
        )


def _devices(measurements: Sequence[Measurement]) -> list[Device]:
    return list({m.device.name: m.device for m in measurements}.values())


def _extra(measurements: Sequence[Measurement]) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "devices": {
            device.name: {
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
            for device in _devices(measurements)
        },
        "measurements": [_measurement_json(m) for m in measurements],
    }


def _measurement_json(measurement: Measurement) -> dict[str, Any]:
    return {
        "name": measurement.function,
        "device": measurement.device.name,
        "arguments": measurement.arguments,
        "stack": asdict(measurement.stack) if isinstance(measurement.stack, Stack) else None,
        "result": _result_json(measurement.result),
        "outputs": {name: _array_json(array) for name, array in measurement.outputs.items()},
        "flags": measurement.flags,
        "build_id": measurement.device.build_id,
        "clock_fit": asdict(measurement.clock_fit) if measurement.clock_fit else None,
        "collectors": [i for i in range(8) if measurement.mask >> i & 1],
        "number": measurement.number,
        "warmup": measurement.warmup,
        "calibration": {c: measurement.overhead(c) for c in measurement.counters},
        "samples": [_sample_json(s) for s in measurement.samples],
        "calibration_samples": [_sample_json(s) for s in measurement.calibration],
        "totals": [_sample_json(s) for s in measurement.totals],
    }


def _result_json(result: object) -> object:
    """Return a function's result; what JSON has no numbers for as text."""
    return str(result) if isinstance(result, float) and not math.isfinite(result) else result


def _array_json(array: npt.NDArray[Any]) -> dict[str, Any]:
    """Say what an output is, without its data; the CRC-32 is of its bytes on this machine."""
    return {
        "dtype": str(array.dtype),
        "shape": list(array.shape),
        "crc32": f"{zlib.crc32(array.tobytes()):08x}",
    }


def _sample_json(sample: Sample) -> dict[str, Any]:
    raw: dict[str, Any] = {"raw": {c: r.value for c, r in sample.readings.items()}}
    wraps = {c: r.wrapped for c, r in sample.readings.items() if r.wrapped}
    if wraps:
        raw["wraps"] = wraps
    ambiguous = [c for c, r in sample.readings.items() if r.ambiguous]
    if ambiguous:
        raw["ambiguous"] = ambiguous
    raw["blobs"] = sample.raw.hex()
    return raw
