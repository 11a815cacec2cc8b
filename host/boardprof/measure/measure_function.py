# SPDX-License-Identifier: Apache-2.0
"""One function measured on a board: calibration, samples, its stack, and one further call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from boardprof.arguments.passing import Passing
from boardprof.measure.board_interrupts import flags_for, said_of
from boardprof.measure.clock_probe import clock_probe
from boardprof.measure.function_sampler import FunctionSampler, Progress
from boardprof.measure.passes import Pass
from boardprof.measure.placement import OnTransfer, Placement
from boardprof.measure.rounds import Rounds
from boardprof.measure.stack_check import StackCheck, paint_stack
from boardprof.report.measurement import Measurement

if TYPE_CHECKING:
    from boardprof.arguments.arguments import Arguments
    from boardprof.arguments.signature import Signature
    from boardprof.board.memory import Memory
    from boardprof.decode.dictionary import FunctionInfo
    from boardprof.measure.board_link import BoardLink


OnNote = Callable[[str], None]
"""Called with a sentence for the user."""

QUIET_S = 10.0
"""Nobody minds a wait that is shorter."""


def measure_function(
    link: BoardLink,
    memory: Memory,
    stack_check: StackCheck,
    function: FunctionInfo,
    signature: Signature,
    arguments: Arguments,
    passes: Sequence[Pass],
    rounds: Rounds,
    *,
    may_drop: bool,
    may_shorten: bool,
    cold: bool,
    mask_interrupts: bool,
    on_progress: Progress | None,
    on_transfer: OnTransfer | None,
    on_note: OnNote | None,
) -> Measurement:
    """Measure a function with the same arguments in each round, then call it once for its outputs.

    Args:
        link: to the board.
        memory: of the board.
        stack_check: knows the frames of the board's functions.
        function: the board's entry of it.
        signature: what it takes and returns.
        arguments: its own; in/out arrays are changed in place by the one further call.
        passes: what is counted in each run of all rounds.
        rounds: how often it is called.
        may_drop: whether events that the board refuses are left out, with the reason.
        may_shorten: whether the rounds are fewer if a call takes long; needs a warm-up call.
        cold: whether one call ahead of all others is measured apart.
        mask_interrupts: whether no interrupt runs within the windows.
        on_progress: called with (rounds done, rounds in all).
        on_transfer: called while arrays go over the line.
        on_note: called with what will take long, and with what the samples are not, before.

    Raises:
        UsageError: the arrays do not fit the arena, or the board cannot mask interrupts.
        DeviceFaultError: the function's frames do not fit the stack, or it trapped.
        CheckFailedError: the function's own check says that its result is wrong.
    """
    name = function.name
    flags = flags_for(link, mask=mask_interrupts)
    stack_check.require(name)
    clock = clock_probe(link)
    with Placement(memory, arguments, put_back=True, on_transfer=on_transfer) as placement:
        sampler = FunctionSampler(
            link,
            placement.call(function),
            passes,
            rounds,
            may_drop=may_drop,
            may_shorten=may_shorten,
            cold=cold,
            prepare=placement.send_again if placement.sends_again else None,
            on_progress=on_progress,
            on_note=on_note,
            flags=flags,
        )
        if on_note is not None:
            in_all = len(passes) * rounds.in_all
            masks_guard = mask_interrupts and link.interrupts and link.interrupts.masks_guard
            for note in (
                *_left_by_others(name, arguments, rounds.number),
                *(_unguarded(f"{name} on {link.device.name}") if masks_guard else ()),
                *_long_sending(f"{name} on {link.device.name}", placement, in_all),
                *_missed_wraps(link, name, stack_check),
            ):
                on_note(note)
        clock.follow()
        windows = sampler.windows()
        clock.follow()
        placement.check()  # before what was written outside is overwritten
        placement.send_again()
        stack = paint_stack(link, placement.call(function), stack_check)

        def last_call() -> object:
            result = placement.call(function).execute(link.session.value)
            signature.check_result(name, result)
            return result

        result, outputs = placement.call_for_outputs(last_call)
    return Measurement(
        name,
        sampler.device(),
        sampler.rounds.number,
        sampler.rounds.warmup,
        windows,
        arguments.text,
        clock.fit(),
        stack=stack,
        result=result,
        result_type=signature.result,
        outputs=outputs,
        kept=tuple(array.name for array in arguments.arrays if array.is_kept),
        sent_again=placement.why_again,
        cold=sampler.cold,
        interrupts=said_of(link, windows, masked=mask_interrupts),
    )


def _unguarded(what: str) -> Iterator[str]:
    """Yield notes on windows in which the guard's timer is masked as well."""
    yield (
        f"{what}: the timer that stops a hanging call is masked with the other interrupts. The "
        "first sample is taken unmasked; if a later call hangs, only a reset ends it"
    )


def _left_by_others(function: str, arguments: Arguments, number: int) -> Iterator[str]:
    """Yield notes on arrays that a function changes, with several calls in a sample."""
    changed = [each.name for each in arguments.arrays if each.passing is Passing.IN_OUT]
    if changed and number > 1:
        yield (
            f"{function}: only the first of a sample's {number} calls gets {', '.join(changed)} as "
            "given; each later call gets what the call before it left. If that changes the cost of "
            "a call, use --number 1. For an array that is only written, use :out"
        )


def _missed_wraps(link: BoardLink, function: str, check: StackCheck) -> Iterator[str]:
    """Yield what to know of a function that keeps the clock's own interrupt waiting."""
    longest_us = link.interrupts.longest_us if link.interrupts is not None else 0
    if longest_us and check.masks_interrupts(function):
        yield (
            f"{function} masks interrupts. If it does so for more than {longest_us:,} us, the "
            f"clock of {link.device.name} misses wraps, and the numbers are too small"
        )


def _long_sending(what: str, placement: Placement, rounds: int) -> Iterator[str]:
    """Yield notes on arrays that are sent again and again over a slow line."""
    if placement.again_s * rounds > QUIET_S:
        minutes, seconds = divmod(round(placement.again_s * rounds), 60)
        yield (
            f"{what}: its in/out arrays ({placement.again_bytes:,} bytes) are sent again before "
            f"each of {rounds} rounds, in about {minutes} min {seconds} s: {placement.why_again}. "
            "To save time: lower --repeat and --warmup, use :keep or :out, or use smaller arrays"
        )
