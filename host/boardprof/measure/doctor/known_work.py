# SPDX-License-Identifier: Apache-2.0
"""Functions of known work: measured with more and more rounds, and compared with counters.

What a round of the agent's functions has (``device_runtime_c/proof/work.c``) is in one table, by
the counters' generic names; a board's own counters have theirs in board.toml, ``[doctor.work]``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from boardprof.measure.sampling.measure_function import FunctionSampler, Sampling
from boardprof.measure.sampling.passes import Rounds
from boardprof.measure.sampling.placement import Placement
from boardprof.measure.session.board import Board
from boardprof.results.report.measurement import Measurement
from boardprof.target.descriptions.tables import KnownWork

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
        windows = sampler.windows()
    return Measurement(function, sampler.device(), 1, warmup, windows, arguments=arguments.text)


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

_UNEVEN = 0.1
"""Share by which two equal steps of work may differ."""


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

_EXACT_ROUNDS = 50
"""On emulators nothing else is counted, so a few rounds are enough."""

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
            yield Finding(name, *_judged(board, name, known[name], steps), is_counter=True)


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


def _judged(board: Board, name: str, work: KnownWork, steps: Steps) -> tuple[str, str]:
    if name not in steps.first.counters:
        why = steps.first.device.unsupported.get(name, "it was not counted")
        return UNSUPPORTED, why
    unit = steps.unit(name)
    right = work.per_round * steps.rounds
    nets = steps.nets(name)
    least = [min(values) for values in nets]
    each = f"{amount(work.per_round, unit)} in each round of {work.function}"
    if board.device.emulated:
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
