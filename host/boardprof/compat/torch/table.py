# SPDX-License-Identifier: Apache-2.0
"""Lists of events and of their averages, and their text table with torch's columns."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from typing import Self, SupportsIndex, TypeVar, overload

from boardprof.base.errors import UnknownNameError, UsageError
from boardprof.base.metrics import Count, metric_called
from boardprof.base.printable import bounded, display_width
from boardprof.compat.torch.events import (
    CALLS,
    UNITS,
    UNKNOWN,
    WITHIN_CALLS,
    FunctionEvent,
    FunctionEventAvg,
    more_counted,
    sum_if_known,
    time_text,
)
from boardprof.compat.torch.host_events import place_text
from boardprof.results.report.profile import CALL, INTERRUPTS, OTHER, Profile
from boardprof.show.cells import plural
from boardprof.show.layout import Column, Table, plain

_SORTED_BY = (
    "count",
    "cpu_time",
    "cpu_time_max",
    "cpu_time_min",
    "cpu_time_p10",
    "cpu_time_p50",
    "cpu_time_p90",
    "cpu_time_total",
    "device_time",
    "device_time_total",
    "device_memory_usage",
    "flops",
    "self_cpu_time_total",
    "self_device_memory_usage",
    "self_device_time_total",
)
_FLOPS = ("FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs")
_DOTS = "..."

_E = TypeVar("_E", FunctionEvent, FunctionEventAvg)
_Column = tuple[str, Callable[[FunctionEventAvg], str]]


class Entries(Sequence[_E]):
    """A sequence with a table of its entries."""

    def __init__(self, entries: Iterable[_E]) -> None:
        """Hold entries."""
        self._entries: list[_E] = list(entries)

    @overload
    def __getitem__(self, index: SupportsIndex) -> _E: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: SupportsIndex | slice) -> _E | Self:
        """Return one entry, or a slice."""
        if not isinstance(index, slice):
            return self._entries[index]
        part = copy(self)
        part._entries = self._entries[index]
        return part

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._entries)

    def __str__(self) -> str:
        """Return the table."""
        return self.table()

    @abstractmethod
    def table(self) -> str:
        """Return the entries as text."""

    @property
    def self_cpu_time_total(self) -> float:
        """Total time of all events on the host, us; nested time counts once for each task."""
        return sum(each.self_cpu_time_total for each in self._entries)


class EventAverages(Entries[FunctionEventAvg]):
    """The result of `profile.key_averages`: one entry per key, in the order of first events."""

    def total_average(self) -> FunctionEventAvg:
        """Return the average of all their events, as ``Total``.

        A nested event is also in the total of the event around it, so it counts twice in the sum of
        totals. In the sum of self times it counts once.

        Raises:
            UsageError: the list is empty.
        """
        return total([event for each in self._entries for event in each.events])

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int | None = 75,
        max_name_column_width: int | None = 55,
        max_shapes_column_width: int | None = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
        percentiles: bool = False,
    ) -> str:
        """Return them as a text table; "" if the list is empty.

        Percentages are of the sum of self times; a nested row is also in the total of the row
        around it. Unknown values are ``--``: sums with an unknown part, and shares of such sums.

        Args:
            sort_by: sort by this in descending order: ``cpu_time``, ``cpu_time_total``,
                ``self_cpu_time_total``, the same of ``device``, ``device_memory_usage``,
                ``self_device_memory_usage``, ``count``, ``flops``,
                ``cpu_time_min``, ``cpu_time_p50`` ..., or a counter. None keeps the order in which
                they began.
            row_limit: maximum number of rows; -1 for all.
            max_src_column_width: width of the columns of file and line and of stacks, in
                characters, >= 4; None for all.
            max_name_column_width: width of names, likewise.
            max_shapes_column_width: width of argument shapes, likewise.
            header: a line above the table.
            top_level_events_only: leave out nested events.
            time_unit: ``s``, ``ms`` or ``us``; None to choose one for each time.
            percentiles: also show percentiles of the host's times.

        Raises:
            UnknownNameError: the sort key or the unit does not exist.
            UsageError: a width or the limit is out of range.
        """
        widths = (max_name_column_width, max_shapes_column_width, max_src_column_width)
        _check(row_limit, widths, time_unit)
        if not self._entries:
            return ""
        rows = [each for each in self._entries if each.is_top_level or not top_level_events_only]
        rows = _sorted(rows, sort_by)
        rows = rows if row_limit < 0 else rows[:row_limit]
        columns = _columns(self._entries, widths, time_unit, percentiles)
        lines = _lines([Column(title, [text(row) for row in rows]) for title, text in columns])
        if header is not None:
            lines.insert(0, bounded(f"{header}"))
        return "\n".join([*lines, *_footer(self._entries, time_unit)]) + "\n"


class EventList(Entries[FunctionEvent]):
    """The result of `profile.events`, in the order in which events began."""

    def __init__(self, events: Iterable[FunctionEvent], *, has_shapes: bool = True) -> None:
        """Hold events; ``has_shapes``: the shapes of their arguments were recorded."""
        super().__init__(events)
        self._has_shapes = has_shapes

    def total_average(self) -> FunctionEventAvg:
        """Return the average of all of them; see `EventAverages.total_average`."""
        return total(self._entries)

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0
    ) -> EventAverages:
        """Return averages; see `profile.key_averages`."""
        if group_by_input_shape and not self._has_shapes:
            raise UsageError(
                "group_by_input_shape: no shapes were recorded.", hint="profile(record_shapes=True)"
            )
        return average(self._entries, group_by_input_shape, group_by_stack_n)

    def table(self, sort_by: str | None = None, row_limit: int = 100) -> str:
        """Return a table with a row for each event; see `EventAverages.table`."""
        rows = [FunctionEventAvg([e], e.input_shapes) for e in self._entries]
        return EventAverages(rows).table(sort_by=sort_by, row_limit=row_limit)


def _with_functions(events: Iterable[FunctionEvent]) -> Iterator[FunctionEvent]:
    for event in events:
        yield event
        if event.profile is not None and not event.profile_differs:
            yield from _functions_within(event, event.profile)


def _functions_within(event: FunctionEvent, profile: Profile) -> Iterator[FunctionEvent]:
    """Yield an event for each call path within a call on a board, callers first."""
    # Its ``count`` is how often it was called, its ``metrics`` are of these calls with all that
    # they call. It has no place in time.
    costs = _with_callees(profile)
    events = {CALL: event}
    for index, node in enumerate(profile.tree):
        if node.parent not in events or index in (INTERRUPTS, OTHER):
            continue
        symbol = profile.symbols[node.symbol]
        events[index] = FunctionEvent(
            symbol.name,
            "function",
            event.thread,
            event.start_ns,
            event.start_ns,
            id=event.id,
            base_ns=event.base_ns,
            board=event.board,
            metrics={
                name: Count(cost * event.count)
                for name, cost in zip(profile.columns, costs[index], strict=True)
            },
            count=max(1, node.calls * event.count),
            source=place_text(symbol.file, symbol.line),
            cpu_parent=events[node.parent],
        )
        yield events[index]


def _with_callees(profile: Profile) -> list[list[int]]:
    """Return the cost of each path with all below it."""
    costs = [[0] * len(profile.columns) for _ in profile.tree]
    for index, _, cost in profile.counts:
        costs[index] = [a + b for a, b in zip(costs[index], cost, strict=True)]
    for index in reversed(range(len(profile.tree))):  # callers come first
        parent = profile.tree[index].parent
        if parent >= 0:
            costs[parent] = [a + b for a, b in zip(costs[parent], costs[index], strict=True)]
    return costs


def average(
    events: Iterable[FunctionEvent], by_input_shape: bool = False, by_stack_n: int = 0
) -> EventAverages:
    """Aggregate events of equal key, shapes and innermost ``by_stack_n`` ranges, as asked for."""
    if not isinstance(by_stack_n, int) or by_stack_n < 0:
        raise UsageError(f"group_by_stack_n={by_stack_n!r} is out of range: 0 or more.")
    groups: dict[tuple[object, ...], list[FunctionEvent]] = {}
    for event in _with_functions(events):
        shapes = event.input_shapes if by_input_shape else None
        stack = event.stack[:by_stack_n] if by_stack_n else ()
        groups.setdefault((event.key, event.kind, event.board, shapes, stack), []).append(event)
    return EventAverages(
        FunctionEventAvg(
            group,
            group[0].input_shapes if by_input_shape else None,
            group[0].stack[:by_stack_n] if by_stack_n else (),
        )
        for group in groups.values()
    )


def total(events: Sequence[FunctionEvent]) -> FunctionEventAvg:
    """Return the average of events, as ``Total``."""
    if not events:
        raise UsageError("Cannot total an empty list.")
    return FunctionEventAvg(events, key="Total")


def _check(row_limit: int, widths: Sequence[int | None], time_unit: str | None) -> None:
    if not isinstance(row_limit, int) or row_limit < -1:
        raise UsageError(f"row_limit={row_limit!r} is out of range: 0 or more, or -1 for all.")
    for width in widths:
        if width is not None and (not isinstance(width, int) or width < len(_DOTS) + 1):
            raise UsageError(f"A column {width!r} wide is out of range: {len(_DOTS) + 1} or more.")
    if time_unit is not None and time_unit not in UNITS:
        raise UnknownNameError("unit of time", f"{time_unit}", UNITS)


def _sorted(rows: Sequence[FunctionEventAvg], sort_by: str | None) -> list[FunctionEventAvg]:
    """Sort in descending order, those without a value last."""
    if sort_by is None:
        return list(rows)
    names = _metric_names(rows)
    key = of_device(sort_by)
    if key in _SORTED_BY and sort_by not in names:
        values = [(getattr(row, key), row) for row in rows]
    elif (metric := metric_called(f"{sort_by}", names)) is not None:
        values = [(row.metric(metric), row) for row in rows]
    else:
        raise UnknownNameError("column to sort by", f"{sort_by}", (*_SORTED_BY, *names))
    known = [pair for pair in values if pair[0] is not None]
    known.sort(key=lambda pair: -pair[0])
    return [row for _, row in known] + [row for value, row in values if value is None]


def of_device(name: str) -> str:
    """Return our name of a column: ``self_cuda_time_total`` is the device's."""
    return f"{name}".replace("cuda", "device").replace("board", "device")


