# SPDX-License-Identifier: Apache-2.0
"""Faults in the stream of events that probes record, while more come than find room.

Survived means: each event comes once, in order, with its own number, or is among those that the
board says it has dropped, at the place where it was dropped.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from boardprof.base.errors import BoardprofError
from boardprof.measure.probe_recorder import ProbeRecorder
from boardprof.wire.transport.faults import Delay, Fault, Lose, Way
from boardprof_protocol.codes import FrameKind, TraceId
from tests.faults.boards import Rig, Target
from tests.faults.cases import FAMILIES, Family
from tests.faults.step import Outcome

__all__ = ["EVENTS", "EVENT_FAMILIES", "event_outcomes"]

EVENTS = Path(__file__).resolve().parents[1] / "link" / "fixtures" / "events.c"

EVENT_FAMILIES = (*FAMILIES, Family("lost frame", lambda length: iter([Lose()])))
KIND = "DATA of events to the host"

_HURRY = 60.0
_LONGEST_S = 600.0
"""In hurried seconds; a position that takes longer is stuck."""


class _Witness:
    """Makes events and looks at what comes of them."""

    def __init__(self, rig: Rig, recorder: ProbeRecorder) -> None:
        self.rig, self.recorder = rig, recorder
        names = recorder.recording().names.names
        self._number = next(each.number for each in names if each.text == "number")
        self._first: int | None = None
        self._seen = self._dropped = self.dropped = 0
        self._told: dict[int, int] = {}

    def make(self, count: int) -> str:
        """Make events, and take what comes until all are known of; return what is wrong."""
        made = self.rig.board.functions["events"](count)
        if self._first is None:
            self._first = made - count
        deadline_s = self.rig.clock() + _LONGEST_S
        while self._seen + self.dropped < made - self._first:
            self.recorder.read(0.5 / _HURRY)
            if wrong := self._look():
                return wrong
            if self.rig.clock() > deadline_s:
                known = self._seen + self.dropped
                return f"of {made - self._first} events {known} came or were said to be dropped"
        total = self._seen + self.dropped
        return "" if total == made - self._first else f"{total} events of {made - self._first}"

    def _look(self) -> str:
        taken = self.recorder.take()
        for core, line in taken.timelines(told=self._told).items():
            events = line.events
            is_drop = events.number == TraceId.DROPPED
            if set(events.number[~is_drop].tolist()) - {self._number}:
                return f"wrong names: {set(events.number.tolist())}"
            drops = np.cumsum(np.where(is_drop, events.value, 0).astype(np.int64))
            values = events.value[~is_drop].astype(np.int64)
            due = np.arange(len(values)) + self._seen + self._dropped + drops[~is_drop]
            if not np.array_equal(values, due + (self._first or 0)):
                return f"wrong events: {values[:5]} instead of {due[:5]}"
            if (np.diff(events.time) < 0).any():
                return "time went back"
            self._seen += len(values)
            self._dropped += events.dropped - line.untold
            self._told[core] = self._dropped
            self.dropped = max(self.dropped, line.dropped)
        return ""


def event_outcomes(target: Target, positions: int, seed: int = 1) -> Iterator[Outcome]:
    """Try ``positions`` of each family on frames with events, with one start of the board."""
    rig = Rig(target, _HURRY)
    draw = random.Random(seed)
    try:
        with rig.board.tracing() as recorder:
            witness = _Witness(rig, recorder)
            room = recorder.ring_bytes // 8
            for family in EVENT_FAMILIES:
                for _ in range(positions):
                    yield _tried(witness, family, draw, room)
                    if rig.faults.pending:
                        return
            if not witness.dropped:
                yield Outcome("drops", KIND, "all", wrong="none was ever dropped")
    finally:
        rig.close()


def _tried(witness: _Witness, family: Family, draw: random.Random, room: int) -> Outcome:
    faults = witness.rig.faults
    faults.add(Way.TO_HOST, Delay(0.0), kind=FrameKind.DATA)
    wrong = witness.make(room // 4)
    fault: Fault = draw.choice(list(family.faults(faults.log[-1].length)))
    faults.add(Way.TO_HOST, fault, kind=FrameKind.DATA)
    try:
        # Some fit, and of others some are dropped; what comes next comes behind the fault.
        wrong = wrong or witness.make(draw.choice((room // 4, 2 * room)))
        wrong = wrong or witness.make(10)
    except BoardprofError as error:
        wrong = f"{type(error).__name__}: {error}"
    if not wrong and faults.pending:
        wrong = "no such frame came"
    return Outcome(family.name, KIND, str(fault), "", wrong)
