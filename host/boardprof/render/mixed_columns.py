# SPDX-License-Identifier: Apache-2.0
"""Columns that cannot be merged, because merged rows have several kinds of metric."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from boardprof.render.cells import escaped
from boardprof.report.calls import Calls, Row


def mixed_columns(calls: Calls, merged: Iterable[Row]) -> dict[str, str]:
    """Return the columns that are empty in a merged row but not in its rows, and their kinds.

    Args:
        calls: the rows.
        merged: of them.

    Returns:
        Name of the column -> ``Count and Duration``.
    """
    columns = {name: calls.column(name) for name in calls.names}
    kinds = {
        name: " and ".join(sorted({type(value).__name__ for value in column.given}))
        for name, column in columns.items()
        if column.kind is None
    }
    if not kinds:
        return {}
    empty = {name for row in merged for name in kinds if row.get(name) == ""}
    return {name: text for name, text in kinds.items() if name in empty}


def mixed_note(mixed: Mapping[str, str], shown: Callable[[str], str] = escaped) -> Sequence[str]:
    """Return a line that tells of such columns, whose names are shown so; none without any."""
    if not mixed:
        return []
    listed = ", ".join(f"{shown(name)} ({kinds})" for name, kinds in mixed.items())
    return [
        f"Cells are empty where merged rows have several kinds of metric: {listed}. CSV and JSON "
        "have each row."
    ]
