# SPDX-License-Identifier: Apache-2.0
"""TVM's ``time_evaluator``: seconds a call, by the board's own clock."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence

from boardprof.board.board import Board
from boardprof.board.measuring import check_range
from boardprof.errors import UsageError
from boardprof.profiling.benchmark import MOST_CALLS, BenchmarkResult, time_long_enough
from boardprof.profiling.choice import Module, OpenBoard, check_device, timer_of
from boardprof.profiling.counted import CountedPass, Passes
from boardprof.profiling.placed import PlacedFunction, measurable
from boardprof.report.measurement import Measurement

__all__ = ["Stopwatch", "TimeEvaluator", "check_ms", "check_time", "time_evaluator"]

_LONGEST_MS = 1e9


class Stopwatch:
    """Times calls of one function, each attempt a call of the board of its own.

    Attributes:
        is_ambiguous: whether the clock may have wrapped unseen within an attempt.
    """

    def __init__(self, board: Board, placed: PlacedFunction) -> None:
        """Program the board for its clock alone; nothing is called yet.

        Raises:
            UsageError: see `check_time`.
        """
        self._board = board
        self._placed = placed
        self._passes = Passes(board, [check_time(board)])
        self._counted: CountedPass | None = None
        self._calibrations: dict[int, Measurement] = {}
        self.is_ambiguous = False

    def warm_up(self) -> None:
        """Call the function once, untimed."""
        self._placed.put_back()
        self._clock().sample(self._placed.call)

    def seconds(self, number: int) -> float:
        """Call it ``number`` times in one window; return their net time, in seconds.

        A time that the clock cannot resolve may come out as 0 or less.
        """
        counted, placed = self._clock(), self._placed
        if number not in self._calibrations:
            calibration = counted.calibration(placed.call, number)
            windows = counted.windows([(calibration[0], calibration[0])], calibration)  # no sample
            name, device = placed.remote.info.name, self._board.device
            self._calibrations[number] = Measurement(name, device, number, 0, (windows,))
        placed.put_back()
        sample, _ = counted.sample(placed.call, number)
        known = self._calibrations[number]
        clock = known.clock
        assert clock is not None, "check_time has seen to it"
        reading = sample.readings[clock]
        self.is_ambiguous |= reading.ambiguous
        per_second = 1e9 if reading.unit == "ns" else reading.hz
        return known.net(sample, clock) / per_second

    def is_certain(self) -> bool:
        """Whether no attempt may have been longer than the clock tells."""
        return not self.is_ambiguous

    def _clock(self) -> CountedPass:
        if self._counted is None:
            self._counted = self._passes.next(self._placed.call)
            assert self._counted is not None, "one counter is one pass"
        return self._counted


class TimeEvaluator:
    """What `time_evaluator` returns: call it with the function's arguments."""

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
    ) -> None:
        """Take what `time_evaluator` has checked."""
        self._target = target
        self._function = function
        self._number = number
        self._repeat = repeat
        self._min_repeat_ms = min_repeat_ms
        self._limit_zero = limit_zero_time_iterations
        self._cooldown_s = cooldown_interval_ms / 1000.0
        self._repeats_to_cooldown = repeats_to_cooldown
        self._prepare = f_preproc

    def __call__(self, *args: object, **named: object) -> BenchmarkResult:
        """Time the function.

        In/out arrays begin each repeat with the caller's values, and hold afterwards what one
        further call leaves in them.

        Raises:
            UsageError, DeviceError, LinkError: see ``Board.profile``.
        """
        board, number = self._target.board, self._number
        results: list[float] = []
        with PlacedFunction(board, self._function, args, named) as placed:
            watch = Stopwatch(board, placed)
            watch.warm_up()
            for index in range(self._repeat):
                self._preprocess(placed, args, named)
                number, seconds = time_long_enough(
                    watch.seconds,
                    number,
                    self._min_repeat_ms,
                    self._limit_zero,
                    may_grow=watch.is_certain,
                )
                results.append(seconds / number)
                if self._cooldown_s > 0 and index % self._repeats_to_cooldown == 0:
                    time.sleep(self._cooldown_s)
            placed.call_for_outputs()
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
        self, placed: PlacedFunction, args: Sequence[object], named: Mapping[str, object]
    ) -> None:
        if callable(self._prepare):
            self._prepare(*args, **named)
            placed.renew()
        elif self._prepare:
            remote = self._target.board.functions[self._prepare]
            if remote.signature.parameters:
                self._target.board.stack_check.require(self._prepare)
                placed.also(remote)
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
) -> TimeEvaluator:
    """Return what times a function by the board's clock; names and defaults are TVM's.

    ::

        evaluate = time_evaluator(board, "fir", number=10, repeat=5, min_repeat_ms=20)
        print(evaluate(x, h, y, 256).median)

    One call warms up. Then ``repeat`` times: ``number`` calls in one window on the board. If that
    was shorter than ``min_repeat_ms``, again with more calls: as many as the time that it took
    tells, and 1.618 times as many at least; the repeats that follow begin with so many. What the
    measuring itself takes is subtracted.

    Args:
        mod: a connected board, or a Firmware, which is started; `TimeEvaluator.close` stops it.
        func_name: the function.
        dev: see `profile_function`.
        number: calls in each repeat, >= 1.
        repeat: results, >= 1.
        min_repeat_ms: shortest time of a repeat, in milliseconds.
        limit_zero_time_iterations: after so many attempts of a repeat that measure no time at all,
            it is taken as it is.
        cooldown_interval_ms: pause after a repeat, in milliseconds.
        repeats_to_cooldown: how many repeats there are for one pause.
        cache_flush_bytes: 0 only; a board has no function that flushes its caches unless you
            register one: see ``f_preproc``.
        f_preproc: called before each repeat, untimed: a function of the board, by name, or one of
            the host. Either gets the arguments; one of the board, where they are there, unless it
            takes none. What one of the host writes into arrays is what the repeat begins with.

    Raises:
        UsageError: the board has no real clock; a number is out of range; another device;
            f_preproc takes other arguments than the function.
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
        function = measurable(target.board, func_name).info.name
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
    )


def _check_takes_the_same(board: Board, function: str, preproc: str) -> None:
    """See that a function takes what another one takes, const or not, or nothing at all."""
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
        UsageError: it has none, or its clock is simulated; says what to use instead.
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
            "its clock is simulated, and says nothing of seconds."
            if is_simulated
            else "it has no clock."
        ),
        hint=f"profile_function counts what there is on it: {', '.join(there)}",
    )


def check_ms(name: str, value: object) -> None:
    """Raise UsageError unless ``value`` is a time in milliseconds, 0 or more."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= _LONGEST_MS:  # type: ignore[operator]
        raise UsageError(f"{name}={value!r:.60} is no time in milliseconds, 0 or more.")
