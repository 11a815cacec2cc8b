# SPDX-License-Identifier: Apache-2.0
"""A Comparison as a text table: a row for each metric with medians per call, then notes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from boardprof.comparison.comparison import Comparison, Difference, Unjudged, place_of
from boardprof.render.comparison_cells import (
    certainty,
    change_text,
    headline,
    means_line,
    median_text,
    unjudged_at,
    unjudged_lines,
    verdict_text,
)
from boardprof.render.layout import Page, plain, record_table
from boardprof.render.profile_difference_rows import difference_page, title_of

_LEFT = ("Name", "Label", "Flags", "Arguments", "Device", "Metric", "Verdict")
_Facts: TypeAlias = Sequence[tuple[str, str]]

_OPTIONAL = ("Label", "Flags", "Arguments", "Device")


def comparison_table(comparison: Comparison, *, changed_only: bool = False) -> str:
    """Return ``comparison`` as a text table; see `comparison_page`."""
    return plain(comparison_page(comparison, changed_only=changed_only))


def comparison_page(comparison: Comparison, *, changed_only: bool = False) -> Page:
    """Return ``comparison`` as a table with notes.

    Args:
        comparison: what to print.
        changed_only: leave out rows that are equal on both sides.
    """
    unjudged = unjudged_at(comparison)
    names = ("Before", "After")
    cells = [
        _cells(row, unjudged.get(place_of(row), ()))
        for row in comparison.rows
        if not changed_only or row.verdict != "same" or place_of(row) in unjudged
    ]
    headers = [
        name
        for name in (*_LEFT[:-1], *names, "Change", "Certainty", "Verdict")
        if name not in _OPTIONAL or any(row[name] for row in cells)
    ]
    table: Page = [record_table(headers, cells, _LEFT), ""] if cells else []
    means = means_line(comparison)
    return [
        *table,
        *(
            line
            for place, difference in comparison.reasons.items()
            for line in difference_page(title_of(place), difference)
        ),
        *([means] if means else []),
        f"Before: {comparison.before_name}{_only(comparison.before_facts, comparison.after_facts)}",
        f"After:  {comparison.after_name}{_only(comparison.after_facts, comparison.before_facts)}",
        *(f"Note: {note}" for note in comparison.notes),
        *unjudged_lines(comparison),
        f"Result: {headline(comparison)}",
    ]


def _cells(row: Difference, unjudged: Sequence[Unjudged]) -> dict[str, str]:
    return {
        "Name": row.name,
        "Label": row.label,
        "Flags": row.flags,
        "Arguments": row.shapes,
        "Device": row.device,
        "Metric": row.metric,
        "Before": median_text(row.before, row.kind),
        "After": median_text(row.after, row.kind),
        "Change": change_text(row),
        "Certainty": certainty(row),
        "Verdict": verdict_text(row, unjudged),
    }


def _only(facts: _Facts, others: _Facts) -> str:
    """Return what identifies one side and not the other, such as another build."""
    text = "; ".join(f"{name} {value}" for name, value in facts if (name, value) not in others)
    return f" ({text})" if text else ""
