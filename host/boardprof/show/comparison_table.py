# SPDX-License-Identifier: Apache-2.0
"""A Comparison as a text table: a row for each metric with medians per call, then notes."""

from __future__ import annotations

import math
import posixpath
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Final, TypeAlias

from boardprof.base.metrics import Kind, Percent
from boardprof.results.comparison.comparison import (
    Comparison,
    Difference,
    MetricRow,
    Unjudged,
    first_of,
    mean_ratios,
    row_title,
)
from boardprof.results.comparison.profile_difference import (
    FunctionChange,
    LineChange,
    ProfileDifference,
)
from boardprof.results.comparison.rule import Rule, statistic
from boardprof.results.report.calls import DURATION
from boardprof.results.report.profile import MODELLED
from boardprof.results.stats.summary import Summary
from boardprof.show.cells import (
    JUDGED_BY,
    half_range,
    multiple_text,
    number_text,
    plural,
    short_arguments,
)
from boardprof.show.layout import Column, Page, Table, plain, record_table, shared

_VERDICTS: Final = (
    *("worse", "better", "changed", "noise", "within overhead", "too few samples", "other calls"),
    *("other inputs", "doubtful", "output changed", "same", "added", "removed"),
)
_MOST = 5  # functions, and lines, that are shown
_LONGEST = 60

_ALL_WHOLE = 100  # from here on, three digits have no fraction
_COSTS, _TEXTS = ("Before", "After", "Change"), ("What", "Source")  # columns of `change_rows`
_SAMPLED = "Sampled: estimates. Changes smaller than their uncertainty are left out."


def median_text(summary: Summary | None, kind: Kind) -> str:
    """Return the median; empty if the side is missing."""
    return number_text(None if summary is None else summary.median, kind)


def change_text(row: Difference) -> str:
    """Return the change in percent; of percentages in points; from 0 as a difference."""
    if row.before is None or row.after is None:
        return ""
    step = row.after.median - row.before.median
    if step == 0:
        return "0"
    if row.kind is Percent:
        return f"{Decimal(step):+.3g} pp"
    if not row.change:  # from 0, or less than any float
        return f"{'+' if step > 0 else '-'}{number_text(abs(step), row.kind)}"
    return _percent_text(100 * row.change)


def ratio_text(ratio: float) -> str:
    """Return after over before as a change in percent."""
    return "0" if ratio == 1 else _percent_text(100 * (ratio - 1))


def _percent_text(percent: float) -> str:
    text = f"{percent:+,.2f}"
    if float(text.replace(",", "")):
        return f"{text} %"
    sign = "-" if percent < 0 else "+"
    return f"{percent:+.1g} %" if abs(percent) >= 1e-4 else f"{sign}<0.0001 %"


def certainty(row: Difference) -> str:
    """Return the certainty of a difference: exact, modelled, or p of the rank test."""
    if row.metric in MODELLED:
        return "modelled"
    if row.is_exact:
        return "exact"
    if row.p is None:
        return ""
    return "p<1e-9" if row.p < 1e-9 else f"p={row.p:.2g}"


_BROKEN: Final = "REGRESSION"


def _verdict_text(row: Difference, unjudged: Sequence[Unjudged] = ()) -> str:
    """Return the verdict, with a broken rule or a rule that could not judge."""
    if row.rule is not None:
        return f"{_BROKEN} ({row.rule}{judged_text(row, row.rule)})"
    return f"NOT JUDGED ({unjudged[0].by})" if unjudged else row.verdict


def judged_text(row: Difference, rule: Rule) -> str:
    """Return a rule's statistic as ``: 61 to 5,011``; "" if it looks the same as the median."""
    if row.before is None or row.after is None:
        return ""
    sides = (row.before, row.after)
    values = [number_text(statistic(side, rule.statistic), row.kind) for side in sides]
    shown = [median_text(side, row.kind) for side in sides]
    return "" if values == shown else f": {' to '.join(values)}"


