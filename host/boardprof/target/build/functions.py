# SPDX-License-Identifier: Apache-2.0
"""The functions of the user's code: those that a firmware offers, and those that it cannot.

A static function that nothing calls is not in the object: the compiler drops it silently. So
`discarded_functions` compiles the sources once more, as ``--no-inline`` would, when an error is to
be explained or somebody asks for all. pyelftools is imported only when objects are read: that takes
longer than a build from the cache.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import elftools

from boardprof.base.errors import BuildError, UnknownNameError, UsageError
from boardprof.target import cfunction
from boardprof.target.build.build_options import BuildOptions, UserFlags, user_flags
from boardprof.target.build.glue import fit
from boardprof.target.build.sources import (
    find_libc,
    find_sources,
    language,
    names_one_of,
    user_unit,
)
from boardprof.target.cfunction import (
    CFunction,
    HiddenFunction,
    function_from_json,
    function_to_json,
)
from boardprof.target.descriptions.board import BoardSpec
from boardprof.target.elf.object_file import global_functions, images, local_functions, read_image
from boardprof.target.toolchain.cache import Cache, FileHashes, digest
from boardprof.target.toolchain.compiler import Compiler, Object

if TYPE_CHECKING:  # pyelftools takes a while to import, and builds from the cache do not need it
    from elftools.elf.elffile import ELFFile

_READERS = ("elf/*.py", "cfunction.py")
"""The modules that read functions: a change of them invalidates the cached results."""

_STATIC = "-fkeep-static-functions"
_INLINE = "-fkeep-inline-functions"  # and each of each header
_MAIN = "bp_user_main_"  # as sources.user_unit names it


def read_functions(
    spec: BoardSpec,
    cache: Cache,
    objects: Sequence[Object],
    flags: UserFlags,
    sources: Sequence[Path],
) -> tuple[list[CFunction], list[HiddenFunction]]:
    """Return the functions, with a reason if the board's agent cannot call them, and the hidden."""
    names = [[made.path.name, made.sha256] for made in objects]
    place = ("functions", digest(2, _readers(), names, flags.keep) + ".json")
    known = cache.read(*place)
    if known is None:
        from boardprof.target.elf.functions import functions, hidden_functions

        paths = [made.path for made in objects]
        found = functions(paths, flags.kept_names, sources)
        offered = {fn.name for fn in found}
        hidden = [each for each in hidden_functions(paths) if each.name not in offered]
        data = {"functions": [function_to_json(fn) for fn in found], "hidden": hidden}
        cache.write(json.dumps(data), *place)
    else:
        data = json.loads(known)
        found = [function_from_json(each) for each in data["functions"]]
        hidden = [HiddenFunction(*each) for each in data["hidden"]]
    return [fit(fn, spec.build.options) for fn in found], hidden


def _readers() -> list[str | None]:
    package = Path(cfunction.__file__).parent
    files = sorted(path for pattern in _READERS for path in package.glob(pattern))
    return [elftools.__version__, *(FileHashes().of(path) for path in files)]


@dataclass(frozen=True)
class Discarded:
    """The functions that no firmware offers."""

    static: tuple[HiddenFunction, ...] = ()
    mains: tuple[Path, ...] = ()


def discarded_functions(
    spec: BoardSpec,
    sources: Sequence[str | Path],
    options: BuildOptions,
    name: str | None = None,
    verbose: Callable[[str], None] | None = None,
) -> Discarded:
    """Compile C sources so that nothing is discarded; a source that fails is left out.

    ``name``: the only function of interest, which may be inline; None for all that are not inline.
    """
    flags = user_flags(options)
    files = [
        file
        for file in find_sources([*sources, *options.sources]).files
        if language(file) == "c" and (name is None or names_one_of(file.read_bytes(), [name]))
    ]
    if not files or flags.lto:
        return Discarded()
    compiler = Compiler(spec.build.cc, spec.build.package, Cache(), verbose)
    libc = find_libc(spec, compiler)
    cflags = None if libc is None else libc.cflags
    static: list[HiddenFunction] = []
    mains: list[Path] = []
    for file in files:
        unit = user_unit(spec, file, flags, cflags)
        keep = (_STATIC,) if name is None else (_STATIC, _INLINE)
        try:
            made = compiler.compile(replace(unit, flags=(*unit.flags, *keep)))
        except BuildError:  # the compiler does not know the flag
            continue
        found, has_main = _read(made.path)
        static += [each for each in found if name is None or each.name == name]
        mains += [file] if has_main else []
    return Discarded(tuple(static), tuple(mains))


def _read(path: Path) -> tuple[list[HiddenFunction], bool]:
    from boardprof.target.elf.functions import hidden_functions

    def facts(elf: ELFFile) -> tuple[set[str], bool]:
        has_main = any(name.startswith(_MAIN) for name, _ in global_functions(elf))
        return local_functions(elf), has_main

    found = [read_image(image, facts) for image in images(path)]
    local = {name for names, _ in found for name in names}
    # A function that still has no code is always inlined: nothing can keep it.
    hidden = [each for each in hidden_functions([path]) if each.name in local]
    return hidden, any(has_main for _, has_main in found)


def check_kept(
    flags: UserFlags,
    files: Sequence[Path],
    offered: Collection[str],
    hidden: Mapping[str, str],
    brought: Sequence[Path] = (),
) -> None:
    """Check that each function that the user wants to keep is there."""
    for each in flags.keep:
        at, _, name = each.rpartition(":")
        if at and not any(flags.is_of(each, file) for file in files):
            raise UsageError(
                f"{name} of {at} cannot be kept: {at} is not among the sources.",
                hint=f"the sources are {', '.join(map(str, files))}",
            )
        if name in hidden:
            for path in brought:
                if name.encode() + b"\0" in path.read_bytes():
                    raise BuildError(
                        f"{name} cannot be kept: {path.name} was compiled elsewhere, and its "
                        "static functions may be specialised for their callers.",
                        hint=f"give the source {hidden[name]} instead, or call {name} from a "
                        "function of your own in that file",
                    )
            raise BuildError(
                f"{name} in {hidden[name]} cannot be compiled out of line.",
                hint="it is always_inline, in C++, or defined by a macro: change that, or call it "
                "from a function of your own",
            )
        if name not in offered:
            raise UnknownNameError("function to keep", name, [*offered, *hidden])
