# SPDX-License-Identifier: Apache-2.0
"""The answer of a Report: the cost of one call, its certainty, and its change."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple

from boardprof.base.errors import option
from boardprof.base.metrics import Count, Duration, Metric
from boardprof.results.comparison.comparison import Comparison, Difference, first_of, place_in
from boardprof.results.comparison.difference import difference
from boardprof.results.report.calls import DURATION, ENERGY, LEVELS, SHARES, STACK, one_of
from boardprof.results.report.profile import CORE_CYCLES, MODELLED
from boardprof.results.report.report import Report
from boardprof.results.row_origins import GroupKey, stack_reasons
from boardprof.results.stats.groups import GroupSummary, number_of_groups, summaries
from boardprof.results.stats.summary import FALSE_ALARMS
from boardprof.results.stats.warnings import modes_of
from boardprof.show.cells import (
    JUDGED_BY,
    cell,
    decimals_of,
    half_range,
    multiple_text,
    number_text,
    plural,
    short_arguments,
)
from boardprof.show.comparison_table import change_text, output_lines
from boardprof.show.layout import Column, Page, Table


class Relative(NamedTuple):
    """A median as a multiple of the first setting's.

    The best ones are the least, and those that cannot be told from it, if others can.
    """

    ratio: float
    spread: float  # of the ratio, by those of both medians; 0.0 if both are exact
    is_best: bool
    unclear: str = ""  # why the ratio means nothing
    has_few: bool = False  # no test could tell it from the least one with so few samples
    is_worse: bool = False  # than the least one, by a test

    @property
    def text(self) -> str:
        """Such as ``0.42 ± 0.03 best``."""
        if self.unclear:
            return self.unclear
        return f"{multiple_text(self.ratio, self.spread)}{' best' if self.is_best else ''}"


def relatives(settings: Sequence[GroupSummary]) -> list[Relative] | None:
    """Return a multiple for each setting; None for a single one or without a sure first one.

    The first one is 1; if it is too short to time, the next one that is not.
    """
    is_short = [_doubt(each) == _TOO_SHORT for each in settings]
    rest = [each for each, short in zip(settings, is_short, strict=True) if not short]
    if len(settings) < 2 or not rest or rest[0].doubts or not (first := rest[0].summary.median):
        return None
    sure = [each for each in rest if not each.doubts]
    least = min(sure, key=lambda each: each.summary.median)
    sessions = least.sessions if len({each.sessions for each in rest}) == 1 else 1
    if 0.5 ** (sessions - 1) >= FALSE_ALARMS:  # too few pairs for any test of them
        sessions = 1
    # Of two groups, the median says little, unless a slow moment met all settings.
    is_clear = sessions > 1 or not (_in_one_session(rest) or any(map(modes_of, rest)))
    is_clear = is_clear and len(rest) == len(settings)
    found = []
    for each, short in zip(settings, is_short, strict=True):
        if short:
            found.append(Relative(0.0, 0.0, is_best=False, unclear="too short"))
            continue
        verdict = _verdict(least, each, sessions)
        more = each.summary.median - least.summary.median
        if verdict == "worse" and more <= math.hypot(_uncertain(each), _uncertain(least)):
            verdict = "noise"
        ratio = each.summary.median / first
        # Relative errors of independent values add up in quadrature.
        share = math.hypot(_share(each), _share(rest[0]))
        spread = abs(float(ratio)) * share * (each is not rest[0])
        is_best = verdict in _AS_GOOD and not each.doubts and is_clear
        unclear = _DOUBTFUL if each.doubts else ""
        has_few, is_worse = verdict == "too few samples", verdict == "worse"
        found.append(Relative(ratio, spread, is_best, unclear, has_few, is_worse))
    if not any(each.is_worse for each in found):
        found = [each._replace(is_best=False) for each in found]
    return found


def _in_one_session(settings: Sequence[GroupSummary]) -> bool:
    """Tell whether settings were measured one after the other where other programs run, too."""
    return any(each.clock_kind == "measured" and each.sessions == 1 for each in settings)


def _share(group: GroupSummary) -> float:
    return _half(group) / abs(float(group.summary.median or 1))


def _uncertain(group: GroupSummary) -> float:
    """Return how far a median may be off beside another one of the same board."""
    return max(_own_half(group), _OWN_OVERHEAD * group.overhead.doubt)


_OWN_OVERHEAD: Final = 0.3
"""The share of the overhead's uncertainty that two functions do not have in common.

