# SPDX-License-Identifier: Apache-2.0
"""How long to wait for an answer before asking again."""

from __future__ import annotations

__all__ = ["RttEstimate"]


class RttEstimate:
    """Retransmission time-out as in RFC 6298, with a floor that suits the line.

    Attributes:
        floor_s: never wait less: two frame times and 20 ms.
    """

    def __init__(self, floor_s: float) -> None:
        """Begin with a time-out of 250 ms, until something has been measured."""
        self.floor_s = floor_s
        self._timeout_s = 0.25
        self._smoothed_s: float | None = None
        self._variation_s = 0.0
        self._latest_s: float | None = None  # measured, and not yet worked in

    def measured(self, rtt_s: float) -> None:
        """Take the round trip of a request that was sent once (Karn's rule: no other counts)."""
        if self._latest_s is not None:
            self._work_in(self._latest_s)
        self._latest_s = rtt_s

    @property
    def timeout_s(self) -> float:
        """What to wait now. Worked out here: whoever asks is about to wait, and has the time."""
        if self._latest_s is not None:
            self._work_in(self._latest_s)
            self._latest_s = None
        return self._timeout_s

    def _work_in(self, rtt_s: float) -> None:
        if self._smoothed_s is None:
            self._smoothed_s, self._variation_s = rtt_s, rtt_s / 2
        else:
            self._variation_s += (abs(self._smoothed_s - rtt_s) - self._variation_s) / 4
            self._smoothed_s += (rtt_s - self._smoothed_s) / 8
        self._timeout_s = max(self._smoothed_s + 4 * self._variation_s, self.floor_s)

    def expired(self) -> None:
        """Back off: double, up to a second or the floor; what is longer already stays."""
        timeout_s, ceiling_s = self.timeout_s, max(1.0, self.floor_s)
        self._timeout_s = max(timeout_s, min(2 * timeout_s, ceiling_s))
