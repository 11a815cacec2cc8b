# SPDX-License-Identifier: Apache-2.0
"""Functions that stand for a job on a board, where a test is about the fleet itself."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import stat
import time
from pathlib import Path

from boardprof.jobs.fleet.boards import FleetBoard, lease
from boardprof.jobs.fleet.job import JobError
from boardprof.jobs.fleet.work import AttemptResult

NAP_S = 0.1


def nap(job: object, board: FleetBoard) -> AttemptResult:
    time.sleep(NAP_S)
    return AttemptResult()


def long_nap(job: object, board: FleetBoard) -> AttemptResult:
    time.sleep(60.0)
    return AttemptResult()


def crash(job: object, board: FleetBoard) -> AttemptResult:
    os.kill(os.getpid(), signal.SIGKILL)
    return AttemptResult()


def flaky(job: object, board: FleetBoard) -> AttemptResult:
    """Crash in the first attempt; the folder of the batch remembers it."""
    if not Path("crashed").exists():
        Path("crashed").touch()
        crash(job, board)
    return AttemptResult()


def exclusive(board: FleetBoard) -> None:
    """Hold the lease of a board."""
    with lease(board, 1.0):
        time.sleep(60.0)


def silent(job: object, board: FleetBoard) -> AttemptResult:
    """Fail like a board that does not answer."""
    error = JobError("BoardTimeoutError", "The board does not answer.", 5)
    return AttemptResult(errors=(error,), is_boards_fault=True)


def sick_twice(job: object, board: FleetBoard) -> AttemptResult:
    """Do not answer, twice; the folder of the batch remembers it."""
    count = len(list(Path().glob("sick*")))
    if count < 2:
        Path(f"sick{count}").touch()
        return silent(job, board)
    return AttemptResult()


def half_answer() -> None:
    """Write a part of an answer to whoever waits for it, and stop."""
    _write_to_sockets(pickle.dumps((True, bytes(5_000_000)))[:1000])


def first_byte() -> None:
    """Write the first byte of an answer, and stop."""
    _write_to_sockets(pickle.dumps((True, None))[:1])


def wrong_answer() -> None:
    """Write what is not an answer."""
    _write_to_sockets(b"ABCD")


def closed_line() -> None:
    """Close the line to whoever waits for an answer."""
    os.closerange(3, 100)


def _write_to_sockets(content: bytes) -> None:
    for descriptor in range(3, 100):
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                os.write(descriptor, content)
    os.kill(os.getpid(), signal.SIGSTOP)
