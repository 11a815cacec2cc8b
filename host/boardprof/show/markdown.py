# SPDX-License-Identifier: Apache-2.0
"""A Report or a Comparison as Markdown with GitHub's tables, for a pull request or a wiki.

Possible markup is written as character references.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from boardprof.base.metrics import Percent, Ratio
from boardprof.base.printable import bounded
from boardprof.results.comparison.comparison import (
    DIFFERENT,
    Comparison,
    Difference,
    Unjudged,
    row_title,
)
from boardprof.results.comparison.profile_difference import ProfileDifference
from boardprof.results.record import NO_RECORD
from boardprof.results.report.calls import LABEL, LEVELS, SHARE, Calls, Row, one_of
from boardprof.results.report.report import Report
from boardprof.results.stats.groups import summaries
from boardprof.results.stats.warnings import Warning_, warnings_by_hint
from boardprof.show.aggregate import SORT_COLUMNS, CallGroups
from boardprof.show.answer import answer_table, doubts
from boardprof.show.cells import (
    KEY_COLUMNS,
    cell,
    heading,
    mixed_columns,
    mixed_note,
    plural,
    text_of,
    value_cell,
)
from boardprof.show.comparison_table import (
    change_rows,
    comparison_cells,
    headline,
    judged_text,
    means_line,
    output_lines,
    reason_title,
    rest_text,
    unjudged_at,
    unjudged_lines,
)
from boardprof.show.layout import Column

_SENTENCE = re.compile(r"[^\W_]+(?:[ .,:;()%+=?±'-]|[^\W_])*")
"""Letters, digits, and characters that no renderer takes as markup, a link, an issue or a user."""

_PLAIN = re.compile(r"[\w .,:;=()\[\]{}/+*%±'^?!@$-]+")
_KEYS = (LABEL, "Flags", "Argument Shapes")
_LEFT_OUT = frozenset({*KEY_COLUMNS, LABEL, "Hash"})


def render_markdown(report: Report) -> str:
    """Return ``report`` as Markdown: the cost of a call, warnings, and the rest folded up."""
    by_device: dict[str, list[Row]] = {}
    for row in report.calls:
        by_device.setdefault(text_of(row.get("Device", "")), []).append(row)
    tables = "\n".join(_device(report, device, rows) for device, rows in by_device.items())
    clock = _clock(report, next(iter(by_device))) if len(by_device) == 1 else ""
    parts = [
        f"### {heading(report, code)}{clock}\n",
        *_answer(report),
        _warnings(report),
        section("All metrics", tables) if tables else "",
        _configuration(report),
    ]
    return "\n".join(filter(None, parts))


def plain_text(sentence: str) -> str:
    """Return a sentence without markup, even if it contains a user's names."""
    return sentence if _SENTENCE.fullmatch(sentence) else code(sentence)


def section(summary: str, content: str) -> str:
    """Return a content that is folded up under its summary."""
    return f"<details><summary>{summary}</summary>\n\n{content}\n</details>\n"


def code(text: str) -> str:
    """Return ``text`` as code that no renderer takes as markup, also in a table's cell."""
    shown = bounded(text)
    if not shown.strip():
        return ""
    if _PLAIN.fullmatch(shown) and shown == shown.strip():
        return f"`{shown}`"
    return (
        f"<code>{''.join(c if c.isalnum() or c == ' ' else f'&#{ord(c)};' for c in shown)}</code>"
    )


def markdown_table(headers: list[str], rows: list[list[str]], *, left: int = 1) -> str:
    """Return a table of safe Markdown whose first ``left`` columns are aligned left."""
    rule = [":--" if i < left else "--:" for i in range(len(headers))]
    return "".join(f"| {' | '.join(line)} |\n" for line in (headers, rule, *rows))


def _answer(report: Report) -> list[str]:
    """Return the table with the cost of a call, and what is said of it."""
    found = answer_table(report)
    if found is None:
        return []
    table, lines = found
    headers = [plain_text(column.header) for column in table.columns]
    cells = [_cells(column) for column in table.columns]
    left = sum(column.is_text for column in table.columns)
    rows = [list(row) for row in zip(*cells, strict=True)]
    return [markdown_table(headers, rows, left=left), *(f"{plain_text(line)}\n" for line in lines)]


