# SPDX-License-Identifier: Apache-2.0
"""An image for a board: what it offers, and a session with a board that runs it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from boardprof.boards.board_file import BoardSpec
from boardprof.cfunction import CFunction
from boardprof.errors import BuildMismatchError

if TYPE_CHECKING:
    from boardprof.board.board import Board

__all__ = ["Firmware", "build"]


@dataclass(frozen=True)
class Firmware:
    """An image, and what it offers.

    Attributes:
        image: the program or shared library, in the cache: do not change it.
        build_id: 8 bytes, the same for the same inputs, wherever they are.
        functions: the user's, by name; those with a ``reason`` are not in the image's table.
        board: what it was built for.
        commands: the compilers' runs that were needed; none if all was in the cache.
        hidden: static functions, which ``keep`` would make callable: name -> source.
        libc: the C library in it, such as ``picolibc``, or ``none``; None: the system's.
        compilers: of the user's code.
        flags: with which the functions were compiled, beside the board's own.
        missing: functions that are left out, because they need a symbol that nothing defines:
            name -> symbol.
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

        Use it with ``with``: the session, and an emulator that was started, end with the block.

        Args:
            port: a device path or ``socket://HOST:PORT`` where the image runs; None starts it.
            baud: as for `boardprof.connect`, and so are the others.
            timeout_s: longest time that a call may take, on the board's clock.
            wall_timeout_s: the same in wall time.
            takeover: take the board even if another host has it.
            clock: as for `boardprof.connect`.
            key_file: file with the key that the agent at a TCP port asks for.
            on_console: gets each line that the board prints.
            on_note: gets what takes its time, such as that the board's simulator is built.

        Raises:
            BuildMismatchError: what runs at the port is another image.
            BoardprofError: as `boardprof.connect`.
        """
        from boardprof.connection import connect

        board = connect(
            self.board,
            port,
            image=self.image,
            baud=baud,
            timeout_s=timeout_s,
            wall_timeout_s=wall_timeout_s,
            takeover=takeover,
            clock=clock,
            key_file=key_file,
            on_console=on_console,
            on_note=on_note,
        )
        if board.welcome.build_id != self.build_id:
            board.close()
            raise BuildMismatchError(
                f"The board at {board.device.port} runs build {board.welcome.build_id.hex()}; "
                f"these sources give build {self.build_id.hex()}.",
                hint="start or flash the board with these sources and flags, or connect without "
                "sources to measure what it has",
            )
        board.flags = self.flags
        board.know(self.functions)
        board.libc, board.compilers = self.libc, self.compilers
        return board


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
    verbose: Callable[[str], None] | None = None,
) -> Firmware:
    """Build firmware with the functions of some sources, as far as the cache does not have it.

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
        keep: static functions that shall be callable, ``NAME`` or ``FILE:NAME``: they are compiled
            out of line.
        libc: ``board``: the board's C library where the code needs it, be it for ``memcpy`` alone;
            ``none``: never, and ``memcpy`` and its like are the agent's.
        verbose: is given each command before it runs, and compilers' warnings.

    Raises:
        UsageError: there is no such source or folder; a macro or name is none.
        UnknownNameError: no such board.
        MissingToolError: the board's compiler, or a library that the code needs, is not installed.
        BuildError: something does not compile or link: in plain words, then the tool's own.
    """
    from boardprof.boards.finding import board_spec, default_board
    from boardprof.firmware.build_options import BuildOptions

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
    )
    return options.build(spec, sources, verbose=verbose)
