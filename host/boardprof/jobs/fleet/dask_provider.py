# SPDX-License-Identifier: Apache-2.0
"""The boards behind dask's scheduler, as a batch and ``fleet status`` see them.

A call is a task that holds the resource of its board, on the one worker that has the board. dask
carries it out and decides nothing: the task may not move to another worker, and is not repeated.
"""

from __future__ import annotations

import asyncio
import contextlib
import platform
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict
from typing import Any
from uuid import uuid4

from boardprof.base.errors import BoardError
from boardprof.base.processes import held_leases
from boardprof.jobs.fleet.boards import (
    FleetBoard,
    Quarantine,
    lease_folder,
    next_check,
    quarantines,
)
from boardprof.jobs.fleet.dask_worker import (
    FACTS,
    call_on_board,
    check_address,
    distributed,
    host_and_port,
    resources_of,
    security_of,
)
from boardprof.jobs.fleet.provider import Ended, Function, Joined, Left, Post
from boardprof.show.layout import Page

_CONNECT_S = 10.0
_ANSWER_S = 30.0
_LOOK_S = 0.5

Workers = Mapping[str, Mapping[str, Any]]
"""Address of each worker -> what the scheduler knows of it."""


class DaskProvider:
    """The boards of all workers of a scheduler."""

    def __init__(self, scheduler: str) -> None:
        """Connect to a scheduler."""
        self._scheduler = check_address(scheduler)
        host, _ = host_and_port(scheduler)
        self._security = security_of("client", host, self._scheduler)
        self._client = self._connected()
        self._boards: set[FleetBoard] = set()
        self._followed: dict[int, tuple[FleetBoard, Future[None]]] = {}
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="boardprof fleet", daemon=True)

    def open(self, post: Post) -> Sequence[FleetBoard]:
        """Return the boards, and watch for changes; see `LocalProvider.open`."""
        self._post = post
        self._boards = _boards_of(self.workers())
        self._watcher.start()
        return sorted(self._boards, key=lambda board: board.serial)

    def workers(self) -> Workers:
        """Return what the scheduler knows of its workers."""
        try:
            facts = self._client.sync(
                self._client.scheduler.identity, n_workers=-1, callback_timeout=_ANSWER_S
            )
        except Exception as error:  # dask raises many kinds
            raise self._unreachable(error) from error
        found: Workers = facts["workers"]
        return found

    def start(
        self, call: int, board: FleetBoard, function: Function, *arguments: Any, timeout_s: float
    ) -> None:
        """Submit a task; then `Ended` or `Left` is posted."""
        with self._lock:
            if board not in self._boards:
                return  # that it has left is posted
            try:
                future = self._client.submit(
                    call_on_board,
                    call,
                    board.serial,
                    function,
                    arguments,
                    timeout_s,
                    key=f"boardprof-{uuid4().hex}",
                    pure=False,
                    retries=0,
                    workers=[board.host],
                    allow_other_workers=False,
                    resources=resources_of(board),
                )
            except Exception as error:  # dask raises many kinds if the scheduler has gone
                self._leave(board, str(error))
                return
            following = self._follow(call, board, future)
            loop = self._client.loop.asyncio_loop
            self._followed[call] = (board, asyncio.run_coroutine_threadsafe(following, loop))

    def close(self) -> None:
        """Cancel what has not begun, and disconnect. What runs goes on, and its result is lost."""
        self._is_over.set()
        if self._watcher.ident is not None:
            self._watcher.join(_ANSWER_S)
        with contextlib.suppress(Exception):  # the scheduler may have gone
            self._client.close(timeout=_ANSWER_S)

    async def _follow(self, call: int, board: FleetBoard, future: Any) -> None:
        """Wait for a task, and post its end or that its board has left."""
        ended, why = None, ""
        try:
            error = await future._exception()
            if future.status == "error" and not isinstance(error, distributed().KilledWorker):
                ended = Ended(call, error=error)  # the worker cannot import the function
            elif future.status == "finished":
                ended = await _fetched(future)
            elif future.status == "cancelled":  # dask does that to all futures of a connection
                why = self._unreachable(ConnectionError("the connection was lost")).message
            else:
                why = "Its worker has ended."
        except (Exception, asyncio.CancelledError) as error:  # dask cancels what it gives up
            how = str(error) or f"no answer within {_ANSWER_S:g} s"
            why = f"The scheduler cannot fetch a result from its worker at {board.host}: {how}."
        finally:
            future.release()
        with self._lock:
            if self._followed.pop(call, None) is None:
                return  # that its board has left is posted
            if ended is None:
                self._leave(board, why)
            else:
                self._post(ended)

    def _leave(self, board: FleetBoard, why: str) -> None:
        """Post that a board has left; it joins again if the scheduler still has it."""
        self._boards.discard(board)
        for call, (place, following) in list(self._followed.items()):
            if place == board:
                del self._followed[call]
                following.cancel()
        self._post(Left(board, why))

    def _watch(self) -> None:
        """Post which boards join and leave."""
        while not self._is_over.wait(_LOOK_S):
            try:
                now = _boards_of(self.workers())
                why = "Its worker has ended, or does not answer."
            except BoardError as error:
                now, why = set(), error.message
                if self._client.status == "closed":
                    with contextlib.suppress(BoardError):
                        self._client = self._connected()
            with self._lock:
                for board in self._boards - now:
                    self._leave(board, why)
                for board in now - self._boards:
                    self._boards.add(board)
                    self._post(Joined(board))

    def _connected(self) -> Any:
        try:
            return distributed().Client(
                self._scheduler,
                timeout=_CONNECT_S,
                set_as_default=False,
                security=self._security,
                name="boardprof",
            )
        except Exception as error:  # dask raises many kinds
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> BoardError:
        return BoardError(
            f"The scheduler {self._scheduler} cannot be reached: {error}",
            hint="check its address, and that it runs; on one machine, it must have the same user",
        )


