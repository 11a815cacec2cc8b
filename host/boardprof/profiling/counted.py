# SPDX-License-Identifier: Apache-2.0
"""Samples one at a time, each a call of the board of its own, so that the host can act between.

``Board.measure`` has the board take as many samples in one call as fit its buffer; here the host
steps in around each of them, or goes on to the next function.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from boardprof.board.board import Board
from boardprof.board.counting import CALIBRATION_SAMPLES
from boardprof.board.events import Slots
from boardprof.board.passes import Pass, layouts_of
from boardprof.board.sampling import Sampling
from boardprof.board.selection import Selection
from boardprof.decode.dictionary import CollectorInfo, FunctionInfo
from boardprof.decode.samples import Sample
from boardprof.errors import RpcError, UsageError
from boardprof.report.measurement import Device, Windows
from boardprof_protocol.codes import ErrorCode, MeasureFlag

__all__ = ["CountedPass", "Passes", "PlacedCall"]

_NEVER_RAN = "it shared its hardware counter and did not get to run"
_NOTHING = Selection((), frozenset())


@dataclass(frozen=True)
class PlacedCall:
    """A function, and its arguments for the wire: packed, and how many."""

    function: FunctionInfo
    packed: tuple[bytes, int]


class CountedPass:
    """One set of counters, which the board is programmed for, around single calls."""

    def __init__(self, board: Board, slots: Sequence[Slots], selection: Selection) -> None:
        """Take what `Passes.next` has chosen."""
        self._board = board
        self._slots = slots
        self._selection = selection

    def calibration(self, call: PlacedCall, number: int = 1) -> tuple[Sample, ...]:
        """Measure the empty function as `sample` measures ``call``; nothing of the user's runs.

        On a real clock each window is behind the same work of the link as a sample's; on a
        simulated one that makes no difference, and they come all at once.
        """
        is_real = self._board.device.clock_kind != "simulated"
        run = self._sampling(call, number, one_by_one=is_real)
        return run.samples(MeasureFlag.EMPTY, 1, CALIBRATION_SAMPLES)[0]

    def try_out(self, call: PlacedCall) -> None:
        """Have the agent refuse what it cannot run at a time; nothing of the user's runs."""
        self._sampling(call, 1).samples(MeasureFlag.EMPTY, 0, 1)

    def sample(self, call: PlacedCall, number: int = 1) -> tuple[Sample, Sample]:
        """Call it ``number`` times in one window; return the sample and the total around it."""
        samples, totals = self._sampling(call, number).samples(MeasureFlag(0), 0, 1)
        return samples[0], totals[0]

    def windows(
        self, rounds: Sequence[tuple[Sample, Sample]], calibration: tuple[Sample, ...]
    ) -> Windows:
        """Put together what `sample` and `calibration` have returned for one call."""
        samples, totals = zip(*rounds, strict=True)
        active = {collector.name for collector in self._selection.collectors}
        events = {s.collector.name: s.events for s in self._slots if s.collector.name in active}
        return Windows(samples, calibration, totals, self._selection.mask, events)

    def without_last(self) -> CountedPass:
        """Leave the last collector out."""
        return CountedPass(self._board, self._slots, self._selection.without_last())

    @property
    def collectors(self) -> tuple[CollectorInfo, ...]:
        """Those that run."""
        return self._selection.collectors

    def counters_of(self, collector: CollectorInfo) -> frozenset[str]:
        """Return the counters of a collector that are wanted."""
        return frozenset(c.name for c in collector.counters) & self._selection.counters

    def _sampling(self, call: PlacedCall, number: int, *, one_by_one: bool = False) -> Sampling:
        return Sampling(
            self._board.session,
            call.function,
            call.packed,
            self._selection,
            number,
            layouts_of(self._board.layouts, self._slots),
            real_time=self._board.device.clock_kind != "simulated",
            rounds=1,
            on_progress=None,
            prepare=_nothing if one_by_one else None,
        )


class Passes:
    """The passes that it takes to count something; what does not fit into one follows behind."""

    def __init__(self, board: Board, metrics: Sequence[str] | None) -> None:
        """Plan them; the board is not programmed yet.

        Args:
            board: connected.
            metrics: see ``Board.profile``; None: all, and what the board refuses is left out.

        Raises:
            UsageError, UnknownNameError: see ``Offer.passes``.
        """
        self._board = board
        self._left = list(board.offer.passes(metrics))
        self._may_drop = metrics is None
        self._refused: dict[str, str] = {}

    def next(self, probe: PlacedCall) -> CountedPass | None:
        """Program the board for the next pass; None: there are no more.

        Args:
            probe: a call with which it is seen how many collectors fit; it is not executed.

        Raises:
            UsageError: the board refuses an event that was asked for by name.
        """
        while self._left:
            chosen = self._left.pop(0)
            slots = chosen.slots(self._board.offer.programmable)
            self._note_refused(chosen, slots)
            selection = chosen.selection(slots)
            if selection.collectors:
                return self._fitting(chosen, CountedPass(self._board, slots, selection), probe)
        return None

    def device(self, windows: Iterable[Windows]) -> Device:
        """Return what the Report says of the board, with all that did not count."""
        windows = list(windows)
        counted = {name for each in windows for name in each.counters}
        wanted = (event for w in windows for names in w.events.values() for event in names)
        idle = {event: _NEVER_RAN for event in wanted if event not in counted}
        device = self._board.device
        return replace(device, unsupported={**device.unsupported, **self._refused, **idle})

    def _note_refused(self, chosen: Pass, slots: Sequence[Slots]) -> None:
        """Put off events that do not fit beside others; what does not count alone is refused."""
        for each in slots:
            name = each.collector.name
            if chosen.events[name] is None:
                self._refused |= each.refused
                continue
            for event, why in each.refused.items():
                if each.events:
                    self._left.append(Pass(_NOTHING, {name: (event,)}))
                elif self._may_drop:
                    self._refused[event] = why
                else:
                    raise UsageError(f"{self._board.spec.name} does not count {event}: {why}.")

    def _fitting(self, chosen: Pass, counted: CountedPass, probe: PlacedCall) -> CountedPass:
        """Leave collectors to later passes until the agent takes the rest; only it knows."""
        while True:
            try:
                counted.try_out(probe)
                return counted
            except RpcError as error:
                too_many = error.code in (ErrorCode.NO_MEMORY, ErrorCode.REPLY_TOO_BIG)
                if not too_many or len(counted.collectors) == 1:
                    raise
            last = counted.collectors[-1]
            if last.name in chosen.events:
                self._left.append(Pass(_NOTHING, {last.name: chosen.events[last.name]}))
            else:
                self._left.append(Pass(Selection((last,), counted.counters_of(last))))
            counted = counted.without_last()


def _nothing() -> None:
    """Each round is a call of its own, and nothing is to be done before it."""
