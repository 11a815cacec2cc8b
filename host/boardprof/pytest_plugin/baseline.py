# SPDX-License-Identifier: Apache-2.0
"""What of an earlier run is about the same as what one test has measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from boardprof.comparison.matching import comparable_flags
from boardprof.report.report import Report, Row

__all__ = ["part_about"]

_LABEL = "Label"
_KEYS = ("Name", "Argument Shapes", _LABEL)
_STORED = ("name", "arguments", "label")
"""What tells measurements on a board apart: columns of rows, and keys of the raw data."""


def part_about(earlier: Report, report: Report, *, any_board: bool) -> Report | None:
    """Return the part of an earlier run that is about the same; None: there is none.

    Rows are about the same by name, arguments, label (the test) and board. Those of a run in which
    tests have built with several flags name them: then these must be the same as well, and are left
    out, as the test's own rows have none. A run of no tests has no labels: it is about each test.

    Args:
        earlier: all tests' rows.
        report: one measurement's.
        any_board: it may be of another board.
    """
    if _LABEL not in earlier.calls.names:
        earlier = _labelled(earlier, report)
    keys = _KEYS if any_board else (*_KEYS, "Device")
    wanted = {tuple(row.get(key, "") for key in keys) for row in report.calls}
    flags = {comparable_flags(text) for text in _flags(report)}
    rows: list[Row] = [
        {name: metric for name, metric in row.items() if name != "Flags"}
        for row in earlier.calls
        if tuple(row.get(key, "") for key in keys) in wanted and _fits(row.get("Flags", ""), flags)
    ]
    if not rows:
        return None
    is_swept = "Flags" in earlier.calls.names
    kept = [
        each
        for each in _measurements(earlier)
        if tuple(each.get(key, "") for key in _STORED) in {key[:3] for key in wanted}
        and (not is_swept or _fits(each.get("flags"), flags))
    ]
    extra = None if earlier.extra is None else {**earlier.extra, "measurements": kept}
    return Report(rows, earlier.device_metrics, earlier.configuration, extra)


def _labelled(earlier: Report, report: Report) -> Report:
    """Return an earlier run with the label of the test's rows."""
    label = next(iter(report.calls.column(_LABEL).filled("")), "")
    rows: list[Row] = [{**row, _LABEL: label} for row in earlier.calls]
    kept = [{**each, "label": label} for each in _measurements(earlier)]
    extra = None if earlier.extra is None else {**earlier.extra, "measurements": kept}
    return Report(rows, earlier.device_metrics, earlier.configuration, extra)


def _fits(found: object, wanted: set[str]) -> bool:
    """Tell whether flags are among those that are wanted; rows that name none are."""
    return not isinstance(found, str) or found == "" or comparable_flags(found) in wanted


def _flags(report: Report) -> Iterator[str]:
    for each in _measurements(report):
        if isinstance(each.get("flags"), str):
            yield each["flags"]


def _measurements(report: Report) -> list[Mapping[str, Any]]:
    found = (report.extra or {}).get("measurements") or ()
    return [each for each in found if isinstance(each, Mapping)]
