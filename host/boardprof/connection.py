# SPDX-License-Identifier: Apache-2.0
"""Connect to a board by its name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from boardprof.board.board import Board
from boardprof.board.open_board import open_board
from boardprof.boards.board_file import BoardSpec
from boardprof.boards.board_lookup import board_spec, default_board, unnamed_board


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
        board: its name; None takes the default board, which needs no port and no emulator, and at
            a port whatever the agent there says that it is, be it known by name or not.
        port: a device path or ``socket://HOST:PORT`` of an agent that runs already, or what
            another package's transport knows by its scheme. None starts
            the board: loads it into this process, or starts its emulator. A board that has both, an
            emulator and ``[port]``, is the real one at any port.
        image: the firmware to start; None builds the agent alone, without functions. With a port:
            the firmware that runs there, in which source lines of faults are looked up.
        baud: of a serial port; the board's own rate when None.
        timeout_s: longest time that a call may take, and each round of a measurement, in seconds of
            the board's clock, after which the board stops it; 10 s when None. On a board that does
            not guard its calls, the longest silence within one; 30 s when None. The handshake at a
            port has as long, 10 s when None; a board that is started has 10 s at least.
        wall_timeout_s: the same in wall time, after which the host gives the call up, and ends the
            emulator if it was started here. When None, 30 s on emulated boards, or more if
            ``timeout_s`` is more than 10 s; none on others.
        takeover: take the board even if another host has it; that host learns who took it.
        key_file: file with the key that the agent at a TCP port asks for, readable by its owner
            alone. None takes the key from the environment variable BOARDPROF_KEY, if it is there.
        clock: ``measured``, ``declared`` or ``simulated``, overriding the board's file. None: as
            that says, but simulated where the other end of the port is an emulator of this machine,
            and in Reports whose cycles are those of an emulator.
        on_console: gets each line that the board prints beside its frames, as it comes.
        on_note: gets what takes its time, such as that the board's simulator is built.

    Raises:
        UnknownNameError: no such board.
        UsageError: the time-out is out of range; a rate or a key where the line has none; the
            image is for another machine.
        BoardError: nothing at the port, denied, or another board there.
        BusyError: another host has it.
        AuthenticationError: the agent asks for a key and there is none, or it has another one, or
            none at all.
        BoardTimeoutError: the board does not answer.
        LinkError: it speaks another protocol or has other layouts.
        BuildError: the firmware or the board's simulator could not be built.
    """
    if board is None:
        spec = default_board() if port is None else unnamed_board()
    else:
        spec = board_spec(board) if isinstance(board, str) else board
        spec = spec if port is None else spec.at_port()
    return open_board(
        spec,
        port,
        image=image,
        baud=baud,
        timeout_s=timeout_s,
        wall_timeout_s=wall_timeout_s,
        takeover=takeover,
        key_file=key_file,
        clock=clock,
        on_console=on_console,
        on_note=on_note,
        make_image=agent_alone,
    )


def agent_alone(spec: BoardSpec) -> Path:
    """Build a board's agent without functions; return the image."""
    from boardprof.firmware.builder import build  # later: to know a compiler takes its time

    return build(spec).image
