# SPDX-License-Identifier: Apache-2.0
"""Locks on files, which processes have a file open or locked, or are behind a line, and the CPU.

See proc(5). Processes of other users may not be visible.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from boardprof.base.errors import BusyError, UsageError
from boardprof.base.files import make_private

try:
    import fcntl
except ModuleNotFoundError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

_PTY = r"/dev/pts/(\d+)"
_LOOPBACK = ("localhost", "::1")

_POLL_S = 0.02


def needs_posix(what: str) -> None:
    """Refuse what only a POSIX system can do, by its name."""
    if fcntl is None:
        raise UsageError(
            f"{what} needs a POSIX system, such as Linux. This system is not one.",
            hint="measure on a board at a port (-p PORT), or use WSL or a container",
        )


def lock_within(
    descriptor: int, timeout_s: float, on_wait: Callable[[], None] = lambda: None
) -> bool:
    """Lock an open file until it is closed; False if another process has it at the timeout.

    Anybody who can read a file can lock it. A lock of users who cannot write it does not count.
    Without POSIX, nothing is locked.
    """
    if fcntl is None:
        return True
    deadline = time.monotonic() + timeout_s
    has_waited = was_reader = False
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            is_reader = _only_readers_lock(descriptor)
            if is_reader and was_reader:  # not a holder that ended just while we looked
                return True
            if not is_reader and time.monotonic() >= deadline:
                return False
        was_reader = is_reader
        if not has_waited:
            on_wait()
            has_waited = True
        time.sleep(_POLL_S)


def _only_readers_lock(descriptor: int) -> bool:
    """Tell whether a lock is held by users who can read the file, but not write it."""
    status = os.fstat(descriptor)
    others = status.st_mode & 0o066
    if not others or others & 0o022:
        return False
    holders = _lock_owners({_place(status)})
    writers = {0, os.geteuid(), status.st_uid}
    # One that has ended has left the lock to a child, which no boardprof does.
    return bool(holders) and not any(pid == 0 or _user_of(pid) in writers for pid in holders)


def _user_of(pid: int) -> int | None:
    """Return the user of a process; None if it has ended."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(errors="replace")
    except OSError:
        return None
    found = re.search(r"(?m)^Uid:\s+\d+\s+(\d+)", text)  # a program may hide whose folder it is
    return None if found is None else int(found[1])


@contextlib.contextmanager
def leased(
    folder: Path, what: str, timeout_s: float, *, hint: str = "wait for its end"
) -> Iterator[None]:
    """Hold the lease of a port or a board's name; the kernel releases it if this process dies."""
    if fcntl is None:
        yield
        return
    make_private(folder)
    file = folder / hashlib.sha256(what.encode()).hexdigest()[:16]
    handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if not lock_within(handle, timeout_s):
            holder = _lease_text(os.pread(handle, 64, 0))[0] or "another process"
            raise BusyError(
                f"{what} has been in use by {holder} for more than {timeout_s:g} s.",
                owner=holder,
                hint=hint,
            )
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"process {os.getpid()}\n{what}".encode(), 0)
        yield
    finally:
        os.close(handle)  # gives the lock back


@contextlib.contextmanager
def locked_folder(folder: Path, timeout_s: float, what: str) -> Iterator[None]:
    """Hold a lock on a folder while a file in it is read and replaced.

    The file itself cannot be locked, because another one replaces it. A file system that locks no
    folders, as some on networks, goes without.
    """
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # writing the file will say why
        yield
        return
    try:
        try:
            is_locked = lock_within(handle, timeout_s)
        except OSError:
            is_locked = True
        if not is_locked:
            holder = described(lock_holders(folder)) or "another process"
            raise BusyError(
                f"{what} has been locked by {holder} for more than {timeout_s:g} s.",
                owner=holder,
                hint="end that process, or wait for its end",
            )
        yield
    finally:
        os.close(handle)