Three equal functions of 6 ns differed by up to 0.28 of it.
"""


def _verdict(least: GroupSummary, other: GroupSummary, sessions: int) -> str:
    """Return whether another setting is worse than the least one, or why that is not known.

    Pairs of sessions show small differences. One sample that another program has made a hundred
    times as long spoils them, but not a test without pairs. Each may raise half the false alarms.
    """
    if sessions == 1:
        return difference(least.key, least, other, FALSE_ALARMS).verdict
    pairs = difference(least.key, least, other, FALSE_ALARMS / 2, sessions).verdict
    alone = difference(least.key, least, other, FALSE_ALARMS / 2).verdict
    return alone if pairs == "noise" and alone == "worse" else pairs


_AS_GOOD: Final = ("same", "noise", "within overhead", "too few samples")


def settings_of(keys: Iterable[GroupKey], *, alternatives: bool = False) -> list[list[int]]:
    """Return the indices of what to compare: settings of flags, or ``alternatives`` too."""
    found: dict[GroupKey, list[int]] = {}
    for place, key in enumerate(keys):
        of = replace(key, name="", label="", hash="") if alternatives else key
        found.setdefault(replace(of, flags=""), []).append(place)
    return [*found.values()]


_LEADING: Final = (DURATION, "cycles", "instructions", CORE_CYCLES, "ticks", ENERGY)
"""Metrics of a call to show if the board has them; ticks only if there is no other one."""

_BESIDE: Final = LEVELS | SHARES | {*MODELLED}
_USUAL: Final = {"ticks", "page-faults", "task-clock (us)"}
"""Metrics beside the time, which a board always has: nobody misses them."""

_DOUBTS: Final = ("Missing", "ABOVE ITS LIMIT", "Wrong output", "Note", "Results differ")
_DOUBTS_OF_BOARDS: Final = (
    *(
        " stack unknown",
        " warning",
        " energy",
        " probes",
        f" {CORE_CYCLES}",
        " estimated",
        " of several runs",
        " interrupts",
        " kept",
        " sent again",
    ),
)
"""Lines of the configuration to show with the answer; the latter follow a board's name."""

_DOUBTFUL: Final = "doubtful"
_TOO_SHORT: Final = "too short to time alone"
_UNRESOLVED: Final = "too small to be resolved"

_MOST: Final = 6
"""Maximum number of metrics to show; the table has all."""

MOST_GROUPS: Final = 10_000
"""Maximum number of groups of rows to show; nobody reads more, and a million take minutes."""

_TONES: Final = {"better": "good", "worse": "bad", "changed": ""}
"""Of verdicts; others are named."""


