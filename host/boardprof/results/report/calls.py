# SPDX-License-Identifier: Apache-2.0
"""The rows of a Report: a sequence of dicts, stored as columns, and grouped by their values.

``calls[3]["cycles"]`` builds row 3 as a dict, which is fine for a few rows. To process all rows,
use columns: ``calls.column("cycles")``.

A column takes 8 bytes per value, or fewer. Counts are 64-bit integers, or Python's own from the
first one that does not fit. Durations, Percents and Ratios are 64-bit floats. Equal texts share one
string. A column with mixed kinds of metric holds the metrics themselves. Only rows with a value
take space.
"""

from __future__ import annotations

import json
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, compress, count, islice, pairwise, repeat
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    NamedTuple,
    TypeAlias,
    TypeVar,
    cast,
    overload,
)

from boardprof.base.metrics import Count, Kind, Metric, Raw, as_metric, raw_of, raws_of

if TYPE_CHECKING:
    import numpy.typing as npt

Values: TypeAlias = "Sequence[Any]"
"""A list, a `Repeated`, or numbers of 64 bits: an ``array.array`` or `Numbers`."""


class Numbers(Sequence[Any]):
    """Integers or floats of 64 bits that are computed whenever they are looked at."""

    def __init__(self, count: int, compute: Callable[[int, int], npt.NDArray[Any]]) -> None:
        """Keep what computes them from the first one to the one before the second."""
        self._count, self._compute = count, compute

    def array(self) -> npt.NDArray[Any]:
        """Compute all of them."""
        return self._compute(0, self._count)

    def __len__(self) -> int:
        """Return how many there are."""
        return self._count

    def __getitem__(self, index: Any) -> Any:
        """Return one of them, or some."""
        if not isinstance(index, slice):
            at = range(self._count)[index]
            return self._compute(at, at + 1)[0].item()
        first, end, step = index.indices(self._count)
        if step != 1:
            return list(self.array()[index].tolist())
        return Numbers(max(0, end - first), lambda a, b: self._compute(first + a, first + b))

    def __iter__(self) -> Iterator[int | float]:
        """Yield them."""
        for first in range(0, self._count, LARGE):
            yield from self._compute(first, min(first + LARGE, self._count)).tolist()


