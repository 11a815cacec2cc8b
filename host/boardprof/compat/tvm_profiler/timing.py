# SPDX-License-Identifier: Apache-2.0
"""TVM's ``time_evaluator``: seconds per call, by the board's own clock."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from boardprof.base.errors import UsageError
from boardprof.compat.tvm_profiler.board_calls import (
    Module,
    board_of,
    bound_call,
    check_device,
    observed_sample,
    observed_value,
    planned_passes,
    timer_of,
)
from boardprof.measure.board.board import Board, HostCall
from boardprof.measure.sampling.available_metrics import ALL, metric_names
from boardprof.measure.sampling.counted_pass import UNMASKED, PackedCall
from boardprof.measure.sampling.measure_function import check_range
from boardprof.measure.sampling.placement import Placement

if TYPE_CHECKING:
    from boardprof.jobs.tune.candidate import MeasureResult

_LONGEST_MS = 1e9
_REPEATS_TO_COOLDOWN = 1

LIMIT_ZERO = 100
"""Number of attempts without any time before ``number`` is accepted, as in TVM."""

_GROWTH = 1.618
"""Least factor between the numbers of calls of two attempts."""

MOST_CALLS = (1 << 32) - 1
"""Maximum number of calls in one window: the limit of the wire format."""


def _of_results(function: Callable[[Sequence[float]], float], doc: str) -> cached_property[float]:
    def statistic(measured: BenchmarkResult) -> float:
        return function(measured.results)

    statistic.__doc__ = doc
    return cached_property(statistic)


@dataclass(frozen=True)
class BenchmarkResult:
    """What a time evaluator measured; names and units are TVM's.

    Attributes:
        results: seconds per call, one for each repeat, in run order.

    Raises:
        UsageError: there are no results.
    """

    results: tuple[float, ...]

    def __post_init__(self) -> None:
        """Check that there are results."""
        if not self.results:
            raise UsageError("A BenchmarkResult needs at least one result.")

    mean = _of_results(statistics.fmean, "The mean, in seconds.")
    median = _of_results(statistics.median, "The median, in seconds.")
    min = _of_results(min, "The minimum, in seconds.")
    max = _of_results(max, "The maximum, in seconds.")
    std = _of_results(
        statistics.pstdev,
        "Population standard deviation of the results (divided by n), in seconds.",
    )

    def __str__(self) -> str:
        """Return the five statistics in milliseconds."""
        names = ("mean", "median", "max", "min", "std")
        head = "".join(f"{f'{name} (ms)':>13}" for name in names)
        line = "".join(f"{1e3 * getattr(self, name):>13.4f}" for name in names)
        return f"Execution time of a call, {len(self.results)} samples:\n{head}\n{line}"


@dataclass(eq=False, repr=False)
class TimeEvaluator:
    """The result of `time_evaluator`: call it with the function's arguments."""

    _board: Board
    _function: str
    _number: int
    _repeat: int
    _min_repeat_ms: float
    _limit_zero: int
    _cooldown_ms: float
    _repeats_to_cooldown: int
    _prepare: str | Callable[..., object]
    _masks: bool
    _metrics: Sequence[str]
    _opened: ExitStack  # with the board, if it was started for this

    def __call__(self, *args: object, **named: object) -> BenchmarkResult | MeasureResult:
        """Time the function, or count the metrics that were asked for.

        In/out arrays begin each repeat with the caller's values. Afterwards they hold the result of
        one extra call.

        Returns:
            TVM's BenchmarkResult; with ``metrics``, the MeasureResult of a tuner.

        Raises:
            UsageError, DeviceError, LinkError: see ``Board.profile``.
        """
        with self._board.session.exclusive(self._function):
            if self._metrics:
                return self._measured(args, named)
            return self._timed(args, named)

    def _timed(self, args: Sequence[object], named: Mapping[str, object]) -> BenchmarkResult:
        board, number = self._board, self._number
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
                    may_grow=lambda: not watch.is_ambiguous,
                )
                results.append(seconds / number)
                if self._cooldown_ms > 0 and index % self._repeats_to_cooldown == 0:
                    time.sleep(self._cooldown_ms / 1000.0)
            info = call.function.info
            placement.call_for_outputs(lambda: observed_value(call, placement.call(info)))
        if min(results) <= 0:
            warnings.warn(
                f"{self._function} takes less time than the clock of {board.device.name} "
                "resolves; give a larger number, or min_repeat_ms",
                stacklevel=3,
            )
        if watch.is_ambiguous:
            warnings.warn(
                f"the clock of {board.device.name} may have wrapped unseen while {self._function} "
                "ran; give a smaller number, or a smaller min_repeat_ms",
                stacklevel=3,
            )
        return BenchmarkResult(tuple(results))

    def _measured(self, args: Sequence[object], named: Mapping[str, object]) -> MeasureResult:
        began_s = time.monotonic()
        measurement = self._board.measure(
            self._function,
            *args,
            metrics=self._metrics,
            warmup=1,
            repeat=self._repeat,
            number=self._number,
            named=named,
            mask_interrupts=self._masks,
        )
        from boardprof.jobs.tune.measuring import measured_result  # later: it loads the builder

        return measured_result(measurement, self._metrics, run_s=time.monotonic() - began_s)

    def close(self) -> None:
        """Stop the board, if it was started for this."""
        self._opened.close()

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
            remote = self._board.functions[self._prepare]
            if remote.signature.parameters:
                self._board.stack_check.require(self._prepare)
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
    limit_zero_time_iterations: int = LIMIT_ZERO,
    cooldown_interval_ms: float = 0,
    repeats_to_cooldown: int = _REPEATS_TO_COOLDOWN,
    cache_flush_bytes: int = 0,
    f_preproc: str | Callable[..., object] = "",
    *,
    mask_interrupts: bool = False,
    metrics: str | Sequence[str] | None = None,
) -> TimeEvaluator:
    """Return an evaluator that times a function by the board's clock; names and defaults are TVM's.

    ::

        evaluate = time_evaluator(board, "fir", number=10, repeat=5, min_repeat_ms=20)
        print(evaluate(x, h, y, 256).median)

    There is one warm-up call. Then each of ``repeat`` repeats makes ``number`` calls in one window
    on the board. If a window is shorter than ``min_repeat_ms``, it is repeated with more calls: as
    many as its time suggests, and at least 1.618 times as many. The following repeats begin with
    this number. The measurement overhead is subtracted. One more call at the end leaves its results
    in the arrays. So there are ``number * repeat + 2`` calls if no window has to be repeated.

    Args:
        mod: a connected board, or a Firmware, which is started; `TimeEvaluator.close` stops it.
        func_name: the function.
        dev: see `profile_function`.
        number: calls in each repeat, >= 1.
        repeat: results, >= 1.
        min_repeat_ms: shortest time of a repeat, in milliseconds, with what the board takes to
            make the calls.
        limit_zero_time_iterations: number of attempts with zero time after which a repeat is
            accepted; only with ``min_repeat_ms``, without which there is one attempt.
        cooldown_interval_ms: length of a pause, in milliseconds; 0 for none.
        repeats_to_cooldown: a pause comes after the first repeat, and again after as many repeats
            as this; only with ``cooldown_interval_ms``.
        cache_flush_bytes: 0 only; a board has no function that flushes its caches unless you
            register one: see ``f_preproc``.
        f_preproc: called before each repeat, untimed: a function of the board, by name, or of the
            host. Both get the arguments. A function of the board gets them at their places there,
            unless it takes none. The repeat begins with what a host function writes into arrays.
        mask_interrupts: mask interrupts within the windows; see ``Board.profile``.
        metrics: one or several to count instead of time. The result is then that of a tuner
            (`boardprof.tune.MeasureResult`), and the first one is the cost. A simulated clock is
            enough, and there is no ``min_repeat_ms``, cool-down or ``f_preproc``.

    Raises:
        UsageError: the board has no real clock; a number is out of range, or would have no effect;
            another device; f_preproc takes other arguments than the function; the board cannot mask
            interrupts.
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
    if limit_zero_time_iterations != LIMIT_ZERO and not min_repeat_ms:
        raise _without("limit_zero_time_iterations", "min_repeat_ms")
    if repeats_to_cooldown != _REPEATS_TO_COOLDOWN and not cooldown_interval_ms:
        raise _without("repeats_to_cooldown", "cooldown_interval_ms")
    if f_preproc is not None and not isinstance(f_preproc, str) and not callable(f_preproc):
        raise UsageError(f"f_preproc={f_preproc!r:.60} is neither a name nor a function.")
    if cache_flush_bytes != 0:
        raise UsageError(
            f"cache_flush_bytes={cache_flush_bytes!r}: the agent does not flush caches.",
            hint="write a function that does, and name it as f_preproc",
        )
    with ExitStack() as opened:
        board = board_of(mod, opened)
        check_device(board, dev)
        counted = metric_names(metrics) or []
        if counted:
            _check_plain(min_repeat_ms, cooldown_interval_ms, f_preproc)
            if ALL in counted:
                raise UsageError("`all` is not a cost.", hint='metrics=["instructions"]')
            board.offer.passes(counted)
        else:
            check_time(board)
        board.link.flags(mask=mask_interrupts)
        function = board.measurable(func_name).info.name
        if isinstance(f_preproc, str) and f_preproc:
            _check_takes_the_same(board, function, f_preproc)
        return TimeEvaluator(
            board,
            function,
            number,
            repeat,
            min_repeat_ms,
            limit_zero_time_iterations,
            cooldown_interval_ms,
            repeats_to_cooldown,
            f_preproc,
            mask_interrupts,
            counted,
            opened.pop_all(),
        )


def _without(name: str, other: str) -> UsageError:
    return UsageError(f"{name} has no effect without {other}.", hint=f"give {other}, too")


def _check_plain(min_repeat_ms: float, cooldown_ms: float, f_preproc: object) -> None:
    """Refuse what applies to time only."""
    given = {"min_repeat_ms": min_repeat_ms, "cooldown_interval_ms": cooldown_ms}
    named = [name for name, value in {**given, "f_preproc": f_preproc}.items() if value]
    if named:
        raise UsageError(
            f"{named[0]} is for measuring time, and cannot be combined with metrics.",
            hint=f"leave out {named[0]}, or metrics",
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


def check_ms(name: str, value: object) -> None:
    """Raise UsageError unless ``value`` is a time in milliseconds, 0 or more."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= _LONGEST_MS:  # type: ignore[operator]
        raise UsageError(f"{name}={value!r:.60} is not a time in milliseconds of 0 or more.")


