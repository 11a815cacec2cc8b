# SPDX-License-Identifier: Apache-2.0
"""Memory of boards over time, from the calls of a trace, in the forms of torch."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate

from boardprof.base.errors import BoardprofError, UsageError
from boardprof.compat.torch.board_activity import Action, CallProbes, MemoryChange
from boardprof.compat.torch.events import FunctionEvent
from boardprof.show.probe_tables import WITHOUT_MEMORY
from boardprof.target.elf.addresses import call_sites_of_build

CATEGORIES = 8
"""Of torch. The last one is memory whose use is not known, as all memory of a board."""

_UNKNOWN = CATEGORIES - 1


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


@dataclass(frozen=True)
class BoardMemory:
    """What happened to memory in all calls."""

    changes: tuple[MemoryChange, ...]  # in their order; first, what existed before the trace
    of_call: dict[FunctionEvent, tuple[MemoryChange, ...]]
    # no events dropped, and each block given back is known, or existed before
    exact: frozenset[FunctionEvent]
    # blocks given back that recording did not see taken, where existing ones are not counted
    unknown: int


def memory_of(events: Iterable[FunctionEvent], places: Places | None = None) -> BoardMemory:
    """Put the memory events of calls together; a block may be given back in a later call."""
    known = _Known(places or {})
    of_call: dict[FunctionEvent, tuple[MemoryChange, ...]] = {}
    exact: set[FunctionEvent] = set()
    for event in events:
        if event.probes is None:
            continue
        unknown = known.unknown
        of_call[event] = tuple(known.changes_of(event, event.probes))
        if known.unknown == unknown and not event.probes.dropped:
            exact.add(event)
    changes = [change for made in of_call.values() for change in made]
    given = known.given_unknown
    return BoardMemory((*known.existed, *changes), of_call, frozenset(exact), given)


class _Known:
    """The blocks that are live on each board, call by call."""

    def __init__(self, places: Places) -> None:
        """Know of none."""
        self._places = places
        self._live: dict[tuple[str, int], int] = {}
        self._counted: set[str] = set()
        self.existed: list[MemoryChange] = []
        self.unknown = self.given_unknown = 0

    def changes_of(self, event: FunctionEvent, probes: CallProbes) -> Iterator[MemoryChange]:
        """Yield the changes of a call."""
        board = event.board
        if probes.existed is not None and board not in self._counted:
            self._counted.add(board)
            if probes.existed:
                existed = MemoryChange(-1, Action.PREEXISTING, probes.existed, board)
                self.existed.append(existed)
        for each in probes.memory:
            time_ns = event.place_ns(each.time)
            size = self._live.pop((board, each.address), None)
            if each.is_taken:
                self.unknown += size is not None  # it was given back in between
            elif size is None and board in self._counted:
                size = each.size
            if size is not None:
                yield MemoryChange(time_ns, Action.DESTROY, size, board, each.address)
            elif not each.is_taken:
                self.unknown += 1
                self.given_unknown += 1
            if each.is_taken and each.size is not None:
                self._live[board, each.address] = each.size
                place = self._places.get((board, each.caller))
                stack = (*([place] if place else []), event.key, *event.stack)
                yield MemoryChange(time_ns, Action.CREATE, each.size, board, each.address, stack)


def raw_text(changes: Sequence[MemoryChange]) -> str:
    """Return each change as ``[ns, action, bytes, category]``."""
    return json.dumps([[c.time_ns, int(c.action), c.bytes, _UNKNOWN] for c in changes])


def sizes_text(changes: Sequence[MemoryChange]) -> str:
    """Return ``[times in us, bytes by category]``; each row of bytes begins with 0."""
    times, totals = _sizes(changes)
    rows = [[0] * CATEGORIES + [total] for total in totals]
    return json.dumps([times, rows])


def _sizes(changes: Sequence[MemoryChange]) -> tuple[list[int], list[int]]:
    placed = [c.time_ns for c in changes if c.action is not Action.PREEXISTING]
    if not placed:
        raise UsageError("The trace has no memory event of a board.", hint=WITHOUT_MEMORY)
    first_ns = placed[0]
    times = [(c.time_ns if c.time_ns >= 0 else first_ns) // 1000 for c in changes]
    return times, list(accumulate(change.bytes for change in changes))


_EXISTED = ("(before recording)",)
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
<table>
<tr><th>Taken by</th><th>Bytes at the peak</th><th>Bytes at the end</th><th>Blocks</th></tr>
{rows}
</table>
</html>
"""


def page_text(changes: Sequence[MemoryChange]) -> str:
    """Return a page that shows the live bytes over time, and where they were taken."""
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
        rows="\n".join(_rows(changes, totals.index(max(totals)))),
    )


def _rows(changes: Sequence[MemoryChange], peak: int) -> Iterator[str]:
    """Yield a row for each stack that has taken memory, that with the most at the peak first."""
    found: dict[tuple[str, ...], list[int]] = {}
    live: dict[tuple[str, int], MemoryChange] = {}
    for number, each in enumerate(changes):
        key = each.board, each.address
        begun = live.pop(key, None) if each.action is Action.DESTROY else each
        stack = begun.stack if begun is not None and begun.stack else _EXISTED
        row = found.setdefault(stack, [0, 0, 0])
        row[0] += each.bytes if number <= peak else 0
        row[1] += each.bytes
        if each.action is Action.CREATE:
            row[2] += 1
            live[key] = each
    for stack, (at_peak, at_end, blocks) in sorted(found.items(), key=lambda row: -row[1][0]):
        name = escape(" < ".join(stack))
        taken = f"{blocks:,}" if stack != _EXISTED else ""
        yield f"<tr><td>{name}</td><td>{at_peak:,}</td><td>{at_end:,}</td><td>{taken}</td></tr>"