def _cells(column: Column) -> list[str]:
    """Return names as code, and numbers unchanged, the best ones bold."""
    if column.is_text:
        return [code(cell) for cell in column.cells]
    tones = column.tones or [""] * len(column.cells)
    marked = zip(column.cells, tones, strict=True)
    return [f"**{cell}**" if tone == "good" else cell for cell, tone in marked]


def _warnings(report: Report) -> str:
    """Return a line for each doubt, and for each hint with the first of its warnings."""
    lines = [f"- {plain_text(line)}\n" for line in doubts(report.configuration)]
    found = warnings_by_hint(summaries(report))
    return "".join([*lines, *(_warning(hint, each) for hint, each in found.items())])


def _warning(hint: str, found: Sequence[Warning_]) -> str:
    first, key = found[0], found[0].key
    board = f"on {code(key.device)}" if key.device else ""
    where = " ".join(filter(None, [code(key.title), code(key.flags), board]))
    what = ", ".join(filter(None, [where, code(first.metric)]))
    more = f" {len(found) - 1} more like it." if len(found) > 1 else ""
    return f"- ⚠️ {what}: {plain_text(first.text)}{more} {hint}\n"


def _device(report: Report, device: str, rows: list[Row]) -> str:
    calls = Calls(rows)
    groups = calls.labelled_groups()
    grouping = CallGroups(calls, groups)
    merged, sizes = list(grouping.merged), list(map(len, groups.rows))
    keys = [column for column in _KEYS if any(column in row for row in merged)]
    names = _number_columns(merged)
    numbers = [_number_cells(name, grouping) for name in names]
    headers = ["Name", *keys, *map(code, names), "Samples"]
    lines = [
        [
            *(code(text_of(merged[i].get(column, ""))) for column in ("Name", *keys)),
            *(cells[i] for cells in numbers),
            str(sizes[i]),
        ]
        for i in grouping.order()
    ]
    title = f"**{code(device) or 'no device'}**{_clock(report, device)}\n\n"
    one = one_of(merged[i].get(LABEL) for i in grouping.order())
    notes = [f"Counts and times are medians per {one}."] if names else []
    if any(isinstance(row.get(n), Ratio | Percent) for row in merged for n in names if n != SHARE):
        notes.append("Ratios and percentages are medians of the samples.")
    notes += mixed_note(mixed_columns(report.calls, merged), code)
    below = "".join(f"\n{note}\n" for note in notes)
    return title + markdown_table(headers, lines, left=1 + len(keys)) + below


def _number_columns(rows: list[Row]) -> list[str]:
    found = {
        name
        for row in rows
        for name, metric in row.items()
        if name not in _LEFT_OUT and not isinstance(metric, str)
    }
    first = [name for name in (*SORT_COLUMNS[:1], SHARE) if name in found]
    return [*first, *sorted(found.difference(first, {"Count"}))]


def _number_cells(name: str, grouping: CallGroups) -> list[str]:
    is_level = name in LEVELS  # of these, the largest is shown
    values = grouping.merged.column(name).filled(None) if is_level else grouping.typical(name)
    return [value_cell(value, name, ",") for value in values]


def _clock(report: Report, device: str) -> str:
    """Return the kind of a device's clock; "" if the Report does not say."""
    facts = (report.record or NO_RECORD).devices.get(device)
    if facts is None or not facts.clock_kind:
        return ""
    kind, emulated = facts.clock_kind, ", emulated" if facts.emulated else ""
    return f" ({bounded(kind)} clock{', no wall time' if kind == 'simulated' else ''}{emulated})"


def _configuration(report: Report) -> str:
    lines = [[code(k), code(cell(v, k, ","))] for k, v in report.configuration.items()]
    if not lines:
        return ""
    return section("Configuration", markdown_table(["Key", "Value"], lines, left=2))


_HEADERS = ["Function", "Metric", "Before", "After", "Change", "Certainty", "Verdict"]


