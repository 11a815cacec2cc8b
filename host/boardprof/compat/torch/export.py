# SPDX-License-Identifier: Apache-2.0
"""Files of a trace: Chrome's format, also under TensorBoard's names, stacks, and memory."""

from __future__ import annotations

import gzip
import json
import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Protocol

from boardprof.base.errors import UnknownNameError, UsageError
from boardprof.base.files import unwritable, write_bytes
from boardprof.base.metrics import Count, Duration, metric_called, raw_of
from boardprof.compat.torch.board_activity import Action, DeviceSpan, MemoryChange
from boardprof.compat.torch.events import FunctionEvent, more_counted
from boardprof.compat.torch.host_events import HostEvent, Thread, place_text
from boardprof.compat.torch.host_trace import BoardMemory, HostTrace
from boardprof.compat.torch.settings import ProfilerActivity, Settings
from boardprof.compat.torch.table import of_device
from boardprof.results.report.profile import Frame
from boardprof.show.chrome_trace import OWN_KEYS, TraceEvent, Track, chrome_trace
from boardprof.show.flame_graph import INTERRUPTED, stacks_of
from boardprof.show.html import asset, filled_page, isolated, tables_html
from boardprof.show.layout import Column, Table
from boardprof.show.probe_tables import WITHOUT_MEMORY

TRACE_ID = "traceId"

_BASE, _DIAGNOSTICS = "baseTimeNanoseconds", "diagnostics"

RESERVED_KEYS = frozenset([*OWN_KEYS, TRACE_ID, _BASE, _DIAGNOSTICS])
"""Keys of a trace file, which metadata must not use."""

_SELF_CPU, _SELF_DEVICE = "self_cpu_time_total", "self_device_time_total"
_MEMORY = "device_memory_usage"
_NOT_IN_NAMES = ("/", "\\", "\0")
"""Characters that file names cannot have on some system."""

_SEPARATORS = str.maketrans(dict.fromkeys(" ;\t\n\r", "_"))


def chrome_trace_text(trace: HostTrace, metadata: Mapping[str, object], settings: Settings) -> str:
    """Return a trace in Chrome's format; without the host's activity, its threads have no lanes."""
    events: list[TraceEvent] = []
    lanes: dict[FunctionEvent, int] = {}
    if ProfilerActivity.CPU in settings.activities:
        shown = [each for each in trace.events if each.kind != "device_range"]
        lanes = lanes_of(shown)
        events += [_host_event(each, lanes[each], settings) for each in shown]
        events += [_mark(each, trace, lanes) for each in trace.marks]
    events += _board_events(trace)
    if any(settings.device_ranges.values()):
        events += _probe_events(trace)
    if settings.profile_memory:
        events += _memory_events(trace, lanes)
    own = {_BASE: trace.unix_ns, _DIAGNOSTICS: list(trace.diagnostics)}
    return chrome_trace(events, metadata={**own, **metadata})


def _host(thread: Thread, lane: int) -> Track:
    more = "" if lane == 1 else f" ({lane})"
    return Track(f"host, process {os.getpid()}", f"{thread.name} ({thread.id}){more}")


_CATEGORIES = {
    "call": "cpu_op",
    "measurement": "cpu_op",
    "range": "user_annotation",
    "step": "user_annotation",
    "device_range": "gpu_user_annotation",
}
"""Torch's, by which TensorBoard's plugin and other readers of torch's traces know an event."""


def _host_event(event: FunctionEvent, lane: int, settings: Settings) -> TraceEvent:
    args: dict[str, object] = dict(event.args)
    if event.board:
        args["board"] = event.board
    if event.input_shapes:
        args["Input Shapes"] = event.input_shapes
    if event.inputs:
        args["Input Dims"] = [shape for _, shape in event.inputs]
        args["Input type"] = [kind for kind, _ in event.inputs]
    if event.source:
        args["Call stack"] = ";".join([event.frame, *event.stack])
    if event.flops is not None:
        args["flops"] = event.flops
    if settings.with_modules:
        args["Module Hierarchy"] = event.module_hierarchy
    args |= {name: raw_of(metric) for name, metric in event.metrics.items()}
    if event.is_raw:
        args["counters"] = f"raw: they include {more_counted(event)}"
    if event.error:
        args["error"] = event.error
    if event.is_unfinished:
        args["unfinished"] = True
    start, end = event.time_range
    category = _CATEGORIES[event.kind]
    return TraceEvent(event.name, start, end - start, _host(event.thread, lane), args, category)


