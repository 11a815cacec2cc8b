# SPDX-License-Identifier: Apache-2.0
"""Record what a board's probes tell: start them, take their blocks from the stream, stop them."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from boardprof.base.errors import (
    BoardprofError,
    BoardTimeoutError,
    DecodeError,
    DeviceResetError,
    FrameError,
    LinkError,
    UsageError,
    option,
)
from boardprof.results.probes.core_events import WRAP
from boardprof.results.probes.events import (
    CHECK_SECTION,
    NAMES_SECTION,
    ProbeNames,
    block_of,
    blocks,
    count_records,
    decode_words,
    kept_blocks,
    read_names,
)
from boardprof.results.probes.run import ProbeRun, RunFacts, Slot, Task, TraceClock
from boardprof.results.probes.timeline import ProbeCosts, Timeline
from boardprof.target.descriptions.board import board_spec, find_boards
from boardprof.target.elf.object_file import images, read_image
from boardprof.wire.decode.dictionary import Dictionary
from boardprof.wire.link.channels import Stream
from boardprof.wire.link.session import Session
from boardprof.wire.link.transfer import LEAST_FRAME
from boardprof_protocol.codes import (
    ProbeKind,
    TraceClockStatus,
    TraceFlag,
    TraceMode,
    TraceSlotFlag,
)
from boardprof_protocol.frame import body_capacity
from boardprof_protocol.trace import PASSES, TRACE_BLOCK, TRACE_KEPT, TRACE_SLOT

_TRACE, _START, _STOP = "bp.trace", "bp.trace_start", "bp.trace_stop"
_SLOTS, _CALIBRATE = "bp.trace_slots", "bp.trace_calibrate"
_KEPT, _READ = "bp.trace_kept", "bp.trace_read"
_TASKS = "bp.trace_tasks"

_RECORDING = "a recording of probes"  # what a thread holds the board for, for messages
_REPLY_OVERHEAD = 16  # bytes of a reply besides the words of a ring, at most
_CALIBRATION = "bp_calibration"  # name of the probes that bp.trace_calibrate runs
_INTERRUPT = "bp_interrupt"
"""Name of the marks around an interrupt that it triggers, if the board's port can."""

_MOST_NUMBERS = 2048
"""Numbers that one instruction can load on each architecture; on RISC-V the fewest."""

_MOST_RING, _MOST_CORES, _MOST_TASKS = 1 << 24, 8, 255
"""What an agent can have at most."""

_MOST_ON_ITS_WAY = 1 << 20
"""Bytes that may come after recording was stopped, besides what the rings hold."""

_CALIBRATIONS = 3
"""How often the costs of probes are measured, if events of the firmware come in between."""

_LAST_BLOCK_S = 5.0  # how long the last block is waited for, as long as none comes


_RATE_S = 0.1  # how long is waited at most for `_RATE_TICKS`, to learn the rate of the trace clock
_RATE_TICKS = 20

_RATE_MARGIN = {"cycles": 1.1, "instructions": 2.0}
"""Unit -> how much faster the clock may be than while it was measured."""

_MOST_UNSEEN = 3 << 29
"""The agent leaves out a pass once it is older than 2^31 ticks, and looks every 2^29 at least."""


def check_probes(board: str, dictionary: Dictionary) -> None:
    """Check that a board's firmware has probes."""
    if any(each.name == _TRACE for each in dictionary.functions):
        return
    able = [each for each in find_boards() if board_spec(each).build.config.get("trace")]
    raise UsageError(
        f"The firmware of {board} has no probes: its agent has no {_TRACE}.",
        hint=f"take one of {', '.join(able)}; firmware of your own needs BP_CFG_TRACE, "
        "BP_CFG_STREAM, BP_CFG_BULK and BP_CFG_ARENA",
    )


_CLOCK_FAULTS: dict[int, tuple[str, str]] = {
    TraceClockStatus.STUCK: (
        "does not count",
        "build the firmware with BP_CFG_TRACE_CLOCK=1, which takes bp_port_ticks; see bp_config.h",
    ),
    TraceClockStatus.NARROW: (
        "has fewer than 32 bits",
        "build the firmware with BP_CFG_TRACE_CLOCK=0, for the core's cycle counter, or with a "
        "port whose bp_port_ticks has 32 bits or more",
    ),
}
"""What is wrong with the trace clock, and what to try."""


