# SPDX-License-Identifier: Apache-2.0
"""The link of an image: without the C library first, with it where something is missing."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from boardprof.boards.board_file import BoardSpec
from boardprof.errors import BuildError
from boardprof.firmware.agent_sources import libc_unit
from boardprof.firmware.libc import Libc
from boardprof.firmware.link_errors import explain, undefined_symbols
from boardprof.firmware.memory_functions import with_own_memory
from boardprof.firmware.user_flags import UserFlags
from boardprof.resources import runtime_dir
from boardprof.toolchain.cache import Cache, FileHashes, digest
from boardprof.toolchain.toolchain import Compiler, LinkFailure, Object

__all__ = ["Linker", "UndefinedError", "libraries"]


class UndefinedError(BuildError):
    """An image did not link because ``symbols`` are nowhere to be found."""

    def __init__(self, message: str, *, symbols: frozenset[str], hint: str | None) -> None:
        """Keep the symbols beside the message."""
        super().__init__(message, hint=hint)
        self.symbols = symbols


@dataclass(frozen=True)
class Linker:
    """How a board's images are linked.

    Attributes:
        spec: the board.
        compiler: drives the linker.
        cache: remembers which images need the C library.
        flags: the user's.
        libc: the C library, if the board has one that is not always linked.
        cplusplus: whether there is C++ among the sources.
        fallback: a library that stands last, for what nobody else defines.
    """

    spec: BoardSpec
    compiler: Compiler
    cache: Cache
    flags: UserFlags
    libc: Libc | None
    cplusplus: bool
    fallback: Object | None = None

    def link(
        self,
        objects: Sequence[Object],
        archives: Sequence[Object],
        key: str,
        hidden: Mapping[str, str],
    ) -> tuple[Path, bool]:
        """Return the image, and whether the C library is in it.

        Args:
            objects: the agent's and the user's, in the order of the link.
            archives: static libraries of the user's.
            key: digest of all else that the image depends on.
            hidden: static functions, for a hint: name -> source.

        Raises:
            UndefinedError: symbols are missing; in plain words, then the linker's.
            BuildError: it does not link for another reason, likewise.
        """
        made = [each.sha256 for each in (*objects, *archives)]
        place = ("libc", digest(made, key, self.flags.linker, self.libc and self.libc.version))
        if self.libc is None or self.cache.read(*place) is None:
            try:
                return self._link(objects, archives, key, None), False
            except LinkFailure as error:
                if self.libc is None or not undefined_symbols(error.output):
                    raise self._explained(error, hidden) from error
        try:
            image = self._link(objects, archives, key, self.libc)
        except LinkFailure as error:
            raise self._explained(error, hidden) from error
        self.cache.write("", *place)
        return image, True

    def _link(
        self,
        objects: Sequence[Object],
        archives: Sequence[Object],
        key: str,
        libc: Libc | None,
    ) -> Path:
        board = self.spec.build
        before = [*board.cflags, "-Wl,--gc-sections"]
        # Without -z defs a function that is nowhere would be found missing by the loader only.
        before += ["-shared", "-fPIC", "-Wl,-z,defs"] if board.shared else []
        before += ["-nostdlib"] if board.freestanding else []
        if board.link_script is not None:
            before += ["-T", board.link_script, "-Wl,--print-memory-usage"]
        if libc is not None:
            assert board.libc is not None
            before += libc.before
            tie = [self.compiler.compile(libc_unit(self.spec, libc.cflags))]
            objects = [*objects, *with_own_memory(self.compiler, tie)]
        after = [*self.flags.linker, *board.ldflags]
        after += ["-lstdc++"] if self.cplusplus and not board.freestanding else []
        if libc is not None:
            after += libc.behind
        elif board.freestanding:
            after += ["-lgcc"]
        last = () if self.fallback is None else (self.fallback,)
        scripts = () if libc is None else _scripts(self.spec)
        return self.compiler.link(
            f"{self.spec.name}.so" if board.shared else f"{self.spec.name}.elf",
            [*objects, *archives],
            before,
            after,
            folder=self.spec.folder,
            key=digest(key, libc and libc.version),
            scripts=scripts,
            last=last,
            watched=bool(self.flags.linker),
        )

    def _explained(self, error: LinkFailure, hidden: Mapping[str, str]) -> BuildError:
        said = explain(error.output, self.spec, tuple(hidden))
        if said is None:
            return error
        package = self.spec.build.libc_package
        hint = None
        if package is not None and self.libc is None and undefined_symbols(error.output):
            hint = f"what is of the C library comes with the package {package}"
        elif ".a(" in error.output and undefined_symbols(error.output):
            hint = "all functions of a library that is named as a source are offered, and linked; "
            hint += "of one in --ldflags only what the sources need"
        text = str(error).partition(":\n")[2]
        message = f"{error.image} does not link: {said}\n{text}"
        if symbols := frozenset(undefined_symbols(error.output)):
            return UndefinedError(message, symbols=symbols, hint=hint)
        return BuildError(message, hint=hint)


def _scripts(spec: BoardSpec) -> tuple[Path, ...]:
    """Return what the C library adds to the board's link script."""
    return tuple(sorted((runtime_dir() / "libc" / str(spec.build.libc)).glob("*.ld")))


def libraries(flags: Sequence[str]) -> dict[str, str | None]:
    """Return digests of the files that the user's linker flags name, as far as they are found."""
    hashes = FileHashes()
    return {str(path): hashes.of(path) for path in _named_files(flags)}


def _named_files(flags: Sequence[str]) -> Iterator[Path]:
    words = [part for flag in flags for part in flag.removeprefix("-Wl,").split(",")]
    words = [word for word in words if word != "-Xlinker"]
    folders = [Path(word[2:]) for word in words if word.startswith("-L") and word != "-L"]
    folders += [Path(after) for word, after in pairwise(words) if word == "-L"]
    folders += map(Path, filter(None, os.environ.get("LIBRARY_PATH", "").split(os.pathsep)))
    for word in (*words, *(f"-l{after}" for before, after in pairwise(words) if before == "-l")):
        if word.startswith("-l"):
            names = [word[3:]] if word.startswith("-l:") else [f"lib{word[2:]}.a"]
            names += [] if word.startswith("-l:") else [f"lib{word[2:]}.so"]
            yield from (p for d in folders for n in names if (p := d / n).is_file())
            continue
        path = re.sub(r"^(-T|--?[\w-]+=)", "", word)
        if not path.startswith("-") and Path(path).is_file():
            yield Path(path)
