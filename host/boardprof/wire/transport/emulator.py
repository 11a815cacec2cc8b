# SPDX-License-Identifier: Apache-2.0
"""Files that record each running emulator, so that orphans can be found and ended.

Emulators die with their host. If that fails, the next host that starts one finds the file unlocked,
and ends that process.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import select
import signal
import socket
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from boardprof.base.errors import BoardprofError
from boardprof.base.files import make_private, unwritable
from boardprof.base.processes import command_of

_END_S = 2.0
_UNFINISHED_S = 60.0
"""Seconds; creating a file takes much less than this."""

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_SHIFT = r"(?:shift=)?(\d{1,2})(?:,.*)?"
_ANSWER_S = 1.0
_READ_SIZE = 4096
_BEGIN = b'{"execute": "qmp_capabilities"}\n'
_ASK = b'{"execute": "query-replay", "id": 1}\n'
_COUNT, _REGISTERS = 1, 2
"""Which answer is to which question."""

_ASK_REGISTERS = (
    b'{"execute": "stop"}\n'
    b'{"execute": "human-monitor-command", "arguments": {"command-line": "info registers"},'
    b' "id": 2}\n'
    b'{"execute": "cont"}\n'
)
"""While the board stands still: otherwise QEMU tells where it was some time ago."""

_PC = r"\b(?:pc +|PC=|R15=)([0-9a-f]{8,16})\b"
"""As RISC-V, AArch64 and Arm print it."""


@dataclass(frozen=True)
class _Process:
    """The identity of a process, unique at any time."""

    boot: str
    pid: int
    start_ticks: int
    command: list[str]

    @classmethod
    def running(cls, pid: int, command: Sequence[str]) -> _Process | None:
        """Return the running process; None if it has ended."""
        start_ticks = _start_ticks(pid)
        return None if start_ticks is None else cls(_boot(), pid, start_ticks, list(command))

    def is_alive(self) -> bool:
        """Tell whether this very process still runs; not between ``fork`` and ``exec``."""
        return (
            _boot() == self.boot
            and _start_ticks(self.pid) == self.start_ticks
            and command_of(self.pid) == self.command
        )

    def end(self) -> None:
        """End it, if it still runs; no other process, whatever its number."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except OSError:
            return
        try:
            # The descriptor refers to one process: the checks still hold when the signal is sent.
            if self.is_alive():
                _end(descriptor)
        finally:
            os.close(descriptor)


def _end(descriptor: int) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, number)
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        if poll.poll(_END_S * 1000):
            return


class EmulatorLock:
    """The file of one emulator, locked for as long as its host lives."""

    def __init__(self, folder: Path, board: str) -> None:
        """Prepare a lock; `started` makes the file."""
        self._folder = folder
        self._board = board
        self._file: IO[str] | None = None

    def started(self, pid: int, command: Sequence[str]) -> None:
        """Write the file: an emulator runs, with the ``command`` that the process shows."""
        process = _Process.running(pid, command)
        if process is None:
            return  # it has already ended; the caller will notice
        try:
            make_private(self._folder)
            handle, name = tempfile.mkstemp(".new", f"{self._board}-{pid}-", self._folder)
        except OSError as error:
            raise self._unwritable(error) from error
        self._file = os.fdopen(handle, "w", encoding="utf-8")
        # Lock it before it gets its final name, so that nobody finds it unlocked.
        fcntl.flock(handle, fcntl.LOCK_EX)
        facts = {"board": self._board, "host_pid": os.getpid(), **asdict(process)}
        try:
            json.dump(facts, self._file)
            self._file.flush()
        except OSError as error:
            raise self._unwritable(error) from error
        self._path = Path(name).with_suffix(".json")
        os.replace(name, self._path)

    def _unwritable(self, error: OSError) -> BoardprofError:
        hint = "set XDG_CACHE_HOME to a folder that can be written"
        return unwritable(f"The folder {self._folder} of running emulators", error, hint)

    def ended(self) -> None:
        """Remove the file: the emulator has ended. May be called twice."""
        file, self._file = self._file, None
        if file is not None:
            self._path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # the disk may still be full
                file.close()


