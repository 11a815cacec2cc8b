# SPDX-License-Identifier: Apache-2.0
"""A call that does not end in an emulator of ours: does the function hang, or is the agent lost?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from boardprof.elf.locate import Location
from boardprof.errors import DeviceTimeoutError
from boardprof.link.refusal import Locate, place_text
from boardprof.transport.base import Emulator
from boardprof_protocol.codes import ErrorCode

__all__ = ["Hang", "find_hang"]

_LOOKS = 30
"""A function that prints is in the agent's output nine times of ten."""


@dataclass(frozen=True)
class Hang:
    """Where a function is that does not end.

    Attributes:
        pc: the address of the instruction; None: the emulator does not tell.
        location: the same in the sources; None: it is in what the function has called of the agent.
    """

    pc: int | None = None
    location: Location | None = None

    @property
    def is_seen(self) -> bool:
        """Whether anybody has seen where."""
        return self.pc is not None

    def error(
        self, name: str, limit_s: float | None, passed_s: float | None, wall_s: float | None
    ) -> DeviceTimeoutError:
        """Return the error that names the limit that has ended the call.

        Args:
            name: of the function.
            limit_s: after which the board should have ended it, on its clock; None: it ends none.
            passed_s: seconds of the board's clock since the call began; None: not known.
            wall_s: the limit in wall time; None: the board's clock has ended the call.
        """
        place = place_text(name, self.pc or 0, self.location)
        if wall_s is None:
            assert limit_s is not None
            text = (
                f"{name} did not end within {limit_s:g} s of the board's clock (--timeout), and "
                "the board could not stop it: the host ended the emulator"
            )
            text += f" when {name} was{place}" if place else ""
            hint = f"see whether {name} turns interrupts off, or writes over the agent's data"
        else:
            text = f"{name} did not end within {wall_s:g} s of wall time (--wall-timeout)"
            if limit_s is not None and passed_s is not None:
                text += (
                    f"; by then {passed_s:.2g} s of its own clock's {limit_s:g} s (--timeout) had "
                    "passed"
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
    """Look several times at which instruction the board is.

    Args:
        emulator: that the board is played by.
        locate: finds the source line of an address; None: the image is not known.
        go_on: lets the board go on for a moment.
        prints: the board goes on printing, so that its agent's output is not lost.

    Returns:
        Where the function hangs; None: the board is nowhere but in its agent, which is lost, or
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