def _mark(record: HostEvent, trace: HostTrace, lanes: Mapping[FunctionEvent, int]) -> TraceEvent:
    start_us = (record.start_ns - trace.base_ns) / 1e3
    around = trace.around_marks.get(record)
    # The event around it may be on another thread.
    is_there = around is not None and around.thread == record.thread
    track = _host(record.thread, lanes[around] if around is not None and is_there else 1)
    return TraceEvent(record.name, start_us, None, track, record.args, "mark")


def _board_events(trace: HostTrace) -> Iterator[TraceEvent]:
    """Yield the spans on boards: on the host's time if they can be placed there, else apart."""
    last: dict[str, tuple[DeviceSpan, int]] = {}  # board -> its last span, and where it begins
    for event in trace.events:
        for span in event.device_spans:
            args: dict[str, object] = {"ticks": span.ticks, "first tick": span.begin}
            args["tick rate (Hz)"] = span.hz
            if span.duration_us is not None:
                args["function alone (us)"] = span.duration_us
            if span.start_ns is not None and span.error_ns is not None:
                args["place known to (us)"] = span.error_ns / 1e3
                start_us = (span.start_ns - trace.base_ns) / 1e3
            else:
                before, at = last.get(span.board, (span, 0))
                at += span.ticks_since(before)
                last[span.board] = span, at
                start_us = at * 1e6 / span.hz
            yield TraceEvent(span.name, start_us, span.length_us, _track(span), args, span.what)


def _probe_events(trace: HostTrace) -> Iterator[TraceEvent]:
    """Yield ranges and marks on boards, inside their calls in proportion to the board's ticks."""
    for event in trace.events:
        probes = event.probes
        if probes is None:
            continue

        def at_us(ticks: int, event: FunctionEvent = event) -> float:
            return (event.place_ns(ticks) - trace.base_ns) / 1e3

        track = Track(event.board, "ranges, placed inside their calls in proportion to ticks")
        for each in probes.ranges:
            args: dict[str, object] = {probes.unit: each.net}
            start_us = at_us(each.begin)
            length_us = at_us(each.end) - start_us
            category = _CATEGORIES["device_range"]
            yield TraceEvent(each.name, start_us, length_us, track, args, category)
        for mark in probes.marks:
            yield TraceEvent(mark.name, at_us(mark.time), None, track, {}, "mark")


_CUDA = 1
"""Torch's number of this kind of device, whose place boards take in a profile."""

_ADDRESS_BITS = 32


def _memory_events(trace: HostTrace, lanes: Mapping[FunctionEvent, int]) -> Iterator[TraceEvent]:
    """Yield changes of memory on boards, as torch writes them: on the lane of their call."""
    memory = BoardMemory(trace.events, trace.places)
    totals = Counter({each.board: each.size for each in memory.changes if each.time_ns < 0})
    devices: dict[str, int] = {}
    for call, changes in memory.of_call.items():
        for change in changes:
            totals[change.board] += change.bytes
            device = devices.setdefault(change.board, len(devices))
            args: dict[str, object] = {
                "board": change.board,
                "Device Type": _CUDA,
                "Device Id": device,
                # Readers pair blocks by address alone, but boards may have equal ones.
                "Addr": change.address | device << _ADDRESS_BITS,
                "Bytes": change.bytes,
                "Total Allocated": totals[change.board],
                # As torch writes it for memory without pools. Without it, the plugin draws nothing.
                "Total Reserved": 0,
            }
            if change.stack:
                args["stack"] = list(change.stack)
            track = Track(change.board, "memory, placed inside their calls in proportion to ticks")
            if call in lanes:
                track = _host(call.thread, lanes[call])
            at_us = (change.time_ns - trace.base_ns) / 1e3
            yield TraceEvent("[memory]", at_us, None, track, args, "memory")


