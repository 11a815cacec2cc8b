# SPDX-License-Identifier: Apache-2.0
"""A Comparison as a text table: a row a metric, the medians per call, then what to know of it."""

from __future__ import annotations

from collections.abc import Sequence

from boardprof.comparison.comparison import Comparison, Difference, Unjudged, place_of
from boardprof.render.cells import escaped
from boardprof.render.comparison_cells import (
    certainty,
    change_text,
    headline,
    median_text,
    unjudged_at,
    unjudged_lines,
    verdict_text,
)
from boardprof.render.plain_table import aligned_lines

__all__ = ["comparison_table"]

_LEFT = ("Name", "Label", "Flags", "Arguments", "Device", "Metric", "Verdict")
_OPTIONAL = ("Label", "Flags", "Arguments", "Device")


def comparison_table(comparison: Comparison, *, changed_only: bool = False) -> str:
    """Return ``comparison`` as a text table.

    Args:
        comparison: what to print.
        changed_only: leave out what is the same on both sides.
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
    lines = aligned_lines(headers, cells, _LEFT) if cells else []
    lines += [""] if cells else []
    lines += [
        f"Before: {escaped(comparison.before_name)}{_listed(comparison.before_facts)}",
        f"After:  {escaped(comparison.after_name)}{_listed(comparison.after_facts)}",
        *(f"Note: {escaped(note)}" for note in comparison.notes),
        *map(escaped, unjudged_lines(comparison)),
        f"Result: {escaped(headline(comparison))}",
    ]
    return "".join(f"{line}\n" for line in lines)


def _cells(row: Difference, unjudged: Sequence[Unjudged]) -> dict[str, str]:
    return {
        "Name": escaped(row.name),
        "Label": escaped(row.label),
        "Flags": escaped(row.flags),
        "Arguments": escaped(row.shapes),
        "Device": escaped(row.device),
        "Metric": escaped(row.metric),
        "Before": median_text(row.before, row.kind),
        "After": median_text(row.after, row.kind),
        "Change": change_text(row),
        "Certainty": certainty(row),
        "Verdict": escaped(verdict_text(row, unjudged)),
    }


def _listed(facts: Sequence[tuple[str, str]]) -> str:
    text = "; ".join(f"{name} {value}" for name, value in facts)
    return escaped(f" ({text})") if text else ""
