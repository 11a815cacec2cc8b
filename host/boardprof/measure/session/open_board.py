# SPDX-License-Identifier: Apache-2.0
"""A session with a board from its description: start the board if needed, connect, say HELLO."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgpack

from boardprof.base.connection import AUTO, FORMS, Connection, port_url, split_lines
from boardprof.base.errors import BoardError, BoardprofError, BoardTimeoutError, UsageError, option
from boardprof.base.processes import commands_behind, port_holders
from boardprof.base.progress import activity
from boardprof.measure.session.board import Board
from boardprof.measure.session.fetch_dictionary import fetch_dictionary
from boardprof.target.descriptions.board import (
    BOARD_FILE,
    BoardSpec,
    board_spec,
    find_boards,
    with_reported_board,
)
from boardprof.target.descriptions.launch import DEFAULT_BAUD, filled
from boardprof.target.elf.addresses import locate
from boardprof.target.elf.identity import check_image
from boardprof.target.toolchain.cache import cache_root
from boardprof.wire.decode.dictionary import Dictionary
from boardprof.wire.decode.schemas import layouts_for
from boardprof.wire.link.handshake import Welcome, make_claim
from boardprof.wire.link.no_answer import DEFAULT_LIMIT_S
from boardprof.wire.link.session import Session
from boardprof.wire.transport.base import Transport, packages_transport
from boardprof.wire.transport.emulator import EmulatorLock, sweep

if TYPE_CHECKING:
    from boardprof.target.build.firmware import BuiltFirmware

DEFAULT_TIMEOUT_S = 30.0
"""Longest silence within a call, if the board does not guard calls, in seconds.

A measurement sends progress, so it is not silent.
"""

_GUARD = "bp.guard"
_GRACE_S = 5.0
"""Longest delay of a board's report that it has stopped a call, in seconds."""

_WALL_S = 30.0
"""Longest wall time of a call on an emulated board."""

_HELLO_TIMEOUT_S = 10.0
_ASK_S = 2.0
_LONGEST_S = 1e6
"""Upper limit of timeouts, in seconds; some system calls do not accept longer ones."""

_DEFAULT = Connection()


def open_board(
    spec: BoardSpec,
    connection: Connection = _DEFAULT,
    *,
    image: str | Path | None = None,
    built: bytes | None = None,
    make_image: Callable[[BoardSpec], Path] | None = None,
) -> Board:
    """Begin a session with a board at a port, or start an image on it.

    Args:
        spec: the board.
        connection: without a port, the image is started.
        image: the firmware. Without a port it is needed, or ``make_image``.
        built: its build id, if it was built from the user's sources.
        make_image: builds the image to start, if ``image`` is None.

    Raises:
        BoardprofError: as `boardprof.connect`.
    """
    connection = _with_port(spec, connection)
    is_started = connection.port is None
    timeout_s = connection.timeout_s
    hello_s = _HELLO_TIMEOUT_S if timeout_s is None else timeout_s
    limits = (("timeout_s", timeout_s), ("wall_timeout_s", connection.wall_timeout_s))
    for name, given_s in limits:
        if given_s is not None and not 0 < given_s <= _LONGEST_S:
            raise UsageError(
                f"{name}={given_s} is out of range: it must be above 0 and at most "
                f"{_LONGEST_S:,.0f}."
            )
    if is_started:  # loading an image and booting take time, even if calls must be short
        hello_s = max(hello_s, _HELLO_TIMEOUT_S)
    transport, image = open_line(
        spec, connection, image=image, timeout_s=hello_s, make_image=make_image
    )
    board = attach(
        spec,
        transport,
        connection,
        image=image,
        built=built,
        hello_s=hello_s,
        is_of_this_host=is_started and spec.build.arch == "posix",
        is_started=is_started,
    )
    if is_started:
        again = replace(connection, takeover=False, clock=None)
        board.start_again = partial(open_board, connection=again, image=image)
    return board