def sweep(folder: Path) -> None:
    """End the emulators whose host has gone, and remove their files."""
    for path in sorted(folder.glob("*.json")) + sorted(folder.glob("*.new")):
        try:
            file = path.open(encoding="utf-8")
        except OSError:  # its host has just removed it, or it belongs to another user
            continue
        with file:
            age_s = time.time() - os.fstat(file.fileno()).st_mtime
            if path.suffix == ".new" and age_s < _UNFINISHED_S:
                continue
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue  # its host lives
            if (process := _read(file)) is not None:
                process.end()
            path.unlink(missing_ok=True)


def _read(file: IO[str]) -> _Process | None:
    """Return the process in a file; None if the file is damaged, such as cut short."""
    try:
        facts = json.load(file)
        process = _Process(facts["boot"], facts["pid"], facts["start_ticks"], facts["command"])
    except (ValueError, TypeError, KeyError):
        return None
    return process if isinstance(process.pid, int) and process.pid > 1 else None


def _boot() -> str:
    """Return an id of this machine and of its current boot."""
    return _BOOT_ID.read_text(encoding="ascii").strip()


def _start_ticks(pid: int) -> int | None:
    """Return when a process began, in clock ticks since the boot (proc(5), stat, field 22)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


# -- QEMU's clock ------------------------------------------------------------------------------


class QemuClock:
    """Our end of a QEMU's machine protocol; the other one is a descriptor that it inherits."""

    def __init__(self, shift: int) -> None:
        """Prepare a QEMU whose instructions take 2^shift ns each."""
        self._tick_s = (1 << shift) * 1e-9
        self._ours, self._theirs = socket.socketpair()
        self._ours.settimeout(_ANSWER_S)
        self.inherited = self._theirs.fileno()  # `started` closes ours of it
        self.arguments = (  # for QEMU's command line
            *("-chardev", f"socket,id=boardprof-clock,fd={self.inherited}"),
            *("-mon", "chardev=boardprof-clock,mode=control"),
        )
        self._due = _BEGIN + _ASK
        self._text = b""
        self._now_s: float | None = None

    @classmethod
    def of(cls, command: Sequence[str]) -> QemuClock | None:
        """Return the clock of the QEMU that a command starts; None if it has none to ask."""
        if not Path(command[0]).name.startswith("qemu-system-") or "-icount" not in command[:-1]:
            return None
        counting = re.fullmatch(_SHIFT, command[command.index("-icount") + 1])
        return None if counting is None else cls(int(counting[1]))

    def started(self) -> None:
        """Take note that QEMU has the descriptor, or never will."""
        self._theirs.close()

    def now_s(self) -> float | None:
        """Return the seconds of board time that its instructions took. None if unknown.

        Waits a second at most. A QEMU that has not answered by then had no processor: while its
        answer is due, the last one is returned at once.
        """
        try:
            self._ours.sendall(self._due)
            self._due = b""
            self._take_count(self._answer(_COUNT))
        except (BlockingIOError, TimeoutError):
            self._ours.settimeout(0.0)
            return self._now_s
        except (OSError, ValueError, TypeError, LookupError):
            self.close()
            return None
        self._ours.settimeout(_ANSWER_S)
        return self._now_s

    def pc(self) -> int | None:
        """Return the board's instruction address within two seconds, or None; the board goes on."""
        if self.now_s() is None:
            return None
        try:
            self._ours.settimeout(_ANSWER_S)
            self._ours.sendall(_ASK_REGISTERS)
            found = re.search(_PC, self._answer(_REGISTERS))
        except (OSError, ValueError, TypeError, LookupError):
            return None
        return None if found is None else int(found[1], 16)

    def _take_count(self, told: Any) -> None:
        self._now_s = int(told["icount"]) * self._tick_s
        self._due = _ASK

    def _answer(self, which: int) -> Any:
        """Return QEMU's answer to a command; skip other messages that come first."""
        while True:
            line, end, rest = self._text.partition(b"\n")
            if not end:
                data = self._ours.recv(_READ_SIZE)
                if not data:
                    raise ConnectionError("QEMU has closed its machine protocol")
                self._text += data
                continue
            self._text = rest
            told = json.loads(line)
            if isinstance(told, dict) and told.get("id") == which:
                return told["return"]
            if isinstance(told, dict) and told.get("id") == _COUNT:  # late
                self._take_count(told["return"])

    def close(self) -> None:
        """Ask no more. May be called twice."""
        self._theirs.close()
        self._ours.close()
