# SPDX-License-Identifier: Apache-2.0
"""A Report as one self-contained HTML page that does not use the network.

The page contains the whole Report, so it is also an archive. A Report's content is untrusted,
because names come from other people's code. So text is escaped and its direction is isolated, and
the page's content security policy allows only its own script.

Of a profile it draws a flame graph, the functions, and the source beside them.
"""

from __future__ import annotations

import base64
import gzip
import html
import io
import itertools
import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from string import Template
from typing import Any, Final

from boardprof import __version__
from boardprof.base.errors import ReportFileError
from boardprof.base.printable import bounded
from boardprof.results.comparison.compare import compare
from boardprof.results.comparison.profile_difference import AlignedLine, aligned_lines, plain_name
from boardprof.results.report.profile import Profile
from boardprof.results.report.report import Report
from boardprof.results.report_json import json_pieces
from boardprof.results.row_origins import ProfiledRow, profiles_of
from boardprof.results.stats.groups import summaries
from boardprof.show.answer import doubts
from boardprof.show.cells import heading
from boardprof.show.flame_graph import INTERRUPTED, stacks_of
from boardprof.show.html_facts import (
    cards,
    clock_tags,
    configuration_rows,
    facts_line,
    isolated,
    warning_list,
)
from boardprof.show.html_view import page_view
from boardprof.show.page_parts import asset, content_hash, inert
from boardprof.show.profile_tables import interval_text, notes

__all__ = ["read_page", "render_html"]

_PACKED_FROM: Final = 1 << 20
"""From this number of characters on, JSON is embedded compressed."""

_REPORT: Final = "boardprof-report"
_BEFORE: Final = "boardprof-report-before"
_CONTEXT = 2
"""Lines of source that are shown around those that ran."""


def render_html(
    report: Report,
    *,
    before: Report | None = None,
    allow: Sequence[str] = (),
    names: tuple[str, str] = ("an older run", "This run"),
    earlier: Sequence[tuple[str, Report]] = (),
) -> str:
    """Return ``report`` as an HTML page.

    Args:
        report: what the page is about.
        before: an older Report. The page shows the changes since then, and contains it too.
        allow: mismatches to ignore, see `compare`.
        names: names of ``before`` and ``report`` in the page's list of changes.
        earlier: names and Reports of earlier runs, the oldest first. Each row shows their medians
            as a small line. Runs that `compare` refuses are left out.

    Raises:
        ComparisonError: the two Reports cannot be compared.
    """
    groups = summaries(report)
    style, script = asset("page.css"), asset("page.js")
    profiles = _profile_views(report, before)
    if profiles:
        script += asset("profile.js")
    comparison = None
    if before is not None:
        comparison = compare(before, report, allow=allow, before_name=names[0], after_name=names[1])
    view = page_view(report, groups, comparison, earlier)
    if profiles:
        view["profiles"] = profiles
    return Template(asset("page.html")).substitute(
        version=__version__,
        style=style,
        script=script,
        style_hash=content_hash(style),
        script_hash=content_hash(script),
        title=html.escape(f"{heading(report, str)} \N{MIDDLE DOT} boardprof"),
        heading=heading(report, isolated),
        facts=facts_line(report),
        clocks=clock_tags(report),
        cards=cards(report),
        hotspots=asset("profile.html") if profiles else "",
        warnings=warning_list(groups, doubts(report.configuration)),
        configuration=configuration_rows(report),
        view=inert(json.dumps(view, separators=(",", ":"), allow_nan=False)),
        reports="\n".join(
            _embedded(name, each)
            for name, each in ((_REPORT, report), (_BEFORE, before))
            if each is not None
        ),
    )


def read_page(text: str, *, before: bool = False) -> Report:
    """Read the Report from a page.

    Args:
        text: the page, as `render_html` returned it.
        before: read the older Report, with which the page compares it.

    Raises:
        ReportFileError: the page does not contain it.
    """
    name = _BEFORE if before else _REPORT
    found = re.search(rf'<script type="([^"]+)" id="{name}">(.*?)</script>', text, re.DOTALL)
    if found is None:
        raise ReportFileError("there is no such Report in the page", where=name)
    if found[1] == "application/json":
        return Report.from_json(found[2])
    try:
        return Report.from_json(gzip.decompress(base64.b64decode(found[2])))
    except (ValueError, EOFError, OSError) as error:
        raise ReportFileError(f"the packed Report cannot be read: {error}", where=name) from error


def _embedded(name: str, report: Report) -> str:
    pieces = json_pieces(report)
    text = ""
    for piece in pieces:
        text += piece
        if len(text) >= _PACKED_FROM:
            packed = _packed(itertools.chain([text], pieces))
            return f'<script type="application/gzip;base64" id="{name}">{packed}</script>'
    return f'<script type="application/json" id="{name}">{inert(text)}</script>'


def _packed(pieces: Iterable[str]) -> str:
    """Return text in gzip and base64, without ever having it at once."""
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=6, mtime=0) as file:
        for piece in pieces:
            file.write(piece.encode("ascii"))
    return base64.b64encode(packed.getbuffer()).decode("ascii")


# -- profiles ----------------------------------------------------------------------------------


def _profile_views(report: Report, before: Report | None = None) -> list[dict[str, Any]]:
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
    # The numbers of samples of two runs cannot be compared.
    if before is not None and before.exact and after.exact:
        sides += [before] if set(after.columns) <= set(before.columns) else []
    return {
        "name": bounded(row.title),
        "device": bounded(row.device),
        "metrics": [bounded(name) for name in after.columns],
        "first": after.column(),
        "sampled": not after.exact,
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
                    "interval": interval_text(each.interval),
                }
                row = rows.setdefault(plain_name(each.name), nothing)
                row["self"][number][column] += each.self
                row["total"][number][column] += each.total or 0
                row["calls"][number] = each.calls
    return list(rows.values())


def _files(after: Profile, before: Profile) -> Iterator[dict[str, Any]]:
    """Yield each source with the lines that ran, and some around them.

    A row: number, 0 where the line is gone; text; functions; and (before, after) by metric.
    """
    metrics = after.columns
    by_metric = [aligned_lines(before, after, name) for name in metrics]
    functions = {(each.file, each.line): plain_name(each.function) for each in after.lines()}
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
