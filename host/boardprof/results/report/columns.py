# SPDX-License-Identifier: Apache-2.0
"""Columns of a Report's rows, stored as packed numbers, and rows grouped by their values.

A column takes 8 bytes per value. Counts are 64-bit integers, or Python's own from the first one
that does not fit. Durations, Percents and Ratios are 64-bit floats. Equal texts share one string. A
column with mixed kinds of metric holds the metrics themselves. Only rows with a value take space.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, compress, count, pairwise
from typing import Any, Final, Generic, TypeAlias, TypeVar, cast

from boardprof.base.metrics import Count, Kind, Metric, Raw, as_metric, raw_of, raws_of

__all__ = ["METRICS", "Cells", "Column", "ColumnBuilder", "Values", "metric_of_kind"]


Values: TypeAlias = "Sequence[Any]"
"""A list, or an ``array.array``, from which ``numpy.asarray`` makes an array without a copy."""


def metric_of_kind(kind: Kind, raw: Raw) -> Metric:
    """Return a metric of that kind with the value ``raw``."""
    return cast(Callable[[Raw], Metric], kind)(raw)


@dataclass(frozen=True)
class Cells:
    """How values in rows are written: as metrics, or as JSON."""

    one: Callable[[Any], tuple[Kind, Raw]]  # return the kind and the content of a value
    # the same for many values of one kind, or None
    alike: Callable[[Sequence[Any]], tuple[Kind, Sequence[Raw]] | None]
    # the exception for a value, after ``one`` raised an error
    refusal: Callable[[str, Exception], Exception]


def _one(value: object) -> tuple[Kind, Raw]:
    metric = as_metric(value)
    return type(metric), raw_of(metric)


METRICS: Final = Cells(_one, raws_of, lambda place, error: TypeError(f"{place}: {error}"))


@dataclass(frozen=True, eq=False)
class Column:
    """The values of one column, without its name.

    Attributes:
        kind: Count, Duration, Percent, Ratio or str; None if kinds are mixed.
        given: values of the rows that have one: ints, floats or texts; metrics if kinds are mixed.
        rows: indices of the rows that have one, ascending; None if all have one.
        length: number of rows.
    """

    kind: Kind | None
    given: Values
    rows: array[int] | None
    length: int

    @cached_property
    def values(self) -> Values:
        """Like ``given``, one for each row; 0, "" or None if a row has no value."""
        if self.rows is None:
            return self.given
        if isinstance(self.given, array):
            full: Any = array(self.given.typecode, bytes(self.given.itemsize * self.length))
        else:
            full = [{Count: 0, str: ""}.get(cast(type, self.kind))] * self.length
        for row, value in zip(self.rows, self.given, strict=True):
            full[row] = value
        return cast(Values, full)

    @cached_property
    def present(self) -> array[int] | None:
        """1 for each row with a value, 0 for others; None if all rows have one."""
        if self.rows is None:
            return None
        mask = array("b", bytes(self.length))
        for row in self.rows:
            mask[row] = 1
        return mask

    def metrics(self) -> Iterator[Metric]:
        """Return the metrics of the rows that have one, in order."""
        if self.kind is None or self.kind is str:
            return iter(self.given)
        return map(cast(Callable[[Raw], Metric], self.kind), self.given)

    def filled(self, blank: Any) -> Iterator[Any]:
        """Return a metric for each row; ``blank`` for rows without one."""
        if self.rows is None:
            return self.metrics()
        full: list[Any] = [blank] * self.length
        for row, metric in zip(self.rows, self.metrics(), strict=True):
            full[row] = metric
        return iter(full)

    def metric(self, row: int) -> Metric:
        """Return the metric of a row that has a value."""
        raw = self.given[row if self.rows is None else bisect_left(self.rows, row)]
        return cast(Metric, raw) if self.kind is None else metric_of_kind(self.kind, raw)

    def of(self, kind: Kind) -> Column:
        """Return the column reduced to values of one kind."""
        if self.kind is kind:
            return self
        rows, builder = array("q"), ColumnBuilder()
        every = range(self.length) if self.rows is None else self.rows
        for row, metric in zip(every, self.given, strict=True) if self.kind is None else ():
            if type(metric) is kind:
                rows.append(row)
                builder.pending.append(metric)
        builder.put_away(METRICS)
        return Column(kind, builder.values, rows, self.length)

    def __eq__(self, other: object) -> bool:
        """Compare by content: NaN equals NaN."""
        if not isinstance(other, Column):
            return NotImplemented
        mine, theirs = (self.kind, self.length, self.rows), (other.kind, other.length, other.rows)
        return mine == theirs and _alike(self.given, other.given)

    __hash__ = None  # type: ignore[assignment]  # columns are never hashed


class ColumnBuilder:
    """Collects values one by one, and stores them many at a time."""

    __slots__ = ("_texts", "kind", "pending", "values")

    def __init__(self) -> None:
        """Begin without values."""
        self.kind: Kind | None = None  # None if mixed, or without values
        self.values: Any = []  # the stored ones
        self.pending: list[Any] = []  # append to it
        self._texts: dict[str, str] = {}

    def put_away(self, cells: Cells) -> None:
        """Store the pending values; on an error, the wrong one and those before it stay pending."""
        if not self.pending:
            return
        alike = cells.alike(self.pending)
        if alike is not None:
            self.extend(*alike)
        else:
            for kind, raw in map(cells.one, self.pending):
                self.extend(kind, [raw])
        self.pending.clear()

    def extend(self, kind: Kind, raws: Sequence[Raw]) -> None:
        """Store values of one kind; none may be pending."""
        if kind is not self.kind:
            self._make_room_for(kind)
        if self.kind is None:
            self.values += [metric_of_kind(kind, raw) for raw in raws]
        elif kind is str:
            share = self._texts.setdefault
            self.values += map(share, cast(Sequence[str], raws), cast(Sequence[str], raws))
        else:
            self._extend_numbers(raws)

    def _extend_numbers(self, raws: Sequence[Any]) -> None:
        try:
            self.values.extend(array(self.values.typecode, raws))
        except (OverflowError, AttributeError):  # beyond 64 bits, or an earlier one was
            self.values = [*self.values, *raws]

    def _make_room_for(self, kind: Kind) -> None:
        if self.kind is not None:
            self.values = list(Column(self.kind, self.values, None, 0).metrics())
            self.kind = None
        elif not self.values:
            self.kind = kind
            self.values = [] if kind is str else array("q" if kind is Count else "d")


def _alike(mine: Values, theirs: Values) -> bool:
    return mine == theirs or (
        len(mine) == len(theirs)
        and all(a == b or (a != a and b != b) for a, b in zip(mine, theirs, strict=True))
    )


LARGE: Final = 50_000
"""From this number of rows on, importing numpy pays off."""

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, eq=False)
class Groups(Generic[K]):
    """Rows grouped by key, in the order in which keys are first seen."""

    keys: tuple[K, ...]
    order: array[int]  # indices of all rows, group after group, ascending in each
    bounds: tuple[int, ...]  # ``order[bounds[i]:bounds[i + 1]]`` are the rows of group i
    # names of the columns in which the rows of a group are equal; "" for none
    same: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Return how many groups there are."""
        return len(self.keys)

    @property
    def rows(self) -> list[array[int]]:
        """Indices of the rows of each group."""
        return [self.order[begin:end] for begin, end in pairwise(self.bounds)]

    def split(self, *columns: Column, arrays: bool = False) -> Iterator[list[Any]]:
        """Yield for each group the columns' values, for the rows that have all of them.

        With ``arrays``, they are numpy arrays instead of lists if there are many rows, all have the
        columns, and all values are 64-bit numbers.
        """
        masks = [_in_order(c.present, self.order) for c in columns if c.present is not None]
        arrays = arrays and not masks and all(isinstance(c.given, array) for c in columns)
        values = [_in_order(column.values, self.order, arrays) for column in columns]
        for begin, end in pairwise(self.bounds):
            parts = [each[begin:end] for each in values]
            if masks:
                there = [all(row) for row in zip(*(m[begin:end] for m in masks), strict=True)]
                parts = [list(compress(part, there)) for part in parts]
            yield parts

    def firsts(self, column: Column) -> Iterator[list[Any]]:
        """Yield like `split`, but only each group's first row, for a column that all rows have."""
        for begin in self.bounds[:-1]:
            yield [[column.given[self.order[begin]]]]


