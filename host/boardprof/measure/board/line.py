# SPDX-License-Identifier: Apache-2.0
"""The line to a board: opened at a port or to a started emulator; and the dictionary behind it."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import msgpack

from boardprof.base.connection import FORMS, Connection, split_lines
from boardprof.base.errors import (
    BoardError,
    BoardTimeoutError,
    FrameError,
    LinkError,
    UsageError,
    option,
)
from boardprof.base.files import make_private
from boardprof.base.processes import needs_posix
from boardprof.base.progress import activity
from boardprof.target.descriptions.board import BoardSpec
from boardprof.target.descriptions.tables import DEFAULT_BAUD, filled
from boardprof.wire.decode.dictionary import MOST_BYTES, Dictionary, parse_dictionary
from boardprof.wire.link.session import Session
from boardprof.wire.transport.base import Transport, packages_transport
from boardprof_protocol.codes import BuiltIn


def open_port(
    spec: BoardSpec, port: str, connection: Connection, timeout_s: float, image: Path | None = None
) -> Transport:
    """Open the line at a port; its form chooses the transport. Some start the image there."""
    # Transports are imported where they are used, for a quick start: one run needs one.
    port, lines = split_lines(port)
    baud = connection.baud or spec.launch.baud or DEFAULT_BAUD

    def without_key(why: str = "has no key") -> None:
        if connection.key_file is not None:
            raise UsageError(f"{port} {why}.", hint=f"leave out {option('--key-file')}")

    if port.startswith("hwgrep://"):
        from boardprof.wire.transport.serial import path_like

        port = path_like(port)
    if port.startswith(("rfc2217://", "spy://")):
        from boardprof.wire.transport.serial import connect_pyserial

        without_key()
        return connect_pyserial(port, baud, lines)
    if "://" not in port:
        from boardprof.wire.transport.serial import connect_serial

        without_key("is a serial port, which has no key")
        return connect_serial(port, baud, lines)
    if connection.baud is not None:
        raise UsageError(f"{port} has no baud rate.", hint=f"leave out {option('--baud')}")
    from boardprof.wire.transport.sockets import SCHEME, connect_tcp

    elsewhere = None if port.startswith(SCHEME) else packages_transport(port)
    if elsewhere is not None:
        without_key()
        return elsewhere(port, timeout_s)
    if port.startswith("ssh://"):
        from boardprof.wire.transport.ssh import connect_ssh

        without_key("has no key of boardprof: ssh has its own")
        return connect_ssh(port, timeout_s, image)
    if port.startswith("rtt://"):
        from boardprof.wire.transport.sockets import connect_rtt

        without_key("is a debug probe's port, which has no key")
        return connect_rtt(port, timeout_s)
    from boardprof.wire.transport.keyed import read_key

    return connect_tcp(port, timeout_s, read_key(connection.key_file))


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
            f"{spec.name} is a real board and needs a port.", hint=f"give -p PORT: PORT is {FORMS}"
        )


def start_board(
    spec: BoardSpec, image: Path, timeout_s: float, on_note: Callable[[str], None] | None
) -> Transport:
    """Load an image into this process, or start the board's emulator with it."""
    needs_posix(f"Starting {spec.name}")
    launch = spec.launch
    if launch.kind == "library":
        from boardprof.wire.transport.sockets import connect_library

        return connect_library(image)
    from boardprof.wire.transport.child import spawn_and_accept, spawn_and_connect

    # The transport puts the port in.
    values = {"image": os.path.abspath(image), "port": "{port}", "folder": os.fspath(spec.folder)}
    if launch.simulator is not None:
        from boardprof.target.toolchain.simulator import build_simulator

        simulator = build_simulator(spec, launch.simulator, on_note=on_note)
        values["simulator"] = os.fspath(simulator)
    if launch.guest is not None:
        from boardprof.target.toolchain.guest import guest_values

        values |= guest_values(launch.guest, image)
    if launch.node_package is not None:
        from boardprof.target.toolchain.tools import node_package_folder

        values["node_package"] = os.fspath(node_package_folder(launch.node_package))
    command = filled(launch.command, values)
    spawn = spawn_and_accept if launch.listen == "host" else spawn_and_connect
    with activity(f"starting {spec.name}"):
        transport = spawn(command, launch.package, timeout_s, is_emulator=spec.clock.is_emulated)
        if launch.guest is not None:
            await_guest(transport, max(timeout_s, BOOT_S))
    return transport


