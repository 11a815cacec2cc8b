# SPDX-License-Identifier: Apache-2.0
"""Firmware from sources, by the names that users write, and a session with it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from boardprof.base.connection import Connection
from boardprof.measure.board.board import Board
from boardprof.measure.connect import open_firmware
from boardprof.target.build.build_options import BuildOptions
from boardprof.target.build.firmware import BuiltFirmware
from boardprof.target.descriptions.board import BoardSpec, board_spec, default_board


class Firmware(BuiltFirmware):
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

    @classmethod
    def of(cls, built: BuiltFirmware) -> Firmware:
        """Return what was built as firmware that can be opened."""
        return cls(**vars(built))

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


def build(
    *sources: str | Path,
    board: str | BoardSpec | None = None,
    optimize: str = "-O2",
    include: Sequence[str | Path] = (),
    define: Sequence[str] = (),
    cflags: str | Sequence[str] = (),
    ldflags: str | Sequence[str] = (),
    keep: Sequence[str] = (),
    libc: str = "board",
    heap: bool = False,
    verbose: Callable[[str], None] | None = None,
) -> Firmware:
    """Build firmware with the functions of some sources, or take it from the cache.

    ::

        with boardprof.build("fir.c", board="qemu-rv32").open() as board:
            print(board.profile("fir", x, h, y, 256, repeat=20).table())

    Args:
        sources: C, C++ and assembler files, folders of them, object files and static libraries.
        board: its name or description; None takes the default board.
        optimize: flags for the sources, such as ``-O3 -ffast-math``.
        include: folders for ``#include``.
        define: macros: ``NAME`` or ``NAME=VALUE``.
        cflags: more flags for the sources, as one text or in a list. Relative paths in them begin
            at the current folder.
        ldflags: flags for the linker, such as ``-L lib -lfoo``, likewise.
        keep: static functions to make callable, ``NAME`` or ``FILE:NAME``; they are compiled out
            of line.
        libc: ``board`` uses the board's C library if the code needs it, even for ``memcpy`` alone;
            ``none`` never does, and ``memcpy`` and the like are the agent's.
        heap: make malloc, calloc, realloc and free probes, for `Board.tracing`. They take a little
            longer then.
        verbose: gets each command before it runs, and compilers' warnings.

    Raises:
        UsageError: a source or folder does not exist; a macro or name is invalid.
        UnknownNameError: the board does not exist.
        MissingToolError: the board's compiler, or a library that the code needs, is not installed.
        BuildError: something does not compile or link; in plain words, then the tool's own.
    """
    if board is None:
        spec = default_board()
    else:
        spec = board_spec(board) if isinstance(board, str) else board
    options = BuildOptions(
        optimize=optimize,
        includes=tuple(include),
        defines=tuple(define),
        cflags=cflags if isinstance(cflags, str) else shlex.join(cflags),
        ldflags=ldflags if isinstance(ldflags, str) else shlex.join(ldflags),
        keep=tuple(keep),
        libc=libc,
        heap=heap,
    )
    from boardprof.target.build import builder  # later: it knows all compilers

    return Firmware.of(builder.build(spec, sources, options, verbose=verbose))