def grouped(keys: Iterable[K]) -> Groups[K]:
    """Return groups of rows by their keys, one key for each row."""
    number_of_key: defaultdict[K, int] = defaultdict(count().__next__)
    numbers = array("q", map(number_of_key.__getitem__, keys))
    sizes = Counter(numbers)
    bounds = accumulate((sizes[number] for number in range(len(sizes))), initial=0)
    return Groups(tuple(number_of_key), _sorted_by(numbers, len(sizes)), tuple(bounds))


def _sorted_by(numbers: array[int], most: int) -> array[int]:
    """Return the indices of numbers in ascending order; the sort is stable."""
    if len(numbers) < LARGE:
        return array("q", sorted(range(len(numbers)), key=numbers.__getitem__))
    import numpy as np

    narrow = np.frombuffer(numbers, "q").astype(np.min_scalar_type(most))  # sorted by radix
    order = narrow.argsort(kind="stable")
    return array("q", order.astype("q").tobytes())


def _in_order(values: Values, order: array[int], as_array: bool = False) -> Any:
    if len(order) < LARGE:
        return list(map(values.__getitem__, order))
    import numpy as np

    if isinstance(values, array):
        whole = np.frombuffer(values, values.typecode)
    else:
        whole = np.array(values, object)
    taken = whole[np.frombuffer(order, "q")]
    return taken if as_array else taken.tolist()
