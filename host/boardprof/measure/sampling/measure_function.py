# SPDX-License-Identifier: Apache-2.0
"""One function measured on a board, in as many passes as its counters need.

`measure_function` places the arrays. Then `FunctionSampler.run` takes each pass from a `PassQueue`,
which programs the counters: windows around the empty function (the calibration), in the first pass
the cold call, then warm-up calls and samples. Last come a call on painted stack and one for the
outputs. `counted_pass` makes the requests.
"""

from __future__ import annotations

import operator
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex

import msgpack

from boardprof.base.errors import (
    BoardTimeoutError,
    DeviceEndedError,
    DeviceError,
    DeviceFaultError,
    DeviceResetError,
    DeviceTimeoutError,
    FrameError,
    RpcError,
    UsageError,
)
from boardprof.measure.energy import energy_of
from boardprof.measure.meter import MarkedWindow, Meter
from boardprof.measure.sampling.available_metrics import NOTHING, Pass
from boardprof.measure.sampling.board_link import BoardLink, clock_probe
from boardprof.measure.sampling.counted_pass import (
    CALIBRATION_SAMPLES,
    UNMASKED,
    CountedCalls,
    CountedPass,
    PackedCall,
    Prepare,
    Selection,
)
from boardprof.measure.sampling.placement import OnTransfer, Placement
from boardprof.measure.sampling.programmable import Slots
from boardprof.results.record import Device, Finding, Stack
from boardprof.results.report.measurement import HOOKED, Cold, Measurement, PassResult
from boardprof.results.stats.summary import FEWEST_SAMPLES
from boardprof.target.arguments.passing import Passing
from boardprof.target.elf.machine_code import MASKS, SETS_CLOCK, SETS_COUNTER, SETS_TIMER, SLEEPS
from boardprof.target.elf.stack_need import ASKS_FOR_MEMORY
from boardprof.wire.decode.dictionary import Dictionary
from boardprof.wire.decode.samples import Sample
from boardprof.wire.link.session import Session
from boardprof_protocol.codes import ErrorCode, MeasureFlag

if TYPE_CHECKING:
    from boardprof.measure.board.functions import RemoteFunction
    from boardprof.target.arguments.binding import Arguments

Progress = Callable[[int, int], None]
"""Called with (rounds done, total rounds) while a measurement runs."""

OnNote = Callable[[str], None]
"""Called with a sentence for the user."""

_STACK = "bp.stack"
_NO_STACK = "the agent is compiled without BP_CFG_STACK"
_STACK_ENDED: dict[type[DeviceError], str] = {
    DeviceFaultError: "the function trapped in the call on painted stack",
    DeviceTimeoutError: "the call on painted stack did not end within the time limit",
}

_NO_STACK_YET = "the function did not come to the call on painted stack"

_STOPPED = (
    *(BoardTimeoutError, DeviceEndedError, DeviceFaultError),
    *(DeviceResetError, DeviceTimeoutError),
)
"""How a call may fail without making the samples from before it wrong."""

_NEVER_RAN = "it shared a hardware counter and never got a turn"
_TOO_MANY = (ErrorCode.NO_MEMORY, ErrorCode.REPLY_TOO_BIG)
"""Errors of the agent if a pass has more collectors than it can run at a time."""

_LONG_MASK_US = 60_000_000
"""No function masks interrupts for that long and ends within the usual limits."""

_CORE_COUNTERS = ("mcycle", "minstret", "mpccr", "PM")
"""Begins of their sources: registers that a function can write."""

_QUIET_S = 10.0  # shorter waits need no note
_LONG_S = 0.5
"""If a call takes longer, the default number of rounds is more than a user wants to wait for."""


