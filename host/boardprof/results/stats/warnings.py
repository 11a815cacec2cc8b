# SPDX-License-Identifier: Apache-2.0
"""Warnings about unreliable samples of a Report, and what to do about them."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, TypeGuard

from boardprof.results.report.calls import DURATION, LEVELS, SHARES, one_of
from boardprof.results.report.report import Report
from boardprof.results.row_origins import GroupKey
from boardprof.results.stats.groups import GroupSummary, summaries
from boardprof.results.stats.summary import (
    FEWEST_SAMPLES,
    far_from_the_others,
    percentile,
    rank_correlation,
    smallest_p,
)

Kind: TypeAlias = Literal[
    "few", "warm-up", "drift", "bimodal", "apart", "grain", "overhead", "noise", "outliers"
]

_MAIN = (DURATION, "cycles", "instructions", "ticks")
"""The metric by which a group is judged: the first of these, else the group's first column."""

_RELEVANT = 0.01
_RELEVANT_IF_BUSY = 0.05
"""Effects below this share of the median are ignored; the latter if other programs may run."""

_LARGE_CV = 0.2
_LARGE_GRAIN = 0.05
_LEAST_FOR_SHAPE = 10
"""With fewer samples a shape means nothing: three samples rise by chance in one of six runs."""

_STANDS_OUT = 10.0
"""Standard deviations of the others beyond which a sample is worth a warning.

With 5 to 100 samples of plain noise, one report in a hundred has such a sample if the noise is
normal, and one in twenty if it is exponential. With the 3.5 by which `Summary` finds outliers, it
would be one in seven, and almost every report.
"""

_RARE = 0.1
"""Up to this share of outliers is usual beside other programs, and does not move a median."""

_DRIFT_P = 0.001
"""This is tested in every run, so false alarms must be rare: they occur in one of 500 runs."""

_NEARLY_1 = 1 - 1e-12  # the transform of 1 is infinite

_LEAST_SHARE = 0.2
_LEAST_SAMPLES = 3
_LEAST_GAP = 2
_LEAST_GAP_APART = 4
"""Least ratio of the gap to the spread of most samples.

With ten exponentially distributed samples, one run in 140 has such a gap below its largest.
"""

_FEWEST_NOT_EQUAL = 10


@dataclass(frozen=True)
class Warning_:
    """One warning."""

    kind: Kind  #: what it is
    key: GroupKey  #: the group of rows
    metric: str  #: the column
    text: str  #: what was seen, in one sentence
    hint: str  #: what to do, in one sentence
    has_others: bool = False  #: other groups differ from this one only in their arguments

    def __str__(self) -> str:
        """Return the subject and both sentences."""
        flags = f", {self.key.flags}" if self.key.flags else ""
        what = "Time" if self.metric == DURATION else self.metric
        where = f"{what} of {self.name} on {self.key.device}{flags}"
        return f"{where}: {self.text} {self.hint}"

    @property
    def name(self) -> str:
        """The function, with its arguments if they tell it from others."""
        return f"{self.key.title}({self.key.shapes})" if self.has_others else self.key.title


def warnings(report: Report) -> list[Warning_]:
    """Return warnings about unreliable samples of a Report; exact and doubtful ones have none.

    Each group is judged by its main metric, which is time if measured: what disturbs one counter
    disturbs the others.
    """
    return warnings_of(summaries(report))


def warnings_of(groups: Sequence[GroupSummary]) -> list[Warning_]:
    """Return the warnings from a Report's `summaries`."""
    found: list[Warning_] = []
    judged = main_metrics(groups)
    seen = Counter(replace(group.key, shapes="") for group in judged)
    for group in judged:
        if group.doubts:  # the answer names them, and the spread of wrong numbers says nothing
            continue
        has_others = seen[replace(group.key, shapes="")] > 1
        of_group = [
            Warning_(kind, group.key, group.metric, text, hint, has_others)
            for kind, judge in _JUDGES.items()
            for text, hint in _told(kind, group, judge(group))
        ]
        # Samples that are too short look noisy, too, and longer ones help against all of it.
        short = [each for kind in _SHORT for each in of_group if each.kind == kind]
        few = [each for each in of_group if each.kind == "few"]
        kinds = {each.kind for each in of_group}
        hidden = {"apart", "outliers"} if "noise" in kinds else set()  # of a busy machine, once
        hidden |= {"noise"} if "drift" in kinds else set()
        of_group = [each for each in of_group if each.kind not in hidden]
        found += [*few, *short[:1]] if short else of_group
    return found


