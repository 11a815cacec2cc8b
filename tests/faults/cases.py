# SPDX-License-Identifier: Apache-2.0
"""Every fault at every position of every kind of frame: what is done, and what must come of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import msgpack

from boardprof.base.errors import BoardError, BoardprofError, DeviceError, RpcError
from boardprof.wire.transport.faults import (
    Delay,
    DropByte,
    DropLeading,
    DropTrailing,
    Duplicate,
    Fault,
    FlipBit,
    Glue,
    Inject,
    LateDuplicate,
    Truncate,
    Way,
)
from boardprof_protocol.codes import HELLO_MAGIC, BuiltIn, ErrorCode, FrameKind
from boardprof_protocol.frame import Frame, encode_frame
from boardprof_protocol.messages import HELLO
from tests.faults.boards import SILENCE_S, Rig, differs
from tests.faults.channels import CHANNEL_STEPS
from tests.faults.step import Outcome, Step, again_if_late

__all__ = ["FAMILIES", "STEPS", "Family", "damage", "run_position", "thinned"]

_GARBAGE = (b"boot: clock at 48 MHz\r\n", b"\0\0sensor: 21.5 C\0", b"\x01\x02\x03\xff\x80", b"\0")
_LONGEST_S = 600.0
"""A position that takes longer, in hurried seconds, is stuck."""


def _answer(rig: Rig) -> tuple[str, str]:
    return "", rig.tally()


def _refused(rig: Rig) -> tuple[str, str]:
    tally = rig.board.dictionary.function("tally")
    try:
        rig.board.session.call(tally.id, b"\x01\x01", 2, name="tally")
    except RpcError as error:
        return "RpcError", differs(error.code, ErrorCode.ARG_COUNT)
    return "", "a call with an argument too many was not refused"


def _measured(rig: Rig) -> tuple[str, str]:
    """A measurement says PROGRESS before its first round."""
    n = rig.argument()
    mask = 1 << len(rig.board.dictionary.collectors) - 1
    tally = rig.board.dictionary.function("tally")
    arguments = b"".join(msgpack.packb(value) for value in (tally.id, 0, 0, 1, 1, mask, n))
    value = rig.board.session.call(BuiltIn.MEASURE, arguments, 7, name="tally").value
    rig.tallied(n)
    return "", "" if isinstance(value, list) and value[0] == 1 else f"measured {value!r}"


def _complained(rig: Rig) -> tuple[str, str]:
    """A call that loses a byte is answered by NAK."""
    rig.faults.add(Way.TO_BOARD, DropByte(6), kind=FrameKind.CALL)
    return _answer(rig)


def _displaced(rig: Rig) -> tuple[str, str]:
    """Another host's HELLO ends our session; the board runs nothing of it any more."""
    hello = {"magic": HELLO_MAGIC, "version_min": 1, "version_max": 1, "mtu": 65535, "nonce": 9}
    other = 1 + rig.board.session.requests.session % 0xFFFF  # any id but ours
    rig.line.inner.write(
        encode_frame(Frame(FrameKind.HELLO, other, 0, HELLO.struct.build(hello))), 10.0
    )
    try:
        rig.board.functions["tally"](1)
    except (DeviceError, BoardError) as error:
        return type(error).__name__, rig.resume()
    return "", "a call of a session that is over was answered"


def _greeted(rig: Rig) -> tuple[str, str]:
    return "", rig.resume()


STEPS = (
    Step(FrameKind.HELLO, Way.TO_BOARD, _greeted),
    Step(FrameKind.WELCOME, Way.TO_HOST, _greeted),
    Step(FrameKind.CALL, Way.TO_BOARD, _answer),
    Step(FrameKind.RESULT, Way.TO_HOST, _answer),
    Step(FrameKind.ERROR, Way.TO_HOST, _refused),
    Step(FrameKind.PROGRESS, Way.TO_HOST, _measured),
    Step(FrameKind.NAK, Way.TO_HOST, _complained),
    Step(FrameKind.NO_SESSION, Way.TO_HOST, _displaced),
    *CHANNEL_STEPS,
)


@dataclass(frozen=True)
class Family:
    """One row of the table: a fault, and all positions at which it is tried.

    Attributes:
        name: as printed.
        faults: from the length of the frame, delimiters included, to what is done to it.
    """

    name: str
    faults: Callable[[int], Iterator[Fault]]


FAMILIES = (
    Family("bit flip", lambda length: (FlipBit(bit) for bit in range(8 * length))),
    Family("dropped byte", lambda length: (DropByte(index) for index in range(length))),
    Family("dropped delimiter", lambda length: iter([DropLeading(), DropTrailing(), Glue()])),
    Family("cut short", lambda length: (Truncate(kept) for kept in range(length))),
    Family("late frame", lambda length: (Delay(delay_s) for delay_s in (0.01, 0.1, 0.5))),
    Family("duplicated frame", lambda length: iter([Duplicate()])),
    Family(
        "delayed duplicate", lambda length: (LateDuplicate(delay_s) for delay_s in (0.01, 0.1, 0.5))
    ),
    Family("garbage before", lambda length: (Inject(text, 0) for text in _GARBAGE)),
    Family(
        "garbage among",
        lambda length: (Inject(_GARBAGE[at % 4], at) for at in range(1, length + 1)),
    ),
)


def thinned(families: Sequence[Family], turn: int) -> list[Family]:
    """Return each family with one position: of the first, the middle and the last, by ``turn``."""

    def thin(family: Family, third: int) -> Family:
        def one(length: int) -> Iterator[Fault]:
            every = list(family.faults(length))
            yield every[(0, len(every) // 2, -1)[third % 3]]

        return Family(family.name, one)

    return [thin(family, turn + number) for number, family in enumerate(families)]


def frame_length(rig: Rig, step: Step) -> int:
    """Return how long the step's frame is on the line, in bytes, by letting one pass."""
    rig.faults.add(step.way, Delay(0.0), kind=step.kind)
    _, wrong = step.provoke(rig)
    assert not wrong, f"{step.name} without a fault: {wrong}"
    return rig.faults.log[-1].length


def damage(rig: Rig, family: Family, step: Step) -> Iterator[Outcome]:
    """Try every position of one family on one kind of frame."""
    for fault in family.faults(frame_length(rig, step)):
        yield again_if_late(partial(run_position, rig, family.name, step, fault))


def run_position(rig: Rig, name: str, step: Step, fault: Fault) -> Outcome:
    """Do one fault, and look at its answer and at the calls that follow."""
    begin = rig.clock()
    rig.faults.add(step.way, fault, kind=step.kind)
    error = ""
    try:
        error, wrong = step.provoke(rig)
        wrong = wrong or rig.tally() or _afterwards(rig, fault)
    except BoardprofError as raised:
        wrong = f"{type(raised).__name__}: {raised}"
    if not wrong and rig.faults.pending:
        wrong = "no such frame came"
    took_s = rig.clock() - begin
    late = f"took {took_s:.0f} s" if took_s > _LONGEST_S else ""
    return Outcome(name, step.name, str(fault), error, wrong, late)


def _afterwards(rig: Rig, fault: Fault) -> str:
    """Go on calling until what is late has come, too."""
    if not isinstance(fault, Delay | LateDuplicate):
        return ""
    until = rig.clock() + min(fault.delay_s, SILENCE_S)
    while rig.clock() < until:
        if wrong := rig.tally():
            return wrong
    return rig.tally()
