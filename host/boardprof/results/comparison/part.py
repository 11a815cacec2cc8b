# SPDX-License-Identifier: Apache-2.0
"""The part of a Report that is about the calls of another one."""

from __future__ import annotations

from boardprof.results.report.report import Report

_COLUMNS = ("Name", "Argument Shapes")
_STORED = ("name", "arguments")
"""The same keys in the raw data."""


def part_of_calls(report: Report, measured: Report) -> Report | None:
    """Return the rows of the functions and arguments in ``measured``; None if there are none.

    They are of the same boards if there are such rows, else of all boards.
    """
    wanted = {tuple(row.get(name, "") for name in _COLUMNS) for row in measured.calls}
    rows = [row for row in report.calls if tuple(row.get(name, "") for name in _COLUMNS) in wanted]
    if not rows:
        return None
    devices = {row.get("Device") for row in measured.calls}
    extra = report.extra and {
        **report.extra,
        "measurements": [
            each
            for each in report.extra.get("measurements") or ()
            if tuple(each.get(name, "") for name in _STORED) in wanted
        ],
    }
    own = [row for row in rows if row.get("Device") in devices] or rows
    return Report(own, report.device_metrics, report.configuration, extra)
