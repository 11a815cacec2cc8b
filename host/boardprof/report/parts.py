# SPDX-License-Identifier: Apache-2.0
"""Where counters count: the devices of measurements, and the parts of a board beside its CPU."""

from __future__ import annotations

from collections.abc import Sequence

from boardprof.report.measurement import Device, Measurement

__all__ = ["busy_parts", "devices_of", "part_name"]


def devices_of(measurements: Sequence[Measurement]) -> list[Device]:
    """Return the boards that measurements are of, each once."""
    return list({m.device.name: m.device for m in measurements}.values())


def part_name(measurement: Measurement, part: str | None) -> str:
    """Return the Report's name of the board's CPU, None, or of another part of the board."""
    name = measurement.device.name
    return name if part is None else f"{name} {part}"


def busy_parts(measurement: Measurement) -> list[str]:
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
