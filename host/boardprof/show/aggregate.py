# SPDX-License-Identifier: Apache-2.0
"""Merging, summing and sorting of rows, column by column, in at most n log n time.

Results do not depend on the order of rows, to the last bit: Counts are added as integers, and
floats without intermediate rounding. In TVM's layout, floats are added one after the other as in
TVM, so the last digit may differ.
"""

from __future__ import annotations

import contextlib
import math
from array import array
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from functools import cached_property, reduce
from operator import add, truediv
from typing import Any, Final, TypeAlias, TypeVar, cast

from boardprof.base.metrics import Count, Duration, Kind, Metric, Percent, Ratio, raw_of
from boardprof.results.report.calls import (
    DURATION,
    LEVELS,
    SHARE,
    Calls,
    Column,
    Groups,
    Row,
    metric_of_kind,
)
from boardprof.results.report_json import Compat
from boardprof.results.stats.summary import is_finite, percentile

SORT_COLUMNS: Final = (DURATION, "instructions", "ticks")  # the first one there sorts the rows
PerCall: TypeAlias = int | Decimal | Duration | None  # of Counts to 28 digits; None if absent
M = TypeVar("M")

_MANY: Final = 100  # with fewer values, numpy is not faster at finding a median


# -- merging ----------------------------------------------------------------------------------


def merge_calls(calls: Calls, groups: Groups[Any], compat: Compat = None) -> Calls:
    """Merge the rows of each group into one, column by column; missing values are ignored."""
    # Counts, Durations and the share of the device's total are summed; of `LEVELS`, the largest is
    # taken; of Ratios and other Percents, the median, as in statistics and comparisons. If strings
    # or kinds of metric differ, the result is the empty string. As TVM does, compat "tvm" sums
    # Counts and Percents in all columns, and averages Ratios.
    if len(groups) == len(calls):
        return calls
    rows: list[Row] = [{} for _ in groups.keys]
    for name in calls.names:
        column = calls.column(name)
        for row, (values,) in zip(rows, groups.split(column), strict=True):
            if values:
                row[name] = _merged(name, column.kind, values, compat)
    return Calls(rows)


def sum_rows(calls: Calls, groups: Groups[Any], compat: Compat = None) -> list[Row]:
    """Sum Counts, Durations and the share in each group; other and mixed columns have no sum."""
    sums: list[Row] = [{} for _ in groups.keys]
    for name in calls.names:
        column = calls.column(name)
        kinds = (Count, Duration, Percent) if column.kind is None else (column.kind,)
        for row, numbers in zip(sums, _numbers(column, groups, kinds), strict=True):
            if len(numbers) == 1:
                [(kind, values)] = numbers.items()
                if _way(name, kind, compat) == "sum":
                    row[name] = metric_of_kind(kind, total_of(values, compat))
    return sums


def _numbers(
    column: Column, groups: Groups[Any], kinds: Iterable[Kind]
) -> Iterator[dict[Kind, list[Any]]]:
    """Yield for each group its values by kind, without the kinds that it does not have."""
    found: list[dict[Kind, list[Any]]] = [{} for _ in groups.keys]
    for kind in kinds:
        for numbers, (values,) in zip(found, groups.split(column.of(kind)), strict=True):
            if values:
                numbers[kind] = values
    return iter(found)


def _merged(name: str, kind: Kind | None, values: list[Any], compat: Compat) -> Metric:
    """Merge the values of a column, at least one."""
    if kind is None:
        kinds = set(map(type, values))
        if len(kinds) > 1:
            return ""
        return _merged(name, kinds.pop(), list(map(raw_of, values)), compat)
    way = _way(name, kind, compat)
    if way == "same":
        return cast(str, values[0]) if values.count(values[0]) == len(values) else ""
    if way == "largest":
        return Count(max(values))
    if way == "median":
        return metric_of_kind(kind, percentile(sorted(filter(is_finite, values)) or values, 50))
    total = total_of(values, compat)
    return metric_of_kind(kind, total / len(values) if way == "mean" else total)


