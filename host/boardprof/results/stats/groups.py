# SPDX-License-Identifier: Apache-2.0
"""Samples of a Report per call, by function, shapes, flags, device and metric."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from boardprof.base.errors import UnknownNameError
from boardprof.base.metrics import (
    Count,
    Duration,
    Kind,
    Metric,
    Percent,
    Ratio,
    digits,
    metric_called,
)
from boardprof.results.record import LIMIT, NO_RECORD, Finding
from boardprof.results.report.calls import (
    ENERGY,
    IN_PLACE_MEAN,
    LABEL,
    LARGE,
    LEVELS,
    NEVER_EXACT,
    SHARES,
    Column,
    Groups,
)
from boardprof.results.report.report import Report
from boardprof.results.row_origins import NOTHING, GroupKey, Origin, Overhead, RowOrigins
from boardprof.results.stats.summary import Summary, are_finite, is_finite, summarize

_CALLS = "Count"
_KEYS = ("Name", "Argument Shapes", "Flags", "Device", "Hash", LABEL)


@dataclass(frozen=True)
class GroupSummary:
    """One metric of one group."""

    key: GroupKey  #: the group
    metric: str  #: column name
    kind: Kind  #: of the column: Count, Duration, Percent or Ratio
    summary: Summary  #: of ``values``
    #: per call, in run order. Of many samples, it need not be a tuple.
    values: Sequence[int | float]
    #: one step of its clock per call, in the metric's unit; 0 if it is not a clock
    grain: float = 0.0
    #: the same code gives the same samples in each run, in the same order
    is_deterministic: bool = False
    is_stepped: bool = False  #: likewise, except for steps of the clock that it is read from
    is_emulated: bool | None = None  #: the board is an emulator or a simulator; None if not known
    clock_kind: str = ""  #: of the board; "" if not known
    board: str = ""  #: the board's name, even if ``key.device`` is a part of it
    #: rate of the clock whose steps the metric counts; None for other metrics, or if not known
    hz: int | None = None
    cold_grain: float = 0.0  #: one step of the clock in ``summary.first``, which is of one call
    #: the measurement overhead per call; zero if it is not known, or if the metric is not a
    #: time
    overhead: Overhead = NOTHING
    #: if two runs have the same course other than (), their n-th values were counted in the
    #: same calls
    course: tuple[int, ...] = ()
    inputs: str = ""  #: CRC-32 of what the calls found in their arrays; "" if not known
    doubts: tuple[str, ...] = ()  #: why the numbers may be wrong; () if nothing was found
    writes_arrays: bool = False  #: the calls write to their arrays
    sessions: int = 1  #: how many the samples come from, one after the other
    meter: str = ""  #: what measured an energy; "" if not known


@dataclass(frozen=True)
class LeftOut:
    """Samples that `summaries` leaves out."""

    key: GroupKey | None  #: the group; None for the whole Report
    metric: str  #: column name
    why: str  #: the reason, as a part of a sentence


def summaries(
    report: Report, *, without: Collection[str] = (), most: int | None = None
) -> list[GroupSummary]:
    """Return a Summary for each group of rows and each of its numeric columns.

    Values are per call: the sample's value divided by its ``Count``. Levels and rates (Percent,
    Ratio) are not divided. Samples without the value or a positive ``Count``, infinities and NaN
    are left out. So are columns with mixed kinds of metric: see `left_out`.

    Args:
        report: the rows.
        without: columns that are not needed.
        most: number of groups, the first ones; None for all.
    """
    origins, calls, groups = RowOrigins(report), report.calls, keyed_groups(report)
    groups = groups if most is None else groups.first(most)
    origin_of = [origins.origin(key) for key in groups.keys]
    found: list[list[GroupSummary]] = [[] for _ in groups.keys]
    for metric in calls.names:
        column = calls.column(metric)
        if metric in (_CALLS, *without) or column.kind not in (Count, Duration, Percent, Ratio):
            continue
        for place, part in enumerate(_parts(groups, metric, column, calls.column(_CALLS))):
            if len(part[0]):
                key, origin = groups.keys[place], origin_of[place]
                found[place].append(_summary(key, metric, column.kind, *part, origin))
    return [summary for group in found for summary in group]


def keyed_groups(report: Report) -> Groups[GroupKey]:
    """Return the groups of rows that `summaries` finds."""
    groups = report.calls.group_by(*_KEYS)
    keys = (GroupKey(*map(_text, key)) for key in groups.keys)
    return Groups(tuple(keys), groups.order, groups.bounds)


def number_of_groups(report: Report) -> int:
    """Return how many groups of rows `summaries` finds."""
    return len(report.calls.group_by(*_KEYS))


def calls_of(report: Report) -> dict[GroupKey, int]:
    """Return the total number of calls in each group; rows without a number count as 1."""
    groups = keyed_groups(report)
    each = report.calls.column(_CALLS).filled(Count(1))
    counts = [count.value if isinstance(count, Count) else 0 for count in each]
    pairs = zip(groups.keys, groups.rows, strict=True)
    return {key: sum(counts[row] for row in rows) for key, rows in pairs}


def left_out(report: Report) -> list[LeftOut]:
    """Return which samples have no statistics.

    They are not finite, are of mixed kinds, or have no number of calls above 0.
    """
    calls, found = report.calls, []
    counts = calls.column(_CALLS)
    is_counted = counts.kind is Count and counts.rows is None and min(counts.given, default=1) > 0
    for metric in calls.names:
        column = calls.column(metric)
        if metric in (*_KEYS, _CALLS):
            continue
        if column.kind is None:
            kinds = sorted({type(value).__name__ for value in column.given})
            found.append(LeftOut(None, metric, f"it is {' and '.join(kinds)} in one Report"))
        if column.kind in (Count, Duration, Percent, Ratio) and not are_finite(column.given):
            groups = keyed_groups(report)
            for key, (values,) in zip(groups.keys, groups.split(column), strict=True):
                if lost := [value for value in values if not is_finite(value)]:
                    verb = "is" if len(lost) == 1 else "are"
                    is_number = all(type(value) is int or math.isfinite(value) for value in lost)
                    what = "too large for statistics" if is_number else "infinite or not a number"
                    why = f"{len(lost)} of {len(values)} samples {verb} {what}"
                    found.append(LeftOut(key, metric, why))
        if column.kind in (Count, Duration) and metric not in LEVELS and not is_counted:
            found += _uncounted(keyed_groups(report), metric, column, counts)
    return found


def _uncounted(
    groups: Groups[GroupKey], metric: str, column: Column, calls: Column
) -> Iterator[LeftOut]:
    """Yield the groups with samples that have no number of calls, and so no value per call."""
    each = zip(groups.keys, groups.split(column), groups.split(column, calls), strict=True)
    for key, (values,), (_, numbers) in each:
        lost = len(values) - sum(map(_is_number_of_calls, numbers))
        if lost:
            which = f"{lost} of {len(values)} samples {'has' if lost == 1 else 'have'}"
            why = f"{which} no Count above 0, and so no value per call"
            yield LeftOut(key, metric, why)


def _is_number_of_calls(number: object) -> bool:
    return type(number) is int and number > 0


def _parts(
    groups: Groups[Any], metric: str, column: Column, calls: Column
) -> Iterator[tuple[Sequence[int | float], int]]:
    """Yield each group's values per call, and the largest number of calls in a sample."""
    if metric in LEVELS or column.kind in (Percent, Ratio):
        for (values,) in groups.split(column):
            yield (values if are_finite(values) else [*filter(is_finite, values)]), 1
        return
    for values, numbers in groups.split(column, calls):
        # Convert each number once: most of a hundred thousand samples are equal.
        if not (are_finite(values) and all(map(_is_number_of_calls, {*numbers}))):
            values, numbers = _countable(values, numbers)
        most = max({*numbers}, default=1)
        yield (list(map(_per_call, values, numbers)) if most > 1 else values), most


