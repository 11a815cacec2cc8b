# SPDX-License-Identifier: Apache-2.0
"""Which event stands in which: by the contexts in which they began, and by time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from boardprof.trace.events import FunctionEvent

__all__ = ["CALLS", "covered_ns", "nest"]

CALLS = ("call", "measurement")
"""Kinds of events that run on boards."""


def nest(events: Sequence[FunctionEvent], around: Sequence[Sequence[FunctionEvent]]) -> None:
    """Link each event with the innermost one that holds it, and each call with all that do.

    What was open in the context of an event when it began holds it, if it has not ended before: a
    range of one task is nothing to the events of another, however their times lie. A step of a
    profile is no matter of one task: it holds whatever lies within its time on its thread.

    Args:
        events: in the order in which they began, which their ids tell.
        around: of each, those that were open in its context when it began, the innermost first.
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
    """Return what holds an event as a whole, that which began last first."""
    found: dict[FunctionEvent, None] = {}
    for each in opened:
        if each in found:  # with all that hold it
            continue
        # One that ended at the instant in which this began was not open, unless this is its own.
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
    # A step may stand in a range of the task that made it, which does not hold what others do.
    parent = next((each for each in holders if held.issuperset(within[each])), None)
    if parent is not None:
        event.cpu_parent = parent
        parent.cpu_children.append(event)
    if event.kind in CALLS:
        for each in holders:
            each.calls_within.append(event)


def covered_ns(events: Iterable[FunctionEvent]) -> int:
    """Return how long at least one of them was under way: those of several tasks overlap."""
    covered = until = 0
    for event in sorted(events, key=lambda each: each.start_ns):
        covered += max(0, event.end_ns - max(until, event.start_ns))
        until = max(until, event.end_ns)
    return covered
