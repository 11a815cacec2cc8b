# SPDX-License-Identifier: Apache-2.0
"""What each device counted from before the first sample to after the last: `device_metrics`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from boardprof.metrics import Count, Duration, Metric
from boardprof.report.counter_metrics import computed_metrics, metrics_of
from boardprof.report.measurement import Measurement
from boardprof.report.parts import devices_of, part_name
from boardprof.report.report import Row

__all__ = ["totals_of"]


def totals_of(measurements: Sequence[Measurement]) -> dict[str, Row]:
    """Return the sums over all measurements, by device; a part beside a CPU is one."""
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
