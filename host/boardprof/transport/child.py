# SPDX-License-Identifier: Apache-2.0
"""A board that is a child process, with a TCP port of its own: an emulator or a local agent."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from boardprof.errors import BoardError, BoardTimeoutError, MissingToolError
from boardprof.transport.base import DescriptorTransport
from boardprof.transport.tcp import SCHEME, connect_socket, stream_of

__all__ = ["ANNOUNCEMENT", "ChildProcess", "spawn_and_accept", "spawn_and_connect"]

ANNOUNCEMENT = "listening on "
"""What an agent that listens prints before its address, on a line of its own."""

_POLL_S = 0.005
_TERMINATE_S = 2.0


class ChildProcess:
    """A running child that does not outlive this process.

    Its output goes to a file, not to a pipe: a pipe that nobody empties would stop it.
    """

    def __init__(self, command: Sequence[str], package: str | None) -> None:
        """Start ``command``.

        Args:
            command: program and arguments.
            package: the Debian package that has the program, for the message when it is missing.

        Raises:
            MissingToolError: there is no such program.
        """
        program = shutil.which(command[0])
        if program is None:
            raise MissingToolError(command[0], package or command[0])
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as we do
        # A session of its own: Ctrl-C reaches us, and we end the child. The kernel ends it if we
        # are killed before we can. That goes by the thread that starts it, not by the process
        # (prctl(2), PR_SET_PDEATHSIG): a worker thread's child would be killed with the worker.
        found = shutil.which("setpriv")
        on_main = threading.current_thread() is threading.main_thread()
        guard = [found, "--pdeathsig", "KILL"] if found and on_main else []
        self._process = subprocess.Popen(
            [*guard, program, *command[1:]],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._finalizer = weakref.finalize(self, _end, self._process)
        self.name = Path(command[0]).name
        self.command = tuple(command)

    @property
    def running(self) -> bool:
        """Whether the child has not ended."""
        return self._process.poll() is None

    def output(self) -> str:
        """Return what the child has printed so far."""
        # Not seek and read: the position is the child's too, and it would go on writing there.
        descriptor = self._output.fileno()
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode(errors="replace")

    def explain(self) -> str:
        """Return what the child printed, and how it ended, as lines for an error message."""
        printed = self.output().strip()
        # The line may break a moment before the process is reaped.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.2)
        ended = "" if self.running else f"{self.name} ended {_how(self._process.returncode)}."
        return "\n".join(part for part in (ended, printed) if part)

    def close(self) -> None:
        """End the child and wait for it."""
        self._finalizer()
        self._output.close()


def _how(code: int) -> str:
    return f"with code {code}" if code >= 0 else f"by signal {-code} ({signal.strsignal(-code)})"


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_TERMINATE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(_TERMINATE_S)


def spawn_and_accept(
    command: Sequence[str], package: str | None, timeout_s: float
) -> DescriptorTransport:
    """Listen, start a child that connects to us, and accept it.

    The host listens, so that no byte is lost before someone reads and no two boards can want the
    same port. ``{port}`` in the command becomes the number.

    Raises:
        MissingToolError: the program is missing.
        BoardError: the child ended.
        BoardTimeoutError: it did not connect within ``timeout_s``.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(_POLL_S)
        port = listener.getsockname()[1]
        child = ChildProcess([part.replace("{port}", str(port)) for part in command], package)
        with _closed_on_error(child):
            connection = _accept(listener, child, timeout_s)
    name = f"{SCHEME}127.0.0.1:{port}"
    return _stream(child, connection, name)


def spawn_and_connect(
    command: Sequence[str], package: str | None, timeout_s: float
) -> DescriptorTransport:
    """Start a child that listens and says where, and connect to it.

    Raises:
        MissingToolError: the program is missing.
        BoardError: the child ended.
        BoardTimeoutError: it did not say where it listens within ``timeout_s``.
    """
    child = ChildProcess(command, package)
    with _closed_on_error(child):
        name = SCHEME + _announced(child, timeout_s)
        connection = connect_socket(name, timeout_s)
    return _stream(child, connection, name)


def _stream(child: ChildProcess, connection: socket.socket, name: str) -> DescriptorTransport:
    return stream_of(
        connection, name, close=child.close, explain_loss=child.explain, printed=child.output
    )


@contextlib.contextmanager
def _closed_on_error(child: ChildProcess) -> Iterator[None]:
    try:
        yield
    except BaseException:
        child.close()
        raise


def _accept(listener: socket.socket, child: ChildProcess, timeout_s: float) -> socket.socket:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        with contextlib.suppress(TimeoutError):
            return listener.accept()[0]
        if not child.running:
            raise _ended(child)
    raise BoardTimeoutError(
        f"{child.name} did not connect within {timeout_s:g} s.", console=child.output()
    )


def _announced(child: ChildProcess, timeout_s: float) -> str:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        running = child.running
        for line in child.output().splitlines(keepends=True):
            if line.startswith(ANNOUNCEMENT) and line.endswith("\n"):
                return line.removeprefix(ANNOUNCEMENT).strip()
        if not running:
            raise _ended(child)
        time.sleep(_POLL_S)
    raise BoardTimeoutError(
        f"{child.name} did not say where it listens within {timeout_s:g} s.",
        console=child.output(),
    )


def _ended(child: ChildProcess) -> BoardError:
    return BoardError(
        f"{child.name} ended before a board could be reached.\n{child.explain()}",
        hint="run it by hand: " + " ".join(child.command),
    )
