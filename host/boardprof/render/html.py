# SPDX-License-Identifier: Apache-2.0
"""A Report as one self-contained HTML page: it asks the network for nothing, and needs none.

The page carries the whole Report, so that it is an archive as well as a picture. What a Report says
is untrusted: names come from other people's code. Text is escaped where it is put into the page and
isolated in its direction; and the page's own policy lets run but the one script that it came with.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import re
from collections.abc import Callable, Sequence
from functools import cache
from importlib import resources
from string import Template
from typing import Final

from boardprof._version import __version__
from boardprof.errors import ReportFileError
from boardprof.render.cells import escaped, plural
from boardprof.render.html_trust import (
    cards,
    configuration_rows,
    facts_line,
    isolated,
    warning_list,
)
from boardprof.render.html_view import page_view
from boardprof.report.report import Report
from boardprof.stats.groups import summaries

__all__ = ["read_page", "render_html"]

_PACKED_FROM: Final = 1 << 20
"""Characters of JSON from which on it is embedded compressed."""

_REPORT: Final = "boardprof-report"
_BEFORE: Final = "boardprof-report-before"


def render_html(
    report: Report,
    *,
    before: Report | None = None,
    allow: Sequence[str] = (),
    names: tuple[str, str] = ("an older run", "This run"),
) -> str:
    """Return ``report`` as an HTML page.

    Args:
        report: what the page is about.
        before: an older Report; the page shows what changed from it, and carries it too.
        allow: mismatches to compare in spite of, see `compare`.
        names: what the page calls ``before`` and ``report`` where it tells what changed.

    Raises:
        ComparisonError: the two Reports cannot be compared.
    """
    groups = summaries(report)
    style, script = _asset("page.css"), _asset("page.js")
    comparison = None
    if before is not None:
        from boardprof.comparison.compare import compare

        comparison = compare(before, report, allow=allow, before_name=names[0], after_name=names[1])
    view = page_view(report, groups, comparison)
    return Template(_asset("page.html")).substitute(
        version=__version__,
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
        title=html.escape(f"{_heading(report, str)} \N{MIDDLE DOT} boardprof"),
        heading=_heading(report, isolated),
        facts=facts_line(report),
        cards=cards(report),
        warnings=warning_list(groups),
        configuration=configuration_rows(report),
        view=_inert(json.dumps(view, separators=(",", ":"), allow_nan=False)),
        reports="\n".join(
            _embedded(name, each)
            for name, each in ((_REPORT, report), (_BEFORE, before))
            if each is not None
        ),
    )


def read_page(text: str, *, before: bool = False) -> Report:
    """Take the Report out of a page again.

    Args:
        text: the page, as `render_html` made it.
        before: the Report that it is compared with.

    Raises:
        ReportFileError: there is none in it.
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


@cache
def _asset(name: str) -> str:
    return resources.files("boardprof.render").joinpath("page", name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


def _embedded(name: str, report: Report) -> str:
    text = report.json()
    if len(text) < _PACKED_FROM:
        return f'<script type="application/json" id="{name}">{_inert(text)}</script>'
    packed = base64.b64encode(gzip.compress(text.encode("ascii"), 6, mtime=0)).decode("ascii")
    return f'<script type="application/gzip;base64" id="{name}">{packed}</script>'


def _inert(text: str) -> str:
    """Return JSON in which nothing can end the element that it stands in."""
    return text.replace("<", r"\u003c")


def _names(report: Report, column: str) -> list[str]:
    found = dict.fromkeys(report.calls.column(column).filled(""))
    return [escaped(name) for name in found if isinstance(name, str) and name]


def _heading(report: Report, shown: Callable[[str], str]) -> str:
    """Return what was measured where; each name as ``shown`` gives it."""
    what, devices = _measured(report, shown), _names(report, "Device")
    return f"{what} on {_listed([shown(each) for each in devices])}" if devices else what


def _measured(report: Report, shown: Callable[[str], str]) -> str:
    """Name the one function, or count them; and what was measured of them if that is more."""
    functions = _names(report, "Name")
    if len(functions) == 1:
        return shown(functions[0])
    rows = len(report.calls.group_by("Name", "Label", "Argument Shapes", "Flags").keys)
    counted = plural(len(functions), "function")
    return counted if rows <= len(functions) else f"{plural(rows, 'measurement')} of {counted}"


def _listed(names: Sequence[str]) -> str:
    if len(names) > 4:
        return f"{len(names)} devices"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
