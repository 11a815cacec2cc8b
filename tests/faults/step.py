# SPDX-License-Identifier: Apache-2.0
"""What the fault matrix is made of: a way to have a frame on the line, and what came of a fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from boardprof.wire.transport.faults import Way
from boardprof_protocol.codes import FrameKind
from tests.faults.boards import Rig, Target

__all__ = ["Outcome", "Step", "again_if_late"]


@dataclass(frozen=True)
class Outcome:
    """What came of one fault.

    Attributes:
        fault: row of the table.
        kind: of the frame that was damaged.
        position: what was done to it.
        error: the typed error that was right, "" where the answer was.
        wrong: what was not right; "" when the fault was survived.
        late: "took N s" where that was too long; "" otherwise.
    """

    fault: str
    kind: str
    position: str
    error: str = ""
    wrong: str = ""
    late: str = ""


def again_if_late(attempt: Callable[[], Outcome]) -> Outcome:
    """Try a fault; where it is late, once more. To be late twice is wrong.

    Late by chance are boards whose line a busy machine has left without its turn: in a hurry, a
    second of the rig lasts 17 ms. What is wrong in another way is not tried again.

    Returns:
        What came of it in the end; ``late`` of the first attempt.
    """
    first = attempt()
    if first.wrong or not first.late:
        return first
    second = attempt()
    return replace(second, wrong=second.wrong or second.late, late=first.late)


@dataclass(frozen=True)
class Step:
    """How to have a frame of one kind on the line.

    Attributes:
        kind: of the frame.
        way: its direction.
        provoke: makes it come; returns the typed error that was due ("" for an answer) and what is
            wrong ("" for nothing).
        applies: whether a board has such frames.
    """

    kind: FrameKind
    way: Way
    provoke: Callable[[Rig], tuple[str, str]]
    applies: Callable[[Target], bool] = lambda target: True

    @property
    def name(self) -> str:
        """The frame as the table's details name it."""
        return f"{self.kind.name} {self.way.value}"
