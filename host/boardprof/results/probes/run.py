# SPDX-License-Identifier: Apache-2.0
"""What was recorded of a board's probes, what is not known of it, and its file.

The file is a zip archive of the facts, as JSON, and of the stream's bytes as they came.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar, get_args, get_type_hints

import numpy as np
import numpy.typing as npt

from boardprof.base.errors import DecodeError, ReportFileError, option
from boardprof.base.files import open_file, write_bytes
from boardprof.results.probes.core_events import (
    CoreClock,
    CoreEvents,
    events_of_core,
    related_clocks,
)
from boardprof.results.probes.events import ProbeNames, TraceBlock, blocks, join, read_names
from boardprof.results.probes.timeline import UNKNOWN_TASK, ProbeCosts, Timeline
from boardprof_protocol.codes import ProbeKind

_T = TypeVar("_T")


@dataclass(frozen=True)
class TraceClock:
    """The clock of events."""

    unit: str  # ``cycles``, ``instructions`` or ``ticks``
    source: str  # the register
    hz: int  # 0 if it is not known or no time passes with it
    per_tick: float = 0  # at most its counts in a tick of the port's counter; 0 if not known


@dataclass(frozen=True)
class Slot:
    """The statistics of a range since they were started, in ticks."""

    number: int  # of the range's begin
    count: int  # passes
    lost: int  # passes that overlapped another one or took too long, not in ``count``
    least: int  # the shortest pass; 0 if there is none
    most: int
    sum: int
    squares: int | None  # sum of the squares; None if it was too large for the board
    too_long: bool = False  # passes were left out because the trace clock may wrap in them
    unmatched: bool = False  # likewise, because a task was in the range at the beginning

    @property
    def mean(self) -> float:
        """Ticks of a pass; NaN without one."""
        return self.sum / self.count if self.count else float("nan")

    @property
    def deviation(self) -> float | None:
        """Sample standard deviation in ticks; None with fewer than two passes, or if not known."""
        if self.count < 2 or self.squares is None:
            return None
        # Whole numbers, so that nothing is lost in the difference of two large ones.
        spread = self.squares * self.count - self.sum**2
        return math.sqrt(spread / (self.count * (self.count - 1)))


@dataclass(frozen=True)
class Task:
    """A task, from the operating system's table of tasks."""

    number: int  # of TASK events: its address
    name: str  # "" if it has none
    stack: int | None = None  # bytes; None if not known
    used: int | None = None  # the most bytes of it that were ever in use; None if not known


def task_name(number: int, tasks: Sequence[Task] = ()) -> str:
    """Return how a task is shown: its name if that is known, with its address if others have it."""
    if number == UNKNOWN_TASK:
        return "(not known)"
    names = {each.number: each.name for each in tasks if each.name}
    name = names.get(number, "")
    if name:
        return name if list(names.values()).count(name) == 1 else f"{name} ({number:#x})"
    return f"{number:#x}" if number else "(scheduler)"


@dataclass(frozen=True)
class RunFacts:
    """The board and the firmware of a run."""

    board: str
    port: str = ""
    clock_kind: str = "simulated"  # ``measured``, ``declared`` or ``simulated``
    emulated: bool = False
    agent_version: str = ""
    build_id: str = ""  # 16 hexadecimal digits
    boot_id: int = 0  # differs between boots
    image: str = ""  # the file that ran; "" if it was not known
    flags: str | None = None  # compiler flags of the functions' code; None if unknown
    order: str = "<"  # of the bytes of records, ``<`` or ``>``
    time: str = ""  # when recording began, in ISO 8601, UTC; "" if not yet

    @property
    def unix_us(self) -> int | None:
        """``time`` in microseconds since 1970; None if it is not known."""
        if not self.time:
            return None
        since = datetime.fromisoformat(self.time) - datetime.fromisoformat("1970-01-01T00:00Z")
        return since // timedelta(microseconds=1)


@dataclass(frozen=True)
class MergedEvents:
    """Events of all cores, in the order in which they happened; columns as in `Events`."""

    time: npt.NDArray[np.int64]  # ticks of the common clock, since recording began
    core: npt.NDArray[np.int64]
    number: npt.NDArray[np.uint16]
    value: npt.NDArray[np.uint32]
    error: float  # how far off the times of two cores may be, in ticks; 0 with one core


