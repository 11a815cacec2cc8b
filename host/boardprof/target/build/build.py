# SPDX-License-Identifier: Apache-2.0
"""``boardprof.build``: firmware from sources, by the names that users write."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from boardprof.target.build.build_options import BuildOptions
from boardprof.target.build.builder import build as build_firmware
from boardprof.target.build.firmware import Firmware
from boardprof.target.descriptions.board import BoardSpec, board_spec, default_board


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
    return build_firmware(spec, sources, options, verbose=verbose)
