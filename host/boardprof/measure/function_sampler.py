# SPDX-License-Identifier: Apache-2.0
"""All passes of one function's measurement: calibration, first call, warm-up and samples."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from boardprof.decode.samples import Sample
from boardprof.measure.board_link import BoardLink
from boardprof.measure.counted_pass import (
    CALIBRATION_SAMPLES,
    CountedPass,
    PackedCall,
    Prepare,
)
from boardprof.measure.passes import Pass, PassQueue
from boardprof.measure.rounds import Rounds
from boardprof.report.measurement import Cold, Device, Windows
from boardprof_protocol.codes import MeasureFlag

Progress = Callable[[int, int], None]
"""Called with (rounds done, rounds in all) while a measurement runs."""

_NONE = MeasureFlag(0)

_LONG_S = 0.5
"""Twenty-two calls that take longer, and a second pass of them, are more than a user waits for."""


class FunctionSampler:
    """Measures a function in as many passes as it takes.

    Attributes:
        cold: the first call of all, once `windows` has run; None if it is not wanted.
        rounds: how often the function is called in each pass. Fewer than asked for, once `windows`
            has run, if that is allowed and a call takes long.
    """

    def __init__(
        self,
        link: BoardLink,
        call: PackedCall,
        passes: Sequence[Pass],
        rounds: Rounds,
        *,
        may_drop: bool,
        may_shorten: bool,
        cold: bool,
        prepare: Prepare | None = None,
        on_progress: Progress | None = None,
        on_note: Callable[[str], None] | None = None,
        calibrations: int = CALIBRATION_SAMPLES,
        flags: MeasureFlag = _NONE,
    ) -> None:
        """Prepare; the board is not called yet.

        Args:
            link: to the board.
            call: what is measured.
            passes: what is to be counted, at least one.
            rounds: how often the function is called in each pass.
            may_drop: whether events that the board refuses are left out, with the reason.
            may_shorten: whether the rounds are fewer if a call takes long; needs a warm-up call.
            cold: whether the first call of all is measured apart, in the first pass.
            prepare: called before each round; see `CountedPass.take`.
            on_progress: called with (rounds done, rounds in all).
            on_note: called if the rounds are fewer.
            calibrations: windows around the empty function, at least one.
            flags: of all windows: whether interrupts are masked in them.
        """
        self.cold: Cold | None = None
        self.rounds = rounds
        self._link = link
        self._call = call
        self._passes = PassQueue(link, passes, may_drop=may_drop, flags=flags)
        self._prepare = prepare
        self._on_progress = on_progress
        self._may_shorten = may_shorten
        self._on_note = on_note
        self._wants_cold = cold
        self._calibrations = calibrations
        self._windows: list[Windows] = []
        self._done = 0
        self._elapsed_s = 0.0

    def windows(self) -> tuple[Windows, ...]:
        """Run every pass.

        Raises:
            UsageError: the board refuses an event that was asked for by name.
            CheckFailedError: the function's own check says that its result is wrong.
        """
        while (counted := self._passes.next(self._calibrate)) is not None:
            self._windows.append(self._measured(counted))
        return tuple(self._windows)

    def device(self) -> Device:
        """Return the Report's facts about the board, with everything that did not count."""
        return self._passes.device(self._windows)

    def _calibrate(self, counted: CountedPass) -> None:
        """Measure the empty function, and an empty interrupt; nothing of the user's runs."""
        self._done = len(self._windows) * self.rounds.in_all
        warmup = min(self.rounds.warmup, 1)
        counted.calibrate(
            self._call,
            self.rounds.number,
            warmup=warmup,
            samples=self._calibrations,
            prepare=self._prepare,
            on_done=self._on_done,
        )
        self._done += warmup + self._calibrations

    def _measured(self, counted: CountedPass) -> Windows:
        calibration = counted.calibration(self._call, self.rounds.number)
        if self._wants_cold:
            self._wants_cold = False
            self.cold = self._first_call(counted)
        if counted.needs_trial:  # nothing would end a window that hangs once it is masked
            warmup, number = min(self.rounds.warmup, 1), self.rounds.number
            trial = counted.take(self._call, warmup, 1, number, flags=_NONE, prepare=self._prepare)
            counted.check_unmasked(self._call, trial)
        warmup = self.rounds.warmup
        if self._may_shorten:
            self._may_shorten = False
            warmup = self._shortened(counted)
        taken = counted.take(
            self._call,
            warmup,
            self.rounds.repeat,
            self.rounds.number,
            prepare=self._prepare,
            on_done=self._on_done,
        )
        return counted.windows([taken], calibration)

    def _shortened(self, counted: CountedPass) -> int:
        """Time a call, and take fewer rounds if it is long.

        The call that is timed is one that is due anyway: the first of all, which is measured apart,
        or the first to warm up. So a function with a state is called as often as without it.

        Returns:
            How many calls to warm up are left.
        """
        is_warmup = self.cold is None
        if is_warmup:
            self._take_one(counted, counted.flags)
        if self._elapsed_s > _LONG_S:
            asked = self.rounds
            self.rounds = asked.shortened(is_exact=self._link.device.emulated)
            if self._on_note is not None:
                name = f"{self._call.function.name} on {self._link.device.name}"
                self._on_note(
                    f"{name}: a call takes {self._elapsed_s:.1f} s of wall time, so the run takes "
                    f"{self.rounds.repeat} samples after {self.rounds.warmup} warm-up call, "
                    f"instead of {asked.repeat} after {asked.warmup}; --repeat and --warmup "
                    "override this"
                )
        return self.rounds.warmup - is_warmup

    def _first_call(self, counted: CountedPass) -> Cold:
        """Measure the first call; the calibration has warmed up the agent, and nothing else."""
        calibration = counted.calibration(self._call)
        sample = self._take_one(counted, _NONE if counted.needs_trial else counted.flags)
        overhead = {
            name: statistics.median_low(each.readings[name].uninterrupted for each in calibration)
            for name in sample.readings
            if all(name in each.readings for each in calibration)
        }
        return Cold(sample, overhead)

    def _take_one(self, counted: CountedPass, flags: MeasureFlag) -> Sample:
        """Measure one call, without any before it, and note how long it takes."""
        taken = counted.take(self._call, 0, 1, flags=flags, prepare=self._prepare)
        self._done += 1
        self._elapsed_s = taken.elapsed_s
        return taken.samples[0]

    def _on_done(self, done: int) -> None:
        """Pass a request's progress on as that of the whole, which knows no requests."""
        if self._on_progress is not None:
            in_all = (len(self._windows) + 1 + len(self._passes)) * self.rounds.in_all
            self._on_progress(min(self._done + done, in_all), in_all)
