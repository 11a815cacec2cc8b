# SPDX-License-Identifier: Apache-2.0
"""Another user of the machine at an agent without a key is refused."""

from __future__ import annotations

import contextlib
import encodings.idna  # noqa: F401 (a stranger may not be able to read Python's files)
import os
import socket
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from boardprof.measure.connect import connect
from boardprof.target.descriptions.board import board_spec
from boardprof.wire.transport.sockets import parse_socket_url
from boardprof_protocol.codes import HELLO_MAGIC, FrameKind
from boardprof_protocol.frame import Frame, encode_frame
from boardprof_protocol.messages import HELLO
from tests.firmware import build

HOSTS = Path(__file__).parent / "fixtures" / "hosts.c"
STRANGER = 65534
REFUSED = (
    b"boardprof: refused: another user's process. Give agent and host a key: --key-file or "
    b"BOARDPROF_KEY\n"
)

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another user")


def as_stranger(action: Callable[[], bytes]) -> bytes:
    """Run ``action`` in a child of another user; return what it returns."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(STRANGER, STRANGER, STRANGER)
            os.setresuid(STRANGER, STRANGER, STRANGER)
            os.write(theirs, action())
        except BaseException as error:
            os.write(theirs, repr(error).encode())
        finally:
            os._exit(0)
    os.close(theirs)
    with open(ours, "rb") as answer:
        said = answer.read()
    os.waitpid(child, 0)
    return said


def takeover() -> bytes:
    """Return a HELLO that takes the board from whoever has it."""
    fields = {"magic": HELLO_MAGIC, "mtu": 65535, "nonce": 1, "version_min": 1, "version_max": 1}
    body = HELLO.struct.build(fields) + b"\x01" + b"stranger".ljust(32, b"\0")
    return encode_frame(Frame(FrameKind.HELLO, 4711, 0, body))


def heard(address: tuple[str, int]) -> bytes:
    """Return all that the agent says to a HELLO."""
    with socket.create_connection(address, 10) as line:
        line.settimeout(10)
        with contextlib.suppress(ConnectionError):
            line.sendall(takeover())
        answer = b""
        with contextlib.suppress(ConnectionError):
            while piece := line.recv(4096):
                answer += piece
        return answer


def gone_at_once(address: tuple[str, int]) -> bytes:
    """Say HELLO and close: a socket that its process has closed belongs to nobody."""
    for _ in range(50):
        with contextlib.suppress(ConnectionError), socket.socket() as line:
            line.connect(address)
            line.sendall(takeover())
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
    return b"done"


@contextlib.contextmanager
def listening(listen: str) -> Iterator[str]:
    """Run the agent as this user; yields its port."""
    image = build(board_spec("linux"), [HOSTS]).image
    command = [image, "--listen", listen]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline().removeprefix("listening on ").strip()
            yield f"socket://{line}"
        finally:
            process.kill()


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "[::1]:0"])
def test_another_user_is_refused_and_told_why(listen: str) -> None:
    with listening(listen) as port:
        assert as_stranger(lambda: heard(parse_socket_url(port))) == REFUSED
        with connect("linux", port) as board:  # as root
            assert board.functions.count() == 1


def test_another_user_cannot_disturb_a_board_that_was_started_for_a_run() -> None:
    image = build(board_spec("linux"), [HOSTS]).image
    with connect("linux", image=image) as board:
        address = parse_socket_url(board.device.port)
        assert as_stranger(lambda: heard(address)) == REFUSED
        assert as_stranger(lambda: gone_at_once(address)) == b"done"
        assert board.functions.count() == 1
