# SPDX-License-Identifier: Apache-2.0
"""A Report as one self-contained HTML page that does not use the network.

The page contains the whole Report, so it is also an archive. A Report's content is untrusted,
because names come from other people's code. So text is escaped and its direction is isolated, and
the page's content security policy allows only its own script. `html_data` has the data of its
drawings.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import io
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from string import Template
from typing import Any, Final

from boardprof import __version__
from boardprof.base.errors import ReportFileError
from boardprof.base.metrics import Count
from boardprof.base.printable import bounded
from boardprof.results.comparison.compare import compare
from boardprof.results.record import NO_RECORD, Device
from boardprof.results.report.report import Report
from boardprof.results.report_json import json_pieces
from boardprof.results.stats.groups import GroupSummary, summaries
from boardprof.results.stats.warnings import Warning_, warnings_by_hint
from boardprof.show.answer import MOST_GROUPS, doubts, partly
from boardprof.show.cells import cell, heading, number_text, plural
from boardprof.show.html_data import page_view, profile_views
from boardprof.show.layout import Page, Table, text_table

_PACKED_FROM: Final = 1 << 20  # from this number of characters on, JSON is embedded compressed
_REPORT: Final = "boardprof-report"
_BEFORE: Final = "boardprof-report-before"

_CLOCKS = {
    "measured": ("Measured clock", False),
    "declared": ("Declared clock", False),
    "simulated": ("Simulated clock: no wall time", True),
}
_SHOWN = 1  # number of warnings of one kind that are not folded up
_CAUTION = frozenset(
    {
        *("warning", "unsupported", "stack unknown", "estimated", "of several runs"),
        "may have wrapped",
    }
)
_IDENTITY = frozenset({"clock", "agent", "flags"})


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
    groups = summaries(report, most=MOST_GROUPS)
    beside = [*partly(report, "the Report in this page has"), *doubts(report.configuration)]
    profiles = profile_views(report, before)
    script = asset("page.js") + (asset("profile.js") if profiles else "")
    comparison = None
    if before is not None:
        comparison = compare(before, report, allow=allow, before_name=names[0], after_name=names[1])
    view = page_view(report, groups, comparison, earlier)
    if profiles:
        view["profiles"] = profiles
    return filled_page(
        "page.html",
        asset("page.css"),
        script,
        title=html.escape(f"{heading(report, str)} \N{MIDDLE DOT} boardprof"),
        heading=heading(report, isolated),
        facts=_facts_line(report),
        clocks=_clock_tags(report),
        cards=_cards(report),
        hotspots=asset("profile.html") if profiles else "",
        warnings=_warning_list(groups, beside),
        configuration=_configuration_rows(report),
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
    file = gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=6, mtime=0)
    with io.TextIOWrapper(file, "ascii", newline="") as text:  # it takes pieces together
        text.writelines(pieces)
    return base64.b64encode(packed.getbuffer()).decode("ascii")


# -- boards, configuration and warnings --------------------------------------------------------


def _facts_line(report: Report) -> str:
    """Return a line with the numbers of samples and calls, the host and boardprof's version."""
    known = {key: cell(value, key, ",") for key, value in report.configuration.items()}
    parts = []
    if {"Repeat", "Number", "Warm-up"} <= known.keys():
        parts.append(
            f"{_counted(known['Repeat'], 'sample')} of {_counted(known['Number'], 'call')} "
            f"after {_counted(known['Warm-up'], 'warm-up call')}"
        )
    if "Host" in known:
        parts.append(isolated(known["Host"]))
    if "boardprof" in known:
        parts.append(f"boardprof {isolated(known['boardprof'])}")
    return " \N{MIDDLE DOT} ".join(parts) or plural(len(report.calls), "row")


def _counted(number: str, one: str) -> str:
    """Return a number, or several as in ``3, 5 samples``, with the noun."""
    return f"{isolated(number)} {one}{'' if number == '1' else 's'}"