def check_range(name: str, value: SupportsIndex, least: int, most: int) -> int:
    """Return a whole number, such as numpy's, as an int; raise UsageError if out of range."""
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
    """How often the function is called."""

    warmup: int  # calls before the first sample
    repeat: int  # samples
    number: int  # calls in each sample

    def __post_init__(self) -> None:
        """Check the ranges, which are those of the wire format, and convert to int."""
        for name, least, most in (
            ("warmup", 0, (1 << 31) - 1),
            ("repeat", 1, (1 << 32) - 1),
            ("number", 1, (1 << 32) - 1),
        ):
            object.__setattr__(self, name, check_range(name, getattr(self, name), least, most))

    @property
    def in_all(self) -> int:
        """Number of rounds on the board, including those of the calibration."""
        return min(self.warmup, 1) + CALIBRATION_SAMPLES + self.warmup + self.repeat

    def shortened(self, *, is_exact: bool, keeps_repeat: bool) -> Rounds:
        """Return the fewest useful rounds, for a function that takes long."""
        if keeps_repeat:
            return replace(self, warmup=1)
        # On an emulated board, one sample is as good as many. A second one shows whether the
        # function keeps state between calls.
        return replace(self, warmup=1, repeat=2 if is_exact else FEWEST_SAMPLES)


@dataclass(frozen=True)
class Sampling:
    """How a function is sampled."""

    passes: Sequence[Pass]  # at least one
    rounds: Rounds
    may_drop: bool = False  # leave out events that the board refuses, with the reason
    may_shorten: bool = False  # take fewer rounds if a call takes long; needs a warm-up call
    keeps_repeat: bool = False  # only fewer warm-up calls
    cold: bool = False  # measure the first call of all apart, in the first pass
    mask_interrupts: bool = False
    calibrations: int = CALIBRATION_SAMPLES  # windows around the empty function
    meter: Meter | None = None  # measures the energy of the first pass's samples
    on_progress: Progress | None = None
    on_note: OnNote | None = None


class PassQueue:
    """The passes that are left of a measurement, and extra ones for what did not fit."""

    def __init__(
        self,
        link: BoardLink,
        passes: Sequence[Pass],
        *,
        may_drop: bool,
        flags: MeasureFlag = UNMASKED,
    ) -> None:
        """Take the planned passes; with ``may_drop``, leave out events that the board refuses."""
        self._link = link
        self._left = list(passes)
        self._may_drop = may_drop
        self._flags = flags
        self._refused: dict[str, str] = {}

    def __len__(self) -> int:
        """Return how many are left, as far as is known."""
        return len(self._left)

    def next(self, begin: Callable[[CountedPass], object]) -> CountedPass | None:
        """Program the board for the next pass, or return None if there are no more."""
        # ``begin`` makes a request with all counters of the pass, before the user's function runs.
        # If the agent refuses that many collectors, it is called again with one less.
        while self._left:
            chosen = self._left.pop(0)
            slots = chosen.slots(self._link.programmable)
            self._note_refused(chosen, slots)
            # Each pass needs the number of its interrupts.
            selection = chosen.selection(slots).with_all_of(self._link.hooks)
            if selection.collectors:
                return self._begun(chosen, slots, selection, begin)
        return None

    def device(self, results: Sequence[PassResult]) -> Device:
        """Return the Report's facts about the board, with the counters that did not count."""
        counted = {name for each in results for name in each.counters}
        wanted = (event for each in results for names in each.events.values() for event in names)
        idle = {event: _NEVER_RAN for event in wanted if event not in counted}
        device = self._link.device
        return replace(device, unsupported={**device.unsupported, **self._refused, **idle})

    def _note_refused(self, chosen: Pass, slots: Sequence[Slots]) -> None:
        """Defer events that do not fit with others; drop or refuse those that never count."""
        for each in slots:
            name = each.collector.name
            if chosen.events[name] is None:
                self._refused |= each.refused
                continue
            for event, why in each.refused.items():
                if each.events:
                    self._left.append(Pass(NOTHING, {name: (event,)}))
                elif self._may_drop:
                    self._refused[event] = why
                else:
                    raise UsageError(f"{self._link.device.name} does not count {event}: {why}.")

    def _begun(
        self,
        chosen: Pass,
        slots: Sequence[Slots],
        selection: Selection,
        begin: Callable[[CountedPass], object],
    ) -> CountedPass:
        while True:
            counted = CountedPass(self._link, slots, selection, self._flags, chosen.slots)
            try:
                begin(counted)
            except RpcError as error:
                if error.code not in _TOO_MANY or len(selection.collectors) == 1:
                    raise
            else:
                return counted
            self._put_off_last(chosen, selection)
            selection = selection.without_last()

    def _put_off_last(self, chosen: Pass, selection: Selection) -> None:
        """Give the last collector its own pass."""
        last = selection.collectors[-1]
        if last.name in chosen.events:
            self._left.append(Pass(NOTHING, {last.name: chosen.events[last.name]}))
        else:
            names = frozenset(counter.name for counter in last.counters) & selection.counters
            if not names:  # a clock that was added; see `Offer.passes`
                return
            self._left.append(Pass(Selection((last,), names)))


