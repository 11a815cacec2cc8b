# SPDX-License-Identifier: Apache-2.0
"""Lines over sockets: TCP, an agent that ssh runs on another machine, an agent in this process."""

from __future__ import annotations

import _ctypes
import contextlib
import ctypes
import math
import os
import shlex
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urlsplit

from boardprof.base.connection import BRACKETS, FORMS, host_and_port
from boardprof.base.errors import BoardError, MissingToolError, UsageError
from boardprof.wire.transport.base import DescriptorTransport, Transport
from boardprof.wire.transport.keyed import seal, without_key

SCHEME = "socket://"
"""The prefix that distinguishes a TCP port from a device path."""


def parse_socket_url(port: str) -> tuple[str, int]:
    """Take ``socket://HOST:PORT`` apart."""
    found = host_and_port(port.removeprefix(SCHEME))
    if not port.startswith(SCHEME) or found is None:
        raise UsageError(f"{port!r} is not a port", hint=f"give {FORMS}; {BRACKETS}")
    return found


def connect_socket(port: str, timeout_s: float) -> socket.socket:
    """Connect to ``socket://HOST:PORT``."""
    address = parse_socket_url(port)
    try:
        return socket.create_connection(address, timeout=timeout_s)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BoardError(
            f"No board at {port}: {reason}.", hint="start the agent there, or check host and port"
        ) from error


def stream_of(
    connection: socket.socket,
    name: str,
    close: Callable[[], object] = lambda: None,
    **reports: Any,
) -> DescriptorTransport:
    """Make a transport of a connected TCP socket, without Nagle's delay.

    ``close`` is called after the socket was closed; ``reports`` as for `DescriptorTransport`.
    """
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close_all() -> None:
        connection.close()
        close()

    return DescriptorTransport(connection, name, close_all, **reports)


def connect_tcp(port: str, timeout_s: float, key: bytes | None = None) -> Transport:
    """Connect to ``socket://HOST:PORT`` as a transport; both sides must have the key, if any.

    ``timeout_s``: longest time to connect, and then for the key. Without a key, `read` raises
    AuthenticationError when the agent asks for one.
    """
    stream = stream_of(connect_socket(port, timeout_s), port)
    return without_key(stream) if key is None else seal(stream, key, timeout_s)


# -- an agent that ssh runs: no port is open on its machine ----------------------------------------

_FORM = "ssh://USER@HOST/PATH-OF-AGENT; /~/ begins a path in the home folder"
_FIRST_LINE = b"listening on standard input\n"
_MOST_BEFORE = 1 << 16
_END_S = 3.0


@dataclass(frozen=True)
class SshAgent:
    """An agent's program on another machine."""

    host: str  # with the user if one is given
    number: int | None  # TCP port of its ssh server; None for ssh's own configuration
    program: str  # path of the agent there

    def command(self, timeout_s: float) -> list[str]:
        """Return the command that runs it. ssh asks nothing: it uses keys, or fails."""
        options = ["-T", "-oBatchMode=yes", f"-oConnectTimeout={math.ceil(timeout_s)}"]
        options += [] if self.number is None else ["-p", f"{self.number}"]
        return ["ssh", *options, "--", self.host, f"exec {shlex.quote(self.program)} --stdio"]


def parse_ssh_url(port: str) -> SshAgent:
    """Take ``ssh://[USER@]HOST[:PORT]/PATH`` apart."""
    try:
        url = urlsplit(port)
        number = url.port
    except ValueError as error:
        raise UsageError(f"{port!r} is not a port: {error}.", hint=_FORM) from error
    path = unquote(url.path)
    program = path.removeprefix("/~/")
    if not url.hostname or not program.strip("/") or url.query or url.password or "\0" in path:
        raise UsageError(f"{port!r} is not a port.", hint=_FORM)
    host = f"{url.username}@{url.hostname}" if url.username else url.hostname
    return SshAgent(host, number, program)