class Repeated(Sequence[Any]):
    """Values that follow each other, each some times."""

    def __init__(self, runs: Iterable[tuple[Any, int]]) -> None:
        """Keep the values, and how often each of them comes."""
        self.values, times = zip(*runs, strict=True)
        self.bounds: tuple[int, ...] = tuple(accumulate(times, initial=0))

    def __len__(self) -> int:
        """Return how many there are, with all repetitions."""
        return self.bounds[-1]

    def __getitem__(self, index: Any) -> Any:
        """Return one of them, or some."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return self.values[bisect_right(self.bounds, range(len(self))[index]) - 1]

    def __iter__(self) -> Iterator[Any]:
        """Yield them."""
        for value, (first, end) in zip(self.values, pairwise(self.bounds), strict=True):
            yield from repeat(value, end - first)


def numbers_of(values: Values) -> npt.NDArray[Any] | None:
    """Return numbers of 64 bits as an array; None if they are not known to be such."""
    if isinstance(values, Numbers):
        return values.array()
    if not isinstance(values, array):
        return None
    import numpy as np

    return np.frombuffer(values, values.typecode)


def metric_of_kind(kind: Kind, raw: Raw) -> Metric:
    """Return a metric of that kind with the value ``raw``."""
    return cast(Callable[[Raw], Metric], kind)(raw)


@dataclass(frozen=True, eq=False)
class Column:
    """The values of one column, without its name."""

    kind: Kind | None  #: Count, Duration, Percent, Ratio or str; None if kinds are mixed
    given: Values  #: of the rows that have one: ints, floats or texts; metrics if kinds are mixed
    rows: array[int] | None  #: indices of the rows that have one, ascending; None if all have one
    length: int  #: number of rows

    @cached_property
    def values(self) -> Values:
        """Like ``given``, one for each row; 0, "" or None if a row has no value."""
        if self.rows is None:
            return self.given
        if isinstance(self.given, array | Numbers):
            full: Any = array("q" if self.kind is Count else "d", bytes(8 * self.length))
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
        builder.put_away()
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

    def put_away(self) -> None:
        """Store the pending values; on a TypeError, all of them stay pending."""
        if not self.pending:
            return
        alike = raws_of(self.pending)
        if alike is not None:
            self.extend(*alike)
        else:
            for metric in map(as_metric, self.pending):
                self.extend(type(metric), [raw_of(metric)])
        self.pending.clear()

    def extend(self, kind: Kind, raws: Sequence[Any]) -> None:
        """Store values of one kind; none may be pending."""
        if self.kind is None and not len(self.values):
            self.kind = kind
            self.values = [] if kind is str else array("q" if kind is Count else "d")
        elif self.kind is not None and kind is not self.kind:
            self.values = list(Column(self.kind, self.values, None, 0).metrics())
            self.kind = None
        if self.kind is None:
            self.values += [metric_of_kind(kind, raw) for raw in raws]
        elif kind is str:
            share = self._texts.setdefault
            self.values += map(share, raws, raws)
        else:
            try:
                self.values.extend(array(self.values.typecode, raws))
            except (OverflowError, AttributeError):  # beyond 64 bits, or an earlier one was
                self.values = [*self.values, *raws]


def _alike(mine: Values, theirs: Values) -> bool:
    return mine == theirs or (
        len(mine) == len(theirs)
        and all(a == b or (a != a and b != b) for a, b in zip(mine, theirs, strict=True))
    )


LARGE: Final = 50_000  # from this number of rows on, importing numpy pays off

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, eq=False)
class Groups(Generic[K]):
    """Rows grouped by key, in the order in which keys are first seen."""

    keys: tuple[K, ...]
    order: Sequence[int]  # indices of all rows, group after group, ascending in each
    bounds: tuple[int, ...]  # ``order[bounds[i]:bounds[i + 1]]`` are the rows of group i

    def __len__(self) -> int:
        """Return how many groups there are."""
        return len(self.keys)

    def first(self, most: int) -> Groups[K]:
        """Return the first groups, ``most`` at most."""
        bounds = self.bounds[: most + 1]
        return replace(self, keys=self.keys[:most], order=self.order[: bounds[-1]], bounds=bounds)

    @property
    def rows(self) -> list[Sequence[int]]:
        """Indices of the rows of each group."""
        return [self.order[begin:end] for begin, end in pairwise(self.bounds)]

    def split(self, *columns: Column, arrays: bool = False) -> Iterator[list[Any]]:
        """Yield for each group the columns' values, for the rows that have all of them.

        With ``arrays``, they are numpy arrays instead of lists if there are many rows, all have the
        columns, and all values are 64-bit numbers.
        """
        masks = [_in_order(c.present, self.order) for c in columns if c.present is not None]
        arrays = arrays and not masks
        arrays = arrays and all(isinstance(c.given, array | Numbers) for c in columns)
        values = [_in_order(column.values, self.order, arrays) for column in columns]
        for begin, end in pairwise(self.bounds):
            parts = [each[begin:end] for each in values]
            if masks:
                there = [all(row) for row in zip(*(m[begin:end] for m in masks), strict=True)]
                parts = [list(compress(part, there)) for part in parts]
            yield parts


def grouped(keys: Iterable[K]) -> Groups[K]:
    """Return groups of rows by their keys, one key for each row."""
    number_of_key: defaultdict[K, int] = defaultdict(count().__next__)
    numbers = array("q", map(number_of_key.__getitem__, keys))
    sizes = Counter(numbers)
    bounds = accumulate((sizes[number] for number in range(len(sizes))), initial=0)
    return Groups(tuple(number_of_key), _sorted_by(numbers, len(sizes)), tuple(bounds))


def _sorted_by(numbers: array[int], most: int) -> Sequence[int]:
    """Return the indices of numbers in ascending order; the sort is stable."""
    if len(numbers) < LARGE:
        return array("q", sorted(range(len(numbers)), key=numbers.__getitem__))
    import numpy as np

    narrow = np.frombuffer(numbers, "q").astype(np.min_scalar_type(most))  # sorted by radix
    if (narrow[1:] >= narrow[:-1]).all():
        return range(len(numbers))
    order = narrow.argsort(kind="stable")
    return array("q", order.astype("q").tobytes())


def _of_runs(columns: Sequence[Column]) -> Groups[Any] | None:
    """Return groups of rows that follow each other; None if they are not known to do so."""
    runs = [column.given for column in columns if len(column.given)]
    if not runs or not all(isinstance(each, Repeated) for each in runs):
        return None
    bounds = sorted({bound for each in cast("list[Repeated]", runs) for bound in each.bounds})
    firsts = bounds[:-1]
    keys = [tuple(c.given[at] if len(c.given) else "" for c in columns) for at in firsts]
    if len({*keys}) < len(keys) or any(column.rows for column in columns):
        return None
    return Groups(tuple(keys), range(bounds[-1]), tuple(bounds))


def _in_order(values: Values, order: Sequence[int], as_array: bool = False) -> Any:
    whole: Any = numbers_of(values) if len(order) >= LARGE else None
    if isinstance(order, range):
        if as_array:
            return list(values) if whole is None else whole
        return values
    if len(order) < LARGE:
        return list(map(values.__getitem__, order))
    import numpy as np

    if whole is None:
        whole = np.array(values, object)
    taken = whole[np.frombuffer(cast("array[int]", order), "q")]
    return taken if as_array else taken.tolist()


Row: TypeAlias = dict[str, Metric]

DURATION: Final = "Duration (us)"  # TVM's name for the column of wall time

SHARE: Final = "Percent"
"""The column with each row's share of its device's total: the only Percent that adds up."""

PERTURBATION: Final = "Perturbation (%)"
"""The share of measurement overhead in the raw window; it is subtracted from the row's counts."""