def held_leases(folder: Path) -> dict[str, str]:
    """Return what is leased, and the process that has it: ``{"native": "process 4242"}``."""
    found = {}
    for file in sorted(folder.iterdir()) if folder.is_dir() else ():
        if lock_holders(file):  # to try the lock would stand in the way of others
            holder, what = _lease_text(file.read_bytes())
            found[what] = holder
    return found


def _lease_text(content: bytes) -> tuple[str, str]:
    """Return the holder and what it holds."""
    holder, _, what = content.decode(errors="replace").partition("\n")
    return holder, what


def openers(device: str) -> list[int]:
    """Return the processes that have ``device`` open, without this one; by number."""
    wanted = os.path.realpath(device)
    return sorted(int(folder.name) for folder in _others_with(lambda link, _: link == wanted))


def lock_holders(*files: str | Path) -> list[int]:
    """Return the processes that hold a lock on any of the files, as every boardprof does."""
    places = set()
    for file in files:
        with contextlib.suppress(OSError):
            places.add(_place(os.stat(file)))
    return [pid for pid in _lock_owners(places) if pid]


def _place(status: os.stat_result) -> str:
    """Return a file as /proc/locks has it."""
    return f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"


def _lock_owners(places: set[str]) -> list[int]:
    """Return the processes that hold a lock on any of the files; 0: outside of this container."""
    try:
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return []
    fields = [line.split() for line in lines]
    # "1: FLOCK  ADVISORY  WRITE 4242 00:19:5 0 EOF"; one that waits has an arrow after the number.
    holders = [int(f[4]) for f in fields if f[1] != "->" and f[5] in places and f[4].isdecimal()]
    return list(dict.fromkeys(holders))


def described(processes: Iterable[int]) -> str:
    """Name processes for people: ``minicom (pid 4242)``; "" when there are none."""
    return " and ".join(f"{_name(pid)} (pid {pid})" for pid in processes)


def _name(pid: int) -> str:
    if pid == os.getpid():
        return "this program"
    try:
        name = Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return "a program"
    programs = {os.path.basename(word) for word in command_of(pid)[:3]}  # python, -m, boardprof
    return "another boardprof" if "boardprof" in programs else name


def command_of(pid: int) -> list[str]:
    """Return the words of a process's command line; [] if it has ended, or is another user's."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []
    return [os.fsdecode(word) for word in words[:-1]]


# -- the other end of a line -------------------------------------------------------------------


def port_holders(port: str) -> list[int]:
    """Return the processes that have a port; a pseudo-terminal is also open at its other end."""
    is_pty = os.path.realpath(port).startswith("/dev/pts/")
    return lock_holders(port) if is_pty else openers(port)


def commands_behind(port: str) -> list[tuple[str, ...]]:
    """Return the command lines of the programs at the other end of a socket or pseudo-terminal.

    There may be several, because a socket can be handed on.
    """
    url = urlsplit(port)
    if url.scheme == "socket":
        host, number = url.hostname or "", url.port or 0
        if not (host in _LOOPBACK or host.startswith("127.")):
            return []
        links = _sockets_at(number)
        others = _others_with(lambda link, _: link in links) if links else ()
    else:
        found = re.fullmatch(_PTY, os.path.realpath(port))
        if found is None:
            return []
        others = _others_with(lambda link, info: _is_master(link, info, found[1]))
    return [tuple(command_of(int(folder.name))) for folder in others]


def comes_from(connection: socket.socket, process: int) -> bool | None:
    """Tell whether a connection on the loopback is from a process or a descendant.

    True if only the user is known: this one, or root. None if the other end is closed.
    """
    found = _socket_at_other_end(connection)
    if found is None:
        return None
    user, link = found
    if user not in (0, os.geteuid()):
        return False
    is_elsewhere = False
    for folder in (Path(f"/proc/{process}"), *Path("/proc").glob("[0-9]*")):  # mostly the first
        with contextlib.suppress(OSError):
            if _has_such(folder, lambda each, _: each == link):
                if _descends(folder, process):
                    return True
                is_elsewhere = True
    return not is_elsewhere


def _socket_at_other_end(connection: socket.socket) -> tuple[int, str] | None:
    """Return the user and the socket at the other end; None if it is closed."""
    theirs, ours = map(_in_table, (connection.getpeername(), connection.getsockname()))
    for fields in _tcp_sockets():
        if fields[1:3] == [theirs, ours]:
            # A closed socket has no inode, and says user 0 whoever had it.
            return None if fields[9] == "0" else (int(fields[7]), f"socket:[{fields[9]}]")
    return None


def _in_table(address: tuple[str, int]) -> str:
    """Return an IPv4 address as the kernel's table has it: a word of this machine's order."""
    host, port = address
    return f"{int.from_bytes(socket.inet_aton(host), sys.byteorder):08X}:{port:04X}"


def _descends(folder: Path, ancestor: int) -> bool:
    while folder.name not in ("0", "1", str(ancestor)):
        stat = (folder / "stat").read_text(encoding="ascii", errors="replace")
        folder = Path("/proc", stat.rpartition(")")[2].split()[1])
    return folder.name == str(ancestor)


def _sockets_at(number: int) -> set[str]:
    """Return the sockets of this machine that are at a TCP port."""
    return {
        f"socket:[{fields[9]}]"
        for fields in _tcp_sockets()
        if fields[1].endswith(f":{number:04X}") and fields[9] != "0"
    }


def _tcp_sockets() -> Iterator[list[str]]:
    """Yield this machine's TCP sockets (proc_net_tcp(5)): 1 and 2 ends, 7 user, 9 inode."""
    for table in ("tcp", "tcp6"):
        try:
            lines = Path("/proc/net", table).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        yield from map(str.split, lines)


