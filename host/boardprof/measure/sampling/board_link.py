# SPDX-License-Identifier: Apache-2.0
"""The part of a connected board that calls and measurements need: also its interrupts and clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from boardprof.base.errors import FrameError, UsageError, agent_option
from boardprof.measure.sampling.programmable import Programmable
from boardprof.measure.session.image import BoardImage, StackCheck
from boardprof.measure.session.memory import Memory
from boardprof.results.record import NOT_MASKED, Device, Interrupts
from boardprof.results.report.measurement import HOOKED, window_s
from boardprof.wire.decode.clock import ClockFit, Exchange, fit_clock
from boardprof.wire.decode.dictionary import CollectorInfo, Dictionary
from boardprof.wire.decode.samples import Reading
from boardprof.wire.link.session import Session
from boardprof_protocol.codes import InterruptFlag, MeasureFlag
from boardprof_protocol.layout import Layout

if TYPE_CHECKING:
    from boardprof.results.report.measurement import Windows

_INTERRUPTS, _CLOCK = "bp.interrupts", "bp.clock"
_EXCHANGES = 8
"""Number of exchanges before the calls to be placed on the host's clock, and after them."""


@dataclass(frozen=True, eq=False)
class BoardLink:
    """A connected board, as seen by a measurement."""

    session: Session
    dictionary: Dictionary
    layouts: Mapping[int, Layout]
    device: Device
    programmable: tuple[Programmable, ...]
    memory: Memory
    image: BoardImage
    stack_check: StackCheck

    @cached_property
    def interrupts(self) -> BoardInterrupts | None:
        """The board's facts about its interrupts; None if it cannot mask them."""
        return _interrupts_of(self.session, self.dictionary)

    @property
    def hooks(self) -> list[CollectorInfo]:
        """The collector that counts hooked interrupts, if the board has it."""
        return [each for each in self.dictionary.collectors if each.name == HOOKED]

    @property
    def is_real_time(self) -> bool:
        """Whether the board's clock runs at the pace of the host's."""
        return self.device.clock_kind != "simulated"

    def flags(self, *, mask: bool) -> MeasureFlag:
        """Return the flags of windows, which are masked if ``mask`` is True."""
        if mask and self.interrupts is None:
            raise UsageError(
                f"{self.device.name} cannot mask interrupts: its agent has no {_INTERRUPTS}.",
                hint="build its firmware with BP_CFG_INTERRUPTS=1, if its core has interrupts to "
                "mask",
            )
        return MeasureFlag.MASK if mask else MeasureFlag(0)

    def interrupts_during(self, windows: Sequence[Windows], *, masked: bool) -> Interrupts:
        """Return the Report's facts about interrupts in a measurement's windows."""
        known = self.interrupts
        if known is None:
            return NOT_MASKED
        hooked = any(HOOKED in each.counters for each in windows)
        kept_by = [
            counter.name
            for collector in self.dictionary.collectors
            if hooked and not known.skips >> collector.index & 1 and collector.name != HOOKED
            for counter in collector.counters
            if any(counter.name in each.counters for each in windows)
        ]
        return Interrupts(masked, known.timer_us, known.bound_ns if hooked else 0, tuple(kept_by))


@dataclass(frozen=True)
class BoardInterrupts:
    """The facts that a board reports about interrupts if it can mask them (SPEC.md 5.10)."""

    masks_guard: bool  # the guard's timer too, so nothing ends a hang in a masked window
    timer_us: int  # time between two timer interrupts; 0 if not known
    longest_us: int  # longest masked window that the board's clocks survive; 0 for any
    # it can trigger an empty interrupt, to measure its cost outside its hooks
    triggers: bool = False
    skips: int = 0  # bit i: the counts of collector i leave hooked interrupts out
    bound_ns: int = 0  # maximum time of an interrupt outside its hooks; 0 if not known

    @property
    def needs_trial(self) -> bool:
        """Whether an unmasked window must have ended, soon enough, before a window is masked."""
        return self.masks_guard or self.longest_us > 0

    def check_window(self, what: str, readings: Mapping[str, Reading]) -> None:
        """Check that a masked window as long as an unmasked one is not too long."""
        seconds = window_s(readings)
        if self.longest_us and seconds is not None and seconds * 1e6 > self.longest_us:
            raise UsageError(
                f"A sample of {what} takes {seconds * 1e6:,.0f} us, but at most "
                f"{self.longest_us:,} us is allowed with interrupts masked: the board's clock "
                "counts its wraps in an interrupt.",
                hint="take fewer calls in a sample, or leave interrupts on",
            )