def what_of(row: MetricRow) -> str:
    """Name the row: function, label, arguments, flags, board and metric."""
    return f"{row_title(row)}: {row.metric}"


def headline(comparison: Comparison) -> str:
    """Return one sentence with the result."""
    rows = comparison.rows
    parts = [f"{plural(len(comparison.outputs), 'output')} changed"] if comparison.outputs else []
    parts += [plural(len(comparison.regressions), "regression")] if comparison.regressed else []
    parts += [f"{plural(len(comparison.over), 'value')} above its limit"] if comparison.over else []
    if comparison.unjudged:
        parts.append(_unjudged_text(comparison))
    is_gated = comparison.outputs or comparison.over
    if not comparison.regressed and (comparison.rules or not is_gated):
        parts.append(_passed_text(comparison))
    counts = ", ".join(
        f"{number} {verdict}"
        for verdict in _VERDICTS
        if (number := sum(row.verdict == verdict for row in rows))
    )
    of_them = f"{plural(len(rows), 'metric')}: {counts}" if rows else "no metric was compared"
    return f"{'; '.join(parts)}; {of_them}."


def _passed_text(comparison: Comparison) -> str:
    if not comparison.rules:
        return "no rule, so nothing is gated"
    if not comparison.judged:
        return "no rule could judge anything, so nothing is gated"
    return "no regression in what was judged" if comparison.unjudged else "no regression"


def _unjudged_text(comparison: Comparison) -> str:
    """Return the number and names of the rows that a rule applies to but could not judge."""
    names = first_of(dict.fromkeys(each.what for each in comparison.unjudged))
    number = len({each.place for each in comparison.unjudged})
    fails = ", which fails" if comparison.fails_if_missing else ""
    return f"{plural(number, 'row')} not judged{fails} ({names})"


def unjudged_at(comparison: Comparison) -> dict[tuple[str, ...], list[Unjudged]]:
    """Return the unjudged rows by place; see `MetricRow.place`."""
    found: dict[tuple[str, ...], list[Unjudged]] = {}
    for each in comparison.unjudged:
        found.setdefault(each.place, []).append(each)
    return found