class FunctionSampler:
    """Measures a function in as many passes as it takes."""

    def __init__(
        self,
        link: BoardLink,
        call: PackedCall,
        sampling: Sampling,
        prepare: Prepare | None = None,
        on_first: Callable[[CountedCalls], object] | None = None,
    ) -> None:
        """Prepare; the board is not called yet. ``on_first`` gets a first call that is alone."""
        self.cold: Cold | None = None  # the first call of all, once `run` has
        # fewer than asked for once `run` has, if calls take long
        self.rounds = sampling.rounds
        self.windows: tuple[MarkedWindow, ...] = ()  # of the meter, once `run` has
        self._link = link
        self._call = call
        self._sampling = sampling
        self._passes = PassQueue(
            link,
            sampling.passes,
            may_drop=sampling.may_drop,
            flags=link.flags(mask=sampling.mask_interrupts),
        )
        self._prepare = prepare
        self._on_first = on_first
        self._results: list[PassResult] = []
        self._done = 0
        self._elapsed_s = 0.0

    @property
    def passes(self) -> tuple[PassResult, ...]:
        """What each pass has counted so far; of the first one, also the samples before an error."""
        return tuple(self._results)

    def run(self) -> tuple[PassResult, ...]:
        """Run every pass; return what each has counted."""
        while (counted := self._passes.next(self._calibrate)) is not None:
            is_first = not self._results
            calibration = counted.calibration_samples(self._call, self.rounds.number)
            if is_first and self._sampling.cold:
                self.cold = self._first_call(counted)
            if counted.needs_trial:  # nothing would end a window that hangs once it is masked
                self._try_unmasked(counted)
            warmup = self._begun(counted) if is_first else self.rounds.warmup
            batches: list[CountedCalls] = []
            try:
                counted.take(
                    self._call,
                    warmup,
                    self.rounds.repeat,
                    self.rounds.number,
                    prepare=self._prepare,
                    on_done=self._on_done,
                    meter=self._sampling.meter if is_first else None,
                    batches=batches,
                )
            finally:  # also the samples before an error
                is_whole = sum(len(each.samples) for each in batches) == self.rounds.repeat
                if is_whole or (is_first and batches):
                    taken = counted.joined(batches)
                    self.windows = self.windows or taken.windows
                    self._results.append(counted.result([taken], calibration))
        return self.passes

    def device(self) -> Device:
        """Return the Report's facts about the board, with everything that did not count."""
        return self._passes.device(self._results)

    def _calibrate(self, counted: CountedPass) -> None:
        """Measure the empty function, and an empty interrupt; nothing of the user's runs."""
        self._done = len(self._results) * self.rounds.in_all
        warmup = min(self.rounds.warmup, 1)
        counted.calibrate(
            self._call,
            self.rounds.number,
            warmup=warmup,
            samples=self._sampling.calibrations,
            prepare=self._prepare,
            on_done=self._on_done,
        )
        self._done += warmup + self._sampling.calibrations

    def _try_unmasked(self, counted: CountedPass) -> None:
        """Take a sample with interrupts on, which may last as long as a masked window may."""
        rounds = self.rounds
        trial = counted.take(
            self._call,
            min(rounds.warmup, 1),
            1,
            rounds.number,
            flags=UNMASKED,
            prepare=self._prepare,
        )
        counted.check_unmasked(self._call, trial)

    def _begun(self, counted: CountedPass) -> int:
        """Make the first call alone, take fewer rounds if it is long; return the warm-ups left."""
        # That call is needed anyway: it is the cold first call, or the first warm-up call. So a
        # function with state is called as often as without this.
        may_shorten = self._sampling.may_shorten
        is_seen = self._on_first is not None and not counted.needs_trial  # a trial came before
        is_warmup = self.cold is None and (may_shorten or (is_seen and self.rounds.warmup > 1))
        if is_warmup:
            self._take_one(counted, counted.flags, is_seen=is_seen)
        if may_shorten and self._elapsed_s > _LONG_S:
            asked = self.rounds
            self.rounds = asked.shortened(
                is_exact=self._link.device.emulated, keeps_repeat=self._sampling.keeps_repeat
            )
            on_note = self._sampling.on_note
            if on_note is not None:
                name = f"{self._call.function.name} on {self._link.device.name}"
                takes = f"{self.rounds.repeat} samples after {self.rounds.warmup} warm-up call"
                instead = f"{asked.repeat} after {asked.warmup}; --repeat and --warmup override"
                if self._sampling.keeps_repeat:
                    takes = f"{self.rounds.warmup} warm-up call"
                    instead = f"{asked.warmup}; --warmup overrides"
                on_note(
                    f"{name}: a call takes {self._elapsed_s:.1f} s of wall time, so the run takes "
                    f"{takes}, instead of {instead} this"
                )
        return self.rounds.warmup - is_warmup

    def _first_call(self, counted: CountedPass) -> Cold:
        """Measure the first call. Only the agent is warm, from the calibration."""
        calibration = counted.calibration_samples(self._call)
        flags = UNMASKED if counted.needs_trial else counted.flags
        sample = self._take_one(counted, flags, is_seen=self._on_first is not None)
        overhead = {
            name: statistics.median_low(each.readings[name].uninterrupted for each in calibration)
            for name in sample.readings
            if all(name in each.readings for each in calibration)
        }
        return Cold(sample, overhead)

    def _take_one(self, counted: CountedPass, flags: MeasureFlag, *, is_seen: bool) -> Sample:
        """Measure one call without a warm-up call, and note how long it takes."""
        on_first = self._on_first if is_seen else None
        asked = flags if on_first is None else flags | MeasureFlag.RESULT
        try:
            taken = counted.take(self._call, 0, 1, flags=asked, prepare=self._prepare)
        except RpcError as error:  # it comes before the call
            if asked == flags or error.code != ErrorCode.REPLY_TOO_BIG:
                raise
            taken = counted.take(self._call, 0, 1, flags=flags, prepare=self._prepare)
        if on_first is not None:
            on_first(taken)
        self._done += 1
        self._elapsed_s = taken.elapsed_s
        return taken.samples[0]

    def _on_done(self, done: int) -> None:
        """Report the progress of a request as that of the whole measurement."""
        on_progress = self._sampling.on_progress
        if on_progress is not None:
            in_all = (len(self._results) + 1 + len(self._passes)) * self.rounds.in_all
            on_progress(min(self._done + done, in_all), in_all)


