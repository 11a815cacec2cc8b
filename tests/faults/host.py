# SPDX-License-Identifier: Apache-2.0
"""A host that is made to be killed: begins a session on the line that it is given, and calls."""

from __future__ import annotations

import time
from multiprocessing.connection import Connection
from socket import socket

from boardprof.wire.link.session import Session
from boardprof.wire.transport.sockets import stream_of
from boardprof_protocol.codes import FrameKind
from boardprof_protocol.frame import Frame, encode_frame

__all__ = ["ARGUMENT", "MOMENTS", "begin"]

MOMENTS = ("after HELLO", "within a frame", "within a call")
ARGUMENT = 20_000_000
"""Of the function that is called; it shall still be running when this process is killed."""


def begin(line: socket, function_id: int, moment: str, ready: Connection) -> None:
    """Say HELLO, go to the moment, say so to ``ready``, and stay there until killed."""
    session = Session(stream_of(line, "inherited"), timeout_s=20.0)
    session.open()
    argument = b"\xce" + ARGUMENT.to_bytes(4, "big")
    if moment == "within a frame":
        frame = encode_frame(Frame(FrameKind.CALL, 1, 1, b"\x92" + bytes([function_id]) + argument))
        session.transport.write(frame[: len(frame) // 2], 1.0)
    ready.send(moment)
    if moment == "within a call":
        session.call(function_id, argument, 1, name="spin")
    time.sleep(60.0)