def _metric_names(rows: Sequence[FunctionEventAvg]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for row in rows for name in row.metric_names))


def _columns(
    rows: Sequence[FunctionEventAvg],
    widths: tuple[int | None, int | None, int | None],
    unit: str | None,
    percentiles: bool,
) -> list[_Column]:
    name_width, shapes_width, stack_width = widths

    def time(us: float | None) -> str:
        return time_text(us, unit)

    def own(row: FunctionEventAvg, us: float) -> float | None:
        """Return a time of the host's; a function within a call on a board has none."""
        return None if row.kind in WITHIN_CALLS else us

    whole = sum(row.self_cpu_time_total for row in rows)
    columns: list[_Column] = [
        ("Name", lambda r: _cut(r.key, name_width)),
        ("Self CPU %", lambda r: _percent(own(r, r.self_cpu_time_total), whole)),
        ("Self CPU", lambda r: time(own(r, r.self_cpu_time_total))),
        ("CPU total %", lambda r: _percent(own(r, r.cpu_time_total), whole)),
        ("CPU total", lambda r: time(own(r, r.cpu_time_total))),
        ("CPU time avg", lambda r: time(own(r, r.cpu_time))),
    ]
    if percentiles:
        columns += [
            ("CPU min", lambda r: time(own(r, r.cpu_time_min))),
            ("CPU p10", lambda r: time(own(r, r.cpu_time_p10))),
            ("CPU p50", lambda r: time(own(r, r.cpu_time_p50))),
            ("CPU p90", lambda r: time(own(r, r.cpu_time_p90))),
            ("CPU max", lambda r: time(own(r, r.cpu_time_max))),
        ]
    if any(row.device_time is not None for row in rows):
        board = _board_total(rows)
        columns += [
            ("Self BOARD", lambda r: time(r.self_device_time_total)),
            ("Self BOARD %", lambda r: _percent(r.self_device_time_total, board)),
            ("BOARD total", lambda r: time(r.device_time_total)),
            ("BOARD time avg", lambda r: time(r.device_time)),
        ]
    if any(row.device_memory_usage is not None for row in rows):
        columns += [
            ("Self BOARD Mem", lambda r: _bytes(r.self_device_memory_usage)),
            ("BOARD Mem", lambda r: _bytes(r.device_memory_usage)),
        ]
    columns += [_metric_column(name, unit) for name in _metric_names(rows)]
    columns.append(("# of Calls", lambda r: str(r.count)))
    if len({row.board for row in rows if row.board}) > 1:
        columns.append(("Board", lambda r: bounded(r.board)))
    if any(row.input_shapes for row in rows):
        columns.append(("Input Shapes", lambda r: _cut(r.input_shapes or "", shapes_width)))
    if any(row.source for row in rows):
        columns.append(("Source Location", lambda r: _cut(r.source, stack_width)))
    if any(row.stack for row in rows):
        columns.append(("Stack", lambda r: _cut(" < ".join(r.stack), stack_width)))
    return columns + _flops_columns(rows)


