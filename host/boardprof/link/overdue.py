# SPDX-License-Identifier: Apache-2.0
"""Whether a board has let its own limit for a call go by, by its own clock: then it is dead."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Overdue"]

_LOOK_S = 0.5
"""How often the board's clock is looked at. Most calls end before the first time."""

_LATER_S = 2.0
"""Some boards end a call with the first tick of a coarse timer behind the limit, 0.7 s at most; and
what the agent does itself, around a call and between the rounds of a measurement, takes less."""

_NEVER = float("inf")


class Overdue:
    """Watches one wait for a board, beside the wall clock's deadline, which is a guess.

    A living board ends a call at its limit, and says so. However slow its emulator is, one whose
    own clock is well past that will never answer.

    Attributes:
        look_at_s: when `is_certain` may next be true, on the host's clock.
        passed_s: of the board's clock, when it was last looked at; None: nobody knows.
    """

    def __init__(
        self, limit_s: float | None, board_s: Callable[[], float | None], now_s: float
    ) -> None:
        """Begin to wait.

        Args:
            limit_s: after which the board ends a call, on its clock; None: it never does.
            board_s: that clock, which is looked at from outside; see `Clocked`.
            now_s: the host's.
        """
        self._limit_s = limit_s
        self._board_s = board_s
        self.renew(now_s)

    def renew(self, now_s: float) -> None:
        """Begin anew: the board has said something."""
        self.look_at_s = _NEVER if self._limit_s is None else now_s + _LOOK_S
        self.passed_s: float | None = None
        self._begin_s: float | None = None
        self._is_over = False

    def is_certain(self, now_s: float) -> bool:
        """Tell whether the limit is over, seen twice: what came between was read, too."""
        if now_s < self.look_at_s or self._limit_s is None:
            return False
        board_s = self._board_s()
        if board_s is None:
            self.look_at_s = _NEVER
            return False
        self.look_at_s = now_s + _LOOK_S
        if self._begin_s is None:
            self._begin_s = board_s
        self.passed_s = board_s - self._begin_s
        was_over, self._is_over = self._is_over, self.passed_s > self._limit_s + _LATER_S
        return was_over and self._is_over
