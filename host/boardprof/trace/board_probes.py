# SPDX-License-Identifier: Apache-2.0
"""What the probes of a board's firmware have recorded during one call: ranges, marks and memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from boardprof.errors import UsageError
from boardprof.events.recording import ProbeRecording
from boardprof.events.timeline import Passes, Timeline
from boardprof.trace.settings import NotSupportedByAgentError, Settings
from boardprof_protocol.codes import ProbeKind, TraceId

if TYPE_CHECKING:
    from boardprof.board.board import Board
    from boardprof.board.probe_recorder import ProbeRecorder


@dataclass(frozen=True)
class BoardRange:
    """A pass of a range on the board.

    Attributes:
        name: of the range.
        begin: ticks since recording began.
        end: the same.
        net: ticks of its own task or interrupt, without those of the probes inside it.
        parent: index of the innermost range around it in the same task or interrupt; -1 if none is.
    """

    name: str
    begin: int
    end: int
    net: int
    parent: int


@dataclass(frozen=True)
class BoardMark:
    """A mark on the board, and its time in ticks since recording began."""

    name: str
    time: int


@dataclass(frozen=True)
class MemoryEvent:
    """Memory was taken, or given back.

    Attributes:
        time: ticks since recording began.
        address: of the block.
        size: bytes of a block that was taken; None if it was given back.
    """

    time: int
    address: int
    size: int | None


@dataclass(frozen=True)
class CallProbes:
    """What the probes have recorded during a call.

    Attributes:
        unit: of ticks: ``cycles``, ``instructions`` or ``ticks``.
        end: ticks from the recording's begin to its end.
        ranges: in the order in which they began.
        marks: in their order.
        memory: likewise.
        dropped: events that the board has dropped.
        unmatched: begins and ends of ranges without a partner.
    """

    unit: str
    end: int
    ranges: tuple[BoardRange, ...]
    marks: tuple[BoardMark, ...]
    memory: tuple[MemoryEvent, ...]
    dropped: int
    unmatched: int


def probe_recorder(board: Board, settings: Settings) -> ProbeRecorder:
    """Return a recorder of a board's probes.

    Raises:
        NotSupportedByAgentError: its firmware has no probes.
    """
    try:
        return board.tracing()
    except UsageError as error:
        what = "profile_memory" if settings.profile_memory else "device_ranges"
        why = error.message.rstrip(".")
        raise NotSupportedByAgentError(what, why, hint=error.hint) from error


def call_probes(recording: ProbeRecording) -> CallProbes:
    """Return what was recorded during a call."""
    lines = list(recording.timelines().values())
    ranges: list[BoardRange] = []
    for line in lines:
        ranges += _ranges(line, len(ranges))
    found = [line.diagnostics for line in lines]
    lost = [[*each.without_begin.values(), *each.without_end.values()] for each in found]
    return CallProbes(
        recording.clock.unit,
        max((line.end for line in lines), default=0),
        tuple(ranges),
        tuple(sorted((m for line in lines for m in _marks(line)), key=lambda m: m.time)),
        tuple(sorted((m for line in lines for m in _memory(line)), key=lambda m: m.time)),
        sum(each.dropped for each in found),
        sum(map(sum, lost)),
    )


def _ranges(line: Timeline, first: int) -> Iterator[BoardRange]:
    passes = line.ranges
    names = line.names.by_number
    parents = _parents(passes)
    for index in range(len(passes)):
        parent = parents[index]
        yield BoardRange(
            names[int(passes.number[index])].text,
            int(passes.begin[index]),
            int(passes.end[index]),
            int(passes.net[index]),
            parent + first if parent >= 0 else -1,
        )


def _parents(passes: Passes) -> list[int]:
    """Return the index of the innermost pass around each in the same context; -1 if none is."""
    open_ones: dict[tuple[int, int], list[int]] = {}
    found: list[int] = []
    for index, end in enumerate(passes.end.tolist()):
        level = int(passes.level[index])
        context = level, int(passes.task[index]) if level == 0 else 0
        begin = passes.begin[index]
        around = [each for each in open_ones.get(context, []) if passes.end[each] > begin]
        holders = [each for each in around if passes.end[each] >= end]
        found.append(holders[-1] if holders else -1)
        open_ones[context] = [*around, index]
    return found


def _marks(line: Timeline) -> Iterator[BoardMark]:
    names = {name.number: name.text for name in line.names.of_kind(ProbeKind.MARK)}
    where = np.flatnonzero(np.isin(line.events.number, list(names)))
    for at in where:
        yield BoardMark(names[int(line.events.number[at])], int(line.events.time[at]))


def _memory(line: Timeline) -> Iterator[MemoryEvent]:
    number, value = line.events.number, line.events.value
    for at in np.flatnonzero(np.isin(number, (TraceId.ALLOC, TraceId.FREE)) & (value != 0)):
        time, address = int(line.events.time[at]), int(value[at])
        if number[at] == TraceId.FREE:
            yield MemoryEvent(time, address, None)
        elif at + 1 < len(number) and number[at + 1] == TraceId.SIZE:
            yield MemoryEvent(time, address, int(value[at + 1]))
