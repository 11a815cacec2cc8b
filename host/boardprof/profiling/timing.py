# SPDX-License-Identifier: Apache-2.0
"""TVM's ``time_evaluator``: seconds per call, by the board's own clock."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from boardprof.board.board import Board
from boardprof.board.call_observers import HostCall
from boardprof.errors import UsageError
from boardprof.measure.board_interrupts import flags_for
from boardprof.measure.counted_pass import PackedCall
from boardprof.measure.placement import Placement
from boardprof.measure.rounds import check_range
from boardprof.profiling.benchmark import MOST_CALLS, BenchmarkResult, Timed, time_long_enough
from boardprof.profiling.collector_selection import Module, OpenBoard, check_device, timer_of
from boardprof.profiling.observed_calls import (
    UNMASKED,
    bound_call,
    observed_sample,
    observed_value,
    planned_passes,
)

_LONGEST_MS = 1e9


class Stopwatch:
    """Timer of one function's calls; each attempt is a separate request.

    Attributes:
        is_ambiguous: whether the clock may have wrapped unseen within an attempt.
    """

    def __init__(
        self, call: HostCall, placement: Placement, *, mask_interrupts: bool = False
    ) -> None:
        """Program the board to count only its clock; nothing is called yet.

        Raises:
            UsageError: see `check_time`; or the board cannot mask interrupts.
        """
        self._call = call
        self._placement = placement
        clock = check_time(call.board)
        passes = planned_passes(call.board, [clock], mask_interrupts=mask_interrupts)
        counted = passes.next(lambda counted: counted.try_out(self._packed))
        assert counted is not None, "one counter is one pass"
        self._counted = counted
        self._tried: set[int] = set()
        self.is_ambiguous = False

    def warm_up(self) -> None:
        """Call the function once, untimed."""
        self._placement.send_again()
        observed_sample(self._counted, self._call, self._packed, flags=UNMASKED)

    def timed(self, number: int) -> Timed:
        """Call it ``number`` times in one window; return their time.

        A net time that the clock cannot resolve may be 0 or negative.
        """
        counted = self._counted
        if number not in self._tried:
            counted.calibration(self._packed, number)
            if counted.needs_trial:
                self._placement.send_again()
                observed_sample(counted, self._call, self._packed, number, UNMASKED)
            self._tried.add(number)
        self._placement.send_again()
        taken = observed_sample(counted, self._call, self._packed, number)
        measurement = counted.measurement(self._packed, taken, number)
        (sample,), clock = measurement.samples, measurement.clock
        assert clock is not None, "check_time has ensured this"
        reading = sample.readings[clock]
        self.is_ambiguous |= reading.ambiguous
        per_second = 1e9 if reading.unit == "ns" else reading.hz
        return Timed(measurement.net(sample, clock) / per_second, reading.value / per_second)

    def is_certain(self) -> bool:
        """Whether no attempt can have been longer than the clock shows."""
        return not self.is_ambiguous

    @property
    def _packed(self) -> PackedCall:
        return self._placement.call(self._call.function.info)


class TimeEvaluator:
    """The result of `time_evaluator`: call it with the function's arguments."""

    def __init__(
        self,
        target: OpenBoard,
        function: str,
        number: int,
        repeat: int,
        min_repeat_ms: float,
        limit_zero_time_iterations: int,
        cooldown_interval_ms: float,
        repeats_to_cooldown: int,
        f_preproc: str | Callable[..., object],
        mask_interrupts: bool,
    ) -> None:
        """Keep the settings, which `time_evaluator` has checked."""
        self._target = target
        self._function = function
        self._number = number
        self._repeat = repeat
        self._min_repeat_ms = min_repeat_ms
        self._limit_zero = limit_zero_time_iterations
        self._cooldown_s = cooldown_interval_ms / 1000.0
        self._repeats_to_cooldown = repeats_to_cooldown
        self._prepare = f_preproc
        self._masks = mask_interrupts

    def __call__(self, *args: object, **named: object) -> BenchmarkResult:
        """Time the function.

        In/out arrays begin each repeat with the caller's values. Afterwards they hold the result of
        one extra call.

        Raises:
            UsageError, DeviceError, LinkError: see ``Board.profile``.
        """
        board, number = self._target.board, self._number
        results: list[float] = []
        call, placement = bound_call(board, self._function, args, named)
        with placement:
            watch = Stopwatch(call, placement, mask_interrupts=self._masks)
            watch.warm_up()
            for index in range(self._repeat):
                self._preprocess(call, placement, args, named)
                number, seconds = time_long_enough(
                    watch.timed,
                    number,
                    self._min_repeat_ms,
                    self._limit_zero,
                    may_grow=watch.is_certain,
                )
                results.append(seconds / number)
                if self._cooldown_s > 0 and index % self._repeats_to_cooldown == 0:
                    time.sleep(self._cooldown_s)
            info = call.function.info
            placement.call_for_outputs(lambda: observed_value(call, placement.call(info)))
        if min(results) <= 0:
            warnings.warn(
                f"{self._function} takes less time than the clock of {board.device.name} "
                "resolves; give a larger number, or min_repeat_ms",
                stacklevel=2,
            )
        if watch.is_ambiguous:
            warnings.warn(
                f"the clock of {board.device.name} may have wrapped unseen while {self._function} "
                "ran; give a smaller number, or a smaller min_repeat_ms",
                stacklevel=2,
            )
        return BenchmarkResult(tuple(results))

    def close(self) -> None:
        """Stop the board, if it was started for this."""
        self._target.close()

    def _preprocess(
        self,
        call: HostCall,
        placement: Placement,
        args: Sequence[object],
        named: Mapping[str, object],
    ) -> None:
        if callable(self._prepare):
            self._prepare(*args, **named)
            placement.renew()
        elif self._prepare:
            remote = self._target.board.functions[self._prepare]
            if remote.signature.parameters:
                self._target.board.stack_check.require(self._prepare)
                observed_value(replace(call, function=remote), placement.call(remote.info))
            else:
                remote()


