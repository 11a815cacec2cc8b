# SPDX-License-Identifier: Apache-2.0
"""One function measured on a board: calibration, samples, its stack, and one further call."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, SupportsIndex

import msgpack

from boardprof.arguments.passing import Passing
from boardprof.board.counting import CALIBRATION_SAMPLES, Counting
from boardprof.board.functions import RemoteFunction
from boardprof.board.interrupts import flags_for
from boardprof.board.observing import observed_measurement
from boardprof.board.passes import Pass
from boardprof.board.placement import OnTransfer, Placement
from boardprof.board.sampling import Progress
from boardprof.errors import (
    DeviceError,
    DeviceFaultError,
    DeviceTimeoutError,
    FrameError,
    RpcError,
    UsageError,
)
from boardprof.report.interrupts import HOOKED, NOT_MASKED, Interrupts
from boardprof.report.measurement import Measurement, Stack, Windows
from boardprof_protocol.codes import ErrorCode

if TYPE_CHECKING:
    from boardprof.arguments.arguments import Arguments
    from boardprof.board.board import Board

__all__ = ["QUIET_S", "OnNote", "Rounds", "check_range", "measure_function"]

_CLOCK_EXCHANGES = 8
"""Of time stamps, before a measurement and again behind it."""

OnNote = Callable[[str], None]
"""Called with a sentence for the user."""

QUIET_S = 10.0
"""Nobody minds a wait that is shorter."""

_STACK = "bp.stack"
_NO_STACK = "the agent cannot paint its stack"
_STACK_ENDED: dict[type[DeviceError], str] = {
    DeviceFaultError: "the function trapped in the call on painted stack",
    DeviceTimeoutError: "the call on painted stack did not end within the time limit",
}


def check_range(name: str, value: SupportsIndex, least: int, most: int) -> int:
    """Return a whole number, also numpy's, as Python's; raise UsageError beyond its limits."""
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
    """How often the function is called.

    Attributes:
        warmup: calls before the first sample, >= 0.
        repeat: samples, >= 1.
        number: calls in each sample, >= 1.

    Raises:
        UsageError: one is out of range.
    """

    warmup: int
    repeat: int
    number: int

    def __post_init__(self) -> None:
        """Check the ranges, which are those of the wire, and take Python's own numbers."""
        for name, least, most in (
            ("warmup", 0, (1 << 31) - 1),
            ("repeat", 1, (1 << 32) - 1),
            ("number", 1, (1 << 32) - 1),
        ):
            object.__setattr__(self, name, check_range(name, getattr(self, name), least, most))

    @property
    def in_all(self) -> int:
        """Rounds on the board, those of the calibration included."""
        return min(self.warmup, 1) + CALIBRATION_SAMPLES + self.warmup + self.repeat

    def shortened(self, *, is_exact: bool) -> Rounds:
        """Return as few as tell something, for a function that takes long.

        Args:
            is_exact: the board is emulated, so that one sample is as good as many; the second shows
                whether the function goes on from where it was.
        """
        from boardprof.stats.warnings import FEWEST_SAMPLES

        return replace(self, warmup=1, repeat=2 if is_exact else FEWEST_SAMPLES)