STACK: Final = "Stack (bytes)"  # the stack need of one call; the same in each row of a measurement

ENERGY: Final = "energy (nJ)"
"""What the board's supply gave during a sample, by a power analyser; absent if in doubt."""

LABEL: Final = "Label"
"""Given to a call by the user: calls of different labels have separate rows in our tables."""

IN_PLACE: Final = "in place"
"""Label of ranges in firmware: a row's samples are passes of the range, not calls of a function."""

IN_PLACE_SUMS: Final = "in place, statistics"
"""Label of ranges for which the board has kept only statistics: a row is of all passes together."""

IN_PLACE_MEAN: Final = "in place, mean"
"""The same, if not all passes took the same. Other passes then have another mean."""

OF_STATISTICS: Final = frozenset([IN_PLACE_SUMS, IN_PLACE_MEAN])

SHARES: Final = frozenset([SHARE, PERTURBATION])
"""Columns that also depend on the agent's work around the samples; they are never exact."""

NEVER_EXACT: Final = SHARES | {ENERGY}  # columns that differ from run to run even on an emulator

LEVELS: Final = frozenset([STACK])
"""Columns with a level of the whole measurement: the largest is kept, and they do not add up."""

_NOBODY_HAS_IT = array("q")
_AT_A_TIME = 1024  # rows whose values are stored at once: several times as fast as one by one


class LabelledKey(NamedTuple):
    """Values that the rows of one group share; "" if a row lacks the column."""

    name: Metric
    hash: Metric  # distinguishes functions of equal name
    shapes: Metric
    device: Metric
    label: Metric  # by which the user distinguishes calls
    flags: Metric = ""  # the setting of a sweep


