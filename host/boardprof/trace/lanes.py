# SPDX-License-Identifier: Apache-2.0
"""Lanes of a thread in a trace file, on which slices nest as the events themselves do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from boardprof.trace.events import FunctionEvent
    from boardprof.trace.records import Thread

__all__ = ["lanes_of"]


def lanes_of(events: Sequence[FunctionEvent]) -> dict[FunctionEvent, int]:
    """Spread events over lanes, so that on each lane what lies within another stands in it.

    Programs that show a trace know nothing but time. What one task does while another one waits
    would stand in the other's range, if it were on the same lane.

    Args:
        events: of one trace, linked.

    Returns:
        Of each the number of its lane among those of its thread, from 1 on.
    """
    threads: dict[Thread, list[list[FunctionEvent]]] = {}
    lanes: dict[FunctionEvent, int] = {}
    for event in sorted(events, key=lambda each: (each.start_ns, each.id)):
        open_ones = threads.setdefault(event.thread, [])
        for lane in open_ones:
            while lane and lane[-1].end_ns <= event.start_ns:
                lane.pop()
        number = _place(event, open_ones)
        open_ones[number].append(event)
        lanes[event] = number + 1
    return lanes


def _place(event: FunctionEvent, lanes: list[list[FunctionEvent]]) -> int:
    """Return the lane on which its parent is the innermost, else one on which nothing is."""
    for number, lane in enumerate(lanes):
        if lane and lane[-1] is event.cpu_parent:
            return number
    for number, lane in enumerate(lanes):
        if not lane:
            return number
    lanes.append([])
    return len(lanes) - 1