@dataclass(frozen=True)
class _Row:
    """A function on a board, with its arguments, label and flags."""

    key: GroupKey
    all: Mapping[str, GroupSummary]
    shows_others: bool
    has_unknown_stack: bool = False
    change: Difference | None = None
    has_other_output: bool = False
    has_same_build: bool = False  # as before
    arguments: str = ""  # that tell it from other rows
    us: float = 1  # microseconds in the unit of times, see `_UNITS`

    @cached_property
    def metrics(self) -> dict[str, GroupSummary]:
        """The metrics to show."""
        names: list[str] = [name for name in _LEADING if name in self.all]
        if self.shows_others or not names:
            counts = (name for name, each in self.all.items() if each.kind in (Count, Duration))
            names += [name for name in counts if name not in (*names, *_BESIDE)]
        has_other = len({*names} - {"ticks", ENERGY}) > 0
        if has_other and "ticks" in names and not self.shows_others:
            names.remove("ticks")
        return {name: self.all[name] for name in names[:_MOST]}

    @property
    def judged(self) -> GroupSummary:
        """The metric for certainty and change."""
        names = (name for name in (*JUDGED_BY, *self.metrics) if name in self.metrics)
        return self.metrics[next(names)]

    @property
    def place(self) -> tuple[str, ...]:
        """The place of the judged metric; see `MetricRow.place`."""
        return place_in(self.key, self.judged.metric)

    @property
    def certainty(self) -> str:
        """The certainty of the judged metric."""
        return self.spread(self.judged)

    @property
    def values(self) -> str:
        """Each metric with its spread, such as ``57 ± 3.1 us, 912 ± 50 cycles per call``."""
        spreads = [self.spread(each) for each in self.metrics.values()]
        shared = spreads[0] if len(set(spreads)) == 1 and spreads[0][0] != "±" else ""
        values = []
        for name, spread in zip(self.metrics, spreads, strict=True):
            value, unit = self.value(name), self.unit(name)
            if spread.startswith("±"):
                values.append(f"{value} {spread} {unit}")
            else:
                values.append(f"{value} {unit}" if shared else f"{value} {unit} ({spread})")
        per = f"per {one_of([self.key.label])}"
        return f"{', '.join(values)} {per}{f', {shared}' if shared else ''}"

    @property
    def cold(self) -> str:
        """The judged metric in the first call; "" if that was not measured."""
        first = self.judged.summary.first
        return "" if first is None else self.text(first, self.judged)

    @property
    def stack(self) -> str:
        """Bytes; ``unknown`` if there is a reason instead, and "" if it was not measured."""
        return self.value(STACK) or ("unknown" if self.has_unknown_stack else "")

    @property
    def changed(self) -> str:
        """The change if it is more than noise; "" if there is no earlier value."""
        if self.change is None or self.change.before is None or self.change.after is None:
            return ""
        if self.change.verdict in ("same", "noise", "within overhead"):
            return "output changed" if self.has_other_output else "no change"
        if _is_too_short(self):  # a percentage of what is not known
            return ""
        unclear = "" if self.change.verdict in _TONES else f" ({self.change.verdict})"
        if self.has_same_build and not unclear:
            return f"same build ({change_text(self.change)})"
        return f"{change_text(self.change)}{unclear}"

    @property
    def is_of_another_moment(self) -> bool:
        """Whether a time of other code changed, and the machine may have done it."""
        is_other = self.change is not None and self.change.verdict in ("better", "worse")
        return is_other and self.judged.clock_kind == "measured" and not self.has_same_build

    def value(self, metric: str) -> str:
        """Return the median per call; "" if absent."""
        found = self.all.get(metric)
        if found is None:
            return ""
        texts = [self.text(found.summary.median, found, self.decimals(found))]
        if _doubt(found) == _TOO_SHORT:
            texts = [f"< {self.text(float(f'{_most(found):.2g}'), found)}"]
        if metric == CORE_CYCLES:
            bounds = (self.value(name) for name in MODELLED[1:])
            texts.append(f"[{' to '.join(dict.fromkeys(bounds))}]")
        return " ".join(texts)

    def text(self, value: int | float, group: GroupSummary, decimals: int | None = None) -> str:
        """Return a value of a metric in its unit, perhaps with a given number of decimals."""
        shown = value / self.us if group.metric == DURATION and self.us != 1 else value
        return number_text(shown, group.kind) if decimals is None else f"{shown:,.{decimals}f}"

    def half(self, group: GroupSummary) -> float:
        """Return half the distance between the quartiles, to two digits, in the metric's unit."""
        whole = _half(group) / (self.us if group.metric == DURATION else 1)
        return 0.0 if _doubt(group) else float(f"{whole:.2g}")

    def decimals(self, group: GroupSummary) -> int | None:
        """Return the decimals of a median and its spread; None if it has no spread."""
        us = self.us if group.metric == DURATION else 1
        return decimals_of(float(group.summary.median) / us, self.half(group))

    def spread(self, group: GroupSummary) -> str:
        """Return the certainty of a metric: ``exact``, such as ``± 0.030``, or a doubt."""
        half = self.half(group)
        return _doubt(group) or f"± {half:,.{self.decimals(group) or 0}f}"

    def unit(self, metric: str) -> str:
        """Return the unit of a metric."""
        return {DURATION: _UNITS[self.us], ENERGY: "nJ"}.get(metric, metric)

    def header(self, metric: str) -> str:
        """Return the header of a metric's column."""
        return f"Time ({self.unit(metric)})" if metric == DURATION else metric


