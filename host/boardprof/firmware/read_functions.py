# SPDX-License-Identifier: Apache-2.0
"""The functions of the user's objects: read from them once, and remembered with them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from boardprof import cfunction
from boardprof.boards.board_file import BoardSpec, agent_options
from boardprof.cfunction import CFunction, function_from_json, function_to_json
from boardprof.firmware.glue import fit
from boardprof.firmware.user_flags import UserFlags
from boardprof.toolchain.cache import Cache, FileHashes, digest
from boardprof.toolchain.toolchain import Object

__all__ = ["Hidden", "read_functions"]

Hidden = tuple[str, str, str]
"""A static function, which nobody outside its source can call: its name, its source, and why."""

_READERS = ("elf/*.py", "dwarf/*.py", "cfunction.py")
"""What reads them: what it found is remembered for as long as these are the same."""


def read_functions(
    spec: BoardSpec,
    cache: Cache,
    objects: Sequence[Object],
    flags: UserFlags,
    sources: Sequence[Path],
) -> tuple[list[CFunction], list[Hidden]]:
    """Return functions as far as the board's agent can call them, and those that are hidden.

    Args:
        spec: the board.
        cache: of what was read before.
        objects: the user's.
        flags: which static functions are made global.
        sources: what the objects were made of, and those that were there already.
    """
    names = [[made.path.name, made.sha256] for made in objects]
    place = ("functions", digest(2, _readers(), names, flags.keep) + ".json")
    known = cache.read(*place)
    if known is None:
        # Here, because pyelftools takes a while to import.
        from boardprof.dwarf.object_functions import functions, hidden_functions

        paths = [made.path for made in objects]
        found = functions(paths, flags.kept_names, sources)
        offered = {fn.name for fn in found}
        hidden = [(*h,) for h in hidden_functions(paths) if h.name not in offered]
        data = {"functions": [function_to_json(fn) for fn in found], "hidden": hidden}
        cache.write(json.dumps(data), *place)
    else:
        data = json.loads(known)
        found = [function_from_json(each) for each in data["functions"]]
        hidden = [(each[0], each[1], each[2]) for each in data["hidden"]]
    options = {**agent_options(), **spec.build.config}
    limits = {name: options[name] for name in ("slot_bytes", "mtu", "arena")}
    return [fit(fn, **limits) for fn in found], hidden


def _readers() -> list[str | None]:
    package = Path(cfunction.__file__).parent
    files = sorted(path for pattern in _READERS for path in package.glob(pattern))
    return [version("pyelftools"), *(FileHashes().of(path) for path in files)]