class Calls(Sequence[Row]):
    """Immutable rows, equal to a list of the same dicts.

    Every returned dict is new.
    """

    def __init__(self, rows: Iterable[Mapping[str, Metric | int]] = ()) -> None:
        """Copy and check rows; a TypeError has the place of a value, as ``calls[3]["cycles"]``."""
        builder = CallsBuilder()
        for row in rows:
            builder.add(row)
        self._columns, self._layouts, self._layout_of = builder.built()

    @classmethod
    def of_columns(
        cls, columns: dict[str, Column], layouts: tuple[tuple[str, ...], ...], layout_of: array[int]
    ) -> Calls:
        """Return rows that are in columns; the layout of each has this place in ``layouts``."""
        calls = cls.__new__(cls)
        calls._columns, calls._layouts, calls._layout_of = columns, layouts, layout_of
        return calls

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in the order in which they are first seen."""
        return tuple(self._columns)

    @property
    def layouts(self) -> Iterator[tuple[str, ...]]:
        """The names of each row's columns, in its own order."""
        return map(self._layouts.__getitem__, self._layout_of)

    def column(self, name: str) -> Column:
        """Return a column; without values if no row has the name."""
        found = self._columns.get(name)
        return Column(str, [], _NOBODY_HAS_IT, len(self)) if found is None else found

    def group_by(self, *names: str) -> Groups[tuple[Metric, ...]]:
        """Group rows by the values of some columns; "" stands for a missing value."""
        columns = [self.column(name) for name in names]
        in_runs = _of_runs(columns)
        return in_runs or grouped(zip(*(column.filled("") for column in columns), strict=True))

    def labelled_groups(self, *, by_flags: bool = True) -> Groups[LabelledKey]:
        """Group rows as our own tables do; without ``by_flags``, the key's flags are ""."""
        flags = ["Flags"] if by_flags else []
        found = self.group_by("Name", "Hash", "Argument Shapes", "Device", LABEL, *flags)
        return Groups(tuple(LabelledKey(*key) for key in found.keys), found.order, found.bounds)

    def tvm_groups(self) -> Groups[tuple[Any, ...]]:
        """Group rows as TVM does: by name (or hash, if they have one), shapes and device."""
        name = self.column("Name").filled("")
        pairs = zip(self.column("Hash").filled(None), name, strict=True)
        names = (plain if hashed is None else hashed for hashed, plain in pairs)
        shapes, device = (self.column(n).filled("") for n in ("Argument Shapes", "Device"))
        return grouped(zip(names, shapes, device, strict=True))

    def __len__(self) -> int:
        """Return how many rows there are."""
        return len(self._layout_of)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        """Return a row, or a list of rows."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        row = range(len(self))[index]
        layout = self._layouts[self._layout_of[row]]
        return {name: self._columns[name].metric(row) for name in layout}

    def __iter__(self) -> Iterator[Row]:
        """Yield the rows."""
        values = {name: column.metrics() for name, column in self._columns.items()}
        for layout in self.layouts:
            yield {name: next(values[name]) for name in layout}

    def __eq__(self, other: object) -> bool:
        """Compare by content in any order of the columns; NaN equals NaN."""
        if isinstance(other, Calls):
            return len(self) == len(other) and self._columns == other._columns
        if isinstance(other, list):
            pairs = zip(self, other, strict=False)
            return len(self) == len(other) and all(row == theirs for row, theirs in pairs)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as of a list

    def __repr__(self) -> str:
        """Return one short line, whatever the number of rows."""
        return f"<Calls: {len(self)} rows of {', '.join(self._columns) or 'nothing'}>"


class CallsBuilder:
    """Builder of `Calls` from single rows; a layout is a sequence of column names."""

    def __init__(self) -> None:
        """Begin without rows."""
        self._away = 0  # rows whose values were all stored
        self.layouts: dict[tuple[str, ...], tuple[int, list[Callable[[Any], None]]]] = {}
        self.layout_of = array("I")  # number of each row's layout
        self.columns: dict[str, ColumnBuilder] = {}

    def add(self, row: Mapping[str, Any]) -> None:
        """Add a row; a value that is not a metric may raise its error only later."""
        is_row = type(row) is dict or isinstance(row, Mapping)
        number, takers = (is_row and self.layouts.get(tuple(row))) or self._new_layout(row)
        for take, value in zip(takers, row.values(), strict=True):
            take(value)
        self.layout_of.append(number)
        if len(self.layout_of) - self._away == _AT_A_TIME:
            self.put_away()

    def extend(self, names: tuple[str, ...], columns: Sequence[tuple[Kind, Sequence[Raw]]]) -> None:
        """Add rows of a layout of an earlier row, column by column: kind and values of each."""
        self.put_away()
        number, _ = self.layouts[names]
        for name, (kind, raws) in zip(names, columns, strict=True):
            self.columns[name].extend(kind, raws)
        self.layout_of.extend(repeat(number, len(columns[0][1])))
        self._away = len(self.layout_of)

    def put_away(self) -> None:
        """Store the pending values; an error has the place of the value."""
        try:
            for column in self.columns.values():
                column.put_away()
        except TypeError:
            self._refuse()
            raise
        self._away = len(self.layout_of)

    def built(self) -> tuple[dict[str, Column], tuple[tuple[str, ...], ...], array[int]]:
        """Return what `Calls.of_columns` takes; the builder must not be used afterwards."""
        self.put_away()
        layouts, count = tuple(self.layouts), len(self.layout_of)
        rows = _rows_of_sparse(layouts, self.layout_of)
        columns = {
            name: Column(column.kind, column.values, rows.get(name), count)
            for name, column in self.columns.items()
        }
        return columns, layouts, self.layout_of

    def _new_layout(self, row: Mapping[str, Any]) -> tuple[int, list[Callable[[Any], None]]]:
        if not isinstance(row, Mapping) or not all(isinstance(name, str) for name in row):
            self.put_away()  # an earlier row may be refused here
            checked_row(row, "calls", len(self.layout_of))
        names = tuple(map(str.__str__, row))
        takers = [self.columns.setdefault(n, ColumnBuilder()).pending.append for n in names]
        return self.layouts.setdefault(names, (len(self.layouts), takers))

    def _refuse(self) -> None:
        """Raise for the first pending value that is not a metric, in the order of rows."""
        layouts = list(self.layouts)
        pending = {name: iter(column.pending) for name, column in self.columns.items()}
        for row in range(self._away, len(self.layout_of)):
            for name in layouts[self.layout_of[row]]:
                for value in islice(pending[name], 1):  # stored values are valid
                    checked_row({name: value}, "calls", row)


def place_text(root: str, *keys: str | int) -> str:
    """Return the place of a value in Python syntax, e.g. ``calls[3]["cycles"]``."""
    return root + "".join(f"[{json.dumps(key)}]" for key in keys)


def checked_row(row: Mapping[str, Metric | int], root: str, *keys: str | int) -> Row:
    """Return a copy of a row, with metrics for plain numbers; a TypeError has the place."""
    if not isinstance(row, Mapping):
        raise TypeError(f"{place_text(root, *keys)}: a dict of metrics is needed, not {row!r:.60}")
    metrics: Row = {}
    for name, value in row.items():
        if not isinstance(name, str):
            raise TypeError(
                f"{place_text(root, *keys)}: a column name must be a str, not {name!r:.60}"
            )
        try:
            metrics[name] = as_metric(value)
        except TypeError as error:
            raise TypeError(f"{place_text(root, *keys, name)}: {error}") from None
    return metrics


def _rows_of_sparse(
    layouts: Sequence[tuple[str, ...]], layout_of: Iterable[int]
) -> dict[str, array[int]]:
    """Return the rows that have each column, for columns that some rows lack."""
    everywhere = set(layouts[0]).intersection(*layouts) if layouts else set()
    rows: dict[str, Any] = {}
    for layout in layouts:
        rows |= {name: array("q") for name in layout if name not in everywhere}
    sparse = [[rows[name] for name in layout if name in rows] for layout in layouts]
    for row, layout_number in enumerate(layout_of) if rows else ():
        for each in sparse[layout_number]:
            each.append(row)
    return rows


def one_of(labels: Iterable[object]) -> str:
    """Return what a value is of: ``pass`` if all labels are those of ranges, else ``call``."""
    found = set(labels)
    return "pass" if found and found <= {IN_PLACE, *OF_STATISTICS} else "call"
