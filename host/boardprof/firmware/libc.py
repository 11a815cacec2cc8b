# SPDX-License-Identifier: Apache-2.0
"""The C and C++ libraries of a board without an operating system, if its toolchain has them."""

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
    r"|string|tgmath|threads|time|uchar|wchar|wctype|strings|unistd)\.h)'?"
    r"(?:: No such file| file not found)"
)
# C++17, 20.5.1.2, tables 16 and 17.
_MISSING_CXX = re.compile(
    r"error: '?(algorithm|any|array|atomic|bitset|charconv|chrono|complex|condition_variable|deque"
    r"|exception|execution|filesystem|forward_list|fstream|functional|future|initializer_list"
    r"|iomanip|ios|iosfwd|iostream|istream|iterator|limits|list|locale|map|memory|memory_resource"
    r"|mutex|new|numeric|optional|ostream|queue|random|ratio|regex|scoped_allocator|set"
    r"|shared_mutex|sstream|stack|stdexcept|streambuf|string|string_view|system_error|thread|tuple"
    r"|type_traits|typeindex|typeinfo|unordered_map|unordered_set|utility|valarray|variant|vector"
    r"|c(?:assert|ctype|errno|fenv|float|inttypes|limits|locale|math|setjmp|signal|stdarg|stddef"
    r"|stdint|stdio|stdlib|string|time|uchar|wchar|wctype))'?(?:: No such file| file not found)"
)
_NOT_OF_C = {"charconv", "chrono", "complex", "condition_variable"}


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


def missing_header(spec: BoardSpec, error: BuildError, libc: Libc | None) -> BuildError | None:
    """Return what to say when a compiler lacks a header of a library that is not installed.

    Args:
        spec: the board.
        error: the compiler's.
        libc: the C library, if there is one.
    """
    found = _MISSING_CXX.search(str(error))
    if found is not None and spec.build.freestanding:
        return _missing_cxx_header(spec, error, found[1])
    found = _MISSING.search(str(error))
    package = spec.build.libc_package
    if found is None or package is None or libc is not None:
        return None
    return MissingToolError(
        found[1],
        package,
        message=f"{found[1]} is of the C library, which is not installed for {spec.name}.\n{error}",
    )


def _missing_cxx_header(spec: BoardSpec, error: BuildError, name: str) -> BuildError:
    hint = f"do without <{name}>"
    if name[0] == "c" and name not in _NOT_OF_C:
        hint = f"include <{name[1:]}.h> in its place, and write no std:: before its names"
    return BuildError(
        f"<{name}> is of the C++ library, and the toolchain of {spec.name} has none.\n{error}",
        hint=f"{hint}; or build for a board whose toolchain has it, or install one that does and "
        "name it with build.cxx in a board.toml of your own (boards/README.md)",
    )
