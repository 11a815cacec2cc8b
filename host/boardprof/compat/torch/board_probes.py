# SPDX-License-Identifier: Apache-2.0
"""What the probes of a board's firmware have recorded during one call: ranges, marks and memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from boardprof.base.errors import UsageError
from boardprof.compat.torch.settings import NotSupportedByAgentError, Settings
from boardprof.results.probes.heap import heap_of, memory_events
from boardprof.results.probes.run import ProbeRun
from boardprof.results.probes.timeline import Passes, Timeline
from boardprof_protocol.codes import ProbeKind, TraceId

if TYPE_CHECKING:
    from boardprof.measure.probe_recorder import ProbeRecorder
    from boardprof.measure.session.board import Board


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
        is_taken: whether it was taken.
        size: bytes of a block that was taken. Of one that was given back, those that it held; None
            if the agent does not say.
        caller: to which the function that took it returns; 0 if not known.
    """

    time: int
    address: int
    is_taken: bool
    size: int | None
    caller: int


@dataclass(frozen=True)
class CallProbes:
    """What the probes have recorded during a call.

    Attributes:
        unit: of ticks: ``cycles``, ``instructions`` or ``ticks``.
        end: ticks from the recording's begin to its end.
        ranges: in the order in which they began.
        marks: in their order.
        memory: likewise.
        existed: bytes of memory that existed before; None if the agent does not count it.
        image: the file that ran, and its build id; "" if not known.
        dropped: events that the board has dropped.
        unmatched: begins and ends of ranges without a partner.
    """

    unit: str
    end: int
    ranges: tuple[BoardRange, ...]
    marks: tuple[BoardMark, ...]
    memory: tuple[MemoryEvent, ...]
    existed: int | None
    image: tuple[str, str]
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


def call_probes(recording: ProbeRun) -> CallProbes:
    """Return what was recorded during a call."""
    lines = list(recording.timelines().values())
    ranges: list[BoardRange] = []
    for line in lines:
        ranges += _ranges(line, len(ranges))
    found = [line.diagnostics for line in lines]
    heap = heap_of(lines)
    memory = sorted((m for line in lines for m in _memory(line)), key=lambda m: m.time)
    lost = [[*each.without_begin.values(), *each.without_end.values()] for each in found]
    return CallProbes(
        recording.clock.unit,
        max((line.end for line in lines), default=0),
        tuple(ranges),
        tuple(sorted((m for line in lines for m in _marks(line)), key=lambda m: m.time)),
        tuple(memory),
        heap.before.bytes if heap is not None and heap.before is not None else None,
        (recording.facts.image, recording.facts.build_id),
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
    found = memory_events(line.events)
    columns = (found.time, found.number, found.value, found.size, found.caller)
    for time, number, address, size, caller in zip(*(c.tolist() for c in columns), strict=True):
        is_taken, is_known = number == TraceId.ALLOC, size >= 0
        if number != TraceId.LIVE and address and (is_known or not is_taken):
            yield MemoryEvent(time, address, is_taken, size if is_known else None, caller)
