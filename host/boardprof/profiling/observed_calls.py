# SPDX-License-Identifier: Apache-2.0
"""Samples as separate requests, so that the host can act between them.

With ``Board.measure`` the board takes as many samples in one request as fit its buffer. Here the
host acts around each sample, or goes on to the next function. A trace has one event for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from boardprof.board.board import Board
from boardprof.board.call_observers import (
    OBSERVERS,
    HostCall,
    observe,
    observe_measurement,
    prepare_observers,
)
from boardprof.measure.board_interrupts import flags_for
from boardprof.measure.counted_pass import CountedPass, PackedCall, Taken
from boardprof.measure.passes import PassQueue
from boardprof.measure.placement import Placement
from boardprof.measure.rounds import Rounds
from boardprof.report.measurement import Measurement
from boardprof_protocol.codes import MeasureFlag

UNMASKED = MeasureFlag(0)
"""Flags of windows with interrupts on."""


def planned_passes(
    board: Board, metrics: Sequence[str] | None, *, mask_interrupts: bool = False
) -> PassQueue:
    """Plan the passes needed to count metrics; the board is not programmed yet.

    Args:
        board: connected.
        metrics: see ``Board.profile``. None for all except those that the board refuses.
        mask_interrupts: whether to mask interrupts within the windows.

    Raises:
        UsageError, UnknownNameError: see ``Offer.passes``; or the board cannot mask interrupts.
    """
    flags = flags_for(board.link, mask=mask_interrupts)
    prepare_observers(board)
    passes = board.offer.passes(metrics)
    return PassQueue(board.link, passes, may_drop=metrics is None, flags=flags)


def bound_call(
    board: Board, function: str, args: Sequence[object], named: Mapping[str, object]
) -> tuple[HostCall, Placement]:
    """Bind a function's arguments; return the call and the arrays' placement, a context manager.

    Raises:
        UsageError: they do not fit the signature or the arena; see ``Board.profile``.
        DeviceFaultError: the board's stack is too small for the function.
    """
    remote = board.measurable(function)
    arguments = remote.bind(args, named)
    board.stack_check.require(function)
    call = HostCall(board, remote, arguments=arguments)
    return call, Placement(board.memory, arguments, put_back=True)


def observed_value(call: HostCall, packed: PackedCall) -> object:
    """Call a function once without measuring; return its result."""
    value = observe(call, lambda _, __, value: packed.execute(value), call.board.session.value)
    call.function.signature.check_result(packed.function.name, value)
    return value


def observed_sample(
    counted: CountedPass,
    call: HostCall,
    packed: PackedCall,
    number: int = 1,
    flags: MeasureFlag | None = None,
) -> Taken:
    """Call a function ``number`` times in one window.

    Args:
        counted: the pass with its counters.
        call: for observers: to them each sample is a measurement.
        packed: the same call, with arguments at their current places.
        number: calls in the window, >= 1.
        flags: of the window; None for those of the pass. `UNMASKED` is checked as a trial of masked
            windows.

    Raises:
        UsageError: with interrupts masked, the board's clock would fail in such a long window.
    """
    taken: list[Taken] = []

    def measure() -> Measurement:
        taken.append(counted.take(packed, 0, 1, number, flags=flags))
        return counted.measurement(packed, taken[0], number)

    if OBSERVERS:
        counted.calibration(packed, number)  # first: observers count the sample alone
        observe_measurement(replace(call, rounds=Rounds(0, 1, number)), measure)
    else:
        taken.append(counted.take(packed, 0, 1, number, flags=flags))
    if flags is UNMASKED:
        counted.check_unmasked(packed, taken[0])
    return taken[0]
