# SPDX-License-Identifier: Apache-2.0
"""What the page draws of profiles: a flame graph, the functions, and the source beside them."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from boardprof.comparison.profile_difference import AlignedLine, aligned_lines, plain_name
from boardprof.printable import bounded
from boardprof.render.profile_stacks import INTERRUPTED, stacks_of
from boardprof.render.profile_tables import notes
from boardprof.report.profile import Profile
from boardprof.report.profile_json import ProfiledRow, profiles_of
from boardprof.report.report import Report

_CONTEXT = 2
"""Lines of source that are shown around those that ran."""


def profile_views(report: Report, before: Report | None = None) -> list[dict[str, Any]]:
    """Return the page's data of each profile in a Report as plain JSON.

    Args:
        report: what the page is about.
        before: an older one; where it has a profile of the same row, the page shows the change.

    Raises:
        DecodeError: a profile is damaged.
    """
    older = {_place(row): row.profile for row in profiles_of(before)} if before else {}
    return [_view(row, older.get(_place(row))) for row in profiles_of(report)]


def _place(row: ProfiledRow) -> tuple[str, ...]:
    return row.name, row.shapes, row.device, row.flags, row.label


def _view(row: ProfiledRow, before: Profile | None) -> dict[str, Any]:
    after = row.profile
    sides = [after]
    if before is not None and set(after.columns) <= set(before.columns):
        sides.append(before)
    where = ", ".join(filter(None, (row.label, row.shapes, row.flags)))
    return {
        "name": bounded(f"{row.name} {where}".strip()),
        "device": bounded(row.device),
        "metrics": [bounded(name) for name in after.columns],
        "first": after.column(),
        "notes": [[bounded(note) for note in notes(after, name)] for name in after.columns],
        "totals": [[side.sum(name) for name in after.columns] for side in sides],
        "nodes": _nodes(sides, after.columns),
        "functions": _functions(sides, after.columns),
        "files": list(_files(after, sides[-1])),
    }


def _nodes(sides: Sequence[Profile], metrics: Sequence[str]) -> list[list[Any]]:
    """Return the tree of calls, parents first: parent, name, place, and each side's own costs."""
    numbers: dict[tuple[str, ...], int] = {(): -1}
    nodes: list[list[Any]] = []
    for number, side in enumerate(sides):
        for column, metric in enumerate(metrics):
            for stack, cost in stacks_of(side, metric).items():
                if stack[0].function == INTERRUPTED:
                    continue  # they are not in the call's total
                # A clone of the compiler's stays the function that it was made of.
                names = tuple(plain_name(frame.function) for frame in stack)
                for depth, frame in enumerate(stack, 1):
                    if names[:depth] not in numbers:
                        own = [[0] * len(metrics) for _ in sides]
                        place = _where(frame.file, frame.line if depth < len(stack) else 0)
                        parent = numbers[names[: depth - 1]]
                        numbers[names[:depth]] = len(nodes)
                        nodes.append([parent, bounded(frame.function), bounded(place), *own])
                nodes[numbers[names]][3 + number][column] += cost
    return nodes


def _where(file: str, line: int) -> str:
    return f"{posixpath.basename(file)}:{line}" if file and line else posixpath.basename(file)


def _functions(sides: Sequence[Profile], metrics: Sequence[str]) -> list[dict[str, Any]]:
    """Return the functions: own costs and costs with all that they call, by side and metric."""
    rows: dict[str, dict[str, Any]] = {}
    for number, side in enumerate(sides):
        for column, metric in enumerate(metrics):
            for each in side.functions(metric):
                nothing = {
                    "name": bounded(each.name),
                    "place": bounded(_where(each.file, each.line)),
                    "self": [[0] * len(metrics) for _ in sides],
                    "total": [[0] * len(metrics) for _ in sides],
                    "calls": [0] * len(sides),
                }
                row = rows.setdefault(plain_name(each.name), nothing)
                row["self"][number][column] += each.self
                row["total"][number][column] += each.total
                row["calls"][number] = each.calls
    return list(rows.values())


def _files(after: Profile, before: Profile) -> Iterator[dict[str, Any]]:
    """Yield each source with the lines that ran, and some around them.

    A row: number, 0 where the line is gone; text; functions; and (before, after) by metric.
    """
    metrics = after.columns
    by_metric = [aligned_lines(before, after, name) for name in metrics]
    functions = _functions_of_lines(after)
    for file, lines in by_metric[0].items():
        costs = [
            [(one[file][i].before, one[file][i].after) for one in by_metric]
            for i in range(len(lines))
        ]
        ran = {i for i, line in enumerate(lines) if line.before or line.after}
        near = {i + d for i in ran for d in range(-_CONTEXT, _CONTEXT + 1)}
        yield {
            "name": bounded(file),
            "rows": [
                _row(lines[i], functions.get((file, lines[i].new), ""), costs[i], i in ran)
                for i in sorted(near)
                if 0 <= i < len(lines)
            ],
        }


def _row(
    line: AlignedLine, function: str, costs: Sequence[tuple[int, int]], has_run: bool
) -> list[Any]:
    row = [line.new, bounded(line.text.expandtabs(4))]
    return [*row, bounded(function), line.times_after, *map(list, costs)] if has_run else row


def _functions_of_lines(profile: Profile) -> Mapping[tuple[str, int], str]:
    return {(each.file, each.line): plain_name(each.function) for each in profile.lines()}