_LANES = {
    "sample": "measured on the board",
    "window": "windows around calls, including the agent's work and the link's",
}


def _track(span: DeviceSpan) -> Track:
    if span.start_ns is not None:
        return Track(span.board, _LANES[span.what])
    return Track(
        f"{span.board}, ticks of its own: not on the host's time ({span.why_not})",
        _LANES[span.what],
    )


# -- stacks -------------------------------------------------------------------------------------


def stacks_text(trace: HostTrace, metric: str) -> str:
    """Return a line for each stack, outermost first, followed by the sum of its own metric."""
    # Times are in whole nanoseconds: a board's function may take less than a microsecond, and
    # programs for flame graphs read whole numbers. If several boards have the metric, they are the
    # outermost frames.
    metric = str(metric)
    if metric == _MEMORY and any(event.memory for event in trace.events):
        return _memory_stacks(trace)
    counters = dict.fromkeys(name for event in trace.events for name in event.metrics)
    metric = metric_called(metric, counters) or of_device(metric)
    if metric not in (_SELF_CPU, _SELF_DEVICE, *counters):
        raise UnknownNameError("metric of stacks", metric, (_SELF_CPU, _SELF_DEVICE, *counters))
    found = [(event, own) for event in trace.events if (own := _own(event, metric)) is not None]
    are_several = metric != _SELF_CPU and len({event.board for event, _ in found}) > 1
    sums: dict[str, float] = {}
    for event, value in found:
        inside = _within(event, metric)
        name = f"{event.frame} (raw)" if event.is_raw and metric in counters else event.frame
        frames = (*([event.board] if are_several else []), *reversed(event.stack))
        for deeper, own in inside or [((name,), value)]:
            stack = ";".join(map(_frame, (*frames, *deeper)))
            sums[stack] = sums.get(stack, 0) + own
    lines = [f"{stack} {value}\n" for stack, own in sums.items() if (value := round(own)) > 0]
    if not lines:
        raise UsageError(
            f"There are no stacks, because none of {len(trace.events)} events has a {metric} "
            "of 1 or more.",
            hint="call a board, or put record_function around what takes time, in a recorded step",
        )
    return "".join(lines)


def _memory_stacks(trace: HostTrace) -> str:
    taken = [m for event in trace.events for m in event.memory if m.action is Action.CREATE]
    are_several = len({each.board for each in taken}) > 1
    sums: Counter[str] = Counter()
    for each in taken:
        frames = (*([each.board] if are_several else []), *reversed(each.stack))
        stack = ";".join(map(_frame, frames))
        sums[stack] += each.size
    if not taken:
        raise UsageError("There are no stacks, because no call has taken memory.")
    return "".join(f"{stack} {size}\n" for stack, size in sums.items())


def _within(event: FunctionEvent, metric: str) -> list[tuple[tuple[str, ...], float]]:
    """Return the stacks below a call on a board, if it is known what ran there."""
    profile = event.profile
    if profile is None or metric not in profile.columns or event.is_raw or event.profile_differs:
        return []
    # The first frame of a profile is the called function. A measurement is around its calls.
    around = [event.key] if event.kind == "measurement" else []
    sums: dict[tuple[str, ...], float] = {}
    for stack, cost in stacks_of(profile, metric).items():
        if stack[0].function != INTERRUPTED:
            names = (*around, *map(_placed, stack))
            sums[names] = sums.get(names, 0) + cost * event.count
    return list(sums.items())


def _placed(frame: Frame) -> str:
    place = place_text(frame.file, frame.line)
    return f"{place} ({frame.function})" if place else frame.function


def _frame(name: str) -> str:
    return name.translate(_SEPARATORS) or "_"


