# SPDX-License-Identifier: Apache-2.0
"""Where a function changed, as rows for tables: functions first, then lines of the sources."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

from boardprof.comparison.profile_difference import (
    FunctionChange,
    LineChange,
    ProfileDifference,
)
from boardprof.render.layout import Column, Page, Table

MOST = 5
"""Functions, and lines, that are shown."""

_LONGEST = 60


@dataclass(frozen=True)
class ChangeRow:
    """A function or a line that changed.

    Attributes:
        where: the function, or file and line.
        before: cost.
        after: likewise.
        change: their difference, with sign.
        what: what is known of it, such as ``new, 256 calls``.
        source: text of the line, "" for a function.
    """

    where: str
    before: str
    after: str
    change: str
    what: str
    source: str


def change_rows(difference: ProfileDifference, most: int = MOST) -> list[ChangeRow]:
    """Return the functions and the lines that changed most."""
    functions = [
        _row(each.name, each, _function_text(each), "") for each in difference.functions[:most]
    ]
    lines = [
        _row(_place(each), each, _line_text(each), _cut(each.text))
        for each in difference.lines[:most]
    ]
    return functions + lines


def rest_text(difference: ProfileDifference, most: int = MOST) -> str:
    """Return how much is not among `change_rows`; "" if nothing."""
    rest = [
        f"{len(found) - most} more {name}{'s' * (len(found) - most > 1)}"
        for name, found in (("function", difference.functions), ("line", difference.lines))
        if len(found) > most
    ]
    return f"and {' and '.join(rest)} with smaller changes" if rest else ""


def difference_page(title: str, difference: ProfileDifference) -> Page:
    """Return it as a table under a title."""
    rows = change_rows(difference)
    columns = [
        Column("Where", [row.where for row in rows]),
        Column("Before", [row.before for row in rows]),
        Column("After", [row.after for row in rows]),
        Column("Change", [row.change for row in rows]),
        Column("What", [row.what for row in rows], is_text=True),
        Column("Source", [row.source for row in rows], is_text=True),
    ]
    rest = rest_text(difference)
    table = Table([each for each in columns if any(each.cells)], spare=("Before", "After"))
    return [f"Where {title} changed:", table, *([rest] if rest else []), ""]


def _row(where: str, change: FunctionChange | LineChange, what: str, source: str) -> ChangeRow:
    return ChangeRow(
        where, f"{change.before:,}", f"{change.after:,}", f"{change.change:+,}", what, source
    )


def _function_text(change: FunctionChange) -> str:
    calls = change.calls_before, change.calls_after
    if change.inlined_after and not change.inlined_before and calls[0] > calls[1]:
        return f"inlined now, {_times(calls[0])} before"
    if change.inlined_before and not change.inlined_after and calls[1] > calls[0]:
        return f"inlined before, {_times(calls[1])} now"
    if not change.before and not calls[0]:
        return f"new, {_times(calls[1])}" if calls[1] else "new"
    if not change.after and not calls[1]:
        return f"gone, {_times(calls[0])} before" if calls[0] else "gone"
    if calls[0] != calls[1]:
        return f"{calls[0]:,} to {_times(calls[1])}"
    return ""


def _times(calls: int) -> str:
    return f"{calls:,} call{'s' * (calls != 1)}"


def _line_text(change: LineChange) -> str:
    if change.is_new:
        return f"new, {_executed(change.times_after)}"
    if change.is_gone:
        return f"gone, {_executed(change.times_before)} before"
    before, after = change.times_before, change.times_after
    if before != after:
        return f"{before:,} to {_executed(after)}"
    if change.first == change.last and before and not change.before % before | change.after % after:
        return f"{_executed(before)}, {change.before // before} to {change.after // after} each"
    return _executed(before)


def _executed(times: int) -> str:
    return f"{times:,} time{'s' * (times != 1)}"


def _place(change: LineChange) -> str:
    lines = f"{change.first}" if change.first == change.last else f"{change.first}-{change.last}"
    return f"{posixpath.basename(change.file)}:{lines}"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def title_of(place: tuple[str, ...]) -> str:
    """Return what a row is called; ``place`` as of `place_of`."""
    name, label, _, device, flags, metric = place
    return " ".join(filter(None, [metric, "of", name, label, flags, f"on {device}"]))