def _bytes(number: int | None) -> str:
    return UNKNOWN if number is None else f"{number:,} B"


def _metric_column(name: str, unit: str | None) -> _Column:
    is_time = name.endswith("(us)")
    title = f"{bounded(name.removesuffix(' (us)'))} avg"

    def text(row: FunctionEventAvg) -> str:
        value = row.metric(name)
        if value is None:
            return UNKNOWN
        mark = "~" if row.is_raw else ""
        if is_time:
            return mark + time_text(value, unit)
        return mark + (f"{value:,.0f}" if value == round(value) else f"{value:,.3f}")

    return title, text


def _flops_columns(rows: Sequence[FunctionEventAvg]) -> list[_Column]:
    """Return the column of operations, in the unit of the smallest non-zero number."""
    known = [row.flops for row in rows if row.flops]
    if not known:
        return []
    scale = 0
    while scale + 1 < len(_FLOPS) and min(known) >= 1000 ** (scale + 1):
        scale += 1

    def text(row: FunctionEventAvg) -> str:
        return UNKNOWN if row.flops is None else f"{row.flops / 1000**scale:.3f}"

    return [(f"Total {_FLOPS[scale]}", text)]


def _board_total(rows: Sequence[FunctionEventAvg]) -> float | None:
    """Return the total time of calls on boards; None if any is not known."""
    return sum_if_known([row.self_device_time_total for row in rows if row.kind in CALLS])


