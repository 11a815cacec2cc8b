# SPDX-License-Identifier: Apache-2.0
"""The line to a board: opened at a port, or to an emulator that is started for it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from boardprof.base.connection import FORMS, Connection, split_lines
from boardprof.base.errors import BoardError, UsageError, option
from boardprof.base.progress import activity
from boardprof.target.descriptions.board import BoardSpec
from boardprof.target.descriptions.launch import DEFAULT_BAUD, filled
from boardprof.target.toolchain.cache import cache_root
from boardprof.wire.transport.base import Transport, packages_transport
from boardprof.wire.transport.emulator import EmulatorLock, sweep


def open_port(spec: BoardSpec, port: str, connection: Connection, timeout_s: float) -> Transport:
    """Open the line at a port; its form chooses the transport."""
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
        from boardprof.wire.transport.sockets import SCHEME, connect_tcp

        elsewhere = None if port.startswith(SCHEME) else packages_transport(port)
        if elsewhere is not None:
            if key_file is not None:
                raise UsageError(f"{port} has no key.", hint=f"leave out {option('--key-file')}")
            return elsewhere(port, timeout_s)
        if port.startswith("ssh://"):
            if key_file is not None:
                raise UsageError(f"{port} has no key of boardprof: ssh has its own.")
            from boardprof.wire.transport.sockets import connect_ssh

            return connect_ssh(port, timeout_s)
        return connect_tcp(port, timeout_s, read_key(key_file))
    if key_file is not None:
        raise UsageError(
            f"{port} is a serial port, which has no key.", hint=f"leave out {option('--key-file')}"
        )
    from boardprof.wire.transport.serial import connect_serial

    return connect_serial(port, baud or spec.launch.baud or DEFAULT_BAUD, lines)


def check_startable(spec: BoardSpec, connection: Connection) -> None:
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


def start_board(
    spec: BoardSpec, image: Path, timeout_s: float, on_note: Callable[[str], None] | None
) -> Transport:
    """Load an image into this process, or start the board's emulator with it."""
    launch = spec.launch
    running = cache_root() / "running"
    sweep(running)
    if launch.kind == "library":
        from boardprof.wire.transport.sockets import connect_library

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