@dataclass(frozen=True)
class ProbeRun:
    """What was recorded."""

    facts: RunFacts
    clock: TraceClock
    names: ProbeNames
    costs: ProbeCosts
    content: bytes = b""  # the stream's bytes, as they came
    slots: tuple[Slot, ...] = ()  # statistics of ranges; empty if they were not asked for
    tasks: tuple[Task, ...] = ()  # that the firmware has named
    stopped: int | None = None  # the trace clock at the stop, 32 bits; the last blocks come later

    def timelines(
        self, tasks: Mapping[int, int] | None = None, told: Mapping[int, int] | None = None
    ) -> dict[int, Timeline]:
        """Return the events of each core, put together.

        ``tasks`` had the cores when recording began. ``told`` are the dropped events that each core
        has reported before, if this recording continues another one.
        """
        cores = self._cores()
        if any(each.end > self._longest for each in cores.values()):
            raise DecodeError(
                f"The clock of {self.facts.board} has run for centuries, as its events say.",
                hint=f"give the image that runs on the board ({option('--image')})",
            )
        known = tasks or {}
        is_shared = self.clock.unit == "ticks"  # the board's counter, which all cores share
        clocks = dict.fromkeys(cores, CoreClock()) if is_shared else related_clocks(cores)
        ends = [each.end for core, each in cores.items() if each.has_own_end]
        found = {}
        for core, each in cores.items():
            clock, task = clocks[core], known.get(core, UNKNOWN_TASK)
            events = each.events
            if clock.shift:
                events = replace(events, time=events.time + clock.shift)
            end = each.end + clock.shift
            if not each.has_own_end and ends:
                end = max(end, *ends)
            before = told.get(core, 0) if told else 0
            found[core] = Timeline(
                events, self.names, self.costs, end, each.dropped, task, each.unsure, clock, before
            )
        return found

    def _cores(self) -> dict[int, CoreEvents]:
        found: dict[int, list[TraceBlock]] = {}
        for block in blocks(self.content, self.facts.order):
            found.setdefault(block.core, []).append(block)
        return {
            core: events_of_core(core, each, self.names, self.clock.per_tick, self.stopped)
            for core, each in sorted(found.items())
        }

    @property
    def _longest(self) -> int:
        """The most ticks that are still less than 2^63 as ns."""
        return 9_000_000_000 * self.clock.hz if self.clock.hz else 1 << 62

    def merged(self) -> MergedEvents:
        """Return the events of all cores in the order in which they happened.

        Events of several cores are in a wrong order only if they are closer than
        `MergedEvents.error`.
        """
        lines = self.timelines()
        errors = [line.clock.error for line in lines.values()]
        if None in errors:
            raise DecodeError(
                "The clocks of the cores are not related: one of them has told nothing of its own.",
                hint="record for longer, or look at each core with timelines()",
            )
        each = [line.events for line in lines.values()]
        sizes = [len(events) for events in each]
        time = np.concatenate([line.common(line.events.time) for line in lines.values()] or [_NONE])
        order = np.argsort(time, kind="stable")
        all_events = join(each)
        return MergedEvents(
            time[order],
            np.repeat(np.array(list(lines), np.int64), sizes)[order],
            all_events.number[order],
            all_events.value[order],
            max((error for error in errors if error is not None), default=0.0),
        )


_NONE = np.zeros(0, np.int64)


# -- doubts ------------------------------------------------------------------------------------


def doubts_of(run: ProbeRun, timelines: Sequence[Timeline]) -> Iterator[str]:
    """Yield a sentence for each thing that was dropped, left out or does not fit together."""
    if run.costs.interrupt is None and any(line.ranges.interrupts.any() for line in timelines):
        yield (
            "Ranges include the entry and exit of interrupts, which is not measured here; "
            "BP_CFG_INTERRUPTS=2 lets the agent measure it."
        )
    if run.costs.late is None and any(line.events.late.any() for line in timelines):
        yield (
            "Ranges include the extra time of records that find no room in the ring at first, "
            "which is not measured here."
        )
    for core, line in enumerate(timelines):
        where = f"Core {core}: " if len(timelines) > 1 else ""
        yield from (f"{where}{text}" for text in _of_core(line, run.facts))
    for slot in run.slots:
        name = run.names.by_number[slot.number].text
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


_LARGER_RING = "a larger BP_CFG_TRACE in the firmware"
_EMULATED_RING = "a ring in RAM that only the emulator has (docs/probes.md)"


