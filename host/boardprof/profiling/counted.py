# SPDX-License-Identifier: Apache-2.0
"""Samples one at a time, each a call of the board of its own, so that the host can act between.

``Board.measure`` has the board take as many samples in one call as fit its buffer; here the host
steps in around each of them, or goes on to the next function.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from boardprof.arguments.arguments import Arguments
from boardprof.board.board import Board
from boardprof.board.counting import CALIBRATION_SAMPLES
from boardprof.board.functions import RemoteFunction
from boardprof.board.measuring import Rounds
from boardprof.board.observing import OBSERVERS, HostCall, observe, prepare_observers, watched
from boardprof.board.pass_queue import PassQueue, ProgrammedPass
from boardprof.board.sampling import Sampling
from boardprof.decode.dictionary import FunctionInfo
from boardprof.decode.samples import Sample
from boardprof.report.measurement import Device, Measurement, Windows
from boardprof_protocol.codes import MeasureFlag

__all__ = ["CountedPass", "Passes", "PlacedCall"]


@dataclass(frozen=True)
class PlacedCall:
    """A function with its arguments on the board.

    Attributes:
        board: whose it is.
        remote: the function.
        arguments: of the caller.
        packed: the same for the wire, and how many.
    """

    board: Board
    remote: RemoteFunction
    arguments: Arguments
    packed: tuple[bytes, int]

    @property
    def function(self) -> FunctionInfo:
        """The board's entry of it."""
        return self.remote.info

    def value(self) -> object:
        """Call it once, unmeasured; return its result."""
        call = HostCall(self.board, self.remote, arguments=self.arguments)
        info = self.function
        value = observe(
            call,
            lambda _, __, value: value(info.id, *self.packed, info.name),
            self.board.session.value,
        )
        self.remote.signature.check_result(info.name, value)
        return value


class CountedPass:
    """One set of counters, which the board is programmed for, around single calls."""

    def __init__(self, programmed: ProgrammedPass) -> None:
        """Take what `Passes.next` has chosen."""
        self._programmed = programmed
        self._calibrations: dict[tuple[int, int], tuple[Sample, ...]] = {}

    def calibration(self, call: PlacedCall, number: int = 1) -> tuple[Sample, ...]:
        """Measure the empty function as `sample` measures ``call``; nothing of the user's runs.

        On a real clock each window is behind the same work of the link as a sample's; on a
        simulated one that makes no difference, and they come all at once.
        """
        run = self._sampling(call, number, one_by_one=self._programmed.is_real_time)
        found = run.samples(MeasureFlag.EMPTY, 1, CALIBRATION_SAMPLES)[0]
        self._calibrations[call.function.id, number] = found
        return found

    def try_out(self, call: PlacedCall) -> None:
        """Have the agent refuse what it cannot run at a time; nothing of the user's runs."""
        self._sampling(call, 1).samples(MeasureFlag.EMPTY, 0, 1)

    def sample(self, call: PlacedCall, number: int = 1) -> tuple[Sample, Sample]:
        """Call it ``number`` times in one window; return the sample and the total around it."""
        return self._watched(call, number) if OBSERVERS else self._taken(call, number)

    def windows(
        self, rounds: Sequence[tuple[Sample, Sample]], calibration: tuple[Sample, ...]
    ) -> Windows:
        """Put together what `sample` and `calibration` have returned for one call."""
        samples, totals = zip(*rounds, strict=True)
        return self._programmed.windows(samples, calibration, totals)

    def _taken(self, call: PlacedCall, number: int) -> tuple[Sample, Sample]:
        samples, totals = self._sampling(call, number).samples(MeasureFlag(0), 0, 1)
        return samples[0], totals[0]

    def _watched(self, call: PlacedCall, number: int) -> tuple[Sample, Sample]:
        """Take a sample that is a measurement of its own for those who watch."""
        calibration = self._calibrations.get((call.function.id, number))
        if calibration is None:
            calibration = self.calibration(call, number)
        rounds = Rounds(warmup=0, repeat=1, number=number)
        told = HostCall(call.board, call.remote, arguments=call.arguments, rounds=rounds)
        with watched(told) as (_, result):
            found = self._taken(call, number)
            windows = self.windows([found], calibration)
            name, device = call.function.name, call.board.device
            result.append(Measurement(name, device, number, 0, (windows,)))
        return found

    def _sampling(self, call: PlacedCall, number: int, *, one_by_one: bool = False) -> Sampling:
        prepare = _nothing if one_by_one else None
        return self._programmed.sampling(call.function, call.packed, number, prepare=prepare)


class Passes:
    """The passes that it takes to count something around single calls."""

    def __init__(self, board: Board, metrics: Sequence[str] | None) -> None:
        """Plan them; the board is not programmed yet.

        Args:
            board: connected.
            metrics: see ``Board.profile``; None: all, and what the board refuses is left out.

        Raises:
            UsageError, UnknownNameError: see ``Offer.passes``.
        """
        prepare_observers(board)
        self._queue = PassQueue(board, board.offer.passes(metrics), may_drop=metrics is None)

    def next(self, probe: PlacedCall) -> CountedPass | None:
        """Program the board for the next pass; None: there are no more.

        Args:
            probe: a call with which it is seen how many collectors fit; it is not executed.

        Raises:
            UsageError: the board refuses an event that was asked for by name.
        """

        def tried(programmed: ProgrammedPass) -> CountedPass:
            counted = CountedPass(programmed)
            counted.try_out(probe)
            return counted

        return self._queue.next(tried)

    def device(self, windows: Iterable[Windows]) -> Device:
        """Return what the Report says of the board, with all that did not count."""
        return self._queue.device(windows)


def _nothing() -> None:
    """Each round is a call of its own, and nothing is to be done before it."""
