# SPDX-License-Identifier: Apache-2.0
"""The user's code: the files of a build, and how each is compiled."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from boardprof.boards.board_file import BoardSpec
from boardprof.errors import UsageError
from boardprof.firmware.build_options import UserFlags
from boardprof.resources import runtime_dir
from boardprof.toolchain.compile_unit import Unit, is_tracked

RUNTIME = "device_runtime_c"
"""Stands for the runtime's folder in debug information."""

DEBUG = ("-g", "-gdwarf-4", "-ffunction-sections", "-fdata-sections")
"""For every compilation."""

_C = {".c"}
_CPP = {".cc", ".cpp", ".cxx", ".C"}
_ASSEMBLER = {".S", ".s"}
_SOURCES = _C | _CPP | _ASSEMBLER
# A bare board does not unwind stacks, ask for types at run time, or run the handlers of `exit`.
_BARE_CPP = ("-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics", "-fno-use-cxa-atexit")
_KEEP = ("-fkeep-static-functions", "-fkeep-inline-functions")


@dataclass(frozen=True)
class Sources:
    """The user's files, each once, absolute, and in the given order.

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
        """Whether there are any files."""
        return bool(self.files or self.objects or self.archives)


def language(path: Path) -> str:
    """Return "c", "c++", "assembler", "object", "archive", or "" for any other file."""
    suffix = path.suffix
    if suffix in _C:
        return "c"
    if suffix in _CPP:
        return "c++"
    if suffix in _ASSEMBLER:
        return "assembler"
    return {".o": "object", ".a": "archive"}.get(suffix, "")


def find_sources(named: Sequence[str | Path]) -> Sources:
    """Return the named files; a folder stands for the sources in it.

    Raises:
        UsageError: a file does not exist, its kind is unknown, a folder has no sources, or there
            is a line break in a path.
    """
    found: dict[Path, str] = {}
    for source in map(Path, named):
        if not source.exists():
            raise UsageError(f"The file or folder {source} does not exist.")
        for file in _in_folder(source) if source.is_dir() else [source]:
            kind = language(file)
            if not kind:
                raise UsageError(
                    f"{file} is neither a source nor an object.",
                    hint="known are .c, .cc, .cpp, .cxx, .S, .s, .o and .a",
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
    """Refuse a path with a line break, which a depfile cannot express."""
    if "\n" in path:
        raise UsageError(
            f"{path!r} cannot be compiled: its path contains a line break.",
            hint="rename the file or its folder",
        )


def _in_folder(folder: Path) -> list[Path]:
    files = sorted(path for path in folder.iterdir() if path.suffix in _SOURCES and path.is_file())
    if not files:
        raise UsageError(f"The folder {folder} has no C, C++ or assembler files.")
    return files


def user_unit(spec: BoardSpec, file: Path, flags: UserFlags, libc: Sequence[str] | None) -> Unit:
    """Return the unit for a user's file; a main in it is renamed.

    Args:
        spec: the board.
        file: absolute.
        flags: the user's.
        libc: flags that find the C library's headers; None if there is no C library.
    """
    board, kind = spec.build, language(file)
    # The options of the agent are for code that includes boardprof/bp.h.
    words = [*board.cflags, *DEBUG, *(f"-DBP_CFG_{k.upper()}={v}" for k, v in board.config.items())]
    words += ["-fPIC"] if board.shared else []
    if libc is not None:
        words += libc
    elif board.freestanding:
        # Without the headers of a libc; but memcpy may still become a load.
        words += ["-ffreestanding", "-fbuiltin"]
    if kind == "c":
        words += ["-std=gnu11"]
    if kind == "c++":
        words += ["-std=gnu++17", *(_BARE_CPP if board.freestanding else ())]
    if kind != "assembler":
        # With -flto from the user, only fat objects have functions that can be found.
        words += ["-ffat-lto-objects"]
    words += flags.compiler
    if kind == "c":
        content = file.read_bytes()
        # Each file gets another name, so that several programs can be built together. In other
        # languages main is more than a name; there it is renamed in the object.
        words += [f"-Dmain=bp_user_main_{hashlib.sha256(content).hexdigest()[:16]}"]
        words += _KEEP if names_one_of(content, flags.kept_in(file)) else ()
    folders = (*flags.includes, *flags.quoted, *flags.system, *flags.last)
    roots = [(f"include{i}", folder) for i, folder in enumerate(folders)]
    return Unit(
        file.parent,
        # Otherwise the compiler would take it for an option, or for a file of options.
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
    """Return whether a unit is compiled so that its static functions can become global."""
    return unit.flags[-len(_KEEP) :] == _KEEP


def names_one_of(content: bytes, names: Sequence[str]) -> bool:
    """Return whether a source mentions one of these names, even in a comment."""
    return any(re.search(rb"\b%s\b" % name.encode(), content) for name in names)
