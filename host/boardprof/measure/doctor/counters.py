# SPDX-License-Identifier: Apache-2.0
"""Check a board's counters with functions of known work, and that its clocks agree.

Counters of any work (instructions, cycles, ticks) must grow evenly with the rounds. What a round of
the agent's functions has otherwise (``device_runtime_c/proof/work.c``) is in one table, by the
counters' generic names; a board's own counters have theirs in board.toml, ``[doctor.work]``.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from boardprof.base.errors import DecodeError, DeviceCounterError
from boardprof.measure.board.board import Board
from boardprof.measure.sampling.counted_pass import CALIBRATION_SAMPLES
from boardprof.measure.sampling.measure_function import FunctionSampler, Rounds, Sampling
from boardprof.measure.sampling.placement import Placement
from boardprof.results.report.measurement import Measurement
from boardprof.target.descriptions.tables import KnownWork
from boardprof.wire.decode.dictionary import CounterInfo
from boardprof.wire.decode.samples import Sample
from boardprof_protocol.blob import split_blobs
from boardprof_protocol.layout import Counter

OK, FAILED, UNSUPPORTED, SKIPPED = "ok", "failed", "unsupported", "not proven"


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    subject: str  # a counter's name, or counters, clock, coarse clock, arena, stack or time limit
    verdict: str
    text: str
    is_counter: bool = False


def listed(values: Sequence[float], unit: str) -> str:
    """Return numbers with their unit: ``1, 2, 3 bytes``."""
    return ", ".join(f"{value:,.0f}" for value in values) + f" {unit}"


_SAMPLES = 7
_UNITS = {"count": "counts"}


def measured(
    board: Board,
    function: str,
    rounds: int,
    metrics: Sequence[str],
    *,
    warmup: int = 0,
    repeat: int = 1,
    calibrations: int = 1,
) -> Measurement:
    """Measure a function whose argument is its number of rounds, without stack and result."""
    # The stack takes long to paint. The calibration cancels between two measurements, so it is
    # short.
    remote = board.functions[function]
    arguments = remote.bind((rounds,), {})
    with Placement(board.memory, arguments) as placement:
        sampling = Sampling(
            board.offer.passes(metrics),
            Rounds(warmup, repeat, 1),
            may_drop=True,
            calibrations=calibrations,
        )
        sampler = FunctionSampler(board.link, placement.call(remote.info), sampling)
        passes = sampler.run()
    return Measurement(function, sampler.device(), 1, warmup, passes, arguments=arguments.text)


@dataclass(frozen=True)
class Steps:
    """Three measurements, of one, two and three times the work."""

    rounds: int  # of the first measurement
    measurements: tuple[Measurement, ...]

    @property
    def first(self) -> Measurement:
        """The one with the least work."""
        return self.measurements[0]

    def nets(self, name: str) -> list[list[int]]:
        """Return a counter's net count in each sample of each measurement."""
        # All use the calibration of the first measurement, so that it cancels between them.
        return [[self.first.net(s, name) for s in m.samples] for m in self.measurements]

    def uncounted(self, name: str) -> tuple[str, str] | None:
        """Return verdict and text of a counter that was not counted; None if it was."""
        if name in self.first.counters:
            return None
        return UNSUPPORTED, self.first.device.unsupported.get(name, "it was not counted")

    def unit(self, name: str) -> str:
        """Return the unit of a counter: ``counts``, ``ticks``, ``ns``."""
        return units(self.first.samples[0].readings[name].unit)


def stepped(
    board: Board, function: str, rounds: int, metrics: Sequence[str], *, calibrations: int = 1
) -> Steps:
    """Measure one, two and three times the rounds, with ``calibrations`` windows for the first."""
    found = [
        measured(
            board,
            function,
            rounds * times,
            metrics,
            warmup=2,
            repeat=_SAMPLES,
            calibrations=calibrations if times == 1 else 1,
        )
        for times in (1, 2, 3)
    ]
    return Steps(rounds, tuple(found))


def units(unit: str) -> str:
    """Return the plural of a reading's unit."""
    return _UNITS.get(unit, unit)


def amount(value: float, unit: str) -> str:
    """Return a number with its unit: ``1 count``, ``2 counts``, ``0.25 ns``."""
    number = f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
    return f"{number} {unit.removesuffix('s') if number == '1' and unit != 'ns' else unit}"


_LEAST_GROWTH = 1.5
"""Three times the work takes at least this many times as long, even if other programs run.

There is no upper limit: a longer call shares its core with more of them.
"""