def time_evaluator(
    mod: Module,
    func_name: str,
    dev: object = None,
    number: int = 10,
    repeat: int = 1,
    min_repeat_ms: float = 0,
    limit_zero_time_iterations: int = 100,
    cooldown_interval_ms: float = 0,
    repeats_to_cooldown: int = 1,
    cache_flush_bytes: int = 0,
    f_preproc: str | Callable[..., object] = "",
    *,
    mask_interrupts: bool = False,
) -> TimeEvaluator:
    """Return an evaluator that times a function by the board's clock; names and defaults are TVM's.

    ::

        evaluate = time_evaluator(board, "fir", number=10, repeat=5, min_repeat_ms=20)
        print(evaluate(x, h, y, 256).median)

    There is one warm-up call. Then each of ``repeat`` repeats makes ``number`` calls in one window
    on the board. If a window is shorter than ``min_repeat_ms``, it is repeated with more calls: as
    many as its time suggests, and at least 1.618 times as many. The following repeats begin with
    this number. The measurement overhead is subtracted.

    Args:
        mod: a connected board, or a Firmware, which is started; `TimeEvaluator.close` stops it.
        func_name: the function.
        dev: see `profile_function`.
        number: calls in each repeat, >= 1.
        repeat: results, >= 1.
        min_repeat_ms: shortest time of a repeat, in milliseconds, with what the board takes to
            make the calls.
        limit_zero_time_iterations: number of attempts with zero time after which a repeat is
            accepted.
        cooldown_interval_ms: length of a pause, in milliseconds.
        repeats_to_cooldown: number of repeats before each pause.
        cache_flush_bytes: 0 only; a board has no function that flushes its caches unless you
            register one: see ``f_preproc``.
        f_preproc: called before each repeat, untimed: a function of the board, by name, or of the
            host. Both get the arguments. A function of the board gets them at their places there,
            unless it takes none. The repeat begins with what a host function writes into arrays.
        mask_interrupts: mask interrupts within the windows; see ``Board.profile``.

    Raises:
        UsageError: the board has no real clock; a number is out of range; another device;
            f_preproc takes other arguments than the function; the board cannot mask interrupts.
        UnknownNameError: no such function.
    """
    for name, value in (
        ("number", number),
        ("repeat", repeat),
        ("limit_zero_time_iterations", limit_zero_time_iterations),
        ("repeats_to_cooldown", repeats_to_cooldown),
    ):
        check_range(name, value, 1, MOST_CALLS)
    check_ms("min_repeat_ms", min_repeat_ms)
    check_ms("cooldown_interval_ms", cooldown_interval_ms)
    if f_preproc is not None and not isinstance(f_preproc, str) and not callable(f_preproc):
        raise UsageError(f"f_preproc={f_preproc!r:.60} is neither a name nor a function.")
    if cache_flush_bytes != 0:
        raise UsageError(
            f"cache_flush_bytes={cache_flush_bytes!r}: the agent does not flush caches.",
            hint="write a function that does, and name it as f_preproc",
        )
    target = OpenBoard(mod)
    try:
        check_device(target.board, dev)
        check_time(target.board)
        flags_for(target.board.link, mask=mask_interrupts)
        function = target.board.measurable(func_name).info.name
        if isinstance(f_preproc, str) and f_preproc:
            _check_takes_the_same(target.board, function, f_preproc)
    except BaseException:
        target.close()
        raise
    return TimeEvaluator(
        target,
        function,
        number,
        repeat,
        min_repeat_ms,
        limit_zero_time_iterations,
        cooldown_interval_ms,
        repeats_to_cooldown,
        f_preproc,
        mask_interrupts,
    )


def _check_takes_the_same(board: Board, function: str, preproc: str) -> None:
    """Check that a function takes the same as another (const or not), or nothing at all."""
    taken, wanted = (
        [kind.removeprefix("const ") for _, kind in board.functions[name].signature.parameters]
        for name in (preproc, function)
    )
    if taken and taken != wanted:
        raise UsageError(
            f"f_preproc={preproc!r} takes {', '.join(taken)}; {function} takes "
            f"{', '.join(wanted) or 'nothing'}.",
            hint="it must take the same, or nothing",
        )


def check_time(board: Board) -> str:
    """Return the counter that is the board's clock.

    Raises:
        UsageError: it has no clock, or a simulated one; the hint says what to use instead.
    """
    timer = timer_of(board)
    if timer is not None:
        return timer
    counters = [c.name for each in board.offer.fixed for c in each.counters]
    there = [name for name in counters if name not in board.device.unsupported]
    is_simulated = board.device.clock_kind == "simulated"
    raise UsageError(
        f"{board.device.name} cannot be timed: "
        + (
            "its clock is simulated and does not measure seconds."
            if is_simulated
            else "it has no clock."
        ),
        hint=f"use profile_function, which can count: {', '.join(there)}",
    )


def check_ms(name: str, value: object) -> None:
    """Raise UsageError unless ``value`` is a time in milliseconds, 0 or more."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= _LONGEST_MS:  # type: ignore[operator]
        raise UsageError(f"{name}={value!r:.60} is not a time in milliseconds of 0 or more.")