def measure_function(
    link: BoardLink,
    function: RemoteFunction,
    arguments: Arguments,
    sampling: Sampling,
    on_transfer: OnTransfer | None = None,
) -> Measurement:
    """Measure a function with the same arguments in each round, then call it for its outputs."""
    # The last call changes in/out arrays in place.
    name, info, masked = function.info.name, function.info, sampling.mask_interrupts
    link.flags(mask=masked)  # refuses before arrays are sent
    link.stack_check.require(name)
    clock = clock_probe(link)
    # Refuses arrays that do not fit, before their contents are read.
    placed = Placement(link.memory, arguments, put_back=True, on_transfer=on_transfer)
    inputs_crc32 = arguments.inputs_crc32()
    facts: dict[str, Any] = {"stack": _NO_STACK_YET}

    def measured(sampler: FunctionSampler) -> Measurement:
        passes = sampler.passes
        return Measurement(
            name,
            sampler.device(),
            sampler.rounds.number,
            sampler.rounds.warmup,
            passes,
            arguments=arguments.text,
            result_type=function.signature.result,
            kept=tuple(array.name for array in arguments.arrays if array.is_kept),
            sent_again=placed.why_again,
            cold=sampler.cold,
            interrupts=link.interrupts_during(passes, masked=masked),
            inputs_crc32=inputs_crc32,
            energy=None if sampling.meter is None else energy_of(sampling.meter, sampler.windows),
            **facts,
        )

    with placed as placement:
        prepare = placement.send_again if placement.sends_again else None
        crc32s: list[str] = []  # of the outputs of the first call, then of the last

        def note_first(taken: CountedCalls) -> None:
            if taken.returned or function.signature.result == "void":
                crc32s.append(placement.outputs_crc32(taken.result))

        sampler = FunctionSampler(link, placement.call(info), sampling, prepare, note_first)
        if sampling.on_note is not None:
            for note in _notes(link, arguments, sampling, placement):
                sampling.on_note(note)
        heap = heap_rounds(link.session, link.dictionary)
        clock.follow()

        def last_call() -> object:
            value = placement.call(info).execute(link.session.value)
            if any(crc32s):
                crc32s.append(placement.outputs_crc32(value))
            return value

        try:
            passes = sampler.run()
            clock.follow()
            facts["clock_fit"] = clock.fit()  # a call on painted stack may stop the clock
            facts["findings"] = tuple(_findings(link, name, sampler, heap, passes, masked=masked))
            placement.check()  # before sending again overwrites the evidence
            placement.send_again()
            facts["stack"] = paint_stack(link, placement.call(info))
            value, outputs = placement.call_for_outputs(last_call)
            facts |= {"result": function.reported(value, placement, outputs), "outputs": outputs}
            facts["changed"] = placement.changed
        except _STOPPED as error:
            if sampler.passes:
                error.kept = measured(sampler)
            raise
    if len(crc32s) > 1 and all(crc32s):
        facts["output_crc32s"] = tuple(crc32s)
        kinds = [each.kind for each in facts["findings"] if each.kind.startswith("heap-")]
        if kinds == ["heap-kept"] and len(set(crc32s)) > 1:
            text = (
                f"{name} returned or wrote something else in its last call, whose outputs these "
                "are, than in its first: it may have had no memory left"
            )
            facts["findings"] += (Finding("heap-outputs", text),)
    return measured(sampler)


