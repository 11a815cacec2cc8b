# SPDX-License-Identifier: Apache-2.0
"""A process for each board, which carries out its jobs one after the other.

A measured function can only take this process with it, and a process that hangs is ended. It ends
with the program that started it, and its emulator and its leases end with it.

Its standard input is the life line.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection, Pipe
from typing import Any

from boardprof.base.errors import BoardError, DeviceError

_PROGRAM = "from boardprof.jobs.fleet.job_process import main; main({})"
_END_S = 10.0


WHETHER_IT_RAN = "find out whether it ran; another folder for the results runs it again"
"""What to try after a job that must not be repeated was lost."""


class JobLostError(BoardError):
    """The process of a job, its worker or its batch has ended before the job."""


class JobTimeoutError(DeviceError):
    """The job exceeded its own limit, and its process was ended."""


class JobProcess:
    """The process of one board; it is started when the first job comes, and after it died."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._process: subprocess.Popen[bytes] | None = None
        self._line: Connection | None = None
        self._lock = threading.Lock()

    @property
    def process_id(self) -> int | None:
        """Its number. None if it does not run."""
        return None if self._process is None else self._process.pid

    def run(self, function: Callable[..., Any], *arguments: object, timeout_s: float) -> Any:
        """Call a function of a module in the process, and return its result.

        Raises:
            JobLostError: the process died.
            JobTimeoutError: the time is over.
            Exception: what the function raises.
        """
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._start()
            assert self._line is not None
            try:
                self._line.send_bytes(pickle.dumps((function, arguments)))
                if not self._line.poll(timeout_s):
                    self.close()
                    raise JobTimeoutError(
                        f"The job did not end within {timeout_s:g} s of wall time (job_s).",
                        hint="a larger job_s in [limits] if the job is only slow, or a timeout_s "
                        "for each call",
                    )
                is_result, found = pickle.loads(self._line.recv_bytes())
            except (EOFError, OSError) as error:
                how = self._how_it_ended()
                self.close()
                raise JobLostError(
                    f"The job's process died{how}.",
                    hint="run the job by itself with `boardprof run`; signal 9 may mean that the "
                    "machine had no memory left",
                ) from error
        if is_result:
            return found
        raise found

    def close(self) -> None:
        """End the process and what it has started."""
        process, self._process = self._process, None
        line, self._line = self._line, None
        if line is not None:
            line.close()
        if process is not None:
            assert process.stdin is not None
            process.kill()
            process.wait(_END_S)
            process.stdin.close()

    def _start(self) -> None:
        self.close()
        ours, theirs = Pipe()
        # A new session: Ctrl-C reaches us, and we end the process.
        self._process = subprocess.Popen(
            # -P: the current folder may be /tmp, and have a pickle.py of another user.
            [sys.executable, "-P", "-c", _PROGRAM.format(theirs.fileno())],
            stdin=subprocess.PIPE,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        theirs.close()
        self._line = ours

    def _how_it_ended(self) -> str:
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._process.wait(1.0)
            return f" by signal {-code}" if code < 0 else f" with exit code {code}"
        return ""


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


def main(descriptor: int) -> None:
    """Carry out jobs until the other end is closed."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # Measured functions of this machine may print; nobody reads it.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    line = Connection(descriptor)
    while True:
        try:
            function, arguments = pickle.loads(line.recv_bytes())
        except EOFError:
            return
        answer: tuple[bool, Any]
        try:
            answer = (True, function(*arguments))
        except Exception as error:  # whatever it is, the batch has to know
            answer = (False, error)
        line.send_bytes(_packed(answer))


def _packed(answer: tuple[bool, Any]) -> bytes:
    try:
        return pickle.dumps(answer)
    except Exception as error:  # what a function raises need not be picklable
        return pickle.dumps((False, RuntimeError(f"{answer[1]!r} ({error})")))