def _half(group: GroupSummary) -> float:
    """Return half the distance between the quartiles; at least what the overhead may be off."""
    return max(_own_half(group), group.overhead.doubt)


def _own_half(group: GroupSummary) -> float:
    """Return half the distance between the quartiles; of a real clock, at least one step."""
    step = group.grain if group.clock_kind == "measured" and not group.summary.is_exact else 0.0
    return max(half_range(group.summary), step)


_UNITS: Final = {1_000_000: "s", 1000: "ms", 1: "us", 0.001: "ns"}
"""The units of time by their microseconds."""

_LARGE: Final = 100
"""A time of as many units is shown in that unit, however small others are."""


def answer_page(
    report: Report,
    since: Comparison | None = None,
    *,
    name: str = "",
    shows_others: bool = False,
) -> Page:
    """Return the answer of a Report, the run ``name``; empty if no sample has a call's cost."""
    changes = {} if since is None else {row.place: row for row in since.rows}
    outputs = {place_in(each, "") for each in since.outputs} if since is not None else set()
    builds = set() if since is None else {*since.before_facts} & {*since.after_facts}
    rows = [
        replace(
            row,
            change=changes.get(row.place),
            has_other_output=place_in(row.key, "") in outputs,
            has_same_build=any(what == f"{row.key.device} build" for what, _ in builds),
        )
        for row in _rows(report, shows_others)
    ]
    if not rows:
        return []
    before = "" if since is None else since.before_name
    settings = settings_of((row.key for row in rows), alternatives=_has_alternatives(report))
    answer = _line(rows[0], before) if len(rows) == 1 else _table(rows, before, settings)
    return [
        answer,
        *_conclusions(rows, settings),
        *(
            f"OUTPUT CHANGED since {before}: {line}."
            for line in ([] if since is None else output_lines(since))
        ),
        *([_other_moment()] if any(row.is_of_another_moment for row in rows) else ()),
        *partly(report, f"{option('--csv')} prints"),
        *_without_told(doubts(report.configuration), rows),
        _origin(report, rows, name, "in the --table"),
    ]


def answer_table(report: Report) -> tuple[Table, list[str]] | None:
    """Return the answer as a table, and lines on it; None if no sample has a cost."""
    rows = _rows(report, False)
    if not rows:
        return None
    settings = settings_of((row.key for row in rows), alternatives=_has_alternatives(report))
    is_sweep = len(settings) < len(rows) and not _has_alternatives(report)
    table = _sweep(rows, settings) if is_sweep else _table(rows, "", settings)
    return table, [*_conclusions(rows, settings), _origin(report, rows, "", "below")]


def _has_alternatives(report: Report) -> bool:
    return report.record is not None and report.record.alternatives


def _rows(report: Report, shows_others: bool) -> list[_Row]:
    found: dict[GroupKey, dict[str, GroupSummary]] = {}
    for each in summaries(report, without=SHARES, most=MOST_GROUPS):
        found.setdefault(each.key, {})[each.metric] = each
    unknown = stack_reasons(report)
    rows = [
        _Row(key, metrics, shows_others, STACK not in metrics and replace(key, hash="") in unknown)
        for key, metrics in found.items()
    ]
    times = [row.all[DURATION].summary for row in rows if DURATION in row.all]
    least = min((abs(each.median) for each in times), default=1)
    most = max((max(abs(each.median), each.first or 0) for each in times), default=0)
    few = 10 if any(each.is_exact for each in times) else 1  # keeps the digits of what is exact
    chosen = (us for us in _UNITS if least >= few * us or most >= _LARGE * us)
    us = next(chosen, min(_UNITS))
    short = short_arguments((row.key.name, row.key.shapes) for row in rows)
    return [
        replace(row, us=us, arguments=short[row.key.name, row.key.shapes])
        for row in rows
        if row.metrics
    ]


# -- one function -----------------------------------------------------------------------------


def _line(row: _Row, before: str) -> str:
    key = row.key
    arguments = f"({key.shapes})" if key.shapes else ""
    place = f" on {key.device}" if key.device else ""
    flags = f" with {key.flags}" if key.flags else ""
    parts = [row.values]
    parts += [f"cold {row.cold} {row.unit(row.judged.metric)}"] if row.cold else []
    if row.stack:
        parts.append("stack unknown" if row.has_unknown_stack else f"stack {row.stack} bytes")
    parts += [f"{row.changed} since {before}"] if row.changed else []
    return f"{key.title}{arguments}{place}{flags}: {'; '.join(parts)}"