def _way(name: str, kind: Kind, compat: Compat) -> str:
    """Return how values of a column are merged: sum, mean, median, largest or same."""
    if kind is Count:
        return "largest" if name in LEVELS and compat is None else "sum"
    if kind is Percent:
        return "sum" if name == SHARE or compat is not None else "median"
    return {Duration: "sum", Ratio: "median" if compat is None else "mean", str: "same"}[kind]


def total_of(values: Sequence[Any], compat: Compat = None) -> Any:
    """Return the sum. Floats are rounded once, so their order does not matter, except for TVM."""
    # ``sum`` rounds floats otherwise from Python 3.12 on.
    if float not in map(type, values):
        return sum(values)
    if compat == "tvm":
        return reduce(add, values)
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):  # beyond the largest float; infinities of both signs
        return float(sum(values))


# -- sorting ----------------------------------------------------------------------------------


def sort_order(rows: Calls, column: str) -> list[int] | None:
    """Return the row indices sorted by ``column``, largest first; None if no row has a value."""
    metrics = enumerate(rows.column(column).filled(None))
    sizes = {i: size for i, metric in metrics if (size := _size(metric)) is not None}
    if not sizes:
        return None
    missing = [i for i in range(len(rows)) if i not in sizes]
    return sorted(sizes, key=sizes.__getitem__, reverse=True) + missing


def _size(metric: Metric | None) -> int | float | None:
    match metric:
        case Count():
            return metric.value
        case Duration():
            return None if math.isnan(metric.microseconds) else metric.microseconds
        case _:
            return None


# -- medians ----------------------------------------------------------------------------------


def per_call_medians(calls: Calls, groups: Groups[Any], name: str) -> list[PerCall]:
    """Return for each group the median of a column's value per call, exact for Counts, or None."""
    found: list[PerCall] = [None] * len(groups)
    counts = calls.column("Count").of(Count)
    for kind in (Duration, Count):
        column = calls.column(name).of(kind)
        if not len(column.given):
            continue
        for i, (values, numbers) in enumerate(groups.split(column, counts, arrays=True)):
            if not isinstance(numbers, list | array):
                values, numbers = _fewer(values, numbers)
            if numbers and min(numbers) <= 0:
                called = [row for row, n in enumerate(numbers) if n > 0]
                values, numbers = [[each[row] for row in called] for each in (values, numbers)]
            if numbers and kind is Duration:
                found[i] = Duration(_float_median(values, numbers))
            elif numbers:
                found[i] = _count_median(values, [1] if name in LEVELS else numbers)
    return found


def _fewer(values: Any, numbers: Any) -> tuple[list[Any], list[int]]:
    """Return numpy's arrays as lists with the same median: only the middle two, if possible."""
    if len(values) >= _MANY and numbers.min() == numbers.max() and not (values != values).any():
        import numpy as np  # here: it takes a while, and few Reports are that long

        middle = [(len(values) - 1) // 2, len(values) // 2]
        values, numbers = np.partition(values, middle)[middle], numbers[[0, 0]]
    return values.tolist(), numbers.tolist()


def _count_median(values: list[int], numbers: list[int]) -> int | Decimal:
    """Return the median of value / number; an int if it is a whole number."""
    if min(numbers) == max(numbers):
        total, calls = sum(_middle(sorted(values))), 2 * numbers[0]
        return Decimal(total) / calls if total % calls else total // calls
    lower, upper = _middle(sorted(map(truediv, map(Decimal, values), numbers)))
    median: Decimal = (lower + upper) / 2
    return median if median % 1 else int(median)


def _float_median(values: list[float], numbers: list[int]) -> float:
    quotients: list[float] = list(map(truediv, values, numbers))
    if any(map(math.isnan, quotients)):
        return math.nan
    lower, upper = _middle(sorted(quotients))
    return upper if lower == upper else (lower + upper) / 2


def _middle(ordered: Sequence[M]) -> tuple[M, M]:
    """Return the middle value twice, or the middle two."""
    return ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]


