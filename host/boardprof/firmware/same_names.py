# SPDX-License-Identifier: Apache-2.0
"""Functions and variables of the user's that are named like what the agent needs of somebody else.

The agent of a process calls ``poll`` and ``read`` of the C library. A measured ``int poll(int)``
would be called instead. So it is renamed, wherever the user's code defines or uses it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path

from boardprof.elf.archive import MAGIC, outside
from boardprof.errors import BuildError
from boardprof.toolchain.cache import Cache, FileHashes, digest
from boardprof.toolchain.toolchain import Compiler, Object

__all__ = ["names_to_change", "parts_of", "renamed", "renamed_libraries"]

_FORMAT = 2


def names_to_change(
    cache: Cache,
    agent: Sequence[Object],
    user: Sequence[Object],
    lto: bool,
    also: Collection[str] = (),
) -> list[str]:
    """Return the names that the user's code defines and the agent uses but does not define.

    Args:
        cache: remembers the answer.
        agent: its objects.
        user: the user's objects and libraries.
        lto: whether the linker compiles once more: then nothing can be renamed.
        also: names that the agent uses, beside those in its objects.

    Raises:
        BuildError: there are such names, and they cannot be changed.
        UsageError: a file is damaged.
    """
    hashes = ([m.sha256 for m in made] for made in (agent, user))
    place = ("names", digest(_FORMAT, *hashes, sorted(also)))
    known = cache.read(*place)
    if known is None:
        own, needed = _symbols(agent)
        theirs, _ = _symbols(user)
        known = json.dumps(sorted((needed - own | {*also}) & theirs))
        cache.write(known, *place)
    names: list[str] = json.loads(known)
    if names and lto:
        raise BuildError(
            f"{names[0]} is also what the agent calls, and with -flto it cannot be told apart.",
            hint=f"rename it, or give -D{names[0]}=my_{names[0]}",
        )
    return names


def renamed(
    compiler: Compiler,
    objects: Sequence[Object],
    names: Collection[str],
    prefix: str = "bp_user_",
) -> list[Object]:
    """Return objects and libraries that say ``bp_user_poll`` where they said ``poll``.

    Raises:
        BuildError: objcopy fails.
    """
    found = []
    for made in objects:
        content = made.path.read_bytes()
        options = [
            f"--redefine-sym={name}={prefix}{name}"
            for name in names
            if name.encode() + b"\0" in content
        ]
        found.append(compiler.edit(made, *options) if options else made)
    return found


def parts_of(library: Path) -> list[Object]:
    """Return a library, or in place of a thin one the objects that it names."""
    parts = [path for path in outside(library) if path.is_file()]
    return [Object(path, FileHashes().of(path) or "") for path in parts or [library]]


def renamed_libraries(
    compiler: Compiler, cache: Cache, paths: Sequence[Path], names: Collection[str]
) -> dict[Path, Path]:
    """Return copies of those libraries that define one of ``names``, in which they are renamed.

    Args:
        compiler: whose objcopy is taken.
        cache: remembers what libraries define.
        paths: libraries of the linker's flags.
        names: as for `renamed`.

    Raises:
        BuildError: such a library cannot be changed.
    """
    copies = {}
    for path in paths if names else ():
        made = Object(path, FileHashes().of(path) or "")
        if path.read_bytes().startswith(MAGIC):
            [new] = renamed(compiler, [made], names)
            if new != made:
                copies[path] = new.path
        elif clash := names_to_change(cache, [], parts_of(path), False, names):
            raise BuildError(
                f"{path} defines {clash[0]}, which is also what the agent calls, and only in a "
                "whole static library can it be told apart.",
                hint="link the static library, made by ar rcs without T, or rename it there",
            )
    return copies


def _symbols(objects: Sequence[Object]) -> tuple[set[str], set[str]]:
    """Return the global names that objects define, and those that they use."""
    # Here, because pyelftools takes a while to import.
    from boardprof.elf.object_file import images, read_image
    from boardprof.elf.symbols import global_names

    defined: set[str] = set()
    used: set[str] = set()
    for image in (image for made in objects for image in images(made.path)):
        for name, here in read_image(image, lambda elf: list(global_names(elf))):
            (defined if here else used).add(name.partition("@")[0])  # name@@version
    return defined, used
