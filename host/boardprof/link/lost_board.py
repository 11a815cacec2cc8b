# SPDX-License-Identifier: Apache-2.0
"""Diagnose a call that does not end: is the board past its limit, does the function hang?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from boardprof.elf.address_to_line import Location
from boardprof.errors import BoardTimeoutError, DeviceTimeoutError
from boardprof.link.error_replies import Locate, place_text
from boardprof.transport.base import Emulator
from boardprof_protocol.codes import ErrorCode

_LOOKS = 30
"""Samples of the pc; a printing function is in the agent's output nine times out of ten."""

_CLOCK_LOOK_S = 0.5
"""Seconds between two reads of the board's clock. Most calls end before the first."""

_LATER_S = 2.0
"""Some boards end a call with the first tick of a coarse timer after the limit, 0.7 s at most; and
what the agent does itself, around a call and between the rounds of a measurement, takes less."""

_NEVER = float("inf")


class Overdue:
    """Watches one wait for a board, beside the wall clock's deadline, which is a guess.

    A living board ends a call at its limit, and says so. However slow its emulator is, one whose
    own clock is well past that will never answer.

    Attributes:
        look_at_s: when `is_certain` may next be true, on the host's clock.
        passed_s: seconds on the board's clock when it was last read. None if unknown.
    """

    def __init__(
        self, limit_s: float | None, board_s: Callable[[], float | None], now_s: float
    ) -> None:
        """Begin to wait.

        Args:
            limit_s: seconds on its clock after which the board ends a call. None if it never does.
            board_s: that clock, which is looked at from outside; see `Clocked`.
            now_s: the host's.
        """
        self._limit_s = limit_s
        self._board_s = board_s
        self.renew(now_s)

    def renew(self, now_s: float) -> None:
        """Begin anew: the board has said something."""
        self.look_at_s = _NEVER if self._limit_s is None else now_s + _CLOCK_LOOK_S
        self.passed_s: float | None = None
        self._begin_s: float | None = None
        self._is_over = False

    def is_certain(self, now_s: float) -> bool:
        """Tell whether the limit passed; checked twice, so that data in between was read, too."""
        if now_s < self.look_at_s or self._limit_s is None:
            return False
        board_s = self._board_s()
        if board_s is None:
            self.look_at_s = _NEVER
            return False
        self.look_at_s = now_s + _CLOCK_LOOK_S
        if self._begin_s is None:
            self._begin_s = board_s
        self.passed_s = board_s - self._begin_s
        was_over, self._is_over = self._is_over, self.passed_s > self._limit_s + _LATER_S
        return was_over and self._is_over


@dataclass(frozen=True)
class Hang:
    """Where a function that does not end is.

    Attributes:
        pc: the address of the instruction. None if the emulator does not report it.
        location: the source line of pc. None if it is in agent code that the function called.
    """

    pc: int | None = None
    location: Location | None = None

    @property
    def is_seen(self) -> bool:
        """Whether the place is known."""
        return self.pc is not None

    def error(
        self, name: str, limit_s: float | None, passed_s: float | None, wall_s: float | None
    ) -> DeviceTimeoutError:
        """Return the error that names the limit that has ended the call.

        Args:
            name: of the function.
            limit_s: the board should have ended it by then, on its clock. None if it ends no calls.
            passed_s: seconds of the board's clock since the call began. None if unknown.
            wall_s: the limit in wall time. None if the limit on the board's clock passed.
        """
        place = place_text(name, self.pc or 0, self.location)
        if wall_s is None:
            assert limit_s is not None
            text = (
                f"{name} did not end within {limit_s:g} s of the board's clock (--timeout). The "
                "board could not stop it, so the host ended the emulator"
            )
            text += f" when {name} was{place}" if place else ""
            hint = f"check whether {name} disables interrupts or overwrites the agent's data"
        else:
            text = f"{name} did not end within {wall_s:g} s of wall time (--wall-timeout)"
            if limit_s is not None and passed_s is not None:
                text += (
                    f"; by then {passed_s:.2g} s of the {limit_s:g} s on the board's clock "
                    "(--timeout) had passed"
                )
            text += f"; it hung{place}" if place else ""
            hint = f"if {name} is only slow, give --wall-timeout more seconds"
        return DeviceTimeoutError(
            text,
            code=ErrorCode.TIMEOUT,
            limit_s=wall_s or limit_s or 0.0,
            pc=self.pc,
            location=self.location,
            hint=hint,
        )


def find_hang(
    emulator: Emulator, locate: Locate | None, go_on: Callable[[], object], *, prints: bool
) -> Hang | None:
    """Sample several times which instruction the board executes.

    Args:
        emulator: it runs as the board.
        locate: finds the source line of an address. None if the image is unknown.
        go_on: lets the board run for a moment.
        prints: the board still prints, so its agent's output is not lost.

    Returns:
        Where the function hangs. None if the board was only seen in its agent, which is lost, or
        outside of all that was linked.
    """
    for _ in range(_LOOKS):
        pc = emulator.pc()
        if pc is None:
            return Hang()
        location = None if locate is None else locate(pc)
        if location is not None and not location.is_agents:
            return Hang(pc, location)
        go_on()
    return Hang() if prints else None


def lost_board(
    port: str, name: str, limit_s: float | None, wall_s: float | None, console: str
) -> BoardTimeoutError:
    """Return the error for a board that does not even end a call that lasts too long.

    Args:
        port: the line's name.
        name: of the function.
        limit_s: after which the board should have ended it, on its clock.
        wall_s: the wall-time limit that passed. None if the limit on the board's clock passed.
        console: what the board has printed.
    """
    over = (
        f"{name} exceeded {limit_s:g} s of the board's clock"
        if wall_s is None
        else f"{name} exceeded {wall_s:g} s of wall time (--wall-timeout)"
    )
    return BoardTimeoutError(
        f"The board at {port} is lost: {over}, and the board neither answered nor stopped it.",
        console=console,
        hint=f"check whether {name} writes beyond its arrays, overwrites the agent's stack or "
        "data, or loops forever with interrupts disabled; then connect again",
    )