class CallGroups:
    """Groups of samples: merged rows, medians per call, and an order by the median of each."""

    def __init__(self, calls: Calls, groups: Groups[Any]) -> None:
        """Merge the samples; medians are computed when they are needed."""
        self._calls, self._groups = calls, groups
        self._merged = merge_calls(calls, groups)
        self._medians: dict[str, list[PerCall]] = {}
        self._typical: dict[str, list[PerCall | Metric]] = {}
        self._known: dict[str, list[float | None]] = {}

    def medians(self, column: str) -> list[PerCall]:
        """Return `per_call_medians` of a column."""
        if column not in self._medians:
            self._medians[column] = per_call_medians(self._calls, self._groups, column)
        return self._medians[column]

    def typical(self, column: str) -> list[PerCall | Metric]:
        """Return the median per call of Counts and Durations, and other metrics as merged."""
        if column not in self._typical:
            merged = self.merged.column(column)
            found = list(merged.filled(None))
            if merged.kind in (Count, Duration, None):
                pairs = zip(self.medians(column), found, strict=True)
                found = [median if isinstance(m, Count | Duration) else m for median, m in pairs]
            self._typical[column] = found
        return self._typical[column]

    def order(self, chosen: Iterable[int] | None = None) -> list[int]:
        """Return the groups, or the chosen ones, by the first available of `SORT_COLUMNS`."""
        # The largest come first, those without the column last. Equal groups keep their order.
        groups = list(range(len(self._merged)) if chosen is None else chosen)
        sizes = next(filter(None, (self._sizes(groups, name) for name in SORT_COLUMNS)), {})
        missing = [group for group in groups if group not in sizes]
        return sorted(sizes, key=sizes.__getitem__, reverse=True) + missing

    @cached_property
    def merged(self) -> Calls:
        """The merged rows; their shares are of all rows of the same device that have one."""
        shares: dict[int, float] = {}
        has_share = list(self._merged.column(SHARE).filled(None))
        devices = self._merged.group_by("Device")
        for rows in devices.rows:
            shared = [row for row in rows if isinstance(has_share[row], Percent)]
            sizes = next(filter(None, (self._sizes(shared, name) for name in SORT_COLUMNS)), {})
            whole = math.fsum(sizes.values())
            if len(sizes) == len(shared) and 0 < whole < math.inf:
                shares |= {row: 100 * size / whole for row, size in sizes.items()}
        if not shares:
            return self._merged
        return Calls(
            {**row, SHARE: Percent(shares[number])} if number in shares else row
            for number, row in enumerate(self._merged)
        )

    def _sizes(self, groups: Iterable[int], column: str) -> dict[int, float]:
        """Return the sizes of groups by a column, without the groups that have none."""
        if column not in self._merged.names:
            return {}
        if column not in self._known:
            medians = self.medians(column)
            sums = self._merged.column(column).filled(None)
            calls = self._merged.column("Count").filled(None)
            self._known[column] = [
                _typical_size(*each) for each in zip(medians, calls, sums, strict=True)
            ]
        sizes = self._known[column]
        return {group: size for group in groups if (size := sizes[group]) is not None}


def _typical_size(median: PerCall, calls: object, total: object) -> float | None:
    """Return the median per call times the calls; the sum if these are unknown or too large."""
    found = median.microseconds if isinstance(median, Duration) else median
    if found is not None and isinstance(calls, Count):
        with contextlib.suppress(OverflowError):
            return _size_or_none(found * calls.value)
    return _size_or_none(raw_of(total)) if isinstance(total, Count | Duration) else None


def _size_or_none(value: Any) -> float | None:
    try:
        return None if math.isnan(size := float(value)) else size
    except OverflowError:
        return math.inf