def unjudged_lines(comparison: Comparison) -> list[str]:
    """Return a line for each rule and reason, with the rows that it could not judge."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for each in comparison.unjudged:
        what = f"{each.metric} of {row_title(each)}" if each.name else each.what
        found.setdefault((each.by, each.why), {})[what] = None
    return [
        f"Not judged by {rule}: {first_of(names)}; {why}." for (rule, why), names in found.items()
    ]


def output_lines(comparison: Comparison) -> list[str]:
    """Return a line for each output that changed."""
    return [f"{what_of(each)}: {each.text}" for each in comparison.outputs]


def means_line(
    comparison: Comparison, name: Callable[[str], str] = str, ratio: Callable[[str], str] = str
) -> str:
    """Return one line with the geometric means of after over before, or "" if there are none."""
    means = mean_ratios(comparison.rows)
    is_one = len({mean.device for mean in means}) == 1
    texts = [
        f"{name(mean.metric)} {ratio(ratio_text(mean.ratio))} over {mean.measured}"
        f"{'' if is_one else f' on {name(mean.device)}'}"
        for mean in means
    ]
    return f"Geometric mean: {'; '.join(texts)}." if texts else ""


def times_line(comparison: Comparison) -> str:
    """Return how many times faster or slower the only function is; "" if that is not known."""
    rows = {row.metric: row for row in comparison.rows}
    row = next((rows[name] for name in JUDGED_BY if name in rows), None)
    if row is None or len({each.place[:-1] for each in comparison.rows}) > 1:
        return ""
    if row.before is None or row.after is None or row.verdict not in ("better", "worse"):
        return ""
    facts = {*comparison.before_facts} & {*comparison.after_facts}
    if any(what == f"{row.device} build" for what, _ in facts):
        return ""
    less, more = sorted((row.before, row.after), key=lambda side: side.median)
    if less.median <= 0 or f"{float(more.median / less.median):.2f}" == "1.00":
        return ""
    before, after = comparison.before_name.split(" (")[0], comparison.after_name.split(" (")[0]
    ratio = float(more.median / less.median)
    # Relative errors of independent values add up in quadrature.
    shares = (max(half_range(side), row.doubt) / float(side.median) for side in (less, more))
    spread = ratio * math.hypot(*shares)
    times = f"{multiple_text(ratio, spread)} times"
    if row.metric == DURATION:
        how = "slower" if more is row.after else "faster"
        after = after.replace("the working", "The working")
        return f"{after} is {times} {how} than {before}."
    first, second = (after, before) if more is row.after else (before, after)
    return f"{first} takes {times} the {row.metric} of {second}."


_LEFT = ("Name", "Label", "Flags", "Arguments", "Device", "Metric", "Verdict")
_OPTIONAL = ("Label", "Flags", "Arguments", "Device")
_Facts: TypeAlias = Sequence[tuple[str, str]]


def comparison_table(comparison: Comparison, *, changed_only: bool = False) -> str:
    """Return ``comparison`` as a text table; see `comparison_page`."""
    return plain(comparison_page(comparison, changed_only=changed_only))


def comparison_page(comparison: Comparison, *, changed_only: bool = False) -> Page:
    """Return a table with notes, perhaps without rows that are equal on both sides."""
    unjudged = unjudged_at(comparison)
    cells = [
        comparison_cells(row, unjudged.get(row.place, ()))
        for row in comparison.rows
        if not changed_only or row.verdict != "same" or row.place in unjudged
    ]
    table: Page = []
    short = short_arguments((each["Name"], each["Arguments"]) for each in cells)
    cells = [{**each, "Arguments": short[each["Name"], each["Arguments"]]} for each in cells]
    if cells:
        spare = shared(cells, ("Arguments", "Device"))
        whole = record_table(cells[0], cells, _LEFT, optional=_OPTIONAL, spare=spare)
        table = [replace(whole, columns=[_toned(column) for column in whole.columns]), ""]
    means = means_line(comparison) or times_line(comparison)
    return [
        *(f"OUTPUT CHANGED: {line}." for line in output_lines(comparison)),
        *(f"ABOVE ITS LIMIT: {each.text}." for each in comparison.over),
        *([""] if comparison.outputs or comparison.over else []),
        *table,
        *reason_page(comparison),
        *([means] if means else []),
        f"Before: {comparison.before_name}{_only(comparison.before_facts, comparison.after_facts)}",
        f"After:  {comparison.after_name}{_only(comparison.after_facts, comparison.before_facts)}",
        *(f"Note: {note}" for note in comparison.notes),
        *unjudged_lines(comparison),
        f"Result: {headline(comparison)}",
    ]


def _toned(column: Column) -> Column:
    """Return a column in which a broken rule is seen at once, on a terminal with colours."""
    tones = ["bad" if cell.startswith(_BROKEN) else "" for cell in column.cells]
    return replace(column, tones=tones) if any(tones) else column


def reason_page(comparison: Comparison) -> Page:
    """Return where functions changed, if both sides have a profile."""
    page: list[Table | str] = []
    headers = ("Where", *_COSTS, *_TEXTS)
    for place, difference in comparison.reasons.items():
        rows, rest = change_rows(difference), rest_text(difference)
        table = record_table(headers, rows, _TEXTS, optional=headers, spare=_COSTS[:2])
        page += [f"{reason_title(place, difference)}:", table, *([rest] if rest else []), ""]
    return page


def comparison_cells(row: Difference, unjudged: Sequence[Unjudged]) -> dict[str, str]:
    """Return a row's cells by header, in the table's order."""
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
        "Verdict": _verdict_text(row, unjudged),
    }


def _only(facts: _Facts, others: _Facts) -> str:
    """Return the facts that only one side has, such as another build."""
    text = "; ".join(f"{name} {value}" for name, value in facts if (name, value) not in others)
    return f" ({text})" if text else ""


# -- changes within a function -----------------------------------------------------------------


def change_rows(difference: ProfileDifference) -> list[dict[str, str]]:
    """Return the functions and the lines that changed most, with a cell for each header."""
    functions = [
        _row(difference, each.name, each, _function_text(each), "")
        for each in difference.functions[:_MOST]
    ]
    lines = [
        _row(difference, _place(each), each, _line_text(each), _cut(each.text))
        for each in difference.lines[:_MOST]
    ]
    return functions + lines


def rest_text(difference: ProfileDifference) -> str:
    """Return what is not among `change_rows`; "" if nothing."""
    if difference.is_sampled:
        return _SAMPLED if difference.functions else f"Samples do not show where. {_SAMPLED}"
    rest = [
        f"{len(found) - _MOST} more {name}{'s' * (len(found) - _MOST > 1)}"
        for name, found in (("function", difference.functions), ("line", difference.lines))
        if len(found) > _MOST
    ]
    return f"and {' and '.join(rest)} with smaller changes" if rest else ""


def reason_title(place: tuple[str, ...], difference: ProfileDifference) -> str:
    """Return what the changes at a row's place explain, with their metric if it is another one."""
    name, label, _, device, flags, metric = place
    title = " ".join(filter(None, [metric, "of", name, label, flags, f"on {device}"]))
    unit = f", in {difference.metric}" if difference.metric != metric else ""
    return f"Where {title} changed{unit}"


