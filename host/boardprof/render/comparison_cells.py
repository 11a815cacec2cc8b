# SPDX-License-Identifier: Apache-2.0
"""The cells of a Comparison's row, as the table, Markdown and JUnit have them."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Final

from boardprof.comparison.comparison import Comparison, Difference, Gap, Unjudged, place_of
from boardprof.comparison.notes import first_of
from boardprof.comparison.rule import Rule, statistic
from boardprof.metrics import Kind, Percent, digits
from boardprof.render.cells import plural
from boardprof.stats.summary import Number, Summary, magnitude, plain

__all__ = ["certainty", "change_text", "headline", "judged_text", "median_text", "number_text"]
__all__ += ["unjudged_at", "unjudged_lines", "verdict_text", "what_of"]

_PRECISE_BELOW = 100.0
_LONG = 10**60
"""Such counts are no counts any more, and would tear the table."""

_NO_RULE = "no rule, so nothing is gated"
_NOTHING_JUDGED = "no rule could judge anything, so nothing is gated"
_VERDICTS: Final = (
    *("worse", "better", "noise", "within overhead", "too few samples", "other calls", "same"),
    *("added", "removed"),
)


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


def verdict_text(row: Difference, unjudged: Sequence[Unjudged] = ()) -> str:
    """Return what it amounts to; a broken rule says so, and one that could not judge it.

    What a rule has looked at is told where the columns, which have medians, do not show it.
    """
    if row.rule is not None:
        return f"REGRESSION ({row.rule}{judged_text(row, row.rule)})"
    return f"NOT JUDGED ({unjudged[0].rule})" if unjudged else row.verdict


def judged_text(row: Difference, rule: Rule) -> str:
    """Return ``: 61 to 5,011``, of what a rule looks at; nothing where it is as the medians."""
    if row.before is None or row.after is None:
        return ""
    sides = (row.before, row.after)
    values = [number_text(statistic(side, rule.statistic), row.kind) for side in sides]
    shown = [median_text(side, row.kind) for side in sides]
    return "" if values == shown else f": {' to '.join(values)}"


def what_of(row: Difference | Gap) -> str:
    """Name the row: function, label, arguments, flags, board and metric."""
    return f"{_place(row)}: {row.metric}"


def _place(row: Difference | Gap) -> str:
    flags = f" {row.flags}" if row.flags else ""
    device = f" on {row.device}" if row.device else ""
    return f"{row.title}({row.shapes}){flags}{device}"


def headline(comparison: Comparison) -> str:
    """Return one sentence: what came of it, what no rule could judge ahead of what is in order."""
    rows = comparison.rows
    parts = [plural(len(comparison.regressions), "regression")] if comparison.regressed else []
    if comparison.unjudged:
        parts.append(_unjudged_text(comparison))
    if not comparison.regressed:
        parts.append(_passed_text(comparison))
    counts = ", ".join(
        f"{number} {verdict}"
        for verdict in _VERDICTS
        if (number := sum(row.verdict == verdict for row in rows))
    )
    return f"{'; '.join(parts)}; {plural(len(rows), 'metric')}: {counts}."


def _passed_text(comparison: Comparison) -> str:
    if not comparison.rules:
        return _NO_RULE
    if not comparison.judged:
        return _NOTHING_JUDGED
    return "no regression in what was judged" if comparison.unjudged else "no regression"


def _unjudged_text(comparison: Comparison) -> str:
    """Count and name the rows that a rule is for and could not judge."""
    names = first_of(dict.fromkeys(each.what for each in comparison.unjudged))
    number = len({place_of(each.gap) for each in comparison.unjudged})
    fails = ", which fails" if comparison.fails_if_missing else ""
    return f"{plural(number, 'row')} not judged{fails} ({names})"


def unjudged_at(comparison: Comparison) -> dict[tuple[str, ...], list[Unjudged]]:
    """Return what no rule could judge, by the row that it is about; see `place_of`."""
    found: dict[tuple[str, ...], list[Unjudged]] = {}
    for each in comparison.unjudged:
        found.setdefault(place_of(each.gap), []).append(each)
    return found


def unjudged_lines(comparison: Comparison) -> list[str]:
    """Say for each rule why it could not judge which rows."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for each in comparison.unjudged:
        what = f"{each.gap.metric} of {_place(each.gap)}" if each.gap.name else each.what
        found.setdefault((each.rule.text, each.why), {})[what] = None
    return [
        f"Not judged by {rule}: {first_of(names)}; {why}." for (rule, why), names in found.items()
    ]
