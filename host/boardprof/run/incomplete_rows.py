# SPDX-License-Identifier: Apache-2.0
"""Notes on incomplete rows of a Report, which its table does not show."""

from __future__ import annotations

from collections.abc import Iterator

from boardprof.metrics import Count
from boardprof.report.report import Report


def odd_rows(report: Report) -> Iterator[str]:
    """Yield a note for each kind of incomplete row: without Name, Count, or with Count below 1."""
    calls = report.calls
    lacking = len(calls) - _given(report, "Name")
    if lacking:
        yield f"{_rows(lacking)} no Name"
    counts = calls.column("Count").of(Count)
    uncounted = len(calls) - len(counts.given)
    if uncounted:
        yield f"{_rows(uncounted)} no Count, so values per call cannot be computed"
    none = sum(1 for count in counts.given if count <= 0)
    if none:
        yield f"{_rows(none)} a Count below 1, so values per call cannot be computed"


def _given(report: Report, name: str) -> int:
    column = report.calls.column(name)
    return sum(1 for value in column.given if value != "")


def _rows(number: int) -> str:
    return "1 row has" if number == 1 else f"{number:,} rows have"
