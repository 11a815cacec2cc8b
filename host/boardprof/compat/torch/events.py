# SPDX-License-Identifier: Apache-2.0
"""An event of a trace with the events inside it, and averages of events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np

from boardprof.base.errors import UsageError
from boardprof.base.metrics import Count, Duration, Metric, metric_called, raw_of
from boardprof.base.printable import escaped
from boardprof.compat.torch.board_activity import MemoryChange
from boardprof.compat.torch.host_events import HostEvent

CALLS = ("call", "measurement")
"""Kinds of events that run on boards."""

WITHIN_CALLS = ("function", "device_range")
"""Kinds of events within calls on boards. They have no time on the host."""

PROBES_COUNTED = "what recording its probes takes"

_STEP = "ProfilerStep#"
_N = TypeVar("_N", int, float)


UNKNOWN = "--"
"""Text of an unknown time, which is never 0."""

UNITS = {"s": 1e6, "ms": 1e3, "us": 1.0}
"""In us."""


def time_text(us: float | None, unit: str | None = None) -> str:
    """Return a time with three decimals, in a suitable unit or in the given one."""
    if us is None:
        return UNKNOWN
    if unit is None:
        unit = "s" if us >= 1e6 else "ms" if us >= 1e3 else "us"
    return f"{us / UNITS[unit]:.3f}{unit}"


def _text_of(name: str) -> property:
    def text(event: object) -> str:
        return time_text(getattr(event, name))

    return property(text, doc=f"See `{name}`.")


class TimeTexts:
    """Mixin for times as texts; ``--`` if not known."""

    cpu_time_str = _text_of("cpu_time")
    cpu_time_total_str = _text_of("cpu_time_total")
    self_cpu_time_total_str = _text_of("self_cpu_time_total")
    device_time_str = _text_of("device_time")
    device_time_total_str = _text_of("device_time_total")
    self_device_time_total_str = _text_of("self_device_time_total")


class Interval(NamedTuple):
    """From ``start`` to ``end``, in us from the beginning of the trace."""

    start: float
    end: float

    def elapsed_us(self) -> float:
        """Return its length, us."""
        return self.end - self.start


@dataclass(eq=False)
class FunctionEvent(HostEvent, TimeTexts):
    """A call of a board's function, a measurement, or a range of the host.

    Attributes:
        id: its index among the trace's events, from 0.
        name: of the range, or of the function; that of a measurement is ``profile(fir)``.
        kind: ``call``, ``measurement``, ``range`` or ``step``; of averages also ``function``, which
            is one that a call on a board has called, and with ``device_ranges`` also
            ``device_range``, which is a range on the board within the call around it.
        thread: of the host.
        start_ns: the host's clock when it began.
        end_ns: likewise when it ended.
        base_ns: likewise when the trace began.
        board: the called board; "" for a range. If boards of one name are at several ports, the
            second is ``NAME (2)``.
        input_shapes: arguments as Reports show them; None if not recorded.
        flops: operations by the formula registered for the function; None if unknown.
        metrics: counters of a call, or their sums over the samples of a measurement.
        is_raw: whether the counters include more than the function: the agent's work on the call
            and its wait for the link, because the function has a result and the host opened a
            window around it; or the time that probes of the function took to record.
        device_spans: when it ran by the board's clock.
        args: further facts about it.
        is_unfinished: it had not ended when the trace ended.
        error: name of the exception that ended it; "" for none.
        count: the number of calls that it stands for. For a measurement these are the calls in its
            samples, which all sums cover; else 1.
        untimed: why `device_time` is not known; "" if it is known, for ranges, and if
            `profile.diagnostics` gives the reason.
        profile: where the call spent what it cost, with ``with_stack``; else None. It is of a
            second call with the same arguments.
        profile_differs: how the counts of both calls contradict each other; "" if they do not, or
            were not both taken. If so, tables and files do not go into the call.
        probes: what the board's probes have recorded during the call; None if not asked for.
        self_device_memory_usage: bytes that the call has taken on the board, less those that it has
            given back; None if not recorded, or not exact: events were dropped, or a block was
            given back that recording did not see taken, and the agent does not count what existed.
        memory: these changes one by one, with ``profile_memory``. Those that take memory have a
            stack; with ``with_stack`` it begins with file and line.
        source: file and line of the function, such as ``fir.c:12``, with ``with_stack``; "" if not
            known, and for ranges.
        inputs: type and shape of each argument, if shapes were recorded.
        cpu_parent: the innermost event around it. This is one of its own task, or one that was open
            where the task was made; outside of tasks, one of its thread. None if it is outermost.
        cpu_children: the events directly inside it.
        calls_within: all calls and measurements inside it, at any depth.
    """

    end_ns: int = 0
    id: int = 0
    base_ns: int = 0
    flops: int | None = None
    is_unfinished: bool = False
    self_device_memory_usage: int | None = None
    memory: tuple[MemoryChange, ...] = field(default=(), repr=False)
    profile_differs: str = ""
    cpu_parent: FunctionEvent | None = field(default=None, repr=False)
    cpu_children: list[FunctionEvent] = field(default_factory=list, repr=False)
    calls_within: list[FunctionEvent] = field(default_factory=list, repr=False)

    @property
    def key(self) -> str:
        """The name under which it is averaged; all steps share one."""
        is_step = self.kind == "step" and self.name.startswith(_STEP)
        return "ProfilerStep*" if is_step else self.name

    @property
    def time_range(self) -> Interval:
        """Its start and end, in us from the beginning of the trace."""
        return Interval((self.start_ns - self.base_ns) / 1e3, (self.end_ns - self.base_ns) / 1e3)

    @property
    def cpu_time_total(self) -> float:
        """Its time on the host, waiting included, us."""
        return (self.end_ns - self.start_ns) / 1e3

    @property
    def self_cpu_time_total(self) -> float:
        """The same without nested events; overlapping events of several tasks count once."""
        return (self.end_ns - self.start_ns - _covered_ns(self.cpu_children)) / 1e3

    @property
    def cpu_time(self) -> float:
        """The same per call that it stands for, all work of measuring included, us."""
        return self.cpu_time_total / self.count

    @property
    def device_time(self) -> float | None:
        """`device_time_total` per call that it stands for, us."""
        total = self.device_time_total
        return None if total is None else total / self.count

    @property
    def self_device_time_total(self) -> float | None:
        """Its own time on the board, us; None if not known, or known only in simulated ticks."""
        known = [s.duration_us for s in self.device_spans if s.duration_us is not None]
        return sum(known) if known else None

    @property
    def device_time_total(self) -> float | None:
        """The same with nested events; None if any call's time is not known."""
        return sum_if_known([call.self_device_time_total for call in self.calls])

    @property
    def device_memory_usage(self) -> int | None:
        """`self_device_memory_usage` of all calls inside; None if that of any is not known."""
        return sum_if_known([call.self_device_memory_usage for call in self.calls])

    def metric_total(self, name: str) -> Metric | None:
        """Return a counter of the event, or its sum over all calls inside.

        None if any of them lacks it, or if the counts are from several boards and cannot be added.
        """
        found = [_named(call.metrics, name) for call in self.calls]
        known = [metric for metric in found if metric is not None]
        if len(known) < len(found):
            return None
        if len(known) == 1:
            return known[0]
        return _added(known, on_one_board=len({call.board for call in self.calls}) == 1)

    def place_ns(self, ticks: int) -> int:
        """Return the host's time of what the board's probes have recorded in the call.

        It lies between the call's begin and end, in proportion to the ticks since recording began.
        """
        if self.probes is None or not self.probes.end:
            return self.start_ns
        return self.start_ns + (self.end_ns - self.start_ns) * ticks // self.probes.end

    def self_metric(self, name: str) -> Metric | None:
        """Return a counter of a range on the board, without the ranges directly inside it."""
        name = metric_called(name, self.metrics) or name
        total = self.metrics.get(name)
        if self.kind != "device_range" or not isinstance(total, Count):
            return total
        inner = [each.metrics[name] for each in self.cpu_children]
        return Count(total.value - sum(each.value for each in inner if isinstance(each, Count)))

    @property
    def calls(self) -> list[FunctionEvent]:
        """The event itself, if it is a call or a measurement; else the calls inside it."""
        is_call = self.kind in CALLS or self.kind in WITHIN_CALLS
        return [self, *self.calls_within] if is_call else self.calls_within

    @property
    def stack(self) -> tuple[str, ...]:
        """The events around it, innermost first, each as its `frame`."""
        return tuple(event.frame for event in self._around())

    @property
    def frame(self) -> str:
        """``file.c:12 (name)`` with ``with_stack``; its key if file and line are not known."""
        return f"{self.source} ({self.key})" if self.source else self.key

    @property
    def module_hierarchy(self) -> str:
        """The ranges around it, outermost first, separated by dots."""
        kinds = ("range", "device_range")
        return ".".join(reversed([each.name for each in self._around() if each.kind in kinds]))

    def _around(self) -> Iterator[FunctionEvent]:
        """Yield the events around it, innermost first."""
        event = self.cpu_parent
        while event is not None:
            yield event
            event = event.cpu_parent


