# SPDX-License-Identifier: Apache-2.0
"""The part of a Report that is about the calls of another one."""

from __future__ import annotations

from dataclasses import replace

from boardprof.results.record import NO_RECORD
from boardprof.results.report.report import Report

_COLUMNS = ("Name", "Argument Shapes")


def part_of_calls(report: Report, measured: Report) -> Report | None:
    """Return the rows of the functions and arguments in ``measured``; None if there are none.

    They are of the same boards if there are such rows, else of all boards.
    """
    wanted = {tuple(row.get(name, "") for name in _COLUMNS) for row in measured.calls}
    rows = [row for row in report.calls if tuple(row.get(name, "") for name in _COLUMNS) in wanted]
    if not rows:
        return None
    devices = {row.get("Device") for row in measured.calls}
    kept = [
        each
        for each in (report.record or NO_RECORD).measurements
        if (each.name, each.arguments) in wanted
    ]
    record = report.record and replace(report.record, measurements=tuple(kept))
    own = [row for row in rows if row.get("Device") in devices] or rows
    return Report(own, report.device_metrics, report.configuration, record=record)
