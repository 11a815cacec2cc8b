# SPDX-License-Identifier: Apache-2.0
"""Find the programs on this machine at the other end of a line, as far as visible to the user."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from boardprof.transport.tcp import SCHEME, parse_socket_url

_PTY = r"/dev/pts/(\d+)"
_LOOPBACK = ("localhost", "::1")


def commands_behind(port: str) -> list[tuple[str, ...]]:
    """Return the command lines of the programs at the other end of a port.

    There may be several, because a socket can be handed on.

    Args:
        port: ``socket://HOST:PORT`` on this machine, or the path of a pseudo-terminal. A serial
            port has no program at its other end.
    """
    if port.startswith(SCHEME):
        host, number = parse_socket_url(port)
        if not (host in _LOOPBACK or host.startswith("127.")):
            return []
        links = {f"socket:[{inode}]" for inode in _inodes(number)}
        return list(_commands(lambda link, _: link in links)) if links else []
    found = re.fullmatch(_PTY, os.path.realpath(port))
    if found is None:
        return []
    return list(_commands(lambda link, info: _is_master(link, info, found[1])))


def _inodes(number: int) -> Iterator[str]:
    """Yield the sockets of this machine that are at a TCP port (proc_net_tcp(5))."""
    for table in ("tcp", "tcp6"):
        try:
            lines = Path("/proc/net", table).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for fields in map(str.split, lines):
            if fields[1].endswith(f":{number:04X}") and fields[9] != "0":
                yield fields[9]


def _is_master(link: str, info: Path, terminal: str) -> bool:
    """Tell whether a descriptor is the other end of a pseudo-terminal (proc_pid_fdinfo(5))."""
    if not link.endswith("/ptmx"):
        return False
    return f"tty-index:\t{terminal}\n" in info.read_text(encoding="ascii", errors="replace")


def _commands(wanted: Callable[[str, Path], bool]) -> Iterator[tuple[str, ...]]:
    """Yield the command lines of other processes that have such a descriptor."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if folder.name != str(os.getpid()) and _has(folder, wanted):
                words = (folder / "cmdline").read_bytes().split(b"\0")[:-1]
                yield tuple(os.fsdecode(word) for word in words)
        except OSError:  # it has just ended, or belongs to another user
            continue


def _has(process: Path, wanted: Callable[[str, Path], bool]) -> bool:
    return any(
        wanted(os.readlink(descriptor), process / "fdinfo" / descriptor.name)
        for descriptor in (process / "fd").iterdir()
    )
