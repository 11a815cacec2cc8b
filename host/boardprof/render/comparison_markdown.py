# SPDX-License-Identifier: Apache-2.0
"""A Comparison as Markdown for a pull request: what matters first, the rest folded up."""

from __future__ import annotations

import re
from collections.abc import Sequence

from boardprof.comparison.comparison import Comparison, Difference
from boardprof.render.comparison_cells import certainty, change_text, headline, median_text
from boardprof.render.markdown import code, markdown_table

__all__ = ["comparison_markdown"]

_PLAIN = re.compile(r"[^\W_]+(?:[ .,:;()%+=-]|[^\W_])*")
"""Letters, digits, and what no renderer takes for markup, a link, an issue or somebody's name."""

_HEADERS = ["Function", "Metric", "Before", "After", "Change", "Certainty", "Verdict"]


def comparison_markdown(comparison: Comparison) -> str:
    """Return ``comparison`` as GitHub-flavoured Markdown."""
    changed = [row for row in comparison.rows if row.rule or row.verdict in ("better", "worse")]
    changed.sort(key=lambda row: row.rule is None)
    rest = [row for row in comparison.rows if row not in changed]
    mark = "❌" if comparison.failed else "✅"
    parts = [
        f"### {mark} boardprof: {_text(headline(comparison))}\n",
        f"{code(comparison.before_name)} → {code(comparison.after_name)}\n",
    ]
    if changed:
        parts.append(_table(changed))
    if rest:
        summary = f"{len(rest)} metrics without a change that counts"
        parts.append(_folded(summary, _table(rest)))
    notes = "".join(f"- {_text(note)}\n" for note in comparison.notes)
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
        parts.append(_folded("What was compared", table))
    return "\n".join(parts)


def _table(rows: Sequence[Difference]) -> str:
    return markdown_table(_HEADERS, [_cells(row) for row in rows], left=2)


def _cells(row: Difference) -> list[str]:
    place = f" on {row.device}" if row.device else ""
    flags = f" {row.flags}" if row.flags else ""
    return [
        code(f"{row.title}({row.shapes}){flags}{place}"),
        code(row.metric),
        median_text(row.before, row.kind),
        median_text(row.after, row.kind),
        change_text(row),
        certainty(row).replace("<", "&lt;"),
        f"**regression** {code(str(row.rule))}" if row.rule is not None else row.verdict,
    ]


def _folded(summary: str, content: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{content}\n</details>\n"


def _text(note: str) -> str:
    """Return a sentence in which names of the user's stand, as no markup."""
    return note if _PLAIN.fullmatch(note) else code(note)
