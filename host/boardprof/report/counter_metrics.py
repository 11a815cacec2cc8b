# SPDX-License-Identifier: Apache-2.0
"""The metrics of counters and formulas in a Report."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from boardprof.decode.samples import Reading
from boardprof.metrics import Count, Duration, Metric, Percent, Ratio
from boardprof.report.measurement import Measurement
from boardprof.report.report import Row

DURATION = "Duration (us)"
"""TVM's name for the column of wall time."""

_KINDS: Mapping[str, Callable[[float], Metric]] = {
    "Count": lambda value: Count(round(value)),
    "Percent": Percent,
    "Ratio": Ratio,
}


def metrics_of(counter: str, value: int, reading: Reading, clock: str | None) -> dict[str, Metric]:
    """Return a counter's value as metrics.

    Nanoseconds become a Duration. Ticks stay ticks, and also become a Duration if they are the
    ``clock`` (see `clock_of`): only one of several clocks gives the Duration.
    """
    if reading.unit == "ns":
        name = DURATION if counter == clock else f"{counter} (us)"
        return {name: Duration(value / 1000.0)}
    metrics: dict[str, Metric] = {counter: Count(value)}
    if counter == clock:
        metrics[DURATION] = Duration(value * 1e6 / reading.hz)
    return metrics


def computed_metrics(measurement: Measurement, values: Mapping[str, int], part: str | None) -> Row:
    """Return the metrics of formulas; each belongs to the first counter that it names."""
    row: Row = {}
    for name, (kind, formula) in measurement.formulas.items():
        if measurement.parts.get(formula.names[0]) != part or not {*formula.names} <= {*values}:
            continue
        value = formula.value(values)
        if value is not None:
            row[name] = computed(kind, value)
    return row


def computed(kind: str, value: float) -> Metric:
    """Return a formula's value as a metric of its kind."""
    return _KINDS[kind](value)
