# SPDX-License-Identifier: Apache-2.0
"""A Report as one self-contained HTML page that does not use the network.

The page contains the whole Report, so it is also an archive. A Report's content is untrusted,
because names come from other people's code. So text is escaped and its direction is isolated, and
the page's content security policy allows only its own script.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from string import Template
from typing import Final

from boardprof import __version__
from boardprof.errors import ReportFileError
from boardprof.render.answer import doubts
from boardprof.render.cells import heading
from boardprof.render.html_facts import (
    cards,
    clock_tags,
    configuration_rows,
    facts_line,
    isolated,
    warning_list,
)
from boardprof.render.html_profile import profile_views
from boardprof.render.html_view import page_view
from boardprof.report.report import Report
from boardprof.stats.groups import summaries

__all__ = ["read_page", "render_html"]

_PACKED_FROM: Final = 1 << 20
"""From this number of characters on, JSON is embedded compressed."""

_REPORT: Final = "boardprof-report"
_BEFORE: Final = "boardprof-report-before"


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
    style, script = _asset("page.css"), _asset("page.js")
    profiles = profile_views(report, before)
    if profiles:
        script += _asset("profile.js")
    comparison = None
    if before is not None:
        from boardprof.comparison.compare import compare

        comparison = compare(before, report, allow=allow, before_name=names[0], after_name=names[1])
    view = page_view(report, groups, comparison, earlier)
    if profiles:
        view["profiles"] = profiles
    return Template(_asset("page.html")).substitute(
        version=__version__,
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
        title=html.escape(f"{heading(report, str)} \N{MIDDLE DOT} boardprof"),
        heading=heading(report, isolated),
        facts=facts_line(report),
        clocks=clock_tags(report),
        cards=cards(report),
        hotspots=_asset("profile.html") if profiles else "",
        warnings=warning_list(groups, doubts(report.configuration)),
        configuration=configuration_rows(report),
        view=_inert(json.dumps(view, separators=(",", ":"), allow_nan=False)),
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


@cache
def _asset(name: str) -> str:
    text = resources.files("boardprof.render").joinpath("page", name).read_text(encoding="utf-8")
    return re.sub(r"^ +", "", text, flags=re.MULTILINE)  # indentation is a twelfth of the page


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
    """Return JSON that cannot end the HTML element around it."""
    return text.replace("<", r"\u003c")
