# SPDX-License-Identifier: Apache-2.0
"""From a board's name to a session with it: which transport, and what must be started first."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import msgpack

from boardprof.board.board import Board
from boardprof.board.describe import fetch_dictionary
from boardprof.boards.board_file import BOARD_FILE, BoardSpec
from boardprof.boards.determinism import played_by
from boardprof.boards.finding import (
    board_spec,
    default_board,
    find_boards,
    unnamed_board,
    what_it_says,
)
from boardprof.boards.launch import DEFAULT_BAUD
from boardprof.boards.placeholders import filled
from boardprof.decode.dictionary import Dictionary
from boardprof.decode.schemas import layouts_for
from boardprof.elf.image_machine import check_image
from boardprof.elf.locate import Locator
from boardprof.errors import BoardError, BoardprofError, BoardTimeoutError, UsageError
from boardprof.link.claim import make_claim
from boardprof.link.locks import EmulatorLock, sweep
from boardprof.link.session import Session, Welcome
from boardprof.link.silence import DEFAULT_LIMIT_S
from boardprof.progress import activity
from boardprof.toolchain.cache import cache_root
from boardprof.transport.base import Transport
from boardprof.transport.behind import commands_behind

__all__ = ["DEFAULT_LIMIT_S", "DEFAULT_TIMEOUT_S", "attach", "connect", "guard_calls", "open_line"]

DEFAULT_TIMEOUT_S = 30.0
"""Longest silence within a call of a board that does not guard calls. A measurement is not silent.
"""

_GUARD = "bp.guard"
_GRACE_S = 5.0
"""How much later than its limit a board may say that it has stopped a call."""

_WALL_S = 30.0
"""Longest wall time of a call on an emulated board."""

_HELLO_TIMEOUT_S = 10.0
_LONGEST_S = 1e6
"""Longest time-out that is taken; some waits of the system know no longer one."""


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
        takeover: take the board even if another host has it; that host is told by whom.
        key_file: file with the key that the agent at a TCP port asks for, readable by its owner
            alone. None takes the key from the environment variable BOARDPROF_KEY, if it is there.
        clock: ``measured``, ``declared`` or ``simulated``, whatever the board's file says; None: as
            that says, but simulated where the other end of the port is an emulator of this machine.
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
    hello_s = _HELLO_TIMEOUT_S if timeout_s is None else timeout_s
    for name, given_s in (("timeout_s", timeout_s), ("wall_timeout_s", wall_timeout_s)):
        if given_s is not None and not 0 < given_s <= _LONGEST_S:
            raise UsageError(f"{name}={given_s} is out of range: above 0, to {_LONGEST_S:,.0f}.")
    if port is None:
        # To load an image and boot takes its time, however short a call shall be.
        hello_s = max(hello_s, _HELLO_TIMEOUT_S)
        _check_line(spec, baud, key_file)
        image = image or _build(spec)
    if image is not None:
        _check_image(Path(image), spec)
    transport = open_line(
        spec,
        port,
        image=image,
        baud=baud,
        timeout_s=hello_s,
        key_file=key_file,
        on_note=on_note,
    )
    return attach(
        spec,
        transport,
        image=image,
        hello_s=hello_s,
        timeout_s=timeout_s,
        wall_timeout_s=wall_timeout_s,
        takeover=takeover,
        clock=clock,
        behind=() if port is None or clock is not None else commands_behind(port),
        on_console=on_console,
        is_of_this_host=port is None and spec.build.arch == "posix",
        is_started=port is None,
    )


def attach(
    spec: BoardSpec,
    transport: Transport,
    *,
    image: str | Path | None = None,
    hello_s: float = _HELLO_TIMEOUT_S,
    timeout_s: float | None = None,
    wall_timeout_s: float | None = None,
    takeover: bool = False,
    clock: str | None = None,
    behind: Sequence[Sequence[str]] = (),
    on_console: Callable[[str], None] | None = None,
    is_of_this_host: bool = False,
    is_started: bool = False,
) -> Board:
    """Begin a session over an open transport; closes it when that fails. Raises as `connect`.

    ``is_started``: the board was started here; ``is_of_this_host``: as a program of this machine;
    ``behind``: the command lines of the programs at the line's other end, where they are known.
    """
    claim = make_claim(takeover=takeover)
    session = Session(transport, timeout_s=hello_s, claim=claim, on_console=on_console)
    try:
        session.locate = Locator(Path(image)) if image is not None else None
        welcome = _opened(session, spec, is_started=is_started)
        dictionary = fetch_dictionary(session, cache_root() / "dictionaries")
        spec = what_it_says(spec, dictionary.board)
        if dictionary.board != spec.name:
            raise BoardError(
                f"The agent at {transport.name} is of the board {dictionary.board!r}, "
                f"not {spec.name!r}.",
                hint=f"give -b {dictionary.board}, or no -b, or the port of the other board",
            )
        spec = played_by(spec, behind)
        if clock is not None:
            spec = replace(spec, clock=replace(spec.clock, kind=clock, emulated=False))
        guard_calls(session, dictionary, spec, timeout_s, wall_timeout_s)
        layouts = layouts_for(spec.folder)
        board = Board(spec, session, welcome, dictionary, layouts, is_started=is_started)
        if image is not None:
            board.know_image(Path(image), is_of_this_host=is_of_this_host)
        return board
    except BaseException:
        session.close()
        raise


def _opened(session: Session, spec: BoardSpec, *, is_started: bool) -> Welcome:
    """Begin the session; of a board that was started here, there is no wire to check."""
    try:
        return session.open()
    except BoardTimeoutError as error:
        if is_started:
            error.hint = (
                f"see whether launch.command in {spec.folder / BOARD_FILE} starts the machine that "
                "the firmware is built for, and has its serial port where the firmware looks for it"
            )
        raise


def guard_calls(
    session: Session,
    dictionary: Dictionary,
    spec: BoardSpec,
    timeout_s: float | None,
    wall_timeout_s: float | None = None,
) -> None:
    """Tell the board how long a call may take, and wait for each until that is surely over.

    So it is the board that ends a call which hangs, and not the host that gives the board up. An
    emulator may be too slow to come so far within the wall's limit, which is the host's.

    Args:
        session: that has begun.
        dictionary: what the board offers.
        spec: its description.
        timeout_s: the limit, in seconds of the board's clock; see `DEFAULT_LIMIT_S` when None. Of
            an agent that does not guard calls, the longest silence; see `DEFAULT_TIMEOUT_S`.
        wall_timeout_s: the limit in wall time; see `connect`.
    """
    function = next((f for f in dictionary.functions if f.name == _GUARD), None)
    limit_s: float | None = None
    if function is None:
        surely_s = DEFAULT_TIMEOUT_S if timeout_s is None else timeout_s
    else:
        limit_s = DEFAULT_LIMIT_S if timeout_s is None else timeout_s
        surely_s = limit_s * spec.clock.time_scale + _GRACE_S
        limit_ms = min(max(1, math.ceil(limit_s * 1000)), 0xFFFFFFFF)
        # The limit is the functions' alone: this call takes as long as the line does.
        packed = msgpack.packb(limit_ms)
        session.call(function.id, packed, 1, name=_GUARD, timeout_s=_HELLO_TIMEOUT_S)
    wall_s = wall_timeout_s
    if wall_s is None and spec.clock.is_emulated:
        is_long = timeout_s is not None and timeout_s > DEFAULT_LIMIT_S
        wall_s = max(surely_s, _WALL_S) if is_long else _WALL_S
    # A guarded emulator that prints is slower than its time_scale says, and its clock is looked at.
    is_walls = wall_s is not None and (
        wall_s <= surely_s or (spec.clock.is_emulated and limit_s is not None)
    )
    longest_s = wall_s if wall_s is not None and is_walls else surely_s
    session.limit(
        longest_s, limit_s=limit_s, surely_s=surely_s, wall_s=longest_s if is_walls else None
    )


def open_line(
    spec: BoardSpec,
    port: str | None = None,
    *,
    image: str | Path | None = None,
    baud: int | None = None,
    timeout_s: float = _HELLO_TIMEOUT_S,
    key_file: str | Path | None = None,
    on_note: Callable[[str], None] | None = None,
) -> Transport:
    """Open the line to a board, without a word to it; `attach` begins a session over it.

    Args:
        spec: the board.
        port: as for `connect`; None starts the board.
        image: the firmware to start; None builds the agent alone.
        baud: of a serial port; the board's own rate when None.
        timeout_s: longest time to start the board or to connect, and then for the key.
        key_file: as for `connect`.
        on_note: as for `connect`.

    Raises:
        BoardprofError: as `connect`.
    """
    if port is None:
        _check_line(spec, baud, key_file)
        return _start(spec, Path(image or _build(spec)), timeout_s, on_note)
    return _open_port(spec.at_port(), port, baud, timeout_s, key_file)


def _check_line(spec: BoardSpec, baud: int | None, key_file: str | Path | None) -> None:
    """Refuse what would mean nothing to a board that is started."""
    for value, what in ((baud, "a baud rate"), (key_file, "a key file")):
        if value is not None:
            raise UsageError(
                f"{spec.name} is started here, and its line has no use for {what}.",
                hint="give -p PORT, or leave it out",
            )


def _check_image(image: Path, spec: BoardSpec) -> None:
    """See that an image is for the board's machine; a board that lacks something is no hint."""
    check_image(image, spec, _all_boards())


