# SPDX-License-Identifier: Apache-2.0
"""Passes: several runs, each with newly programmed counters; and the rounds in each of them."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import SupportsIndex

from boardprof.base.errors import RpcError, UsageError
from boardprof.measure.sampling.board_link import BoardLink
from boardprof.measure.sampling.counted_pass import (
    CALIBRATION_SAMPLES,
    UNMASKED,
    CountedPass,
    Selection,
)
from boardprof.measure.sampling.programmable import Programmable, Slots
from boardprof.results.record import Device
from boardprof.results.report.measurement import Windows
from boardprof.results.stats.ranks import FEWEST_SAMPLES
from boardprof_protocol.codes import ErrorCode, MeasureFlag

_NEVER_RAN = "it shared a hardware counter and never got a turn"
_NOTHING = Selection((), frozenset())
_TOO_MANY = (ErrorCode.NO_MEMORY, ErrorCode.REPLY_TOO_BIG)
"""Errors of the agent if a pass has more collectors than it can run at a time."""


@dataclass(frozen=True)
class Pass:
    """One run of a function with one set of counters."""

    fixed: Selection  # collectors that cannot be programmed, all in the first pass
    # collector -> the events of its slots; None for their defaults
    events: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)

    def slots(self, collectors: Iterable[Programmable]) -> tuple[Slots, ...]:
        """Program the slots of this pass."""
        programmed = (c for c in collectors if c.collector.name in self.events)
        chosen = [(c, self.events[c.collector.name]) for c in programmed]
        return tuple(
            c.select_default() if names is None else c.select(names) for c, names in chosen
        )

    def selection(self, slots: Sequence[Slots]) -> Selection:
        """Return the collectors of this pass, by index, and their active counters."""
        active = [s for s in slots if s.events]
        collectors = (*self.fixed.collectors, *(s.collector for s in active))
        events = itertools.chain.from_iterable(s.events for s in active)
        return Selection(
            tuple(sorted(collectors, key=lambda c: c.index)), self.fixed.counters | {*events}
        )


def split_into_passes(
    fixed: Selection, events: Mapping[str, Sequence[str] | None], slots: Mapping[str, int]
) -> tuple[Pass, ...]:
    """Distribute events over as few passes as allow the numbers of events that ``slots`` hold."""
    chunks: dict[str, list[tuple[str, ...] | None]] = {}
    for name, wanted in events.items():
        size = slots[name]
        chunks[name] = (
            [None]
            if wanted is None
            else [tuple(wanted[i : i + size]) for i in range(0, len(wanted), size)]
        )
    count = max(1, *(len(chunk) for chunk in chunks.values())) if chunks else 1
    return tuple(
        Pass(
            fixed if i == 0 else _NOTHING,
            {name: chunk[i] for name, chunk in chunks.items() if i < len(chunk)},
        )
        for i in range(count)
    )


class PassQueue:
    """The passes that are left of a measurement, and extra ones for what did not fit."""

    def __init__(
        self,
        link: BoardLink,
        passes: Sequence[Pass],
        *,
        may_drop: bool,
        flags: MeasureFlag = UNMASKED,
    ) -> None:
        """Take the planned passes; with ``may_drop``, leave out events that the board refuses."""
        self._link = link
        self._left = list(passes)
        self._may_drop = may_drop
        self._flags = flags
        self._refused: dict[str, str] = {}

    def __len__(self) -> int:
        """Return how many are left, as far as is known."""
        return len(self._left)

    def next(self, begin: Callable[[CountedPass], object]) -> CountedPass | None:
        """Program the board for the next pass, or return None if there are no more."""
        # ``begin`` makes a request with all counters of the pass, before the user's function runs.
        # If the agent refuses that many collectors, it is called again with one less.
        while self._left:
            chosen = self._left.pop(0)
            slots = chosen.slots(self._link.programmable)
            self._note_refused(chosen, slots)
            # Each pass needs the number of its interrupts.
            selection = chosen.selection(slots).with_all_of(self._link.hooks)
            if selection.collectors:
                return self._begun(chosen, slots, selection, begin)
        return None

    def device(self, windows: Iterable[Windows]) -> Device:
        """Return the Report's facts about the board, with the counters that did not count."""
        windows = list(windows)
        counted = {name for each in windows for name in each.counters}
        wanted = (event for w in windows for names in w.events.values() for event in names)
        idle = {event: _NEVER_RAN for event in wanted if event not in counted}
        device = self._link.device
        return replace(device, unsupported={**device.unsupported, **self._refused, **idle})

    def _note_refused(self, chosen: Pass, slots: Sequence[Slots]) -> None:
        """Defer events that do not fit with others; drop or refuse those that never count."""
        for each in slots:
            name = each.collector.name
            if chosen.events[name] is None:
                self._refused |= each.refused
                continue
            for event, why in each.refused.items():
                if each.events:
                    self._left.append(Pass(_NOTHING, {name: (event,)}))
                elif self._may_drop:
                    self._refused[event] = why
                else:
                    raise UsageError(f"{self._link.device.name} does not count {event}: {why}.")

    def _begun(
        self,
        chosen: Pass,
        slots: Sequence[Slots],
        selection: Selection,
        begin: Callable[[CountedPass], object],
    ) -> CountedPass:
        while True:
            counted = CountedPass(self._link, slots, selection, self._flags, chosen.slots)
            try:
                begin(counted)
            except RpcError as error:
                if error.code not in _TOO_MANY or len(selection.collectors) == 1:
                    raise
            else:
                return counted
            self._put_off_last(chosen, selection)
            selection = selection.without_last()

    def _put_off_last(self, chosen: Pass, selection: Selection) -> None:
        """Give the last collector its own pass."""
        last = selection.collectors[-1]
        if last.name in chosen.events:
            self._left.append(Pass(_NOTHING, {last.name: chosen.events[last.name]}))
        else:
            names = frozenset(counter.name for counter in last.counters) & selection.counters
            if not names:  # a clock that was added; see `Offer.passes`
                return
            self._left.append(Pass(Selection((last,), names)))


# -- rounds ------------------------------------------------------------------------------------


def check_range(name: str, value: SupportsIndex, least: int, most: int) -> int:
    """Return a whole number, such as numpy's, as an int; raise UsageError if out of range."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise UsageError(f"{name}={value!r} is not a whole number.")
    if not least <= number <= most:
        raise UsageError(f"{name}={number} is out of range: {least} to {most}.")
    return number


@dataclass(frozen=True)
class Rounds:
    """How often the function is called."""

    warmup: int  # calls before the first sample
    repeat: int  # samples
    number: int  # calls in each sample

    def __post_init__(self) -> None:
        """Check the ranges, which are those of the wire format, and convert to int."""
        for name, least, most in (
            ("warmup", 0, (1 << 31) - 1),
            ("repeat", 1, (1 << 32) - 1),
            ("number", 1, (1 << 32) - 1),
        ):
            object.__setattr__(self, name, check_range(name, getattr(self, name), least, most))

    @property
    def in_all(self) -> int:
        """Number of rounds on the board, including those of the calibration."""
        return min(self.warmup, 1) + CALIBRATION_SAMPLES + self.warmup + self.repeat

    def shortened(self, *, is_exact: bool) -> Rounds:
        """Return the fewest useful rounds, for a function that takes long."""
        # On an emulated board, one sample is as good as many. A second one shows whether the
        # function keeps state between calls.
        return replace(self, warmup=1, repeat=2 if is_exact else FEWEST_SAMPLES)
