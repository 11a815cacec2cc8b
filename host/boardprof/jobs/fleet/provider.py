# SPDX-License-Identifier: Apache-2.0
"""Where the boards of a batch are: on this machine, or behind dask's scheduler.

A provider carries out what the policy decides. It never decides which job runs where.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from boardprof.jobs.fleet.boards import FleetBoard
from boardprof.jobs.fleet.job_process import JobProcess
from boardprof.jobs.fleet.quarantine import quarantine_of


@dataclass(frozen=True)
class Ended:
    """A call on a board has ended.

    Attributes:
        call: its number.
        value: what the function returned. None if it did not.
        error: why it did not; a `JobLostError` if its process died.
    """

    call: int
    value: Any = None
    error: BaseException | None = None


@dataclass(frozen=True)
class Joined:
    """A board has joined."""

    board: FleetBoard


@dataclass(frozen=True)
class Left:
    """The host of a board does not answer any more."""

    board: FleetBoard
    why: str


_END_S = 10.0
_LOOK_S = 0.1

Event = Ended | Joined | Left
Post = Callable[[Event], None]
Function = Callable[..., Any]


class Provider(Protocol):
    """Boards, and a way to call functions for them, one at a time for each board."""

    def open(self, post: Post) -> Sequence[FleetBoard]:
        """Return the boards that are there; ``post`` gets all later events, from any thread."""

    def start(
        self, call: int, board: FleetBoard, function: Function, *arguments: Any, timeout_s: float
    ) -> None:
        """Call a function with the arguments and the `FleetBoard`, after earlier calls.

        `Ended` will be posted with the number ``call``, or `Left` for the board.
        """

    def close(self) -> None:
        """End what runs, and let go of the boards."""


class LocalProvider:
    """The boards of this machine, each with a thread and a process."""

    def __init__(self, boards: Sequence[FleetBoard]) -> None:
        """Take the boards; nothing is started yet."""
        self._processes = {board: JobProcess() for board in boards}
        self._queues: dict[FleetBoard, queue.SimpleQueue[Any]] = {}
        self._threads: dict[FleetBoard, threading.Thread] = {}
        self._is_over = threading.Event()

    def open(self, post: Post) -> Sequence[FleetBoard]:
        """Return the boards; see `Provider`."""
        self._post = post
        return [replace(each, quarantine=quarantine_of(each.place)) for each in self._processes]

    def start(
        self, call: int, board: FleetBoard, function: Function, *arguments: Any, timeout_s: float
    ) -> None:
        """Call a function in the board's process; see `Provider`."""
        if board not in self._queues:
            calls = self._queues[board] = queue.SimpleQueue()
            thread = threading.Thread(target=self._serve, args=(board, calls), daemon=True)
            self._threads[board] = thread
            thread.start()
        self._queues[board].put((call, function, arguments, timeout_s))

    def close(self) -> None:
        """End the processes; see `Provider`."""
        self._is_over.set()
        for calls in self._queues.values():
            calls.put(None)
        for process in self._processes.values():
            process.close()
        deadline_s = time.monotonic() + _END_S
        for board, thread in self._threads.items():
            thread.join(_LOOK_S)
            while thread.is_alive() and time.monotonic() < deadline_s:
                self._processes[board].close()  # it was just being started
                thread.join(_LOOK_S)

    def _serve(self, board: FleetBoard, calls: queue.SimpleQueue[Any]) -> None:
        while (call := calls.get()) is not None:
            if self._is_over.is_set():
                continue
            number, function, arguments, timeout_s = call
            self._post(
                called(number, self._processes[board], board, function, arguments, timeout_s)
            )


def called(
    call: int,
    process: JobProcess,
    board: FleetBoard,
    function: Function,
    arguments: Sequence[Any],
    timeout_s: float,
) -> Ended:
    """Call a function in a board's process, and return how that ended."""
    try:
        return Ended(call, process.run(function, *arguments, board, timeout_s=timeout_s))
    except Exception as error:  # whatever the function raises ends its job, not the batch
        return Ended(call, error=error)