def _doubt(group: GroupSummary) -> str:
    """Return why a metric has no spread: it is exact, or in doubt; "" if it has one."""
    summary = group.summary
    if group.doubts:
        return _DOUBTFUL
    if group.metric in MODELLED:
        return "modelled"
    if summary.is_exact:
        return "exact"
    if group.overhead.doubt > float(summary.median) and one_of([group.key.label]) == "call":
        return _TOO_SHORT
    return "one sample" if summary.n < 2 else ""


def _most(group: GroupSummary) -> float:
    """Return what a time is less than that is too short to time."""
    return max(float(group.summary.median), 0) + group.overhead.doubt


# -- several ----------------------------------------------------------------------------------


def _table(rows: Sequence[_Row], before: str, settings: Sequence[Sequence[int]]) -> Table:
    """Return a table with a row for each; values that all rows share have no column.

    ``settings``: the indices of rows that are settings of the same, see `settings_of`.
    """
    keys = [
        _texts("Name", [row.key.title for row in rows]),
        *_if_differ("Arguments", [row.arguments for row in rows]),
        *_if_differ("Flags", [row.key.flags for row in rows]),
        *_if_differ("Board", [row.key.device for row in rows]),
    ]
    shown = dict.fromkeys(name for row in rows for name in row.metrics)
    names: list[str] = [name for name in _LEADING if name in shown]
    names += [name for name in shown if name not in names]
    judged = {row.judged.metric for row in rows}
    cells = {name: [row.value(name) for row in rows] for name in names}
    if DURATION in cells:
        cells[DURATION] = _aligned(cells[DURATION])
    header = rows[0].header
    values = [Column(header(name), cells[name]) for name in names]
    last = max(names.index(name) for name in judged)  # the spread follows its own value
    columns = [
        *values[: last + 1],
        Column("Spread", [row.certainty for row in rows]),
        Column("Cold", [row.cold for row in rows]),
        *values[last + 1 :],
        Column("Stack", [row.stack for row in rows]),
        _relative(rows, settings),
        _since(rows, before),
    ]
    filled = [column for column in columns if any(column.cells)]
    spare = [header(name) for name in reversed(names) if name not in judged]
    return Table([*keys, *filled], spare=[*spare, "Stack"])


def _sweep(rows: Sequence[_Row], swept: Sequence[Sequence[int]]) -> Table:
    """Return a table with a row for each function and a column for each setting."""
    firsts = [rows[numbers[0]] for numbers in swept]
    keys = [
        _texts("Name", [row.key.title for row in firsts]),
        *_if_differ("Arguments", [row.arguments for row in firsts]),
        *_if_differ("Board", [row.key.device for row in firsts]),
        _texts("Metric", [row.header(row.judged.metric) for row in firsts]),
    ]
    relative = _relative(rows, swept)
    columns = []
    for flags in dict.fromkeys(row.key.flags for row in rows):
        places = [next((i for i in each if rows[i].key.flags == flags), None) for each in swept]
        cells = [_setting(rows, relative, place) for place in places]
        tones = ["" if place is None else relative.tones[place] for place in places]
        columns.append(Column(flags, cells, tones=tones))
    return Table([*keys, *columns])


def _setting(rows: Sequence[_Row], relative: Column, place: int | None) -> str:
    if place is None:
        return ""
    median = rows[place].value(rows[place].judged.metric)
    return f"{median} ({relative.cells[place]})" if relative.cells[place] else median


def _aligned(cells: Sequence[str]) -> list[str]:
    """Return numbers with blanks behind them, so that their points align."""
    tails = [len("".join(cell.partition(".")[1:])) for cell in cells]
    most = max(tails)
    return [cell and cell + " " * (most - tail) for cell, tail in zip(cells, tails, strict=True)]


def _texts(header: str, cells: Sequence[str]) -> Column:
    return Column(header, cells, is_text=True)