def _clock_tags(report: Report) -> str:
    """Return a line on the boards that are emulated or simulated; "" if there are none."""
    devices = (report.record or NO_RECORD).devices
    found: dict[str, list[str]] = {}
    for name, facts in devices.items():
        found.setdefault(_tags(facts), []).append(name)
    return "".join(
        f'<p class="clocks">{", ".join(map(isolated, who)) if len(devices) > 1 else ""}{tags}</p>'
        for tags, who in found.items()
        if "caution" in tags
    )


def _cards(report: Report) -> str:
    """Return a card for each board: its identity, and the limits of its numbers."""
    devices = (report.record or NO_RECORD).devices
    if not devices:
        in_rows = report.calls.column("Device").filled("")
        named = (name for name in in_rows if isinstance(name, str) and name)
        devices = {name: Device(name) for name in [*named, *report.device_metrics]}
    folds = len(devices) > 1
    made = [_card(report, name, facts, folds=folds) for name, facts in devices.items()]
    return "\n".join(made) or '<p class="empty">The Report does not describe a board.</p>'


def _card(report: Report, name: str, facts: Device, *, folds: bool) -> str:
    """Return a board's card. ``folds``: fold up everything except identity and cautions."""
    lines = _lines(report, name, facts)
    first = [line for line in lines if not folds or line[0].lower() in _IDENTITY | _CAUTION]
    rest = [line for line in lines if line not in first]
    body = _list(first) if first else ""
    if rest:
        terms = html.escape(", ".join(term for term, _ in rest))
        body += f"<details><summary>{terms}</summary>{_list(rest)}</details>"
    body = body or '<p class="empty">Nothing more is known.</p>'
    return f'<article class="card">\n<h3>{isolated(name)}{_tags(facts)}</h3>\n{body}\n</article>'


def _list(lines: Iterable[tuple[str, str]]) -> str:
    items = []
    for term, text in lines:
        kind = ' class="caution"' if term.lower() in _CAUTION else ""
        items.append(f"<dt>{html.escape(term)}</dt><dd{kind}>{text}</dd>")
    return "\n".join(["<dl>", *items, "</dl>"])


def _tags(facts: Device) -> str:
    usual = (f"{facts.clock_kind} clock", True)
    tags = [_CLOCKS.get(facts.clock_kind, usual)] if facts.clock_kind else []
    tags += [("Emulated", True)] if facts.emulated else []
    return "".join(
        f' <span class="tag{" caution" if is_caution else ""}">{isolated(text)}</span>'
        for text, is_caution in tags
    )


def _lines(report: Report, name: str, facts: Device) -> list[tuple[str, str]]:
    """Return the terms of a card with their definitions as HTML."""
    devices = (report.record or NO_RECORD).devices
    others = [each for each in devices if each.startswith(f"{name} ")]
    terms = {
        key.removeprefix(f"{name} "): value
        for key, value in report.configuration.items()
        if key.startswith(f"{name} ") and not any(key.startswith(f"{o} ") for o in others)
    }
    if terms.get("clock") == facts.clock_kind:
        terms.pop("clock", None)  # it is in the heading
    lines = [
        (bounded(term[:1].upper() + term[1:]), _definition(term, cell(value, term, ","), facts))
        for term, value in terms.items()
    ]
    known = {term.lower() for term, _ in lines}
    if facts.unsupported and "unsupported" not in known:
        lines.append(("Unsupported", _reasons(facts.unsupported)))
    if facts.cflags and "flags" not in known:
        lines.append(("Flags", _flags(facts.cflags)))
    if facts.port:
        lines.append(("Port", isolated(facts.port)))
    return lines + [(term, text) for term, text in _wraps(report, name) if text]


def _definition(term: str, text: str, facts: Device) -> str:
    if term == "unsupported" and facts.unsupported:
        return _reasons(facts.unsupported, text)
    return _flags(text.split(" ")) if term == "flags" else isolated(text)


def _flags(flags: Iterable[str]) -> str:
    """Return a compiler's flags, such that lines break only between them."""
    return f"<code>{' '.join(map(isolated, flags))}</code>"


