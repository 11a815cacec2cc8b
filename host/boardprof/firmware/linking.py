# SPDX-License-Identifier: Apache-2.0
"""The link of an image: without the C library first, with it where something is missing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from boardprof.boards.board_file import BoardSpec
from boardprof.elf.archive import is_library
from boardprof.errors import BuildError
from boardprof.firmware.agent_sources import libc_unit
from boardprof.firmware.libc import Libc
from boardprof.firmware.link_errors import explain, libraries_in, undefined_symbols
from boardprof.firmware.linker_files import linker_files
from boardprof.firmware.memory_functions import with_own_memory
from boardprof.firmware.user_flags import UserFlags
from boardprof.resources import runtime_dir
from boardprof.toolchain.cache import Cache, digest
from boardprof.toolchain.toolchain import Compiler, LinkFailure, Object

__all__ = ["Linker", "UndefinedError"]

_TOO_LARGE = re.compile(r"The program (needs|is|leaves) | has no room in ")
_SMALLER = "compile with -Os, take smaller arrays, or build fewer of the files"


class UndefinedError(BuildError):
    """An image did not link because ``symbols`` are nowhere to be found.

    ``libraries`` are those beside the sources that may need them: the user's, and the C library's.
    """

    def __init__(
        self,
        message: str,
        *,
        symbols: frozenset[str],
        libraries: tuple[Path, ...],
        hint: str | None,
    ) -> None:
        """Keep the symbols and the libraries beside the message."""
        super().__init__(message, hint=hint)
        self.symbols = symbols
        self.libraries = libraries


@dataclass(frozen=True)
class Linker:
    """How a board's images are linked.

    Attributes:
        spec: the board.
        compiler: drives the linker.
        cache: remembers which images need the C library.
        flags: the user's.
        libc: the C library, if the board has one that is not always linked and may be.
        cplusplus: whether there is C++ among the sources.
        fallback: a library that stands last, with what a compiler calls on its own. Not taken
            where there is a C library: a function's count must not depend on its neighbours.
        no_libc: what would link a C library, for a hint; None: nothing.
    """

    spec: BoardSpec
    compiler: Compiler
    cache: Cache
    flags: UserFlags
    libc: Libc | None
    cplusplus: bool
    fallback: Object | None = None
    no_libc: str | None = None

    def link(
        self,
        objects: Sequence[Object],
        archives: Sequence[Object],
        key: str,
        hidden: Mapping[str, str],
    ) -> tuple[Path, str | None]:
        """Return the image, and the C library in it as `Firmware.libc` has it.

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
                image = self._link(objects, archives, key, None)
                return image, "none" if self.spec.build.freestanding else None
            except LinkFailure as error:
                if self.libc is None or not undefined_symbols(error.output):
                    raise self._explained(error, archives, hidden) from error
        try:
            image = self._link(objects, archives, key, self.libc)
        except LinkFailure as error:
            raise self._explained(error, archives, hidden) from error
        self.cache.write("", *place)
        return image, self.spec.build.libc

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
        is_hosted = self.cplusplus and not board.freestanding
        after += ["-lstdc++"] if is_hosted and self.compiler.has_library("stdc++") else []
        if libc is not None:
            after += libc.behind
        elif board.freestanding:
            after += ["-lgcc"]
        last = () if self.fallback is None or self.libc is not None else (self.fallback,)
        scripts = () if libc is None else _scripts(self.spec)
        arch = () if board.arch is None else (runtime_dir() / "arch" / board.arch,)
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
            folders=arch,
        )

    def _explained(
        self, error: LinkFailure, archives: Sequence[Object], hidden: Mapping[str, str]
    ) -> BuildError:
        said = explain(error.output, self.spec, tuple(hidden))
        if said is None:
            return error
        text = str(error).partition(":\n")[2]
        message = f"{error.image} does not link: {said}\n{text}"
        symbols = frozenset(undefined_symbols(error.output))
        if not symbols:
            return BuildError(message, hint=_SMALLER if _TOO_LARGE.search(said) else None)
        sources = {made.path for made in archives}
        named = [path for path in linker_files(self.flags.linker) if is_library(path)]
        others = [path for path in libraries_in(error.output) if path not in sources]
        users = {path.resolve() for path in named}
        hint = None
        if sources & set(libraries_in(error.output)):
            hint = "all functions of a library that is named as a source are offered, and linked; "
            hint += "of one in --ldflags only what the sources need"
        elif self.libc is None and self.no_libc is not None:
            hint = self.no_libc
        elif any(path.resolve() not in users for path in others):
            hint = "this is what the C library asks of an operating system, and the board has none:"
            hint += " leave out what calls it, or define it in a file of your own and give that "
            hint += "with --source"
        elif others:
            hint = "a library needs it: give the one that defines it in --ldflags, too, behind it"
        libraries_ = tuple(dict.fromkeys([*named, *others]))
        return UndefinedError(message, symbols=symbols, libraries=libraries_, hint=hint)


def _scripts(spec: BoardSpec) -> tuple[Path, ...]:
    """Return what the C library adds to the board's link script."""
    return tuple(sorted((runtime_dir() / "libc" / str(spec.build.libc)).glob("*.ld")))