async def _fetched(future: Any) -> Ended:
    """Fetch the result of a task, by itself."""
    # dask's own `gather` fetches many at once, and tries for ever. So a host that cannot be reached
    # would hold up the results of the others.
    answer = await asyncio.wait_for(
        future.client.scheduler.gather(keys=[future.key]), timeout=_ANSWER_S
    )
    if answer["status"] != "OK":
        raise OSError("the worker has ended, or cannot be reached")
    ended: Ended = answer["data"][future.key]
    return ended


def _boards_of(workers: Workers) -> set[FleetBoard]:
    return {
        FleetBoard(
            facts["kind"],
            facts["serial"],
            facts["port"],
            address,
            Quarantine.of(kept) if (kept := facts.get("quarantine")) else None,
        )
        for address, worker in workers.items()
        for facts in worker.get("metrics", {}).get(FACTS, ())
    }


def local_status() -> dict[str, Any]:
    """Return what is leased on this machine, and its boards in quarantine, as plain data."""
    held = held_leases(lease_folder())
    leases = [{"what": what, "holder": holder} for what, holder in held.items()]
    kept = [{"board": place, **asdict(found)} for place, found in quarantines().items()]
    return {"schema_version": 1, "host": platform.node(), "leases": leases, "quarantines": kept}


def fleet_status(scheduler: str) -> dict[str, Any]:
    """Return the hosts of a fleet and their boards, as plain data; raises as `DaskProvider`."""
    provider = DaskProvider(scheduler)
    try:
        workers = provider.workers()
    finally:
        provider.close()
    hosts = [
        {
            "host": worker["id"],
            "address": address,
            "silent_s": round(time.time() - worker["last_seen"], 1),
            "boards": list(worker.get("metrics", {}).get(FACTS, ())),
        }
        for address, worker in workers.items()
    ]
    return {"schema_version": 1, "scheduler": scheduler, "hosts": hosts}


def status_page(facts: Mapping[str, Any]) -> Page:
    """Return what `local_status` or `fleet_status` found, as text."""
    if "leases" in facts:
        lines = [f"{lease['what']}: {lease['holder']}" for lease in facts["leases"]]
        lines += [f"{each['board']}: {_quarantine_text(each)}" for each in facts["quarantines"]]
        return lines or ["Nothing is leased on this machine."]
    if not facts["hosts"]:
        return ["No worker is connected."]
    lines = []
    for host in facts["hosts"]:
        lines.append(f"{host['host']} at {host['address']}, last seen {host['silent_s']:.0f} s ago")
        for board in host["boards"]:
            kept = board.get("quarantine")
            what = _quarantine_text(kept) if kept else "free"
            if board["works_on"] is not None:
                what = f"{time.time() - board['since_s']:.0f} s on {board['works_on']}"
            error = f"; last error: {board['last_error']}" if board["last_error"] else ""
            lines.append(
                f"  {board['kind']} {board['serial']}: {what}; {board['ended']} ended{error}"
            )
    return lines


def _quarantine_text(facts: Mapping[str, Any]) -> str:
    return f"in quarantine, {next_check(facts['until_s'])} ({facts['why'].rstrip('.')})"
