# SPDX-License-Identifier: Apache-2.0
"""What the cache forgets: files that no build has used for long, once it has grown large.

A build that takes a file from the cache marks it as used first, so that a build at the same time
does not take it away; one that is gone all the same is made again.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from pathlib import Path

__all__ = ["LARGEST_BYTES", "OLDEST_S", "prune"]

LARGEST_BYTES = 1 << 30
"""How large the cache may be before anything is forgotten."""

OLDEST_S = 30 * 86400.0
"""How long a file may stay unused in a cache that is larger."""

_INTERVAL_S = 86400.0
_STAMP = "pruned"
_TEMPORARY = "tmp"
_LOCK = ".lock"
# What the builder keeps; other things in the folder have owners of their own.
_FOLDERS = (
    "compilers",
    "constructors",
    "edited",
    "functions",
    "headers",
    "images",
    "libc",
    "libraries",
    "linkers",
    "links",
    "names",
    "objects",
    "simulators",
    "tables",
    "undefined",
    "units",
)


def prune(
    root: Path, *, largest_bytes: int = LARGEST_BYTES, oldest_s: float = OLDEST_S
) -> list[Path]:
    """Remove what was not used for long, if the cache is too large; looks once a day at most.

    Args:
        root: the cache's folder.
        largest_bytes: up to this size nothing is removed.
        oldest_s: what was used since then stays, however large the cache is.

    Returns:
        The files that were removed.
    """
    stamp = root / _STAMP
    now = time.time()
    with contextlib.suppress(OSError):
        if now - stamp.stat().st_mtime < _INTERVAL_S:
            return []
    stamp.touch()
    _drop_left_over(root / _TEMPORARY, now)
    files = [
        path
        for name in _FOLDERS
        for path in (root / name).rglob("*")
        # A lock may be held: another process would make a new file, and hold that beside us.
        if path.suffix != _LOCK and path.is_file()
    ]
    if sum(_size(path) for path in files) <= largest_bytes:
        return []
    removed = []
    for path in files:
        # Looked at just before: another build may have marked it meanwhile.
        with contextlib.suppress(OSError):
            if now - path.stat().st_mtime > oldest_s:
                path.unlink()
                removed.append(path)
                path.parent.rmdir()  # if that was the last in it
    return removed


def _drop_left_over(folder: Path, now: float) -> None:
    """Remove the scratch folders of builds that were killed."""
    for path in folder.iterdir() if folder.is_dir() else ():
        with contextlib.suppress(OSError):
            if now - path.stat().st_mtime > _INTERVAL_S:
                shutil.rmtree(path)


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