def probe_facts(session: Session, dictionary: Dictionary) -> dict[str, Any] | None:
    """Return what firmware can record, for `boardprof info`; None if it has no probes."""
    ids = [each.id for each in dictionary.functions if each.name == _TRACE]
    if not ids:
        return None
    state = _state(session, ids[0])
    recording = [flag.name.lower() for flag in TraceFlag if flag & state.running and flag.name]
    return {
        "ring_bytes": state.ring_bytes,
        "cores": state.cores,
        "clock_unit": state.unit,
        "clock_source": state.source,
        "clock_hz": state.hz or None,
        "clock_unsupported": _CLOCK_FAULTS.get(state.status, (None,))[0],
        "recording": recording,
    }


class _TraceState(NamedTuple):
    """The reply of bp.trace (SPEC.md 5.12)."""

    unit: str
    source: str
    hz: int
    ring_bytes: int
    cores: int
    running: int
    now: int  # the trace clock, 32 bits
    names: int  # a check of the names in the image
    ticks: int | None  # the port's; None, as the next, if its counter has too few bits
    unseen: int | None  # the most ticks between two looks at it
    status: int


_STATE_TYPES = (str, str, int, int, int, int, int, int, int | None, int | None, int)


def _state(session: Session, trace: int) -> _TraceState:
    """Ask a board for its probes and their clock; ``trace`` is the number of bp.trace."""
    value: Any = session.invoke(trace, _TRACE)
    fields = value[: len(_STATE_TYPES)] if isinstance(value, list) else []
    if len(fields) == len(_STATE_TYPES) and all(map(isinstance, fields, _STATE_TYPES)):
        state = _TraceState(*fields)
        has_sizes = 0 < state.ring_bytes <= _MOST_RING and 0 < state.cores <= _MOST_CORES
        if state.unit in PASSES and state.hz >= 0 and has_sizes:
            return state
    raise _unexpected(_TRACE, value)


def image_names(image: Path, check: int, board: str) -> ProbeNames:
    """Read the names of the probes in an image; the board tells their ``check`` (SPEC.md 5.12)."""
    content = _section(image, NAMES_SECTION)
    if not content:
        raise UsageError(
            f"{image} has no names of probes: it has no section {NAMES_SECTION}.",
            hint="use the image as the linker wrote it, built with BP_CFG_TRACE",
        )
    if zlib.crc32(_section(image, CHECK_SECTION)) != check:
        raise UsageError(
            f"The names of the probes in {image} are not those of the firmware on {board}.",
            hint="flash this image, or name the ELF file of the image that runs",
        )
    names = read_names(content)
    if names.end > _MOST_NUMBERS:
        raise UsageError(
            f"{image} has names of probes up to number {names.end - 1:,}, and a probe can load "
            f"numbers up to {_MOST_NUMBERS - 1:,}.",
            hint="use fewer names: a range takes two numbers",
        )
    return names


def _section(image: Path, name: str) -> bytes:
    """Return the bytes of a section, which are empty if the image lacks it."""
    return b"".join(
        read_image(each, lambda elf: s.data() if (s := elf.get_section_by_name(name)) else b"")
        for each in images(image)
    )