# -- time --------------------------------------------------------------------------------------


class Stopwatch:
    """Timer of one function's calls; each attempt is a separate request."""

    def __init__(
        self, call: HostCall, placement: Placement, *, mask_interrupts: bool = False
    ) -> None:
        """Program the board to count only its clock; nothing is called yet."""
        self._call = call
        self._placement = placement
        clock = check_time(call.board)
        passes = planned_passes(call.board, [clock], mask_interrupts=mask_interrupts)
        counted = passes.next(lambda counted: counted.try_out(self._packed))
        assert counted is not None, "one counter is one pass"
        self._counted = counted
        self._tried: set[int] = set()
        self.is_ambiguous = False  # an attempt may have been longer than the clock shows

    def warm_up(self) -> None:
        """Call the function once, untimed."""
        self._placement.send_again()
        observed_sample(self._counted, self._call, self._packed, flags=UNMASKED)

    def timed(self, number: int) -> Timed:
        """Call it ``number`` times in one window; return their time."""
        counted = self._counted
        if number not in self._tried:
            counted.calibration_samples(self._packed, number)
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

    @property
    def _packed(self) -> PackedCall:
        return self._placement.call(self._call.function.info)


def check_time(board: Board) -> str:
    """Return the counter that is the board's clock."""
    timer = timer_of(board)
    if timer is not None:
        return timer
    counters = [c.name for each in board.offer.fixed for c in each.counters]
    there = [name for name in counters if name not in board.device.unsupported]
    why = "it has no clock"
    if board.device.clock_kind == "simulated":
        why = "its clock is simulated and does not measure seconds"
    raise UsageError(
        f"{board.device.name} cannot be timed: {why}.",
        hint=f"use profile_function, which can count: {', '.join(there)}",
    )


