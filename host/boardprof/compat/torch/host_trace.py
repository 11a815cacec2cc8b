# SPDX-License-Identifier: Apache-2.0
"""A recorded trace: events made of records, and nested by context and by time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from boardprof.base.errors import BoardprofError
from boardprof.base.metrics import Count, Metric
from boardprof.compat.torch.board_activity import Action, CallProbes, MemoryChange
from boardprof.compat.torch.events import CALLS, PROBES_COUNTED, FunctionEvent
from boardprof.compat.torch.host_events import HostEvent
from boardprof.compat.torch.recorder import Recorder
from boardprof.target.elf.addresses import call_sites_of_build


@dataclass(frozen=True)
class HostTrace:
    """A recorded trace."""

    events: tuple[FunctionEvent, ...]
    marks: tuple[HostEvent, ...]  # instants
    base_ns: int  # the host's clock when it began
    unix_ns: int  # the time of day when it began
    diagnostics: tuple[str, ...]  # what is missing, and why
    # the event around each mark that is inside one
    around_marks: Mapping[HostEvent, FunctionEvent] = field(default_factory=dict)
    places: Places = field(default_factory=dict)

    def and_then(self, later: HostTrace) -> HostTrace:
        """Return both traces as one."""
        shift = len(self.events)
        for event in later.events:
            event.id += shift
            event.base_ns = self.base_ns
        return HostTrace(
            (*self.events, *later.events),
            (*self.marks, *later.marks),
            self.base_ns,
            self.unix_ns,
            tuple(dict.fromkeys((*self.diagnostics, *later.diagnostics))),
            {**self.around_marks, **later.around_marks},
            {**self.places, **later.places},
        )


Flops = Callable[[HostEvent], int | None]
"""Returns the number of operations of one call."""


def make_trace(recorded: Recorder, flops: Flops) -> HostTrace:
    """Make events from records, and nest them."""
    settings = recorded.settings
    marks = tuple(r for r in recorded.records if r.kind == "mark")
    others = sorted(
        (r for r in recorded.records if r.kind != "mark"), key=lambda record: record.start_ns
    )
    events = tuple(_event(i, record, recorded, flops) for i, record in enumerate(others))
    known = dict(zip(others, events, strict=True))
    nest(events, [tuple(_around(record, known)) for record in others])
    has_places = settings.profile_memory and settings.with_stack
    places, why_not = memory_places(events) if has_places else ({}, ())
    unknown = 0
    if settings.profile_memory:
        memory = BoardMemory(events, places)
        unknown = memory.unknown
        for call, changes in memory.of_call.items():
            call.memory = changes
            if call in memory.exact:
                call.self_device_memory_usage = sum(change.bytes for change in changes)
    notes = (*_diagnostics(recorded, events), *_probe_notes(events, unknown), *why_not)
    notes = tuple(dict.fromkeys(notes))
    if any(settings.device_ranges.values()):
        events = tuple(_with_ranges(events))
        for number, event in enumerate(events):
            event.id = number
    return HostTrace(
        events,
        marks,
        recorded.begin_ns,
        recorded.unix_ns,
        notes,
        {mark: outer for mark in marks if (outer := next(_around(mark, known), None)) is not None},
        places,
    )


def _with_ranges(events: Iterable[FunctionEvent]) -> Iterator[FunctionEvent]:
    """Yield events, each followed by the ranges on the board within it."""
    for event in events:
        yield event
        probes = event.probes
        if probes is None:
            continue
        made: list[FunctionEvent] = []
        for each in probes.ranges:
            parent = made[each.parent] if each.parent >= 0 else event
            inner = FunctionEvent(
                each.name,
                "device_range",
                event.thread,
                event.start_ns,
                event.start_ns,
                base_ns=event.base_ns,
                board=event.board,
                metrics={probes.unit: Count(each.net)},
                cpu_parent=parent,
            )
            parent.cpu_children.append(inner)
            made.append(inner)
        yield from made


def _probe_notes(events: Iterable[FunctionEvent], unknown: int) -> Iterator[str]:
    """Say what the probes of boards have not recorded."""
    for event in events:
        probes = event.probes
        if probes is not None and probes.dropped:
            yield f"{event.board} dropped {probes.dropped} events of probes during {event.name}"
        if probes is not None and probes.events and event.is_raw:
            yield f"the counters of {event.name} on {event.board} include {PROBES_COUNTED}"
        if probes is not None and probes.unmatched:
            yield (
                f"{probes.unmatched} begins or ends of ranges during {event.name} on "
                f"{event.board} have no partner"
            )
    if unknown:
        yield f"{unknown} blocks were given back that recording did not see taken"


def _contradicted(record: HostEvent) -> str:
    """Return how the count of a call differs from that of its second, recorded call; "" if not."""
    profile = record.profile
    if profile is None or record.is_raw:
        return ""
    for name, counted in profile.counted.items():
        own = record.metrics.get(name)
        recorded = counted * record.count
        # A clock that is simulated has steps.
        may_differ = max(2.0, 0.02 * recorded) if name == "ticks" else 0
        if isinstance(own, Count) and abs(own.value - recorded) > may_differ:
            calls = "this one" if record.count == 1 else "these calls"
            return f"{calls} took {own.value:,} {name}, and the recorded one {recorded:,}"
    return ""


def _is_compared(record: HostEvent) -> bool:
    """Tell whether the board has counted what the recorded call is held against."""
    profile = record.profile
    return profile is None or (
        not record.is_raw and not profile.counted.keys().isdisjoint(record.metrics)
    )


def _event(number: int, record: HostEvent, recorded: Recorder, flops: Flops) -> FunctionEvent:
    one = flops(record)
    is_unfinished = record in recorded.unfinished
    end_ns = recorded.end_ns if is_unfinished or record.end_ns is None else record.end_ns
    known: dict[str, Any] = {each.name: getattr(record, each.name) for each in fields(record)}
    known |= {
        "name": f"profile({record.name})" if record.kind == "measurement" else record.name,
        "end_ns": max(record.start_ns, end_ns),
        "around": None,
        "metrics": _metrics(record),
    }
    return FunctionEvent(
        **known,
        id=number,
        base_ns=recorded.begin_ns,
        flops=None if one is None else one * record.count,
        is_unfinished=is_unfinished,
        profile_differs=_contradicted(record),
    )


def _metrics(record: HostEvent) -> Mapping[str, Metric]:
    """Return the counters of a call; a profile counts what the board was not asked for."""
    profile = record.profile
    if profile is None or _contradicted(record):
        return record.metrics
    sums = {name: Count(profile.sum(name) * record.count) for name in profile.columns}
    return {**sums, **record.metrics}


def _around(
    record: HostEvent, events: Mapping[HostEvent, FunctionEvent]
) -> Iterator[FunctionEvent]:
    """Yield the recorded ranges that were open when a record began, innermost first."""
    outer = record.around
    while outer is not None:
        if outer in events:
            yield events[outer]
        outer = outer.around


def _diagnostics(recorded: Recorder, events: Sequence[FunctionEvent]) -> Iterable[str]:
    if recorded.unfinished:
        names = ", ".join(dict.fromkeys(record.name for record in recorded.unfinished))
        yield f"had not ended when the trace did, and are cut off there: {names}"
    for (board, metric), why in recorded.lacking.items():
        yield f"{metric} is not counted on {board}: {why}"
    for board, why in recorded.unprofiled.items():
        yield f"the functions within calls on {board} are not known: {why}"
    for event in events:
        if event.profile_differs:
            yield (
                f"the functions within {event.name} on {event.board} are not known: a second call "
                f"was made to record them, and did other work: {event.profile_differs}"
            )
    for board in dict.fromkeys(r.board for r in recorded.records if not _is_compared(r)):
        yield (
            f"the functions within calls on {board} are those of second calls with the same "
            "arguments; a function that keeps a state may do other work in them"
        )
    spans = (span for event in events for span in event.device_spans if span.why_not)
    reasons = Counter((span.board, span.why_not) for span in spans)
    for (board, why), count in reasons.items():
        what = f"1 stretch on {board} has" if count == 1 else f"{count} stretches on {board} have"
        yield f"{what} no place on the host's time: {why}"


# -- nesting ------------------------------------------------------------------------------------


def nest(events: Sequence[FunctionEvent], around: Sequence[Sequence[FunctionEvent]]) -> None:
    """Link each event with the innermost one around it, and each call with all around it."""
    # An event is inside those that were open in its context when it began, if they did not end
    # before it. A range of one task does not contain events of another, whatever their times. A
    # profile's step is independent of tasks: it contains all events within its time on its thread.
    within: dict[FunctionEvent, list[FunctionEvent]] = {}
    steps: dict[int, list[FunctionEvent]] = {}  # by thread, those that have not ended
    for event, opened in zip(events, around, strict=True):
        here = [s for s in steps.get(event.thread.id, []) if s.end_ns > event.start_ns]
        holders = _holders(event, opened, here, within)
        within[event] = holders
        _link(event, holders, within)
        if event.kind == "step":
            here = [*here, event]
        steps[event.thread.id] = here


def _holders(
    event: FunctionEvent,
    opened: Sequence[FunctionEvent],
    steps: Sequence[FunctionEvent],
    within: dict[FunctionEvent, list[FunctionEvent]],
) -> list[FunctionEvent]:
    """Return the events that contain an event completely, latest start first."""
    found: dict[FunctionEvent, None] = {}
    for each in opened:
        if each in found:  # with all that hold it
            continue
        # An event that ended at the instant when this one began was not open, unless it is in this
        # one's context.
        if each.end_ns >= event.end_ns and (each.end_ns > event.start_ns or each is opened[0]):
            found |= dict.fromkeys([each, *within[each]])
    if event.kind != "step":
        found |= dict.fromkeys(s for s in steps if s.end_ns >= event.end_ns)
    return sorted(found, key=lambda holder: -holder.id)


def _link(
    event: FunctionEvent,
    holders: Sequence[FunctionEvent],
    within: dict[FunctionEvent, list[FunctionEvent]],
) -> None:
    held = set(holders)
    # A step may be in a range of the task that made it. That range does not contain other tasks'
    # events.
    parent = next((each for each in holders if held.issuperset(within[each])), None)
    if parent is not None:
        event.cpu_parent = parent
        parent.cpu_children.append(event)
    if event.kind in CALLS:
        for each in holders:
            each.calls_within.append(event)


# -- memory -------------------------------------------------------------------------------------


Places = Mapping[tuple[str, int], str]
"""File and line by board and return address."""


def memory_places(events: Iterable[FunctionEvent]) -> tuple[Places, list[str]]:
    """Return file and line of the calls that took memory, and reasons where they are not known."""
    callers: dict[tuple[str, tuple[str, str]], set[int]] = {}
    for event in events:
        if event.probes is not None and event.probes.memory:
            found = callers.setdefault((event.board, event.probes.image), set())
            found |= {each.caller for each in event.probes.memory}
    places: dict[tuple[str, int], str] = {}
    reasons: list[str] = []
    for (board, image), addresses in callers.items():
        try:
            known = call_sites_of_build(*image, addresses)
        except BoardprofError as error:
            reasons.append(f"where memory on {board} was taken is not known: {error.message}")
        else:
            places |= {(board, address): text for address, text in known.items()}
    return places, reasons


class BoardMemory:
    """What happened to memory in all calls; a block may be given back in a later call."""

    def __init__(self, events: Iterable[FunctionEvent], places: Places | None = None) -> None:
        """Put the memory events of calls together."""
        self.of_call: dict[FunctionEvent, tuple[MemoryChange, ...]] = {}
        # no events dropped, and each block given back is known, or existed before
        self.exact: set[FunctionEvent] = set()
        # blocks given back that recording did not see taken, where existing ones are not counted
        self.unknown = 0
        self._places = places or {}
        self._live: dict[tuple[str, int], int] = {}
        self._existed: dict[str, int] = {}  # by board that counts it
        for event in events:
            if event.probes is not None:
                self._add(event, event.probes)
        existed = ((board, size) for board, size in self._existed.items() if size)
        before = (MemoryChange(-1, Action.PREEXISTING, size, board) for board, size in existed)
        # in their order; first, what existed before the trace
        self.changes = (*before, *(change for made in self.of_call.values() for change in made))

    def _add(self, event: FunctionEvent, probes: CallProbes) -> None:
        board, changes = event.board, list[MemoryChange]()
        is_exact = not probes.dropped
        if probes.existed is not None:
            self._existed.setdefault(board, probes.existed)
        for each in probes.memory:
            # Before the end of its call: a reader finds the call by the time.
            time_ns = min(event.place_ns(each.time), max(event.start_ns, event.end_ns - 1))
            size = self._live.pop((board, each.address), None)
            if each.is_taken:
                is_exact &= size is None  # else it was given back in between
            elif size is None and board in self._existed:
                size = each.size
            if size is not None:
                changes.append(MemoryChange(time_ns, Action.DESTROY, size, board, each.address))
            elif not each.is_taken:
                is_exact = False
                self.unknown += 1
            if each.is_taken and each.size is not None:
                self._live[board, each.address] = each.size
                place = self._places.get((board, each.caller))
                stack = (*([place] if place else []), event.key, *event.stack)
                taken = MemoryChange(time_ns, Action.CREATE, each.size, board, each.address, stack)
                changes.append(taken)
        self.of_call[event] = tuple(changes)
        if is_exact:
            self.exact.add(event)
