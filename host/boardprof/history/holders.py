# SPDX-License-Identifier: Apache-2.0
"""Which processes hold locks on files, as far as the system tells (Linux: /proc/locks)."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

__all__ = ["holders_of"]


def holders_of(paths: Iterable[Path]) -> str:
    """Return the other processes that have locked any of the files, "" where that is not known.

    They are named by their id and command, e.g. ``process 4121 (python)``.
    """
    inodes = set()
    for path in paths:
        try:
            found = path.stat()
        except OSError:
            continue
        inodes.add((os.major(found.st_dev), os.minor(found.st_dev), found.st_ino))
    try:
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return ""
    pids = dict.fromkeys(pid for line in lines for pid in _holder(line, inodes))
    return ", ".join(_named(pid) for pid in pids if pid != os.getpid())


def _holder(line: str, inodes: set[tuple[int, int, int]]) -> list[int]:
    """Return the process that a line of /proc/locks is of, if it is of one of the files.

    ``1: POSIX  ADVISORY  WRITE 4121 08:01:131075 0 EOF`` (proc(5)); ``->`` marks who waits.
    """
    fields = line.split()
    if len(fields) < 6 or fields[1] == "->":
        return []
    try:
        major, minor, inode = fields[5].split(":")
        place = (int(major, 16), int(minor, 16), int(inode))
        pid = int(fields[4])
    except ValueError:
        return []
    return [pid] if place in inodes and pid > 0 else []


def _named(pid: int) -> str:
    try:
        command = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return f"process {pid}"
    return f"process {pid} ({command})"
