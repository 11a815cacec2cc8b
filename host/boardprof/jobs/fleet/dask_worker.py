# SPDX-License-Identifier: Apache-2.0
"""dask's worker and scheduler for boards.

A worker announces its boards as resources, by kind and by serial number, so that dask gives each
board to one task at a time, whoever submits it.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from boardprof.base.errors import BoardError, BusyError, UsageError
from boardprof.jobs.fleet.boards import FleetBoard, quarantine_of
from boardprof.jobs.fleet.provider import Ended, JobProcess, called
from boardprof.jobs.fleet.security import (
    bracketed,
    check_address,
    distributed,
    host_and_port,
    security_of,
    shown,
)

FACTS = "boardprof"
"""Name of the boards' facts among a worker's metrics."""

_PAUSE_S = 1.0
_CONNECT_S = 30.0
_TRY_S = 10.0
_LEAST_SILENCE_S = 5.0
_PAGES = "127.0.0.1:0"
"""Where dask's pages about itself would be, if a version of dask calls their server otherwise."""


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


def _own_address(scheduler: str) -> str:
    """Return the address of this machine on its way to a scheduler."""
    # dask would announce 127.0.0.1 while the network is down, and nobody could fetch a result.
    host, port = host_and_port(scheduler)
    found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    failed = OSError(f"{host} has no address")
    for family, kind, _, _, place in found:
        try:
            with socket.socket(family, kind) as way:
                way.connect(place)  # this sends nothing
                return bracketed(way.getsockname()[0])
        except OSError as error:
            failed = error
    raise failed


def _without_pages(kind: Any) -> Any:
    """Return dask's class without its HTTP server, which any user of this machine could ask."""
    return type(kind.__name__, (kind,), {"start_http_server": lambda *_, **__: None})


def run_worker(
    scheduler: str, boards: Sequence[FleetBoard], name: str, on_note: Callable[[str], None]
) -> None:
    """Serve this host's boards until interrupted; connect again if the scheduler goes."""
    scheduler = check_address(scheduler)
    security = security_of("worker", host_and_port(scheduler)[0], scheduler)
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
            host = _own_address(scheduler)
            await _try_connection(scheduler, security)
            with tempfile.TemporaryDirectory(prefix="boardprof-worker-") as folder:
                worker = _without_pages(dask.Worker)(
                    scheduler,
                    name=name,
                    nthreads=len(boards),
                    resources=resources,
                    security=security,
                    local_directory=folder,
                    host=host,
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


async def _try_connection(scheduler: str, security: Any) -> None:
    """Connect once, because dask's worker would not say why it cannot."""
    arguments = security.get_connection_args("worker")
    (await distributed().comm.connect(scheduler, _TRY_S, **arguments)).abort()


def run_scheduler(host: str, port: int, silence_s: float, on_start: Callable[[str], None]) -> None:
    """Run dask's scheduler until interrupted; ``on_start`` gets the address."""
    # A worker that does not answer for ``silence_s`` has left.
    if silence_s < _LEAST_SILENCE_S:
        raise UsageError(
            f"--silence {silence_s:g} is too short: hosts report about once a second.",
            hint=f"at least {_LEAST_SILENCE_S:g} s",
        )
    place = bracketed(host)
    security = security_of("scheduler", place.strip("[]"), f"A scheduler at {shown(host)}")
    try:
        asyncio.run(_schedule(place, port, silence_s, security, on_start))
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
        raise BoardError(f"A scheduler cannot listen at {place}:{port}: {cause}.") from error


async def _schedule(
    host: str, port: int, silence_s: float, security: Any, on_start: Callable[[str], None]
) -> None:
    import dask.config as settings

    with (
        settings.set({"distributed.scheduler.worker-ttl": f"{silence_s}s"}),
        warnings.catch_warnings(action="ignore", category=FutureWarning),  # dask's, of ``::``
    ):
        scheduler = _without_pages(distributed().Scheduler)(
            host=host,
            port=port,
            security=security,
            protocol="tls://",
            dashboard=False,
            dashboard_address=_PAGES,
        )
        async with scheduler:
            on_start(scheduler.address)
            await scheduler.finished()
