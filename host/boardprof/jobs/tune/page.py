# SPDX-License-Identifier: Apache-2.0
"""A search as tables, as JSON, and as a self-contained HTML page with the history of its trials."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from boardprof.base.metrics import Count
from boardprof.jobs.tune.candidate import FLASH, RAM, STACK, MeasureError
from boardprof.jobs.tune.search import FLAGS, Search, Trial
from boardprof.jobs.tune.winner import Winner
from boardprof.show.cells import number_text
from boardprof.show.html import asset, filled_page, isolated, tables_html
from boardprof.show.layout import Column, Page, Table

_MOST_ROWS = 5
_WIDTH, _HEIGHT, _MARGIN = 900, 240, 70
_RADIUS = 3

_FAILURES = {
    MeasureError.INSTANTIATION_ERROR: "are not valid",
    MeasureError.COMPILE_DEVICE: "do not compile or link",
    MeasureError.RUNTIME_DEVICE: "trapped or ended the board",
    MeasureError.WRONG_ANSWER: "have a wrong output",
    MeasureError.RUN_TIMEOUT: "did not end in time",
    MeasureError.UNKNOWN_ERROR: "failed in another way",
    MeasureError.OVER_LIMIT: "are above a limit",
}


def tuning_page(search: Search, winner: Winner | None = None) -> Page:
    """Return a search's result as tables and lines."""
    best, goal = search.best, search.goals[0]
    lines: list[Table | str] = []
    if best is None:
        lines.append("No candidate has a right output within the limits.")
    else:
        first = next((each for each in search.trials if each.choice == search.space.baseline), None)
        lines.append(_gain(goal, best, first))
        lines += ["", trial_table(search, _leading(search), first)]
        if len(search.goals) > 1:
            lines += ["", f"Not beaten in all of {', '.join(search.goals)}:"]
            lines += [trial_table(search, search.pareto)]
    importance = search.importance()
    if importance:
        shares = ", ".join(f"{name} {share:.0%}" for name, share in importance.items())
        lines += ["", f"Importance for {goal}: {shares}"]
    lines += [
        f"{name} changes nothing: all its values compile to the same code. Does the source use it?"
        for name in search.unused
    ]
    failed = Counter(each.error_no for each in search.trials if not each.ok)
    for error_no, count in sorted(failed.items()):
        example = next(each for each in search.trials if each.error_no is error_no)
        what = _FAILURES.get(error_no, "failed")
        lines.append(f"{count} of {len(search.trials)} {what}, such as: {example.error}")
    earlier = sum(each.is_from_history for each in search.trials)
    if earlier:
        lines.append(
            f"{earlier} of {len(search.trials)} results are from the history. "
            "BOARDPROF_HISTORY=off measures them again."
        )
    if winner is not None:
        lines += ["", "Measure the best one by itself:", f"  {winner.command}"]
        if winner.cost is not None and best is not None:
            lines.append(_alone(goal, winner.cost, best))
            if winner.later_cost not in (None, winner.cost):
                lines.append(_later(winner))
    return lines


def _gain(goal: str, best: Trial, first: Trial | None) -> str:
    text = f"Best {goal}: {number(best.metrics[goal])}"
    if first is None or not first.ok or first is best or not best.metrics[goal]:
        return text
    before = first.metrics[goal]
    return f"{text}, {before / best.metrics[goal]:.2f} times less than {number(before)}"


def _alone(goal: str, cost: float, best: Trial) -> str:
    if cost == best.metrics[goal]:
        return f"By itself it takes {number(cost)} {goal}, too."
    return (
        f"By itself it takes {number(cost)} {goal}. The difference comes from where the code is "
        "placed in the image, or from noise."
    )


def _later(winner: Winner) -> str:
    later = number(winner.later_cost)
    if winner.is_first_call:
        return f"That is its first call. The next one takes {later}. To tune it, add --warmup 1."
    return f"The next calls take {later}: the cost depends on earlier calls."


def _leading(search: Search) -> list[Trial]:
    good = [each for each in search.trials if each.ok]
    return sorted(good, key=lambda each: each.metrics[search.goals[0]])[:_MOST_ROWS]


