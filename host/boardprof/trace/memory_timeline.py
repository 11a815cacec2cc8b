# SPDX-License-Identifier: Apache-2.0
"""Memory of boards over time, from the calls of a trace, in the forms of torch."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from boardprof.errors import UsageError
from boardprof.trace.events import FunctionEvent

CATEGORIES = 8
"""Of torch. The last one is memory whose use is not known, as all memory of a board."""

_UNKNOWN = CATEGORIES - 1


class Action(IntEnum):
    """What happened to memory, by torch's numbers."""

    CREATE = 2
    DESTROY = 4


@dataclass(frozen=True)
class Change:
    """Memory was taken or given back.

    Attributes:
        time_ns: the host's clock. It lies inside the call, in proportion to the board's ticks.
        action: what happened.
        size: bytes.
    """

    time_ns: int
    action: Action
    size: int

    @property
    def bytes(self) -> int:
        """More bytes, or fewer."""
        return self.size if self.action is Action.CREATE else -self.size


@dataclass(frozen=True)
class BoardMemory:
    """What happened to memory in all calls.

    Attributes:
        changes: in their order.
        by_call: bytes taken less bytes given back, by call. It is left out where it is not exact:
            events were dropped, or a block was given back or taken again that was not known.
        unknown: blocks given back that recording did not see taken.
    """

    changes: tuple[Change, ...]
    by_call: dict[FunctionEvent, int]
    unknown: int


def memory_of(events: Iterable[FunctionEvent]) -> BoardMemory:
    """Put the memory events of calls together; a block may be given back in a later call."""
    live: dict[tuple[str, int], int] = {}
    changes: list[Change] = []
    by_call: dict[FunctionEvent, int] = {}
    unknown = 0
    for event in events:
        probes = event.probes
        if probes is None:
            continue
        first, is_exact = len(changes), not probes.dropped
        for each in probes.memory:
            time_ns = event.place_ns(each.time)
            key = event.board, each.address
            known = live.pop(key, None)
            is_exact &= (known is None) == (each.size is not None)
            if known is not None:
                changes.append(Change(time_ns, Action.DESTROY, known))
            elif each.size is None:
                unknown += 1
            if each.size is not None:
                live[key] = each.size
                changes.append(Change(time_ns, Action.CREATE, each.size))
        if is_exact:
            by_call[event] = sum(change.bytes for change in changes[first:])
    return BoardMemory(tuple(changes), by_call, unknown)


def raw_text(changes: Sequence[Change]) -> str:
    """Return each change as ``[ns, action, bytes, category]``."""
    return json.dumps([[c.time_ns, int(c.action), c.bytes, _UNKNOWN] for c in changes])


def sizes_text(changes: Sequence[Change]) -> str:
    """Return ``[times in us, bytes by category]``; each row of bytes begins with 0."""
    times, totals = _sizes(changes)
    rows = [[0] * CATEGORIES + [total] for total in totals]
    return json.dumps([times, rows])


def _sizes(changes: Sequence[Change]) -> tuple[list[int], list[int]]:
    if not changes:
        raise UsageError(
            "The trace has no memory event of a board.",
            hint="put BP_ALLOC and BP_FREE into the functions that take memory and give it back",
        )
    times, totals, total = [], [], 0
    for change in changes:
        total += change.bytes
        times.append(change.time_ns // 1000)
        totals.append(total)
    return times, totals


_WIDTH, _HEIGHT = 800, 300

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Memory of boards</title>
<h1>Memory of boards</h1>
<p>Most live bytes at a time: {peak:,}. At the end: {end:,}. From the first change to the last one:
{us:,} us.</p>
<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img"
 aria-label="live bytes over time"><path d="{path}" fill="none" stroke="currentColor"/></svg>
</html>
"""


def page_text(changes: Sequence[Change]) -> str:
    """Return a page that shows the live bytes over time."""
    times, totals = _sizes(changes)
    length, peak = max(1, times[-1] - times[0]), max(1, *totals)
    path = f"M0 {_HEIGHT}"
    for time, total in zip(times, totals, strict=True):
        x = (time - times[0]) * _WIDTH / length
        path += f"H{x:.1f}V{_HEIGHT - total * _HEIGHT / peak:.1f}"
    return _PAGE.format(
        peak=max(totals),
        end=totals[-1],
        us=times[-1] - times[0],
        width=_WIDTH,
        height=_HEIGHT,
        path=path,
    )
