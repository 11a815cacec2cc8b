# SPDX-License-Identifier: Apache-2.0
"""Exchanges of time stamps with a board, from which ``decode.clock`` fits its clock."""

from __future__ import annotations

import time
from collections.abc import Callable

from boardprof.base.errors import FrameError, UsageError, agent_option
from boardprof.measure.sampling.board_link import BoardLink
from boardprof.wire.decode.clock import ClockFit, Exchange, fit_clock
from boardprof.wire.decode.dictionary import Dictionary
from boardprof.wire.link.session import Session

_CLOCK = "bp.clock"
_EXCHANGES = 8
"""Number of exchanges before the calls to be placed on the host's clock, and after them."""


class ClockProbe:
    """Asks a board for its clock repeatedly, and fits a line to the answers.

    Attributes:
        offered: whether the agent has a clock to ask, and the clock is a real one.
    """

    def __init__(
        self,
        session: Session,
        dictionary: Dictionary,
        clock_kind: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; the board is not asked yet.

        Args:
            session: that has begun.
            dictionary: the board's functions.
            clock_kind: ``measured``, ``declared`` or ``simulated``.
            clock: the host's, seconds.
        """
        self._session = session
        self._board = dictionary.board
        self._kind = clock_kind
        self._clock = clock
        self._function = next((f for f in dictionary.functions if f.name == _CLOCK), None)
        self._exchanges: list[Exchange] = []
        self._rate: tuple[int, int] = (0, 64)
        self.offered = self._function is not None and clock_kind != "simulated"

    def follow(self) -> None:
        """Make a few exchanges, if the board has a clock to ask."""
        if self.offered:
            self.ask(_EXCHANGES)

    def ask(self, times: int) -> None:
        """Make ``times`` exchanges. An exchange with a retransmission does not count.

        Raises:
            UsageError: the board has no clock that can be asked, or its clock is simulated.
        """
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
        """Return the board's clock on the host's; None if the answers allow none.

        A counter that may have wrapped more than once between two exchanges allows none.
        """
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
