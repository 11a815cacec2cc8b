# SPDX-License-Identifier: Apache-2.0
"""Measurements to a Report: rows, totals, configuration, and the raw data beside them."""

from __future__ import annotations

import math
import platform
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from boardprof._version import __version__
from boardprof.decode.clock import ClockFit
from boardprof.decode.samples import Reading, Sample
from boardprof.metrics import Count, Duration, Metric, Percent, Ratio, metric_to_json
from boardprof.report.measurement import Cold, Device, Measurement, Stack, Windows, clock_of
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


_KINDS: Mapping[str, Callable[[float], Metric]] = {
    "Count": lambda value: Count(round(value)),
    "Percent": Percent,
    "Ratio": Ratio,
}

_LIBC = {
    False: "none; memcpy and its like are the agent's, byte by byte, unless the code has its own",
    True: "linked; memcpy and its like are its own",
}


def assemble(
    measurements: Sequence[Measurement], *, swept: bool = False, missing: Sequence[str] = ()
) -> Report:
    """Build the Report of measurements on one board or several.

    Args:
        measurements: at least one.
        swept: rows name their compiler flags, as they do by themselves where these differ.
        missing: what was to be measured and could not be, e.g. ``iir on m4: it ran too long``.
    """
    totals = _totals(measurements)
    swept = swept or len({m.flags for m in measurements if m.flags is not None}) > 1
    rows = (row for m in measurements for row in _rows(m, totals.get(m.device.name, {}), swept))
    configuration = _configuration(measurements)
    if missing:
        configuration["Missing"] = "; ".join(missing)
    return Report(rows, totals, configuration, {**_extra(measurements), "missing": list(missing)})


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
    busy = _busy_parts(measurement)
    for sample in measurement.samples:
        nets = {counter: measurement.net(sample, counter) for counter in measurement.counters}
        row: Row = {"Name": measurement.function}
        row |= _metrics(measurement, sample, nets, None)
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
        if any(name not in measurement.parts for name in measurement.counters):
            yield row
        for beside in busy:
            metrics = _metrics(measurement, sample, nets, beside)
            yield _part_row(row, _part_name(measurement, beside), metrics)


def _part_row(row: Row, device: str, metrics: Row) -> Row:
    """Return what a part of the board beside its CPU did in the sample that ``row`` is of."""
    same = ("Name", "Argument Shapes", "Flags", "Count")
    named = {key: row[key] for key in same if key in row}
    return {"Name": named.pop("Name"), **metrics, **named, "Device": device}


def _busy_parts(measurement: Measurement) -> list[str]:
    """Return the parts beside the CPU that counted anything, or that alone were asked for.

    The others have no rows.
    """
    if all(name in measurement.parts for name in measurement.counters):
        return list(dict.fromkeys(measurement.parts[name] for name in measurement.counters))
    return [
        part
        for part in dict.fromkeys(measurement.parts.values())
        if any(
            measurement.net(sample, counter)
            for sample in measurement.samples
            for counter in measurement.counters
            if measurement.parts.get(counter) == part
        )
    ]


def _metrics(
    measurement: Measurement, sample: Sample, nets: Mapping[str, int], part: str | None
) -> Row:
    """Return the counters of one part, None: the CPU, and the metrics that are computed of them."""
    row: Row = {}
    for counter, net in nets.items():
        if measurement.parts.get(counter) == part:
            row |= metrics_of(counter, net, sample.readings[counter], measurement.clock)
    return row | _computed(measurement, nets, part)


def _computed(measurement: Measurement, values: Mapping[str, int], part: str | None) -> Row:
    """Return the metrics that formulas give; each stands with the first counter that it names."""
    row: Row = {}
    for name, (kind, formula) in measurement.formulas.items():
        if measurement.parts.get(formula.names[0]) != part or not {*formula.names} <= {*values}:
            continue
        value = formula.value(values)
        if value is not None:
            row[name] = _KINDS[kind](value)
    return row


def _size(row: Row, counter: str) -> float:
    """Return a counter's value in a row, under whichever name it stands there."""
    metric = row.get(counter) or row.get(f"{counter} (us)") or row.get(DURATION)
    if isinstance(metric, Count):
        return float(metric.value)
    return metric.microseconds if isinstance(metric, Duration) else 0.0


def _totals(measurements: Sequence[Measurement]) -> dict[str, Row]:
    totals: dict[str, Row] = {}
    for device in _devices(measurements):
        ours = [m for m in measurements if m.device.name == device.name]
        counts: Counter[str] = Counter()
        if any(name not in m.parts for m in ours for name in m.counters):
            totals[device.name] = {}  # before its parts
        for measurement in ours:
            for counter in measurement.counters:
                row = totals.setdefault(_part_name(measurement, measurement.parts.get(counter)), {})
                total = measurement.total(counter)
                counts[counter] += total.value
                found = metrics_of(counter, total.value, total, measurement.clock)
                for name, metric in found.items():
                    row[name] = _sum(row.get(name), metric)
        for part in (None, *dict.fromkeys(ours[0].parts.values())):
            if _part_name(ours[0], part) in totals:
                totals[_part_name(ours[0], part)] |= _computed(ours[0], counts, part)
    return totals


