# SPDX-License-Identifier: Apache-2.0
"""How the user wants the code to be compiled and linked."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from boardprof.errors import UsageError
from boardprof.firmware.build_options import BuildOptions

__all__ = ["UserFlags", "user_flags"]

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_MACRO = re.compile(r"[A-Za-z_]\w*(=.*)?", re.ASCII | re.DOTALL)
# Options with a path, glued to it or in front of it, longest first (GCC manual, 3.16 and 3.13).
_HEADERS = ("-imacros", "-include")
_PATHS = ("-idirafter", "-isystem", "-imacros", "-include", "-iquote", "-I", "-L", "-T")
_KINDS = ("-idirafter", "-isystem", "-iquote", "-I")
# -Ttext=0 is an address, not a link script; a path of the sysroot's begins with a sign.
_NO_PATH = re.compile(r"-T(text|data|bss|rodata|ldata)(-segment)?(=.*)?|-\w+(=|\$SYSROOT).*")
# What stands behind these is no path, whatever files there are.
_OPERAND = {"-x", "-D", "-U", "-u", "-z", "-e", "--param", "-Xassembler", "-Xpreprocessor", "-arch"}
# The linker's own, behind -Wl and -Xlinker (ld manual, 2.1), with one dash or two.
_LINKER_PATHS = (
    *("T", "L", "R", "script", "version-script", "dynamic-list", "Map", "just-symbols"),
    *("retain-symbols-file", "dependency-file", "library-path", "out-implib"),
)
_LINKER_PATH = re.compile(rf"--?({'|'.join(_LINKER_PATHS)})")
_GLUED = re.compile(rf"(--?(?:{'|'.join(_LINKER_PATHS)})=|-L)(.+)")
_RESPONSES = 16  # of response files within each other


@dataclass(frozen=True)
class UserFlags:
    """What is added to the board's own flags.

    Attributes:
        compiler: for each of the user's sources, optimisation and macros included.
        includes: folders for ``-I``, absolute and without symbolic links, each once.
        quoted, system, last: those for ``-iquote``, ``-isystem`` and ``-idirafter``, likewise.
        linker: behind the objects; relative paths have become absolute ones.
        keep: static functions that shall be callable: ``NAME`` or ``FILE:NAME``.
    """

    compiler: tuple[str, ...]
    includes: tuple[Path, ...] = ()
    linker: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    quoted: tuple[Path, ...] = ()
    system: tuple[Path, ...] = ()
    last: tuple[Path, ...] = ()

    @property
    def lto(self) -> bool:
        """Whether the linker compiles once more."""
        return any(flag.startswith("-flto") for flag in self.compiler)

    @property
    def kept_names(self) -> list[str]:
        """The names of the functions to be kept, without their files."""
        return [each.rpartition(":")[2] for each in self.keep]

    def kept_in(self, file: Path) -> list[str]:
        """Return which functions are to be kept of an absolute ``file``, if it has them."""
        return [each.rpartition(":")[2] for each in self.keep if self.is_of(each, file)]

    @staticmethod
    def is_of(kept: str, file: Path) -> bool:
        """Tell whether an absolute ``file`` is meant: by its path from here, or its last parts."""
        named = kept.rpartition(":")[0]
        parts = Path(named).parts
        return (
            not named or file.parts[-len(parts) :] == parts or str(file) == os.path.abspath(named)
        )


def user_flags(options: BuildOptions) -> UserFlags:
    """Check what the user gave and bring it into one form; paths begin at the current folder.

    Raises:
        UsageError: a macro, a name or an include folder is none, or a text has an open quote.
    """
    for define in options.defines:
        if not _MACRO.fullmatch(define):
            raise UsageError(f"{define!r} is not a macro: write NAME or NAME=VALUE.")
    for name in options.keep:
        if not _NAME.fullmatch(name.rpartition(":")[2]):
            raise UsageError(
                f"{name!r} is not the name of a function.", hint="--keep NAME, or --keep FILE:NAME"
            )
    folders: dict[Path, None] = {}
    for folder in map(Path, options.includes):
        if not folder.is_dir():
            raise UsageError(f"There is no folder {folder} to include from.")
        if "\n" in str(folder.resolve()):
            raise UsageError(
                f"{str(folder)!r} is no folder to include from: there is a line break in its path.",
                hint="rename it",
            )
        folders[folder.resolve()] = None
    compiler = [*_words(options.optimize), *_absolute(_words(options.cflags))]
    given: dict[str, dict[Path, None]] = {"-I": folders}
    flags = list(_without_folders(compiler, given))
    return UserFlags(
        (*flags, *(f"-D{define}" for define in options.defines)),
        tuple(folders),
        tuple(_absolute(_words(options.ldflags))),
        tuple(dict.fromkeys(options.keep)),
        *(tuple(given.get(kind, ())) for kind in ("-iquote", "-isystem", "-idirafter")),
    )


def _words(text: str | Sequence[str], depth: int = 0) -> list[str]:
    """Return the words of flags, with those in response files (``@FILE``) in their place."""
    try:
        words = shlex.split(text) if isinstance(text, str) else list(text)
    except ValueError as error:
        raise UsageError(f"{text!r} cannot be split into flags: {error}.") from error
    found: list[str] = []
    for word in words:
        file = Path(word[1:])
        if not word.startswith("@") or not file.is_file():
            found.append(word)
        elif depth == _RESPONSES:
            raise UsageError(f"The response file {file} reads itself.")
        else:
            found += _words(file.read_text(), depth + 1)
    return found


def _without_folders(words: Sequence[str], into: dict[str, dict[Path, None]]) -> Iterator[str]:
    """Take the folders for headers out of flags, each below its option: they are watched."""
    waiting = ""
    for before, word in pairwise(["", *words]):
        option = next((o for o in _KINDS if word.startswith(o)), "")
        if waiting:
            into.setdefault(waiting, {})[Path(word).resolve()] = None
            waiting = ""
        elif before in _OPERAND or not option or _NO_PATH.fullmatch(word) or word == "-I-":
            yield word
        elif word == option:
            waiting = option
        else:
            folder = Path(word.removeprefix(option)).resolve()
            into.setdefault(option, {})[folder] = None
    if waiting:
        yield waiting


def _absolute(words: Sequence[str]) -> Iterator[str]:
    """Make relative paths absolute: compilers run in the folder of each source."""
    before = linker = ""
    for word in words:
        option = next((o for o in _PATHS if word.startswith(o)), "")
        if before in _PATHS:
            yield _path(before, word)
        elif before in _OPERAND or _NO_PATH.fullmatch(word):
            yield word
        elif before == "-Xlinker":
            yield _for_linker(linker, word)
            linker = word
        elif word.startswith("-Wl,"):
            parts = word.split(",")
            made = (_for_linker(last, part) for last, part in pairwise(parts))
            linker = parts[-1]
            yield ",".join(["-Wl", *made])
        elif option and word != option:
            yield option + _path(option, word.removeprefix(option))
        else:
            yield word if word.startswith("-") or not os.path.exists(word) else _path("", word)
        before = "" if before in _PATHS or before in _OPERAND or before == "-Xlinker" else word


def _for_linker(before: str, word: str) -> str:
    """Return a word for the linker alone; ``before`` is the one in front of it."""
    if glued := _GLUED.fullmatch(word):
        return glued[1] + os.path.abspath(glued[2])
    if glued := re.fullmatch(r"-T(.+)", word):
        return word if _NO_PATH.fullmatch(word) else "-T" + os.path.abspath(glued[1])
    if _LINKER_PATH.fullmatch(before):
        return os.path.abspath(word)
    bare = not word.startswith("-") and not before.startswith(("-z", "-u", "-e", "--defsym"))
    return os.path.abspath(word) if bare and os.path.isfile(word) else word


def _path(option: str, path: str) -> str:
    """Return a path from the root; a header that is not here is found on the include path."""
    if option in _HEADERS and not os.path.exists(path):
        return path
    return os.path.abspath(path)