@observed_measurement
def measure_function(
    board: Board,
    remote: RemoteFunction,
    arguments: Arguments,
    passes: Sequence[Pass],
    rounds: Rounds,
    *,
    may_drop: bool,
    may_shorten: bool = False,
    on_progress: Progress | None = None,
    on_transfer: OnTransfer | None = None,
    on_note: OnNote | None = None,
    cold: bool = False,
    mask_interrupts: bool = False,
) -> Measurement:
    """Measure a function with the same arguments in each round, then call it once for its outputs.

    Args:
        board: with an open session.
        remote: the function.
        arguments: its own; in/out arrays are changed in place by the one further call.
        passes: what is counted in each run of all rounds.
        rounds: how often it is called.
        may_drop: whether events that the board refuses are left out, with the reason.
        may_shorten: whether the rounds are fewer if a call takes long; needs a warm-up call.
        on_progress: called with (rounds done, rounds in all).
        on_transfer: called while arrays go over the line.
        on_note: called with what will take long, and with what the samples are not, before.
        cold: whether one call ahead of all others is measured apart.
        mask_interrupts: whether no interrupt runs within the windows.

    Raises:
        UsageError: the arrays do not fit the arena, or the board cannot mask interrupts.
        DeviceFaultError: the function's frames do not fit the stack, or it trapped.
        CheckFailedError: the function's own check says that its result is wrong.
    """
    info, session = remote.info, board.session
    flags = flags_for(board.device.name, board.interrupts, mask=mask_interrupts)
    calls_before = board.calls
    board.stack_check.require(info.name)
    clock = board.clock_probe()
    with Placement(board.memory, arguments, put_back=True, on_transfer=on_transfer) as placement:
        counting = Counting(
            board,
            info,
            placement,
            passes,
            rounds,
            may_drop=may_drop,
            may_shorten=may_shorten,
            on_progress=on_progress,
            on_note=on_note,
            cold=cold,
            flags=flags,
        )
        changed = [each.name for each in arguments.arrays if each.passing is Passing.IN_OUT]
        if on_note is not None and rounds.number > 1 and changed:
            on_note(_left_by_others(info.name, changed, rounds.number))
        if (
            on_note is not None
            and mask_interrupts
            and board.interrupts
            and board.interrupts.masks_guard
        ):
            on_note(_unguarded(f"{info.name} on {board.device.name}"))
        in_all = len(passes) * rounds.in_all
        if on_note is not None and placement.again_s * in_all > QUIET_S:
            on_note(_long_sending(f"{info.name} on {board.device.name}", placement, in_all))
        if clock.offered:
            clock.ask(_CLOCK_EXCHANGES)
        windows = counting.windows()
        if clock.offered:
            clock.ask(_CLOCK_EXCHANGES)
        placement.check()  # before what was written outside is overwritten
        placement.send_again()
        stack = _stack(board, info.id, info.name, placement.packed)
        placement.send_again()
        placement.renew_outputs()
        result = session.value(info.id, *placement.packed, info.name)
        remote.signature.check_result(info.name, result)
        outputs = placement.fetch()
    return Measurement(
        info.name,
        counting.device(),
        counting.rounds.number,
        counting.rounds.warmup,
        windows,
        arguments.text,
        clock.fit() if clock.offered else None,
        board.flags,
        libc=board.libc,
        stack=stack,
        result=result,
        result_type=remote.signature.result,
        outputs=outputs,
        kept=tuple(array.name for array in arguments.arrays if array.is_kept),
        sent_again=placement.why_again,
        parts=board.parts,
        formulas=board.formulas,
        cold=counting.cold,
        compilers=board.compilers,
        calls_before=calls_before,
        interrupts=_interrupts(board, windows, mask_interrupts),
    )


def _interrupts(board: Board, windows: Sequence[Windows], masked: bool) -> Interrupts:
    """Return what the Report says of interrupts in these windows."""
    facts = board.interrupts
    if facts is None:
        return NOT_MASKED
    hooked = any(HOOKED in each.counters for each in windows)
    kept_by = [
        counter.name
        for collector in board.dictionary.collectors
        if hooked and not facts.skips >> collector.index & 1 and collector.name != HOOKED
        for counter in collector.counters
        if any(counter.name in each.counters for each in windows)
    ]
    return Interrupts(masked, facts.timer_us, facts.bound_ns if hooked else 0, tuple(kept_by))


def _unguarded(what: str) -> str:
    """Return what to know of windows in which the guard's timer is masked, too."""
    return (
        f"{what}: the timer that stops a hanging call is masked with the other interrupts. One "
        "sample is taken unmasked before; a later one that hangs ends by a reset alone"
    )


def _left_by_others(function: str, changed: Sequence[str], number: int) -> str:
    """Return what to know of arrays that a function changes, with several calls in a sample."""
    first = (
        f"{function}: {', '.join(changed)} as given is what the first of a sample's {number} calls"
    )
    return (
        f"{first} gets; the others get what the one before left. Where that changes what a call "
        "costs, take --number 1; an array that is only written takes :out"
    )


def _long_sending(what: str, placement: Placement, rounds: int) -> str:
    """Return what to know of arrays that are sent again and again over a slow line."""
    minutes, seconds = divmod(round(placement.again_s * rounds), 60)
    return (
        f"{what}: its in/out arrays, {placement.again_bytes:,} bytes, are sent again before each "
        f"of {rounds} rounds: {placement.why_again}; about {minutes} min {seconds} s. "
        "Shorter: less --repeat and --warmup, :keep or :out where that will do, smaller arrays"
    )


def _stack(board: Board, function_id: int, name: str, packed: tuple[bytes, int]) -> Stack | str:
    """Return what the function takes of the stack, or why that is not known."""
    painter = next((f for f in board.dictionary.functions if f.name == _STACK), None)
    if painter is None:
        return _NO_STACK
    content, count = packed
    try:
        value: Any = board.session.value(
            painter.id, bytes(msgpack.packb(function_id)) + content, count + 1, name
        )
    except RpcError as error:
        if error.code != ErrorCode.UNSUPPORTED:
            raise
        return _NO_STACK
    except (DeviceFaultError, DeviceTimeoutError) as error:  # the measurement itself is good
        if board.session.is_closed:  # the emulator was ended
            raise
        return _STACK_ENDED[type(error)]
    if not (isinstance(value, list) and len(value) >= 2 and all(type(n) is int for n in value[:2])):
        raise FrameError(f"bp.stack returned {value!r:.60}, not [used, painted].")
    return board.stack_check.figure(name, Stack(value[0], value[1]))
