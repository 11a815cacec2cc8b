# SPDX-License-Identifier: Apache-2.0
"""The Report of a program: a row for each call, in the order of execution."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from boardprof.metrics import Count, Duration, Metric, Percent
from boardprof.profiling.host_collectors import Gathered, columns_for
from boardprof.profiling.program_call import ProgramCall
from boardprof.report.assemble import assemble
from boardprof.report.measurement import DURATION, Measurement
from boardprof.report.report import Report, Row

END_TO_END = "End to end (us)"
"""Time of a whole run by the host's clock."""


@dataclass(frozen=True)
class Executed:
    """One execution of one call.

    Attributes:
        call: the call.
        measurement: of one sample.
        gathered: metrics of the host collectors.
    """

    call: ProgramCall
    measurement: Measurement
    gathered: Gathered


def program_report(
    executed: Sequence[Executed], warmup: int, repeat: int, elapsed_s: Sequence[float]
) -> Report:
    """Build the Report of a program's runs.

    Args:
        executed: all calls of the first run, then those of the next; at least one.
        warmup: number of warm-up runs.
        repeat: number of measured runs.
        elapsed_s: time of each run by the host's clock.
    """
    measurements = [each.measurement for each in executed]
    report = assemble(measurements)
    rows: list[Row] = [dict(row) for row in report.calls]
    columns = columns_for((e.gathered for e in executed), (name for row in rows for name in row))
    for each, group in zip(executed, _groups(rows, measurements), strict=True):
        for row in group:
            row["Hash"] = each.call.hash
            if each.call.label is not None:
                row["Label"] = each.call.label
        for label, metrics in each.gathered.items():
            group[0] |= {columns[label, name]: metric for name, metric in metrics.items()}
    _share_of_the_longest(rows, report.device_metrics)
    configuration: Row = {
        "Executor": "Program",
        "Number of threads": Count(1),
        END_TO_END: _end_to_end(executed, elapsed_s),
        **report.configuration,
        "Warm-up": Count(warmup),
        "Repeat": Count(repeat),
    }
    return Report(rows, report.device_metrics, configuration, report.extra)


def _groups(rows: Sequence[Row], measurements: Sequence[Measurement]) -> Iterator[list[Row]]:
    """Assign rows to each measurement: the CPU's, and those of the board's other parts."""
    at = 0
    for measurement in measurements:
        parts = {f"{measurement.device.name} {part}" for part in measurement.parts.values()}
        end = at + 1
        parts.discard(f"{rows[at]['Device']}")
        while end < len(rows) and rows[end]["Device"] in parts:
            parts.discard(f"{rows[end]['Device']}")
            end += 1
        yield list(rows[at:end])
        at = end


def _share_of_the_longest(rows: Sequence[Row], totals: Mapping[str, Row]) -> None:
    """With several boards that all have a clock, refer Percent to the one that is busy longest."""
    boards = {row["Device"] for row in rows if "Percent" in row}
    times = [totals[f"{board}"].get(DURATION) for board in boards]
    spans = [time.microseconds for time in times if isinstance(time, Duration)]
    if len(boards) < 2 or len(spans) < len(boards) or max(spans) <= 0:
        return
    for row in rows:
        time = row.get(DURATION)
        if "Percent" in row and isinstance(time, Duration):
            row["Percent"] = Percent(100.0 * time.microseconds / max(spans))


def _end_to_end(executed: Sequence[Executed], elapsed_s: Sequence[float]) -> Metric:
    """Return the median of the runs' times; an emulator's time is meaningless."""
    devices = {each.measurement.device.name: each.measurement.device for each in executed}
    emulated = [device.name for device in devices.values() if device.emulated]
    if emulated:
        verb = "is" if len(emulated) == 1 else "are"
        return f"not known: {' and '.join(emulated)} {verb} emulated"
    return Duration(1e6 * statistics.median(elapsed_s))
