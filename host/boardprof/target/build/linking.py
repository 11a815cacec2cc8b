# SPDX-License-Identifier: Apache-2.0
"""The link of an image: first without the C library, then with it if something is missing.

Files that belong to a larger program may need symbols that are not there. Functions that need such
a symbol are left out of the table, each with a reason, so that the linker discards them and the
others can be measured.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from boardprof.base.errors import BuildError
from boardprof.base.resources import runtime_dir
from boardprof.target.build.build_errors import explain, libraries_in, undefined_symbols
from boardprof.target.build.build_options import UserFlags, linker_files
from boardprof.target.build.sources import HEAP_FUNCTIONS, Libc, has_heap, libc_units
from boardprof.target.build.symbol_renaming import with_own_memory
from boardprof.target.cfunction import CFunction
from boardprof.target.descriptions.board_file import BoardSpec
from boardprof.target.descriptions.build_and_guard import agent_options
from boardprof.target.elf.object_file import global_names, images, is_library, read_image
from boardprof.target.toolchain.cache import Cache, digest
from boardprof.target.toolchain.compiler import Compiler, LinkFailure, Object

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

_TOO_LARGE = r"The program (needs|is|leaves) | has no room in "
_SMALLER = "compile with -Os, use smaller arrays, or build fewer of the files"
_OTHER_MEMORY = r" (?:of|the) (?!(?:ram|data|dram|memory)\b)\w+(?: of |;)"
"""A memory that is not the RAM, in an explanation."""

_MOST = 8  # names in a message

_T = TypeVar("_T")
_CONSTRUCTORS = (".preinit_array", ".init_array", ".ctors")  # names of sections


class UndefinedError(BuildError):
    """An image did not link because ``symbols`` are not defined.

    ``libraries`` may need them too: the user's besides the sources, and the C library's. ``uses``
    has the first place that uses each symbol; it is empty if that does not explain the error.
    """

    def __init__(
        self,
        message: str,
        *,
        symbols: frozenset[str],
        libraries: tuple[Path, ...],
        hint: str | None,
        uses: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Keep the symbols and the libraries beside the message."""
        super().__init__(message, hint=hint)
        self.uses = uses
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
        libc: the C library, if the board has one that is linked on demand and may be used.
        cplusplus: whether there is C++ among the sources.
        fallback: the last library, with the functions that a compiler calls on its own. Not used
            if there is a C library: a function's count must not depend on its neighbours.
        no_libc: how to get a C library, for a hint; None if the board has none.
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
            archives: the user's static libraries.
            key: digest of all else that the image depends on.
            hidden: static functions, for a hint: name -> source.

        Raises:
            UndefinedError: symbols are missing. The message is in plain words, then the linker's.
            BuildError: it does not link for another reason; likewise.
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
        # Without -z defs only the loader would find that a function is missing.
        before += ["-shared", "-fPIC", "-Wl,-z,defs"] if board.shared else []
        before += ["-nostdlib"] if board.freestanding else []
        if board.link_script is not None:
            before += ["-T", board.link_script, "-Wl,--print-memory-usage"]
        if not board.freestanding and board.libc_heap:  # its C library is not tied to the agent
            before += [f"-Wl,--defsym=bp_heap_bytes={board.libc_heap}"]
        if has_heap(self.spec):
            before += [f"-Wl,--wrap={name}" for name in HEAP_FUNCTIONS]
        if libc is not None:
            assert board.libc is not None
            before += libc.before
            tie = [self.compiler.compile(unit) for unit in libc_units(self.spec, libc.cflags)]
            objects = [*objects, *with_own_memory(self.compiler, tie)]
        after = [*self.flags.linker, *board.ldflags]
        is_hosted = self.cplusplus and not board.freestanding
        after += ["-lstdc++"] if is_hosted and self.compiler.has_library("stdc++") else []
        if libc is not None:
            after += libc.after
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
            return BuildError(message, hint=_smaller(said, self.spec))
        sources = {made.path for made in archives}
        named = [path for path in linker_files(self.flags.linker) if is_library(path)]
        others = [path for path in libraries_in(error.output) if path not in sources]
        users = {path.resolve() for path in named}
        hint = None
        if sources & set(libraries_in(error.output)):
            hint = "a library among the sources is linked whole, so that all its functions can be "
            hint += "called; from a library in --ldflags only what the sources need is linked"
        elif self.libc is None and self.no_libc is not None:
            hint = self.no_libc
        elif any(path.resolve() not in users for path in others):
            hint = "the C library needs this from an operating system, but the board has none. "
            hint += "Leave out what calls it, or define it in a file of your own and give that "
            hint += "file with --source"
        elif others:
            hint = (
                "a library needs it: in --ldflags, name the library that defines it after that "
                "library"
            )
        libraries_ = tuple(dict.fromkeys([*named, *others]))
        uses = {}
        if hint is None and "--no-inline" not in said and "malloc needs" not in said:
            uses = {
                symbol: users[0].rpartition(" in ")[2] if users else ""
                for symbol, users in undefined_symbols(error.output).items()
            }
            hint = source_hint(len(symbols))
        return UndefinedError(message, symbols=symbols, libraries=libraries_, hint=hint, uses=uses)


