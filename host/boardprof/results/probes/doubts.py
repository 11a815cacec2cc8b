# SPDX-License-Identifier: Apache-2.0
"""What a recording does not have, or does not know, as sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from boardprof.results.probes.recording import ProbeRecording
from boardprof.results.probes.timeline import Timeline


def doubts_of(recording: ProbeRecording, timelines: Sequence[Timeline]) -> Iterator[str]:
    """Yield a sentence for each: what was dropped or left out, and ranges without begin or end.

    Args:
        recording: of a board.
        timelines: its cores, in their order.
    """
    if recording.costs.interrupt is None and any(
        line.ranges.interrupts.any() for line in timelines
    ):
        yield (
            "What an interrupt takes outside of its two marks is not known here, and is in ranges; "
            "BP_CFG_INTERRUPTS=2 lets the agent measure it."
        )
    if recording.costs.late is None and any(line.events.late.any() for line in timelines):
        yield (
            "What a record takes in addition when it has to find room in the ring first is not "
            "known here, and is in ranges."
        )
    for core, line in enumerate(timelines):
        where = f"Core {core}: " if len(timelines) > 1 else ""
        yield from (f"{where}{text}" for text in _of_core(line))
    for slot in recording.slots:
        name = recording.names.by_number[slot.number].text
        if slot.unmatched:
            yield (
                f"{name}: ends without a begin; statistics leave out the passes before, as a task "
                "may have been in the range when recording began."
            )
        if slot.too_long:
            yield (
                f"{name}: statistics leave out passes that took so long that the trace clock of 32 "
                "bits may wrap in them."
            )


def _of_core(line: Timeline) -> Iterator[str]:
    found = line.diagnostics
    if found.dropped:
        yield (
            f"{_count(found.dropped, 'event')} dropped in {_count(found.gaps, 'place')}; passes "
            "across them are left out. Try: a larger BP_CFG_TRACE in the firmware, fewer probes, "
            "or a shorter recording."
        )
    if found.unsure_gaps:
        yield (
            f"{_count(found.unsure, 'event')} left out in {_count(found.unsure_gaps, 'place')}: "
            "bp_poll did not run for so long that the trace clock may have wrapped."
        )
    for name, count in found.without_begin.items():
        yield f"{name}: {_count(count, 'end')} without a begin."
    for name, count in found.without_end.items():
        yield f"{name}: {_count(count, 'begin')} without an end."


def _count(number: int, one: str) -> str:
    return f"{number:,} {one}{'' if number == 1 else 's'}"
