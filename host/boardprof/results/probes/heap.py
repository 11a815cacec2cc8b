# SPDX-License-Identifier: Apache-2.0
"""Memory that firmware took and gave back while it was recorded: how much, when, and from where."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from boardprof.results.probes.core_events import Ints
from boardprof.results.probes.events import Events
from boardprof.results.probes.timeline import Timeline
from boardprof_protocol.codes import TraceId

UNKNOWN_CALLER = 0  # of blocks whose caller the board has dropped, or does not know
BEFORE = -1  # stands for the caller of blocks that existed before recording
_MOST_LIVE = 1 << 31  # an agent that has seen more blocks given back than taken counts below zero


@dataclass(frozen=True)
class MemoryEvents:
    """The events of memory, in columns."""

    time: Ints  # ticks since recording began
    number: Ints  # ALLOC, FREE or LIVE
    value: Ints  # address of the block; of LIVE, the number of blocks
    size: Ints  # bytes; -1 if not known
    caller: Ints  # to which the allocating function returns, or `UNKNOWN_CALLER`

    def __len__(self) -> int:
        """Return how many events there are."""
        return len(self.time)

    def at(self, where: npt.NDArray[np.generic]) -> MemoryEvents:
        """Return the events at some places, or those in a mask."""
        return MemoryEvents(*(getattr(self, each.name)[where] for each in fields(self)))


def memory_events(events: Events) -> MemoryEvents:
    """Return the events of memory of one core. Some of these are given by several records."""
    number = events.number
    where = np.flatnonzero(np.isin(number, (TraceId.ALLOC, TraceId.FREE, TraceId.LIVE)))

    def following(at: Ints) -> Ints:
        after = np.minimum(at + 1, len(number) - 1)
        found: Ints = np.minimum(after + (number[after] == TraceId.HIGH), len(number) - 1)
        return found

    size = following(where)
    caller = following(size)
    has_size = number[size] == TraceId.SIZE
    has_caller = has_size & (number[caller] == TraceId.CALLER)
    return MemoryEvents(
        events.time[where],
        number[where].astype(np.int64),
        events.whole(where),
        np.where(has_size, events.whole(size), -1),
        np.where(has_caller, events.whole(caller), UNKNOWN_CALLER),
    )


@dataclass(frozen=True)
class CallSite:
    """A place in the code that took memory."""

    caller: int  # address; `UNKNOWN_CALLER`, or `BEFORE` for older blocks
    blocks: int
    bytes: int  # of all blocks
    at_peak: int  # bytes of those that were live when most was
    at_end: int  # bytes of those that were live when recording ended
    blocks_at_end: int


@dataclass(frozen=True)
class Heap:
    """What happened to memory.

    What was taken before recording began is in the live bytes if the agent counts it. Its bytes are
    those that the allocator has set aside. Those of other blocks are what was asked for.
    """

    time: Ints  # of each change, in ticks since recording began
    live: Ints  # bytes after it
    sites: tuple[CallSite, ...]  # that with the most live bytes at the peak first
    before: CallSite | None  # older blocks, as one of the sites; None if not counted
    blocks: int  # taken while recording
    freed: int  # of these, given back
    freed_before: int  # of those that existed before, given back
    freed_unknown: int  # given back, not seen taken, and not known to exist before
    lost: int  # by dropped events: of unknown size, or taken again without a release
    failed: int  # how often there was no memory
    dropped: int  # events of any kind; if there are some, no number is exact

    @property
    def peak(self) -> int:
        """Most bytes that were live at a time."""
        return int(self.live.max()) if len(self.live) else 0

    @property
    def at_end(self) -> int:
        """Bytes that were live when recording ended."""
        return int(self.live[-1]) if len(self.live) else 0


def heap_of(cores: Iterable[Timeline]) -> Heap | None:
    """Return what happened to the memory that cores share; None if no event is of memory."""
    lines = list(cores)
    found = []
    for line in lines:
        own = memory_events(line.events)
        found.append(replace(own, time=line.common(own.time)))
    if not any(map(len, found)):
        return None
    names = [field.name for field in fields(MemoryEvents)]
    events = MemoryEvents(*(np.concatenate([getattr(m, name) for m in found]) for name in names))
    events = events.at(np.argsort(events.time, kind="stable"))
    # Nothing is at address 0: free(NULL) does nothing, and malloc returns it if it fails.
    is_nothing = (events.value == 0) & (events.number != TraceId.LIVE)
    failed = int((is_nothing & (events.number == TraceId.ALLOC)).sum())
    dropped = sum(line.dropped for line in lines)
    return _heap(events.at(~is_nothing), failed, dropped)


def _ends(address: Ints) -> Ints:
    """Return for each event the next one of the same address; their number if there is none."""
    order = np.lexsort((np.arange(len(address)), address))
    same = address[order][1:] == address[order][:-1]
    ends = np.full(len(address), len(address), np.int64)
    ends[order[:-1][same]] = order[1:][same]
    return ends


def _heap(events: MemoryEvents, failed: int, dropped: int) -> Heap:
    count = len(events)
    size = np.maximum(events.size, 0)
    is_alloc, is_live = events.number == TraceId.ALLOC, events.number == TraceId.LIVE
    ends = _ends(np.where(is_live, -1 - np.arange(count), events.value))
    begins = np.flatnonzero(is_alloc)
    end = ends[begins]
    ended = end < count
    change = np.where(is_alloc, size, 0)
    np.subtract.at(change, end[ended], size[begins[ended]])
    is_known = np.zeros(count, np.bool_)
    is_known[end[ended]] = True
    unknown = np.flatnonzero(~is_known & ~is_alloc & ~is_live)
    before = _blocks_before(events, is_live)
    left = np.zeros(count, np.int64)  # bytes of `before` that are live after each event
    freed_before = blocks = place = 0
    if before is not None:
        place, blocks = before
        unknown_after = unknown[unknown > place]
        given = np.zeros(count, np.int64)
        given[unknown_after] = size[unknown_after]
        left = np.maximum(size[place] - np.cumsum(given), 0)
        left[:place] = 0
        freed_before = min(len(unknown_after), blocks)
    live = np.cumsum(change) + left
    peak = int(np.argmax(live)) if count else 0
    at_peak = (begins <= peak) & (end > peak)
    sites = _sites(events.caller[begins], size[begins], at_peak, ~ended)
    existed = None
    if before is not None:
        sizes = int(size[place]), int(left[peak]), int(left[-1])
        existed = CallSite(BEFORE, blocks, *sizes, blocks - freed_before)
        sites += [existed] if blocks else []
    return Heap(
        events.time,
        live,
        tuple(sorted(sites, key=lambda each: (-each.at_peak, -each.bytes, each.caller))),
        existed,
        len(begins),
        int((is_known & ~is_alloc).sum()),
        freed_before,
        len(unknown) - freed_before,
        int((is_known & is_alloc).sum()) + int((events.size[begins] < 0).sum()),
        failed,
        dropped,
    )


def _blocks_before(events: MemoryEvents, is_live: npt.NDArray[np.bool_]) -> tuple[int, int] | None:
    """Return where an event says what existed before, and how many blocks; None if not known."""
    found = np.flatnonzero(is_live & (events.size >= 0))
    if not len(found):
        return None
    place = int(found[0])
    blocks, size = int(events.value[place]), int(events.size[place])
    return (place, blocks) if blocks < _MOST_LIVE and size < _MOST_LIVE else None


def _sites(
    caller: Ints, size: Ints, at_peak: npt.NDArray[np.bool_], at_end: npt.NDArray[np.bool_]
) -> list[CallSite]:
    callers, site = np.unique(caller, return_inverse=True)

    def sums(values: npt.NDArray[np.generic]) -> Ints:
        found = np.zeros(len(callers), np.int64)
        np.add.at(found, site, values)
        return found

    columns = (
        callers,
        sums(np.ones_like(size)),
        sums(size),
        sums(np.where(at_peak, size, 0)),
        sums(np.where(at_end, size, 0)),
        sums(at_end),
    )
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [CallSite(*row) for row in rows]