def _smaller(said: str, spec: BoardSpec) -> str | None:
    """Return what makes a program smaller; None if its size is not the fault."""
    if not re.search(_TOO_LARGE, said):
        return None
    if re.search(_OTHER_MEMORY, said):
        return _SMALLER
    arena = {**agent_options(), **spec.build.config}["arena"]
    agents = f" (the agent's arena takes {arena:,} bytes of the RAM)" if arena else ""
    return f"use smaller arrays, or build fewer of the files{agents}"


def source_hint(symbols: int = 1) -> str:
    """Return what defines missing symbols, for an error."""
    if symbols == 1:
        return "give the file that defines it with --source, or its library with --ldflags"
    return "give the files that define them with --source, or their libraries with --ldflags"


def _scripts(spec: BoardSpec) -> tuple[Path, ...]:
    """Return the C library's additions to the board's link script."""
    return tuple(sorted((runtime_dir() / "libc" / str(spec.build.libc)).glob("*.ld")))


def link_what_can_be(
    cache: Cache,
    functions: Sequence[CFunction],
    objects: Sequence[Path],
    build_id: bytes,
    link: Callable[[Sequence[CFunction]], _T],
) -> tuple[_T, list[CFunction], dict[str, str]]:
    """Link with as many functions as possible.

    Args:
        cache: remembers which functions had to be left out.
        functions: the user's.
        objects: the files that have them.
        build_id: of the image.
        link: links an image with a table of the functions that have no reason.

    Returns:
        The result of ``link``, the functions, and a map from each function left out to the symbol
        that it needs, such as ``times (for clock)`` if a library's ``clock`` needs it.

    Raises:
        UndefinedError: no function would be left, or the symbol is needed elsewhere.
        BuildError: the link fails for another reason.
    """
    place = ("undefined", build_id.hex() + ".json")
    known = cache.read(*place)
    if known is not None:
        missing: dict[str, str] = json.loads(known)
        offered = [_without(fn, missing) for fn in functions]
        return link(offered), offered, missing
    try:
        return link(functions), list(functions), {}
    except UndefinedError as error:
        from boardprof.target.elf.references import (
            functions_needing,  # pyelftools takes a while to import
        )

        needing = {
            name: need.symbol + (f" (for {need.through})" if need.through else "")
            for name, need in functions_needing(objects, error.symbols, error.libraries).items()
        }
        needs = {fn.name: _needs(fn, needing) for fn in functions if fn.reason is None}
        missing = {name: symbol for name, symbol in needs.items() if symbol is not None}
        offered = [_without(fn, missing) for fn in functions]
        if not missing or all(fn.reason for fn in offered):
            if not missing or not error.uses:
                raise
            raise _nothing_left(error, missing) from error
    linked = link(offered)
    cache.write(json.dumps(missing), *place)
    return linked, offered, missing