def open_firmware(firmware: BuiltFirmware, connection: Connection = _DEFAULT) -> Board:
    """Start a built firmware, or connect to the board that runs it. Raises as `connect`."""
    board = open_board(
        firmware.board if connection.port is None else firmware.board.at_port(),
        connection,
        image=firmware.image,
        built=firmware.build_id,
    )
    board.flags = firmware.flags
    board.add_functions(firmware.functions)
    board.libc, board.compilers = firmware.libc, firmware.compilers
    board.files = firmware.sources
    return board


def attach(
    spec: BoardSpec,
    transport: Transport,
    connection: Connection = _DEFAULT,
    *,
    image: str | Path | None = None,
    built: bytes | None = None,
    hello_s: float = _HELLO_TIMEOUT_S,
    is_of_this_host: bool = False,
    is_started: bool = False,
) -> Board:
    """Begin a session over an open transport, which is closed on an error. Raises as `connect`.

    Args:
        spec: the board.
        transport: the line to it.
        connection: with a port, an emulator at the other end of the line is looked for.
        image: the firmware that the board runs.
        built: its build id, if it was built from the user's sources.
        hello_s: longest silence until the session has begun.
        is_of_this_host: the board was started as a program of this machine.
        is_started: the board was started here.
    """
    claim = make_claim(takeover=connection.takeover)
    session = Session(transport, timeout_s=hello_s, claim=claim, on_console=connection.on_console)
    try:
        if image is not None and is_started:  # it may hang before it answers
            session.locate = cache(partial(locate, Path(image)))
        welcome = _opened(session, spec, is_started=is_started)
        dictionary = fetch_dictionary(session, cache_root() / "dictionaries")
        spec = with_reported_board(spec, dictionary.board)
        if dictionary.board != spec.name:
            why = ", the default without -b" if spec.default else ""
            raise BoardError(
                f"The agent at {transport.name} belongs to the board {dictionary.board!r}, "
                f"not {spec.name!r}{why}.",
                hint=_other_board(dictionary.board, spec.name, is_started=is_started),
            )
        if connection.clock is None:
            # The board has answered, so its process has its final program. Earlier, the command
            # line of an emulator that is just being started may be empty.
            port = connection.port
            spec = spec.played_by(commands_behind(port) if port is not None else ())
        else:
            clock = replace(spec.clock, kind=connection.clock, emulated=False, given=True)
            spec = replace(spec, clock=clock)
        guard_calls(session, dictionary, spec, connection.timeout_s, connection.wall_timeout_s)
        layouts = layouts_for(spec.folder)
        board = Board(spec, session, welcome, dictionary, layouts, is_started=is_started)
        if image is not None:
            board.set_image(
                Path(image),
                is_of_this_host=is_of_this_host,
                built=built,
                on_note=connection.on_note,
            )
        return board
    except BaseException:
        session.close()
        raise


def _opened(session: Session, spec: BoardSpec, *, is_started: bool) -> Welcome:
    """Begin the session; if a board that was started here does not answer, hint at its command."""
    try:
        return session.open()
    except BoardTimeoutError as error:
        if is_started:
            error.hint = (
                f"check that launch.command in {spec.folder / BOARD_FILE} starts the machine that "
                "the firmware is built for, with its serial port where the firmware expects it"
            )
        raise


