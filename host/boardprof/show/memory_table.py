# SPDX-License-Identifier: Apache-2.0
"""The memory that firmware took while it was recorded, as text: how much, and from where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from boardprof.base.errors import UsageError
from boardprof.results.probes.heap import BEFORE, UNKNOWN_CALLER, CallSite, Heap, heap_of
from boardprof.results.probes.recording import ProbeRecording
from boardprof.show.cells import plural
from boardprof.show.layout import Column, Page, Table, plain

WITHOUT_MEMORY = (
    "record malloc and free (trace --heap, or BP_CFG_TRACE_HEAP), or put BP_ALLOC and BP_FREE into "
    "functions that take memory and give it back"
)
"""What to try if a recording has no event of memory."""


def render_memory(recording: ProbeRecording, places: Mapping[int, str] | None = None) -> str:
    """Return the memory of a recording by call site.

    Args:
        recording: what was recorded.
        places: file and line of callers, by address. Others are shown by their address.

    Raises:
        UsageError: it says nothing of memory.
        DecodeError: it is damaged.
    """
    heap = heap_of(recording.timelines().values())
    if heap is None:
        raise UsageError(
            f"The recording of {recording.facts.board} says nothing of memory.",
            hint=WITHOUT_MEMORY,
        )
    return plain(memory_page(heap, places or {}))


def memory_page(heap: Heap, places: Mapping[int, str]) -> Page:
    """Return the call sites, and what is to say of all of them; see `render_memory`."""
    return [sites_table(heap, places), "", *memory_notes(heap)]


def sites_table(heap: Heap, places: Mapping[int, str]) -> Table:
    """Return the call sites, that with the most live bytes at the peak first.

    Several calls in one line are one site.
    """
    by_name: dict[str, CallSite] = {}
    for each in heap.sites:
        name = site_name(each, places)
        by_name[name] = _sum(by_name[name], each) if name in by_name else each
    rows = sorted(by_name.items(), key=lambda row: (-row[1].at_peak, -row[1].bytes, row[0]))
    names, sites = [name for name, _ in rows], [site for _, site in rows]
    return Table(
        [
            Column("Call site", names, is_text=True),
            Column("At peak (bytes)", [f"{each.at_peak:,}" for each in sites]),
            Column("At end (bytes)", [f"{each.at_end:,}" for each in sites]),
            Column("Blocks at end", [f"{each.blocks_at_end:,}" for each in sites]),
            Column("Taken (bytes)", [f"{each.bytes:,}" for each in sites]),
            Column("Blocks", [f"{each.blocks:,}" for each in sites]),
        ]
    )


def _sum(one: CallSite, other: CallSite) -> CallSite:
    return CallSite(
        one.caller,
        one.blocks + other.blocks,
        one.bytes + other.bytes,
        one.at_peak + other.at_peak,
        one.at_end + other.at_end,
        one.blocks_at_end + other.blocks_at_end,
    )


def site_name(site: CallSite, places: Mapping[int, str]) -> str:
    """Return file and line of a call site, else its address."""
    if site.caller == UNKNOWN_CALLER:
        return "(not known)"
    if site.caller == BEFORE:
        return "(before recording)"
    return places.get(site.caller) or f"{site.caller:#x}"


def memory_notes(heap: Heap) -> Iterator[str]:
    """Yield what is to say of all memory."""
    yield (
        f"Peak {heap.peak:,} bytes; {heap.at_end:,} bytes live at the end. "
        f"{plural(heap.blocks, 'block')} taken, {heap.freed:,} given back."
    )
    if heap.before is not None and not heap.before.blocks:
        yield "No block existed before recording."
    elif heap.before is not None:
        yield (
            f"{plural(heap.before.blocks, 'block')} of {heap.before.bytes:,} bytes existed before "
            f"recording, {heap.freed_before:,} of these given back."
        )
    if heap.freed_unknown:
        yield (
            f"{plural(heap.freed_unknown, 'block')} given back that recording did not see taken: "
            "they existed before it, a shared C library took them, or the event was dropped."
        )
    if heap.lost:
        yield f"{plural(heap.lost, 'block')} with dropped events: their bytes are not exact."
    if heap.dropped:
        yield f"{plural(heap.dropped, 'event')} dropped: the figures of memory are not exact."
    if heap.failed:
        yield f"{plural(heap.failed, 'time')} there was no memory."
