# SPDX-License-Identifier: Apache-2.0
"""The rows of a measurement: one per sample, and one more for each busy part besides the CPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from boardprof.decode.samples import Sample
from boardprof.metrics import Count, Duration, Percent, Ratio
from boardprof.report.counter_metrics import DURATION, computed_metrics, metrics_of
from boardprof.report.measurement import Measurement, Stack
from boardprof.report.parts import busy_parts, part_name
from boardprof.report.report import Row

PERTURBATION = "Perturbation (%)"
"""Share of measurement overhead in the raw window; it is subtracted from the row's counts."""

STACK = "Stack (bytes)"
"""The stack need of one call; the same in each row of a measurement."""


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
        row["Percent"] = Percent(100.0 * _size(row, reference) / whole)
    if measurement.arguments:
        row["Argument Shapes"] = measurement.arguments
    if swept and measurement.flags is not None:
        row["Flags"] = measurement.flags
    if measurement.label:
        row["Label"] = measurement.label
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
