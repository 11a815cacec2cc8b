# SPDX-License-Identifier: Apache-2.0
"""TCP to an agent that listens: ``socket://HOST:PORT``."""

from __future__ import annotations

import socket
from collections.abc import Callable

from boardprof.base.connection import FORMS
from boardprof.base.errors import BoardError, UsageError
from boardprof.wire.transport.base import DescriptorTransport, Transport, unknown_time
from boardprof.wire.transport.keyed import seal, without_key

SCHEME = "socket://"
"""The prefix that distinguishes a TCP port from a device path."""


def parse_socket_url(port: str) -> tuple[str, int]:
    """Take ``socket://HOST:PORT`` apart."""
    host, _, number = port.removeprefix(SCHEME).rpartition(":")
    if not port.startswith(SCHEME) or not host or not number.isdecimal() or int(number) > 65535:
        raise UsageError(f"{port!r} is not a port", hint=f"give {FORMS}")
    return host.strip("[]"), int(number)


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
    *,
    close: Callable[[], None] | None = None,
    explain_loss: Callable[[], str] = str,
    has_ended: Callable[[], bool] = bool,
    printed: Callable[[], str] = str,
    board_s: Callable[[], float | None] = unknown_time,
) -> DescriptorTransport:
    """Make a transport of a connected TCP socket, without Nagle's delay."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close_all() -> None:
        connection.close()
        if close is not None:
            close()

    return DescriptorTransport(
        connection.fileno(),
        name,
        close_all,
        explain_loss=explain_loss,
        has_ended=has_ended,
        printed=printed,
        board_s=board_s,
    )


def connect_tcp(port: str, timeout_s: float, key: bytes | None = None) -> Transport:
    """Connect to ``socket://HOST:PORT`` as a transport; both sides must have the key, if any.

    ``timeout_s``: longest time to connect, and then for the key. Without a key, `read` raises
    AuthenticationError when the agent asks for one.
    """
    stream = stream_of(connect_socket(port, timeout_s), port)
    return without_key(stream) if key is None else seal(stream, key, timeout_s)
