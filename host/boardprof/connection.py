# SPDX-License-Identifier: Apache-2.0
"""From a board's name to a session with it: which transport, and what must be started first."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from boardprof.board import Board
from boardprof.board_file import BoardSpec
from boardprof.boards import board_spec, default_board
from boardprof.cache import cache_root
from boardprof.describe import fetch_dictionary
from boardprof.errors import BoardError
from boardprof.schemas import layouts_for
from boardprof.session import Session
from boardprof.transport.base import Transport

__all__ = ["DEFAULT_TIMEOUT_S", "attach", "connect"]

DEFAULT_TIMEOUT_S = 30.0
"""Longest silence of a board within a call. A measurement under way is not silent."""

_HELLO_TIMEOUT_S = 10.0
_DEFAULT_BAUD = 115200


def connect(
    board: str | BoardSpec | None = None,
    port: str | None = None,
    *,
    image: str | Path | None = None,
    baud: int | None = None,
    timeout_s: float | None = None,
    on_console: Callable[[bytes], None] | None = None,
) -> Board:
    """Connect to a board.

    Args:
        board: its name; None takes the default board, which needs no port and no emulator.
        port: a device path or ``socket://HOST:PORT`` of an agent that runs already. None starts
            the board: loads it into this process, or starts its emulator.
        image: the firmware to start; None builds the agent alone, without functions.
        baud: of a serial port; the board's own rate when None.
        timeout_s: longest silence, of the handshake too; 10 s there and 30 s in calls when None.
        on_console: gets what the board prints beside its frames, as it comes.

    Raises:
        UnknownNameError: no such board.
        BoardError: nothing at the port, busy, denied, or another board there.
        BoardTimeoutError: the board does not answer.
        LinkError: it speaks another protocol or has other layouts.
        BuildError: the firmware could not be built.
    """
    spec = (
        default_board() if board is None else board_spec(board) if isinstance(board, str) else board
    )
    hello_s = _HELLO_TIMEOUT_S if timeout_s is None else timeout_s
    if port is not None:
        transport = _open_port(spec, port, baud, hello_s)
    else:
        transport = _start(spec, image, hello_s)
    return attach(spec, transport, hello_s=hello_s, timeout_s=timeout_s, on_console=on_console)


def attach(
    spec: BoardSpec,
    transport: Transport,
    *,
    hello_s: float = _HELLO_TIMEOUT_S,
    timeout_s: float | None = None,
    on_console: Callable[[bytes], None] | None = None,
) -> Board:
    """Begin a session over an open transport; closes it when that fails. Raises as `connect`."""
    session = Session(transport, timeout_s=hello_s, on_console=on_console)
    try:
        welcome = session.open()
        session.timeout_s = DEFAULT_TIMEOUT_S if timeout_s is None else timeout_s
        dictionary = fetch_dictionary(session, cache_root() / "dictionaries")
        if dictionary.board != spec.name:
            raise BoardError(
                f"The agent at {transport.name} is of the board {dictionary.board!r}, "
                f"not {spec.name!r}.",
                hint=f"give -b {dictionary.board}, or the port of the other board",
            )
        return Board(spec, session, welcome, dictionary, layouts_for(spec.folder))
    except BaseException:
        session.close()
        raise


def _open_port(spec: BoardSpec, port: str, baud: int | None, timeout_s: float) -> Transport:
    if "://" in port:
        from boardprof.transport.tcp import connect_tcp

        return connect_tcp(port, timeout_s)
    from boardprof.transport.serial import connect_serial

    return connect_serial(port, baud or spec.launch.baud or _DEFAULT_BAUD)


def _start(spec: BoardSpec, image: str | Path | None, timeout_s: float) -> Transport:
    launch = spec.launch
    if launch.kind == "serial":
        raise BoardError(
            f"{spec.name} is a board on a wire and needs a port.",
            hint="give -p PORT: a device path or socket://HOST:PORT",
        )
    if image is None:
        from boardprof.builder import build

        image = build(spec).image
    if launch.kind == "library":
        from boardprof.transport.inprocess import connect_library

        return connect_library(Path(image))
    from boardprof.transport.child import spawn_and_accept, spawn_and_connect

    command = [part.replace("{image}", os.fspath(image)) for part in launch.command]
    spawn = spawn_and_accept if launch.listen == "host" else spawn_and_connect
    return spawn(command, launch.package, timeout_s)
