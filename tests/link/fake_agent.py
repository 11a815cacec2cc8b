# SPDX-License-Identifier: Apache-2.0
"""An agent that says what it is told to, for what the real one never says."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from boardprof_protocol.codes import FrameKind
from boardprof_protocol.frame import Frame, FrameDecoder, encode_frame
from boardprof_protocol.messages import WELCOME
from tests.link.peers import peer

__all__ = ["fake_agent", "welcome"]

Answer = tuple[FrameKind, bytes]
Answers = Callable[[bytes], Iterable[Answer]]
"""From the body of a CALL to what comes back."""


def welcome(**fields: Any) -> bytes:
    """Return the body of a WELCOME, with other fields than the usual ones where named."""
    usual = {
        "version_min": 1,
        "version_max": 1,
        "flags": 0,
        "pointer_size": 4,
        "mtu_rx": 256,
        "mtu_tx": 256,
        "window": 1,
        "reset_cause": 0,
        "reserved": 0,
        "boot_id": 1,
        "last_sequence": 0,
        "build_id": [0] * 8,
        "dictionary_hash": 0,
    }
    return bytes(WELCOME.struct.build({**usual, **fields}))


@contextlib.contextmanager
def fake_agent(
    answers: Answers, greeting: bytes | None = None, greets_as: FrameKind = FrameKind.WELCOME
) -> Iterator[str]:
    """Serve hosts with ``greeting`` as WELCOME's body and ``answers`` to calls; yields the port."""

    def serve(connection: socket.socket) -> None:
        decoder = FrameDecoder()
        while data := connection.recv(65536):
            for frame in decoder.feed(data):
                replies: Iterable[Answer] = (
                    [(greets_as, welcome() if greeting is None else greeting)]
                    if frame.kind == FrameKind.HELLO
                    else answers(frame.body)
                )
                for kind, body in replies:
                    connection.sendall(
                        encode_frame(Frame(kind, frame.session, frame.sequence, body))
                    )

    with peer(serve) as port:
        yield port
