# SPDX-License-Identifier: Apache-2.0
"""memcpy, memmove, memset and memcmp, which a compiler calls on its own, on bare boards.

The agent has its own, under names of its own: what a measured function calls is never the agent's
business, nor the other way round. The user's code gets the C library's. Where there is none, it
gets the agent's too, under the plain names and from a library that stands last in the link, so that
the user's sources and libraries come before it.
"""

from __future__ import annotations

from collections.abc import Sequence

from boardprof.elf.archive import library
from boardprof.firmware.same_names import renamed
from boardprof.toolchain.cache import Cache, digest
from boardprof.toolchain.toolchain import Compiler, Object

__all__ = ["fallback_library", "with_own_memory"]

_NAMES = ("memcpy", "memmove", "memset", "memcmp")
_OBJECT = "bp_mem.o"
_LIBRARY = "libbp_mem.a"


def with_own_memory(compiler: Compiler, agent: Sequence[Object]) -> list[Object]:
    """Return the agent's objects, which define and call ``bp_memcpy`` and the like.

    Raises:
        BuildError: objcopy fails.
    """
    return renamed(compiler, agent, _NAMES, "bp_")


def fallback_library(compiler: Compiler, cache: Cache, agent: Sequence[Object]) -> Object | None:
    """Return the library with the plain names; None of an agent that has none.

    They are weak: of the four, the user may have defined some.

    Args:
        compiler: whose objcopy is taken.
        cache: where the library is kept.
        agent: its objects as they were compiled.

    Raises:
        BuildError: objcopy fails.
    """
    own = next((made for made in agent if made.path.name == _OBJECT), None)
    if own is None:
        return None
    weak = compiler.edit(own, "--weaken")
    place = ("libraries", digest(weak.sha256, _NAMES))
    kept = cache.find(_LIBRARY, *place)
    if kept is None:
        with cache.scratch() as scratch:
            made = scratch / _LIBRARY
            made.write_bytes(library(_OBJECT, weak.path.read_bytes(), _NAMES))
            kept = cache.store(made, *place)
    return Object(kept, kept.parent.name)
