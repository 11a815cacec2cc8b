# SPDX-License-Identifier: Apache-2.0
"""A link that leaves out what cannot be linked.

Of a file that belongs to a larger program, some functions need what is not there, and the one that
is to be measured may not. Those that do are left out of the table, so that the linker throws them
away; each has a reason that says so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from boardprof.cfunction import CFunction
from boardprof.firmware.linking import UndefinedError
from boardprof.toolchain.cache import Cache

__all__ = ["link_what_can_be"]

_T = TypeVar("_T")


def link_what_can_be(
    cache: Cache,
    functions: Sequence[CFunction],
    objects: Sequence[Path],
    build_id: bytes,
    link: Callable[[Sequence[CFunction]], _T],
) -> tuple[_T, list[CFunction], dict[str, str]]:
    """Link with as many functions as there can be.

    Args:
        cache: remembers what had to be left out.
        functions: those of the user.
        objects: where they are.
        build_id: of the image.
        link: links an image with a table of the functions that have no reason.

    Returns:
        What ``link`` returned, the functions, and those left out -> the symbol that they need,
        such as ``times (for clock)`` where a library's ``clock`` needs it.

    Raises:
        UndefinedError: nothing would be left, or something else than a function needs a symbol.
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
        from boardprof.elf.references import functions_needing  # pyelftools takes a while to import

        needing = {
            name: need.symbol + (f" (for {need.through})" if need.through else "")
            for name, need in functions_needing(objects, error.symbols, error.libraries).items()
        }
        needs = {fn.name: _needs(fn, needing) for fn in functions if fn.reason is None}
        missing = {name: symbol for name, symbol in needs.items() if symbol is not None}
        offered = [_without(fn, missing) for fn in functions]
        if not missing or all(fn.reason for fn in offered):
            raise
    linked = link(offered)
    cache.write(json.dumps(missing), *place)
    return linked, offered, missing


def _needs(fn: CFunction, needing: dict[str, str]) -> str | None:
    """Return the missing symbol that a function, its set-up or its check needs."""
    hooks = (fn.name, fn.setup, fn.check)
    return next((needing[name] for name in hooks if name in needing), None)


def _without(fn: CFunction, missing: dict[str, str]) -> CFunction:
    if fn.name not in missing or fn.reason is not None:
        return fn
    reason = f"it needs {missing[fn.name]}, which is not defined"
    return replace(fn, parameters=(), result=None, setup=None, check=None, reason=reason)