def _if_differ(header: str, cells: Sequence[str]) -> list[Column]:
    return [_texts(header, cells)] if len(set(cells)) > 1 else []


def _relative(rows: Sequence[_Row], settings: Sequence[Sequence[int]]) -> Column:
    """Return each setting's multiple of its function's and board's first; empty for one setting."""
    cells, tones = [""] * len(rows), [""] * len(rows)
    for numbers in settings:
        found = relatives([rows[i].judged for i in numbers])
        for number, each in zip(numbers, found or (), strict=False):
            cells[number], tones[number] = each.text, "good" if each.text.endswith("best") else ""
    return Column("Relative", cells, tones=tones)


def _since(rows: Sequence[_Row], before: str) -> Column:
    tones = [
        _TONES.get(row.change.verdict, "") if row.change and not row.has_same_build else ""
        for row in rows
    ]
    return Column(f"Since {before}", [row.changed for row in rows], tones=tones)


def _conclusions(rows: Sequence[_Row], settings: Sequence[Sequence[int]]) -> list[str]:
    """Say which settings are best, and which cannot be told apart; what is alike, once."""
    has_others = len({row.arguments for row in rows}) > 1
    has_boards = len({row.key.device for row in rows}) > 1
    found: dict[tuple[str, str], list[str]] = {}  # sentences, and where they hold
    for numbers in settings:
        group = [rows[i] for i in numbers]
        if sentence := _conclusion(group, is_brief=len(settings) > _FEW):
            preposition, where = _where(group, has_others=has_others, has_boards=has_boards)
            found.setdefault((sentence, preposition), []).append(where)
    lines = []
    for (sentence, preposition), places in found.items():
        is_of_all = preposition and len(places) == len(settings)
        lines.append(sentence if is_of_all else f"{preposition}{first_of(places)}: {sentence}")
    if _in_one_session([rows[i].judged for each in settings for i in each if len(each) > 1]):
        lines.append(_ONE_AFTER_ANOTHER)
    return lines


_ONE_AFTER_ANOTHER: Final = (
    "They were measured one after the other: a slow moment of the machine may have met only one."
)


def _other_moment() -> str:
    both = f"{option('--ab-rev')} HEAD measures both builds in turns"
    return f"What else the machine did may have changed, too: {both}."


_FEW: Final = 5
"""Of more settings, no sentence says by how much the best one is better."""

_ENOUGH: Final = 10
"""Samples with which a test can tell settings apart."""


def _conclusion(group: Sequence[_Row], *, is_brief: bool) -> str:
    """Say which of several settings is best; "" if that is not clear.

    ``is_brief``: there are too many settings to say of each by how much.
    """
    if lead := _too_short_to_time(group):
        return lead
    if short := [row for row in group if _is_too_short(row)]:
        rest = _conclusion([row for row in group if row not in short], is_brief=is_brief)
        are = "is" if len(short) == 1 else "are"
        lead = f"{_all_of([_name(row, group) for row in short])} {are} too short to compare."
        return f"{lead} {rest}" if rest else ""
    found = relatives([row.judged for row in group]) or []
    pairs = [*zip(group, found, strict=False)]
    best = [row for row, each in pairs if each.is_best]
    if not best and any(each.is_worse for each in found):
        least = min((row for row, _ in pairs if not row.judged.doubts), key=_rank)
        return _times(least, group) if _in_one_session([least.judged]) and not is_brief else ""
    alike = best or [row for row, _ in pairs if not row.judged.doubts]
    is_exact = all(row.judged.summary.is_exact for row in alike)
    is_tie = is_exact and len({row.judged.summary.median for row in alike}) == 1
    if len(alike) > 1 and (not is_exact or (is_tie and not is_brief)):
        names = _all_of([_name(row, group) for row in alike])
        n = alike[0].judged.summary.n
        if any(each.has_few for each in found) or (not is_exact and n < _ENOUGH):
            samples = plural(n, "sample")
            return f"{samples} cannot tell {names} apart: --repeat {_ENOUGH}."
        same = f"take the same number of {alike[0].judged.metric}"
        return f"{names} {same if is_exact else 'cannot be told apart'}."
    if len(best) != 1 or len(found) < 2:
        return ""
    [least] = best
    if is_brief:
        is_time = _is_time(least.judged.metric)
        most = "is the fastest" if is_time else f"takes the fewest {least.judged.metric}"
        return f"{_name(least, group)} {most}."
    return _times(least, group)


