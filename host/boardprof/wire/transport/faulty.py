# SPDX-License-Identifier: Apache-2.0
"""A line that damages what passes: for tests of whatever has to stand a bad cable.

::

    from boardprof.measure.session.open_board import attach
    from boardprof.wire.transport.faults import Faults, FlipBit, Planned, Way
    from boardprof.wire.transport.faulty import FaultyTransport

    line = FaultyTransport(connect_tcp("socket://127.0.0.1:4321", 10), Faults(seed=7, frames=0.01))
    board = attach(spec, line)
    ...
    print(line.faults.log)

    # or: the third frame to the board has a flipped bit, and all others pass
    Faults([Planned(Way.TO_BOARD, 3, FlipBit(17))])
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from boardprof.base.errors import LinkError

if TYPE_CHECKING:
    from boardprof.wire.transport.base import Transport
    from boardprof.wire.transport.faults import Faults

__all__ = ["FaultyTransport"]


class _Queue:
    """Bytes that are due later, in the order of their times."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, bytes]] = []
        self._count = itertools.count()

    def put(self, due_s: float, data: bytes) -> None:
        heapq.heappush(self._heap, (due_s, next(self._count), data))

    def take(self, now_s: float) -> bytes:
        """Return all that is due."""
        due = []
        while self._heap and self._heap[0][0] <= now_s:
            due.append(heapq.heappop(self._heap)[2])
        return b"".join(due)

    def next_s(self) -> float:
        """Return when something is due next; infinity when nothing is."""
        return self._heap[0][0] if self._heap else float("inf")


class FaultyTransport:
    """Another transport, with faults on the way. It takes the place of any transport.

    What is delayed on its way to the board is sent when its time has come and the host reads or
    writes: there is no thread.

    Attributes:
        faults: the model; its ``log`` tells what was done.
    """

    def __init__(
        self,
        inner: Transport,
        faults: Faults,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Wrap a transport.

        Args:
            inner: the line itself; closed with this one.
            faults: what happens to the frames.
            clock: seconds that only grow; ``inner`` must wait by the same clock.
        """
        self.name = inner.name
        self.byte_time_s = inner.byte_time_s
        self.faults = faults
        self._inner = inner
        self._clock = clock
        self._to_board = _Queue()
        self._to_host = _Queue()

    def write(self, data: bytes, timeout_s: float) -> None:
        """Send ``data`` as far as it survives; see `Transport.write`."""
        for delay_s, piece in self.faults.to_board(data):
            self._to_board.put(self._clock() + delay_s, piece)
        self._forward(timeout_s)
        self._check()

    def read(self, timeout_s: float) -> bytes:
        """Return what has come through; see `Transport.read`."""
        deadline = self._clock() + timeout_s
        while True:
            now = self._clock()
            self._forward(max(deadline - now, 0.0))
            if data := self._to_host.take(now):
                return data
            self._check()
            until = min(deadline, self._to_host.next_s(), self._to_board.next_s())
            arrived = self._inner.read(max(until - now, 0.0))
            for delay_s, piece in self.faults.to_host(arrived):
                self._to_host.put(self._clock() + delay_s, piece)
            if self._clock() >= deadline:  # also where all that comes is lost
                late = self._to_host.take(self._clock())
                return late or (b"" if arrived else self.faults.idle_to_host())

    def _forward(self, timeout_s: float) -> None:
        if data := self._to_board.take(self._clock()):
            self._inner.write(data, timeout_s)

    def _check(self) -> None:
        if self.faults.is_cut:
            self._inner.close()
            raise LinkError(
                f"The connection to {self.name} is lost: the fault plan cut it.",
                hint="connect again",
            )

    def printed(self) -> str:
        """See `Transport.printed`."""
        return self._inner.printed()

    def close(self) -> None:
        """Let go of the line; see `Transport.close`."""
        self._inner.close()