def _reasons(reasons: Mapping[str, str], line: str = "") -> str:
    """Return an item for each unsupported counter, then the other parts of a configuration line."""
    items = [f"<li>{isolated(name)}: {isolated(why)}</li>" for name, why in reasons.items()]
    rest = line
    for name, why in reasons.items():
        rest = rest.replace(f"{bounded(name)} ({bounded(why)})", "", 1)
    items += [f"<li>{isolated(part)}</li>" for part in rest.split("; ") if part.strip("; ")]
    return f"<ul>{''.join(items)}</ul>"


def _wraps(report: Report, device: str) -> Iterable[tuple[str, str]]:
    """Yield how often counters wrapped within samples, and in how many that is ambiguous."""
    wraps: Counter[str] = Counter()
    ambiguous: Counter[str] = Counter()
    measurements = (report.record or NO_RECORD).measurements
    passes = (each for m in measurements if m.device == device for each in m.passes)
    for sample in (sample for each in passes for sample in each.samples):
        wraps.update(sample.wraps)
        ambiguous.update(sample.ambiguous)
    wrapped = (f"{isolated(name)} {n:,}×" for name, n in wraps.items())
    unclear = (f"{isolated(name)} in {plural(n, 'sample')}" for name, n in ambiguous.items())
    yield "Wrapped, resolved", ", ".join(wrapped)
    yield "May have wrapped", ", ".join(unclear)


def _warning_list(groups: Sequence[GroupSummary], doubts: Sequence[str] = ()) -> str:
    """Return reasons to distrust the numbers, with each hint once; "" if there are none."""
    by_hint = warnings_by_hint(groups)
    if not by_hint and not doubts:
        return ""
    lines = [f"<li>{isolated(line)}</li>" for line in doubts]
    lines += [
        f'<li><p class="hint">{isolated(hint)}</p>{_folded([_seen(each) for each in found])}</li>'
        for hint, found in by_hint.items()
    ]
    items = "\n".join(lines)
    return (
        '<section class="warnings" aria-labelledby="warnings-title">\n'
        f'<h2 id="warnings-title">Warnings</h2>\n<ul>\n{items}\n</ul>\n</section>'
    )


def _folded(items: Sequence[str]) -> str:
    shown, others = items[:_SHOWN], items[_SHOWN:]
    if len(others) == 1:
        shown, others = items, []
    text = f"<ul>{''.join(shown)}</ul>"
    if not others:
        return text
    rest = f"<summary>{len(others)} more</summary><ul>{''.join(others)}</ul>"
    return f"{text}<details>{rest}</details>"


def _seen(each: Warning_) -> str:
    places = [isolated(part) for part in (each.key.device, each.key.flags) if part]
    where = f" on {', '.join(places)}" if places else ""
    what = f"{isolated(each.key.title)}{where}, {isolated(each.metric)}"
    return f"<li>{what}: {isolated(each.text)}</li>"


def _configuration_rows(report: Report) -> str:
    if not report.configuration:
        return '<tr><td class="empty">The Report has no configuration.</td></tr>'
    return "\n".join(
        f'<tr><th scope="row">{isolated(key)}</th><td>{isolated(cell(value, key, ","))}</td></tr>'
        for key, value in report.configuration.items()
    )


# -- parts of pages ---------------------------------------------------------------------------


@cache
def asset(name: str) -> str:
    """Return a file of the folder ``page``."""
    text = resources.files("boardprof").joinpath("show", "page", name).read_text(encoding="utf-8")
    return re.sub(r"^ +", "", text, flags=re.MULTILINE)  # indentation is a twelfth of the page


def filled_page(name: str, style: str, script: str = "", **parts: str) -> str:
    """Return a page of the folder ``page``, whose security policy allows only its own code."""
    return Template(asset(name)).substitute(
        version=__version__,
        style=style,
        script=script,
        style_hash=_content_hash(style),
        script_hash=_content_hash(script),
        **parts,
    )


