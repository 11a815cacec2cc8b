# SPDX-License-Identifier: Apache-2.0
"""Where the boards of a batch are, and the process of each board of this machine."""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from boardprof.base.errors import BoardError, DeviceError
from boardprof.jobs.fleet.boards import FleetBoard, quarantine_of

_PROGRAM = "from boardprof.jobs.fleet.provider import main; main({})"
_END_S = 10.0


UNKNOWN_HINT = "find out whether it ran; another folder for the results runs it again"
"""What to try after a job that must not be repeated was lost."""


class JobLostError(BoardError):
    """The process of a job, its worker or its batch has ended before the job."""


class JobTimeoutError(DeviceError):
    """The job exceeded its own limit, and its process was ended."""


class JobProcess:
    """The process of one board; it is started when the first job comes, and after it died."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._child: tuple[subprocess.Popen[bytes], socket.socket] | None = None
        self._lock = threading.RLock()  # whoever has it may close the socket

    @property
    def process_id(self) -> int | None:
        """Its number. None if it does not run."""
        child = self._child
        return None if child is None else child[0].pid

    def run(self, function: Callable[..., Any], *arguments: object, timeout_s: float) -> Any:
        """Call a function of a module in the process; return its result or raise its exception."""
        with self._lock:
            process, line = self._running()
            deadline_s = time.monotonic() + timeout_s
            limit = threading.Timer(min(timeout_s, threading.TIMEOUT_MAX), self.close)
            limit.daemon = True
            limit.start()
            try:
                line.sendall(pickle.dumps((function, arguments)))
                is_result, found = _answer(line)
            except (EOFError, OSError) as error:
                is_late = time.monotonic() >= deadline_s
                what = "" if is_late else _how_it_ended(process)
                self.close()
                line.close()
                if is_late:
                    raise JobTimeoutError(
                        f"The job did not end within {timeout_s:g} s of wall time (job_s).",
                        hint="a larger job_s in [limits] if the job is only slow, or a timeout_s "
                        "for each call",
                    ) from error
                raise JobLostError(
                    f"The job's process {what}.",
                    hint="run the job by itself with `boardprof run`; signal 9 may mean that the "
                    "machine had no memory left",
                ) from error
            finally:
                limit.cancel()
                limit.join(2 * _END_S)  # longer than `close` waits
        if is_result:
            return found
        raise found

    def close(self) -> None:
        """End the process and what it has started; a job that another thread runs there is lost."""
        child, self._child = self._child, None
        if child is None:
            return
        process, line = child
        assert process.stdin is not None
        process.kill()
        with contextlib.suppress(OSError):  # the process may have closed its end
            line.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits in `run`
        process.wait(_END_S)
        process.stdin.close()
        if self._lock.acquire(blocking=False):  # else that thread closes it
            line.close()
            self._lock.release()

    def _running(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        """Return the process and the line to it; start it if it does not run."""
        child = self._child
        if child is not None and child[0].poll() is None:
            return child
        self.close()
        ours, theirs = socket.socketpair()
        # A new session: Ctrl-C reaches us, and we end the process.
        with theirs:
            process = subprocess.Popen(
                # -P: the current folder may be /tmp, and have a pickle.py of another user.
                [sys.executable, "-P", "-c", _PROGRAM.format(theirs.fileno())],
                stdin=subprocess.PIPE,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
        self._child = process, ours
        return process, ours


def _how_it_ended(process: subprocess.Popen[bytes]) -> str:
    with contextlib.suppress(subprocess.TimeoutExpired):
        code = process.wait(1.0)
        return f"died by signal {-code}" if code < 0 else f"died with exit code {code}"
    return "runs, but it sent no answer: a function may have used its open files"


def _answer(line: socket.socket) -> tuple[bool, Any]:
    """Return an answer; raises EOFError if there is none, or if a function wrote to the line."""
    try:
        with line.makefile("rb") as answers:
            is_result, found = pickle.load(answers)
    except Exception as error:  # damaged ones raise whatever they name
        raise EOFError from error
    return is_result, found


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


def main(descriptor: int) -> None:
    """Carry out jobs until the other end is closed."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # Measured functions of this machine may print; nobody reads it.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    line = socket.socket(fileno=descriptor)
    # A function may also have closed our end.
    with contextlib.suppress(EOFError, OSError), line.makefile("rb") as calls:
        while True:
            function, arguments = pickle.load(calls)
            answer: tuple[bool, Any]
            try:
                answer = (True, function(*arguments))
            except Exception as error:  # whatever it is, the batch has to know
                answer = (False, error)
            line.sendall(_packed(answer))


def _packed(answer: tuple[bool, Any]) -> bytes:
    try:
        return pickle.dumps(answer)
    except Exception as error:  # what a function raises need not be picklable
        return pickle.dumps((False, RuntimeError(f"{answer[1]!r} ({error})")))


@dataclass(frozen=True)
class Ended:
    """A call on a board has ended."""

    call: int
    value: Any = None  # what the function returned
    # why it did not return; a `JobLostError` if its process died
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


_LOOK_S = 0.1

Event = Ended | Joined | Left
Post = Callable[[Event], None]
Function = Callable[..., Any]


class LocalProvider:
    """The boards of this machine, each with a thread and a process."""

    def __init__(self, boards: Sequence[FleetBoard]) -> None:
        """Take the boards; nothing is started yet."""
        self._processes = {board: JobProcess() for board in boards}
        self._queues: dict[FleetBoard, queue.SimpleQueue[Any]] = {}
        self._threads: dict[FleetBoard, threading.Thread] = {}
        self._is_over = threading.Event()

    def open(self, post: Post) -> Sequence[FleetBoard]:
        """Return the boards that are there; ``post`` gets all later events, from any thread."""
        self._post = post
        return [replace(each, quarantine=quarantine_of(each.place)) for each in self._processes]

    def start(
        self, call: int, board: FleetBoard, function: Function, *arguments: Any, timeout_s: float
    ) -> None:
        """Call a function in the board's process after earlier calls; `Ended` is posted then."""
        if board not in self._queues:
            calls = self._queues[board] = queue.SimpleQueue()
            thread = threading.Thread(target=self._serve, args=(board, calls), daemon=True)
            self._threads[board] = thread
            thread.start()
        self._queues[board].put((call, function, arguments, timeout_s))

    def close(self) -> None:
        """End what runs, and let go of the boards."""
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
