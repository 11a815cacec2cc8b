# SPDX-License-Identifier: Apache-2.0
"""Threads of one process take turns on a board: a second one waits until the first is done."""

from __future__ import annotations

import threading

from boardprof.errors import UsageError

_GRACE_S = 5.0
"""Seconds that a thread waits longer than the one that it waits for, which so gives up first."""


class ThreadLock:
    """A reentrant lock on one board, with a deadline.

    A thread waits as long as the other one's work goes on: each frame from the board renews the
    deadline.
    """

    def __init__(self, port: str) -> None:
        """Lock nothing yet; ``port`` is for messages."""
        self._port = port
        self._lock = threading.RLock()
        self._owner = self._name = ""
        self._frames = 0

    def acquire(self, name: str, silence_s: float) -> None:
        """Take the board, or wait for it. Each one needs its `release`.

        Args:
            name: what it is taken for, for messages.
            silence_s: longest silence of the board.

        Raises:
            UsageError: for longer than that, another thread holds it and hears nothing from it.
        """
        if not self._lock.acquire(blocking=False):
            self._wait(name, silence_s)
        self._owner, self._name = threading.current_thread().name, name

    def release(self) -> None:
        """End the turn."""
        self._lock.release()

    def tell_frames(self, count: int) -> None:
        """Note that frames came from the board."""
        self._frames += count

    def _wait(self, name: str, silence_s: float) -> None:
        limit_s = min(silence_s + _GRACE_S, threading.TIMEOUT_MAX)
        seen = self._frames
        while not self._lock.acquire(timeout=limit_s):
            if self._frames == seen:
                raise UsageError(
                    f"{name} waited {limit_s:g} s for thread {self._owner}, which holds "
                    f"{self._port} for {self._name} and hears nothing from it.",
                    hint="let that thread end its work on the board first",
                )
            seen = self._frames