def _content_hash(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


def isolated(text: str) -> str:
    """Return text for the page: escaped, printable, and with an isolated direction."""
    return f"<bdi>{html.escape(bounded(text))}</bdi>"


def tables_html(page: Page) -> str:
    """Return the tables and lines of a page for terminals as HTML."""
    return "\n".join(
        _table(part) if isinstance(part, Table) else f'<p class="note">{isolated(part)}</p>'
        for part in page
        if part
    )


def _table(table: Table) -> str:
    kinds = ["text" if column.is_text else "num" for column in table.columns]
    heads = (
        f'<th scope="col" class="{kind}">{isolated(column.header)}</th>'
        for kind, column in zip(kinds, table.columns, strict=True)
    )
    rows = (
        f'<tr><th scope="row"><span class="name">{isolated(first)}</span></th>'
        + "".join(
            f'<td class="{kind}">{isolated(cell)}</td>'
            for kind, cell in zip(kinds[1:], cells, strict=True)
        )
        + "</tr>"
        for first, *cells in zip(*(column.cells for column in table.columns), strict=True)
    )
    return (
        f'<div class="scroll"><table><thead><tr>{"".join(heads)}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def inert(text: str) -> str:
    """Return JSON that cannot end the HTML element around it."""
    return text.replace("<", r"\u003c")


# -- what a board has proved ----------------------------------------------------------------------


_GUARD = "guard: "


def render_proof(facts: Mapping[str, Any]) -> str:
    """Return the facts of `boardprof.measure.doctor.check_board.proof_of` as an HTML page."""
    about = f"{facts['kind']} board \N{MIDDLE DOT} boardprof {facts['boardprof']}"
    return filled_page(
        "tables.html",
        asset("page.css"),
        kind="boardprof proof",
        title=html.escape(f"{facts['board']} \N{MIDDLE DOT} boardprof proof"),
        heading=isolated(facts["board"]),
        facts=isolated(about),
        notes="",
        tables=_sections(facts),
        more=' <a href="proof.json">proof.json</a> has the same as data.',
    )


def _sections(facts: Mapping[str, Any]) -> str:
    rows = [(each["subject"], each["verdict"], each["text"]) for each in facts["findings"]]
    found = [row for row in rows if not row[0].startswith(_GUARD)]
    guards = [(row[0].removeprefix(_GUARD), *row[1:]) for row in rows if row not in found]
    cable: Table | str = "The cable was not tested: the board was started on this machine."
    if facts["cable"] is not None:
        cable = text_table(("What", "Found"), [*_cable_rows(facts["cable"])])
    parts: list[tuple[str, Page]] = [
        ("Counters, clock and memory", [text_table(("What", "Verdict", "Found"), found)]),
        ("What ends a call", [text_table(("Cause", "Verdict", "Found"), guards)]),
        ("The cable", [cable]),
        ("Versions", [text_table(("What", "Which"), _versions(facts))]),
    ]
    return "".join(
        f"<section>\n<h2>{title}</h2>\n{tables_html(page)}\n</section>\n" for title, page in parts
    )


def _cable_rows(facts: Mapping[str, Any], of: str = "") -> Iterator[tuple[str, str]]:
    """Yield what was measured, also zeros; a null was not."""
    for name, value in facts.items():
        what = f"{of}{name.replace('_', ' ')}"
        if isinstance(value, Mapping):
            yield from _cable_rows(value, f"{what}, ")
        elif isinstance(value, bool):
            yield what, "yes" if value else "no"
        elif isinstance(value, int | float):
            yield what, number_text(value, Count)
        elif value is not None:
            yield what, f"{value}"


def _versions(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    host = facts["host"]
    return [
        ("board", facts["summary"]),
        ("agent", f"{facts['agent']}, build {facts['build']}"),
        ("counters", ", ".join(facts["sources"])),
        ("flags", " ".join(facts["flags"])),
        ("host", f"{host['system']}, Python {host['python']}"),
        ("sha256", facts["sha256"]),
    ]