def connect_ssh(port: str, timeout_s: float) -> DescriptorTransport:
    """Run an agent through ssh. It ends when the transport is closed, or the connection breaks."""
    agent = parse_ssh_url(port)
    ours, theirs = socket.socketpair()
    errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the transport)
    try:
        end = theirs.fileno()
        child = subprocess.Popen(agent.command(timeout_s), stdin=end, stdout=end, stderr=errors)
    except OSError as error:
        ours.close()
        errors.close()
        raise MissingToolError("ssh", "openssh-client") from error
    finally:
        theirs.close()

    def close() -> None:
        ours.close()
        child.terminate()
        try:
            child.wait(_END_S)
        except subprocess.TimeoutExpired:
            child.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):  # the kernel may still hold it
                child.wait(_END_S)
        errors.close()

    try:
        _await_agent(ours, port, timeout_s, errors)
    except BaseException:
        close()
        raise
    return DescriptorTransport(
        ours,
        port,
        close,
        explain_loss=lambda: _text_of(errors),
        has_ended=lambda: child.poll() is not None,
        printed=lambda: _text_of(errors),
    )


def _await_agent(line: socket.socket, port: str, timeout_s: float, errors: IO[bytes]) -> None:
    """Wait for the agent's first line; a shell may print something before it."""
    deadline, seen = time.monotonic() + timeout_s, b""
    while not seen.endswith(_FIRST_LINE):
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise BoardError(
                f"No board at {port}: no agent has started within {timeout_s:g} s.",
                hint="check that the program is an agent that knows --stdio, and that ssh is quick",
            )
        line.settimeout(left_s)
        try:
            byte = line.recv(1)  # what follows belongs to the session
        except TimeoutError:
            continue
        seen = (seen + byte)[-_MOST_BEFORE:]
        if not byte:
            why = _text_of(errors) or "ssh ended without a message"
            raise BoardError(
                f"No board at {port}: {why}",
                hint="try ssh alone with this host; `boardprof build` builds an agent",
            )


def _text_of(file: IO[bytes]) -> str:
    if file.closed:
        return ""
    file.seek(0)
    return file.read(_MOST_BEFORE).decode(errors="replace").strip()


# -- an agent as a shared library in this process, on its own thread -------------------------------

ENTRY_POINT = "bp_native_serve"
"""``int bp_native_serve(int fd)``: serve until the other end closes."""

_JOIN_S = 0.5


def connect_library(library: Path) -> DescriptorTransport:
    """Load ``library`` and let its agent serve one end of a socket pair, on a daemon thread."""
    # A copy for each connection: the loader gives out one image for each file, with the static
    # memory of the connection before. A copy boots afresh.
    _unload()
    before = _tasks()
    with tempfile.TemporaryDirectory(prefix="boardprof-") as folder:
        copy = Path(shutil.copy(library, folder))
        try:
            loaded = ctypes.CDLL(str(copy))
            serve = loaded[ENTRY_POINT]
        except (OSError, AttributeError) as error:
            raise BoardError(
                f"{library.name} cannot be loaded as a board: {error}",
                hint="build it again for this machine",
            ) from error
    ours, theirs = socket.socketpair()
    thread = threading.Thread(
        target=_serve, args=(serve, theirs), name="boardprof agent", daemon=True
    )
    thread.start()
    _loaded.append((thread, before, loaded._handle))

    def close() -> None:
        with contextlib.suppress(OSError):
            ours.shutdown(socket.SHUT_RDWR)
        ours.close()
        thread.join(_JOIN_S)
        _unload()

    return DescriptorTransport(ours, f"in-process:{library.name}", close)


def _serve(serve: Callable[[int], int], end: socket.socket) -> None:
    serve(end.fileno())
    with contextlib.suppress(OSError):  # a function that it ran may have closed it
        end.close()


_loaded: list[tuple[threading.Thread, set[int], int]] = []
"""Each library that is loaded: its agent's thread, the tasks before it, and the loader's handle."""

_unloading = threading.Lock()


def _unload() -> None:
    """Unload the libraries that no thread can be in; ctypes never does.

    The functions that an agent ran may have started threads that outlive it, such as OpenMP's.
    """
    with _unloading:
        ours = {thread.native_id for thread in threading.enumerate()}
        for each in [*_loaded]:
            thread, before, handle = each
            if not thread.is_alive() and not _tasks() - before - ours:
                _loaded.remove(each)
                _ctypes.dlclose(handle)


def _tasks() -> set[int]:
    """Return the threads of this process, also those that Python does not know."""
    return set(map(int, os.listdir("/proc/self/task")))