def _told(kind: Kind, group: GroupSummary, found: _Doubts) -> _Doubts:
    """Yield warnings; those of ranges have hints of their own. Nobody warms up what runs anyway."""
    if one_of([group.key.label]) == "call":
        yield from found
    elif kind != "warm-up":
        for text, _ in found:
            yield text.replace(": interrupts?", "."), _HINTS_IN_PLACE[kind]


def warnings_by_hint(groups: Sequence[GroupSummary]) -> dict[str, list[Warning_]]:
    """Return the warnings from a Report's `summaries`, by what helps against them."""
    found: dict[str, list[Warning_]] = {}
    for each in warnings_of(groups):
        found.setdefault(each.hint, []).append(each)
    return found


def main_metrics(groups: Sequence[GroupSummary]) -> list[GroupSummary]:
    """Return the metric by which each group is judged; groups with an exact count need none."""
    by_key: dict[GroupKey, dict[str, GroupSummary]] = {}
    for group in groups:
        if group.metric not in LEVELS | SHARES:
            by_key.setdefault(group.key, {})[group.metric] = group
    chosen = []
    for metrics in by_key.values():
        if not any(group.summary.is_exact for group in metrics.values()):
            names = [name for name in (*_MAIN, *metrics) if name in metrics]
            chosen += [metrics[name] for name in names[:1]]
    return chosen


_Doubts: TypeAlias = Iterator[tuple[str, str]]


def _few(group: GroupSummary) -> _Doubts:
    n = group.summary.n
    if n < FEWEST_SAMPLES:
        yield (
            "one sample tells nothing of how much it varies."
            if n == 1
            else f"{n} samples are too few: with this many in each of two runs, the rank test "
            f"cannot give a p below {smallest_p(n, n):.2g}.",
            "Take at least 10: --repeat 10.",
        )


def _slow_first(group: GroupSummary) -> _Doubts:
    apart = _apart(group)
    if _first_is_slow(group) and (apart is None or 0 not in apart.indices):
        first = _figure(group, float(group.values[0]))
        rest = _figure(group, statistics.median(map(float, group.values[1:])))
        other = "another program ran, or " if _shares_its_cpu(group) else ""
        yield (
            f"the first sample, {first}, is far above the others, {rest}: {other}the warm-up was "
            "too short.",
            "Warm up longer: --warmup 100.",
        )


def _first_is_slow(group: GroupSummary) -> bool:
    if group.summary.n < FEWEST_SAMPLES or group.sessions > 1:  # each session has a warm-up
        return False
    first, *rest = map(float, group.values)
    middle = statistics.median(rest)
    scale = statistics.median(abs(value - middle) for value in rest) / 0.6745
    far = _STANDS_OUT * scale + 2 * float(group.grain) + _relevant(group) * abs(middle)
    return first == group.summary.maximum and first - middle > far


def _drift(group: GroupSummary) -> _Doubts:
    n = group.summary.n
    if n < _LEAST_FOR_SHAPE:
        return
    # Spearman's coefficient of independent samples, transformed as Fisher did, is near normal with
    # variance 1.06 / (n - 3) (Fieller, Hartley and Pearson, 1957).
    correlation = min(abs(rank_correlation(group.values)), _NEARLY_1)
    p = math.erfc(math.atanh(correlation) * math.sqrt((n - 3) / 2.12))
    third = n // 3
    begin, end = _median(group.values[:third]), _median(group.values[-third:])
    if p < _DRIFT_P and _matters(group, end - begin):
        way = "rise" if end > begin else "fall"
        why, warm = "the board did not stay in one state", "Warm up longer: --warmup 100. "
        if group.sessions > 1:  # each has more warm-up calls than the one before
            why, warm = f"{why}, or calls cost more after more calls", ""
            why = why if end > begin else why.replace("more after", "less after")
        yield (
            f"the samples {way} over the run, from {_figure(group, begin)} to "
            f"{_figure(group, end)}: {why}.",
            f"{warm}Check whether the data grows or the clock is throttled.",
        )


def modes_of(group: GroupSummary) -> tuple[Mode, Mode] | None:
    """Return the two groups of the samples; None if there is one group, or too few samples."""
    modes = two_modes(group.values) if group.summary.n >= _LEAST_FOR_SHAPE else None
    if modes is None or not _matters(group, modes[1].middle - modes[0].middle):
        return None
    return modes