class ProbeRecorder:
    """Records a board's probes; use it in a ``with``, and see `recording` after that."""

    def __init__(
        self,
        facts: RunFacts,
        session: Session,
        dictionary: Dictionary,
        open_stream: Callable[[], Stream],
        what: TraceFlag,
        mode: TraceMode,
    ) -> None:
        """Ask the board for its probes, and read their names; see `Board.tracing`."""
        self._ids = {each.name: each.id for each in dictionary.functions}
        self._facts, self._session, self._open_stream = facts, session, open_stream
        self._what, self._mode = what, mode
        self._content = bytearray()
        self._runs = False
        self.began = 0  # its trace clock, 32 bits, when recording began
        self._seen = self._words = self._records = 0
        self._dropped: dict[int, int] = {}
        self._ended: dict[int, bool] = {}
        self._slots: tuple[Slot, ...] = ()
        self._stopped: int | None = None
        self._tasks: tuple[Task, ...] = ()
        self._stream: Stream | None = None
        state = self._look()
        if state.status in _CLOCK_FAULTS:
            fault, hint = _CLOCK_FAULTS[state.status]
            raise UsageError(
                f"The trace clock of {facts.board} {fault}: {state.source}.", hint=hint
            )
        self.clock = TraceClock(state.unit, state.source, state.hz)
        self.ring_bytes, self._cores = state.ring_bytes, state.cores
        self._names = image_names(Path(facts.image), state.names, facts.board)
        self.costs = ProbeCosts()

    def _look(self) -> _TraceState:
        return _state(self._session, self._ids[_TRACE])

    def __enter__(self) -> Self:
        """Measure what probes cost, and begin to record."""
        with self._session.exclusive(_RECORDING):
            if self._streams:
                self._stream = self._open_stream()
                self._tasks = self.tasks()
            before = self._look()
            self._calibrate()
            self.clock = replace(self.clock, per_tick=self._per_tick(before))
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            self._facts = replace(self._facts, time=now)
            ticks = self._look().ticks
            self.began = self._call(_START, int(self._what), int(self._mode))
            self._runs = True
            if self._streams and self._cores == 1:
                # Without it, the time up to the board's first block would not be known.
                self._content += block_of(0, self.began, ticks=ticks or 0)
        return self

    def _per_tick(self, before: _TraceState) -> float:
        """Return at most how much the trace clock counts in one tick of the port's counter."""
        if before.ticks is None:
            return 0
        if self.clock.unit == "ticks":
            return 1
        deadline_s = time.monotonic() + _RATE_S
        while True:
            after = self._look()
            passed = (after.ticks or 0) - before.ticks
            if passed >= _RATE_TICKS or time.monotonic() > deadline_s:
                break
        counted = (after.now - before.now) % WRAP
        return counted / passed * _RATE_MARGIN[self.clock.unit] if passed > 0 else 0

    @property
    def _streams(self) -> bool:
        return bool(self._what & TraceFlag.EVENTS) and self._mode != TraceMode.OVERWRITE

    def _calibrate(self) -> None:
        """Measure what probes cost: from records that the board makes of them."""
        for _ in range(_CALIBRATIONS):
            costs = self._measured_costs()
            if costs is not None:
                self.costs = replace(costs, slot=self._slot_cost())
                return
        raise UsageError(
            f"What probes cost on {self._facts.board} cannot be measured: its ring has no room.",
            hint="build its firmware with a larger BP_CFG_TRACE, 1024 or more",
        )

    def _measured_costs(self) -> ProbeCosts | None:
        """Run the probes of bp.trace_calibrate once; None if some of their records are missing."""
        # Events of the firmware may fill the ring at once: that must not stop the recording.
        mode = TraceMode.DROP if self._mode == TraceMode.STOP else self._mode
        self._call(_START, int(self._what), int(mode))
        self._call(_CALIBRATE)
        self._call(_STOP, int(self._what))
        if not self._what & TraceFlag.EVENTS:
            return ProbeCosts()
        if self._streams:
            self._read_to_end()
        else:
            self._content[:] = self._kept_content()
        found = [b for b in blocks(bytes(self._content), self._facts.order) if b.core == 0]
        self._content.clear()
        # A recording that still ran may have left blocks: ours begins with word 0.
        begins = [at for at, block in enumerate(found) if block.sequence == 0]
        words = [block.words for block in found[begins[-1] if begins else 0 :]]
        self._seen = self._words = self._records = 0
        self._dropped.clear()
        self._ended.clear()
        return _costs(words, self._names) if words else None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """End recording, and take the last blocks and the statistics."""
        if error is None:
            self.stop()
            return
        with suppress(BoardprofError):  # the first error counts; the board may be gone
            self.read()
        if not isinstance(error, BoardTimeoutError | DeviceResetError | LinkError):
            with suppress(BoardprofError):
                self.stop()
        if self._stream is not None:
            stream, self._stream = self._stream, None
            stream.__exit__(kind, error, trace)

    def stop(self) -> ProbeRun:
        """End recording; take the last blocks, and the statistics of ranges."""
        with self._session.exclusive(_RECORDING):
            if self._runs and self._mode != TraceMode.OVERWRITE:
                match self._call(_STOP, int(self._what)):
                    case int(stopped) if 0 <= stopped < WRAP:
                        self._stopped = stopped
                    case other:
                        raise _unexpected(_STOP, other)
                if self._what & TraceFlag.STATISTICS:
                    self._slots = tuple(s for s in self.statistics() if s.count or s.lost)
            self._runs = False
            if self._stream is not None:
                self._read_to_end()
                self._stream.close()
                self._stream = None
                self._tasks = self.tasks()
        return self.recording()

    def tasks(self) -> tuple[Task, ...]:
        """Return the tasks that the firmware has named so far; empty if it names none."""
        found: list[Task] = []
        while _TASKS in self._ids and (row := self._call(_TASKS, len(found))) is not None:
            match row:
                case [int(number), bytes(name), int() | None as stack, int() | None as used]:
                    found.append(Task(number, name.decode(errors="replace"), stack, used))
                case _:
                    raise _unexpected(_TASKS, row)
            if len(found) > _MOST_TASKS:
                raise FrameError(f"{_TASKS} has no end after {_MOST_TASKS} tasks.")
        return tuple(found)

    def _call(self, name: str, *arguments: object) -> Any:
        return self._session.invoke(self._ids[name], name, *arguments)

    def read(self, timeout_s: float = 0.0) -> int:
        """Take what has come, wait up to ``timeout_s`` for more, and return all bytes so far."""
        # Without events it waits for the whole time: an emulator runs only while its line is read.
        if self._stream is not None:
            self._content += self._stream.read(timeout_s)
        elif timeout_s > 0:
            self._session.listen(timeout_s, lambda: False, "a recording of statistics")
        return len(self._content)

    def take(self) -> ProbeRun:
        """Return what has come since the last time, up to the last whole block of each core."""
        found = [*blocks(bytes(self._content), self._facts.order)]
        ends = {each.core: at for at, each in enumerate(found) if each.whole}
        taken, left, at = bytearray(), bytearray(), 0
        for number, each in enumerate(found):
            end = at + TRACE_BLOCK.size + 4 * len(each.words)
            (taken if number <= ends.get(each.core, -1) else left).extend(self._content[at:end])
            at = end
        left += self._content[at:]
        slots = self.statistics() if self._what & TraceFlag.STATISTICS else ()
        self._scan()
        self._seen -= len(taken)
        self._content[:] = left
        return replace(self.recording(), content=bytes(taken), slots=slots)

    @property
    def progress(self) -> tuple[int, int]:
        """Words of records, and events that the board has dropped, so far."""
        self._scan()
        return self._words, sum(self._dropped.values())

    @property
    def records(self) -> int:
        """Roughly how many events have come; a block may begin within one."""
        self._scan()
        return self._records

    def _scan(self) -> None:
        """Look at the blocks that have come since the last time."""
        for block in blocks(bytes(self._content[self._seen :]), self._facts.order):
            if block.core >= self._cores:
                raise FrameError(
                    f"{self._facts.board} sent events of core {block.core}, and has {self._cores}.",
                    hint="flash the firmware again, or look at the line: boardprof doctor",
                )
            self._seen += TRACE_BLOCK.size + 4 * len(block.words)
            self._words += len(block.words)
            self._records += count_records(block.words, self._names)
            self._dropped[block.core] = block.dropped
            self._ended[block.core] = block.is_last

    @property
    def now(self) -> int:
        """The trace clock of the board, 32 bits."""
        return self._look().now

    def check_board(self) -> None:
        """Check that the board is still there, and in the same session."""
        self._session.invoke(self._ids[_TRACE], "the recording")

    def recording(self) -> ProbeRun:
        """Return what was recorded so far."""
        return ProbeRun(
            self._facts,
            self.clock,
            self._names,
            self.costs,
            bytes(self._content),
            self._slots,
            self._tasks,
            self._stopped,
        )

    def _read_to_end(self) -> None:
        """Read until each core's last block is there, which comes as the host has stopped."""
        deadline_s = time.monotonic() + _LAST_BLOCK_S
        most = len(self._content) + 4 * self._cores * self.ring_bytes + _MOST_ON_ITS_WAY
        while True:
            before = len(self._content)
            if self.read(0.05) != before:
                deadline_s = time.monotonic() + _LAST_BLOCK_S
            self._scan()
            if len(self._ended) == self._cores and all(self._ended.values()):
                return
            if len(self._content) > most:
                raise FrameError(
                    f"{self._facts.board} goes on sending events after recording was stopped.",
                    hint="reset the board",
                )
            if time.monotonic() > deadline_s:
                raise FrameError(
                    f"The last events of {self._facts.board} did not come within "
                    f"{_LAST_BLOCK_S:g} s.",
                    hint="let the firmware call bp_poll more often",
                )

    def kept(self) -> ProbeRun:
        """Return the events that the board's rings have kept over a reset; recording stops."""
        with self._session.exclusive(_RECORDING):
            content = self._kept_content()
            if not content:
                raise UsageError(
                    f"{self._facts.board} has kept no events: its rings are empty, or damaged.",
                    hint="start recording with: boardprof trace --mode overwrite",
                )
            self._calibrate()
            # What it has left is not worth keeping.
            self._call(_START, int(TraceFlag.EVENTS), int(TraceMode.DROP))
            self._call(_STOP, int(TraceFlag.EVENTS))
        self._content[:] = content
        return self.recording()

    def _kept_content(self) -> bytes:
        header = np.dtype(TRACE_KEPT.dtype)
        content = b""
        for core in range(self._cores):
            found = self._call(_KEPT, core)
            if found is None:
                continue
            if not isinstance(found, bytes) or len(found) != header.itemsize:
                raise _unexpected(_KEPT, found)
            state = np.frombuffer(found, header, 1)[0]
            at, size, written, last = (int(state[n]) for n in ("at", "size", "written", "last"))
            if 4 * size > self.ring_bytes or at % 2 or at >= max(size, 1):
                raise _unexpected(_KEPT, found)
            build_id = bytes(state["build_id"]).hex() if any(state["build_id"]) else ""
            if build_id != self._facts.build_id:
                raise UsageError(
                    f"The events on {self._facts.board} are those of build "
                    f"{build_id or 'unknown'}, and build {self._facts.build_id or 'unknown'} runs.",
                    hint="start the firmware that recorded them",
                )
            words = np.zeros(size, f"{self._facts.order}u4")
            used = min(size, written)  # a large ring takes long to read
            words[:used] = np.frombuffer(self._ring(core, used), words.dtype)
            content += kept_blocks(core, words, at, written, last, self._names)
        return content

    def _ring(self, core: int, words: int) -> bytes:
        found = bytearray()
        welcome = self._session.welcome
        mtu = LEAST_FRAME if welcome is None else welcome.mtu_tx
        most = (body_capacity(mtu) - _REPLY_OVERHEAD) // 4
        while len(found) < 4 * words:
            first = len(found) // 4
            count = min(words - first, most)
            part = self._call(_READ, core, first, count)
            if not isinstance(part, bytes) or len(part) != 4 * count:
                raise _unexpected(_READ, part)
            found += part
        return bytes(found)

    def _slot_cost(self) -> int:
        """Return what the statistics of an empty range have counted."""
        if not self._what & TraceFlag.STATISTICS:
            return 0
        numbers = {n.number for n in self._names.of_kind(ProbeKind.RANGE) if n.text == _CALIBRATION}
        return next((s.least for s in self.statistics() if s.number in numbers), 0)

    def statistics(self) -> tuple[Slot, ...]:
        """Return the statistics of the ranges that were entered so far."""
        record = np.dtype(TRACE_SLOT.dtype)
        ranges = {each.number for each in self._names.of_kind(ProbeKind.RANGE)}
        found: dict[int, Slot] = {}
        with self._session.exclusive(_RECORDING):
            read = 0
            while content := self._call(_SLOTS, read):
                if not isinstance(content, bytes) or len(content) % record.itemsize:
                    raise _unexpected(_SLOTS, content)
                for each in np.frombuffer(content, record):
                    fields = {name: int(each[name]) for name in record.names or ()}
                    flags = TraceSlotFlag(fields.pop("flags"))
                    slot = Slot(
                        fields["id"],
                        fields["count"],
                        fields["lost"],
                        fields["least"] if fields["count"] else 0,
                        fields["most"],
                        fields["sum"],
                        None if TraceSlotFlag.SQUARES_OVERFLOW in flags else fields["squares"],
                        TraceSlotFlag.TOO_LONG in flags,
                        TraceSlotFlag.UNMATCHED in flags,
                    )
                    read += 1
                    if slot.number not in ranges or read > len(ranges):
                        raise FrameError(
                            f"{self._facts.board} sent statistics of range {slot.number} twice, "
                            "or its image has no such range.",
                            hint=f"give the image that runs on the board ({option('--image')})",
                        )
                    # In agents up to 0.2.0, a range that is entered meanwhile comes first, so that
                    # another one comes again. Its newer values count.
                    found[slot.number] = slot
            unseen = self._look().unseen
        if (unseen or 0) * self.clock.per_tick >= _MOST_UNSEEN:
            raise UsageError(
                f"The statistics of {self._facts.board} may be wrong: the firmware did not call "
                f"bp_poll for so long that its trace clock of 32 bits may have wrapped in a pass.",
                hint="record events, which show it, or call bp_poll more often",
            )
        return tuple(found.values())