def _too_short_to_time(group: Sequence[_Row]) -> str:
    """Say how much faster what is too short to time is than the rest; "" if that is not clear."""
    sure = [row for row in group if not row.judged.doubts]
    short = [row for row in sure if _is_too_short(row)]
    rest = sorted((row for row in sure if not _is_too_short(row)), key=_rank)
    if not short or not rest:
        return ""
    most = max(_most(row.judged) for row in short)
    least = min(float(row.judged.summary.median) - _half(row.judged) for row in rest)
    if least <= most:
        return ""
    names = _all_of([_name(row, group) for row in short])
    times = f"at least {_two_digits_down(least / most)} times faster than {_name(rest[0], group)}"
    if len(short) == 1:
        return f"{names} is {times}."
    return f"{names} are {times}, and too short to tell them apart."


def _two_digits_down(value: float) -> str:
    """Return a number that is at most the value, with two digits or more."""
    return f"{math.floor(value):,}" if value >= 10 else f"{math.floor(value * 10) / 10:.1f}"


def _rank(row: _Row) -> tuple[bool, float]:
    return bool(row.judged.doubts), float(row.judged.summary.median)


def _times(best: _Row, group: Sequence[_Row]) -> str:
    """Say how much better the best one is than the others, the nearest first; "" if not clear."""
    metric, unit = best.judged.metric, best.unit(best.judged.metric)
    how = "faster" if _is_time(metric) else f"fewer {metric}"
    times: list[str] = []
    differences: list[str] = []
    is_vague = False
    for other in sorted((row for row in group if row is not best), key=_rank):
        found = relatives([best.judged, other.judged])
        if found is None or found[1].unclear:
            break
        than = f"than {_name(other, group)}"
        times.append(f"{found[1].text}{'' if times else f' times {how}'} {than}")
        less = f" {unit} less" if not differences else ""
        differences.append(f"{_difference(best, other)}{less} {than}")
        is_vague = is_vague or found[1].spread > _VAGUE * found[1].ratio
    texts = differences if is_vague else times
    verb = "is" if texts is times and _is_time(metric) else "takes"
    if _in_one_session([best.judged]):
        verb = "may be" if verb == "is" else "may take"
    return f"{_name(best, group)} {verb} {_all_of(texts)}." if texts else ""


def _difference(best: _Row, other: _Row) -> str:
    """Return how much more another row takes, such as ``3.6 ± 0.4``."""
    us = best.us if best.judged.metric == DURATION else 1
    more = (other.judged.summary.median - best.judged.summary.median) / us
    half = math.hypot(_uncertain(best.judged), _uncertain(other.judged)) / us
    decimals = decimals_of(more, float(f"{half:.2g}")) or 0
    return f"{more:,.{decimals}f} ± {half:,.{decimals}f}"


_VAGUE: Final = 0.5
"""A multiple that is less certain says less than a difference, which has no overhead in it."""


def _is_too_short(row: _Row) -> bool:
    return _doubt(row.judged) == _TOO_SHORT


def _is_time(metric: str) -> bool:
    return metric in (DURATION, "cycles")


