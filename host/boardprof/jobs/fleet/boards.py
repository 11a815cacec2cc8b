# SPDX-License-Identifier: Apache-2.0
"""A board of a fleet: how its host reaches it, its quarantine, and the right to use it.

A lease ends with its holder, however the holder ends. On this machine it is a lock on a file, which
the kernel releases. The pytest plugin and other batches take the same locks. A place in labgrid
belongs to a user and not to a process, so its release is left to a shell that waits for our end.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from boardprof.base.errors import BoardError, BusyError, MissingToolError, UsageError
from boardprof.base.files import check_owner, make_private, write_bytes
from boardprof.base.processes import leased
from boardprof.target.descriptions.board import BoardSpec, board_spec
from boardprof.target.toolchain.cache import cache_root

_SUFFIX = ".quarantine"


LONGEST_QUARANTINE_S = 3600.0


@dataclass(frozen=True)
class Quarantine:
    """Why a board is out of service, and until when."""

    why: str
    until_s: float  # Unix time of its next check
    count: int  # checks that it has failed in a row

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Quarantine:
        """Read a quarantine as plain data; raises KeyError, TypeError or ValueError."""
        until_s = float(facts["until_s"])
        # One that ends later is from a clock that was ahead, and is over.
        is_plausible = until_s <= time.time() + LONGEST_QUARANTINE_S
        return cls(str(facts["why"]), until_s if is_plausible else 0.0, int(facts["count"]))


def lease_folder() -> Path:
    """Return the folder of this user's leases on this machine."""
    folder = cache_root() / "leases"
    check_owner(folder, "set XDG_CACHE_HOME to a folder of your own")
    return folder


def quarantines() -> dict[str, Quarantine]:
    """Return the quarantines of this machine by the places of their boards."""
    folder = lease_folder()
    found: dict[str, Quarantine] = {}
    for file in sorted(folder.glob(f"*{_SUFFIX}")) if folder.is_dir() else ():
        found |= _read(file)
    return found


def quarantine_of(place: str) -> Quarantine | None:
    """Return the quarantine of a board of this machine by its place; None if it has none."""
    return _read(_file(place)).get(place)


def keep_quarantine(place: str, quarantine: Quarantine) -> None:
    """Keep the quarantine of a board until `end_quarantine`."""
    file = _file(place)
    make_private(file.parent)
    write_bytes(json.dumps({"place": place, **asdict(quarantine)}).encode(), str(file))


def end_quarantine(place: str) -> None:
    """Forget that a board was in quarantine."""
    _file(place).unlink(missing_ok=True)


def _file(place: str) -> Path:
    return lease_folder() / f"{hashlib.sha256(place.encode()).hexdigest()[:16]}{_SUFFIX}"


def _read(file: Path) -> dict[str, Quarantine]:
    try:
        facts = json.loads(file.read_bytes())
        return {str(facts["place"]): Quarantine.of(facts)}
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return {}  # it has just ended; a damaged one only means that the board gets a job


def next_check(until_s: float) -> str:
    """Return when a board in quarantine is checked, for people."""
    if until_s <= time.time():
        return "checked before its next job"
    return f"checked again at {time.strftime('%H:%M:%S', time.localtime(until_s))}"


LABGRID = "labgrid:"
"""Prefix of a port that is the name of a place in labgrid."""

_FORM = "KIND, KIND=PORT, KIND=PORT#SERIAL, KIND=labgrid:PLACE"


@dataclass(frozen=True)
class FleetBoard:
    """A board of a fleet."""

    kind: str  # name of its folder, such as qemu-rv32
    serial: str  # no other board of the fleet has it
    port: str | None = None  # of its agent, or labgrid:PLACE; None if its host starts it
    host: str = ""  # address of the worker that has it; "" for this machine
    # in which it was when it joined the batch; None if it was in service
    quarantine: Quarantine | None = field(default=None, compare=False)

    @property
    def place(self) -> str:
        """What it is on its host: its kind, with its port or else its serial number."""
        return f"{self.kind} {self.port or self.serial}"

    @property
    def spec(self) -> BoardSpec:
        """The board's description; raises as `board_spec`."""
        spec = board_spec(self.kind)
        return spec if self.port is None else spec.at_port()


def check_startable(kind: str) -> None:
    """Check that a board which its host starts can be started here."""
    launch = board_spec(kind).launch
    program, package = launch.command[0] if launch.command else "", launch.package
    if launch.simulator is not None:
        program, package = launch.simulator.program, launch.simulator.package
    is_program = program and "{" not in program  # else the image itself
    if is_program and shutil.which(program) is None:
        raise MissingToolError(program, package or program)


def boards_of_host(texts: Sequence[str], host: str) -> list[FleetBoard]:
    """Return the boards that a host offers."""
    # A board that is simulated by an emulator is offered once for each core. Boards that are this
    # machine itself are offered once, because their calls would disturb each other.
    found: list[FleetBoard] = []
    for text in dict.fromkeys(texts):
        kind, has_port, rest = text.partition("=")
        port, has_serial, serial = rest.partition("#")
        is_empty = not port.removeprefix(LABGRID).strip()
        if not kind or (has_port and is_empty) or (has_serial and not serial.strip()):
            raise UsageError(f"{text!r} is not a board.", hint=_FORM)
        spec = board_spec(kind)
        if port:
            found.append(FleetBoard(kind, serial or f"{host}:{port}", port))
        elif spec.launch.kind == "serial":
            raise UsageError(f"{kind} is a real board and needs a port.", hint=f"{kind}=PORT")
        else:
            count = (os.cpu_count() or 1) if spec.clock.kind == "simulated" else 1
            found += [FleetBoard(kind, f"{host}:{kind}.{n}") for n in range(count)]
    serials = [board.serial for board in found]
    if twice := sorted({each for each in serials if serials.count(each) > 1}):
        raise UsageError(f"Two boards have the serial number {twice[0]}.", hint=_FORM)
    return found