_GUEST_LISTENS = b"listening on the console"
BOOT_S = 60.0
"""Longest time for Linux to start in a virtual machine."""


def await_guest(transport: Transport, timeout_s: float) -> None:
    """Read what Linux prints until the agent listens; close the line if that does not come.

    What arrives before the kernel uses the UART may stop QEMU's model of it for good.
    """
    deadline, seen = time.monotonic() + timeout_s, b""
    try:
        while _GUEST_LISTENS not in seen:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise BoardTimeoutError(
                    f"Linux did not start in the virtual machine within {timeout_s:g} s.",
                    hint="raise the timeout if this machine is busy; otherwise run the command of "
                    "launch.command by hand, without `quiet`",
                    console=seen.decode(errors="replace"),
                )
            try:
                seen = (seen + transport.read(left_s))[-_MOST_BOOT_TEXT:]
            except LinkError as error:
                text = seen.decode(errors="replace").strip()
                raise BoardError(
                    "The virtual machine ended before the agent in it listened."
                    + (f" It printed:\n{text}" if text else ""),
                    hint="check that the image is a program for this machine",
                ) from error
    except BaseException:
        transport.close()
        raise


_MOST_BOOT_TEXT = 1 << 16


# -- the dictionary ------------------------------------------------------------------------------

_SECTIONS = 4
_WHOLE_S = 60.0
"""Longest time of all answers together; enough for some hundred functions at 9,600 baud."""


def fetch_dictionary(session: Session, cache: Path | None, offer: str = "") -> Dictionary:
    """Ask the board, or take the stored dictionary of a board with the same build and hash.

    ``offer``: identifies what a build here offers, in place of the build id: other code of the same
    functions has the same dictionary.
    """
    # The dictionary's hash is the CRC-32 over all answers, so the host keeps them and does not ask
    # again until the hash changes (SPEC.md 5.1).
    welcome = session.welcome
    assert welcome is not None, "the session is open"
    name = f"{offer or welcome.build_id.hex()}-{welcome.dictionary_hash:08x}.msgpack"
    kept = None if cache is None else cache / name
    if kept is not None:
        with contextlib.suppress(OSError):
            make_private(kept.parent)
            with kept.open("rb") as file:
                stored = file.read(MOST_BYTES + 1)  # a longer file is not a dictionary
            if zlib.crc32(stored) == welcome.dictionary_hash:
                return parse_dictionary(stored)
    stored = b"".join(_ask(session))
    if zlib.crc32(stored) != welcome.dictionary_hash:
        raise FrameError(
            f"The dictionary of {session.transport.name} does not match its hash: it is "
            f"{zlib.crc32(stored):#010x}, WELCOME said {welcome.dictionary_hash:#010x}.",
            hint="connect again",
        )
    if kept is not None:
        # If the cache cannot be written, the next session only takes longer.
        with contextlib.suppress(OSError):
            temporary = kept.with_suffix(f".{os.getpid()}")
            temporary.write_bytes(stored)
            temporary.replace(kept)
    return parse_dictionary(stored)


def _ask(session: Session) -> Iterator[bytes]:
    """Yield the board's answers, up to a limit: a device without an agent may never end."""
    whole_s = max(_WHOLE_S, session.timeout_s)
    end_s = time.monotonic() + whole_s
    size = 0

    def check(*_: object) -> None:
        if size > MOST_BYTES:
            raise FrameError(
                f"The dictionary of {session.transport.name} is too long: more than "
                f"{MOST_BYTES:,} bytes.",
                hint="is it a boardprof agent?",
            )
        if time.monotonic() > end_s:
            raise BoardTimeoutError(
                f"The board at {session.transport.name} did not send its dictionary within "
                f"{whole_s:g} s: {size:,} bytes arrived.",
                hint="test the line with boardprof doctor --link, or raise the timeout",
            )

    for section in range(_SECTIONS):
        for index in itertools.count():
            arguments = bytes(msgpack.packb(section)) + bytes(msgpack.packb(index))
            result = session.call(
                BuiltIn.DESCRIBE, arguments, 2, name="bp.describe", on_progress=check
            )
            size += len(result.body)
            check()
            yield result.body
            if result.value is None:
                break
