# SPDX-License-Identifier: Apache-2.0
"""The right to use a board, which ends with its holder, however the holder ends.

`local_lease` is a lock on a file, which the kernel releases. The pytest plugin and other batches on
this machine take the same locks. A place in labgrid belongs to a user and not to a process, so
`labgrid_lease` leaves its release to a shell that waits for our end. Between hosts a board is a
resource of dask's scheduler; `boardprof.jobs.fleet.dask_worker` announces it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from boardprof.base.errors import BoardError, BusyError, MissingToolError
from boardprof.base.processes import held_leases, leased
from boardprof.jobs.fleet.boards import LABGRID, FleetBoard, lease_folder

CLIENT_VARIABLE = "BOARDPROF_LABGRID_CLIENT"
"""Path of ``labgrid-client``, which has a Python environment of its own."""

_CLIENT_S = 60.0
_POLL_S = 0.5
_WAIT_FOR_OUR_END = 'cat >/dev/null; exec "$@"'


class Lease(Protocol):
    """Lends a board to the block of a ``with`` statement."""

    def __call__(self, board: FleetBoard, timeout_s: float) -> AbstractContextManager[str | None]:
        """Lend a board, and give its port; None if the board has to be started.

        Raises BusyError if another holder still has it after ``timeout_s``.
        """


def lease_of(board: FleetBoard) -> Lease:
    """Return what lends a board."""
    is_labgrid = board.port is not None and board.port.startswith(LABGRID)
    return labgrid_lease if is_labgrid else local_lease


@contextlib.contextmanager
def local_lease(board: FleetBoard, timeout_s: float) -> Iterator[str | None]:
    """Hold a board of this machine: its port, its kind, or one of the cores for an emulator.

    As many emulators run at a time as there are cores. See `Lease`.
    """
    folder = lease_folder()
    if board.port is not None:
        with leased(folder, board.port, timeout_s):
            yield board.port
    elif board.spec.clock.kind != "simulated":
        with leased(folder, board.kind, timeout_s):
            yield None
    else:
        with _one_of([f"emulator {n}" for n in range(os.cpu_count() or 1)], timeout_s):
            yield None


def local_leases() -> dict[str, str]:
    """Return what is leased on this machine, and the process that has it."""
    return held_leases(lease_folder())


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
def labgrid_lease(board: FleetBoard, timeout_s: float) -> Iterator[str | None]:
    """Hold a place in labgrid, by its command; see `Lease`."""
    place = (board.port or "").removeprefix(LABGRID)
    client = _Client(place)
    # For labgrid, all processes of a user on a host are one holder.
    with leased(lease_folder(), board.port or "", timeout_s), _guarded(client) as take:
        take(timeout_s)
        yield client.port()


@contextlib.contextmanager
def _guarded(client: _Client) -> Iterator[Callable[[float], None]]:
    """Yield a function that acquires a place; it is released at the end, or when this process dies.

    A shell that runs before the place is acquired waits for the end of its input.
    """
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
        """Return the URL of the place's serial port."""
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