def _interrupts_of(session: Session, dictionary: Dictionary) -> BoardInterrupts | None:
    """Ask a board for the facts about its interrupts. None if it cannot mask them."""
    function = next((f for f in dictionary.functions if f.name == _INTERRUPTS), None)
    if function is None:
        return None
    value: Any = session.invoke(function.id, _INTERRUPTS)
    if not (isinstance(value, list) and len(value) >= 3 and all(type(n) is int for n in value)):
        raise FrameError(f"{_INTERRUPTS} returned {value!r:.60}, not three numbers.")
    flags, timer_us, longest_us, skips, bound_ns = (*value, 0, 0)[:5]
    return BoardInterrupts(
        bool(flags & InterruptFlag.MASKS_GUARD),
        timer_us,
        longest_us,
        bool(flags & InterruptFlag.TRIGGERS),
        skips,
        bound_ns,
    )


class ClockProbe:
    """Asks a board for its clock repeatedly, and fits a line to the answers."""

    def __init__(
        self,
        session: Session,
        dictionary: Dictionary,
        clock_kind: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; the board is not asked yet."""
        self._session = session
        self._board = dictionary.board
        self._kind = clock_kind
        self._clock = clock
        self._function = next((f for f in dictionary.functions if f.name == _CLOCK), None)
        self._exchanges: list[Exchange] = []
        self._rate: tuple[int, int] = (0, 64)
        # whether the agent has a clock to ask, and it is a real one
        self.offered = self._function is not None and clock_kind != "simulated"

    def follow(self) -> None:
        """Make a few exchanges, if the board has a clock to ask."""
        if self.offered:
            self.ask(_EXCHANGES)

    def ask(self, times: int) -> None:
        """Make ``times`` exchanges. An exchange with a retransmission does not count."""
        if self._kind == "simulated":
            raise UsageError(
                f"The clock of {self._board} is simulated: it follows the emulator's own time and "
                "cannot be related to the host's clock.",
                hint="use a board whose clock is measured or declared",
            )
        if self._function is None:
            raise UsageError(
                f"The agent of {self._board} has no {_CLOCK}.",
                hint=f"compile the agent with {agent_option('clock', 1)}; its port needs a tick "
                "counter of known rate",
            )
        for _ in range(times):
            self._ask(self._function.id)

    def _ask(self, function_id: int) -> None:
        sent_s = self._clock()
        result = self._session.call(function_id, name=_CLOCK)
        done_s = self._clock()
        value = result.value
        if not (isinstance(value, list) and [type(item) for item in value] == [int] * 4):
            raise FrameError(f"{_CLOCK} of {self._board} returned {value!r}, not four numbers.")
        received, answered, hz, bits = value
        self._rate = hz, bits
        if result.sent == 1:
            last = self._exchanges[-1].answered if self._exchanges else received
            received = _unwrapped(received, last, bits)
            answered = _unwrapped(answered, received, bits)
            self._exchanges.append(Exchange(sent_s, received, answered, done_s))

    def fit(self) -> ClockFit | None:
        """Return the board's clock on the host's; None if the answers allow none."""
        # A counter that may have wrapped more than once between two exchanges allows none.
        hz, bits = self._rate
        longest_s = max(
            (
                b.done_s - a.sent_s
                for a, b in zip(self._exchanges, self._exchanges[1:], strict=False)
            ),
            default=0.0,
        )
        if longest_s * hz >= 1 << bits:
            return None
        try:
            return fit_clock(self._exchanges, hz)
        except ValueError:
            return None


def clock_probe(link: BoardLink) -> ClockProbe:
    """Return a probe of a board's clock; an emulator's clock counts as simulated."""
    kind = "simulated" if link.device.emulated else link.device.clock_kind
    return ClockProbe(link.session, link.dictionary, kind)


def _unwrapped(reading: int, earlier: int, bits: int) -> int:
    """Return ``reading`` with the wraps since ``earlier``; there was at most one."""
    return earlier + (reading - earlier) % (1 << bits)