def _bimodal(group: GroupSummary) -> _Doubts:
    if (modes := modes_of(group)) is not None:
        low, high = modes
        what = "an interrupt (try --mask-interrupts), a cache or flash line"
        if _shares_its_cpu(group):
            what = "another program, the speed of the CPU"
        yield (
            f"the samples fall into two groups, {low.n} near {_figure(group, low.middle)} and "
            f"{high.n} near {_figure(group, high.middle)}: their median says little.",
            f"Look for what alternates: {what}, data that differs from call to call.",
        )


def _stand_apart(group: GroupSummary) -> _Doubts:
    if (apart := _apart(group)) is None:
        return
    if _shares_its_cpu(group) and len(apart.indices) <= _RARE * group.summary.n:
        return
    n, difference = len(apart.indices), apart.middle - apart.most
    size = _figure(group, abs(difference))
    if group.metric != DURATION:
        unit = group.metric.removesuffix("s") if abs(difference) == 1 else group.metric
        size += " us" if unit.endswith("(us)") else f" {unit}"
    yield (
        f"{n} of {group.summary.n} samples {'is' if n == 1 else 'are'} {size} "
        f"{'longer' if difference > 0 else 'shorter'} than the others, which take "
        f"{_figure(group, apart.most)}{'.' if _shares_its_cpu(group) else ': interrupts?'}",
        _hint_if_busy(group)
        if _shares_its_cpu(group)
        else "Try --mask-interrupts if the board can mask them. docs/interrupts.md lists other "
        "causes.",
    )


def _hint_if_busy(group: GroupSummary) -> str:
    if group.summary.n >= _MANY:
        return "Stop other programs. More samples would vary as much."
    return f"Stop other programs, or take more samples: --repeat {_MANY}."


_MANY = 100


def _shares_its_cpu(group: GroupSummary) -> bool:
    """Tell whether other programs may disturb the samples: there, nothing masks interrupts."""
    return group.clock_kind == "measured"


def _apart(group: GroupSummary) -> Apart | None:
    """Return the samples that are far from most others, unless another warning covers them."""
    n, median = group.summary.n, abs(float(group.summary.median))
    if n < FEWEST_SAMPLES or any(_bimodal(group)):
        return None
    apart = samples_apart(group.values, max(2 * float(group.grain), _relevant(group) * median))
    if apart is None or (apart.indices == (0,) and _first_is_slow(group)):
        return None
    if len(apart.indices) > 1 or n < _LEAST_FOR_SHAPE:
        return apart
    return None if apart.indices == far_from_the_others(group.values, _STANDS_OUT) else apart


def _coarse(group: GroupSummary) -> _Doubts:
    step, median = float(group.grain), abs(group.summary.median)
    if step > 0 and step > _LARGE_GRAIN * median:
        many = _more_calls("grain", group)
        share = "more than the median"
        if median:
            percent = 100 * step / median
            share = f"{percent:{',.0f' if percent >= 10 else '.2g'}} % of the median"
        yield (
            f"one step of its clock, {_figure(group, step)}, is {share}.",
            _as_given(many)
            if group.writes_arrays
            else f"Make the samples longer: --number {many}.",
        )


def _slight(group: GroupSummary) -> _Doubts:
    taken, median = float(group.overhead.taken), float(group.summary.median)
    many = _more_calls("overhead", group)
    if many > MOST_CALLS:
        hint = (
            "A longer sample does not help. Measure it in a loop, or count instructions with an "
            "emulated board, see `boardprof boards`."
        )
    elif group.writes_arrays:
        hint = _as_given(many)
    else:
        hint = f"Make the samples longer: --number {many}. Or count instructions where you can."
    unit = " us" if group.metric.endswith("(us)") and group.metric != DURATION else ""
    rest = f"the {_figure(group, median)}{unit} that remain" if median > 0 else "what remains"
    if group.overhead.doubt > median:
        yield (
            f"the measurement overhead is {_figure(group, taken)}{unit} per "
            f"{one_of([group.key.label])}, more than {rest} after it is subtracted.",
            hint,
        )


def _as_given(many: int) -> str:
    """Return what to try if more calls in a sample may be another measurement."""
    return (
        f"Use longer data, or count instructions where you can. Or --number {many}, if it does not "
        "matter that later calls of a sample find the arrays as earlier ones have left them. If an "
        "array is only written, give it as :out."
    )


