# SPDX-License-Identifier: Apache-2.0
"""A Comparison as a text table: a row for each metric with medians per call, then notes.

Markdown, JUnit and the answer of a Report show the same cells and lines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Final, TypeAlias

from boardprof.comparison.comparison import (
    Comparison,
    Difference,
    Gap,
    Unjudged,
    first_of,
    mean_ratios,
    place_of,
)
from boardprof.comparison.rule import Rule, statistic
from boardprof.metrics import Kind, Percent
from boardprof.render.cells import number_text, plural
from boardprof.render.layout import Page, plain, record_table
from boardprof.render.profile_difference_rows import difference_page, title_of
from boardprof.stats.summary import Summary, magnitude

_NO_RULE = "no rule, so nothing is gated"
_NOTHING_JUDGED = "no rule could judge anything, so nothing is gated"
_VERDICTS: Final = (
    *("worse", "better", "noise", "within overhead", "too few samples", "other calls", "same"),
    *("added", "removed"),
)


def median_text(summary: Summary | None, kind: Kind) -> str:
    """Return the median; empty if the side is missing."""
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
        return _percent_text(float(100 * row.change))
    except OverflowError:
        return f"{Decimal(100 * int(row.change)):+.3g} %"


def ratio_text(ratio: float) -> str:
    """Return after over before as a change in percent."""
    return "0" if ratio == 1 else _percent_text(100 * (ratio - 1))


def _percent_text(percent: float) -> str:
    text = f"{percent:+,.2f}"
    return f"{text} %" if float(text.replace(",", "")) else f"{percent:+.1g} %"


def certainty(row: Difference) -> str:
    """Return the certainty of a difference: exact, or p of the rank test."""
    if row.is_exact:
        return "exact"
    if row.p is None:
        return ""
    return "p<1e-9" if row.p < 1e-9 else f"p={row.p:.2g}"


def verdict_text(row: Difference, unjudged: Sequence[Unjudged] = ()) -> str:
    """Return the verdict, with a broken rule or a rule that could not judge.

    The rule's statistic is shown if it is not the median, which the columns show.
    """
    if row.rule is not None:
        return f"REGRESSION ({row.rule}{judged_text(row, row.rule)})"
    return f"NOT JUDGED ({unjudged[0].rule})" if unjudged else row.verdict


def judged_text(row: Difference, rule: Rule) -> str:
    """Return a rule's statistic as ``: 61 to 5,011``; "" if it looks the same as the median."""
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
    """Return one sentence with the result."""
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
    """Return the number and names of the rows that a rule applies to but could not judge."""
    names = first_of(dict.fromkeys(each.what for each in comparison.unjudged))
    number = len({place_of(each.gap) for each in comparison.unjudged})
    fails = ", which fails" if comparison.fails_if_missing else ""
    return f"{plural(number, 'row')} not judged{fails} ({names})"


def unjudged_at(comparison: Comparison) -> dict[tuple[str, ...], list[Unjudged]]:
    """Return the unjudged rows by place; see `place_of`."""
    found: dict[tuple[str, ...], list[Unjudged]] = {}
    for each in comparison.unjudged:
        found.setdefault(place_of(each.gap), []).append(each)
    return found


def unjudged_lines(comparison: Comparison) -> list[str]:
    """Return a line for each rule and reason, with the rows that it could not judge."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for each in comparison.unjudged:
        what = f"{each.gap.metric} of {_place(each.gap)}" if each.gap.name else each.what
        found.setdefault((each.rule.text, each.why), {})[what] = None
    return [
        f"Not judged by {rule}: {first_of(names)}; {why}." for (rule, why), names in found.items()
    ]


def means_line(
    comparison: Comparison,
    name: Callable[[str], str] = str,
    ratio: Callable[[str], str] = str,
) -> str:
    """Return one line with the geometric means of after over before, or "" if there are none.

    Args:
        comparison: of several functions.
        name: marks up the name of a metric or board.
        ratio: marks up a ratio.
    """
    means = mean_ratios(comparison.rows)
    is_one = len({mean.device for mean in means}) == 1
    texts = [
        f"{name(mean.metric)} {ratio(ratio_text(mean.ratio))} over {mean.measured}"
        f"{'' if is_one else f' on {name(mean.device)}'}"
        for mean in means
    ]
    return f"Geometric mean: {'; '.join(texts)}." if texts else ""


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
    """Return the facts that only one side has, such as another build."""
    text = "; ".join(f"{name} {value}" for name, value in facts if (name, value) not in others)
    return f" ({text})" if text else ""
