# SPDX-License-Identifier: Apache-2.0
"""All passes of a measurement: calibration and samples, with what each counts."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from boardprof.board.pass_queue import PassQueue, ProgrammedPass
from boardprof.board.passes import Pass
from boardprof.board.placement import Placement
from boardprof.board.sampling import Progress, Sampling
from boardprof.decode.dictionary import FunctionInfo
from boardprof.decode.samples import Sample
from boardprof.report.interrupts import HOOKED, TICKS, interrupt_costs, without_costs
from boardprof.report.measurement import Cold, Device, Windows
from boardprof_protocol.codes import MeasureFlag

if TYPE_CHECKING:
    from boardprof.board.board import Board
    from boardprof.board.measuring import Rounds

__all__ = ["CALIBRATION_SAMPLES", "Counting"]

CALIBRATION_SAMPLES = 9
"""Windows around the empty function; their median is subtracted."""

_NONE = MeasureFlag(0)
_TRIGGERED = 8
"""Empty interrupts in a window, so that a step of a clock is a small part of what one takes."""

_LONG_S = 0.5
"""Twenty-two calls that take longer, and a second pass of them, are more than a user waits for."""


class Counting:
    """Measures a function in as many passes as it takes.

    Attributes:
        cold: the first call of all, once `windows` has run; None where it is not wanted.
        rounds: how often the function is called in each pass; fewer than asked for, once `windows`
            has run, if that may be and a call takes long.
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
        may_shorten: bool = False,
        on_note: Callable[[str], None] | None = None,
        cold: bool = False,
        calibrations: int = CALIBRATION_SAMPLES,
        flags: MeasureFlag = _NONE,
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
            may_shorten: whether the rounds are fewer if a call takes long; needs a warm-up call.
            on_note: called if they are.
            cold: whether the first call of all is measured apart, in the first pass.
            calibrations: windows around the empty function, at least one.
            flags: of all windows: whether interrupts are masked in them.
        """
        self._board = board
        self._flags = flags
        self._interrupts = board.interrupts if flags & MeasureFlag.MASK else None
        self.cold: Cold | None = None
        self._wants_cold = cold
        self._calibrations = calibrations
        self._board = board
        self._function = function
        self._placement = placement
        self._passes = PassQueue(board, passes, may_drop=may_drop)
        self.rounds = rounds
        self._may_shorten = may_shorten
        self._on_note = on_note
        self._on_progress = on_progress
        self._windows: list[Windows] = []

    def windows(self) -> tuple[Windows, ...]:
        """Run every pass.

        Raises:
            UsageError: the board refuses an event that was asked for by name.
            CheckFailedError: the function's own check says that its result is wrong.
        """
        while (found := self._passes.next(self._calibrated)) is not None:
            self._windows.append(self._measured(*found))
        return tuple(self._windows)

    def device(self) -> Device:
        """Return what the Report says of the board, with all that did not count."""
        return self._passes.device(self._windows)

    def _calibrated(
        self, counted: ProgrammedPass
    ) -> tuple[ProgrammedPass, Sampling, tuple[Sample, ...], dict[str, Fraction]]:
        """Measure the empty function, and an empty interrupt; nothing of the user's runs."""
        run = self._sampling(counted)
        warmup = min(self.rounds.warmup, 1)
        flags = MeasureFlag.EMPTY | self._flags
        calibration, _ = run.samples(flags, warmup, self._calibrations)
        costs = self._interrupt_costs(counted, run)
        return counted, run, tuple(without_costs(each, costs) for each in calibration), costs

    def _interrupt_costs(self, counted: ProgrammedPass, run: Sampling) -> dict[str, Fraction]:
        """Measure what an interrupt takes outside of its hooks, where the board can trigger one."""
        board = self._board.interrupts
        hooks = HOOKED in counted.selection.counters
        if board is None or not board.triggers or not hooks or self._flags & MeasureFlag.MASK:
            return {}
        counters = [
            counter.name
            for each in counted.selection.collectors
            if board.skips >> each.index & 1
            for counter in each.counters
        ]
        triggered, masked = (
            run.empty(CALIBRATION_SAMPLES, _TRIGGERED, MeasureFlag.INTERRUPT | mask)
            for mask in (_NONE, MeasureFlag.MASK)
        )
        return interrupt_costs(triggered, masked, [*counters, TICKS])

    def _measured(
        self,
        counted: ProgrammedPass,
        run: Sampling,
        calibration: tuple[Sample, ...],
        costs: dict[str, Fraction],
    ) -> Windows:
        if self._wants_cold:
            self._wants_cold = False
            self.cold = self._first(run, calibration, costs)
        self._try_unmasked(run)
        warmup = self.rounds.warmup
        if self._may_shorten:
            self._may_shorten = False
            warmup = self._shortened(run)
        samples, totals = run.samples(self._flags, warmup, self.rounds.repeat)
        samples = tuple(without_costs(each, costs) for each in samples)
        return counted.windows(samples, calibration, totals, costs)

    def _try_unmasked(self, run: Sampling) -> None:
        """See that a window ends, and soon enough, where nothing would end it once it is masked."""
        if self._interrupts is not None and self._interrupts.needs_trial:
            (sample,), _ = run.samples(_NONE, min(self.rounds.warmup, 1), 1)
            self._interrupts.check_window(self._function.name, sample.readings)

    def _shortened(self, run: Sampling) -> int:
        """See how long a call takes, and take fewer rounds if that is long.

        The call that is timed is one that is due anyway: the first of all, which is measured apart,
        or the first to warm up. So a function with a state is called as often as without it.

        Returns:
            How many calls to warm up are left.
        """
        is_warmup = self.cold is None
        if is_warmup:
            run.first(self._flags)
        if run.elapsed_s > _LONG_S:
            asked = self.rounds
            self.rounds = asked.shortened(is_exact=self._board.device.emulated)
            run.rounds = self._in_all(0)
            if self._on_note is not None:
                name = f"{self._function.name} on {self._board.device.name}"
                self._on_note(
                    f"{name}: a call takes {run.elapsed_s:.1f} s of wall time, so there are "
                    f"{self.rounds.repeat} samples after {self.rounds.warmup} call to warm up, "
                    f"instead of {asked.repeat} after {asked.warmup}; --repeat and --warmup say "
                    "otherwise"
                )
        return self.rounds.warmup - is_warmup

    def _first(
        self, run: Sampling, calibration: tuple[Sample, ...], costs: dict[str, Fraction]
    ) -> Cold:
        """Measure the first call; the calibration has warmed up the agent, and nothing else."""
        if self.rounds.number > 1:
            single = run.empty(CALIBRATION_SAMPLES)
            calibration = tuple(without_costs(each, costs) for each in single)
        is_tried = self._interrupts is None or not self._interrupts.needs_trial
        sample = without_costs(run.first(self._flags if is_tried else _NONE), costs)
        overhead = {
            name: statistics.median_low(each.readings[name].uninterrupted for each in calibration)
            for name in sample.readings
            if all(name in each.readings for each in calibration)
        }
        return Cold(sample, overhead)

    def _sampling(self, counted: ProgrammedPass) -> Sampling:
        done = len(self._windows)
        return counted.sampling(
            self._function,
            self._placement.packed,
            self.rounds.number,
            rounds=self._in_all(done),
            done=done * self.rounds.in_all,
            on_progress=self._on_progress,
            prepare=self._placement.send_again if self._placement.sends_again else None,
        )

    def _in_all(self, done: int) -> int:
        """Return the rounds of all passes, as far as is known, when so many are done."""
        return (done + 1 + len(self._passes)) * self.rounds.in_all
