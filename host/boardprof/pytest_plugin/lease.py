# SPDX-License-Identifier: Apache-2.0
"""One worker at a time on what cannot be shared: a board at a port, or this machine's own time."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from boardprof.errors import BusyError

__all__ = ["leased"]

_LOOK_S = 0.02


@contextlib.contextmanager
def leased(folder: Path, what: str, timeout_s: float) -> Iterator[None]:
    """Hold the lease of ``what``; the kernel gives it back if this process dies.

    Args:
        folder: where leases are, for all workers of this user; made if need be.
        what: a port or a board's name.
        timeout_s: how long to wait for another worker.

    Raises:
        BusyError: another process has it for longer.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / hashlib.sha256(what.encode()).hexdigest()[:16]
    handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + timeout_s
        while not _locked(handle):
            if time.monotonic() > deadline:
                holder = os.pread(handle, 64, 0).decode(errors="replace") or "another process"
                raise BusyError(
                    f"{what} is in use by {holder} for longer than {timeout_s:g} s.",
                    owner=holder,
                    hint="--bp-wait SECONDS waits longer",
                )
            time.sleep(_LOOK_S)
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"process {os.getpid()}".encode(), 0)
        yield
    finally:
        os.close(handle)  # gives the lock back


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