def _findings(
    link: BoardLink,
    name: str,
    sampler: FunctionSampler,
    heap: HeapRounds | None,
    passes: Sequence[PassResult],
    *,
    masked: bool,
) -> Iterator[Finding]:
    """Yield what was noticed about a function while it was sampled; ``heap``: before that."""
    now = heap_rounds(link.session, link.dictionary) if heap is not None else None
    found, device = link.stack_check.hazards(name), link.device
    if now is not None and heap is not None:
        rounds = sampler.rounds
        told = [*now.since(heap).findings(name, rounds.repeat, rounds.number)]
        yield from told
        if ASKS_FOR_MEMORY in found and not told:
            yield Finding(
                "memory",
                f"{name} asks for memory. The C library does not tell whether it got all of it; "
                "if not, the numbers include the cost of failing",
            )
    longest_us = link.interrupts.longest_us if link.interrupts is not None else 0
    if SETS_CLOCK in found and not longest_us and _counts_with(link, ("SysTick",)):
        yield Finding(
            "masked",
            f"{name} sets the timer that counts its cycles: the numbers may be wrong",
            spoils=True,
        )
    if 0 < longest_us < _LONG_MASK_US and found & {MASKS, SETS_CLOCK}:
        does = "masks interrupts" if MASKS in found else "sets a timer or its interrupt"
        yield Finding(
            "masked",
            f"{name} {does}. If it stops the clock of {device.name} or its interrupt for more than "
            f"{longest_us:,} us, wraps are missed, and the numbers are too small",
            spoils=True,
        )
    if SETS_TIMER in found:
        yield Finding(
            "counter",
            f"{name} writes to the core's timer. If its interrupt came within a call, its time is "
            "in the numbers; ticks may be wrong",
            spoils=True,
        )
    if SETS_COUNTER in found and _counts_with(link, _CORE_COUNTERS):
        yield Finding(
            "counter",
            f"{name} writes to the core's counters. The check after each call sees what it left "
            "there, not what it restored: the numbers may be wrong",
            spoils=True,
        )
    known = link.interrupts
    is_masked = masked and not (known is not None and known.masks_some)
    is_left_out = is_masked or any(HOOKED in each.counters for each in passes)
    if known is not None:
        enabled = link.enabled_interrupts()  # always: the next answer is for the next function
        if enabled and not is_left_out and not known.timer_us:
            sources = "1 interrupt source" if enabled == 1 else f"{enabled} interrupt sources"
            was = "was" if enabled == 1 else "were"
            which = "those above BP_CFG_BASEPRI" if masked else "interrupts"
            advice = "" if masked else ". --mask-interrupts leaves their time out"
            yield Finding(
                "interrupts",
                f"{name} was measured while {sources} of the firmware {was} enabled: the time of "
                f"{which} that came is in its numbers, and their stack in its stack{advice}",
            )
    if SLEEPS in found and device.clock_kind == "simulated":
        yield Finding(
            "sleep",
            f"{name} waits in a sleep instruction: the emulator counts the time asleep as "
            "instructions and ticks",
            spoils=True,
        )