def _all_of(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _are_alternatives(rows: Sequence[_Row]) -> bool:
    return len({row.key.title for row in rows}) > 1


def _name(row: _Row, group: Sequence[_Row]) -> str:
    """Return what tells an alternative function, or a setting of a function, from the others."""
    if _are_alternatives(group):
        return " ".join(filter(None, (row.key.title, row.key.flags)))
    return row.key.flags or "no flags"


def _where(group: Sequence[_Row], *, has_others: bool, has_boards: bool) -> tuple[str, str]:
    """Return what the rows of a group share, if it tells them from others, with a preposition."""
    key, arguments = group[0].key, group[0].arguments if has_others else ""
    board = f" on {key.device}" if has_boards else ""
    if not _are_alternatives(group):
        return "", f"{key.title}{f'({arguments})' if arguments else ''}{board}"
    return ("With ", f"{arguments}{board}") if arguments else ("On ", key.device)


# -- where the numbers come from --------------------------------------------------------------


def partly(report: Report, all_rows: str) -> list[str]:
    """Return a line on what `MOST_GROUPS` leaves out; ``all_rows`` names what has the rest."""
    if len(report.calls) <= MOST_GROUPS or (count := number_of_groups(report)) <= MOST_GROUPS:
        return []
    return [f"These are the first {MOST_GROUPS:,} of {count:,} measurements; {all_rows} all rows."]


def doubts(configuration: Mapping[str, Metric]) -> list[str]:
    """Return the lines on how the numbers may mislead, and on what is missing."""
    return [
        f"{name}: {cell(text, name, ',')}"
        for name, text in configuration.items()
        if name in _DOUBTS or name.endswith(_DOUBTS_OF_BOARDS)
    ]


def _without_told(lines: Sequence[str], rows: Sequence[_Row]) -> list[str]:
    """Return lines without counts that are too small, if they are not shown or said to be."""
    untold = [
        f"{name} of {row.key.title} is {_UNRESOLVED}"
        for row in rows
        for name, group in row.metrics.items()
        if _doubt(group) != _TOO_SHORT and group.summary.minimum <= 0
    ]
    kept = []
    for line in lines:
        head, _, text = line.partition(": ")
        parts = text.split("; ")
        left = [p for p in parts if _UNRESOLVED not in p or p.startswith(tuple(untold))]
        kept += [f"{head}: {'; '.join(left)}"] if left else []
    return kept


def _origin(report: Report, rows: Sequence[_Row], name: str, others: str) -> str:
    """Return a line with the number of samples, the boards and clocks, and what is not shown."""
    configuration = report.configuration
    devices = dict.fromkeys(row.key.device for row in rows)
    boards = ", ".join(f"{device}{_clock(configuration, device)}" for device in devices)
    place = f" on {boards}" if boards else ""
    one = one_of(row.key.label for row in rows)
    what = "Median" if len(rows) == 1 else f"Medians per {one}"
    varying = [row.judged for row in rows if row.certainty.startswith("±")]
    by_overhead = {each.overhead.doubt > _own_half(each) for each in varying}
    if by_overhead == {True}:
        what += " ± the overhead's uncertainty"
    elif by_overhead:
        what += " ± half the interquartile range"
        if True in by_overhead:
            what += ", or the overhead's uncertainty if it is more,"
    numbers = [row.judged.summary.n for row in rows]
    least, most = min(numbers), max(numbers)
    samples = f" of {f'{least:,} to ' if least < most else ''}{plural(most, 'sample')}"
    record = report.record
    each_has = sorted({each.number or 1 for each in record.measurements}) if record else []
    if each_has[-1:] > [1]:
        fewest = f"{each_has[0]:,} to " if len(each_has) > 1 else ""
        samples += f" of {fewest}{each_has[-1]:,} calls"
    samples += _range(rows[0]) if len(rows) == 1 else ""
    if one == "pass" and most == 1:  # statistics: one sample of all passes
        what, samples = "Means per pass", ""
    warmup = configuration.get("Warm-up")
    times = "" if warmup is None else cell(warmup, "", ",")
    calls = f" after {times} warm-up call{'s' * (times != '1')}" if times else ""
    hidden = {name for row in rows for name in {*row.all} - {*row.metrics} - _BESIDE - _USUAL}
    more = f"; {plural(len(hidden), 'more metric')} {others}" if hidden else ""
    kept = f"; kept as {name}" if name else ""
    return f"{what}{samples}{calls}{place}{more}{kept}."


def _range(row: _Row) -> str:
    """Return the least and the greatest sample; "" if all are equal."""
    group = row.judged
    least, most = group.summary.minimum, group.summary.maximum
    if least == most or row.certainty == _TOO_SHORT:
        return ""
    decimals = None if least == int(least) and most == int(most) else row.decimals(group)
    ends = " to ".join(row.text(end, group, decimals) for end in (least, most))
    return f" ({ends} {row.unit(group.metric)})"


def _clock(configuration: Mapping[str, Metric], device: str) -> str:
    line = configuration.get(f"{device} clock")
    is_simulated = isinstance(line, str) and line.startswith("simulated")
    return " (simulated clock: no time)" if is_simulated else ""