def _own(event: FunctionEvent, metric: str) -> float | None:
    if metric in (_SELF_CPU, _SELF_DEVICE):
        time_us = event.self_cpu_time_total if metric == _SELF_CPU else event.self_device_time_total
        return None if time_us is None else 1000 * time_us
    if event.kind == "device_range" and _has_call_with(event, metric):
        return None  # the call's own count covers its ranges
    found = event.self_metric(metric)
    if isinstance(found, Count):
        return found.value
    return 1000 * found.microseconds if isinstance(found, Duration) else None


def _has_call_with(event: FunctionEvent, metric: str) -> bool:
    around = event.cpu_parent
    while around is not None and around.kind == "device_range":
        around = around.cpu_parent
    return around is not None and metric in around.metrics


# -- memory -------------------------------------------------------------------------------------

CATEGORIES = 8
"""Of torch. The last one is memory whose use is not known, as all memory of a board."""

_UNKNOWN = CATEGORIES - 1


def raw_text(changes: Sequence[MemoryChange]) -> str:
    """Return each change as ``[ns, action, bytes, category]``."""
    return json.dumps([[c.time_ns, int(c.action), c.bytes, _UNKNOWN] for c in changes])


def sizes_text(changes: Sequence[MemoryChange]) -> str:
    """Return ``[times in us, bytes by category]``; each row of bytes begins with 0."""
    times, totals = _sizes(changes)
    rows = [[0] * CATEGORIES + [total] for total in totals]
    return json.dumps([times, rows])


def memory_changes(trace: HostTrace, device: str | None) -> dict[str, list[MemoryChange]]:
    """Return the changes of memory by board, on the trace's clock; ``device`` is None for all."""
    boards = dict.fromkeys(e.board for e in trace.events if e.probes is not None)
    if device is not None and boards and device not in boards:
        raise UnknownNameError("board with recorded memory", f"{device}", boards)
    events = [e for e in trace.events if device is None or e.board == device]
    if any(each.probes is not None and each.probes.dropped for each in events):
        raise UsageError(
            "The memory is not known: a board has dropped events.",
            hint="a larger ring (BP_CFG_TRACE), or fewer probes",
        )
    shift_ns = trace.unix_ns - trace.base_ns
    found: dict[str, list[MemoryChange]] = {}
    for each in BoardMemory(events, trace.places).changes:
        is_placed = each.action is not Action.PREEXISTING
        placed = replace(each, time_ns=each.time_ns + shift_ns) if is_placed else each
        found.setdefault(each.board, []).append(placed)
    found = {
        board: changes
        for board, changes in found.items()
        if any(each.action is not Action.PREEXISTING for each in changes)
    }
    if not found:
        raise UsageError("The trace has no memory event of a board.", hint=WITHOUT_MEMORY)
    return found


