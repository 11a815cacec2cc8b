# SPDX-License-Identifier: Apache-2.0
"""What counters' values are called in a Report: the metrics that they stand for, and formulas'."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from boardprof.decode.samples import Reading
from boardprof.metrics import Count, Duration, Metric, Percent, Ratio
from boardprof.report.measurement import Measurement
from boardprof.report.report import Row

__all__ = ["DURATION", "computed", "computed_metrics", "metrics_of"]

DURATION = "Duration (us)"
"""TVM's name for the column of wall time."""

_KINDS: Mapping[str, Callable[[float], Metric]] = {
    "Count": lambda value: Count(round(value)),
    "Percent": Percent,
    "Ratio": Ratio,
}


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


def computed_metrics(measurement: Measurement, values: Mapping[str, int], part: str | None) -> Row:
    """Return the metrics that formulas give; each stands with the first counter that it names."""
    row: Row = {}
    for name, (kind, formula) in measurement.formulas.items():
        if measurement.parts.get(formula.names[0]) != part or not {*formula.names} <= {*values}:
            continue
        value = formula.value(values)
        if value is not None:
            row[name] = computed(kind, value)
    return row


def computed(kind: str, value: float) -> Metric:
    """Return what a formula gives as the metric that it says it is."""
    return _KINDS[kind](value)