MOST_CALLS = 10_000
"""More calls in a sample do not help: what is still too short is shorter than their loop's step."""

_STEPS_TO_READ = 3
"""An operating system's clock advances about three steps while it is read."""

_LONGER: dict[Kind, int] = {"grain": 100, "overhead": 1000}
"""The least number of calls that makes a sample longer."""


def _more_calls(kind: Kind, group: GroupSummary) -> int:
    """Return how many calls to try in a sample; how many it has, a clock's step tells."""
    now = round(group.cold_grain / group.grain) if group.grain else 1
    return max(_LONGER[kind], 10 * now)


def calls_needed(report: Report) -> int:
    """Return how many calls to try in a sample, if they are too short to time; 0 if they are not.

    Also 0 for what is not judged by its time.
    """
    for group in main_metrics(summaries(report)):
        if group.metric != DURATION or group.doubts:
            continue
        if any(_slight(group)):
            return _more_calls("overhead", group)
        if _step(group) > _RELEVANT * abs(group.summary.median):
            return _more_calls("grain", group)
    return 0


def _noisy(group: GroupSummary) -> _Doubts:
    if not _shares_its_cpu(group) or not _is_large(group.summary.cv) or group.summary.n < 2:
        return
    # What a few samples explain has a warning of its own.
    apart = _apart(group)
    few = {*far_from_the_others(group.values, _STANDS_OUT), *(apart.indices if apart else ())}
    rest = [float(each) for i, each in enumerate(group.values) if i not in few]
    mean = abs(statistics.fmean(rest))
    cv = statistics.stdev(rest) / mean if mean and len(rest) > 1 else None
    if _is_large(cv) and modes_of(group) is None:
        yield (
            f"the samples vary by {100 * cv:.3g} % of their mean: other programs use this machine, "
            "or the calls do not do the same work.",
            _hint_if_busy(group),
        )


def _is_large(cv: float | None) -> TypeGuard[float]:
    return cv is not None and cv > _LARGE_CV


def _outlying(group: GroupSummary) -> _Doubts:
    far = far_from_the_others(group.values, _STANDS_OUT)
    median = group.summary.median
    found = [
        i
        for i in far
        if (i > 0 or not _first_is_slow(group)) and _matters(group, float(group.values[i]) - median)
    ]
    is_rare = _shares_its_cpu(group) and len(found) <= _RARE * group.summary.n
    if group.summary.n < _LEAST_FOR_SHAPE or not found or is_rare:
        return
    if any(_bimodal(group)) or _apart(group) is not None:
        return  # of two groups, the smaller one is not an outlier
    shown = ", ".join(f"#{i}: {_figure(group, float(group.values[i]))}" for i in found[:5])
    more = ", ..." if len(found) > 5 else ""
    yield (
        f"{len(found)} of {group.summary.n} samples "
        f"{'is an outlier' if len(found) == 1 else 'are outliers'} ({shown}{more}; the median is "
        f"{_figure(group, median)}).",
        _hint_if_busy(group)
        if _shares_its_cpu(group)
        else "Compare medians, not means. Interrupts may have disturbed the samples: try "
        "--mask-interrupts if the board can mask them.",
    )


_HINTS_IN_PLACE: dict[Kind, str] = {
    "few": "Record events for longer: statistics have one mean of all passes.",
    "drift": "Check whether the data grows or the clock is throttled.",
    "bimodal": (
        "Look for what alternates: an interrupt without BP_ISR_ENTER, a cache or flash line, data "
        "that differs from pass to pass."
    ),
    "apart": (
        "See on the timeline what these passes contain: another range, other data, or an interrupt "
        "whose handler has no BP_ISR_ENTER. docs/interrupts.md lists other causes."
    ),
    "grain": "Put the range around more code, or choose a faster clock with BP_CFG_TRACE_CLOCK.",
    "overhead": "Put the range around more code.",
    "noise": "Stop other programs. Record for longer. Count instructions where you can.",
    "outliers": (
        "Compare medians, not means. Other programs, or interrupts without BP_ISR_ENTER, may have "
        "disturbed the passes."
    ),
}

_SHORT: tuple[Kind, ...] = ("overhead", "grain")
"""What samples have that are too short, the worst first."""

_JUDGES: dict[Kind, Callable[[GroupSummary], _Doubts]] = {
    "few": _few,
    "warm-up": _slow_first,
    "drift": _drift,
    "bimodal": _bimodal,
    "apart": _stand_apart,
    "grain": _coarse,
    "overhead": _slight,
    "noise": _noisy,
    "outliers": _outlying,
}


