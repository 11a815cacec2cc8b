# SPDX-License-Identifier: Apache-2.0
"""Results of a profile once a trace is ready: events, averages, files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from boardprof.base.errors import UsageError
from boardprof.base.metrics import Count
from boardprof.compat.torch.events import FunctionEvent, FunctionEventAvg
from boardprof.compat.torch.export import (
    RESERVED_KEYS,
    TRACE_ID,
    chrome_trace_text,
    memory_changes,
    page_text,
    raw_text,
    sizes_text,
    stacks_text,
    write_text,
)
from boardprof.compat.torch.host_events import place_text
from boardprof.compat.torch.host_trace import HostTrace
from boardprof.compat.torch.settings import Settings
from boardprof.compat.torch.table import Entries, EventAverages, total
from boardprof.results.report.profile import CALL, INTERRUPTS, OTHER, Profile


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


class Results:
    """The last trace of a profile, which is ready in its handler and after its end."""

    def __init__(self, settings: Settings) -> None:
        """Begin without a trace."""
        self._settings = settings
        self._metadata: dict[str, object] = {}
        self._trace_id = ""
        self._trace: HostTrace | None = None
        self._is_running = False

    def events(self) -> EventList:
        """Return the events of the last trace, or of all traces with ``acc_events``.

        Raises:
            UsageError: no trace is ready.
        """
        return EventList(self._ready.events, has_shapes=self._settings.record_shapes)

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0
    ) -> EventAverages:
        """Return the events averaged by name.

        Args:
            group_by_input_shape: also group by the shapes and values of arguments.
            group_by_stack_n: also group by this many of the ranges around them, innermost first.

        Raises:
            UsageError: no trace is ready, shapes were not recorded, or the number is negative.
        """
        return self.events().key_averages(group_by_input_shape, group_by_stack_n)

    @property
    def diagnostics(self) -> tuple[str, ...]:
        """Notes on the last trace: what is missing, and why."""
        return self._ready.diagnostics

    @property
    def _ready(self) -> HostTrace:
        if self._trace is None:
            raise UsageError(
                "No trace is ready.",
                hint="ask in on_trace_ready, or after stop(); the schedule must have recorded",
            )
        return self._trace

    def get_trace_id(self) -> str:
        """Return the name that ``custom_trace_id_callback`` gave the last trace, else ""."""
        return self._trace_id

    def add_metadata(self, key: str, value: str) -> None:
        """Add a string to the metadata of exported traces.

        Raises:
            UsageError: it is not a string, or the trace already has this key.
        """
        if not isinstance(value, str):
            raise UsageError(
                f"The metadata {key!r:.60} is not a string: {value!r:.60}.",
                hint="add_metadata_json",
            )
        self._put(key, value)

    def add_metadata_json(self, key: str, value: str) -> None:
        """Add JSON to the metadata of exported traces.

        Raises:
            UsageError: the value is not JSON, or the trace already has this key.
        """
        try:
            found = json.loads(value)
            json.dumps(found, allow_nan=False)  # json.loads takes NaN and 1e999, JSON has neither
        except (TypeError, ValueError, RecursionError) as error:
            raise UsageError(
                f"The metadata {key!r} is not JSON: {error}.", hint="add_metadata takes a text"
            ) from error
        self._put(key, found)

    def _put(self, key: str, value: object) -> None:
        if not isinstance(key, str):
            raise UsageError(f"{key!r:.60} is not a key of metadata: it must be a string.")
        if key in RESERVED_KEYS:
            raise UsageError(
                f"{key!r} cannot be a key of metadata: the trace already has it.",
                hint=f"another name, such as {'my_' + key!r}",
            )
        self._metadata[key] = value

    def preset_metadata_json(self, key: str, value: str) -> None:
        """Do the same as `add_metadata_json` before the profile starts.

        Raises:
            UsageError: the profile is already running, or the value is not JSON.
        """
        if self._is_running:
            raise UsageError("preset_metadata_json comes before start().", hint="add_metadata_json")
        self.add_metadata_json(key, value)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the last trace in the format of Perfetto and chrome://tracing.

        Args:
            path: of the file; compressed if it ends in ``.gz``.

        Raises:
            UsageError: no trace is ready, or the file cannot be written.
        """
        metadata = {**self._settings.flags, **self._metadata}
        if self._trace_id:
            metadata[TRACE_ID] = self._trace_id
        write_text(path, chrome_trace_text(self._ready, metadata, self._settings))

    def export_stacks(
        self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total"
    ) -> None:
        """Write a line for each stack of ranges and calls, for flame graphs; times in whole ns.

        Args:
            path: of the file; compressed if it ends in ``.gz``.
            metric: ``self_cpu_time_total``, ``self_device_time_total`` (``cuda`` or ``board`` for
                ``device`` are the same), or a counter. If several boards have it, they are the
                outermost frames. ``device_memory_usage``, with ``profile_memory``, is the bytes
                that boards have taken; with ``with_stack`` file and line are the innermost frame.

        Raises:
            UnknownNameError: there is no such metric.
            UsageError: no trace is ready, no event has a value, or the file cannot be written.
        """
        write_text(path, stacks_text(self._ready, metric))

    def export_memory_timeline(
        self, path: str | os.PathLike[str], device: str | None = None
    ) -> None:
        """Write the memory of a board over time; all of it has torch's last category, unknown.

        A change lies inside its call, in proportion to the board's ticks. Times are of the day, as
        those of the exported trace: its ``baseTimeNanoseconds`` and the ``ts`` of an event.

        Args:
            path: of the file. ``.html`` is a page, ``.raw.json.gz`` has each change in ns, and
                ``.json``, ``.json.gz`` and others have ``[times in us, bytes by category]``.
            device: name of a board; None for the only one with memory, or for all on a page.

        Raises:
            UnknownNameError: no memory of such a board was recorded.
            UsageError: ``profile_memory`` was not set, no trace is ready, no board has memory
                events, several have and ``device`` does not choose one, some events were dropped,
                or the file cannot be written.
        """
        if not self._settings.profile_memory:
            raise UsageError(
                "export_memory_timeline needs memory that was recorded.",
                hint="profile(profile_memory=True)",
            )
        boards, name = memory_changes(self._ready, device), os.fsdecode(path)
        if name.endswith(".html"):
            write_text(path, page_text(boards))
            return
        if len(boards) > 1:
            raise UsageError(
                f"Memory of {len(boards)} boards was recorded, and such a file has one: "
                f"{', '.join(boards)}.",
                hint=f"device={next(iter(boards))!r}, or a page: {Path(name).stem}.html",
            )
        (changes,) = boards.values()
        is_raw = name.endswith(".raw.json.gz")
        write_text(path, raw_text(changes) if is_raw else sizes_text(changes))
