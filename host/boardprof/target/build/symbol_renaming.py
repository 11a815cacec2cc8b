# SPDX-License-Identifier: Apache-2.0
"""Symbols renamed in objects and libraries, so that the agent and the user's code never clash.

The agent of a process calls ``poll`` and ``read`` of the C library. A measured ``int poll(int)``
would be called instead, so it is renamed wherever the user's code defines or uses it.

memcpy, memmove, memset and memcmp are called by compilers on their own. On bare boards the agent
has its own under other names: a measured function never calls the agent's, nor the other way
round. The user's code gets the C library's. Without a C library it gets the agent's too, under the
plain names and from a library that comes last in the link, so that the user's own come first.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from itertools import chain, repeat
from pathlib import Path

from boardprof.base.errors import BuildError, UsageError
from boardprof.target.build.build_options import UserFlags
from boardprof.target.elf.object_file import MAGIC, global_names, images, outside, read_image
from boardprof.target.toolchain.cache import Cache, digest
from boardprof.target.toolchain.compiler import Compiler, Object

_FORMAT = 3

_NAMES = ("memcpy", "memmove", "memset", "memcmp")
_OBJECT = "bp_mem.o"
_LIBRARY = "libbp_mem.a"


def names_to_change(
    cache: Cache,
    agent: Sequence[Object],
    user: Sequence[Object],
    lto: bool,
    also: Collection[str] = (),
) -> list[str]:
    """Return the names that the user's code defines and the agent uses but does not define.

    ``lto``: code is compiled at link time, so that nothing can be renamed.
    """
    hashes = ([m.sha256 for m in made] for made in (agent, user))
    place = ("names", digest(_FORMAT, *hashes, sorted(also)))

    def clashes() -> str:
        own, needed = _symbols(cache, agent)
        theirs, _ = _symbols(cache, user)
        return json.dumps(sorted((needed - own | {*also}) & theirs))

    names: list[str] = json.loads(cache.recall(clashes, *place))
    if names and lto:
        raise BuildError(
            f"{names[0]} is also a function that the agent calls, and -flto prevents renaming it.",
            hint=f"rename it, or give -D{names[0]}=my_{names[0]}",
        )
    return names


def renamed(
    compiler: Compiler,
    objects: Sequence[Object],
    names: Collection[str],
    prefix: str = "bp_user_",
) -> list[Object]:
    """Return objects and libraries in which ``poll`` has become ``bp_user_poll``."""
    changed = []
    for made in objects:
        content = made.path.read_bytes()
        found = [name for name in names if name.encode() + b"\0" in content]
        options = [f"--redefine-sym={name}={prefix}{name}" for name in found]
        changed.append(compiler.edit(made, *options))
    return changed


def thin_members(library: Path) -> list[Object]:
    """Return a library; for a thin one, the objects that it names."""
    parts = [path for path in outside(library) if path.is_file()]
    return [Object.of(path) for path in parts or [library]]


def renamed_libraries(
    compiler: Compiler, cache: Cache, paths: Sequence[Path], names: Collection[str]
) -> dict[Path, Path]:
    """Return renamed copies of the libraries that define one of ``names``."""
    copies = {}
    for path in paths if names else ():
        made = Object.of(path)
        if path.read_bytes().startswith(MAGIC):
            [new] = renamed(compiler, [made], names)
            if new != made:
                copies[path] = new.path
        elif clash := names_to_change(cache, [], thin_members(path), False, names):
            raise BuildError(
                f"{path} defines {clash[0]}, which the agent also calls. The symbol can only be "
                "renamed in a complete static library.",
                hint="link the static library, made by ar rcs without T, or rename the symbol "
                "there",
            )
    return copies


def _symbols(cache: Cache, objects: Sequence[Object]) -> tuple[set[str], set[str]]:
    """Return the global names that objects define, and those that they use."""
    defined: set[str] = set()
    used: set[str] = set()
    for made in objects:
        place = ("names", digest(_FORMAT, made.sha256))
        here, needed = json.loads(cache.recall(partial(_names, made.path), *place))
        defined.update(here)
        used.update(needed)
    return defined, used


def _names(path: Path) -> str:
    """Return the same for one object or library, as JSON."""
    defined: set[str] = set()
    used: set[str] = set()
    for image in images(path):
        for name, here in read_image(image, lambda elf: list(global_names(elf))):
            (defined if here else used).add(name.partition("@")[0])  # name@@version
    return json.dumps([sorted(defined), sorted(used)])


def with_own_memcpy(compiler: Compiler, agent: Sequence[Object]) -> list[Object]:
    """Return the agent's objects, which define and call ``bp_memcpy`` and the like."""
    return renamed(compiler, agent, _NAMES, "bp_")


def fallback_library(compiler: Compiler, agent: Sequence[Object]) -> Object | None:
    """Return the library with the plain names, weak; None if the agent has no such functions."""
    own = next((made for made in agent if made.path.name == _OBJECT), None)
    if own is None:
        return None
    return compiler.library(_LIBRARY, compiler.edit(own, "--weaken"))


def edited(
    compiler: Compiler,
    objects: Sequence[Object],
    flags: UserFlags,
    kept: Sequence[Sequence[str]] = (),
) -> list[Object]:
    """Return objects and libraries with main renamed, and with kept functions made global.

    ``kept``: for each of the first objects, the static functions that become global. They were
    compiled for any caller; in other objects the compiler may have specialised them.
    """
    if flags.keep and flags.lto:
        raise UsageError(
            f"{flags.keep[0]} cannot be kept with -flto, which compiles at link time.",
            hint="leave out -flto",
        )
    pairs = zip(objects, chain(kept, repeat(())), strict=False)
    return [compiler.edit(made, *_options(made, keep)) for made, keep in pairs]


def _options(made: Object, keep: Sequence[str]) -> Iterator[str]:
    content = made.path.read_bytes()
    # A longer name with the same end is also found; then the option has no effect.
    if b"main\0" in content:
        yield f"--redefine-sym=main=bp_user_main_{made.sha256[:16]}"
    for name in keep:
        if name.encode() + b"\0" in content:
            yield f"--globalize-symbol={name}"