def sum_if_known(values: Sequence[_N | None]) -> _N | None:
    """Return the sum; None if any value is unknown, or if there are none."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def _named(metrics: Mapping[str, Metric], name: str) -> Metric | None:
    known = metric_called(name, metrics)
    return None if known is None else metrics[known]


def _added(metrics: Sequence[Metric], *, on_one_board: bool) -> Metric | None:
    """Return a sum of times, or of one board's counts; ratios have no sum."""
    counts = [m.value for m in metrics if isinstance(m, Count)]
    times = [m.microseconds for m in metrics if isinstance(m, Duration)]
    if metrics and len(counts) == len(metrics) and on_one_board:
        return Count(sum(counts))
    return Duration(sum(times)) if metrics and len(times) == len(metrics) else None


def _covered_ns(events: Iterable[FunctionEvent]) -> int:
    """Return the time during which at least one of them ran: events of several tasks overlap."""
    covered = until = 0
    for event in sorted(events, key=lambda each: each.start_ns):
        covered += max(0, event.end_ns - max(until, event.start_ns))
        until = max(until, event.end_ns)
    return covered


def more_counted(event: FunctionEvent) -> str:
    """Return what raw counters of a call include besides the function."""
    window = "the agent's work on the call and its wait for the link"
    return PROBES_COUNTED if event.probes is not None and event.probes.events else window


