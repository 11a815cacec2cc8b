# SPDX-License-Identifier: Apache-2.0
"""What a board says about a call: its time, and the ranges, marks and memory of its probes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Literal

import numpy as np

from boardprof.base.errors import UsageError
from boardprof.compat.torch.settings import NotSupportedByAgentError, Settings
from boardprof.measure.board.board import Board
from boardprof.measure.probe_recorder import ProbeRecorder
from boardprof.results.probes.heap import heap_of, memory_events
from boardprof.results.probes.run import ProbeRun
from boardprof.results.probes.timeline import Passes, Timeline
from boardprof.results.record import Device
from boardprof.results.report.measurement import Measurement, clock_of
from boardprof.wire.decode.clock import ClockFit
from boardprof.wire.decode.dictionary import CollectorInfo, CounterInfo
from boardprof.wire.decode.samples import Reading
from boardprof_protocol.blob import split_blobs
from boardprof_protocol.codes import ProbeKind, TraceId
from boardprof_protocol.layout import Layout


class Action(IntEnum):
    """What happened to memory, by torch's numbers."""

    PREEXISTING = 1
    CREATE = 2
    DESTROY = 4


@dataclass(frozen=True)
class MemoryChange:
    """Memory was taken or given back, or existed before the trace.

    Attributes:
        time_ns: the host's clock. It lies inside the call, in proportion to the board's ticks. -1
            for what existed before the trace.
        action: what happened.
        size: bytes.
        board: whose memory it is.
        address: of the block; 0 for all that existed before the trace.
        stack: where it was taken, innermost first: file and line with ``with_stack``, the call, and
            the ranges around that. () if it was given back.
    """

    time_ns: int
    action: Action
    size: int
    board: str
    address: int = 0
    stack: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """More bytes, or fewer."""
        return -self.size if self.action is Action.DESTROY else self.size


@dataclass(frozen=True)
class BoardRange:
    """A pass of a range on the board."""

    name: str
    begin: int  # ticks since recording began
    end: int
    net: int  # ticks of its own task or interrupt, without those of the probes inside it
    parent: int  # index of the innermost range around it in its task or interrupt; -1 if none


@dataclass(frozen=True)
class BoardMark:
    """A mark on the board, and its time in ticks since recording began."""

    name: str
    time: int


@dataclass(frozen=True)
class MemoryEvent:
    """Memory was taken, or given back."""

    time: int  # ticks since recording began
    address: int
    is_taken: bool
    size: int | None  # bytes that the block has or had; None if the agent does not say
    caller: int  # to which the function that took it returns; 0 if not known


@dataclass(frozen=True)
class CallProbes:
    """What the probes have recorded during a call."""

    unit: str  # of ticks: "cycles", "instructions" or "ticks"
    end: int  # ticks from the recording's begin to its end
    ranges: tuple[BoardRange, ...]
    marks: tuple[BoardMark, ...]
    memory: tuple[MemoryEvent, ...]
    existed: int | None  # bytes that existed before; None if the agent does not count it
    image: tuple[str, str]  # the file that ran, and its build id; "" if not known
    dropped: int
    unmatched: int  # begins and ends of ranges without a partner
    events: int  # that the board has taken time to record or drop, of every kind