def _counts_with(link: BoardLink, sources: tuple[str, ...]) -> bool:
    """Tell whether a counter of the board is one of those whose names begin so."""
    return any(
        each.unsupported is None and each.source.startswith(sources)
        for collector in link.dictionary.collectors
        for each in collector.counters
    )


def paint_stack(link: BoardLink, call: PackedCall) -> Stack | str:
    """Call a function on painted stack; return its stack use, or why it is unknown."""
    painter = next((f for f in link.dictionary.functions if f.name == _STACK), None)
    if painter is None:
        return _NO_STACK
    function = call.function
    content = bytes(msgpack.packb(function.id)) + call.content
    try:
        value: Any = link.session.value(painter.id, content, call.count + 1, function.name)
    except RpcError as error:
        if error.code != ErrorCode.UNSUPPORTED:
            raise
        return _NO_STACK
    except (DeviceFaultError, DeviceTimeoutError) as error:  # the measurement itself is good
        if link.session.is_closed:  # the emulator was ended
            raise
        return _STACK_ENDED[type(error)]
    if not (isinstance(value, list) and len(value) >= 2 and all(type(n) is int for n in value[:2])):
        raise FrameError(f"bp.stack returned {value!r:.60}, not [used, painted].")
    return link.stack_check.figure(function.name, Stack(value[0], value[1]))


# -- notes --------------------------------------------------------------------------------------