def _nothing_left(error: UndefinedError, missing: Collection[str]) -> UndefinedError:
    """Return the error for sources whose functions all need missing symbols."""
    symbols = [f"{symbol} ({place})" if place else symbol for symbol, place in error.uses.items()]
    is_one = len(symbols) == 1
    return UndefinedError(
        f"{_listed([*missing])} {'needs' if len(missing) == 1 else 'need'} {_listed(symbols)}, "
        f"which {'is' if is_one else 'are'} not defined.",
        symbols=error.symbols,
        libraries=error.libraries,
        hint=error.hint,
        uses=error.uses,
    )


def _listed(names: Sequence[str]) -> str:
    """Return names as a list; of many, the first ones and the number of the others."""
    shown = [*names[:_MOST]]
    if len(names) > _MOST:
        shown.append(f"{len(names) - _MOST} more")
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))


def _needs(fn: CFunction, needing: dict[str, str]) -> str | None:
    """Return the missing symbol that a function, its set-up or its check needs."""
    hooks = (fn.symbol, fn.setup, fn.check)
    return next((needing[name] for name in hooks if name in needing), None)


def _without(fn: CFunction, missing: dict[str, str]) -> CFunction:
    if fn.name not in missing or fn.reason is not None:
        return fn
    reason = f"it needs {missing[fn.name]}, which is not defined"
    return replace(fn, parameters=(), result=None, setup=None, check=None, reason=reason)


def check_constructors(
    spec: BoardSpec,
    cache: Cache,
    image: Path,
    inputs: Sequence[Object],
    offered: Collection[str],
) -> None:
    """Check that an image has no code to be run before main on a board that runs none.

    Args:
        spec: the board.
        cache: remembers the images without such code.
        image: in the cache.
        inputs: the user's objects and libraries.
        offered: functions that the image calls.

    Raises:
        BuildError: it has.
    """
    place = ("constructors", image.parent.name)
    if not spec.build.freestanding or cache.read(*place) is not None:
        return
    # The objects are read because many link scripts discard such sections.
    found = _constructing([made.path for made in inputs], offered)
    if not found and not _constructing([image], ()):
        cache.write("", *place)
        return
    raise BuildError(
        f"{found[0] if found else image.name} has constructors of static objects, "
        f"but {spec.name} does not run constructors.",
        hint="make the objects constinit, or construct them in NAME_setup()",
    )


def _constructing(paths: Sequence[Path], offered: Collection[str]) -> list[str]:
    """Return the objects with constructors, and the needed members of libraries with them."""
    needed, found = set(offered), []
    has_libraries = any(map(is_library, paths))  # whose members are only linked if needed
    for image in (image for path in paths for image in images(path)):
        if not has_libraries and not any(kind.encode() in image.content for kind in _CONSTRUCTORS):
            continue  # no section has such a name: to read the file would take much longer
        names, constructs = read_image(image, partial(_names_and_constructors, has_libraries))
        needed.update(name for name, is_here in names if not is_here)
        if constructs:
            own = {name for name, is_here in names if is_here}
            found.append((image.label, own if image.in_library else None))
    return [label for label, own in found if own is None or own & needed]


def _names_and_constructors(named: bool, elf: ELFFile) -> tuple[list[tuple[str, bool]], bool]:
    return list(global_names(elf)) if named else [], _has_constructors(elf)


def _has_constructors(elf: ELFFile) -> bool:
    return any(
        section.data_size and f"{section.name}.".startswith(f"{kind}.")
        for section in elf.iter_sections()
        for kind in _CONSTRUCTORS
    )