def _percentile(percent: float, doc: str) -> cached_property[float]:
    def percentile(average: FunctionEventAvg) -> float:
        return average.cpu_time_percentile(percent)

    percentile.__doc__ = doc
    return cached_property(percentile)


class FunctionEventAvg(TimeTexts):
    """Events of one key.

    Times are in us. A sum is None unless it is known for all events. A mean is per call: the sum
    over the events with a known value, divided by their calls. Percentiles are of the events' own
    means, interpolated between the nearest two.

    Attributes:
        key: their name; see `FunctionEvent.key`.
        kind: of the events; if they are of several kinds, that of the first.
        board: the called board; "" for ranges, and for several boards.
        input_shapes: of all of them, if they were grouped by it; else None.
        stack: the ranges around all of them, innermost first, if they were grouped by it.
        events: the aggregated events.
    """

    def __init__(
        self,
        events: Sequence[FunctionEvent],
        input_shapes: str | None = None,
        stack: tuple[str, ...] = (),
        key: str | None = None,
    ) -> None:
        """Aggregate one or more events; ``key`` is None to use their own."""
        self.events = tuple(events)
        self.key = events[0].key if key is None else key
        self.kind = events[0].kind
        self.board = events[0].board if len({event.board for event in events}) == 1 else ""
        self.input_shapes = input_shapes
        self.stack = stack

    def __repr__(self) -> str:
        """Return key, count and time."""
        return f"<{escaped(self.key)}: {self.count} calls, {self.cpu_time_total:.3f} us>"

    @property
    def name(self) -> str:
        """The same as `key`."""
        return self.key

    @property
    def count(self) -> int:
        """The number of calls that they stand for; ``len(events)`` is the number of events."""
        return sum(event.count for event in self.events)

    @property
    def is_top_level(self) -> bool:
        """Whether any of them is outside of all other events."""
        return any(event.cpu_parent is None for event in self.events)

    @cached_property
    def cpu_time_total(self) -> float:
        """Their total time on the host."""
        return sum(event.cpu_time_total for event in self.events)

    @cached_property
    def self_cpu_time_total(self) -> float:
        """The same without nested events."""
        return sum(event.self_cpu_time_total for event in self.events)

    @property
    def cpu_time(self) -> float:
        """Their mean time on the host."""
        return self.cpu_time_total / self.count

    @cached_property
    def device_time_total(self) -> float | None:
        """Their total time on boards, nested events included."""
        return sum_if_known([event.device_time_total for event in self.events if event.calls])

    @cached_property
    def self_device_time_total(self) -> float | None:
        """The same without nested events."""
        return sum_if_known([e.self_device_time_total for e in self.events if e.kind in CALLS])

    @property
    def device_time(self) -> float | None:
        """Their mean time on boards, over the events with a known time."""
        known = [(t, e.count) for e in self.events if (t := e.device_time_total) is not None]
        return sum(t for t, _ in known) / sum(count for _, count in known) if known else None

    @cached_property
    def device_memory_usage(self) -> int | None:
        """Bytes that their calls have taken on boards and not given back; None if not known."""
        return sum_if_known([event.device_memory_usage for event in self.events if event.calls])

    @cached_property
    def self_device_memory_usage(self) -> int | None:
        """The same without nested events."""
        return sum_if_known([e.self_device_memory_usage for e in self.events if e.kind in CALLS])

    @property
    def source(self) -> str:
        """File and line of their function, with ``with_stack``; "" if these are several."""
        found = {event.source for event in self.events}
        return found.pop() if len(found) == 1 else ""

    @cached_property
    def flops(self) -> int | None:
        """Operations of all of them; None if any is unknown."""
        return sum_if_known([event.flops for event in self.events])

    # -- spread ---------------------------------------------------------------------------------

    def cpu_time_percentile(self, percent: float) -> float:
        """Return the percentile of the host's time per call.

        Raises:
            UsageError: the percentage is not within 0 to 100.
        """
        if not isinstance(percent, int | float) or not 0 <= percent <= 100:
            raise UsageError(f"{percent!r:.60} is not a percentile from 0 to 100.")
        return float(np.percentile([event.cpu_time for event in self.events], percent))

    cpu_time_min = _percentile(0, "The shortest time.")
    cpu_time_p10 = _percentile(10, "The 10th percentile.")
    cpu_time_p50 = _percentile(50, "The median.")
    cpu_time_p90 = _percentile(90, "The 90th percentile.")
    cpu_time_max = _percentile(100, "The longest time.")

    # -- counters -------------------------------------------------------------------------------

    @cached_property
    def metric_names(self) -> tuple[str, ...]:
        """Names of counters that any of them, or any nested event, has."""
        calls = (call for event in self.events for call in event.calls)
        return tuple(dict.fromkeys(name for call in calls for name in call.metrics))

    @cached_property
    def is_raw(self) -> bool:
        """Whether any counter is raw; see `FunctionEvent.is_raw`."""
        return any(call.is_raw for event in self.events for call in event.calls)

    def metric(self, name: str) -> float | None:
        """Return the mean of a counter per call, in us for times; None if no event has it.

        Nested events are included. Counts on different boards are not comparable, so they have no
        mean.
        """
        name = metric_called(name, self.metric_names) or name
        found = [(event.metric_total(name), event.count) for event in self.events]
        known = [(metric, count) for metric, count in found if metric is not None]
        boards = {call.board for event in self.events for call in event.calls}
        is_time = all(isinstance(metric, Duration) for metric, _ in known)
        if not known or (len(boards) > 1 and not is_time):
            return None
        return sum(_over(metric, count) for metric, count in known) / sum(n for _, n in known)

    def self_metric(self, name: str) -> float | None:
        """Return the mean of a counter of ranges on a board, without the ranges inside them.

        For other events it is their own counter. None if any of them lacks it, or if they are on
        different boards.
        """
        name = metric_called(name, self.metric_names) or name
        found = [(event.self_metric(name), event.count) for event in self.events]
        known = [(metric, count) for metric, count in found if metric is not None]
        if len(known) < len(found) or len({event.board for event in self.events}) > 1:
            return None
        return sum(_over(metric, count) for metric, count in known) / sum(n for _, n in known)


def _over(metric: Metric, calls: int) -> float:
    """Return a metric per call from its sum; shares and ratios are not divided."""
    raw = raw_of(metric)
    assert not isinstance(raw, str)
    return raw if isinstance(metric, Count | Duration) else raw * calls
