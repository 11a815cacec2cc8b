# SPDX-License-Identifier: Apache-2.0
"""The other end of a line, as it should not be: mute, gone, damaging, or another agent."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from boardprof.target.descriptions.board import BoardSpec, board_spec, load_board
from boardprof_protocol.frame import BadFrame, Frame, decode_frame
from tests.firmware import build

__all__ = ["Change", "FaultyLine", "altered_board", "peer", "running_agent", "same"]
__all__ += ["unprivileged"]

FIXTURES = Path(__file__).parents[1] / "cli" / "fixtures"


@contextlib.contextmanager
def peer(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """Listen on loopback and let ``serve`` have each connection; yields the port.

    ``serve`` returns when the host has gone; its connection is then closed.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection, contextlib.suppress(OSError):
                    serve(connection)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield _url(listener.getsockname())
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(10)


def _url(address: tuple[str, int]) -> str:
    return f"socket://{address[0]}:{address[1]}"


@contextlib.contextmanager
def running_agent(
    *sources: Path, spec: BoardSpec | None = None
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run the linux board's agent with the functions of ``sources``; yields process and port."""
    image = build(spec or board_spec("linux"), sources).image
    with subprocess.Popen([image], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            yield process, f"socket://{line.removeprefix('listening on ').strip()}"
        finally:
            process.kill()


@contextlib.contextmanager
def unprivileged(image: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield a copy of an image, and what `subprocess.Popen` needs to run it as a user with limits.

    The kernel does not apply RLIMIT_NPROC to root, so that root becomes "nobody" for it.
    """
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # others may run what is in it
        yield Path(shutil.copy(image, folder)), {"user": 65534} if os.getuid() == 0 else {}


def altered_board(folder: Path, flag: str) -> BoardSpec:
    """Return the linux board with one more flag for its compiler, as a copy below ``folder``."""
    copy = folder / "linux"
    shutil.copytree(board_spec("linux").folder, copy)
    file = copy / "board.toml"
    text = file.read_text()
    assert 'cflags = ["-O2"]' in text
    file.write_text(text.replace('cflags = ["-O2"]', f'cflags = ["-O2", "{flag}"]'))
    return load_board(copy)


Change = Callable[[bytes], bytes]
"""What becomes of one frame on its way, delimiters included."""


def same(frame: bytes) -> bytes:
    """Let a frame through."""
    return frame


class FaultyLine:
    """A line between host and agent that can change one frame on its way.

    Attributes:
        port: where the host connects.
        requests: frames that the host has sent, in order, before any change.
        replies: frames that the agent has sent, likewise.
    """

    def __init__(self, agent_port: str) -> None:
        """Connect to the agent and wait for one host."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = _url(self._listener.getsockname())
        self.requests: list[Frame] = []
        self.replies: list[Frame] = []
        self._agents = [_connect(agent_port)]  # the last one is the present one
        self._wake, self._waker = os.pipe()
        self._to_agent = same
        self._to_host = same
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def change_request(self, change: Change) -> None:
        """Change the next frame to the agent; those that follow go through."""
        self._to_agent = change

    def change_reply(self, change: Change) -> None:
        """Change the next frame to the host; those that follow go through."""
        self._to_host = change

    def reconnect(self, agent_port: str) -> None:
        """Lead to another agent from now on, without a word to the host."""
        self._agents.append(_connect(agent_port))
        os.write(self._waker, b"!")

    def close(self) -> None:
        """Hang up on both sides."""
        os.write(self._waker, b".")
        self._thread.join(10)
        for end in (self._listener, *self._agents):
            end.close()
        os.close(self._wake)
        os.close(self._waker)

    def __enter__(self) -> FaultyLine:
        """Return the line."""
        return self

    def __exit__(self, *_: object) -> None:
        """Hang up."""
        self.close()

    def _run(self) -> None:
        with self._listener.accept()[0] as host:
            upward, downward = _Cutter(), _Cutter()
            while True:
                agent = self._agents[-1]
                ready, _, _ = select.select([host, agent, self._wake], [], [])
                if self._wake in ready and os.read(self._wake, 1) == b".":
                    return
                if host in ready:
                    try:
                        data = host.recv(65536)
                    except ConnectionResetError:  # it has hung up before it read all
                        return
                    if not data:
                        return
                    for frame in upward.cut(data):
                        self.requests += _decoded(frame)
                        change, self._to_agent = self._to_agent, same
                        agent.sendall(change(frame))
                if agent in ready and agent is self._agents[-1]:
                    for frame in downward.cut(_received(agent)):
                        self.replies += _decoded(frame)
                        change, self._to_host = self._to_host, same
                        try:
                            host.sendall(change(frame))
                        except ConnectionError:  # it has hung up, and waits for nothing more
                            return


class _Cutter:
    """Cuts a stream into frames; each begins and ends with a delimiter."""

    def __init__(self) -> None:
        self._rest = b""

    def cut(self, data: bytes) -> Iterator[bytes]:
        *pieces, self._rest = (self._rest + data).split(b"\0")
        return (b"\0" + piece + b"\0" for piece in pieces if piece)


def _connect(port: str) -> socket.socket:
    host, _, number = port.removeprefix("socket://").rpartition(":")
    return socket.create_connection((host, int(number)), timeout=10)


def _received(agent: socket.socket) -> bytes:
    """Return what an agent has sent; of one that has died, nothing, ever again."""
    with contextlib.suppress(ConnectionResetError):
        if data := agent.recv(65536):
            return data
    threading.Event().wait(0.01)
    return b""


def _decoded(frame: bytes) -> list[Frame]:
    try:
        return [decode_frame(frame[1:-1])]
    except BadFrame:
        return []