def _sizes(changes: Sequence[MemoryChange]) -> tuple[list[int], list[int]]:
    first_ns = next(c.time_ns for c in changes if c.action is not Action.PREEXISTING)
    times = [(c.time_ns if c.time_ns >= 0 else first_ns) // 1000 for c in changes]
    return times, list(accumulate(change.bytes for change in changes))


_EXISTED = ("(before recording)",)
_WIDTH, _HEIGHT = 800, 300


def page_text(boards: Mapping[str, Sequence[MemoryChange]]) -> str:
    """Return a page that shows the live bytes of boards over time, and where they were taken."""
    return filled_page(
        "tables.html",
        asset("page.css"),
        title="Memory of boards",
        kind="boardprof memory",
        heading="Memory of boards",
        facts="",
        notes="",
        tables="\n".join(_part(*each) for each in boards.items()),
        more="",
    )


def _part(board: str, changes: Sequence[MemoryChange]) -> str:
    times, totals = _sizes(changes)
    length, peak = times[-1] - times[0], max(totals)
    path = f"M0 {_HEIGHT}"
    for time_us, total in zip(times, totals, strict=True):
        x = (time_us - times[0]) * _WIDTH / max(1, length)
        path += f"H{x:.1f}V{_HEIGHT - total * _HEIGHT / max(1, peak):.1f}"
    headers = ("Taken by", "Bytes at the peak", "Bytes at the end", "Blocks")
    columns = zip(headers, zip(*_rows(changes, totals.index(peak)), strict=True), strict=True)
    table = Table([Column(name, cells, is_text=name == headers[0]) for name, cells in columns])
    return (
        f"<section>\n<h2>{isolated(board)}</h2>\n<p>Most live bytes at a time: {peak:,}. At the "
        f"end: {totals[-1]:,}. From the first change to the last one: {length:,} us.</p>\n"
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" role="img" '
        f'aria-label="live bytes over time"><path d="{path}" fill="none" stroke="currentColor"/>'
        f"</svg>\n{tables_html([table])}\n</section>"
    )


def _rows(changes: Sequence[MemoryChange], peak: int) -> Iterator[tuple[str, ...]]:
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
        taken = f"{blocks:,}" if stack != _EXISTED else ""
        yield " < ".join(stack), f"{at_peak:,}", f"{at_end:,}", taken


# -- files --------------------------------------------------------------------------------------


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a file, compressed if its name ends in ``.gz``."""
    # Names may have what UTF-8 has no form for, such as a file's name that was not UTF-8.
    content = text.encode(errors="backslashreplace")
    name = os.fsdecode(path)
    if name.endswith(".gz"):
        # Leave out the time of day, so that the same trace makes the same file.
        content = gzip.compress(content, mtime=0)
    write_bytes(content, name)


# -- TensorBoard -------------------------------------------------------------------------------


class _Exports(Protocol):
    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None: ...


def tensorboard_trace_handler(
    dir_name: str | os.PathLike[str], worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[_Exports], None]:
    """Return an ``on_trace_ready`` that writes each trace to ``WORKER.TIME.pt.trace.json``.

    Args:
        dir_name: of the files; made if it is not there.
        worker_name: if None or "", host and process at the time of the first trace.
        use_gzip: compress the files; their names end in ``.gz`` then.

    Raises:
        UsageError: a name is not a string, or the worker's cannot be part of a file name. The
            handler raises it if the folder or the file cannot be written.
    """
    if not isinstance(dir_name, str | os.PathLike) or not isinstance(worker_name, str | None):
        raise UsageError(
            f"dir_name={dir_name!r:.60}, worker_name={worker_name!r:.60}: names must be strings."
        )
    if worker_name is not None and any(each in worker_name for each in _NOT_IN_NAMES):
        raise UsageError(
            f"worker_name={worker_name!r:.60} cannot be part of a file name.",
            hint="leave out slashes; dir_name sets the folder",
        )
    worker = worker_name or None

    def handler(prof: _Exports) -> None:
        nonlocal worker
        folder = Path(dir_name)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(folder, error) from error
        if worker is None:
            worker = f"{socket.gethostname()}_{os.getpid()}"
        ending = ".gz" if use_gzip else ""
        prof.export_chrome_trace(folder / f"{worker}.{time.time_ns()}.pt.trace.json{ending}")

    return handler


# -- lanes -------------------------------------------------------------------------------------


def lanes_of(events: Sequence[FunctionEvent]) -> dict[FunctionEvent, int]:
    """Return each event's lane within its thread, from 1; on each lane all events nest."""
    # Trace viewers only know times. On the same lane, what one task does while another waits would
    # appear inside the other's range.
    threads: dict[Thread, list[list[FunctionEvent]]] = {}
    lanes: dict[FunctionEvent, int] = {}
    for event in sorted(events, key=lambda each: (each.start_ns, each.id)):
        open_ones = threads.setdefault(event.thread, [])
        for lane in open_ones:
            while lane and lane[-1].end_ns <= event.start_ns:
                lane.pop()
        innermost = [*(lane[-1] if lane else None for lane in open_ones), None]
        is_on_parents = event.cpu_parent in innermost
        number = innermost.index(event.cpu_parent if is_on_parents else None)  # else an empty one
        if number == len(open_ones):
            open_ones.append([])
        open_ones[number].append(event)
        lanes[event] = number + 1
    return lanes