def better_half(nets: Sequence[Sequence[int]]) -> int:
    """Return the largest spread within the better half of the runs of the same work."""
    # Other programs only ever add time, so they are in the other half, unless there are many.
    halves = [sorted(values)[: (len(values) + 1) // 2] for values in nets]
    return max(half[-1] - half[0] for half in halves)


def doubt(nets: Sequence[Sequence[int]], unit: str) -> tuple[str, str] | None:
    """Return verdict and text if a counter is not proven to grow evenly, None if it is."""
    first, second, third = least = [min(values) for values in nets]
    seen = f"{listed(least, unit)} for 1, 2, 3 times the work"
    if third < _LEAST_GROWTH * max(first, 1):
        return FAILED, f"does not grow evenly: {seen}"
    less, more = sorted((second - first, third - second))
    spread = better_half(nets)
    if spread > less or more - less > _UNEVEN * more:
        within = f"half of the runs within {amount(spread, unit)} of each other"
        return SKIPPED, f"the machine is too busy: {seen}, {within}"
    return None


_WORK: Mapping[str, KnownWork] = {
    "loads": KnownWork("proof_loads", 1),
    "stores": KnownWork("proof_stores", 1),
    "branches": KnownWork("proof_branches", 2),
    "branches-taken": KnownWork("proof_branches", 1),
    "jumps": KnownWork("proof_jumps", 2),
    "multiplications": KnownWork("proof_multiplications", 1),
    "divisions": KnownWork("proof_divisions", 1),
    "compressed-instructions": KnownWork("proof_compressed", 2),
}

_EXACT_ROUNDS = 50  # on emulators nothing else is counted, so a few rounds are enough
_NOISE = (4, 0.1)
"""Allowed error of a real board, for its interrupts: in counts, and as a share."""


def known_counts(board: Board, names: Sequence[str], rounds: int) -> Iterator[Finding]:
    """Compare counters with known work of so many rounds that other events do not matter."""
    works = {name: _work_for(board, name) for name in names}
    for name in (name for name, work in works.items() if work is None):
        yield Finding(name, SKIPPED, "no known work for it", is_counter=True)
    known = {name: work for name, work in works.items() if work is not None}
    rounds = _EXACT_ROUNDS if board.device.emulated else rounds
    for function in dict.fromkeys(work.function for work in known.values()):
        group = [name for name, work in known.items() if work.function == function]
        steps = stepped(board, function, rounds, group)
        for name in group:
            yield Finding(name, *_judged_work(board, name, known[name], steps), is_counter=True)


def plain_name(board: Board, name: str) -> str:
    """Return a counter's name without its collector's, which is there if names clash."""
    for collector in board.device.collectors:
        name = name.removeprefix(f"{collector.name}.")
    return name


def _work_for(board: Board, name: str) -> KnownWork | None:
    plain = plain_name(board, name)
    own = board.spec.doctor.work
    work = own.get(name) or own.get(plain) or _WORK.get(plain)
    return work if work is not None and work.function in board.functions else None


def _judged_work(board: Board, name: str, work: KnownWork, steps: Steps) -> tuple[str, str]:
    if (uncounted := steps.uncounted(name)) is not None:
        return uncounted
    unit = steps.unit(name)
    right = work.per_round * steps.rounds
    nets = steps.nets(name)
    least = [min(values) for values in nets]
    each = f"{amount(work.per_round, unit)} in each round of {work.function}"
    if board.device.emulated and not _varies(board, name):
        found = {later - before for before, later in zip(nets[0], nets[1], strict=True)}
        found |= {later - before for before, later in zip(nets[1], nets[2], strict=True)}
        if found == {right}:
            return OK, f"{each}, exactly"
    else:
        counts, share = _NOISE
        allowed = max(counts, share * right)
        grown = (least[1] - least[0], least[2] - least[1])
        if all(abs(step - right) <= allowed for step in grown):
            return OK, f"{each}, within {100 * share:.0f} %"
    seen = listed(least, unit)
    times = ", ".join(f"{steps.rounds * n:,}" for n in (1, 2, 3))
    return FAILED, f"{seen} in {times} rounds of {work.function}; it should be {each}"


_IN_A_ROW = 3
_FIRST_ROUNDS = 500
_MOST_ROUNDS = 1 << 24
_ENOUGH_S = 0.00125
"""Work is doubled until a call takes this long, so that no clock's granularity matters."""

_LONG_S = 1.0  # work is not doubled beyond this time on the host, because a simulator may be slow
_LESS = 1.5  # twice the work must take at least 1.5 times as long, except for a few counts
_FEW = 16

_A_ROUND = {"instructions": (1, 24), "cycles": (0.2, 400)}
"""Counters that grow with any work, and the plausible range in a round."""

_UNEVEN = 0.1  # share by which two steps may differ, for caches and interrupts
_JUMP = 1_000_000
"""Two runs of the same work differ by less than this, in addition to the work itself."""

_AGAIN = 5  # samples that must confirm that a counter has wrapped
_TRIES = 9  # retries for a clock on a busy machine before it counts as uneven


MOST_CLOCK_ERROR = 0.03
"""RC oscillators are off by a percent or two; a larger error means a wrong declaration."""

_LONGER = 8  # factor of the work for slow clocks


_NO_COUNTER = "it wraps before its declared width, or does not only count up"


def counts(board: Board, function: str) -> Iterator[Finding]:
    """Check all counters and events of a board, and compare its clocks with each other."""
    told: set[str] = set()
    broken: set[str] = set()
    while True:
        try:
            for finding in _counts(board, function, broken):
                if finding.subject not in told:
                    told.add(finding.subject)
                    yield finding
            return
        except (DecodeError, DeviceCounterError) as error:
            found = {n: text for n, text in _broken_by(board, error).items() if n not in broken}
            if not found:
                text = f"the remaining checks were not possible: {error.message}"
                yield Finding("counters", FAILED, text)
                return
            broken |= found.keys()
            told |= found.keys()
            for name, text in found.items():
                yield Finding(name, FAILED, text, is_counter=True)


def _broken_by(board: Board, error: DecodeError | DeviceCounterError) -> dict[str, str]:
    """Return the counters that an error shows to be broken, and how."""
    if isinstance(error, DecodeError):
        names = [c.name for c in _counters(board) if error.path.startswith(f"{c.name}.")]
        return {name: f"{error.message}: {_NO_COUNTER}" for name in names[:1]}
    return {
        counter.name: f"{counter.source} stepped back within the window, or did not go as far as a "
        f"second clock: {_NO_COUNTER}, or its declared frequency is wrong"
        for collector in board.dictionary.collectors
        if collector.schema_id == error.schema_id
        for counter in collector.counters
    }


def _counts(board: Board, function: str, broken: Collection[str]) -> Iterator[Finding]:
    rounds = longest = _FIRST_ROUNDS
    counters = [c for c in _counters(board) if c.name not in broken]
    growing = [c.name for c in counters if c.hz or plain_name(board, c.name) in _A_ROUND]
    if growing:
        work = _Work(board, function, growing)
        rounds, longest = work.rounds, work.longest
        yield from (work.judged(name) for name in growing)
    others = [c.name for c in counters if c.name not in growing]
    for event, why in _events(board):
        if why is not None:
            yield Finding(event, UNSUPPORTED, why, is_counter=True)
        elif growing and plain_name(board, event) in _A_ROUND:
            yield work.judged(event)
        else:
            others.append(event)
    yield from known_counts(board, others, rounds)
    if not broken:
        yield from _slow_clock(board, function, 3 * longest)


def _counters(board: Board) -> Iterator[CounterInfo]:
    """Yield the counters that count without being programmed."""
    for collector in board.offer.fixed:
        yield from (c for c in collector.counters if c.name not in board.device.unsupported)
    for programmable in board.offer.programmable:
        if programmable.codes is None:
            slots = programmable.select_default()
            yield from (c for c in slots.collector.counters if c.name in slots.events)


def _events(board: Board) -> Iterator[tuple[str, str | None]]:
    """Yield the events with codes in the board's file, and why an event is refused."""
    for collector in board.offer.programmable:
        for event in collector.codes or ():
            if collector.unsupported(event) is None:
                yield collector.shown(event), collector.select([event]).refused.get(event)


class _Work:
    """Rounds of a loop, and the board's counts of them."""

    def __init__(self, board: Board, function: str, names: Sequence[str]) -> None:
        self._board = board
        self._function = function
        self._names = names
        self._wrapped: dict[str, str] = {}
        self.longest = self._doubled()  # rounds of the longest call that was tried
        # enough that the granularity of every clock is negligible
        self.rounds = max(_FIRST_ROUNDS, self.longest >> _IN_A_ROW - 1)
        if not self._wrapped:  # nor may it wrap within what doubling would have reached
            self._tried(3 * self.longest)
        self.steps = self._stepped(self.rounds, names)

    def _stepped(self, rounds: int, names: Sequence[str]) -> Steps:
        return stepped(self._board, self._function, rounds, names, calibrations=CALIBRATION_SAMPLES)

    def judged(self, name: str) -> Finding:
        """Check a counter; on a busy machine, with several tries."""
        steps = self.steps
        if name in self._wrapped:
            why = _too_wide(self._board, name, steps.measurements) or self._wrapped[name]
            return Finding(name, FAILED, why, is_counter=True)
        if name not in steps.first.counters:  # an event, which is not a time
            steps = self._stepped(_FIRST_ROUNDS, [name])
        verdict, text = _judged(self._board, name, steps)
        for _ in range(_TRIES if self._board.device.clock_kind == "measured" else 0):
            if verdict not in (FAILED, SKIPPED):
                break
            steps = self._stepped(self.rounds, self._names)
            found = _judged(self._board, name, steps)
            # A failure in only some of the tries is not the counter's.
            if verdict == FAILED or found[0] != FAILED:
                verdict, text = found
        return Finding(name, verdict, text, is_counter=True)

    def _doubled(self) -> int:
        """Return the number of rounds that is enough work several times in a row."""
        # More work does not help if it takes a second longer, or if a counter has wrapped.
        rounds, fewest_s, enough = _FIRST_ROUNDS, None, 0
        self._before: tuple[int, Measurement] | None = None
        while rounds < _MOST_ROUNDS:
            began = time.monotonic()
            found = self._tried(rounds)
            took_s = time.monotonic() - began
            fewest_s = took_s if fewest_s is None else fewest_s
            # A wrap that is not noticed looks like a long time, but not several times in a row.
            enough = enough + 1 if _is_enough(found) else 0
            if self._wrapped or enough == _IN_A_ROW or took_s - fewest_s > _LONG_S:
                break
            rounds *= 2
        return rounds

    def _tried(self, rounds: int) -> Measurement:
        """Measure once, and compare with the measurement before, of at most half the work."""
        found = measured(self._board, self._function, rounds, self._names)
        if self._before is not None and self._shrunk(self._before[1], found):
            # An interrupt may have lengthened the shorter one, but not each time.
            self._wrapped = self._shrunk(self._again(self._before[0]), self._again(rounds))
        self._before = (rounds, found)
        return found

    def _again(self, rounds: int) -> Measurement:
        return measured(
            self._board,
            self._function,
            rounds,
            self._names,
            repeat=_AGAIN,
            calibrations=CALIBRATION_SAMPLES,
        )

    def _shrunk(self, before: Measurement, found: Measurement) -> dict[str, str]:
        """Return the counters that have wrapped: they grew too little with twice the work."""
        if self._board.device.clock_kind == "measured":
            return {}  # other programs may lengthen it by any amount
        wrapped = {}
        for name, reading in found.samples[0].readings.items():
            if _is_exact(self._board, name, units(reading.unit)):
                continue  # the steps of exact counters show more
            value = min(found.net(sample, name) for sample in found.samples)
            half = min(before.net(sample, name) for sample in before.samples)
            if value < _LESS * half - _FEW:
                seen = f"{listed([value], units(reading.unit))} for {found.arguments}, but "
                seen += f"{listed([half], units(reading.unit))} for {before.arguments}"
                wrapped[name] = f"{seen}: it wraps before its declared width"
        return wrapped


def _is_enough(found: Measurement) -> bool:
    """Whether one call took so long that a clock's granularity does not matter."""
    (sample,) = found.samples
    clocks = [r for n, r in sample.readings.items() if n in found.counters and r.hz]
    times = [found.net(sample, n) for n, r in sample.readings.items() if r.unit == "ns"]
    seconds = [reading.value / reading.hz for reading in clocks] + [time / 1e9 for time in times]
    if not seconds:
        return found.net(sample, found.counters[0]) > 1_000_000
    return max(seconds) > _ENOUGH_S


def _is_exact(board: Board, name: str, unit: str) -> bool:
    """Whether the same work counts the same in every run: an emulator counts no time."""
    return board.device.emulated and unit == "counts" and not _varies(board, name)


def _varies(board: Board, name: str) -> bool:
    """Whether a counter depends on the calls before, such as the cycles of a core with caches."""
    return plain_name(board, name) in board.spec.doctor.varies


def _judged(board: Board, name: str, steps: Steps) -> tuple[str, str]:
    if (uncounted := steps.uncounted(name)) is not None:
        return uncounted
    wide = _too_wide(board, name, steps.measurements)
    if wide is not None:
        return FAILED, wide
    unit = steps.unit(name)
    nets = steps.nets(name)
    # Other activity of a system only ever adds to a count.
    least = [min(values) for values in nets]
    is_beside_others = board.device.clock_kind == "measured"
    spread = max(max(values) - min(values) for values in nets)
    is_exact = _is_exact(board, name, unit)
    if is_exact and spread:
        return (
            FAILED,
            f"differs by up to {amount(spread, unit)} between runs of the same work: it follows "
            "the host's time (an emulator without -icount does that), or wraps before its declared "
            "width",
        )
    if not is_beside_others and spread > _JUMP + 100 * max(least):
        return FAILED, (
            f"jumps by {amount(spread, unit)} in the same work: it wraps before its declared width"
        )
    first, second = least[1] - least[0], least[2] - least[1]
    seen = f"{listed(least, unit)} for 1, 2, 3 times the work"
    if first <= 0 or second <= 0:
        return FAILED, f"does not grow with the work: {seen}"
    allowed = 0 if is_exact else max(4, _UNEVEN * second)
    if is_beside_others:
        doubtful = doubt(nets, unit)
        if doubtful is not None:
            return doubtful
        spread = better_half(nets)
    elif abs(second - first) > allowed:
        return FAILED, f"does not grow evenly: {seen}"
    each = first / steps.rounds
    low, high = _A_ROUND.get(plain_name(board, name), (0, each))
    if not low <= each <= high:
        return FAILED, f"{amount(each, unit)} a round; {low:g} to {high:g} is right"
    within = f"{'half of the runs ' * is_beside_others}within {amount(spread, unit)} of each other"
    exact = within if spread else "the same in every run"
    return OK, f"{amount(each, unit)} a round, evenly, {exact}; {_calibration(steps, name)}"


def _calibration(steps: Steps, name: str) -> str:
    empty = (sample for each in steps.first.passes for sample in each.calibration_samples)
    values = [sample.readings[name].value for sample in empty if name in sample.readings]
    low, high = min(values), max(values)
    least = "" if low == high else f"{low:,} to "
    return f"an empty window reads {least}{amount(high, steps.unit(name))}"


def _too_wide(board: Board, name: str, steps: Sequence[Measurement]) -> str | None:
    """Describe a reading that exceeds the register's declared width. None if absent."""
    for found in steps:
        for sample in found.samples:
            for info, meaning, fields in _blob_fields(board, found, sample):
                if info.name != name:
                    continue
                most = max(fields[meaning.start], fields[meaning.stop])
                if most >> info.bits:
                    return f"{info.source} read {most:,}, more than its {info.bits} bits hold"
    return None


def _slow_clock(board: Board, function: str, rounds: int) -> Iterator[Finding]:
    """Compare each fast clock with the slower one that detects its wraps."""
    fast = [
        counter.name
        for collector in board.offer.fixed
        for counter in collector.counters
        if counter.hz and counter.coarse_hz and counter.name not in board.device.unsupported
    ]
    if not fast:
        return
    found = measured(board, function, rounds * _LONGER, fast)
    for info, meaning, fields in _blob_fields(board, found, found.samples[0]):
        if not (info.hz and info.coarse_hz and meaning.coarse_start and meaning.coarse_stop):
            continue
        coarse = (fields[meaning.coarse_stop] - fields[meaning.coarse_start]) % (1 << 32)
        fine = found.samples[0].readings[info.name].value
        if coarse < 3:
            yield Finding("coarse clock", SKIPPED, "the work was too short for this clock")
            continue
        slow_s, fast_s = coarse / info.coarse_hz, fine / info.hz
        text = f"{fast_s:.4g} s by {info.source}, {slow_s:.4g} s by the slower clock"
        grain_s = 2 / info.coarse_hz
        is_right = abs(slow_s - fast_s) <= grain_s + MOST_CLOCK_ERROR * slow_s
        yield Finding("coarse clock", OK if is_right else FAILED, text)


def _blob_fields(
    board: Board, measurement: Measurement, sample: Sample
) -> Iterator[tuple[CounterInfo, Counter, Mapping[str, Any]]]:
    """Yield each fixed counter of the first pass, with its meaning and its blob's fields."""
    mask = measurement.passes[0].mask
    collectors = [c for c in board.device.collectors if mask >> c.index & 1]
    for collector, blob in zip(collectors, split_blobs(sample.raw), strict=True):
        layout = board.link.layouts[collector.schema_id]
        fields = layout.struct.parse(blob.body)
        if not layout.programmable:
            for info, meaning in zip(collector.counters, layout.counters, strict=True):
                yield info, meaning, fields
