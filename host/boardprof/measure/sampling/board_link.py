# SPDX-License-Identifier: Apache-2.0
"""The part of a connected board that a measurement needs, and its handling of interrupts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from boardprof.base.errors import FrameError, UsageError
from boardprof.measure.sampling.programmable import Programmable
from boardprof.results.record import Device
from boardprof.results.report.interrupts import HOOKED, NOT_MASKED, TICKS, Interrupts, window_s
from boardprof.wire.decode.dictionary import CollectorInfo, Dictionary
from boardprof.wire.decode.samples import Reading
from boardprof.wire.link.session import Session
from boardprof_protocol.codes import InterruptFlag, MeasureFlag
from boardprof_protocol.layout import Layout

if TYPE_CHECKING:
    from boardprof.measure.sampling.selection import Selection
    from boardprof.results.report.measurement import Windows

_INTERRUPTS = "bp.interrupts"

TRIGGERED = 8
"""Empty interrupts in a window, so that a clock's step is small compared with their cost."""


@dataclass(frozen=True, eq=False)
class BoardLink:
    """A connected board, as seen by a measurement.

    Attributes:
        session: with the board.
        dictionary: the board's functions and collectors.
        layouts: of the collectors' blobs, by schema.
        device: the facts about the board for Reports.
        programmable: the collectors whose slots can be programmed.
    """

    session: Session
    dictionary: Dictionary
    layouts: Mapping[int, Layout]
    device: Device
    programmable: tuple[Programmable, ...]

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
        """Return the flags of windows, which are masked if ``mask`` is True.

        Raises:
            UsageError: the board cannot mask interrupts.
        """
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
    """The facts that a board reports about interrupts if it can mask them (SPEC.md 5.10).

    Attributes:
        masks_guard: the guard's timer is masked as well, so nothing ends a hang in a masked window.
        timer_us: time between two timer interrupts, in microseconds; 0 if unknown.
        longest_us: longest masked window that the board's clocks survive, microseconds; 0 for any.
        triggers: it can trigger an empty interrupt, to measure its cost outside of its hooks.
        skips: the collectors whose counts leave hooked interrupts out: bit i is collector i.
        bound_ns: maximum time of an interrupt outside of its hooks; 0 if not known.
    """

    masks_guard: bool
    timer_us: int
    longest_us: int
    triggers: bool = False
    skips: int = 0
    bound_ns: int = 0

    @property
    def needs_trial(self) -> bool:
        """Whether an unmasked window must have ended, soon enough, before a window is masked."""
        return self.masks_guard or self.longest_us > 0

    def check_window(self, what: str, readings: Mapping[str, Reading]) -> None:
        """Check that a masked window as long as an unmasked one is not too long.

        Args:
            what: the function's name, for the error.
            readings: of the unmasked window.

        Raises:
            UsageError: it is too long.
        """
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


def calibrated_counters(known: BoardInterrupts | None, selection: Selection) -> list[str]:
    """Return the counters for which the cost of an interrupt outside its hooks can be measured.

    Args:
        known: the facts that the board reports about its interrupts.
        selection: the collectors that run.

    Returns:
        Names; empty if the board cannot trigger an interrupt, or leaves none out of its counts.
    """
    if known is None or not known.triggers or HOOKED not in selection.counters:
        return []
    counters = [
        counter.name
        for each in selection.collectors
        if known.skips >> each.index & 1
        for counter in each.counters
    ]
    return [*counters, TICKS]
