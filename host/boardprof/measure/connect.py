# SPDX-License-Identifier: Apache-2.0
"""Connect to a board by its name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from boardprof.base.connection import Connection
from boardprof.measure.session.board import Board
from boardprof.measure.session.open_board import open_board
from boardprof.target.descriptions.board import BoardSpec, board_spec, default_board, unnamed_board


def connect(
    board: str | BoardSpec | None = None,
    port: str | None = None,
    *,
    image: str | Path | None = None,
    baud: int | None = None,
    timeout_s: float | None = None,
    wall_timeout_s: float | None = None,
    takeover: bool = False,
    key_file: str | Path | None = None,
    clock: str | None = None,
    on_console: Callable[[str], None] | None = None,
    on_note: Callable[[str], None] | None = None,
) -> Board:
    """Connect to a board.

    Args:
        board: its name. None takes the default board, which needs no port and no emulator; at a
            port, it takes the board that the agent there reports, even if its name is unknown.
        port: where an agent runs: a device path, ``HOST:PORT``, ``auto`` for the only board that is
            found, or a URL: ``socket://``, ``ssh://``, ``rfc2217://``, ``hwgrep://``, ``spy://``,
            or one of another package's transport. None starts the board: loads it into this
            process, or starts its emulator. If a board has both an emulator and ``[port]``, it is
            the real one at any port.
        image: the firmware to start; None builds the agent alone, without functions. With a port,
            the firmware that runs there, for types, source lines and sizes of stack frames.
        baud: of a serial port; None for the board's own rate.
        timeout_s: longest time of a call, and of each round of a measurement, in seconds of the
            board's clock. Then the board stops the call. None for 10 s. If the board does not
            guard its calls, the longest silence within a call; None for 30 s. It also limits the
            handshake at a port; None for 10 s. A board that is started has at least 10 s.
        wall_timeout_s: the same in wall time. Then the host gives up the call, and ends the
            emulator if it was started here. None for 30 s on emulated boards, or more if
            ``timeout_s`` is more than 10 s; others have no wall limit.
        takeover: take the board even if another host has it; that host is informed.
        key_file: file with the key that the agent at a TCP port asks for, readable only by its
            owner. None takes the key from the environment variable BOARDPROF_KEY, if it is set.
        clock: ``measured``, ``declared`` or ``simulated``, overriding the board's file. If None,
            the clock is simulated if the other end of the port is an emulator of this machine, and
            in Reports with an emulator's cycles.
        on_console: gets each line that the board prints between its frames.
        on_note: gets notes about slow steps, such as building the board's simulator, and a note if
            the image has no build id, so that it cannot be checked that the board runs it.

    Raises:
        UnknownNameError: no such board.
        UsageError: the timeout is out of range; the line has no baud rate or no key; the image is
            for another machine.
        BoardError: the port does not exist, access is denied, or another board is there.
        BusyError: another host has the board.
        AuthenticationError: the agent asks for a key and no key is given, or the keys differ, or
            the agent has no key.
        BoardTimeoutError: the board does not answer.
        BuildMismatchError: the board at the port runs another image.
        LinkError: the board has another protocol or other layouts.
        BuildError: the firmware or the board's simulator could not be built.
    """
    connection = Connection(
        port,
        baud,
        timeout_s=timeout_s,
        wall_timeout_s=wall_timeout_s,
        takeover=takeover,
        key_file=key_file,
        clock=clock,
        on_console=on_console,
        on_note=on_note,
    )
    return connect_by(connection, board, image)


def connect_by(
    connection: Connection,
    board: str | BoardSpec | None = None,
    image: str | Path | None = None,
) -> Board:
    """Connect to a board; see `connect`."""
    at_port = connection.port is not None
    if board is None:
        spec = unnamed_board() if at_port else default_board()
    else:
        spec = board_spec(board) if isinstance(board, str) else board
        spec = spec.at_port() if at_port else spec
    return open_board(spec, connection, image=image, make_image=agent_alone)


def agent_alone(spec: BoardSpec) -> Path:
    """Build a board's agent without functions; return the image."""
    from boardprof.target.build.builder import build  # later: it takes time to import

    return build(spec).image
