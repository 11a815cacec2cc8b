# SPDX-License-Identifier: Apache-2.0
"""The user's code: which files a build is of, and how each is compiled."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from boardprof.boards.board_file import BoardSpec
from boardprof.errors import UsageError
from boardprof.firmware.user_flags import UserFlags
from boardprof.resources import runtime_dir
from boardprof.toolchain.compile_unit import Unit, is_tracked

__all__ = ["DEBUG", "RUNTIME", "Sources", "find_sources", "language", "names_one_of"]
__all__ += ["keeps_functions", "user_unit"]

RUNTIME = "device_runtime_c"
"""In debug information, for wherever the runtime is."""

DEBUG = ("-g", "-gdwarf-4", "-ffunction-sections", "-fdata-sections")
"""For every compilation."""

_C = {".c"}
_CPP = {".cc", ".cpp", ".cxx", ".C"}
_ASSEMBLER = {".S", ".s"}
_SOURCES = _C | _CPP | _ASSEMBLER
# Nothing on a bare board unwinds a stack, asks for an object's type or runs what `exit` would.
_BARE_CPP = ("-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics", "-fno-use-cxa-atexit")
_KEEP = ("-fkeep-static-functions", "-fkeep-inline-functions")


@dataclass(frozen=True)
class Sources:
    """The user's files, each once, absolute and in the order in which they were named.

    Attributes:
        files: C, C++ and assembler.
        objects: compiled ones.
        archives: static libraries.
    """

    files: tuple[Path, ...]
    objects: tuple[Path, ...]
    archives: tuple[Path, ...]

    @property
    def named(self) -> bool:
        """Whether there are any."""
        return bool(self.files or self.objects or self.archives)


def language(path: Path) -> str:
    """Return "c", "c++", "assembler", "object", "archive" or, for any other file, ""."""
    suffix = path.suffix
    if suffix in _C:
        return "c"
    if suffix in _CPP:
        return "c++"
    if suffix in _ASSEMBLER:
        return "assembler"
    return {".o": "object", ".a": "archive"}.get(suffix, "")


def find_sources(named: Sequence[str | Path]) -> Sources:
    """Return the files that ``named`` stand for; a folder stands for the sources in it.

    Raises:
        UsageError: there is no such file, it is of no known kind, a folder has no sources, or
            there is a line break in a path.
    """
    found: dict[Path, str] = {}
    for source in map(Path, named):
        if not source.exists():
            raise UsageError(f"There is no file or folder {source}.")
        for file in _in_folder(source) if source.is_dir() else [source]:
            kind = language(file)
            if not kind:
                raise UsageError(
                    f"{file} is neither source nor object.",
                    hint="a file's name ends in .c, .cc, .cpp, .cxx, .S, .s, .o or .a",
                )
            path = file.parent.resolve() / file.name
            if kind not in ("object", "archive"):
                _check_path(str(path))
            found[path] = kind
    return Sources(
        tuple(f for f, kind in found.items() if kind in ("c", "c++", "assembler")),
        tuple(f for f, kind in found.items() if kind == "object"),
        tuple(f for f, kind in found.items() if kind == "archive"),
    )


def _check_path(path: str) -> None:
    """See that what compilers tell of a path can be read: make has no form for a line break."""
    if "\n" in path:
        raise UsageError(
            f"{path!r} cannot be compiled: there is a line break in its path.",
            hint="rename the file or its folder",
        )


def _in_folder(folder: Path) -> list[Path]:
    files = sorted(path for path in folder.iterdir() if path.suffix in _SOURCES and path.is_file())
    if not files:
        raise UsageError(f"The folder {folder} has no C, C++ or assembler files.")
    return files


def user_unit(spec: BoardSpec, file: Path, flags: UserFlags, libc: Sequence[str] | None) -> Unit:
    """Return the unit for a user's file, whose main, if it has one, gets out of the way.

    Args:
        spec: the board.
        file: absolute.
        flags: the user's.
        libc: the flags with which the C library's headers are found; None where there is none.
    """
    board, kind = spec.build, language(file)
    # The options of the agent are for code that includes boardprof/bp.h.
    words = [*board.cflags, *DEBUG, *(f"-DBP_CFG_{k.upper()}={v}" for k, v in board.config.items())]
    words += ["-fPIC"] if board.shared else []
    if libc is not None:
        words += libc
    elif board.freestanding:
        # There are no headers of a libc to ask for; but memcpy may still become a load.
        words += ["-ffreestanding", "-fbuiltin"]
    if kind == "c":
        words += ["-std=gnu11"]
    if kind == "c++":
        words += ["-std=gnu++17", *(_BARE_CPP if board.freestanding else ())]
    if kind != "assembler":
        # Fat objects: with -flto from the user there would be no functions to be found otherwise.
        words += ["-ffat-lto-objects"]
    words += flags.compiler
    if kind == "c":
        content = file.read_bytes()
        # A name of its own for each file: programs with a main each may be built together. Others
        # than C know main by more than its name; theirs is renamed in the object.
        words += [f"-Dmain=bp_user_main_{hashlib.sha256(content).hexdigest()[:16]}"]
        words += _KEEP if names_one_of(content, flags.kept_in(file)) else ()
    folders = (*flags.includes, *flags.quoted, *flags.system, *flags.last)
    roots = [(f"include{i}", folder) for i, folder in enumerate(folders)]
    return Unit(
        file.parent,
        # Or the compiler would take it for an option, or for a file of options.
        f"./{file.name}" if file.name.startswith(("-", "@")) else file.name,
        tuple(words),
        flags.includes,
        (*roots, (RUNTIME, runtime_dir())),
        last=(*flags.last, runtime_dir() / "include"),
        watched=True,
        quoted=flags.quoted,
        system=flags.system,
        tracked=is_tracked(flags.compiler),
    )


def keeps_functions(unit: Unit) -> bool:
    """Return whether a unit is compiled so that its static functions can be made global."""
    return unit.flags[-len(_KEEP) :] == _KEEP


def names_one_of(content: bytes, names: Sequence[str]) -> bool:
    """Return whether a source mentions one of these names, be it in a comment."""
    return any(re.search(rb"\b%s\b" % name.encode(), content) for name in names)
