# SPDX-License-Identifier: Apache-2.0
"""What a board can do about interrupts: mask them within windows, or leave them out of counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from boardprof.decode.dictionary import Dictionary
from boardprof.decode.samples import Reading
from boardprof.errors import FrameError, UsageError
from boardprof.link.session import Session
from boardprof.report.interrupts import window_s
from boardprof_protocol.codes import InterruptFlag, MeasureFlag

__all__ = ["BoardInterrupts", "flags_for", "interrupts_of"]

_INTERRUPTS = "bp.interrupts"


@dataclass(frozen=True)
class BoardInterrupts:
    """What a board that can mask interrupts says of them (SPEC.md 5.10).

    Attributes:
        masks_guard: the guard's timer is masked as well: a hang in a masked window is not ended.
        timer_us: time between two interrupts of a timer, microseconds; 0: none is known.
        longest_us: longest masked window that the board's clocks survive, microseconds; 0: any.
        triggers: it can trigger an empty interrupt, to see what one takes outside of its hooks.
        skips: the collectors whose counts leave hooked interrupts out: bit i is collector i.
        bound_ns: most that an interrupt takes outside of its hooks; 0: not known.
    """

    masks_guard: bool
    timer_us: int
    longest_us: int
    triggers: bool = False
    skips: int = 0
    bound_ns: int = 0

    @property
    def needs_trial(self) -> bool:
        """Whether one window must have ended, unmasked and soon enough, before one is masked."""
        return self.masks_guard or self.longest_us > 0

    def check_window(self, what: str, readings: Mapping[str, Reading]) -> None:
        """See that a masked window of the length of an unmasked one is not too long.

        Args:
            what: is measured, for the error.
            readings: of the unmasked one.

        Raises:
            UsageError: it is too long.
        """
        seconds = window_s(readings)
        if self.longest_us and seconds is not None and seconds * 1e6 > self.longest_us:
            raise UsageError(
                f"A sample of {what} takes {seconds * 1e6:,.0f} us; with interrupts masked it may "
                f"take {self.longest_us:,} us: the board's clock counts its wraps in an interrupt.",
                hint="fewer calls in a sample, or interrupts on",
            )


def interrupts_of(session: Session, dictionary: Dictionary) -> BoardInterrupts | None:
    """Ask a board what there is to know of its interrupts; None: it cannot mask them."""
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


def flags_for(board: str, masking: BoardInterrupts | None, *, mask: bool) -> MeasureFlag:
    """Return the flags of a measurement whose windows are masked if ``mask`` says so.

    Raises:
        UsageError: the board cannot.
    """
    if mask and masking is None:
        raise UsageError(
            f"{board} cannot mask interrupts: its agent has no {_INTERRUPTS}.",
            hint="build its firmware with BP_CFG_INTERRUPTS=1, if its core has interrupts to mask",
        )
    return MeasureFlag.MASK if mask else MeasureFlag(0)
