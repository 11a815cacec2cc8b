# SPDX-License-Identifier: Apache-2.0
"""An image for a board: what it offers, its file and sizes, and a session with it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from boardprof.base.connection import Connection
from boardprof.base.errors import BuildError
from boardprof.base.writing import check_is_file, unwritable
from boardprof.target.cfunction import CFunction
from boardprof.target.descriptions.board import BoardSpec
from boardprof.target.toolchain.tools import Tools

if TYPE_CHECKING:
    from boardprof.measure.session.board import Board


@dataclass(frozen=True)
class Firmware:
    """An image, and the functions that it offers.

    Attributes:
        image: the program or shared library, in the cache: do not change it.
        build_id: 8 bytes, the same for the same inputs in any folder.
        functions: the user's, in order; those with a ``reason`` are not in the image's table.
        board: the board that it was built for.
        commands: the compilers' runs that were needed; empty if everything was in the cache.
        hidden: static functions, which ``keep`` would make callable: name -> source.
        libc: the C library in it, such as ``picolibc``, or ``none``; None for the system's.
        compilers: of the user's code.
        flags: of the functions, besides the board's own.
        missing: functions that are left out because they need an undefined symbol: name -> symbol.
        sources: the user's files that were compiled, and the headers that they include.
    """

    image: Path
    build_id: bytes
    functions: tuple[CFunction, ...]
    board: BoardSpec
    commands: tuple[tuple[str, ...], ...]
    hidden: dict[str, str] = field(default_factory=dict, hash=False)
    libc: str | None = None
    compilers: tuple[str, ...] = ()
    flags: str | None = None
    missing: dict[str, str] = field(default_factory=dict, hash=False)
    sources: tuple[Path, ...] = ()

    def open(
        self,
        port: str | None = None,
        *,
        baud: int | None = None,
        timeout_s: float | None = None,
        wall_timeout_s: float | None = None,
        takeover: bool = False,
        clock: str | None = None,
        key_file: str | Path | None = None,
        on_console: Callable[[str], None] | None = None,
        on_note: Callable[[str], None] | None = None,
    ) -> Board:
        """Start the image and connect to it, or connect to a board that runs it already.

        Use it with ``with``: at the end of the block the session and a started emulator end.

        Args:
            port: a device path or ``socket://HOST:PORT`` where the image runs; None starts it.
            baud: as for `boardprof.connect`, like the following.
            timeout_s: longest time that a call may take, on the board's clock.
            wall_timeout_s: the same in wall time.
            takeover: take the board even if another host has it.
            clock: as for `boardprof.connect`.
            key_file: file with the key that the agent at a TCP port asks for.
            on_console: gets each line that the board prints.
            on_note: as for `boardprof.connect`.

        Raises:
            BuildMismatchError: another image runs at the port.
            BoardprofError: as `boardprof.connect`.
        """
        from boardprof.measure.connect import open_firmware

        connection = Connection(
            port,
            baud,
            timeout_s=timeout_s,
            wall_timeout_s=wall_timeout_s,
            takeover=takeover,
            clock=clock,
            key_file=key_file,
            on_console=on_console,
            on_note=on_note,
        )
        return open_firmware(self, connection)


def write_image(firmware: Firmware, output: str | Path | None = None) -> Path:
    """Copy an image to a user's file, whole or not at all.

    ``output``: the file; None takes the image's name, in the current folder.
    """
    if output is not None:
        check_is_file(os.fspath(output))
    target = Path(firmware.image.name if output is None else output)
    try:
        if target.exists() and not target.is_file():  # a pipe or a device must not be replaced
            with firmware.image.open("rb") as image, target.open("wb") as device:
                shutil.copyfileobj(image, device)
            return target
        file = target.resolve()  # a link stays a link
        with tempfile.TemporaryDirectory(dir=file.parent, prefix=".boardprof-") as folder:
            copy = Path(folder) / file.name
            shutil.copy(firmware.image, copy)
            os.replace(copy, file)
    except OSError as error:
        raise unwritable(target, error) from error
    return target


def image_sizes(firmware: Firmware) -> dict[str, int] | None:
    """Return bytes of text, data and bss of an image; see `sizes_of`."""
    sizes = sizes_of(firmware.board, [firmware.image])
    return None if sizes is None else sizes[0]


def sizes_of(spec: BoardSpec, files: Sequence[Path]) -> list[dict[str, int]] | None:
    """Return bytes of text, data and bss of each file, as the board's ``size`` prints them.

    None if the board names no such program, or if it is not installed.
    """
    program = shutil.which(spec.build.size or "")
    if program is None:
        return None
    said = Tools(None).run(program, [*map(str, files)], Path("/"), f"{program} fails")
    names, *rows = [line.split() for line in said.splitlines()] or [[]]
    if len(rows) != len(files):
        raise BuildError(f"{program} does not print sizes in the Berkeley format.")
    found = [dict(zip(names, values, strict=False)) for values in rows]
    kinds = ("text", "data", "bss")
    return [{name: int(sizes[name]) for name in kinds if name in sizes} for sizes in found]