def guard_calls(
    session: Session,
    dictionary: Dictionary,
    spec: BoardSpec,
    timeout_s: float | None,
    wall_timeout_s: float | None = None,
) -> None:
    """Set the board's limit for a call, and let the host wait a little longer than that.

    So the board ends a call that hangs, and the host does not have to give up the board. A slow
    emulator may not reach its own limit before the wall limit; then the host ends the call.

    Args:
        session: that has begun.
        dictionary: the board's functions.
        spec: its description.
        timeout_s: the limit, in seconds of the board's clock; None for `DEFAULT_LIMIT_S`. If the
            agent does not guard calls, the longest silence; None for `DEFAULT_TIMEOUT_S`.
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
        # This call is not limited by it: it takes as long as the line does.
        packed = msgpack.packb(limit_ms)
        session.call(function.id, packed, 1, name=_GUARD, timeout_s=_HELLO_TIMEOUT_S)
    wall_s = wall_timeout_s
    if wall_s is None and spec.clock.is_emulated:
        is_long = timeout_s is not None and timeout_s > DEFAULT_LIMIT_S
        wall_s = max(surely_s, _WALL_S) if is_long else _WALL_S
    # A guarded emulator that prints is slower than its time_scale; its own clock decides.
    is_walls = wall_s is not None and (
        wall_s <= surely_s or (spec.clock.is_emulated and limit_s is not None)
    )
    longest_s = wall_s if wall_s is not None and is_walls else surely_s
    session.limit(
        longest_s, limit_s=limit_s, surely_s=surely_s, wall_s=longest_s if is_walls else None
    )


def find_port(spec: BoardSpec, baud: int | None = None) -> str:
    """Return the serial port of the only board that answers: what ``auto`` stands for.

    With one USB port there is nothing to ask. Ports that other programs have open are left alone,
    because opening them could reset their boards.

    Args:
        spec: the board; its name is "" for any board.
        baud: rate to ask at.

    Raises:
        BoardError: no port has such a board.
        UsageError: several ports do.
    """
    from boardprof.wire.transport.serial import listed_ports

    ports = [port.device for port in listed_ports() if port.vid is not None]
    if len(ports) == 1:
        return ports[0]
    from concurrent.futures import ThreadPoolExecutor  # later: most ports are named

    free = [port for port in ports if not port_holders(port)]
    with activity("asking ports", len(free)), ThreadPoolExecutor(max(1, len(free))) as pool:
        names = dict(zip(free, pool.map(partial(_name_at, spec, baud), free), strict=True))
    found = [port for port, name in names.items() if name]
    if len(found) == 1:
        return found[0]
    what = spec.name or "board"
    if found:
        told = ", ".join(f"{port} ({names[port]})" for port in found)
        raise UsageError(f"Several ports have a {what}: {told}.", hint="give -p one of them")
    asked = ", ".join(ports) or "none"
    raise BoardError(
        f"No serial port has a {what} whose agent answers. USB ports: {asked}.",
        hint="plug in the board; `boardprof devices` shows the state of each port",
    )


def _name_at(spec: BoardSpec, baud: int | None, port: str) -> str:
    """Return the name of the board at a port; "" if it is another one, or nothing answers."""
    try:
        with open_board(spec.at_port(), Connection(port, baud, timeout_s=_ASK_S)) as board:
            return board.spec.name
    except BoardprofError:
        return ""


def open_line(
    spec: BoardSpec,
    connection: Connection = _DEFAULT,
    *,
    image: str | Path | None = None,
    timeout_s: float = _HELLO_TIMEOUT_S,
    make_image: Callable[[BoardSpec], Path] | None = None,
) -> tuple[Transport, Path | None]:
    """Open the line to a board without sending anything; `attach` begins a session over it.

    Args:
        spec: the board.
        connection: without a port, the board is started.
        image: the firmware to start. Without a port it is needed, or ``make_image``.
        timeout_s: longest time to start the board or to connect, and then for the key.
        make_image: as for `open_board`.

    Returns:
        The line, and the image that the board runs, None if not known.

    Raises:
        BoardprofError: as `connect`.
    """
    connection = _with_port(spec, connection)
    if connection.port is None:
        _check_startable(spec, connection)
        if image is None:
            assert make_image is not None, "a board is started with an image"
            image = make_image(spec)
    path = None if image is None else Path(image)
    if path is not None:
        check_image(path, spec, _all_boards())
    if connection.port is not None:
        return _open_port(spec.at_port(), connection.port, connection, timeout_s), path
    assert path is not None
    return _start(spec, path, timeout_s, connection.on_note), path


def _with_port(spec: BoardSpec, connection: Connection) -> Connection:
    """Return the connection with its port as a path or URL."""
    if connection.port is None:
        return connection
    port = port_url(connection.port)
    if port == AUTO:
        port = find_port(spec, connection.baud)
    return replace(connection, port=port)


def _all_boards() -> Iterator[BoardSpec]:
    for name in sorted(find_boards()):
        with contextlib.suppress(BoardprofError):
            yield board_spec(name)


def _open_port(spec: BoardSpec, port: str, connection: Connection, timeout_s: float) -> Transport:
    baud, key_file = connection.baud, connection.key_file
    port, lines = split_lines(port)
    if port.startswith("hwgrep://"):
        from boardprof.wire.transport.serial import path_like

        port = path_like(port)
    # Transports are imported where they are used, for a quick start: one run needs one.
    if port.startswith(("rfc2217://", "spy://")):
        if key_file is not None:
            raise UsageError(f"{port} has no key.", hint=f"leave out {option('--key-file')}")
        from boardprof.wire.transport.serial import connect_pyserial

        return connect_pyserial(port, baud or spec.launch.baud or DEFAULT_BAUD, lines)
    if "://" in port:
        if baud is not None:
            raise UsageError(f"{port} has no baud rate.", hint=f"leave out {option('--baud')}")
        from boardprof.wire.transport.keyed import read_key
        from boardprof.wire.transport.tcp import SCHEME, connect_tcp

        elsewhere = None if port.startswith(SCHEME) else packages_transport(port)
        if elsewhere is not None:
            if key_file is not None:
                raise UsageError(f"{port} has no key.", hint=f"leave out {option('--key-file')}")
            return elsewhere(port, timeout_s)
        if port.startswith("ssh://"):
            if key_file is not None:
                raise UsageError(f"{port} has no key of boardprof: ssh has its own.")
            from boardprof.wire.transport.ssh import connect_ssh

            return connect_ssh(port, timeout_s)
        return connect_tcp(port, timeout_s, read_key(key_file))
    if key_file is not None:
        raise UsageError(
            f"{port} is a serial port, which has no key.", hint=f"leave out {option('--key-file')}"
        )
    from boardprof.wire.transport.serial import connect_serial

    return connect_serial(port, baud or spec.launch.baud or DEFAULT_BAUD, lines)


def _check_startable(spec: BoardSpec, connection: Connection) -> None:
    """Refuse a board that needs a port, and options that a started board does not use."""
    for value, what in ((connection.baud, "a baud rate"), (connection.key_file, "a key file")):
        if value is not None:
            raise UsageError(
                f"{spec.name} is started on this machine and does not use {what}.",
                hint="give -p PORT, or leave it out",
            )
    if spec.launch.kind == "serial":
        raise BoardError(
            f"{spec.name} is a real board and needs a port.",
            hint=f"give -p PORT: PORT is {FORMS}",
        )


def _start(
    spec: BoardSpec, image: Path, timeout_s: float, on_note: Callable[[str], None] | None
) -> Transport:
    launch = spec.launch
    running = cache_root() / "running"
    sweep(running)
    if launch.kind == "library":
        from boardprof.wire.transport.inprocess import connect_library

        return connect_library(image)
    from boardprof.wire.transport.child import spawn_and_accept, spawn_and_connect

    # The transport puts the port in.
    values = {"image": os.fspath(image), "port": "{port}"}
    if launch.simulator is not None:
        from boardprof.target.toolchain.simulator import build_simulator

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


def _other_board(name: str, wanted: str, *, is_started: bool) -> str:
    """Return what helps if the agent says that it belongs to another board than ``wanted``."""
    if name in find_boards():
        return f"give -b {name}" + ("" if is_started else ", or the port of the other board")
    if is_started:
        return f"build the firmware with the name of the board it runs on (CMake: BOARD {wanted})"
    return f"leave out -b: no board {name!r} is known here, and the port is enough"
