# SPDX-License-Identifier: Apache-2.0
"""All passes of a measurement: calibration and samples, with what each counts."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from boardprof.board.events import Slots
from boardprof.board.passes import Pass, layouts_of
from boardprof.board.placement import Placement
from boardprof.board.sampling import Progress, Sampling
from boardprof.board.selection import Selection
from boardprof.decode.dictionary import CollectorInfo, FunctionInfo
from boardprof.decode.samples import Sample
from boardprof.errors import RpcError, UsageError
from boardprof.report.measurement import Cold, Device, Windows
from boardprof_protocol.codes import ErrorCode, MeasureFlag

if TYPE_CHECKING:
    from boardprof.board.board import Board
    from boardprof.board.measuring import Rounds

__all__ = ["CALIBRATION_SAMPLES", "Counting"]

CALIBRATION_SAMPLES = 9
"""Windows around the empty function; their median is subtracted."""

_NEVER_RAN = "it shared its hardware counter and did not get to run"
_NOTHING = Selection((), frozenset())


class Counting:
    """Measures a function in as many passes as it takes.

    What turns out not to fit into a pass, collectors or events, has one of its own behind.

    Attributes:
        cold: the first call of all, once `windows` has run; None where it is not wanted.
    """

    def __init__(
        self,
        board: Board,
        function: FunctionInfo,
        placement: Placement,
        passes: Sequence[Pass],
        rounds: Rounds,
        *,
        may_drop: bool,
        on_progress: Progress | None,
        cold: bool = False,
        calibrations: int = CALIBRATION_SAMPLES,
    ) -> None:
        """Prepare; nothing is called yet.

        Args:
            board: with an open session.
            function: what is measured.
            placement: its arguments.
            passes: what is to be counted, at least one.
            rounds: how often the function is called in each pass.
            may_drop: whether events that the board refuses are left out, with the reason.
            on_progress: called with (rounds done, rounds in all).
            cold: whether the first call of all is measured apart, in the first pass.
            calibrations: windows around the empty function, at least one.
        """
        self.cold: Cold | None = None
        self._wants_cold = cold
        self._calibrations = calibrations
        self._board = board
        self._function = function
        self._placement = placement
        self._left = list(passes)
        self._rounds = rounds
        self._may_drop = may_drop
        self._on_progress = on_progress
        self._refused: dict[str, str] = {}
        self._windows: list[Windows] = []

    def windows(self) -> tuple[Windows, ...]:
        """Run every pass.

        Raises:
            UsageError: the board refuses an event that was asked for by name.
            CheckFailedError: the function's own check says that its result is wrong.
        """
        while self._left:
            chosen = self._left.pop(0)
            slots = chosen.slots(self._board.offer.programmable)
            self._note_refused(chosen, slots)
            selection = chosen.selection(slots)
            if selection.collectors:
                self._windows.append(self._measured(chosen, slots, selection))
        return tuple(self._windows)

    def device(self) -> Device:
        """Return what the Report says of the board, with all that did not count."""
        counted = {name for each in self._windows for name in each.counters}
        wanted = (event for w in self._windows for names in w.events.values() for event in names)
        idle = {event: _NEVER_RAN for event in wanted if event not in counted}
        device = self._board.device
        return replace(device, unsupported={**device.unsupported, **self._refused, **idle})

    def _note_refused(self, chosen: Pass, slots: Sequence[Slots]) -> None:
        """Put off events that do not fit beside others; what does not count alone is refused."""
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
                    raise UsageError(f"{self._board.spec.name} does not count {event}: {why}.")

    def _measured(self, chosen: Pass, slots: Sequence[Slots], selection: Selection) -> Windows:
        """Measure one pass, with as many of its collectors as the agent runs at a time."""
        while True:
            run = self._sampling(slots, selection)
            try:
                calibration = self._calibration(run)
            except RpcError as error:
                # Nothing has run yet. How many fit only the agent knows.
                too_many = error.code in (ErrorCode.NO_MEMORY, ErrorCode.REPLY_TOO_BIG)
                if not too_many or len(selection.collectors) == 1:
                    raise
                self._put_off(chosen, selection.collectors[-1], selection)
                selection = selection.without_last()
                continue
            if self._wants_cold:
                self._wants_cold = False
                self.cold = self._first(run, calibration)
            samples, totals = run.samples(MeasureFlag(0), self._rounds.warmup, self._rounds.repeat)
            active = {collector.name for collector in selection.collectors}
            events = {s.collector.name: s.events for s in slots if s.collector.name in active}
            return Windows(samples, calibration, totals, selection.mask, events)

    def _first(self, run: Sampling, calibration: tuple[Sample, ...]) -> Cold:
        """Measure the first call; the calibration has warmed up the agent, and nothing else."""
        if self._rounds.number > 1:
            calibration = run.single(CALIBRATION_SAMPLES)
        sample = run.first()
        overhead = {
            name: statistics.median_low(each.readings[name].value for each in calibration)
            for name in sample.readings
            if all(name in each.readings for each in calibration)
        }
        return Cold(sample, overhead)

    def _put_off(self, chosen: Pass, collector: CollectorInfo, selection: Selection) -> None:
        """Give a collector that does not fit a pass of its own."""
        if collector.name in chosen.events:
            self._left.append(Pass(_NOTHING, {collector.name: chosen.events[collector.name]}))
        else:
            names = {counter.name for counter in collector.counters} & selection.counters
            self._left.append(Pass(Selection((collector,), frozenset(names))))

    def _calibration(self, run: Sampling) -> tuple[Sample, ...]:
        warmup = min(self._rounds.warmup, 1)
        return run.samples(MeasureFlag.EMPTY, warmup, self._calibrations)[0]

    def _sampling(self, slots: Sequence[Slots], selection: Selection) -> Sampling:
        done = len(self._windows)
        sends_again = self._placement.sends_again
        return Sampling(
            self._board.session,
            self._function,
            self._placement.packed,
            selection,
            self._rounds.number,
            layouts_of(self._board.layouts, slots),
            real_time=self._board.device.clock_kind != "simulated",
            rounds=(done + 1 + len(self._left)) * self._rounds.in_all,
            done=done * self._rounds.in_all,
            on_progress=self._on_progress,
            prepare=self._placement.send_again if sends_again else None,
        )