def _unexpected(name: str, value: object) -> FrameError:
    return FrameError(f"{name} returned {value!r:.60}, not what SPEC.md 5.12 says.")


def _costs(words: Sequence[npt.NDArray[np.uint32]], names: ProbeNames) -> ProbeCosts | None:
    """Return what the probes of bp.trace_calibrate cost; None if some of them were dropped."""
    # The board has shifted its clock in between, so that the blocks' clocks do not agree with it.
    line = Timeline(decode_words(np.concatenate(words), names), names, ProbeCosts())
    numbers = {name.kind: name.number for name in names.names if name.text == _CALIBRATION}
    if not numbers.keys() >= {ProbeKind.RANGE, ProbeKind.MARK, ProbeKind.U32}:
        raise DecodeError(
            "The image lacks names of the agent's own probes, so its names are not the board's.",
            hint=f"give the image that runs on the board ({option('--image')})",
        )

    def between(kind: ProbeKind, inner: int = 0, *, late: bool = False) -> float | None:
        """The ticks from the first to the second of two probes with ``inner`` between them."""
        mine = np.flatnonzero(line.events.number == numbers[kind])
        first, second = mine[: len(mine) // 2 * 2 : 2], mine[1::2]
        steps = line.events.time[second] - line.events.time[first] - line.events.took[first]
        steps = steps[(second - first == inner + 1) & (line.events.late[first] == late)]
        return _typical(steps) if len(steps) else None

    empty = line.ranges.own[line.ranges.of(numbers[ProbeKind.RANGE])]
    mark, value = between(ProbeKind.MARK), between(ProbeKind.U32)
    late = between(ProbeKind.MARK, late=True)
    around_range = between(ProbeKind.MARK, inner=2)
    if mark is None or value is None or around_range is None or len(empty) < 2:
        return None
    return ProbeCosts(
        empty=_typical(empty[1:]),
        mark=mark,
        value=value,
        range=(around_range - mark) / 2,
        late=None if late is None else late - mark,
        interrupt=_interrupt_cost(line),
    )


def _typical(steps: npt.NDArray[Any]) -> float:
    """Return the mean of the middle half: a tick may have several instructions, or parts of one."""
    ordered = np.sort(steps)
    quarter = len(ordered) // 4
    return float(ordered[quarter : len(ordered) - quarter].mean())


def _interrupt_cost(line: Timeline) -> int | None:
    """Return what an interrupt takes outside of its own two marks; None if not known."""
    # Bp.trace_calibrate triggers one between two marks, and one that is masked until after them.
    numbers = [n.number for n in line.names.of_kind(ProbeKind.MARK) if n.text == _INTERRUPT]
    marks = np.flatnonzero(np.isin(line.events.number, numbers))
    time = line.events.time
    begin, end = marks[: len(marks) // 2 * 2 : 2], marks[1::2]
    masked = time[end] - time[begin]
    # Others may have come, too: only pairs with one interrupt or none are of use.
    hit = begin[end - begin == 3]
    around = time[hit + 3] - time[hit] - (time[hit + 2] - time[hit + 1])
    if not len(hit) or not (end - begin == 1).any():
        return None
    return int(np.median(around)) - int(np.median(masked[end - begin == 1]))