CLIENT_VARIABLE = "BOARDPROF_LABGRID_CLIENT"
"""Path of ``labgrid-client``, which has a Python environment of its own."""

LEASE_S = 300.0
_CLIENT_S = 60.0
_POLL_S = 0.5
_WAIT_FOR_OUR_END = 'cat >/dev/null; exec "$@"'


@contextlib.contextmanager
def lease(board: FleetBoard, timeout_s: float = LEASE_S) -> Iterator[str | None]:
    """Lend a board to a block; gives its port, or None if it has to be started.

    Raises BusyError if another holder still has it after the time in seconds.
    """
    port = board.port
    if port is not None and port.startswith(LABGRID):
        client = _Client(port.removeprefix(LABGRID))
        # For labgrid, all processes of a user on a host are one holder.
        with leased(lease_folder(), port, timeout_s), _guarded(client) as take:
            take(timeout_s)
            yield client.port()
    elif port is None and board.spec.clock.kind == "simulated":  # one of the cores for an emulator
        with _one_of([f"emulator {n}" for n in range(os.cpu_count() or 1)], timeout_s):
            yield None
    else:
        with leased(lease_folder(), port or board.kind, timeout_s):
            yield port


@contextlib.contextmanager
def _one_of(names: list[str], timeout_s: float) -> Iterator[None]:
    deadline = time.monotonic() + timeout_s
    with contextlib.ExitStack() as stack:
        while True:
            for name in names:
                with contextlib.suppress(BusyError):
                    stack.enter_context(leased(lease_folder(), name, 0.0))
                    yield
                    return
            if time.monotonic() >= deadline:
                raise BusyError(
                    f"{len(names)} emulators, one for each core, have been running for more than "
                    f"{timeout_s:g} s.",
                    owner="other batches",
                    hint="wait for them to end",
                )
            time.sleep(0.02)


@contextlib.contextmanager
def _guarded(client: _Client) -> Iterator[Callable[[float], None]]:
    """Yield a function that acquires a place until the end, or until this process dies."""
    # A shell that runs before the place is acquired waits for the end of its input.
    guard = subprocess.Popen(
        ["sh", "-c", _WAIT_FOR_OUR_END, "sh", *client.command("release")],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert guard.stdin is not None
    is_ours = False

    def take(timeout_s: float) -> None:
        nonlocal is_ours
        client.acquire(timeout_s)
        is_ours = True

    try:
        yield take
    finally:
        if not is_ours:  # the place belongs to somebody else, so it must not be released
            guard.kill()
        guard.stdin.close()  # now the shell releases it
        guard.wait(_CLIENT_S)


class _Client:
    """labgrid's command for one place."""

    def __init__(self, place: str) -> None:
        named = os.environ.get(CLIENT_VARIABLE, "labgrid-client")
        program = shutil.which(named)
        if program is None:
            raise MissingToolError(
                named,
                "labgrid",
                hint="install labgrid into a Python environment of its own, and name its command: "
                f"{CLIENT_VARIABLE}=/path/to/labgrid-client",
            )
        self._program = program
        self._place = place

    def command(self, *words: str) -> list[str]:
        return [self._program, "-p", self._place, *words]

    def acquire(self, timeout_s: float) -> None:
        """Acquire the place; labgrid does not wait, so ask again until the time is over."""
        deadline = time.monotonic() + timeout_s
        while True:
            done = self._run("acquire")
            if done.returncode == 0:
                return
            told = (done.stderr or done.stdout).strip()
            found = re.search(r"already acquired by (\S+?)\.?(\s|$)", told)
            is_own = "You have already acquired" in told
            holder = found[1] if found else "this user on this host" if is_own else None
            if holder is None:
                raise BoardError(
                    f"labgrid does not lend the place {self._place}: {told}",
                    hint="`labgrid-client places` lists them; LG_COORDINATOR names the coordinator",
                )
            if time.monotonic() >= deadline:
                raise BusyError(
                    f"The place {self._place} has been acquired by {holder} for more than "
                    f"{timeout_s:g} s.",
                    owner=holder,
                    hint=f"wait for its release; `labgrid-client -p {self._place} show` shows it",
                )
            time.sleep(_POLL_S)

    def port(self) -> str:
        told = self._run("show").stdout
        parts = re.findall(r"'(host|port|protocol)': ('[^']*'|\d+)", told)
        found = {name: value.strip("'") for name, value in parts}
        if "host" not in found or "port" not in found:
            raise BoardError(
                f"The place {self._place} has no serial port on the network.",
                hint=f"`labgrid-client -p {self._place} show` shows its resources",
            )
        scheme = "socket" if found.get("protocol") == "raw" else "rfc2217"
        host = f"[{found['host']}]" if ":" in found["host"] else found["host"]
        return f"{scheme}://{host}:{found['port']}"

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                self.command(*words),
                capture_output=True,
                text=True,
                timeout=_CLIENT_S,
                stdin=subprocess.DEVNULL,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise BoardError(
                f"labgrid-client {words[0]} did not end within {_CLIENT_S:g} s.",
                hint="check that LG_COORDINATOR names a coordinator that runs",
            ) from error