class Timed(NamedTuple):
    """Seconds of some calls: their own, and with what the board takes to make them."""

    net_s: float
    whole_s: float


def time_long_enough(
    timed: Callable[[int], Timed],
    number: int,
    min_repeat_ms: float,
    limit_zero: int,
    *,
    may_grow: Callable[[], bool] = lambda: True,
) -> tuple[int, float]:
    """Call ``timed`` with growing numbers up to ``min_repeat_ms``; return the last and its s."""
    # The whole time has to be long enough, as in TVM. The net time of a function that costs as much
    # as an empty one never is. After ``limit_zero`` times of 0 or less the last one is accepted,
    # and after an attempt that ``may_grow`` is against: with a clock that wraps unseen, no attempt
    # would ever be long enough.
    zeros = 0
    while True:
        net_s, taken_s = timed(number)
        zeros += taken_s <= 0
        is_over = zeros >= limit_zero or number == MOST_CALLS or not may_grow()
        if is_over or 1e3 * max(taken_s, 0.0) >= min_repeat_ms:
            return number, net_s
        if taken_s > 0:
            number = next_number(number, 1e3 * taken_s, min_repeat_ms)


def next_number(number: int, taken_ms: float, min_repeat_ms: float) -> int:
    """Return how many calls the next attempt has, if ``number`` calls took ``taken_ms`` > 0."""
    wanted = max(min_repeat_ms / (taken_ms / number) + 1, number * _GROWTH)
    return min(int(wanted), MOST_CALLS)