def _matters(group: GroupSummary, difference: float) -> bool:
    """Tell whether a difference is more than the clock's steps, and large enough to matter."""
    size = abs(difference)
    return size > 2 * _step(group) and size > _relevant(group) * abs(group.summary.median)


def _step(group: GroupSummary) -> float:
    """Return one step of the clock per call, also if the samples do not show it."""
    step = float(group.grain)
    if step != group.cold_grain or not _shares_its_cpu(group):
        return step
    # Of one call: its overhead is the reading of the clock.
    return max(step, float(group.overhead.taken) / _STEPS_TO_READ)


def _relevant(group: GroupSummary) -> float:
    return _RELEVANT_IF_BUSY if _shares_its_cpu(group) else _RELEVANT


def _figure(group: GroupSummary, value: int | float) -> str:
    """Return a number with four digits, or with all that are before its point; a time in a unit."""
    unit = ""
    if group.metric == DURATION:
        us = next((us for us in _UNITS if abs(value) >= us), 0.001)
        unit, value = f" {_UNITS.get(us, 'ns')}", value / us
    return f"{value:,.0f}{unit}" if abs(value) >= 10_000 else f"{value:,.4g}{unit}"


_UNITS: dict[float, str] = {1_000_000: "s", 1000: "ms", 1: "us"}
"""The units of time by their microseconds; shorter times are in ns."""


def _median(values: Sequence[int | float]) -> float:
    return statistics.median(map(float, values))


# -- groups of samples -------------------------------------------------------------------------


@dataclass(frozen=True)
class Mode:
    """One of two groups: its number of samples, and their median."""

    n: int
    middle: float


@dataclass(frozen=True)
class Apart:
    """Samples that are far from most others."""

    indices: tuple[int, ...]  # of these samples, in run order
    most: float  # the median of the others
    middle: float  # their own median


def samples_apart(values: Sequence[int | float], least_gap: float) -> Apart | None:
    """Return the samples that are clearly apart from most others; None if there are none.

    Most are more than half. They are alike if the gap to the nearest other sample is more than four
    times their spread. Fewer than ten samples must be equal. An interrupt makes such a gap, whether
    in one sample of a hundred or in every third.
    """
    rising = sorted(range(len(values)), key=values.__getitem__)
    for order in (rising, rising[::-1]):
        ordered = [float(values[i]) for i in order]
        for cut in range(len(ordered) // 2 + 1, len(ordered)):
            gap = abs(ordered[cut] - ordered[cut - 1])
            spread = abs(ordered[cut - 1] - ordered[0])
            if len(ordered) < _FEWEST_NOT_EQUAL and spread > 0:
                break
            if gap > max(least_gap, _LEAST_GAP_APART * spread):
                most, rest = sorted(ordered[:cut]), sorted(ordered[cut:])
                indices = tuple(sorted(order[cut:]))
                return Apart(indices, percentile(most, 50), percentile(rest, 50))
    return None


def two_modes(values: Sequence[int | float]) -> tuple[Mode, Mode] | None:
    """Return the lower and the upper group of samples; None if they are not two groups.

    They are split where the variance between the two is largest (Otsu's threshold). Each group
    needs a fifth of the samples, and at least three. The gap must be twice as wide as either group
    without its outermost tenths. With ten evenly spread samples, one run in thirty looks like this.
    """
    ordered = sorted(map(float, values))
    cut = _best_cut(ordered)
    low, high = ordered[:cut], ordered[cut:]
    least = max(_LEAST_SAMPLES, _LEAST_SHARE * len(ordered))
    if min(len(low), len(high)) < least:
        return None
    gap = percentile(high, 10) - percentile(low, 90)
    if gap <= _LEAST_GAP * max(percentile(part, 90) - percentile(part, 10) for part in (low, high)):
        return None
    return Mode(len(low), percentile(low, 50)), Mode(len(high), percentile(high, 50))


def _best_cut(ordered: Sequence[float]) -> int:
    """Return the number of values below the cut with the largest variance between both sides."""
    n, total, below = len(ordered), sum(ordered), 0.0
    best, cut = -1.0, 0
    for i in range(1, n):
        below += ordered[i - 1]
        between = i * (n - i) * (below / i - (total - below) / (n - i)) ** 2
        if between > best and ordered[i] != ordered[i - 1]:
            best, cut = between, i
    return cut