def _notes(
    link: BoardLink, arguments: Arguments, sampling: Sampling, placement: Placement
) -> Iterator[str]:
    """Yield notes on what may change the numbers, or takes long."""
    name, known = arguments.function, link.interrupts
    what = f"{name} on {link.device.name}"
    number = sampling.rounds.number
    changed = [each.name for each in arguments.arrays if each.passing is Passing.IN_OUT]
    if changed and number > 1:
        yield (
            f"{name}: only the first of a sample's {number} calls gets {', '.join(changed)} as "
            "given; each later call gets what the call before it left. If that changes the cost of "
            "a call, use --number 1. For an array that is only written, use :out"
        )
    if sampling.mask_interrupts and known is not None and known.masks_guard:
        yield (
            f"{what}: the timer that stops a hanging call is masked with the other interrupts. The "
            "first sample is taken unmasked; if a later call hangs, only a reset ends it"
        )
    rounds = len(sampling.passes) * sampling.rounds.in_all
    if placement.again_s * rounds > _QUIET_S:
        minutes, seconds = divmod(round(placement.again_s * rounds), 60)
        yield (
            f"{what}: its in/out arrays ({placement.again_bytes:,} bytes) are sent again before "
            f"each of {rounds} rounds, in about {minutes} min {seconds} s: {placement.why_again}. "
            "To save time: lower --repeat and --warmup, use :keep or :out, or use smaller arrays"
        )


_HEAP = "bp.heap"
_MODULUS = 1 << 32


class HeapRounds(NamedTuple):
    """Counts of rounds since the board's start (SPEC.md 5.13), or between two points in time."""

    refused_warmups: int
    keeping_warmups: int
    warmup_bytes: int  # that the last of these has kept
    refused: int  # samples in which a request for memory was refused
    keeping: int  # samples after which the heap held more
    kept_bytes: int  # after the last of these

    def since(self, earlier: HeapRounds) -> HeapRounds:
        """Return what was counted after ``earlier``."""
        return HeapRounds(
            (self.refused_warmups - earlier.refused_warmups) % _MODULUS,
            (self.keeping_warmups - earlier.keeping_warmups) % _MODULUS,
            self.warmup_bytes,
            (self.refused - earlier.refused) % _MODULUS,
            (self.keeping - earlier.keeping) % _MODULUS,
            self.kept_bytes,
        )

    def findings(self, name: str, samples: int, number: int) -> Iterator[Finding]:
        """Yield what they say about a function with ``number`` calls in each sample."""
        if self.refused or self.refused_warmups:
            refused = min(self.refused, samples)  # a sample may have been taken again
            when = f"{refused:,} of {samples:,} samples"
            if not self.refused:
                when = f"{self.refused_warmups:,} of its warm-up calls"
            yield Finding(
                "heap-refused",
                f"{name} got no memory in {when}, because the heap was used up: the numbers "
                "include the cost of failing. Free what a call takes, or lower --warmup and "
                "--repeat",
                spoils=True,
            )
        if 1 < self.keeping <= samples / 2:  # it may also give back, or take for several calls
            yield Finding(
                "heap-grown",
                f"{name} keeps memory of the heap in {self.keeping:,} of {samples:,} samples: "
                f"{self.kept_bytes:,} bytes in the last of them",
            )
            return
        if self.keeping > 1:
            each, rest = divmod(self.kept_bytes, number)
        elif self.refused and self.keeping_warmups:
            each, rest = self.warmup_bytes, 0
        else:  # nothing, or only in the first calls
            return
        about = "about " if rest else ""
        yield Finding("heap-kept", f"{name} keeps {about}{each:,} bytes of the heap per call")


def heap_rounds(session: Session, dictionary: Dictionary) -> HeapRounds | None:
    """Ask a board; None if its agent does not know, or the image has no heap."""
    function = next((f for f in dictionary.functions if f.name == _HEAP), None)
    value: Any = None if function is None else session.invoke(function.id, _HEAP)
    if value is None:
        return None
    if not (isinstance(value, list) and len(value) >= 6 and all(type(n) is int for n in value)):
        raise FrameError(f"{_HEAP} returned {value!r:.60}, not six numbers.")
    return HeapRounds(*value[:6])