def probe_recorder(board: Board, settings: Settings) -> ProbeRecorder:
    """Return a recorder of a board's probes."""
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
    dropped = sum(each.dropped for each in found)
    # Without what recording itself writes as it begins.
    counted = [np.count_nonzero(line.events.number != TraceId.LIVE) for line in lines]
    return CallProbes(
        recording.clock.unit,
        max((line.end for line in lines), default=0),
        tuple(ranges),
        tuple(sorted((m for line in lines for m in _marks(line)), key=lambda m: m.time)),
        tuple(memory),
        heap.before.bytes if heap is not None and heap.before is not None else None,
        (recording.facts.image, recording.facts.build_id),
        dropped,
        sum(map(sum, lost)),
        dropped + int(sum(counted)),
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


What = Literal["sample", "window"]


@dataclass(frozen=True)
class DeviceSpan:
    """A time span by the board's clock, and its place on the host's clock."""

    name: str
    what: What  # "sample": around the calls alone; "window": with the link and the agent's work
    board: str
    begin: int  # the board's counter at its start, not unwrapped
    ticks: int
    hz: int  # of the counter
    bits: int  # of the counter
    duration_us: float | None  # the function's own time; None for a window and a simulated clock
    start_ns: int | None = None  # the host's clock at its start; None if it has no place there
    error_ns: int | None = None  # largest error of `start_ns`
    why_not: str = ""  # why it has no place there; "" if it has
    fit: ClockFit | None = None  # of the board's clock to the host's; None if not known yet

    def ticks_since(self, other: DeviceSpan) -> int:
        """Return how many ticks it began after another span of its board; negative if before."""
        # The counter may have wrapped between them, but must not have advanced half its range.
        half = 1 << self.bits - 1
        return (self.begin - other.begin + half) % (2 * half) - half

    @property
    def length_us(self) -> float:
        """Length including the overhead, in us of the board's clock, simulated or not."""
        return self.ticks * 1e6 / self.hz


def tick_counter(readings: Mapping[str, Reading], device: Device) -> str | None:
    """Return the name of the board's clock, real or simulated."""
    clock = clock_of(readings, device.clock_kind)
    if clock is not None:
        return clock
    return next((name for name, r in readings.items() if r.unit == "ticks" and r.hz), None)


def window_spans(
    name: str,
    blobs: Iterable[tuple[CollectorInfo, bytes]],
    readings: Mapping[str, Reading],
    device: Device,
    layouts: Mapping[int, Layout],
) -> Iterator[DeviceSpan]:
    """Yield the span of the window of the host in which a clock was read, if one was."""
    counter, why_not = tick_counter(readings, device), _why_not(device)
    for collector, blob in blobs:
        found = _begin(blob, [collector], counter, layouts) if counter and blob else None
        if counter and found is not None:
            begin, info = found
            ticks = readings[counter].value
            yield DeviceSpan(
                name, "window", device.name, begin, ticks, info.hz, info.bits, None, why_not=why_not
            )


def sample_spans(measurement: Measurement, layouts: Mapping[int, Layout]) -> Iterator[DeviceSpan]:
    """Yield the span of each sample of a measurement, if a clock was read."""
    device = measurement.device
    counter = tick_counter(measurement.samples[0].readings, device)
    windows = next((w for w in measurement.passes if counter in w.counters), None)
    if counter is None or windows is None:
        return
    collectors = [c for c in device.collectors if windows.mask >> c.index & 1]
    for sample in windows.samples:
        found = _begin(sample.raw, collectors, counter, layouts)
        if found is None:
            return
        begin, info = found
        net_us = measurement.net(sample, counter) * 1e6 / info.hz
        yield DeviceSpan(
            measurement.function,
            "sample",
            device.name,
            begin,
            sample.readings[counter].value,
            info.hz,
            info.bits,
            None if device.clock_kind == "simulated" else net_us,
            why_not=_why_not(device),
            fit=measurement.clock_fit,
        )


def _begin(
    raw: bytes, collectors: Sequence[CollectorInfo], counter: str, layouts: Mapping[int, Layout]
) -> tuple[int, CounterInfo] | None:
    """Return a counter's reading when its window opened, and the counter."""
    for blob, collector in zip(split_blobs(raw), collectors, strict=True):
        layout = layouts[collector.schema_id]
        for meaning, info in zip(layout.counters, collector.counters, strict=True):
            if info.name == counter and info.hz:
                return layout.struct.parse(blob.body)[meaning.start], info
    return None


def _why_not(device: Device) -> str:
    """Return why a board's clock does not follow the same time as the host's; "" if it does."""
    if device.clock_kind == "simulated":
        return "its clock is simulated, and runs by the emulator's own time"
    return "it is emulated, and runs by the emulator's own time" if device.emulated else ""


def placed(span: DeviceSpan, begin_ns: int, end_ns: int, fit: ClockFit | None) -> DeviceSpan:
    """Place a span on the host's clock, between two readings; ``fit`` is for spans without one."""
    if span.why_not:
        return span
    fit = span.fit or fit
    if fit is None:
        return replace(span, why_not="its clock could not be followed to the end of the trace")
    # Readings after the fit's first one are less than one wrap later, or there would be no fit.
    ticks = fit.reference + (span.begin - fit.reference) % (1 << span.bits)
    start_ns = round(fit.to_host_s(ticks) * 1e9)
    error_ns = max(1, round(fit.error_s * 1e9))
    length_ns = round(span.ticks * fit.tick_s * 1e9)
    if start_ns < begin_ns - error_ns or start_ns + length_ns > end_ns + error_ns:
        return replace(span, why_not="its counter is not the clock that the agent reports")
    return replace(span, start_ns=start_ns, error_ns=error_ns)
