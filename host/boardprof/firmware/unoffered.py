# SPDX-License-Identifier: Apache-2.0
"""What C sources have beside the functions that they offer: static functions, and main.

A static function that nothing calls is in no object: the compiler throws it away, and says nothing
of it. So the sources are compiled once more, as ``--keep`` would; only where there is an error to
be explained, or somebody asks for all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from boardprof.boards.board_file import BoardSpec
from boardprof.errors import BuildError
from boardprof.firmware.build_options import BuildOptions
from boardprof.firmware.libc import find_libc
from boardprof.firmware.read_functions import Hidden
from boardprof.firmware.sources import find_sources, language, names_one_of, user_unit
from boardprof.firmware.user_flags import user_flags
from boardprof.toolchain.cache import Cache
from boardprof.toolchain.toolchain import Compiler

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

__all__ = ["Unoffered", "unoffered"]

_STATIC = "-fkeep-static-functions"
_INLINE = "-fkeep-inline-functions"  # and each of each header
_MAIN = "bp_user_main_"  # as sources.user_unit names it


@dataclass(frozen=True)
class Unoffered:
    """What no firmware offers.

    Attributes:
        static: functions that ``keep`` would make callable.
        mains: the sources that define main.
    """

    static: tuple[Hidden, ...] = ()
    mains: tuple[Path, ...] = ()


def unoffered(
    spec: BoardSpec,
    sources: Sequence[str | Path],
    options: BuildOptions,
    name: str | None = None,
    verbose: Callable[[str], None] | None = None,
) -> Unoffered:
    """Compile C sources so that nothing is thrown away; what does not compile has nothing.

    Args:
        spec: the board.
        sources: as for a build.
        options: likewise.
        name: the only function of interest, which may be inline; None for all that are not.
        verbose: is given each command before it runs.

    Raises:
        UsageError: there is no such source.
        MissingToolError: the board's compiler, or its C library, is not installed.
    """
    flags = user_flags(options)
    files = [
        file
        for file in find_sources([*sources, *options.sources]).files
        if language(file) == "c" and (name is None or names_one_of(file.read_bytes(), [name]))
    ]
    if not files or flags.lto:
        return Unoffered()
    compiler = Compiler(spec.build.cc, spec.build.package, Cache(), verbose)
    libc = find_libc(spec, compiler)
    cflags = None if libc is None else libc.cflags
    static: list[Hidden] = []
    mains: list[Path] = []
    for file in files:
        unit = user_unit(spec, file, flags, cflags)
        keep = (_STATIC,) if name is None else (_STATIC, _INLINE)
        try:
            made = compiler.compile(replace(unit, flags=(*unit.flags, *keep)))
        except BuildError:  # a compiler that knows no such flag
            continue
        found, has_main = _read(made.path)
        static += [each for each in found if name is None or each[0] == name]
        mains += [file] if has_main else []
    return Unoffered(tuple(static), tuple(mains))


def _read(path: Path) -> tuple[list[Hidden], bool]:
    # Here, because pyelftools takes a while to import.
    from boardprof.dwarf.object_functions import hidden_functions
    from boardprof.elf.object_file import images, read_image

    local: set[str] = set()
    mains = [read_image(image, partial(_symbols, local)) for image in images(path)]
    # What has no code even so is always inlined: nothing can keep it.
    return [(*each,) for each in hidden_functions([path]) if each.name in local], any(mains)


def _symbols(local: set[str], elf: ELFFile) -> bool:
    """Add the local functions; return whether there is a main."""
    from boardprof.elf.symbols import global_functions, local_functions

    local |= local_functions(elf)
    return any(name.startswith(_MAIN) for name, _ in global_functions(elf))
