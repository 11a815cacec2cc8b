# SPDX-License-Identifier: Apache-2.0
"""Memory that firmware took and gave back while it was recorded: how much, when, and from where."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from boardprof.events.records import Events
from boardprof.events.timeline import Ints
from boardprof_protocol.codes import TraceId

UNKNOWN_CALLER = 0
"""Of blocks whose caller the board has dropped."""


@dataclass(frozen=True)
class CallSite:
    """A place in the code that took memory.

    Attributes:
        caller: the address to which the allocating function returns, low 32 bits;
            `UNKNOWN_CALLER` if it was dropped.
        blocks: that it took.
        bytes: of all of them.
        at_peak: bytes of those that were live when most was.
        at_end: bytes of those that were live when recording ended.
        blocks_at_end: how many these were.
    """

    caller: int
    blocks: int
    bytes: int
    at_peak: int
    at_end: int
    blocks_at_end: int


@dataclass(frozen=True)
class Heap:
    """What happened to memory. What was taken before recording began is in no number of bytes.

    Attributes:
        time: of each change, in ticks since recording began.
        live: bytes after it.
        sites: where memory was taken, that with the most live bytes at the peak first.
        blocks: that were taken.
        freed: of these, given back.
        freed_unknown: blocks given back that were taken before recording began, or whose begin was
            dropped.
        lost: blocks with a dropped event: their size is not known, or their address was taken again
            although they were not given back.
        failed: how often there was no memory.
    """

    time: Ints
    live: Ints
    sites: tuple[CallSite, ...]
    blocks: int
    freed: int
    freed_unknown: int
    lost: int
    failed: int

    @property
    def peak(self) -> int:
        """Most bytes that were live at a time."""
        return int(self.live.max()) if len(self.live) else 0

    @property
    def at_end(self) -> int:
        """Bytes that were live when recording ended."""
        return int(self.live[-1]) if len(self.live) else 0


def heap_of(cores: Iterable[Events]) -> Heap | None:
    """Return what happened to memory; None if the events say nothing of it.

    Args:
        cores: the events of each core. They share the memory.
    """
    found = [_memory_events(each) for each in cores]
    if not found:
        return None
    time, number, value = (np.concatenate(column) for column in zip(*found, strict=True))
    if not len(time):
        return None
    order = np.argsort(time, kind="stable")
    time, number, value = time[order], number[order], value[order]
    # Nothing is at address 0: free(NULL) does nothing, and malloc returns it if it fails.
    failed = (number == TraceId.ALLOC) & (value == 0)
    kept = np.flatnonzero((value != 0) & ((number == TraceId.ALLOC) | (number == TraceId.FREE)))
    is_alloc = number[kept] == TraceId.ALLOC
    following = np.minimum(kept[:, None] + (1, 2), len(number) - 1)
    has_size = is_alloc & (number[following[:, 0]] == TraceId.SIZE)
    has_caller = has_size & (number[following[:, 1]] == TraceId.CALLER)
    size = np.where(has_size, value[following[:, 0]], 0).astype(np.int64)
    caller = np.where(has_caller, value[following[:, 1]], UNKNOWN_CALLER).astype(np.int64)
    ends = _ends(value[kept], is_alloc)
    return _heap(time[kept], is_alloc, size, caller, ends, int(failed.sum()), has_size)


def _memory_events(
    events: Events,
) -> tuple[Ints, npt.NDArray[np.uint16], npt.NDArray[np.uint32]]:
    """Return time, number and value of the events of memory."""
    mine = np.isin(events.number, (TraceId.ALLOC, TraceId.SIZE, TraceId.CALLER, TraceId.FREE))
    return events.time[mine], events.number[mine], events.value[mine]


def _ends(address: npt.NDArray[np.uint32], is_alloc: npt.NDArray[np.bool_]) -> Ints:
    """Return for each event the next one of the same address; their number if there is none."""
    order = np.lexsort((np.arange(len(address)), address))
    same = address[order][1:] == address[order][:-1]
    ends = np.full(len(address), len(address), np.int64)
    ends[order[:-1][same]] = order[1:][same]
    return ends


def _heap(
    time: Ints,
    is_alloc: npt.NDArray[np.bool_],
    size: Ints,
    caller: Ints,
    ends: Ints,
    failed: int,
    has_size: npt.NDArray[np.bool_],
) -> Heap:
    count = len(time)
    begins = np.flatnonzero(is_alloc)
    end = ends[begins]
    ended = end < count
    change = size.copy()
    np.subtract.at(change, end[ended], size[begins[ended]])
    live = np.cumsum(change)
    is_known = np.zeros(count, np.bool_)
    is_known[end[ended]] = True
    taken_again = int((is_known & is_alloc).sum())
    peak = int(np.argmax(live)) if count else 0
    at_peak = (begins <= peak) & (end > peak)
    return Heap(
        time,
        live,
        _sites(caller[begins], size[begins], at_peak, ~ended),
        len(begins),
        int((is_known & ~is_alloc).sum()),
        int((~is_known & ~is_alloc).sum()),
        taken_again + int((is_alloc & ~has_size).sum()),
        failed,
    )


def _sites(
    caller: Ints, size: Ints, at_peak: npt.NDArray[np.bool_], at_end: npt.NDArray[np.bool_]
) -> tuple[CallSite, ...]:
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
    sites = [CallSite(*row) for row in rows]
    return tuple(sorted(sites, key=lambda each: (-each.at_peak, -each.bytes, each.caller)))
