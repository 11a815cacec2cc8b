# SPDX-License-Identifier: Apache-2.0
"""dask's worker and scheduler for boards.

A worker announces its boards as resources, by kind and by serial number, so that dask gives each
board to one task at a time, whoever submits it. It tells the scheduler what its boards do with its
heartbeat.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any
from urllib.parse import urlsplit

from boardprof.errors import BoardError, BusyError, UsageError
from boardprof.fleet.boards import FleetBoard
from boardprof.fleet.extra import distributed
from boardprof.fleet.job_process import JobProcess
from boardprof.fleet.provider import Ended, called
from boardprof.fleet.quarantine import quarantine_of

FACTS = "boardprof"
"""Name of the boards' facts among a worker's metrics."""

_PAUSE_S = 1.0
_CONNECT_S = 30.0
_LEAST_SILENCE_S = 5.0
_LOCAL = ("localhost", "")
_PAGES = "127.0.0.1:0"
"""Where dask's pages about its health are; they are not encrypted."""


class _Place:
    """A board of this worker."""

    def __init__(self, board: FleetBoard) -> None:
        self.board = board
        self.process = JobProcess()
        self.works_on: str | None = None
        self.since_s = 0.0
        self.ended = 0
        self.last_error = ""

    def facts(self) -> dict[str, Any]:
        board = self.board
        kept = quarantine_of(board.place)
        return {
            "kind": board.kind,
            "serial": board.serial,
            "port": board.port,
            "works_on": self.works_on,
            "since_s": self.since_s,
            "ended": self.ended,
            "last_error": self.last_error,
            "quarantine": None if kept is None else asdict(kept),
        }


_places: dict[str, _Place] = {}
"""The boards of this process, by serial number."""


def kind_resource(kind: str) -> str:
    """Return the resource that a worker has once for each board of a kind."""
    return f"kind:{kind}"


def serial_resource(serial: str) -> str:
    """Return the resource of one board."""
    return f"serial:{serial}"


def call_on_board(
    call: int, serial: str, function: Callable[..., Any], arguments: Sequence[Any], timeout_s: float
) -> Ended:
    """Call a function in a board's process; dask runs this as a task that holds the board."""
    place = _places[serial]
    place.works_on, place.since_s = (
        str(arguments[0]) if arguments else function.__name__,
        time.time(),
    )
    try:
        ended = called(call, place.process, place.board, function, arguments, timeout_s)
    finally:
        place.works_on = None
        place.ended += 1
    if ended.error is not None:
        place.last_error = str(ended.error)
    elif getattr(ended.value, "is_boards_fault", False):
        place.last_error = ended.value.errors[0].message.partition("\n")[0]
    else:
        place.last_error = ""
    return ended


def check_address(address: str) -> None:
    """Check that a connection to a scheduler stays on this machine, or is encrypted.

    Raises:
        UsageError: neither.
    """
    parts = urlsplit(address)
    if parts.scheme not in ("tcp", "tls"):
        raise UsageError(f"{address} is not the address of a scheduler.", hint="tcp://HOST:PORT")
    if parts.scheme == "tcp" and not _is_loopback(parts.hostname or ""):
        raise UsageError(
            f"{address} is on another machine, and the connection would not be encrypted. Who can "
            "connect to a scheduler can run any program on its workers.",
            hint="tls://HOST:PORT, with dask's certificates; docs/fleet.md shows how",
        )


def security_of(scheduler: str, role: str) -> Any:
    """Return dask's security settings for a connection to a scheduler.

    Args:
        scheduler: its address.
        role: ``client`` or ``worker``.

    Raises:
        MissingExtraError: ``boardprof[fleet]`` is not installed.
        UsageError: the address is for TLS, and this machine has no certificate.
    """
    found = distributed().Security()
    if scheduler.startswith("tls:") and not getattr(found, f"tls_{role}_cert"):
        raise UsageError(
            f"{scheduler} needs TLS, and this machine has no certificate for it.",
            hint=f"name it in dask's settings, distributed.comm.tls.{role}; see docs/fleet.md",
        )
    return found


def _own_address(scheduler: str) -> str:
    """Return the address of this machine on its way to a scheduler.

    dask would announce 127.0.0.1 while the network is down, and nobody could fetch a result.

    Raises:
        OSError: there is no way, or the scheduler's name is unknown.
    """
    parts = urlsplit(scheduler)
    found = socket.getaddrinfo(parts.hostname or "localhost", parts.port, type=socket.SOCK_DGRAM)
    failed = OSError(f"{parts.hostname} has no address")
    for family, kind, _, _, place in found:
        try:
            with socket.socket(family, kind) as way:
                way.connect(place)  # this sends nothing
                return str(way.getsockname()[0])
        except OSError as error:
            failed = error
    raise failed


