# SPDX-License-Identifier: Apache-2.0
"""Nesting of events, by the contexts in which they began and by time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from boardprof.trace.events import FunctionEvent


CALLS = ("call", "measurement")
"""Kinds of events that run on boards."""


def nest(events: Sequence[FunctionEvent], around: Sequence[Sequence[FunctionEvent]]) -> None:
    """Link each event with the innermost one around it, and each call with all around it.

    An event is inside those that were open in its context when it began, if they did not end before
    it. A range of one task does not contain events of another, whatever their times. A profile's
    step is independent of tasks: it contains all events within its time on its thread.

    Args:
        events: in the order in which they began, which is the order of their ids.
        around: for each event, those open in its context when it began, innermost first.
    """
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


def covered_ns(events: Iterable[FunctionEvent]) -> int:
    """Return the time during which at least one of them ran: events of several tasks overlap."""
    covered = until = 0
    for event in sorted(events, key=lambda each: each.start_ns):
        covered += max(0, event.end_ns - max(until, event.start_ns))
        until = max(until, event.end_ns)
    return covered