def comparison_markdown(comparison: Comparison) -> str:
    """Return ``comparison`` as GitHub-flavoured Markdown."""
    unjudged = unjudged_at(comparison)
    changed = [row for row in comparison.rows if _counts(row) or row.place in unjudged]
    changed.sort(
        key=lambda row: (row.rule is None, row.place not in unjudged, row.verdict != "worse")
    )
    rest = [row for row in comparison.rows if row not in changed]
    parts = [
        f"### {_mark(comparison)} boardprof: {plain_text(headline(comparison))}\n",
        f"{code(comparison.before_name)} → {code(comparison.after_name)}\n",
    ]
    if comparison.outputs:
        lines = output_lines(comparison)
        parts.append("".join(f"- **Output changed**: {plain_text(line)}\n" for line in lines))
    if comparison.over:
        lines = [each.text for each in comparison.over]
        parts.append("".join(f"- **Above its limit**: {plain_text(line)}\n" for line in lines))
    means = means_line(comparison, name=code, ratio="**{}**".format)
    parts += [f"{means}\n"] if means else []
    if changed:
        parts.append(_table(changed, unjudged))
    failed = (*comparison.outputs, *comparison.over, *comparison.regressions)
    places = {row.name: comparison.sources.get(row.name) for row in failed}
    where = [f"{code(n)} is {code(f'{p.file}:{p.line}')}" for n, p in places.items() if p]
    parts += [f"Source: {', '.join(where)}.\n"] if where else []
    parts += [_reason(place, found) for place, found in comparison.reasons.items()]
    if unjudged:
        parts.append("".join(f"- {plain_text(line)}\n" for line in unjudged_lines(comparison)))
    if rest:
        summary = f"{plural(len(rest), 'metric')} without a change that counts"
        parts.append(section(summary, _table(rest, unjudged)))
    notes = "".join(f"- {plain_text(note)}\n" for note in comparison.notes)
    if notes:
        parts.append(notes)
    facts = [
        [side, code(name), code(value)]
        for side, pairs in (
            ("before", comparison.before_facts),
            ("after", comparison.after_facts),
        )
        for name, value in pairs
    ]
    if facts:
        table = markdown_table(["Side", "What", "Value"], facts, left=3)
        parts.append(section("What was compared", table))
    return "\n".join(parts)


def _reason(place: tuple[str, ...], difference: ProfileDifference) -> str:
    """Return the places at which a function changed."""
    headers = ["Where", "What", "Source", "Before", "After", "Change"]
    marked = {"Where": code, "What": plain_text, "Source": code}
    rows = change_rows(difference)
    cells = [[marked.get(header, str)(row[header]) for header in headers] for row in rows]
    rest = rest_text(difference)
    table = markdown_table(headers, cells, left=3)
    more = f"\n{plain_text(rest)}\n" if rest else ""
    return f"#### {plain_text(reason_title(place, difference))}\n\n{table}{more}"


def _mark(comparison: Comparison) -> str:
    """Return the symbol of the result; a comparison that no rule has judged is not approved."""
    if comparison.failed:
        return "❌"
    return "⚠️" if comparison.unjudged else "✅" if comparison.held else "ℹ️"


def _counts(row: Difference) -> bool:
    return row.rule is not None or row.verdict in (*DIFFERENT, "output changed")


def _table(rows: Sequence[Difference], unjudged: Mapping[tuple[str, ...], list[Unjudged]]) -> str:
    lines = []
    for row in rows:
        missing = unjudged.get(row.place, ())
        cells = comparison_cells(row, missing)
        shown = [cells[header] for header in _HEADERS[2:-2]]
        certain = cells["Certainty"].replace("<", "&lt;")
        line = [code(row_title(row)), code(row.metric), *shown, certain, _verdict(row, missing)]
        lines.append(line)
    return markdown_table(_HEADERS, lines, left=2)


def _verdict(row: Difference, unjudged: Sequence[Unjudged]) -> str:
    if row.rule is not None:
        return f"**regression** {code(f'{row.rule}{judged_text(row, row.rule)}')}"
    return f"**not judged** {code(unjudged[0].by)}" if unjudged else row.verdict