def _countable(values: Sequence[Any], numbers: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return the samples that have a value per call, and their numbers of calls."""
    pairs = zip(values, numbers, strict=True)
    usable = [each for each in pairs if _is_number_of_calls(each[1]) and is_finite(each[0])]
    return [value for value, _ in usable], [number for _, number in usable]


def _per_call(size: int | float, number: int) -> int | float:
    return size / number if isinstance(size, float) or size % number else size // number


def _text(metric: Metric) -> str:
    return metric if isinstance(metric, str) else repr(metric)


def _summary(
    key: GroupKey,
    metric: str,
    kind: Kind,
    values: Sequence[int | float],
    most_calls: int,
    origin: Origin,
) -> GroupSummary:
    step = origin.grain(metric)
    grain = step / most_calls
    is_without_chance = origin.is_emulated is True and metric not in NEVER_EXACT
    is_without_chance = is_without_chance and key.label != IN_PLACE_MEAN
    # A level is measured once and repeated in each row, so it has no noise.
    is_exact = metric in LEVELS or (is_without_chance and grain == 0)
    is_counted, energy = origin.is_counted(metric), origin.measurement.energy
    return GroupSummary(
        key=key,
        metric=metric,
        kind=kind,
        summary=summarize(values, first=origin.cold.get(metric), is_exact=is_exact),
        values=tuple(values) if len(values) < LARGE else values,
        grain=grain,
        is_deterministic=is_without_chance and is_counted and grain == 0,
        is_stepped=is_without_chance and is_counted and grain > 0,
        is_emulated=origin.is_emulated,
        clock_kind=origin.clock_kind,
        board=origin.board or key.device,
        hz=origin.hz(metric),
        cold_grain=step,
        overhead=origin.overhead(metric) * (1 / most_calls),
        course=origin.course if is_counted else (),
        inputs=origin.inputs,
        doubts=origin.doubts,
        writes_arrays=bool(origin.measurement.outputs),
        sessions=origin.sessions,
        meter=energy.meter if metric == ENERGY and energy is not None else "",
    )


def metrics_of_gates(groups: Sequence[GroupSummary]) -> list[GroupSummary]:
    """Return the metrics that gates need, and that baselines have.

    On emulators, those of a clock with steps are left out if the board also has an exact count.
    """
    counts = (each for each in groups if each.metric not in NEVER_EXACT | LEVELS and not each.grain)
    exact = {each.board for each in counts if each.is_emulated}
    return [
        each
        for each in groups
        if each.metric not in SHARES
        and (each.metric in LEVELS or each.board not in exact or not each.grain)
    ]


# -- limits -------------------------------------------------------------------------------------


def over_limits(
    groups: Sequence[GroupSummary], limits: Mapping[str, float], title: str = ""
) -> Iterator[tuple[GroupSummary, str]]:
    """Yield each group whose median is above its metric's limit, and a text.

    ``title`` is what to call the groups instead of their functions. Raises an UnknownNameError if a
    limit is for a metric that no group has.
    """
    counted = [each.metric for each in groups]
    named: dict[str, float] = {}
    for asked, limit in limits.items():
        name = metric_called(asked, counted)
        if name is None:
            raise UnknownNameError("metric", asked, counted)
        named[name] = limit
    for each in groups:
        limit, median = named.get(each.metric, math.inf), each.summary.median
        if median > limit:
            what = f"{title or each.key.name} on {each.key.device}: {each.metric} is "
            how = f"{_number(median)} per call (median of {each.summary.n})"
            yield each, f"{what}{how}, above its limit of {_number(limit)}"


def with_limits(
    report: Report, over: Iterable[tuple[GroupSummary, str]], unchecked: Sequence[str] = ()
) -> Report:
    """Return a Report that says what is above a limit: in its configuration and its findings.

    ``unchecked`` are the boards on which no limit was checked.
    """
    texts = [*over]
    if not texts and not unchecked:
        return report
    record = report.record or NO_RECORD
    measurements = [*record.measurements]
    for group, text in texts:
        key = group.key
        place = key.name, key.shapes, key.label, group.board
        for i, each in enumerate(measurements):
            own = each.name, each.arguments, each.label, each.device
            if own == place and key.flags in ("", each.flags):
                found = Finding(f"{LIMIT} {group.metric}", text)
                measurements[i] = replace(each, findings=(*each.findings, found))
    line = {"ABOVE ITS LIMIT": "; ".join(text for _, text in texts)} if texts else {}
    if unchecked:
        line["limits"] = f"not checked on {', '.join(unchecked)}, which the benchmarks do not name"
    return Report(
        report.calls,
        report.device_metrics,
        {**report.configuration, **line},
        record=replace(record, measurements=tuple(measurements)),
    )


def _number(value: int | float) -> str:
    return digits(value, ",") if isinstance(value, int) else f"{value:,.6g}"
