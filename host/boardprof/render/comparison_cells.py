# SPDX-License-Identifier: Apache-2.0
"""The cells of a Comparison's row, as the table, Markdown and JUnit have them."""

from __future__ import annotations

from boardprof.comparison.comparison import Comparison, Difference
from boardprof.metrics import Kind, Percent
from boardprof.stats.summary import Summary

__all__ = ["certainty", "change_text", "headline", "median_text", "number_text", "verdict_text"]
__all__ += ["what_of"]

_PRECISE_BELOW = 100.0


def number_text(value: float | None, kind: Kind) -> str:
    """Return a value per call: whole numbers whole, others with four digits or two decimals."""
    if value is None:
        return ""
    unit = " %" if kind is Percent else ""
    if value == int(value):
        return f"{int(value):,}{unit}"
    return (f"{value:.4g}" if abs(value) < _PRECISE_BELOW else f"{value:,.2f}") + unit


def median_text(summary: Summary | None, kind: Kind) -> str:
    """Return the median, or nothing of a side that is missing."""
    return number_text(None if summary is None else summary.median, kind)


def change_text(row: Difference) -> str:
    """Return the change in percent; of percentages in points; from 0 as a difference."""
    if row.before is None or row.after is None:
        return ""
    step = row.after.median - row.before.median
    if step == 0:
        return "0"
    if row.kind is Percent:
        return f"{step:+.3g} pp"
    if row.change is None:
        return f"{'+' if step > 0 else '-'}{number_text(abs(step), row.kind)}"
    text = f"{100 * row.change:+,.2f}"
    return f"{text} %" if float(text.replace(",", "")) else f"{100 * row.change:+.1g} %"


def certainty(row: Difference) -> str:
    """Return how sure the difference is: exact, or p of the rank test."""
    if row.is_exact:
        return "exact"
    if row.p is None:
        return ""
    return "p<1e-9" if row.p < 1e-9 else f"p={row.p:.2g}"


def verdict_text(row: Difference) -> str:
    """Return what it amounts to; a broken rule says so."""
    return f"REGRESSION ({row.rule})" if row.rule is not None else row.verdict


def what_of(row: Difference) -> str:
    """Name the row: function, arguments, flags, board and metric."""
    flags = f" {row.flags}" if row.flags else ""
    device = f" on {row.device}" if row.device else ""
    return f"{row.name}({row.shapes}){flags}{device}: {row.metric}"


def headline(comparison: Comparison) -> str:
    """Return one sentence: what came of it."""
    rows = comparison.rows
    found = len(comparison.regressions)
    if found:
        result = f"{found} {'regression' if found == 1 else 'regressions'}"
    else:
        result = "no regression" if comparison.rules else "no rule, so nothing is gated"
    counts = ", ".join(
        f"{number} {verdict}"
        for verdict in ("worse", "better", "noise", "same", "added", "removed")
        if (number := sum(row.verdict == verdict for row in rows))
    )
    return f"{result}; {len(rows)} metrics: {counts}."
