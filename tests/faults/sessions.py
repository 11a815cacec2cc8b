# SPDX-License-Identifier: Apache-2.0
"""Faults of whole sides: the board resets, the host dies, another host comes, a reply gets lost."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from functools import partial

from boardprof.base.errors import BoardError, BoardprofError, DeviceError, DeviceResetError
from boardprof.wire.transport.faults import (
    Duplicate,
    Fault,
    FlipBit,
    LateDuplicate,
    Lose,
    Truncate,
    Way,
)
from boardprof_protocol.codes import FrameKind
from tests.cli.command import FORKS
from tests.faults.boards import Rig
from tests.faults.host import MOMENTS, begin
from tests.faults.step import Outcome, again_if_late

__all__ = ["HOST_KILLED", "READ_ONCE", "RESET", "SESSION_ROWS", "TWO_HOSTS", "side_faults"]

RESET = "reset mid-call"
HOST_KILLED = "host killed and restarted"
TWO_HOSTS = "two hosts"
READ_ONCE = "read-once function retried"
SESSION_ROWS = (RESET, HOST_KILLED, TWO_HOSTS, READ_ONCE)

_TURNS = 20_000_000
_START_S = 20.0
_TIME_OUT_S = 2.5
"""A reset must be told within one time-out: at most 1 s, and the answer's way; hurried seconds."""


def side_faults(rig: Rig, row: str) -> Iterator[Outcome]:
    """Try all positions of a row; raises KeyError for one that is unknown."""
    yield from {
        RESET: _resets,
        HOST_KILLED: _killed_hosts,
        TWO_HOSTS: _two_hosts,
        READ_ONCE: _read_once,
    }[row](rig)


def _tried(row: str, position: str, what: Callable[[], tuple[str, ...]]) -> Outcome:
    """Return what came of a fault: the right error, what is wrong, and perhaps how late it is."""
    try:
        found = what()
    except BoardprofError as raised:
        found = ("", f"{type(raised).__name__}: {raised}")
    return Outcome(row, "session", position, *found)


def _resets(rig: Rig) -> Iterator[Outcome]:
    for function, arguments in (("spin", (_TURNS,)), ("tally", (3,)), ("pop", ())):
        for wait_s in (0.0, 0.05):
            reset = partial(_reset, rig, function, arguments, wait_s)
            yield again_if_late(partial(_tried, RESET, f"{wait_s:g} s into {function}", reset))


def _reset(rig: Rig, function: str, arguments: tuple[int, ...], wait_s: float) -> tuple[str, ...]:
    """Reset the board when the CALL has left; its answer, if there is one, gets lost."""
    done_s = 0.0

    def reset() -> None:
        nonlocal done_s
        time.sleep(wait_s)
        rig.target.reset(rig.line)
        done_s = rig.clock()

    rig.line.after_write = reset
    try:
        rig.board.functions[function](*arguments)
    except DeviceResetError as error:
        took_s = rig.clock() - done_s
        rig.was_reset()
        late = f"took {took_s:.2f} s" if took_s > _TIME_OUT_S else ""
        return type(error).__name__, rig.resume() or rig.pop(), late
    return "", "the call was answered"


def _killed_hosts(rig: Rig) -> Iterator[Outcome]:
    for moment in MOMENTS:
        yield _tried(HOST_KILLED, moment, lambda m=moment: ("", _killed(rig, m)))  # type: ignore[misc]


def _killed(rig: Rig, moment: str) -> str:
    spin = rig.board.dictionary.function("spin").id
    rig.target.resume()
    said, ready = FORKS.Pipe(duplex=False)
    with socket.fromfd(rig.target.descriptor, socket.AF_INET, socket.SOCK_STREAM) as line:
        host = FORKS.Process(target=begin, args=(line, spin, moment, ready))
        host.start()
    ready.close()  # then the pipe has an end if the host ends before it has begun
    has_begun = False
    with said, contextlib.suppress(EOFError):
        has_begun = said.poll(_START_S) and said.recv() == moment
    time.sleep(0.05)
    host.kill()
    host.join(_START_S)
    return rig.resume() or rig.tally() or rig.pop() if has_begun else "the host did not begin"


def _two_hosts(rig: Rig) -> Iterator[Outcome]:
    """Two hosts on one line in turn: the last HELLO has the board, the other one is told."""
    for turn in range(3):
        yield _tried(TWO_HOSTS, f"turn {turn}", lambda: _taken(rig))


def _taken(rig: Rig) -> tuple[str, str]:
    first = rig.board
    other = rig.session()
    other.open()
    rig.renew(other)
    wrong = rig.tally()
    try:
        first.functions["tally"](5)
    except (DeviceError, BoardError) as error:
        return type(error).__name__, wrong or rig.tally()
    return "", "a call of the host that had lost the board was answered"


_RETRIES: tuple[tuple[str, Way, FrameKind, Fault, int], ...] = (
    ("lost reply", Way.TO_HOST, FrameKind.RESULT, Lose(), 1),
    ("three lost replies", Way.TO_HOST, FrameKind.RESULT, Lose(), 3),
    ("damaged reply", Way.TO_HOST, FrameKind.RESULT, FlipBit(60), 1),
    ("reply cut short", Way.TO_HOST, FrameKind.RESULT, Truncate(9), 1),
    ("request twice", Way.TO_BOARD, FrameKind.CALL, Duplicate(), 1),
    ("request again, late", Way.TO_BOARD, FrameKind.CALL, LateDuplicate(0.03), 1),
    ("damaged request", Way.TO_BOARD, FrameKind.CALL, FlipBit(60), 2),
)


def _read_once(rig: Rig) -> Iterator[Outcome]:
    for name, way, kind, fault, times in _RETRIES:
        yield _tried(
            READ_ONCE,
            name,
            lambda w=way, k=kind, f=fault, t=times: ("", _popped(rig, w, k, f, t)),  # type: ignore[misc]
        )


def _popped(rig: Rig, way: Way, kind: FrameKind, fault: Fault, times: int) -> str:
    """Pop with a fault, then without: no entry of the queue is missing, none comes twice."""
    for later in range(times):
        rig.faults.add(way, fault, kind=kind, later=later)
    wrong = rig.pop()
    until = rig.clock() + 0.1
    while not wrong and rig.clock() < until:
        wrong = rig.pop()
    return wrong or ("no such frame came" if rig.faults.pending else "")
