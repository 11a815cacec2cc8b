# SPDX-License-Identifier: Apache-2.0
"""Threads of one process take turns on a board: a second one waits until the first is done."""

from __future__ import annotations

import contextlib
import threading
import time

from boardprof.base.errors import UsageError

_GRACE_S = 5.0
"""Extra seconds that a waiting thread allows: the one that holds the line times out first."""


class ThreadLock:
    """A reentrant lock on one board, with a deadline.

    A thread waits as long as the other one's work goes on: each frame from the board renews the
    deadline. A thread that works in a loop does not overtake one that waits.
    """

    def __init__(self, port: str) -> None:
        """Lock nothing yet; ``port`` is for messages."""
        self._port = port
        self._lock = threading.RLock()  # not a Lock: only its owner can release it
        # Held by the thread that is next, whose deadline ends the wait of those behind it, too.
        self._next = threading.Lock()
        self._depth = self._holder = 0
        self._name = ""
        self._heard_s = 0.0

    def acquire(self, name: str, silence_s: float) -> bool:
        """Take the board; return whether a turn of this thread begins. Each needs its `release`.

        Raises UsageError if the other thread hears nothing from the board for ``silence_s``.
        """
        thread = threading.get_ident()
        if self._holder == thread:
            self._depth += 1
            return False
        try:
            if self._next.locked() or not self._lock.acquire(blocking=False):
                self._wait(name, silence_s)
        except BaseException:
            with contextlib.suppress(RuntimeError):  # not taken, unless Ctrl-C came just after it
                self._lock.release()
            raise
        self._holder, self._depth, self._name = thread, 1, name
        return True

    def acquire_within(self, limit_s: float) -> bool:
        """Take the board without queueing; return False if it is not free after ``limit_s``."""
        thread = threading.get_ident()
        if self._holder != thread:
            if not self._lock.acquire(timeout=limit_s):
                return False
            self._holder = thread
        self._depth += 1
        return True

    def release(self) -> None:
        """Undo one `acquire`; after the first one's, the turn is over."""
        self._depth -= 1
        if not self._depth:
            self._holder = 0
            self._lock.release()

    def tell_frames(self, count: int) -> None:
        """Note that frames came from the board."""
        if count:
            self._heard_s = time.monotonic()

    def _wait(self, name: str, silence_s: float) -> None:
        limit_s = min(silence_s + _GRACE_S, threading.TIMEOUT_MAX)
        began_s = time.monotonic()
        with self._next:
            while True:
                left_s = max(began_s, self._heard_s) + limit_s - time.monotonic()
                if self._lock.acquire(timeout=max(left_s, 0)):
                    self._heard_s = time.monotonic()  # those behind wait for this thread from now
                    return
                if left_s <= 0:
                    names = {each.ident: each.name for each in threading.enumerate()}
                    owner = names.get(self._holder, "unknown")
                    raise UsageError(
                        f"{name} waited {limit_s:g} s for thread {owner}, which holds "
                        f"{self._port} for {self._name} and hears nothing from it.",
                        hint="let that thread end its work on the board first",
                    )
