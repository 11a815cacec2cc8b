# SPDX-License-Identifier: Apache-2.0
"""Functions of known work, measured with one, two and three times the rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from boardprof.board.board import Board
from boardprof.board.counting import Counting
from boardprof.board.measuring import Rounds
from boardprof.board.placement import Placement
from boardprof.report.measurement import Measurement

__all__ = ["Steps", "amount", "measured", "stepped", "units"]

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
    with Placement(board.memory, arguments, put_back=False, on_transfer=None) as placement:
        counting = Counting(
            board,
            remote.info,
            placement,
            board.offer.passes(metrics),
            Rounds(warmup, repeat, 1),
            may_drop=True,
            on_progress=None,
            calibrations=calibrations,
        )
        windows = counting.windows()
    return Measurement(function, counting.device(), 1, warmup, windows, arguments.text)


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
        """Return what a counter counted in each sample of each measurement.

        All are net of the same calibration, that of the first, so that it cancels between them.
        """
        return [[self.first.net(s, name) for s in m.samples] for m in self.measurements]

    def unit(self, name: str) -> str:
        """Return what a counter counts in: ``counts``, ``ticks``, ``ns``."""
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
