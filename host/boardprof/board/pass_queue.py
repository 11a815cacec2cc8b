# SPDX-License-Identifier: Apache-2.0
"""Passes, one after the other: the board is programmed for each; what does not fit comes behind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar

from boardprof.board.events import Slots
from boardprof.board.passes import Pass, layouts_of
from boardprof.board.sampling import Progress, Sampling
from boardprof.board.selection import Selection
from boardprof.decode.dictionary import FunctionInfo
from boardprof.decode.samples import Sample
from boardprof.errors import RpcError, UsageError
from boardprof.report.interrupts import HOOKED
from boardprof.report.measurement import Device, Windows
from boardprof_protocol.codes import ErrorCode
from boardprof_protocol.layout import Layout

if TYPE_CHECKING:
    from boardprof.board.board import Board

__all__ = ["PassQueue", "ProgrammedPass"]

_NEVER_RAN = "it shared its hardware counter and did not get to run"
_NOTHING = Selection((), frozenset())
_TOO_MANY = (ErrorCode.NO_MEMORY, ErrorCode.REPLY_TOO_BIG)
"""What the agent says of more collectors than it runs at a time; how many that is only it knows."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class ProgrammedPass:
    """One set of counters, which the board is programmed for.

    Attributes:
        board: that is.
        chosen: what the pass is to count.
        slots: of its programmable collectors.
        selection: the collectors that run, and the counters of theirs that are wanted.
    """

    board: Board
    chosen: Pass
    slots: Sequence[Slots]
    selection: Selection

    @property
    def is_real_time(self) -> bool:
        """Whether the board's clock runs by the host's."""
        return self.board.device.clock_kind != "simulated"

    @property
    def layouts(self) -> dict[int, Layout]:
        """What the blobs of its collectors are laid out like."""
        return layouts_of(self.board.layouts, self.slots)

    def sampling(
        self,
        function: FunctionInfo,
        packed: tuple[bytes, int],
        number: int,
        *,
        rounds: int = 1,
        done: int = 0,
        on_progress: Progress | None = None,
        prepare: Callable[[], None] | None = None,
    ) -> Sampling:
        """Return what calls ``function`` and counts; see `Sampling`."""
        self.renew()
        return Sampling(
            self.board.session,
            function,
            packed,
            self.selection,
            number,
            self.layouts,
            real_time=self.is_real_time,
            rounds=rounds,
            done=done,
            on_progress=on_progress,
            prepare=prepare,
        )

    @property
    def is_programmed(self) -> bool:
        """Whether the slots count this pass still, and nobody has told them something else."""
        current = [each.current for each in self.board.offer.programmable]
        return all(slots in current for slots in self.slots)

    def renew(self) -> None:
        """Program the slots again, if somebody has told them something else in between."""
        if not self.is_programmed:
            self.chosen.slots(self.board.offer.programmable)

    def windows(
        self,
        samples: tuple[Sample, ...],
        calibration: tuple[Sample, ...],
        totals: tuple[Sample, ...],
        interrupt_costs: Mapping[str, Fraction] | None = None,
    ) -> Windows:
        """Put together what was read, with what it is of."""
        active = {collector.name for collector in self.selection.collectors}
        events = {s.collector.name: s.events for s in self.slots if s.collector.name in active}
        costs = interrupt_costs or {}
        return Windows(samples, calibration, totals, self.selection.mask, events, costs)


class PassQueue:
    """The passes that it takes to count something.

    What turns out not to fit into one, collectors or events, gets one of its own behind.
    """

    def __init__(self, board: Board, passes: Sequence[Pass], *, may_drop: bool) -> None:
        """Take the passes as they are planned; the board is not programmed yet.

        Args:
            board: with an open session.
            passes: what is to be counted, at least one.
            may_drop: whether events that the board refuses are left out, with the reason.
        """
        self._board = board
        self._left = list(passes)
        self._may_drop = may_drop
        self._refused: dict[str, str] = {}
        # Each pass needs to know how many interrupts it had.
        self._hooks = [c for c in board.dictionary.collectors if c.name == HOOKED]

    def __len__(self) -> int:
        """Return how many there are still, as far as is known."""
        return len(self._left)

    def next(self, begin: Callable[[ProgrammedPass], _T]) -> _T | None:
        """Program the board for the next pass; None: there are no more.

        Args:
            begin: asks the agent for something with all counters of the pass, while nothing of the
                user's has run. As often as the agent refuses so many, it is called again with one
                collector less.

        Returns:
            What ``begin`` has returned.

        Raises:
            UsageError: the board refuses an event that was asked for by name.
        """
        while self._left:
            chosen = self._left.pop(0)
            slots = chosen.slots(self._board.offer.programmable)
            self._note_refused(chosen, slots)
            selection = chosen.selection(slots).with_all_of(self._hooks)
            if selection.collectors:
                return self._begun(chosen, slots, selection, begin)
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

    def _begun(
        self,
        chosen: Pass,
        slots: Sequence[Slots],
        selection: Selection,
        begin: Callable[[ProgrammedPass], _T],
    ) -> _T:
        while True:
            try:
                return begin(ProgrammedPass(self._board, chosen, slots, selection))
            except RpcError as error:
                if error.code not in _TOO_MANY or len(selection.collectors) == 1:
                    raise
            self._put_off_last(chosen, selection)
            selection = selection.without_last()

    def _put_off_last(self, chosen: Pass, selection: Selection) -> None:
        """Give the last collector a pass of its own."""
        last = selection.collectors[-1]
        if last.name in chosen.events:
            self._left.append(Pass(_NOTHING, {last.name: chosen.events[last.name]}))
        else:
            names = frozenset(counter.name for counter in last.counters) & selection.counters
            if not names:  # a clock that ran beside the others
                return
            self._left.append(Pass(Selection((last,), names)))
