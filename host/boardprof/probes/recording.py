# SPDX-License-Identifier: Apache-2.0
"""Record what a board's probes tell: start them, take their blocks from the stream, stop them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from boardprof.decode.dictionary import Dictionary
from boardprof.errors import DecodeError, FrameError, UsageError
from boardprof.link.session import Session
from boardprof.link.stream import Stream
from boardprof.probes.probe_names import ProbeNames
from boardprof.probes.records import Block, Events, blocks, decode_words, join
from boardprof.probes.timeline import ProbeCosts, Timeline
from boardprof_protocol.codes import ProbeKind, TraceFlag, TraceMode
from boardprof_protocol.trace import TRACE_SLOT

_TRACE, _START, _STOP = "bp.trace", "bp.trace_start", "bp.trace_stop"
_SLOTS, _CALIBRATE = "bp.trace_slots", "bp.trace_calibrate"

_CALIBRATION = "bp_calibration"
"""Name of the probes that bp.trace_calibrate runs."""

_LAST_BLOCK_S = 2.0
"""How long the last block is waited for, as long as none comes."""

OnBytes = Callable[[int], None]
"""Called with the bytes of the stream so far."""


@dataclass(frozen=True)
class TraceClock:
    """What the times of events count.

    Attributes:
        unit: ``cycles``, ``instructions`` or ``ticks``.
        source: the register.
        hz: its rate; 0 if it is not known or no time passes with it.
    """

    unit: str
    source: str
    hz: int


@dataclass(frozen=True)
class Slot:
    """The statistics of a range since they were started.

    Attributes:
        number: of the range's begin.
        count: passes.
        lost: passes that overlapped another one, and are not in ``count``.
        least: ticks of the shortest pass; 0 if there is none.
        most: of the longest one.
        sum: of all.
        squares: sum of their squares; None if it was too large for the board.
    """

    number: int
    count: int
    lost: int
    least: int
    most: int
    sum: int
    squares: int | None

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
        return (spread / (self.count * (self.count - 1))) ** 0.5


@dataclass(frozen=True)
class ProbeRecording:
    """What was recorded.

    Attributes:
        board: its name.
        clock: of the events.
        names: of the image's probes.
        costs: of the probes.
        content: the stream's bytes, as they came.
        order: of the bytes of records, ``<`` or ``>``.
        slots: statistics of ranges; empty if they were not asked for.
    """

    board: str
    clock: TraceClock
    names: ProbeNames
    costs: ProbeCosts
    content: bytes
    order: str = "<"
    slots: tuple[Slot, ...] = field(default=())

    def timelines(self) -> dict[int, Timeline]:
        """Return the events of each core, put together.

        Raises:
            DecodeError: they do not follow each other, or contradict the clock.
        """
        found: dict[int, list[Block]] = {}
        for block in blocks(self.content, self.order):
            found.setdefault(block.core, []).append(block)
        return {core: self._timeline(core, each) for core, each in sorted(found.items())}

    def _timeline(self, core: int, parts: list[Block]) -> Timeline:
        events = join(list(_pieces(core, parts, self.names)))
        last = parts[-1]
        end = int(events.time[-1]) + (last.now - last.last) % 2**32 if len(events) else None
        return Timeline(events, self.names, self.costs, end)


def _pieces(core: int, parts: list[Block], names: ProbeNames) -> Iterator[Events]:
    """Yield the events up to the end of each whole block.

    From one to the next, their times must add up to what the clock has counted. With the names of
    another image they would not.
    """
    words, now, clock = 0, 0, None
    waiting: list[npt.NDArray[np.uint32]] = []
    for part in parts:
        if part.sequence != words % 2**32:
            raise DecodeError(
                f"Events of core {core} are missing: a block begins with word {part.sequence}, "
                f"and {words} words came before it.",
                hint="record again",
            )
        words += len(part.words)
        waiting.append(part.words)
        if not words or not (part.whole or part is parts[-1]):
            continue
        events = decode_words(np.concatenate(waiting), names)
        waiting = []
        yield replace(events, time=events.time + now)
        now += int(events.time[-1]) if len(events) else 0
        if not part.whole:
            return
        if clock is not None and (now - clock[0] - (part.last - clock[1])) % 2**32:
            raise DecodeError(
                f"The events of core {core} contradict the board's clock after {words} words.",
                hint="give the image that runs on the board (--image)",
            )
        clock = (now, part.last)


class ProbeRecorder:
    """Records a board's probes; use it in a ``with``, and see `recording` after that.

    Attributes:
        clock: of the board's probes.
        costs: of its probes, measured when recording begins.
    """

    def __init__(
        self,
        board: str,
        session: Session,
        dictionary: Dictionary,
        open_stream: Callable[[], Stream],
        names: ProbeNames,
        what: TraceFlag,
        mode: TraceMode,
        order: str = "<",
    ) -> None:
        """Ask the board for its probes; see `Board.tracing`.

        Raises:
            UsageError: its firmware has none.
        """
        self._ids = {each.name: each.id for each in dictionary.functions}
        if _TRACE not in self._ids:
            raise UsageError(
                f"The firmware of {board} has no probes: its agent has no {_TRACE}.",
                hint="build it with BP_CFG_TRACE set to the bytes of a ring, such as 4096",
            )
        self._board, self._session, self._open_stream = board, session, open_stream
        self._names, self._order = names, order
        self._what, self._mode = what, mode
        self._content = bytearray()
        self._slots: tuple[Slot, ...] = ()
        self._stream: Stream | None = None
        value: Any = self._call(_TRACE)
        match value:
            case [str(unit), str(source), int(hz), int(), int(cores), int(), *_]:
                self.clock = TraceClock(unit, source, hz)
                self._cores = cores
            case _:
                raise FrameError(f"{_TRACE} returned {value!r:.60}, not what SPEC.md 5.12 says.")
        self.costs = ProbeCosts()

    def __enter__(self) -> Self:
        """Measure what probes cost, and begin to record."""
        self._stream = self._open_stream()
        self._call(_START, int(self._what | TraceFlag.EVENTS), int(TraceMode.DROP))
        self._call(_CALIBRATE)
        self._call(_STOP, int(self._what | TraceFlag.EVENTS))
        self._read_to_end()
        self.costs = _costs(self.recording())
        self._content.clear()
        self._call(_START, int(self._what), int(self._mode))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End recording, and take the last blocks and the statistics."""
        if error is None:
            self.stop()

    def stop(self) -> ProbeRecording:
        """End recording; take the last blocks, and the statistics of ranges."""
        if self._stream is not None:
            self._call(_STOP, int(self._what))
            if self._what & TraceFlag.EVENTS and self._mode != TraceMode.OVERWRITE:
                self._read_to_end()
            self._stream.close()
            self._stream = None
            if self._what & TraceFlag.STATISTICS:
                self._slots = self.statistics()
        return self.recording()

    def _call(self, name: str, *arguments: object) -> Any:
        return self._session.invoke(self._ids[name], name, *arguments)

    def read(self, timeout_s: float = 0.0) -> int:
        """Take what has come; wait up to ``timeout_s`` for more. Returns all bytes so far."""
        if self._stream is not None:
            self._content += self._stream.read(timeout_s)
        return len(self._content)

    def recording(self) -> ProbeRecording:
        """Return what was recorded so far."""
        return ProbeRecording(
            self._board,
            self.clock,
            self._names,
            self.costs,
            bytes(self._content),
            self._order,
            self._slots,
        )

    def _read_to_end(self) -> None:
        """Read until each core's last block is there: it is empty, as the host has stopped."""
        deadline_s = time.monotonic() + _LAST_BLOCK_S
        while True:
            before = len(self._content)
            if self.read(0.05) != before:
                deadline_s = time.monotonic() + _LAST_BLOCK_S
            last = {each.core: each for each in blocks(bytes(self._content), self._order)}
            if len(last) == self._cores and not any(len(each.words) for each in last.values()):
                return
            if time.monotonic() > deadline_s:
                raise FrameError(
                    f"The last events of {self._board} did not come within {_LAST_BLOCK_S:g} s.",
                    hint="let the firmware call bp_poll more often",
                )

    def statistics(self) -> tuple[Slot, ...]:
        """Return the statistics of the ranges that were entered so far."""
        record = np.dtype(TRACE_SLOT.dtype)
        found: list[Slot] = []
        while content := self._call(_SLOTS, len(found)):
            for each in np.frombuffer(content, record):
                fields = {name: int(each[name]) for name in record.names or ()}
                overflow = fields.pop("flags") & 1
                found.append(
                    Slot(
                        fields["id"],
                        fields["count"],
                        fields["lost"],
                        fields["least"] if fields["count"] else 0,
                        fields["most"],
                        fields["sum"],
                        None if overflow else fields["squares"],
                    )
                )
        return tuple(found)


def _costs(recording: ProbeRecording) -> ProbeCosts:
    """Return what the probes of bp.trace_calibrate cost."""
    timelines = recording.timelines()
    if not timelines:
        return ProbeCosts()
    line = next(iter(timelines.values()))
    numbers = {each.kind: each.number for each in line.names.names if each.text == _CALIBRATION}

    def between(kind: ProbeKind) -> int:
        """The ticks from one to the next of two probes that follow each other."""
        times = line.events.time[line.events.number == numbers[kind]]
        steps = np.diff(times)[::2]
        return int(np.median(steps)) if len(steps) else 0

    empty = line.ranges.own
    return ProbeCosts(
        empty=int(np.median(empty[1:])) if len(empty) > 1 else 0,
        mark=between(ProbeKind.MARK),
        value=between(ProbeKind.U32),
    )
