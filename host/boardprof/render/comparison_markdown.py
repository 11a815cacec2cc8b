# SPDX-License-Identifier: Apache-2.0
"""A Comparison as Markdown for a pull request: what matters first, the rest folded up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from boardprof.comparison.comparison import Comparison, Difference, Unjudged, place_of
from boardprof.comparison.profile_difference import ProfileDifference
from boardprof.render.cells import plural
from boardprof.render.comparison_table import (
    certainty,
    change_text,
    headline,
    judged_text,
    means_line,
    median_text,
    unjudged_at,
    unjudged_lines,
)
from boardprof.render.markdown import code, markdown_table, plain_text, section
from boardprof.render.profile_difference_rows import change_rows, rest_text, title_of

_HEADERS = ["Function", "Metric", "Before", "After", "Change", "Certainty", "Verdict"]


def comparison_markdown(comparison: Comparison) -> str:
    """Return ``comparison`` as GitHub-flavoured Markdown."""
    unjudged = unjudged_at(comparison)
    changed = [row for row in comparison.rows if _counts(row) or place_of(row) in unjudged]
    changed.sort(
        key=lambda row: (row.rule is None, place_of(row) not in unjudged, row.verdict != "worse")
    )
    rest = [row for row in comparison.rows if row not in changed]
    parts = [
        f"### {_mark(comparison)} boardprof: {plain_text(headline(comparison))}\n",
        f"{code(comparison.before_name)} → {code(comparison.after_name)}\n",
    ]
    means = means_line(comparison, name=code, ratio="**{}**".format)
    parts += [f"{means}\n"] if means else []
    if changed:
        parts.append(_table(changed, unjudged))
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
    """Return where a function changed."""
    headers = ["Where", "What", "Source", "Before", "After", "Change"]
    cells = [
        [code(row.where), plain_text(row.what), code(row.source), row.before, row.after, row.change]
        for row in change_rows(difference)
    ]
    rest = rest_text(difference)
    table = markdown_table(headers, cells, left=3)
    more = f"\n{plain_text(rest)}\n" if rest else ""
    return f"#### Where {plain_text(title_of(place))} changed\n\n{table}{more}"


def _mark(comparison: Comparison) -> str:
    """Return what a reader sees first; what no rule has judged is not approved."""
    if comparison.failed:
        return "❌"
    return "⚠️" if comparison.unjudged else "✅" if comparison.held else "ℹ️"


def _counts(row: Difference) -> bool:
    return row.rule is not None or row.verdict in ("better", "worse")


def _table(rows: Sequence[Difference], unjudged: Mapping[tuple[str, ...], list[Unjudged]]) -> str:
    cells = [_cells(row, unjudged.get(place_of(row), ())) for row in rows]
    return markdown_table(_HEADERS, cells, left=2)


def _cells(row: Difference, unjudged: Sequence[Unjudged]) -> list[str]:
    place = f" on {row.device}" if row.device else ""
    flags = f" {row.flags}" if row.flags else ""
    return [
        code(f"{row.title}({row.shapes}){flags}{place}"),
        code(row.metric),
        median_text(row.before, row.kind),
        median_text(row.after, row.kind),
        change_text(row),
        certainty(row).replace("<", "&lt;"),
        _verdict(row, unjudged),
    ]


def _verdict(row: Difference, unjudged: Sequence[Unjudged]) -> str:
    if row.rule is not None:
        return f"**regression** {code(f'{row.rule}{judged_text(row, row.rule)}')}"
    return f"**not judged** {code(str(unjudged[0].rule))}" if unjudged else row.verdict