def _part_name(measurement: Measurement, part: str | None) -> str:
    """Return the Report's name of the board's CPU, None, or of another part of the board."""
    name = measurement.device.name
    return name if part is None else f"{name} {part}"


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
    lines |= _pass_lines(device, measurements)
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


def _pass_lines(device: Device, measurements: Sequence[Measurement]) -> Row:
    """Say which counters come from runs of their own, and which are estimates."""
    lines: Row = {}
    split = [m for m in measurements if len(m.windows) > 1]
    if split:
        texts = dict.fromkeys(" | ".join(", ".join(w.counters) for w in m.windows) for m in split)
        lines[f"{device.name} passes"] = (
            f"{max(len(m.windows) for m in split)} runs, since the counters do not fit into one: "
            + "; ".join(texts)
        )
    mixed = dict.fromkeys(
        name
        for m in split
        for name, (_, formula) in m.formulas.items()
        if {*formula.names} <= {*m.counters}
        and not any({*formula.names} <= {*w.counters} for w in m.windows)
    )
    if mixed:
        lines[f"{device.name} of several runs"] = (
            f"{', '.join(mixed)}: of counters of different runs"
        )
    shared = dict.fromkeys(
        counter
        for m in measurements
        for sample in m.samples
        for counter in m.counters
        if sample.readings[counter].estimated
    )
    if shared:
        lines[f"{device.name} estimated"] = (
            f"{', '.join(shared)}: counted for a part of the time, scaled to the whole"
        )
    parts = dict.fromkeys(part for m in measurements for part in m.parts.values())
    idle = [part for part in parts if not any(part in _busy_parts(m) for m in measurements)]
    if idle:
        lines[f"{device.name} idle"] = ", ".join(idle)
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
    readings = [(name, m.samples[0].readings[name]) for m in measurements for name in m.counters]
    rates = {
        (r.hz, "ticks" if r.unit == "ticks" else name)
        for name, r in readings
        if r.hz and r.unit != "ns"
    }
    ticks = "".join(f", {hz:,} {what} a second" for hz, what in sorted(rates))
    if device.clock_kind == "simulated":
        own = f"{ticks} of" if ticks else ", by"
        return f"simulated{own} the emulator's own time; there is no Duration"
    return f"{device.clock_kind}{ticks}" + (", of a simulated board" if device.emulated else "")


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
        told = f"{_column(measurement, counter)} of {measurement.function}"
        if any(s.readings[counter].ambiguous for s in measurement.samples):
            yield f"{told} may have wrapped unseen"
        if any(measurement.net(s, counter) < 0 for s in measurement.samples):
            yield f"{told} is below what can be resolved (net < 0)"
    if isinstance(measurement.stack, Stack) and measurement.stack.is_at_least:
        yield (
            f"the stack of {measurement.function} is at least {measurement.stack.used:,} bytes: "
            "all that was painted was used"
        )


def _column(measurement: Measurement, counter: str) -> str:
    """Return the column that a counter stands in."""
    readings = measurement.samples[0].readings
    clock = clock_of(readings, measurement.device.clock_kind)
    return next(iter(metrics_of(counter, 0, readings[counter], clock)))


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
        "number": measurement.number,
        "warmup": measurement.warmup,
        "formulas": {n: [kind, f.text] for n, (kind, f) in measurement.formulas.items()},
        **({"compilers": list(measurement.compilers)} if measurement.compilers else {}),
        **({"cold": _cold_json(measurement.cold, measurement.clock)} if measurement.cold else {}),
        "calibration": {c: measurement.overhead(c) for c in measurement.counters},
        **_windows_json(measurement.windows[0]),
        "further_passes": [_windows_json(each) for each in measurement.windows[1:]],
    }


def _cold_json(cold: Cold, clock: str | None) -> dict[str, Any]:
    """Return the first call of all: its metrics, net, and what they come from."""
    metrics: Row = {}
    for counter, net in cold.nets.items():
        metrics |= metrics_of(counter, net, cold.sample.readings[counter], clock)
    return {
        "metrics": {name: metric_to_json(metric) for name, metric in metrics.items()},
        "calibration": dict(cold.overhead),
        **_sample_json(cold.sample),
    }


def _windows_json(windows: Windows) -> dict[str, Any]:
    return {
        "collectors": [i for i in range(8) if windows.mask >> i & 1],
        "events": {name: list(events) for name, events in windows.events.items()},
        "samples": [_sample_json(s) for s in windows.samples],
        "calibration_samples": [_sample_json(s) for s in windows.calibration],
        "totals": [_sample_json(s) for s in windows.totals],
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
    if estimated := [c for c, r in sample.readings.items() if r.estimated]:
        raw["estimated"] = estimated
    ambiguous = [c for c, r in sample.readings.items() if r.ambiguous]
    if ambiguous:
        raw["ambiguous"] = ambiguous
    raw["blobs"] = sample.raw.hex()
    return raw