def _all_boards() -> Iterator[BoardSpec]:
    for name in sorted(find_boards()):
        with contextlib.suppress(BoardprofError):
            yield board_spec(name)


def _open_port(
    spec: BoardSpec, port: str, baud: int | None, timeout_s: float, key_file: str | Path | None
) -> Transport:
    if "://" in port:
        if baud is not None:
            raise UsageError(f"{port} has no baud rate.", hint="leave --baud out")
        from boardprof.transport.finding import packages_transport
        from boardprof.transport.sealed import read_key
        from boardprof.transport.tcp import SCHEME, connect_tcp

        elsewhere = None if port.startswith(SCHEME) else packages_transport(port)
        if elsewhere is not None:
            if key_file is not None:
                raise UsageError(f"{port} has no key.", hint="leave --key-file out")
            return elsewhere(port, timeout_s)
        return connect_tcp(port, timeout_s, read_key(key_file))
    if key_file is not None:
        raise UsageError(f"{port} is a serial port, which has no key.", hint="leave --key-file out")
    from boardprof.transport.serial import connect_serial

    return connect_serial(port, baud or spec.launch.baud or DEFAULT_BAUD)


def _build(spec: BoardSpec) -> Path:
    _check_startable(spec)
    from boardprof.firmware.builder import build

    return build(spec).image


