# SPDX-License-Identifier: Apache-2.0
"""What a power analyser must do: integrate the power while the pin is high that the agent sets.

The agent sets it during each measured window (``bp_port_marker``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self, runtime_checkable

__all__ = ["MarkedWindow", "Meter"]


@dataclass(frozen=True)
class MarkedWindow:
    """What a meter measured while the pin was high.

    Attributes:
        joules: energy that the supply gave; nothing is subtracted.
        error_joules: bound of the meter's own error, edges of the window included.
        seconds: how long the pin was high.
        doubt: why the energy is not known, such as ``samples of the meter are missing``; "" if it
            is known.
    """

    joules: float
    error_joules: float
    seconds: float
    doubt: str = ""


@runtime_checkable
class Meter(Protocol):
    """A power analyser with a digital input. Use it in a ``with``.

    Attributes:
        name: for Reports: what it is and its settings, beginning with ``simulated`` if it is.
    """

    name: str

    def begin(self) -> None:
        """Forget earlier windows and be ready for new ones. Raises MeterError."""

    def windows(self, count: int) -> Sequence[MarkedWindow]:
        """Return the windows since `begin`, in order.

        Waits until ``count`` windows have ended, but not for long. Raises MeterError.
        """

    def __enter__(self) -> Self:
        """Return the meter."""

    def __exit__(self, *error: object) -> None:
        """Close the meter."""
