# SPDX-License-Identifier: Apache-2.0
"""Samples as separate requests, so that the host can act between them; and a stopwatch of them.

With ``Board.measure`` the board takes as many samples in one request as fit its buffer. Here the
host acts around each sample, or goes on to the next function. A trace has one event for each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from boardprof.base.errors import UsageError
from boardprof.compat.tvm_profiler.collector_selection import timer_of
from boardprof.measure.sampling.counted_pass import UNMASKED, CountedCalls, CountedPass, PackedCall
from boardprof.measure.sampling.passes import PassQueue, Rounds
from boardprof.measure.sampling.placement import Placement
from boardprof.measure.session.board import (
    OBSERVERS,
    Board,
    HostCall,
    observe,
    prepare_observers,
    watched,
)
from boardprof_protocol.codes import MeasureFlag

_GROWTH = 1.618
"""Least factor between the numbers of calls of two attempts."""

MOST_CALLS = (1 << 32) - 1
"""Maximum number of calls in one window: the limit of the wire format."""


def planned_passes(
    board: Board, metrics: Sequence[str] | None, *, mask_interrupts: bool = False
) -> PassQueue:
    """Plan the passes that count metrics, None for all; the board is not programmed yet."""
    flags = board.link.flags(mask=mask_interrupts)
    prepare_observers(board)
    passes = board.offer.passes(metrics)
    return PassQueue(board.link, passes, may_drop=metrics is None, flags=flags)


def bound_call(
    board: Board, function: str, args: Sequence[object], named: Mapping[str, object]
) -> tuple[HostCall, Placement]:
    """Bind a function's arguments; return the call and the arrays' placement, a context manager."""
    remote = board.measurable(function)
    arguments = remote.bind(args, named)
    board.stack_check.require(function)
    call = HostCall(board, remote, arguments=arguments)
    return call, Placement(board.memory, arguments, put_back=True)


def observed_value(call: HostCall, packed: PackedCall) -> object:
    """Call a function once without measuring; return its result."""
    value = observe(call, packed.execute, call.board.session.value)
    call.function.signature.check_result(packed.function.name, value)
    return value


def observed_sample(
    counted: CountedPass,
    call: HostCall,
    packed: PackedCall,
    number: int = 1,
    flags: MeasureFlag | None = None,
) -> CountedCalls:
    """Call a function ``number`` times in one window; to observers each sample is a measurement.

    ``packed`` is the same call, with arguments at their current places. ``flags`` is None for those
    of the pass; `UNMASKED` is checked as a trial of masked windows.
    """
    if OBSERVERS:
        counted.calibration(packed, number)  # first: observers count the sample alone
    with watched(replace(call, rounds=Rounds(0, 1, number))) as watch:
        taken = counted.take(packed, 0, 1, number, flags=flags)
        if watch.observations:
            watch.measurement = counted.measurement(packed, taken, number)
    if flags is UNMASKED:
        counted.check_unmasked(packed, taken)
    return taken


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


def check_time(board: Board) -> str:
    """Return the counter that is the board's clock."""
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
    """Call ``timed`` with growing numbers until they take ``min_repeat_ms``.

    The whole time has to be long enough, as in TVM. The net time of a function that costs as much
    as an empty one never is. After ``limit_zero`` times of 0 or less the last one is accepted, and
    after an attempt that ``may_grow`` is against: with a clock that wraps unseen, no attempt would
    ever be long enough. Returns the number of the last attempt, and its net time in seconds.
    """
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
