# SPDX-License-Identifier: Apache-2.0
"""Lines over sockets: TCP, the RTT server of a debug probe, and an agent in this process."""

from __future__ import annotations

import _ctypes
import contextlib
import ctypes
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from boardprof.base.connection import BRACKETS, FORMS, host_and_port
from boardprof.base.errors import BoardError, UsageError
from boardprof.base.files import check_runnable
from boardprof.wire.transport.base import DescriptorTransport, Transport
from boardprof.wire.transport.keyed import UnkeyedTransport, seal

SCHEME = "socket://"
"""The prefix that distinguishes a TCP port from a device path."""

RTT_SCHEME = "rtt://"
"""The prefix of a port that is an RTT server, such as OpenOCD's."""

_RTT_SERVERS = "in OpenOCD: rtt server start PORT 0; J-Link's has port 19021"


def parse_socket_url(port: str) -> tuple[str, int]:
    """Take ``socket://HOST:PORT`` apart."""
    found = host_and_port(port.removeprefix(SCHEME))
    if not port.startswith(SCHEME) or found is None:
        raise UsageError(f"{port!r} is not a port", hint=f"give {FORMS}; {BRACKETS}")
    return found


def connect_socket(
    port: str,
    timeout_s: float,
    name: str = "",
    hint: str = "start the agent there, or check host and port",
    what: str = "board",
) -> socket.socket:
    """Connect to ``socket://HOST:PORT``; an error has the port's ``name`` if it has another."""
    address = parse_socket_url(port)
    try:
        return socket.create_connection(address, timeout=timeout_s)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BoardError(f"No {what} at {name or port}: {reason}.", hint=hint) from error


def stream_of(
    connection: socket.socket, name: str, close: Callable[[], object] = lambda: None, **reports: Any
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
    return UnkeyedTransport(stream) if key is None else seal(stream, key, timeout_s)


# -- an agent as a shared library in this process, on its own thread -------------------------------

ENTRY_POINT = "bp_native_serve"
"""``int bp_native_serve(int fd)``: serve until the other end closes."""

_JOIN_S = 0.1


def connect_rtt(port: str, timeout_s: float) -> DescriptorTransport:
    """Connect to ``rtt://HOST:PORT`` within ``timeout_s``.

    Servers pass bytes as they are, and some greet first. They also accept hosts when they have no
    control block yet: then nothing answers.
    """
    place = port.removeprefix(RTT_SCHEME)
    if host_and_port(place) is None:
        raise UsageError(f"{port!r} is not a port.", hint="rtt://HOST:PORT of an RTT server")
    hint = f"start the RTT server ({_RTT_SERVERS}), or check host and port"
    return stream_of(connect_socket(SCHEME + place, timeout_s, port, hint), port)


def connect_library(library: Path) -> DescriptorTransport:
    """Load ``library`` and let its agent serve one end of a socket pair, on a daemon thread."""
    # A copy for each connection: the loader gives out one image for each file, with the static
    # memory of the connection before. A copy boots afresh.
    _unload()
    # A thread that outlives an earlier library may serve the next one, too, as a timer's does.
    before = _loaded[0][1] if _loaded else _tasks()
    with tempfile.TemporaryDirectory(prefix="boardprof-") as folder:
        copy = Path(shutil.copy(library, folder))
        try:
            loaded = ctypes.CDLL(str(copy))
            serve = loaded[ENTRY_POINT]
        except (OSError, AttributeError) as error:
            check_runnable(copy, "TMPDIR")
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
"""Each library that is loaded: its agent's thread, the tasks before all, the loader's handle."""

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
