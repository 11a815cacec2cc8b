# SPDX-License-Identifier: Apache-2.0
"""What was recorded of a board's probes, and where."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from boardprof.errors import DecodeError
from boardprof.events.probe_names import ProbeNames
from boardprof.events.records import Block, Events, blocks, decode_words, join
from boardprof.events.timeline import UNKNOWN_TASK, ProbeCosts, Timeline


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
        return math.sqrt(spread / (self.count * (self.count - 1)))


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
    """

    facts: Recorded
    clock: TraceClock
    names: ProbeNames
    costs: ProbeCosts
    content: bytes = b""
    slots: tuple[Slot, ...] = field(default=())

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
        events = join(list(_pieces(core, parts, self.names)))
        last = parts[-1]
        end = int(events.time[-1]) + (last.now - last.last) % 2**32 if len(events) else None
        return Timeline(events, self.names, self.costs, end, last.dropped, task)


_AT_ONCE = 1 << 16
"""Words of blocks that are decoded together: each time takes as long as thousands of words."""


def _pieces(core: int, parts: list[Block], names: ProbeNames) -> Iterator[Events]:
    """Yield the events up to the ends of whole blocks.

    From one to the next, their times must add up to what the clock has counted. With the names of
    another image they would not.
    """
    words, now, clock = parts[0].sequence, 0, None
    first = decoded = words
    waiting: list[npt.NDArray[np.uint32]] = []
    last_whole = max((i for i, part in enumerate(parts) if part.whole), default=-1)
    for index, part in enumerate(parts):
        if part.sequence != words % 2**32:
            raise DecodeError(
                f"Events of core {core} are missing: a block begins with word {part.sequence}, "
                f"and {words} words came before it.",
                hint="record again",
            )
        words += len(part.words)
        waiting.append(part.words)
        is_due = clock is None or words - decoded >= _AT_ONCE or index == last_whole
        if words == first or not ((part.whole and is_due) or part is parts[-1]):
            continue
        events = decode_words(np.concatenate(waiting), names)
        waiting, decoded = [], words
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
