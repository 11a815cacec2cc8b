# SPDX-License-Identifier: Apache-2.0
"""The C library of a board without an operating system: there if its toolchain has one."""

from __future__ import annotations

import re
from dataclasses import dataclass

from boardprof.boards.board_file import BoardSpec
from boardprof.errors import BuildError, MissingToolError
from boardprof.toolchain.toolchain import Compiler

__all__ = ["Libc", "find_libc", "missing_header"]

_PROBE = "string.h"
# The headers of C17 that a compiler alone does not have, as GCC names one that it does not find.
_MISSING = re.compile(
    r"error: '?((?:assert|complex|ctype|errno|fenv|inttypes|locale|math|setjmp|signal|stdio|stdlib"
    r"|string|tgmath|threads|time|uchar|wchar|wctype|strings|unistd)\.h|c[a-z]+)'?"
    r"(?:: No such file| file not found)"
)


@dataclass(frozen=True)
class Libc:
    """A C library.

    Attributes:
        cflags: with which its headers are found.
        before: for the link, in front of the objects.
        behind: for the link, behind them.
        version: differs when the library does.
    """

    cflags: tuple[str, ...]
    before: tuple[str, ...]
    behind: tuple[str, ...]
    version: str


def find_libc(spec: BoardSpec, compiler: Compiler) -> Libc | None:
    """Return the library of a freestanding board; None where it is not installed, or none is known.

    A board with an operating system has its own, which is always linked.
    """
    board = spec.build
    if not board.freestanding or board.libc is None:
        return None
    header = compiler.header(_PROBE, (*board.cflags, *board.libc_cflags))
    if header is None:
        return None
    status = header.stat()  # as its package has set it, on every machine
    return Libc(
        board.libc_cflags,
        (*board.libc_cflags, *board.libc_ldflags),
        ("-Wl,--start-group", "-lm", "-lc", "-lgcc", "-Wl,--end-group"),
        f"{header.parent.name} {status.st_size} {int(status.st_mtime)}",
    )


def missing_header(spec: BoardSpec, error: BuildError) -> MissingToolError | None:
    """Return what to say when a compiler lacks a header of a library that is not installed."""
    found = _MISSING.search(str(error))
    package = spec.build.libc_package
    if found is None or package is None:
        return None
    return MissingToolError(
        found[1],
        package,
        message=f"{found[1]} is of the C library, which is not installed for {spec.name}.\n{error}",
    )
