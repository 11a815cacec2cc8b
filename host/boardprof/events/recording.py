# SPDX-License-Identifier: Apache-2.0
"""What was recorded of a board's probes, and where."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from boardprof.errors import DecodeError
from boardprof.events.probe_names import ProbeNames
from boardprof.events.records import Block, Events, blocks, decode_words, gap, join
from boardprof.events.timeline import UNKNOWN_TASK, ProbeCosts, Timeline


@dataclass(frozen=True)
class TraceClock:
    """What the times of events count.

    Attributes:
        unit: ``cycles``, ``instructions`` or ``ticks``.
        source: the register.
        hz: its rate; 0 if it is not known or no time passes with it.
        per_tick: at most how much it counts in a tick of the port's counter; 0 if not known.
    """

    unit: str
    source: str
    hz: int
    per_tick: float = 0


WRAP = 2**32
"""The trace clock has 32 bits: after that it begins again."""


@dataclass(frozen=True)
class Slot:
    """The statistics of a range since they were started.

    Attributes:
        number: of the range's begin.
        count: passes.
        lost: passes that overlapped another one or took too long, and are not in ``count``.
        least: ticks of the shortest pass; 0 if there is none.
        most: of the longest one.
        sum: of all.
        squares: sum of their squares; None if it was too large for the board.
        too_long: whether passes were left out because the trace clock may wrap in them.
        unmatched: whether passes were left out because a task was in the range when recording
            began.
    """

    number: int
    count: int
    lost: int
    least: int
    most: int
    sum: int
    squares: int | None
    too_long: bool = False
    unmatched: bool = False

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
    """A task of the firmware's operating system, from its table of tasks.

    Attributes:
        number: of TASK events: the low 32 bits of its address.
        name: as the firmware calls it; "" if it has none.
        stack: bytes of its stack; None if not known.
        used: the most bytes of it that were ever in use; None if not known.
    """

    number: int
    name: str
    stack: int | None = None
    used: int | None = None


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
class Recorded:
    """Where something was recorded.

    Attributes:
        board: its name.
        port: through which it was reached.
        clock_kind: ``measured``, ``declared`` or ``simulated``.
        emulated: whether the board is an emulator.
        agent_version: of its firmware.
        build_id: of the image, 16 hexadecimal digits.
        boot_id: differs between boots.
        image: the file that ran; "" if it was not known.
        flags: compiler flags of the functions' code; None if unknown.
        order: of the bytes of records, ``<`` or ``>``.
        time: when recording began, in ISO 8601, UTC; "" if not yet.
    """

    board: str
    port: str = ""
    clock_kind: str = "simulated"
    emulated: bool = False
    agent_version: str = ""
    build_id: str = ""
    boot_id: int = 0
    image: str = ""
    flags: str | None = None
    order: str = "<"
    time: str = ""


@dataclass(frozen=True)
class ProbeRecording:
    """What was recorded.

    Attributes:
        facts: where.
        clock: of the events.
        names: of the image's probes.
        costs: of the probes.
        content: the stream's bytes, as they came.
        slots: statistics of ranges; empty if they were not asked for.
        tasks: that the firmware has named.
    """

    facts: Recorded
    clock: TraceClock
    names: ProbeNames
    costs: ProbeCosts
    content: bytes = b""
    slots: tuple[Slot, ...] = field(default=())
    tasks: tuple[Task, ...] = ()

    def timelines(self, tasks: Mapping[int, int] | None = None) -> dict[int, Timeline]:
        """Return the events of each core, put together.

        Args:
            tasks: that had the cores when recording began, if known.

        Raises:
            DecodeError: they do not follow each other, or contradict the clock.
        """
        found: dict[int, list[Block]] = {}
        for block in blocks(self.content, self.facts.order):
            found.setdefault(block.core, []).append(block)
        known = tasks or {}
        return {
            core: self._timeline(core, each, known.get(core, UNKNOWN_TASK))
            for core, each in sorted(found.items())
        }

    def _timeline(self, core: int, parts: list[Block], task: int) -> Timeline:
        pieces = _Pieces(core, parts, self.names, self.clock)
        events = join(list(pieces))
        end = int(events.time[-1]) + pieces.idle if len(events) else None
        last = parts[-1]
        return Timeline(events, self.names, self.costs, end, last.dropped, task, pieces.unsure)


_AT_ONCE = 1 << 16
"""Words of blocks that are decoded together: each time takes as long as thousands of words."""

_LONG = WRAP // 16
"""Between two blocks, so that they are decoded apart: the agent sends one after twice of that."""


class _Pieces:
    """The events of a core up to the ends of whole blocks.

    From one to the next, their times must add up to what the clock has counted. With the names of
    another image they would not.

    The clock may wrap between two events. Blocks in between show how often. Without any, the port's
    ticks show that it may have wrapped. As the place is not known, all events between these two
    blocks are left out. DROPPED stands there instead, with the value 0.

    Attributes:
        idle: ticks from the last event to the end.
        unsure: events that were left out.
    """

    def __init__(self, core: int, parts: list[Block], names: ProbeNames, clock: TraceClock) -> None:
        """Take the blocks of a core."""
        self._core, self._parts, self._names, self._clock = core, parts, names, clock
        self.idle = self.unsure = 0

    def __iter__(self) -> Iterator[Events]:
        """Yield the events."""
        due = self._due()
        words = decoded = self._parts[0].sequence
        now = passed = 0
        before: Block | None = None
        waiting: list[npt.NDArray[np.uint32]] = []
        for index, part in enumerate(self._parts):
            if part.sequence != words % WRAP:
                raise DecodeError(
                    f"Events of core {self._core} are missing: a block begins with word "
                    f"{part.sequence}, and {words} words came before it.",
                    hint="record again",
                )
            words += len(part.words)
            waiting.append(part.words)
            passed += (part.now - self._parts[max(index - 1, 0)].now) % WRAP
            is_due = before is None or words - decoded >= _AT_ONCE or index in due
            if not ((part.whole and is_due) or part is self._parts[-1]):
                continue
            events = decode_words(np.concatenate(waiting), self._names)
            if not part.whole or before is None:
                self.idle = (part.now - part.last) % WRAP
            else:
                events = self._checked(events, before, part, passed, words)
            yield replace(events, time=events.time + now)
            now += int(events.time[-1]) if len(events) else 0
            waiting, decoded, passed, before = [], words, 0, part

    def _due(self) -> set[int]:
        """Return the whole blocks at which a piece ends: those around a long time, and the last."""
        whole = [index for index, part in enumerate(self._parts) if part.whole]
        due = set(whole[-1:])
        for before, after in pairwise(whole):
            first, second = self._parts[before], self._parts[after]
            if (second.now - first.now) % WRAP >= _LONG or self._most(first, second) >= WRAP:
                due |= {before, after}
        return due

    def _most(self, first: Block, second: Block) -> float:
        """Return at most how much the clock has counted between two blocks; 0 if not known."""
        return (second.ticks - first.ticks) * self._clock.per_tick

    def _checked(
        self, events: Events, before: Block, after: Block, passed: int, words: int
    ) -> Events:
        """Return the events between two blocks, with times that agree with the blocks' clocks.

        Args:
            events: with times from the last event of ``before`` on.
            before: the last block of the piece before.
            after: the last block of this piece.
            passed: between these two, by the clocks of all blocks; too little if it has wrapped
                between two of them.
            words: of the core up to ``after``.
        """
        took = int(events.time[-1]) if len(events) else 0
        if (took - (after.last - before.last)) % WRAP:
            raise DecodeError(
                f"The events of core {self._core} contradict the board's clock after {words} "
                "words.",
                hint="give the image that runs on the board (--image)",
            )
        left = (after.now - after.last) % WRAP if len(events) else self.idle + passed
        missing = self.idle + passed - left - took
        by_events = took + left - self.idle
        self.idle = left
        if self._most(before, after) >= max(by_events, passed) + WRAP or (
            missing > 0 and passed >= WRAP
        ):
            self.unsure += len(events)
            return gap(took)
        if missing > 0:  # before the first event: after it there was no time for that
            return replace(events, time=events.time + missing)
        return events
