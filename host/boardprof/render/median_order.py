# SPDX-License-Identifier: Apache-2.0
"""The order and the shares of functions, by the medians of their samples.

One interrupted sample may add as much to a sum as all others. So a function counts as its median
per call times its calls.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable
from functools import cached_property
from typing import Any, TypeAlias

from boardprof.metrics import Count, Duration, Percent, raw_of
from boardprof.render.aggregate import SHARE, SORT_COLUMNS, PerCall, per_call_medians
from boardprof.report.calls import Calls
from boardprof.report.groups import Groups

_Sizes: TypeAlias = "list[float | None]"


class Typical:
    """Groups of samples, each as its median sample."""

    def __init__(self, calls: Calls, groups: Groups[Any], merged: Calls) -> None:
        """Compute nothing yet.

        Args:
            calls: the samples.
            groups: of them.
            merged: a row a group.
        """
        self._calls, self._groups, self._merged = calls, groups, merged
        self._known: dict[str, _Sizes] = {}

    def order(self, chosen: Iterable[int] | None = None) -> list[int]:
        """Return the groups, or those that are chosen, by the first of `SORT_COLUMNS` that one has.

        The largest are first, those without the column last; equal ones keep their order.
        """
        groups = list(range(len(self._merged)) if chosen is None else chosen)
        sizes = next(filter(None, (self._those(groups, name) for name in SORT_COLUMNS)), {})
        lacking = [group for group in groups if group not in sizes]
        return sorted(sizes, key=sizes.__getitem__, reverse=True) + lacking

    @cached_property
    def merged(self) -> Calls:
        """The merged rows, each share being that of all rows of the device that have one."""
        shares: dict[int, float] = {}
        has_share = list(self._merged.column(SHARE).filled(None))
        devices = self._merged.group_by("Device")
        for rows in devices.rows:
            shared = [row for row in rows if isinstance(has_share[row], Percent)]
            sizes = next(filter(None, (self._those(shared, name) for name in SORT_COLUMNS)), {})
            whole = math.fsum(sizes.values())
            if len(sizes) == len(shared) and 0 < whole < math.inf:
                shares |= {row: 100 * size / whole for row, size in sizes.items()}
        if not shares:
            return self._merged
        return Calls(
            {**row, SHARE: Percent(shares[number])} if number in shares else row
            for number, row in enumerate(self._merged)
        )

    def _those(self, groups: Iterable[int], column: str) -> dict[int, float]:
        """Return the sizes of groups that have one."""
        if column not in self._merged.names:
            return {}
        if column not in self._known:
            medians = per_call_medians(self._calls, self._groups, column)
            sums = self._merged.column(column).filled(None)
            calls = self._merged.column("Count").filled(None)
            self._known[column] = [_size(*each) for each in zip(medians, calls, sums, strict=True)]
        sizes = self._known[column]
        return {group: size for group in groups if (size := sizes[group]) is not None}


def _size(median: PerCall, calls: object, total: object) -> float | None:
    """Return the median per call times the calls; the sum where these are not known, or huge."""
    found = median.microseconds if isinstance(median, Duration) else median
    if found is not None and isinstance(calls, Count):
        with contextlib.suppress(OverflowError):
            return _number(found * calls.value)
    return _number(raw_of(total)) if isinstance(total, Count | Duration) else None


def _number(value: Any) -> float | None:
    try:
        return None if math.isnan(size := float(value)) else size
    except OverflowError:
        return math.inf