def _of_core(line: Timeline, facts: RunFacts) -> Iterator[str]:
    found = line.diagnostics
    if found.dropped:
        yield (
            f"{_count(found.dropped, 'event')} dropped in {_count(found.gaps, 'place')}; passes "
            f"across them are left out. Try: {_EMULATED_RING if facts.emulated else _LARGER_RING}, "
            "fewer probes, or a shorter recording."
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


# -- files -------------------------------------------------------------------------------------

_VERSION = 1
_FACTS, _CONTENT = "boardprof-trace.json", "blocks"  # names in the archive
MOST_RECORDED = 1 << 30
"""Bytes of blocks after which recording ends: with what is on its way then, they can be read."""

_MOST = {_FACTS: 1 << 24, _CONTENT: MOST_RECORDED + (1 << 28)}
"""Bytes to which each unpacks at most: a few kilobytes of archive can hold as much as a disk."""

_DAMAGED = (
    *(AttributeError, EOFError, KeyError, OverflowError, TypeError, ValueError),
    *(zipfile.BadZipFile, zlib.error),
    RuntimeError,  # zipfile: the archive is encrypted, or packed in a way it does not know
)


def write_run(run: ProbeRun, file: str) -> None:
    """Write a run; a regular file completely or not at all."""
    facts = {
        "version": _VERSION,
        "recorded": asdict(run.facts),
        "clock": asdict(run.clock),
        "costs": asdict(run.costs),
        "names": run.names.section().hex(),
        "slots": [asdict(slot) for slot in run.slots],
        "tasks": [asdict(task) for task in run.tasks],
        "stopped": run.stopped,
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_FACTS, json.dumps(facts, indent=1))
        archive.writestr(_CONTENT, run.content)
    write_bytes(packed.getvalue(), file)


def read_run(file: str) -> ProbeRun:
    """Read a file that `write_run` has written.

    Raises:
        ReportFileError: it cannot be read, is damaged, or is of a later version.
    """
    try:
        with open_file(file) as opened, zipfile.ZipFile(opened) as archive:
            for name, most in _MOST.items():
                if archive.getinfo(name).file_size > most:
                    raise ValueError(f"its {name} unpacks to more than {most:,} bytes")
            facts: dict[str, Any] = json.loads(archive.read(_FACTS))
            content = archive.read(_CONTENT)
        if facts["version"] != _VERSION:
            raise ValueError(f"it has version {facts['version']}, not {_VERSION}")
        stopped = facts.get("stopped")  # not in files of 0.2.0
        return _checked(
            ProbeRun(
                _typed(RunFacts, facts["recorded"]),
                _typed(TraceClock, facts["clock"]),
                read_names(bytes.fromhex(facts["names"])),
                _typed(ProbeCosts, facts["costs"]),
                content,
                tuple(_typed(Slot, slot) for slot in facts["slots"]),
                tuple(_typed(Task, task) for task in facts["tasks"]),
                stopped if stopped is None else _bits(stopped, 32),
            )
        )
    except OSError as error:
        raise ReportFileError(f"{file} cannot be read: {error.strerror}.") from error
    except _DAMAGED as error:
        raise ReportFileError(
            f"{file} is not a trace of this boardprof: {error}.",
            hint="a file that `boardprof trace -o FILE` wrote",
        ) from error


_UNITS = ("cycles", "instructions", "ticks")
_MOST_TICKS = 1 << 62
_MOST_HZ = 1 << 40


def _typed(kind: Callable[..., _T], members: Mapping[str, Any]) -> _T:
    """Return a dataclass of parsed JSON; raise TypeError or ValueError for what it cannot hold."""
    found = kind(**members)
    for name, hint in get_type_hints(kind).items():
        value = getattr(found, name)
        allowed = get_args(hint) or (hint,)
        allowed += (int,) if float in allowed else ()
        if type(value) not in allowed:
            raise TypeError(f"{name} is {value!r:.60}")
        if type(value) in (int, float) and not abs(value) < 1 << 64:  # also NaN
            raise ValueError(f"{name} is {value!r:.60}")
        if isinstance(value, str):  # a file's name need not be text
            value.encode(errors="surrogateescape" if name == "image" else "strict")
    return found


def _checked(run: ProbeRun) -> ProbeRun:
    """Return a run whose facts fit together; raise ValueError for another one."""
    facts, clock, costs = run.facts, run.clock, run.costs
    rates = clock.hz, clock.per_tick
    if facts.order not in ("<", ">") or clock.unit not in _UNITS or min(rates) < 0:
        raise ValueError(f"its clock is {clock}, its order is {facts.order!r}")
    most = max(abs(each or 0) for each in vars(costs).values())
    if max(rates) > _MOST_HZ or most >= 1 << 30 or costs.slot < 0:
        raise ValueError(f"its clock is {clock}, its probes cost {costs}")
    _ = facts.unix_us
    begins = {each.number for each in run.names.of_kind(ProbeKind.RANGE)}
    for slot in run.slots:
        if slot.number not in begins:
            raise ValueError(f"it has no range of the number {slot.number}")
        counts = (slot.count, slot.lost, slot.least, slot.most, slot.sum, slot.squares or 0)
        if min(counts) < 0 or slot.count >= 1 << 32 or max(counts[:-1]) > _MOST_TICKS:
            raise ValueError(f"the statistics of a range are {slot}")
    for task in run.tasks:
        _bits(task.number, 63)
    return run


def _bits(value: object, count: int) -> int:
    if type(value) is not int or not 0 <= value < 1 << count:
        raise ValueError(f"{value!r:.60} is not a number of {count} bits")
    return value
