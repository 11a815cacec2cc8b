# SPDX-License-Identifier: Apache-2.0
"""Grouping, merging, summing and sorting of rows; all in linear or n log n time."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Final

from boardprof.metrics import Count, Duration, Metric, Percent, Ratio
from boardprof.report.report import Row

__all__ = ["LEVELS", "SORT_COLUMNS", "group_rows", "largest_first", "merge_rows", "per_call_median"]
__all__ += ["sort_order", "sum_columns"]

SORT_COLUMNS: Final = ("Duration (us)", "instructions", "ticks")
"""What rows are sorted by, and what one number stands for a row: the first that there is."""


SHARE: Final = "Percent"
"""The column that has each row's share of its device's total: the one Percent that adds up."""


LEVELS: Final = frozenset(["Stack (bytes)"])
"""Columns that say how high something stood, not how often: the largest counts, nothing adds up."""


def group_rows(rows: Iterable[Row]) -> list[list[Row]]:
    """Group rows of equal name, argument shapes, flags and device, in first-seen order.

    A ``Hash``, where a row has one, takes the place of the name. ``Flags`` are ours: in TVM's
    Reports there are none.
    """
    groups: dict[tuple[Metric, ...], list[Row]] = {}
    for row in rows:
        name = row.get("Hash", row.get("Name", ""))
        keys = ("Argument Shapes", "Flags", "Device")
        key = (name, *(row.get(column, "") for column in keys))
        groups.setdefault(key, []).append(row)
    return list(groups.values())


def merge_rows(rows: Sequence[Row]) -> Row:
    """Merge rows into one, column by column; a column counts where it is present.

    Count, Duration and the share of the device's total are summed, of `LEVELS` the largest is
    taken, Ratio and other Percents are averaged without weights, a string is kept if it is the
    same everywhere.
    Where strings differ, or kinds of metric do, the result is the empty string.
    """
    if len(rows) == 1:
        return rows[0]
    return {name: _merged(name, values) for name, values in _columns(rows).items()}


def sum_columns(rows: Iterable[Row]) -> Row:
    """Sum Counts, Durations and the share; strings, ratios, other Percents and levels have no sum.

    A column in which kinds of number differ has no sum and is left out.
    """
    sums: Row = {}
    for name, values in _columns(rows).items():
        numbers = [v for v in values if isinstance(v, (Count, Duration, Percent))]
        is_rate = name != SHARE and isinstance(values[0], Percent)
        if name not in LEVELS and not is_rate and len({type(number) for number in numbers}) == 1:
            sums[name] = _merge(numbers)
    return sums


def sort_order(rows: Sequence[Row], column: str) -> list[int] | None:
    """Return the row indices by ``column``, largest first, or None if no row has it.

    Rows without the column, or with NaN in it, come last; equal rows keep their
    order.
    """
    sizes = {i: size for i, row in enumerate(rows) if (size := _size(row.get(column))) is not None}
    if not sizes:
        return None
    lacking = [i for i in range(len(rows)) if i not in sizes]
    return sorted(sizes, key=sizes.__getitem__, reverse=True) + lacking


def largest_first(rows: Sequence[Row], columns: Sequence[str]) -> Sequence[int]:
    """Return the row indices sorted by the first of ``columns`` that any row has."""
    for column in columns:
        order = sort_order(rows, column)
        if order is not None:
            return order
    return range(len(rows))


def per_call_median(rows: Iterable[Row], column: str) -> int | Fraction | Duration | None:
    """Return the median over samples of a column's value per call.

    Args:
        rows: samples of one group; those without a positive ``Count`` do not
            say how many calls they held and are passed over.
        column: a column of Counts or of Durations.

    Returns:
        An exact int or Fraction for Counts, a Duration for Durations, None if
        no sample has both the column and its number of calls.
    """
    counts: list[tuple[int, int]] = []
    durations: list[float] = []
    for row in rows:
        value, calls = row.get(column), row.get("Count")
        if not isinstance(calls, Count) or calls.value <= 0:
            continue
        if isinstance(value, Count):
            counts.append((value.value, 1 if column in LEVELS else calls.value))
        elif isinstance(value, Duration):
            durations.append(value.microseconds / calls.value)
    if counts:
        return _exact_median(counts)
    return Duration(_float_median(durations)) if durations else None


def _columns(rows: Iterable[Row]) -> dict[str, list[Metric]]:
    columns: dict[str, list[Metric]] = defaultdict(list)
    for row in rows:
        for name, metric in row.items():
            columns[name].append(metric)
    return columns


def _largest(values: Sequence[Metric]) -> Metric:
    return Count(max((v.value for v in values if isinstance(v, Count)), default=0))


def _merged(name: str, values: Sequence[Metric]) -> Metric:
    """Merge the values of the column ``name``."""
    if name in LEVELS:
        return _largest(values)
    percents = [v.percent for v in values if isinstance(v, Percent)]
    if name != SHARE and len(percents) == len(values):
        return Percent(sum(percents) / len(percents))
    return _merge(values)


def _merge(values: Sequence[Metric]) -> Metric:
    """Merge values of one column; ``values`` is not empty."""
    if len({type(value) for value in values}) > 1:
        return ""
    first = values[0]
    match first:
        case Count():
            return Count(sum(v.value for v in values if isinstance(v, Count)))
        case Duration():
            return Duration(sum(v.microseconds for v in values if isinstance(v, Duration)))
        case Percent():
            return Percent(sum(v.percent for v in values if isinstance(v, Percent)))
        case Ratio():
            return Ratio(sum(v.ratio for v in values if isinstance(v, Ratio)) / len(values))
        case str():
            return first if all(value == first for value in values) else ""


def _size(metric: Metric | None) -> int | float | None:
    match metric:
        case Count():
            return metric.value
        case Duration():
            return None if math.isnan(metric.microseconds) else metric.microseconds
        case _:
            return None


def _exact_median(pairs: list[tuple[int, int]]) -> int | Fraction:
    """Return the median of value / calls without rounding, however large the values."""
    if len(pairs) > 1:
        pairs.sort(key=lambda pair: (pair[0] // pair[1], (pair[0] % pair[1]) / pair[1]))
    half = len(pairs) // 2
    upper = _quotient(*pairs[half])
    if len(pairs) % 2:
        return upper
    both = upper + _quotient(*pairs[half - 1])
    return _quotient(both.numerator, both.denominator * 2)


def _quotient(value: int, calls: int) -> int | Fraction:
    return Fraction(value, calls) if value % calls else value // calls


def _float_median(values: list[float]) -> float:
    if any(math.isnan(value) for value in values):
        return math.nan
    values.sort()
    half = len(values) // 2
    return values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2