def _is_master(link: str, info: Path, terminal: str) -> bool:
    """Tell whether a descriptor is the other end of a pseudo-terminal (proc_pid_fdinfo(5))."""
    if not link.endswith("/ptmx"):
        return False
    return f"tty-index:\t{terminal}\n" in info.read_text(encoding="ascii", errors="replace")


def _others_with(wanted: Callable[[str, Path], bool]) -> Iterator[Path]:
    """Yield the folders of other processes that have such a descriptor."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended, or belongs to another user
            if folder.name != str(os.getpid()) and _has_such(folder, wanted):
                yield folder


def _has_such(process: Path, wanted: Callable[[str, Path], bool]) -> bool:
    return any(
        wanted(os.readlink(descriptor), process / "fdinfo" / descriptor.name)
        for descriptor in (process / "fd").iterdir()
    )


_CPU_NUMBERS: Final = (
    *("cpu family", "model", "stepping"),
    *("CPU implementer", "CPU part", "CPU variant", "CPU revision"),
)
"""What /proc/cpuinfo tells besides a name, on x86 and on Arm."""


@cache
def cpu_name() -> str:
    """Return this machine's CPU: ``x86_64, Intel(R) Xeon(R) Processor (6-207-2)``.

    Family, model and stepping follow a name, since machines in a cloud have one name for many CPUs.
    """
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        text = ""
    return cpu_in(text, platform.machine())


def cpu_in(cpuinfo: str, machine: str) -> str:
    """Return the CPU that Linux's /proc/cpuinfo tells of, or the architecture alone."""
    cores: dict[str, None] = {}
    for block in cpuinfo.split("\n\n"):
        pairs = (line.partition(":") for line in block.splitlines())
        facts = {name.strip(): value.strip() for name, _, value in pairs}
        name = next((facts[key] for key in ("model name", "cpu", "uarch") if facts.get(key)), "")
        numbers = [facts[key] for key in _CPU_NUMBERS if facts.get(key)]
        if numbers:
            name = f"{name} ({'-'.join(numbers)})".strip()
        if name:
            cores[name] = None
    return ", ".join(filter(None, [machine, " and ".join(cores)]))
