# SPDX-License-Identifier: Apache-2.0
"""The raw data of a Report for its JSON: devices, samples, calibrations, blobs."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from boardprof.decode.samples import Sample
from boardprof.metrics import metric_to_json
from boardprof.report.interrupts import NOT_MASKED, Interrupts
from boardprof.report.measurement import (
    Cold,
    Device,
    Measurement,
    Stack,
    Windows,
    devices_of,
    metrics_of,
)
from boardprof.report.profile_json import profile_record
from boardprof.report.report import SCHEMA_VERSION, Row, plain_json

if TYPE_CHECKING:
    import numpy.typing as npt


def raw_data_of(measurements: Sequence[Measurement]) -> dict[str, Any]:
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
    found: dict[str, Any] = {
        "name": measurement.function,
        "device": measurement.device.name,
        "arguments": measurement.arguments,
        **({"label": measurement.label} if measurement.label else {}),
        "stack": asdict(measurement.stack) if isinstance(measurement.stack, Stack) else None,
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
        **_interrupts_json(measurement.interrupts),
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


def _interrupts_json(interrupts: Interrupts) -> dict[str, Any]:
    return {} if interrupts == NOT_MASKED else {"interrupts": asdict(interrupts)}


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
    return {
        "collectors": [i for i in range(8) if windows.mask >> i & 1],
        "events": {name: list(events) for name, events in windows.events.items()},
        "samples": [_sample_json(s) for s in windows.samples],
        "calibration_samples": [_sample_json(s) for s in windows.calibration],
        "totals": [_sample_json(s) for s in windows.totals],
        **(
            {"interrupt_costs": _floats(windows.interrupt_costs)} if windows.interrupt_costs else {}
        ),
    }


def _floats(costs: Mapping[str, Fraction]) -> dict[str, float]:
    """Return fractions as JSON numbers."""
    return {name: float(cost) for name, cost in costs.items()}


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
