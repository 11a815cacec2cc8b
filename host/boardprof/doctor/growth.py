# SPDX-License-Identifier: Apache-2.0
"""Functions of known work, measured with one, two and three times the rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from boardprof.board.board import Board
from boardprof.doctor.finding import FAILED, SKIPPED, listed
from boardprof.measure.measure_function import FunctionSampler, Sampling
from boardprof.measure.passes import Rounds
from boardprof.measure.placement import Placement
from boardprof.report.measurement import Measurement

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
    """Measure a function that takes how many rounds it shall do.

    As `Board.measure` does, but without the stack, which takes long to paint, without a result, and
    with a calibration that is short, unless told otherwise: it cancels between two measurements.
    """
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
    return Measurement(function, sampler.device(), 1, warmup, windows, arguments.text)


@dataclass(frozen=True)
class Steps:
    """Three measurements of evenly growing work.

    Attributes:
        rounds: of the first.
        measurements: with one, two and three times the rounds.
    """

    rounds: int
    measurements: tuple[Measurement, ...]

    @property
    def first(self) -> Measurement:
        """The one of the least work."""
        return self.measurements[0]

    def nets(self, name: str) -> list[list[int]]:
        """Return a counter's count in each sample of each measurement.

        All are net of the same calibration, that of the first, so that it cancels between them.
        """
        return [[self.first.net(s, name) for s in m.samples] for m in self.measurements]

    def unit(self, name: str) -> str:
        """Return the unit of a counter: ``counts``, ``ticks``, ``ns``."""
        return units(self.first.samples[0].readings[name].unit)


def stepped(
    board: Board, function: str, rounds: int, metrics: Sequence[str], *, calibrations: int = 1
) -> Steps:
    """Measure one, two and three times the rounds.

    Args:
        board: with ``function``.
        function: takes how many rounds it shall do.
        rounds: of the first.
        metrics: what is counted.
        calibrations: of the first measurement, whose calibration is that of all.
    """
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
    """Return what many of a reading's unit are called."""
    return _UNITS.get(unit, unit)


def amount(value: float, unit: str) -> str:
    """Return a number with its unit: ``1 count``, ``2 counts``, ``0.25 ns``."""
    number = f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
    return f"{number} {unit.removesuffix('s') if number == '1' and unit != 'ns' else unit}"


_BUSY = (1.5, 8.0)
"""Three times the work may take this many times as long while other programs run."""

_UNEVEN = 0.1
"""Share by which two equal steps of work may differ."""


def better_half(nets: Sequence[Sequence[int]]) -> int:
    """Return the largest spread within the better half of the runs of the same work.

    What other programs take only ever adds: it is in the other half, unless there are many of them.

    Args:
        nets: what each run counted, by amount of work.
    """
    halves = [sorted(values)[: (len(values) + 1) // 2] for values in nets]
    return max(half[-1] - half[0] for half in halves)


def doubt(nets: Sequence[Sequence[int]], unit: str) -> tuple[str, str] | None:
    """Return verdict and text if a counter is not proven to grow. None if it is.

    It is not where runs of the same work are further apart than more work is, or steps uneven.

    Args:
        nets: what each run counted, with one, two and three times the work.
        unit: of that.
    """
    first, second, third = least = [min(values) for values in nets]
    seen = f"{listed(least, unit)} for 1, 2, 3 times the work"
    if not _BUSY[0] <= third / max(first, 1) <= _BUSY[1]:
        return FAILED, f"does not grow evenly: {seen}"
    less, more = sorted((second - first, third - second))
    spread = better_half(nets)
    if spread > less or more - less > _UNEVEN * more:
        within = f"half of the runs within {amount(spread, unit)} of each other"
        return SKIPPED, f"the machine is too busy: {seen}, {within}"
    return None