def _row(
    difference: ProfileDifference,
    where: str,
    change: FunctionChange | LineChange,
    what: str,
    source: str,
) -> dict[str, str]:
    costs = ((change.before, ""), (change.after, ""), (change.change, "+"))
    if difference.is_sampled:
        shown = [f"~{_rounded(cost / difference.scale, sign)}" for cost, sign in costs]
    else:
        shown = [f"{cost:{sign},}" for cost, sign in costs]
    return {"Where": where, **dict(zip(_COSTS, shown, strict=True)), "What": what, "Source": source}


def _rounded(estimate: float, sign: str) -> str:
    """Return an estimate with three digits; more would look exact."""
    kept = float(f"{estimate:.3g}")
    return f"{kept:{sign},.0f}" if abs(kept) >= _ALL_WHOLE else f"{kept:{sign}g}"


def _function_text(change: FunctionChange) -> str:
    calls = change.calls_before, change.calls_after
    if change.inlined_after and not change.inlined_before and calls[0] > calls[1]:
        return f"inlined now, {plural(calls[0], 'call')} before"
    if change.inlined_before and not change.inlined_after and calls[1] > calls[0]:
        return f"inlined before, {plural(calls[1], 'call')} now"
    is_new, is_gone = not change.before and not calls[0], not change.after and not calls[1]
    return _number_text(*calls, "call", is_new=is_new, is_gone=is_gone)


def _line_text(change: LineChange) -> str:
    before, after = change.times_before, change.times_after
    changed = _number_text(before, after, "time", is_new=change.is_new, is_gone=change.is_gone)
    if changed or not before:
        return changed
    if change.first == change.last and not change.before % before | change.after % after:
        each = f"{change.before // before} to {change.after // after} each"
        return f"{plural(before, 'time')}, {each}"
    return plural(before, "time")


def _number_text(before: int, after: int, what: str, *, is_new: bool, is_gone: bool) -> str:
    """Return how a number of calls or times changed; "" if it did not."""
    if is_new:
        return f"new, {plural(after, what)}" if after else "new"
    if is_gone:
        return f"gone, {plural(before, what)} before" if before else "gone"
    return f"{before:,} to {plural(after, what)}" if before != after else ""


def _place(change: LineChange) -> str:
    lines = f"{change.first}" if change.first == change.last else f"{change.first}-{change.last}"
    return f"{posixpath.basename(change.file)}:{lines}"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
