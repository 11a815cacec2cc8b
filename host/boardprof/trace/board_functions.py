# SPDX-License-Identifier: Apache-2.0
"""The functions that run within a call on a board, as events: `profile` with ``with_stack``."""

from __future__ import annotations

from collections.abc import Iterator

from boardprof.metrics import Count
from boardprof.report.profile import CALL, INTERRUPTS, OTHER, Profile
from boardprof.trace.events import FunctionEvent


def functions_within(event: FunctionEvent) -> Iterator[FunctionEvent]:
    """Yield an event for each call path within a call on a board, callers first.

    Its ``count`` is how often it was called, its ``metrics`` are of these calls with all that they
    call. It has no place in time.
    """
    profile = event.profile
    if profile is None:
        return
    costs = _with_callees(profile)
    events = {CALL: event}
    for index, node in enumerate(profile.tree):
        if node.parent not in events or index in (INTERRUPTS, OTHER):
            continue
        events[index] = FunctionEvent(
            event.id,
            profile.symbols[node.symbol].name,
            "function",
            event.thread,
            event.start_ns,
            event.start_ns,
            event.base_ns,
            event.board,
            metrics={
                name: Count(cost * event.count)
                for name, cost in zip(profile.columns, costs[index], strict=True)
            },
            count=max(1, node.calls * event.count),
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