def _is_loopback(host: str) -> bool:
    try:
        return host in _LOCAL or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def run_worker(
    scheduler: str, boards: Sequence[FleetBoard], name: str, on_note: Callable[[str], None]
) -> None:
    """Serve boards until interrupted; connects again if the scheduler goes.

    Args:
        scheduler: its address.
        boards: of this machine.
        name: of this host; no other worker has it.
        on_note: gets a line for each connection.

    Raises:
        MissingExtraError: ``boardprof[fleet]`` is not installed.
        UsageError: the scheduler is on another machine and its address is not ``tls://``, or there
            is no certificate.
    """
    check_address(scheduler)
    security = security_of(scheduler, "worker")
    _places.update({board.serial: _Place(board) for board in boards})
    try:
        asyncio.run(_serve(scheduler, security, boards, name, on_note))
    finally:
        for place in _places.values():
            place.process.close()


async def _serve(
    scheduler: str,
    security: Any,
    boards: Sequence[FleetBoard],
    name: str,
    on_note: Callable[[str], None],
) -> None:
    dask = distributed()
    kinds = Counter(kind_resource(board.kind) for board in boards)
    told = ", ".join(board.serial for board in boards)
    resources = {**kinds, **{serial_resource(board.serial): 1 for board in boards}}
    on_note(f"waiting for the scheduler at {scheduler}")
    told_why = ""
    while True:
        try:
            with tempfile.TemporaryDirectory(prefix="boardprof-worker-") as folder:
                worker = dask.Worker(
                    scheduler,
                    name=name,
                    nthreads=len(boards),
                    resources=resources,
                    security=security,
                    local_directory=folder,
                    host=_own_address(scheduler),
                    death_timeout=_CONNECT_S,  # its own address may be another one then
                    dashboard=False,
                    dashboard_address=_PAGES,
                    metrics={FACTS: lambda _: [place.facts() for place in _places.values()]},
                )
                async with worker:
                    on_note(f"{name} serves {told} to {scheduler}")
                    told_why = ""
                    await worker.finished()
            on_note(f"{name} has lost {scheduler}, and connects again")
        except (TimeoutError, OSError, RuntimeError, ValueError) as error:
            if (why := f"{name} cannot connect to {scheduler}: {error}") != told_why:
                on_note(why)
                told_why = why
        await asyncio.sleep(_PAUSE_S)


def run_scheduler(host: str, port: int, silence_s: float, on_start: Callable[[str], None]) -> None:
    """Run dask's scheduler until interrupted.

    Args:
        host: address to listen at.
        port: 0 for any free one.
        silence_s: a worker that does not answer for this long has left. At least five seconds.
        on_start: gets the scheduler's address.

    Raises:
        MissingExtraError: ``boardprof[fleet]`` is not installed.
        UsageError: others could reach it and TLS is not configured, or the silence is too short.
        BusyError: the port is in use.
        BoardError: the address cannot be used.
    """
    if silence_s < _LEAST_SILENCE_S:
        raise UsageError(
            f"--silence {silence_s:g} is too short: hosts report about once a second.",
            hint=f"at least {_LEAST_SILENCE_S:g} s",
        )
    dask = distributed()
    security = dask.Security()
    has_tls = bool(security.tls_ca_file and security.tls_scheduler_cert)
    if not has_tls and not _is_loopback(host):
        raise UsageError(
            f"A scheduler at {host} needs TLS: who can connect to it can run any program on its "
            "workers.",
            hint="configure dask's TLS, see docs/fleet.md; or --host 127.0.0.1",
        )
    try:
        protocol = "tls" if has_tls else "tcp"
        asyncio.run(_schedule(dask, host, port, silence_s, security, protocol, on_start))
    except (OSError, RuntimeError) as error:  # dask wraps the first in the second
        cause = error if isinstance(error, OSError) else error.__cause__
        if not isinstance(cause, OSError):
            raise
        if cause.errno == errno.EADDRINUSE:
            raise BusyError(
                f"The port {port} is in use at {host}.",
                owner="another program",
                hint="give --port another number, or 0 for any free one",
            ) from error
        raise BoardError(f"A scheduler cannot listen at {host}:{port}: {cause}.") from error


async def _schedule(
    dask: Any,
    host: str,
    port: int,
    silence_s: float,
    security: Any,
    protocol: str,
    on_start: Callable[[str], None],
) -> None:
    import dask.config as settings

    with settings.set({"distributed.scheduler.worker-ttl": f"{silence_s}s"}):
        scheduler = dask.Scheduler(
            host=host,
            port=port,
            security=security,
            protocol=f"{protocol}://",
            dashboard=False,
            dashboard_address=_PAGES,
        )
        async with scheduler:
            on_start(scheduler.address)
            await scheduler.finished()
