# SPDX-License-Identifier: Apache-2.0
"""The events of a trace: calls and ranges of the host, nested."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from boardprof.metrics import Count, Duration, Metric
from boardprof.report.profile import Profile
from boardprof.trace.device_spans import DeviceSpan
from boardprof.trace.nesting import CALLS, covered_ns, nest
from boardprof.trace.recorder import Recorded
from boardprof.trace.records import Kind, Record, Thread
from boardprof.trace.time_texts import TimeTexts

__all__ = ["CALLS", "FunctionEvent", "Interval", "Trace", "make_trace"]

_STEP = "ProfilerStep#"


class Interval(NamedTuple):
    """From ``start`` to ``end``, in us from the beginning of the trace."""

    start: float
    end: float

    def elapsed_us(self) -> float:
        """Return its length, us."""
        return self.end - self.start


@dataclass(eq=False)
class FunctionEvent(TimeTexts):
    """A call of a board's function, a measurement, or a range of the host.

    Attributes:
        id: its index among the trace's events, from 0.
        name: of the range, or of the function; that of a measurement is ``profile(fir)``.
        kind: ``call``, ``measurement``, ``range`` or ``step``; of averages also ``function``, which
            is one that a call on a board has called.
        thread: of the host.
        start_ns: the host's clock when it began.
        end_ns: likewise when it ended.
        base_ns: likewise when the trace began.
        board: the called board; "" for a range. If boards of one name are at several ports, the
            second is ``NAME (2)``.
        input_shapes: arguments as Reports show them; None if not recorded.
        flops: operations by the formula registered for the function; None if unknown.
        metrics: counters of a call, or their sums over the samples of a measurement.
        is_raw: whether the counters include the agent's work on the call and its wait for the link,
            because the function has a result and the host opened a window around it.
        device_spans: when it ran by the board's clock.
        args: further facts about it.
        is_unfinished: it had not ended when the trace ended.
        error: name of the exception that ended it; "" for none.
        count: the number of calls that it stands for. For a measurement these are the calls in its
            samples, which all sums cover; else 1.
        untimed: why `device_time` is not known; "" if it is known, for ranges, and if
            `Results.diagnostics` gives the reason.
        profile: where the call spent what it cost, with ``with_stack``; else None.
        cpu_parent: the innermost event around it. This is one of its own task, or one that was open
            where the task was made; outside of tasks, one of its thread. None if it is outermost.
        cpu_children: the events directly inside it.
        calls_within: all calls and measurements inside it, at any depth.
    """

    id: int
    name: str
    kind: Kind
    thread: Thread
    start_ns: int
    end_ns: int
    base_ns: int
    board: str = ""
    input_shapes: str | None = None
    flops: int | None = None
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    device_spans: tuple[DeviceSpan, ...] = ()
    is_raw: bool = False
    args: Mapping[str, object] = field(default_factory=dict)
    is_unfinished: bool = False
    error: str = ""
    count: int = 1
    untimed: str = ""
    profile: Profile | None = field(default=None, repr=False)
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
        return (self.end_ns - self.start_ns - covered_ns(self.cpu_children)) / 1e3

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
        times = [call.self_device_time_total for call in self.calls]
        known = [time for time in times if time is not None]
        return sum(known) if known and len(known) == len(times) else None

    def metric_total(self, name: str) -> Metric | None:
        """Return a counter of the event, or its sum over all calls inside.

        None if any of them lacks it, or if the counts are from several boards and cannot be added.
        """
        found = [call.metrics.get(name) for call in self.calls]
        known = [metric for metric in found if metric is not None]
        if len(known) < len(found):
            return None
        if len(known) == 1:
            return known[0]
        return _added(known, on_one_board=len({call.board for call in self.calls}) == 1)

    @property
    def calls(self) -> list[FunctionEvent]:
        """The event itself, if it is a call or a measurement; else the calls inside it."""
        is_call = self.kind in CALLS or self.kind == "function"
        return [self, *self.calls_within] if is_call else self.calls_within

    @property
    def stack(self) -> tuple[str, ...]:
        """Keys of the events around it, innermost first."""
        keys: list[str] = []
        event = self.cpu_parent
        while event is not None:
            keys.append(event.key)
            event = event.cpu_parent
        return tuple(keys)

    @property
    def module_hierarchy(self) -> str:
        """The ranges around it, outermost first, separated by dots."""
        names: list[str] = []
        event = self.cpu_parent
        while event is not None:
            if event.kind == "range":
                names.append(event.name)
            event = event.cpu_parent
        return ".".join(reversed(names))


@dataclass(frozen=True)
class Trace:
    """A recorded trace.

    Attributes:
        events: in the order in which they began.
        marks: instants, as records.
        base_ns: the host's clock when it began.
        unix_ns: the time of day when it began.
        diagnostics: what is missing, and why.
        around_marks: the event around each mark that is inside one.
    """

    events: tuple[FunctionEvent, ...]
    marks: tuple[Record, ...]
    base_ns: int
    unix_ns: int
    diagnostics: tuple[str, ...]
    around_marks: Mapping[Record, FunctionEvent] = field(default_factory=dict)

    def and_then(self, later: Trace) -> Trace:
        """Return both traces as one."""
        shift = len(self.events)
        for event in later.events:
            event.id += shift
            event.base_ns = self.base_ns
        return Trace(
            (*self.events, *later.events),
            (*self.marks, *later.marks),
            self.base_ns,
            self.unix_ns,
            tuple(dict.fromkeys((*self.diagnostics, *later.diagnostics))),
            {**self.around_marks, **later.around_marks},
        )


Flops = Callable[[Record], int | None]
"""Returns the number of operations of one call."""


def make_trace(recorded: Recorded, flops: Flops) -> Trace:
    """Make events from records, and nest them."""
    marks = tuple(r for r in recorded.records if r.kind == "mark")
    others = sorted(
        (r for r in recorded.records if r.kind != "mark"), key=lambda record: record.start_ns
    )
    events = tuple(_event(i, record, recorded, flops) for i, record in enumerate(others))
    known = dict(zip(others, events, strict=True))
    nest(events, [tuple(_around(record, known)) for record in others])
    return Trace(
        events,
        marks,
        recorded.begin_ns,
        recorded.unix_ns,
        tuple(_diagnostics(recorded, events)),
        {mark: outer for mark in marks if (outer := next(_around(mark, known), None)) is not None},
    )


def _event(number: int, record: Record, recorded: Recorded, flops: Flops) -> FunctionEvent:
    one = flops(record)
    is_unfinished = record in recorded.unfinished
    end_ns = recorded.end_ns if is_unfinished or record.end_ns is None else record.end_ns
    return FunctionEvent(
        number,
        f"profile({record.name})" if record.kind == "measurement" else record.name,
        record.kind,
        record.thread,
        record.start_ns,
        max(record.start_ns, end_ns),
        recorded.begin_ns,
        record.board,
        record.shapes,
        None if one is None else one * record.calls,
        _metrics(record),
        recorded.spans.get(record, ()),
        record.is_raw,
        record.args,
        is_unfinished,
        record.error,
        record.calls,
        record.untimed,
        record.profile,
    )


def _metrics(record: Record) -> Mapping[str, Metric]:
    """Return the counters of a call; a profile counts what the board was not asked for."""
    profile = record.profile
    if profile is None:
        return record.metrics
    sums = {name: Count(profile.sum(name) * record.calls) for name in profile.columns}
    return {**sums, **record.metrics}


def _around(record: Record, events: Mapping[Record, FunctionEvent]) -> Iterator[FunctionEvent]:
    """Yield the recorded ranges that were open when a record began, innermost first."""
    outer = record.around
    while outer is not None:
        if outer in events:
            yield events[outer]
        outer = outer.around


def _diagnostics(recorded: Recorded, events: Sequence[FunctionEvent]) -> Iterable[str]:
    if recorded.unfinished:
        names = ", ".join(dict.fromkeys(record.name for record in recorded.unfinished))
        yield f"had not ended when the trace did, and are cut off there: {names}"
    for (board, metric), why in recorded.lacking.items():
        yield f"{metric} is not counted on {board}: {why}"
    for board, why in recorded.unprofiled.items():
        yield f"the functions within calls on {board} are not known: {why}"
    reasons: dict[tuple[str, str], int] = {}
    for event in events:
        for span in event.device_spans:
            if span.why_not:
                place = span.board, span.why_not
                reasons[place] = reasons.get(place, 0) + 1
    for (board, why), count in reasons.items():
        what = f"1 stretch on {board} has" if count == 1 else f"{count} stretches on {board} have"
        yield f"{what} no place on the host's time: {why}"


def _added(metrics: Sequence[Metric], *, on_one_board: bool) -> Metric | None:
    """Return a sum of times, or of one board's counts; ratios have no sum."""
    counts = [m.value for m in metrics if isinstance(m, Count)]
    times = [m.microseconds for m in metrics if isinstance(m, Duration)]
    if metrics and len(counts) == len(metrics) and on_one_board:
        return Count(sum(counts))
    return Duration(sum(times)) if metrics and len(times) == len(metrics) else None
