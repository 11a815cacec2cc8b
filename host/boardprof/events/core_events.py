# SPDX-License-Identifier: Apache-2.0
"""From the blocks of one core to its events, all on the core's own clock, without wraps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from boardprof.errors import DecodeError
from boardprof.events.probe_names import ProbeNames
from boardprof.events.records import Block, Events, decode_words, join
from boardprof_protocol.codes import TraceId

Ints = npt.NDArray[np.int64]

_WRAP = 1 << 32
_LONGEST = 1 << 61
_SLACK = 1 << 30
"""How far two cores' clocks may run apart while a core records nothing."""

_AT_ONCE = 50_000
"""Words of blocks that are decoded together: each time takes as long as thousands of words, and a
piece of `decode_words` has some more."""


@dataclass(frozen=True)
class Syncs:
    """When a core has read the ticks that all cores share.

    Attributes:
        time: ticks of the core's clock.
        took: the shared ticks were read at most as many ticks after ``time``.
        shared: what they were.
    """

    time: Ints
    took: Ints
    shared: npt.NDArray[np.uint64]


@dataclass(frozen=True)
class CoreEvents:
    """What one core has recorded.

    Attributes:
        events: without those that relate its clock to that of other cores.
        syncs: what they say.
        end: ticks since recording began, when its last block was made. Too early by the age of the
            last event if another core has made the block.
        dropped: events, so far.
        is_whole: whether its first block is the first one of the recording.
        has_own_end: whether its own clock was read for ``end``.
        blocks: from its first block to its last one, in ticks of the clock that was read for them,
            and in shared ticks.
    """

    events: Events
    syncs: Syncs
    end: int
    dropped: int
    is_whole: bool
    has_own_end: bool
    blocks: tuple[int, int]


def events_of_core(
    core: int, blocks: Sequence[Block], names: ProbeNames, *, counts_ticks: bool = False
) -> CoreEvents:
    """Put the blocks of a core together.

    Args:
        core: its number.
        blocks: in the order in which they came.
        names: of the image's probes.
        counts_ticks: the trace clock is the board's counter of ticks, so that these show how often
            it has wrapped.

    Raises:
        DecodeError: they do not follow each other, or contradict the clock.
    """
    pieces = _Pieces(core, blocks, names, counts_ticks)
    events, syncs = _without_syncs(join(list(pieces.decoded())))
    first, last = blocks[0], blocks[-1]
    return CoreEvents(
        events,
        syncs,
        pieces.idle_until(len(blocks) - 1),
        last.dropped,
        first.sequence == 0,
        not last.other_clock,
        (pieces.elapsed[-1], last.ticks - first.ticks),
    )


def _without_syncs(events: Events) -> tuple[Events, Syncs]:
    is_sync = events.number == TraceId.SYNC
    if not is_sync.any():
        none = np.zeros(0, np.int64)
        return events, Syncs(none, none, none.astype(np.uint64))
    found = np.flatnonzero(is_sync[:-2] & is_sync[1:-1] & ~is_sync[2:])
    high, low = (events.value[found + i].astype(np.uint64) for i in (0, 1))
    syncs = Syncs(
        events.time[found + 2],
        events.took[found + 2].astype(np.int64),
        high << np.uint64(32) | low,
    )
    return events.where(~is_sync), syncs


class _Pieces:
    """The events up to the ends of whole blocks.

    From one to the next, their times must add up to what the clock has counted. With the names of
    another image they would not.
    """

    def __init__(
        self, core: int, blocks: Sequence[Block], names: ProbeNames, counts_ticks: bool
    ) -> None:
        self._core, self._blocks, self._names = core, blocks, names
        self.elapsed = [0]
        for before, block in pairwise(blocks):
            step = (block.now - before.now) % _WRAP
            more = block.ticks - before.ticks - step if counts_ticks else 0
            wraps = max(0, (more + _WRAP // 2) // _WRAP)
            self.elapsed.append(self.elapsed[-1] + step + wraps * _WRAP)
        self._counts_ticks = counts_ticks
        self._time = 0  # of the last event
        self._known: tuple[int, int] | None = None  # a block, and when it was made

    def idle_until(self, index: int) -> int:
        """Return when a block was made, if no event came since the last one that was decoded."""
        at, time = self._known or (0, self._made(0))
        return time + self.elapsed[index] - self.elapsed[at]

    def _made(self, index: int) -> int:
        """Return when a block was made, right after the last event."""
        block = self._blocks[index]
        return self._time + (0 if block.other_clock else (block.now - block.last) % _WRAP)

    def decoded(self) -> Iterator[Events]:
        """Yield them."""
        blocks = self._blocks
        words = decoded = blocks[0].sequence
        waiting: list[npt.NDArray[np.uint32]] = []
        clock: tuple[int, int] | None = None
        last_whole = max((i for i, block in enumerate(blocks) if block.whole), default=-1)
        floor = 0
        for index, block in enumerate(blocks):
            if block.sequence != words % _WRAP:
                raise DecodeError(
                    f"Events of core {self._core} are missing: a block begins with word "
                    f"{block.sequence}, and {words} words came before it.",
                    hint="record again",
                )
            words += len(block.words)
            waiting.append(block.words)
            is_empty = block.whole and not len(block.words)
            is_due = clock is None or words - decoded >= _AT_ONCE or is_empty
            is_due = (is_due or index == last_whole) and block.whole
            if words != decoded and (is_due or index == len(blocks) - 1):
                events = decode_words(np.concatenate(waiting), self._names)
                waiting, decoded = [], words
                yield self._placed(events, floor)
                if self._known is None or not self._counts_ticks:
                    self._known = index, self._made(index)
                if not block.whole:
                    return
                if clock and (self._time - clock[0] - (block.last - clock[1])) % _WRAP:
                    raise DecodeError(
                        f"The events of core {self._core} contradict the board's clock after "
                        f"{words} words.",
                        hint="give the image that runs on the board (--image)",
                    )
                clock = (self._time, block.last)
            if is_empty:
                floor = self.idle_until(index)

    def _placed(self, events: Events, floor: int) -> Events:
        """Place events after those before; the first one is not before ``floor``.

        What their times say of a longer time without an event has lost the wraps of the clock.
        """
        if not len(events):
            return events
        first = self._time + int(events.time[0])
        wraps = max(0, -((first + _SLACK - floor) // _WRAP))
        if max(first, floor) > _LONGEST:
            raise DecodeError(
                f"The clock of core {self._core} has run for centuries, as its events say.",
                hint="give the image that runs on the board (--image)",
            )
        events.time[:] += self._time + wraps * _WRAP
        self._time = int(events.time[-1])
        return events