def _percent(part: float | None, whole: float | None) -> str:
    if part is None or whole is None or whole <= 0:
        return UNKNOWN
    return f"{100 * part / whole:.2f}%"


def _cut(text: str, width: int | None) -> str:
    """Return a text on one line, cut to a number of characters; None for all."""
    shown = bounded(text)
    if width is None or len(shown) <= width:
        return shown
    return shown[: width - len(_DOTS)] + _DOTS


def _lines(columns: Sequence[Column]) -> list[str]:
    head, *rows = plain([Table(columns)]).splitlines()
    widths = (max(map(display_width, (c.header, *c.cells))) for c in columns)
    rule = "  ".join("-" * width for width in widths)
    return [rule, head, rule, *rows, rule]


def _footer(rows: Sequence[FunctionEventAvg], unit: str | None) -> list[str]:
    lines = [f"Self CPU time total: {time_text(sum(r.self_cpu_time_total for r in rows), unit)}"]
    if any(r.device_time is not None for r in rows):
        board = _board_total(rows)
        text = "--, not known for all calls" if board is None else time_text(board, unit)
        lines.append(f"Self BOARD time total: {text}")
    lines += _untimed(rows)
    raw = (call for row in rows for event in row.events for call in event.calls if call.is_raw)
    lines += [f"~ raw: includes {what}." for what in dict.fromkeys(map(more_counted, raw))]
    return lines


def _untimed(rows: Sequence[FunctionEventAvg]) -> list[str]:
    """List the calls without a known time on a board, with the reasons."""
    calls: Counter[tuple[str, str]] = Counter()
    for event in (event for row in rows for event in row.events if event.untimed):
        calls[event.board, event.untimed] += event.count
    return [
        f"No BOARD time for {plural(count, 'call')} on {bounded(board)}: {why}."
        for (board, why), count in calls.items()
    ]
