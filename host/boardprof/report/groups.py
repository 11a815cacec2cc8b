# SPDX-License-Identifier: Apache-2.0
"""Groups of rows, and the values of a column by group."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, compress, count, pairwise
from typing import Any, Final, Generic, NamedTuple, TypeVar

from boardprof.metrics import Metric
from boardprof.report.columns import Column, Values

LARGE: Final = 50_000
"""From this number of rows on, importing numpy pays off."""

K = TypeVar("K", bound=Hashable)


class Key(NamedTuple):
    """The values that samples of one thing share; "" if a row lacks the column.

    Attributes:
        name: the ``Hash`` if rows have one, else the ``Name``.
        shapes: Argument Shapes.
        flags: the compiler's, of a sweep.
        device: Device.
    """

    name: Metric
    shapes: Metric
    flags: Metric
    device: Metric


@dataclass(frozen=True, eq=False)
class Groups(Generic[K]):
    """Rows grouped by key, in the order in which keys are first seen.

    Attributes:
        keys: of the groups.
        order: indices of all rows, group after group, ascending in each.
        bounds: ``order[bounds[i]:bounds[i + 1]]`` are the rows of group i.
        same: names of the columns in which the rows of a group are equal; "" for none.
    """

    keys: tuple[K, ...]
    order: array[int]
    bounds: tuple[int, ...]
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

        Args:
            columns: of the same rows.
            arrays: return numpy arrays instead of lists if there are many rows, all have the
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