def trial_table(search: Search, trials: Sequence[Trial], first: Trial | None = None) -> Table:
    """Return trials as a table; ``first`` is the baseline, as a last row."""
    rows = [*trials]
    names = [f"#{each.number}" for each in rows]
    if first is not None and first.ok and first not in rows:
        rows.append(first)
        names.append(f"#{first.number} baseline")
    sizes = [n for n in (FLASH, RAM, STACK) if any(each.metrics.get(n) for each in rows)]
    metrics = list(dict.fromkeys([*search.goals, *sizes]))
    return Table(
        [
            Column("Trial", names, is_text=True),
            *(Column(name, [number(each.metrics.get(name)) for each in rows]) for name in metrics),
            *(
                Column(name, [each.choice[name] for each in rows], is_text=name == FLAGS)
                for name in search.space.alternatives
            ),
        ]
    )


def number(value: float | None) -> str:
    """Return a value as `boardprof run` shows it; "" if there is none."""
    return number_text(value, Count)


def tuning_facts(search: Search, subject: dict[str, Any], winner: Winner | None) -> dict[str, Any]:
    """Return a search as plain data for JSON; ``subject`` is what it was about."""
    return {
        **subject,
        "goals": list(search.goals),
        "alternatives": {name: list(each) for name, each in search.space.alternatives.items()},
        "best": None if search.best is None else search.best.number,
        "pareto": [each.number for each in search.pareto],
        "importance": search.importance(),
        "command": None if winner is None else winner.command,
        "cost_by_itself": None if winner is None else winner.cost,
        "later_cost_by_itself": None if winner is None else winner.later_cost,
        "trials": [{**asdict(each), "error_no": int(each.error_no)} for each in search.trials],
    }


# -- page --------------------------------------------------------------------------------------


def render_tuning(search: Search, title: str, facts: str, winner: Winner | None = None) -> str:
    """Return a search as an HTML page; ``facts`` is a line on how."""
    every = [trial_table(search, [each for each in search.trials if each.ok])]
    failed = [each for each in search.trials if not each.ok]
    errors = Table(
        [
            Column("Trial", [f"#{each.number}" for each in failed], is_text=True),
            *(
                Column(name, [each.choice[name] for each in failed], is_text=True)
                for name in search.space.alternatives
            ),
            Column("Error", [each.error for each in failed], is_text=True),
        ]
    )
    return filled_page(
        "tuning.html",
        asset("page.css") + asset("tuning.css"),
        title=html.escape(f"{title} \N{MIDDLE DOT} boardprof tune"),
        heading=isolated(title),
        facts=isolated(facts),
        result=tables_html(tuning_page(search, winner)),
        history=_history(search),
        trials=tables_html(every) if every[0].columns[0].cells else "",
        failed=f"<section>\n<h2>Failed</h2>\n{tables_html([errors])}\n</section>" if failed else "",
    )


def _history(search: Search) -> str:
    """Return a drawing of the first goal over the trials, with the best so far as a line."""
    goal = search.goals[0]
    good = [each for each in search.trials if each.ok]
    if not good:
        return ""
    values = [each.metrics[goal] for each in good]
    low, high = min(values), max(values)
    span, last = (high - low) or 1.0, max(1, search.trials[-1].number)

    def place(trial: int, value: float) -> tuple[float, float]:
        x = _MARGIN + (_WIDTH - _MARGIN - 10) * trial / last
        return round(x, 1), round(10 + (_HEIGHT - 40) * (high - value) / span, 1)

    best = float("inf")
    steps: list[str] = []
    dots = []
    for each, value in zip(good, values, strict=True):
        x, y = place(each.number, value)
        label = html.escape(f"#{each.number}: {number(value)}")
        dots.append(f'<circle cx="{x}" cy="{y}" r="{_RADIUS}"><title>{label}</title></circle>')
        if value < best:
            steps.append(f"{'H' if steps else 'M'}{x}" + (f"V{y}" if steps else f" {y}"))
            best = value
    steps.append(f"H{_WIDTH - 10}")
    ticks = "".join(
        f'<text x="{_MARGIN - 8}" y="{place(0, value)[1] + 4}">{number(value)}</text>'
        for value in dict.fromkeys((high, low))
    )
    text = html.escape(f"{goal} of each trial; the line is the best so far")
    return (
        f'<svg class="trials" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{text}">'
        f'<path d="{"".join(steps)}"/>{"".join(dots)}{ticks}'
        f'<text class="end" x="{_WIDTH - 10}" y="{_HEIGHT - 6}">trial {last}</text></svg>'
    )
