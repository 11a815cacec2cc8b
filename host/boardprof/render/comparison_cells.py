# SPDX-License-Identifier: Apache-2.0
"""The cells of a Comparison's row, as the table, Markdown and JUnit have them."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from boardprof.comparison.comparison import Comparison, Difference, Gap
from boardprof.metrics import Kind, Percent, digits
from boardprof.stats.summary import Number, Summary, magnitude, plain

__all__ = ["certainty", "change_text", "headline", "median_text", "number_text", "verdict_text"]
__all__ += ["what_of"]

_PRECISE_BELOW = 100.0
_LONG = 10**60
"""Such counts are no counts any more, and would tear the table."""

_MOST_LISTED = 8


def number_text(value: Number | None, kind: Kind) -> str:
    """Return a value per call: whole numbers whole, others with four digits or two decimals."""
    if value is None:
        return ""
    unit = " %" if kind is Percent else ""
    number = plain(value)
    if number == int(number):
        whole = int(number)
        return (digits(whole, ",") if abs(whole) < _LONG else f"{Decimal(whole):.12e}") + unit
    return (f"{number:.4g}" if abs(number) < _PRECISE_BELOW else f"{number:,.2f}") + unit


def median_text(summary: Summary | None, kind: Kind) -> str:
    """Return the median, or nothing of a side that is missing."""
    return number_text(None if summary is None else summary.median, kind)


def change_text(row: Difference) -> str:
    """Return the change in percent; of percentages in points; from 0 as a difference."""
    if row.before is None or row.after is None:
        return ""
    step = Fraction(row.after.exactly("median")) - Fraction(row.before.exactly("median"))
    if step == 0:
        return "0"
    if row.kind is Percent:
        return f"{Decimal(step.numerator) / step.denominator:+.3g} pp"
    if not row.change:  # from 0, or less than any float
        return f"{'+' if step > 0 else '-'}{number_text(magnitude(step), row.kind)}"
    try:
        percent = float(100 * row.change)
    except OverflowError:
        return f"{Decimal(100 * int(row.change)):+.3g} %"
    text = f"{percent:+,.2f}"
    return f"{text} %" if float(text.replace(",", "")) else f"{percent:+.1g} %"


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


def what_of(row: Difference | Gap) -> str:
    """Name the row: function, label, arguments, flags, board and metric."""
    flags = f" {row.flags}" if row.flags else ""
    device = f" on {row.device}" if row.device else ""
    return f"{row.title}({row.shapes}){flags}{device}: {row.metric}"


def headline(comparison: Comparison) -> str:
    """Return one sentence: what came of it."""
    rows = comparison.rows
    found = len(comparison.regressions)
    if found:
        result = f"{found} {'regression' if found == 1 else 'regressions'}"
    else:
        result = "no regression" if comparison.rules else "no rule, so nothing is gated"
    if comparison.unjudged:
        result += f"; {_unjudged_text(comparison)}"
    counts = ", ".join(
        f"{number} {verdict}"
        for verdict in ("worse", "better", "noise", "too few samples", "same", "added", "removed")
        if (number := sum(row.verdict == verdict for row in rows))
    )
    return f"{result}; {len(rows)} metrics: {counts}."


def _unjudged_text(comparison: Comparison) -> str:
    """Count and name the rows that a rule is for and could not judge."""
    names = [*dict.fromkeys(each.what for each in comparison.unjudged)]
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    number = len(comparison.unjudged)
    what = "1 row is" if number == 1 else f"{number} rows are"
    fails = ", which fails" if comparison.fails_if_missing else ""
    return f"{what} not judged{fails} ({', '.join(names[:_MOST_LISTED])}{more})"
