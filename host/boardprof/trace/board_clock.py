# SPDX-License-Identifier: Apache-2.0
"""A board's clock, followed on the host's through a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from boardprof.errors import BoardprofError

if TYPE_CHECKING:
    from boardprof.board.board import Board
    from boardprof.decode.clock import ClockFit

__all__ = ["BoardClock"]

_EXCHANGES = 8
"""Of time stamps, before the first call and behind the last."""


class BoardClock:
    """Asks a board for the time when it is made and once more at the end, if there is a clock."""

    def __init__(self, board: Board) -> None:
        """Ask for the first time; ``board`` has an open session."""
        self._probe = board.clock_probe()
        if self._probe.offered:
            self._probe.ask(_EXCHANGES)

    def fit(self) -> ClockFit | None:
        """Ask for the time once more; return the board's clock on the host's, if it is known."""
        if not self._probe.offered:
            return None
        try:
            self._probe.ask(_EXCHANGES)
        except BoardprofError:  # the session is over: the spans have no place then, which they say
            return None
        return self._probe.fit()
