# SPDX-License-Identifier: Apache-2.0
"""Assembly of a Report from measurements: rows, totals, configuration and raw data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from boardprof.metrics import Count, Duration, Metric
from boardprof.report.configuration import configuration_of
from boardprof.report.counter_metrics import computed_metrics, metrics_of
from boardprof.report.emulator_detection import found_out
from boardprof.report.measurement import Measurement
from boardprof.report.parts import devices_of, part_name
from boardprof.report.raw_data import raw_data_of
from boardprof.report.report import Report, Row
from boardprof.report.rows import rows_of


def assemble(
    measurements: Sequence[Measurement], *, swept: bool = False, missing: Sequence[str] = ()
) -> Report:
    """Build the Report of measurements on one or more boards.

    Args:
        measurements: at least one.
        swept: rows name their compiler flags; they always do if these differ.
        missing: what could not be measured, e.g. ``iir on m4: it ran too long``.
    """
    measurements = found_out(measurements)
    totals = totals_of(measurements)
    swept = swept or len({m.flags for m in measurements if m.flags is not None}) > 1
    rows = (row for m in measurements for row in rows_of(m, totals.get(m.device.name, {}), swept))
    configuration = configuration_of(measurements)
    if missing:
        configuration["Missing"] = "; ".join(missing)
    raw_data = {**raw_data_of(measurements), "missing": list(missing)}
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
