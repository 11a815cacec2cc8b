# SPDX-License-Identifier: Apache-2.0
"""Frames of channels, of calls that are broken off, and of hosts that are turned away."""

from __future__ import annotations

import contextlib

import msgpack

from boardprof.base.errors import BoardprofError, BusyError, LinkError, RpcError
from boardprof.wire.link.session import Session
from boardprof.wire.transport.faults import FaultyTransport, Way
from boardprof.wire.transport.sockets import connect_tcp
from boardprof_protocol.codes import BuiltIn, ErrorCode, FrameKind, MeasureFlag
from tests.faults.boards import SILENCE_S, Line, Rig, Target, differs
from tests.faults.step import Step

__all__ = ["CHANNEL_STEPS"]

_SIZE = 8
_ROUNDS = 0x7FFFFFFF
"""More than can end before the call is broken off."""


def _content(rig: Rig) -> bytes:
    """Return other bytes than the last ones, none of them zero."""
    first = rig.argument()
    return bytes(range(first, first + _SIZE))


def _downloaded(rig: Rig) -> tuple[str, str]:
    block, content = rig.block(_SIZE), _content(rig)
    rig.board.memory.write(block, content)
    found = rig.board.channels.download(block.handle, 0, _SIZE)
    return "", differs(found, content)


def _uploaded(rig: Rig) -> tuple[str, str]:
    block, content = rig.block(_SIZE), _content(rig)
    rig.board.channels.upload(block.handle, 0, content)
    found = rig.board.memory.read(block)
    return "", differs(found, content)


def _cancelled(rig: Rig) -> tuple[str, str]:
    """Break a measurement of the empty function off, which would not end by itself."""
    session = rig.board.session
    tally = rig.board.dictionary.function("tally").id
    mask = 1 << len(rig.board.dictionary.collectors) - 1
    head = (tally, int(MeasureFlag.EMPTY), _ROUNDS, 1, 1, mask, 1)
    arguments = b"".join(msgpack.packb(value) for value in head)

    def stop(done: int, total: int) -> None:
        session.cancel()

    try:
        session.call(BuiltIn.MEASURE, arguments, len(head), name="tally", on_progress=stop)
    except RpcError as error:
        return "RpcError", differs(error.code, ErrorCode.CANCELLED)
    return "", "a measurement that was broken off had a result"


def _turned_away(rig: Rig) -> tuple[str, str]:
    """A second host on a connection of its own is told who has the board."""
    line = Line(connect_tcp(rig.line.name, 10.0), rig.factor)
    other = FaultyTransport(line, rig.faults, clock=rig.clock)
    session = Session(other, timeout_s=SILENCE_S, clock=rig.clock)
    try:
        session.open()
    except (BusyError, LinkError) as error:
        # Damaged, BUSY is not sent again: the connection is closed behind it.
        return type(error).__name__, ""
    except BoardprofError as error:
        return "", f"{type(error).__name__}: {error}"
    finally:
        rig.faults.held_back(Way.TO_HOST)
        with contextlib.suppress(OSError):
            other.close()
    return "", "two hosts have the board"


def _serves_several(target: Target) -> bool:
    """Whether other hosts can connect while one has the board."""
    return target.spec.launch.listen == "board"


CHANNEL_STEPS = (
    Step(FrameKind.DATA, Way.TO_HOST, _downloaded),
    Step(FrameKind.ACK, Way.TO_BOARD, _downloaded),
    Step(FrameKind.DATA, Way.TO_BOARD, _uploaded),
    Step(FrameKind.ACK, Way.TO_HOST, _uploaded),
    Step(FrameKind.CANCEL, Way.TO_BOARD, _cancelled),
    Step(FrameKind.BUSY, Way.TO_HOST, _turned_away, applies=_serves_several),
)