def _check_startable(spec: BoardSpec) -> None:
    if spec.launch.kind == "serial":
        raise BoardError(
            f"{spec.name} is a board on a wire and needs a port.",
            hint="give -p PORT: a device path or socket://HOST:PORT",
        )


def _start(
    spec: BoardSpec, image: Path, timeout_s: float, on_note: Callable[[str], None] | None
) -> Transport:
    _check_startable(spec)
    launch = spec.launch
    running = cache_root() / "running"
    sweep(running)
    if launch.kind == "library":
        from boardprof.transport.inprocess import connect_library

        return connect_library(image)
    from boardprof.transport.child import spawn_and_accept, spawn_and_connect

    # Whoever meets the child puts the port in.
    values = {"image": os.fspath(image), "port": "{port}"}
    if launch.simulator is not None:
        from boardprof.firmware.simulator import build_simulator

        simulator = build_simulator(spec, launch.simulator, on_note=on_note)
        values["simulator"] = os.fspath(simulator)
    command = filled(launch.command, values)
    spawn = spawn_and_accept if launch.listen == "host" else spawn_and_connect
    with activity(f"starting {spec.name}"):
        return spawn(
            command,
            launch.package,
            timeout_s,
            lock=EmulatorLock(running, spec.name),
            is_emulator=spec.clock.is_emulated,
        )
