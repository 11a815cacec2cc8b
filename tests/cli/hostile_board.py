# SPDX-License-Identifier: Apache-2.0
"""A board whose every string is what a terminal would obey: an agent behind a line that adds it."""

from __future__ import annotations

import contextlib
import socket
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack

from boardprof.measure.board import line
from boardprof.wire.link.session import Session
from boardprof.wire.transport.sockets import connect_tcp
from boardprof_protocol.codes import FrameKind
from boardprof_protocol.frame import Frame, FrameDecoder, encode_frame
from boardprof_protocol.messages import WELCOME
from tests.link.peers import peer, running_agent

__all__ = ["HOSTILE", "hostile_board", "obeyed"]

HOSTILE = "\x1b]0;pwned\x07\x1b[2J\r\x08\x7f\x9b31m\u202e"
"""Sets the title, clears the screen, overwrites the line, reverses what follows."""


def obeyed(text: str) -> str:
    """Return what a terminal would obey in a command's output, line breaks and tabs aside."""
    return "".join(c for c in text if not c.isprintable() and c not in "\n\t")


_COUNTER = 8
"""Fields of a counter's entry in the dictionary (SPEC.md 5.1)."""


@contextlib.contextmanager
def hostile_board(source: Path, *, is_named: bool = False) -> Iterator[str]:
    """Run the linux board's agent, of which all texts end in `HOSTILE`; yields its port.

    Args:
        source: of its functions.
        is_named: its name stays: what is connected to it as that board goes on.
    """
    with running_agent(source) as (_, port):
        crc = zlib.crc32(b"".join(_hostile(body, is_named) for body in _dictionary(port)))

        def serve(host: socket.socket) -> None:
            with socket.create_connection(_address(port), timeout=60) as agent:
                upward = threading.Thread(target=_carry, args=(host, agent), daemon=True)
                upward.start()
                decoder = FrameDecoder()
                while data := agent.recv(65536):
                    for frame in decoder.feed(data):
                        host.sendall(encode_frame(_changed(frame, crc, is_named)))
                        host.sendall(f"{HOSTILE}\n".encode())  # to the console

        with peer(serve) as hostile:
            yield hostile


def _changed(frame: Frame, crc: int, is_named: bool) -> Frame:
    body = frame.body
    if frame.kind == FrameKind.WELCOME:
        fields = WELCOME.struct.parse(body)
        body = WELCOME.struct.build({**fields, "dictionary_hash": crc}) + body[WELCOME.size :]
    elif frame.kind in (FrameKind.RESULT, FrameKind.ERROR):
        body = _hostile(body, is_named)
    return Frame(frame.kind, frame.session, frame.sequence, body)


def _hostile(body: bytes, is_named: bool) -> bytes:
    """Return an answer with its texts changed; one without any as it is."""
    try:
        value = msgpack.unpackb(body)
    except ValueError:
        return body
    if not isinstance(value, list) or not any(isinstance(part, str) for part in value):
        return body
    # The host knows what counters a collector has, and would go no further.
    kept = {value[0]} if len(value) == _COUNTER else {"linux"} if is_named else set()
    return bytes(msgpack.packb([_with_more(part, kept) for part in value]))


def _with_more(value: Any, kept: set[str]) -> Any:
    # A signature stays one, and the agent's own functions: else nothing could be called.
    if not isinstance(value, str) or value in kept or value.startswith(("(", "bp.")):
        return value
    return value + HOSTILE


def _dictionary(port: str) -> list[bytes]:
    session = Session(connect_tcp(port, 10.0), timeout_s=20.0)
    try:
        session.open()
        return [*line._ask(session)]
    finally:
        session.close()


def _address(port: str) -> tuple[str, int]:
    host, _, number = port.removeprefix("socket://").rpartition(":")
    return host, int(number)


def _carry(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):  # either may have gone
        while data := source.recv(65536):
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_RDWR)
