# SPDX-License-Identifier: Apache-2.0
"""The devices of measurements, and the parts of a board besides its CPU."""

from __future__ import annotations

from collections.abc import Sequence

from boardprof.report.measurement import Device, Measurement


def devices_of(measurements: Sequence[Measurement]) -> list[Device]:
    """Return the boards of measurements, each once."""
    return list({m.device.name: m.device for m in measurements}.values())


def part_name(measurement: Measurement, part: str | None) -> str:
    """Return the Report's name of a part of the board; None is its CPU."""
    name = measurement.device.name
    return name if part is None else f"{name} {part}"


def busy_parts(measurement: Measurement) -> list[str]:
    """Return the parts besides the CPU that counted anything, or if only they were requested.

    The others have no rows.
    """
    if all(name in measurement.parts for name in measurement.counters):
        return list(dict.fromkeys(measurement.parts[name] for name in measurement.counters))
    return [
        part
        for part in dict.fromkeys(measurement.parts.values())
        if any(
            any(nets)
            for counter, nets in measurement.nets.items()
            if measurement.parts.get(counter) == part
        )
    ]
