# SPDX-License-Identifier: Apache-2.0
"""A line in virtual time: nothing waits, the clock jumps to whatever comes next."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from enum import IntEnum

from boardprof.base.errors import LinkError
from boardprof.wire.transport.faults import Faults
from tests.simulation.agent import NEVER, Agent

__all__ = ["HostKilled", "SimTransport", "World"]

BOOT_TEXT = b"boot: simulation\r\n"
"""What the board prints when it starts again, without a delimiter."""


class HostKilled(BaseException):
    """The host's process dies here; nothing on its side may catch it."""


class _Event(IntEnum):
    TO_BOARD = 0
    TO_HOST = 1
    RESET = 2
    KILL = 3


class World:
    """The board, the line to it, and the time.

    Attributes:
        agent: the board.
        faults: of the line.
        now_us: microseconds since the beginning.
        trace: gets a line of text for everything that happens; None: nobody looks.
    """

    def __init__(
        self,
        agent: Agent,
        faults: Faults,
        *,
        latency_us: int,
        byte_us: int,
        entropy: Callable[[], int],
        trace: Callable[[str], None] | None = None,
    ) -> None:
        """Switch the board on.

        Args:
            agent: the board.
            faults: of the line.
            latency_us: between the end of a frame at one end and its arrival at the other.
            byte_us: that a byte takes on the line; 0 where that is no limit.
            entropy: 32 bits for each start of the board.
            trace: see the attribute.
        """
        self.agent = agent
        self.faults = faults
        self.now_us = 0
        self.trace = trace
        self._latency_us = latency_us
        self.byte_us = byte_us
        self._entropy = entropy
        self._events: list[tuple[int, int, _Event, bytes]] = []
        self._count = 0
        self._free_us = {_Event.TO_BOARD: 0, _Event.TO_HOST: 0}
        self._arrived = bytearray()
        agent.begin(entropy())
        self._wake_us = agent.step(0, b"")

    def clock(self) -> float:
        """Return the time in seconds."""
        return self.now_us / 1e6

    # -- what happens ---------------------------------------------------------------------

    def reset_in(self, delay_us: int) -> None:
        """Reset the board, whatever it does then."""
        self._at(self.now_us + delay_us, _Event.RESET, b"")

    def kill_in(self, delay_us: int) -> None:
        """Kill the host, if it waits for the board then."""
        self._at(self.now_us + delay_us, _Event.KILL, b"")

    def spare(self) -> None:
        """Forget all plans to reset or kill anyone."""
        self._events = [e for e in self._events if e[2] not in (_Event.RESET, _Event.KILL)]
        heapq.heapify(self._events)

    def plug_in_again(self, faults: Faults) -> None:
        """Take a new line, without what was on its way on the old one."""
        self.faults = faults
        self._events = [e for e in self._events if e[2] in (_Event.RESET, _Event.KILL)]
        heapq.heapify(self._events)
        self._arrived.clear()

    def new_host(self) -> None:
        """Forget what the old host has not read."""
        self._arrived.clear()

    def settle(self, limit_us: int) -> None:
        """Let everything that is on its way arrive, and the board come to rest.

        Raises:
            AssertionError: the board goes on for longer than ``limit_us``.
        """
        end_us = self.now_us + limit_us
        while self._events or self._wake_us != NEVER:
            assert self.now_us < end_us, f"the board is not at rest after {limit_us / 1e6} s"
            self._go_on(end_us)

    # -- the host's end -------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Take what the host sends."""
        if self.trace is not None:
            self.trace(f"{self.now_us:>9} host  > {data.hex()}")
        self._carry(_Event.TO_BOARD, self.faults.to_board(data), len(data))

    def receive(self, timeout_us: int) -> bytes:
        """Let time pass until something arrives at the host, but no more than ``timeout_us``."""
        end_us = self.now_us + timeout_us
        while not self._arrived:
            if not self._go_on(end_us):
                return b""
        data = bytes(self._arrived)
        self._arrived.clear()
        return data

    def rest(self, duration_us: int) -> None:
        """Let time pass. The host looks at nothing that arrives."""
        end_us = self.now_us + duration_us
        while self.now_us < end_us:
            self._go_on(end_us)

    # -- inside ---------------------------------------------------------------------------

    def _at(self, when_us: int, event: _Event, data: bytes) -> None:
        self._count += 1
        heapq.heappush(self._events, (when_us, self._count, event, data))

    def _carry(self, event: _Event, pieces: list[tuple[float, bytes]], length: int) -> None:
        if self.byte_us:
            left_us = max(self._free_us[event], self.now_us) + length * self.byte_us
            self._free_us[event] = left_us
        else:
            left_us = self.now_us
        arrival_us = left_us + self._latency_us
        for delay_s, piece in pieces:
            self._at(arrival_us + int(delay_s * 1e6), event, piece)

    def _go_on(self, end_us: int) -> bool:
        """Let the next thing happen; return False, at ``end_us``, when it is not before that."""
        due_us = self._events[0][0] if self._events else NEVER
        if self._wake_us < due_us:
            due_us = max(self._wake_us, self.now_us)
            if due_us > end_us:
                self.now_us = end_us
                return False
            self.now_us = due_us
            self._board(b"")
            return True
        if due_us > end_us:
            self.now_us = end_us
            return False
        when_us, _, event, data = heapq.heappop(self._events)
        self.now_us = max(self.now_us, when_us)
        self._happen(event, data)
        return True

    def _happen(self, event: _Event, data: bytes) -> None:
        if self.trace is not None:
            self.trace(f"{self.now_us:>9} {event.name.lower():<8} {data.hex()}")
        if event is _Event.TO_BOARD:
            self._board(data)
        elif event is _Event.TO_HOST:
            self._arrived += data
        elif event is _Event.RESET:
            self.agent.reset(self._entropy())
            self._carry(_Event.TO_HOST, self.faults.to_host(BOOT_TEXT), len(BOOT_TEXT))
            self._board(b"")
        else:
            raise HostKilled

    def _board(self, data: bytes) -> None:
        self._wake_us = self.agent.step(self.now_us, data)
        if sent := self.agent.take():
            if self.trace is not None:
                self.trace(f"{self.now_us:>9} board > {sent.hex()}")
            self._carry(_Event.TO_HOST, self.faults.to_host(sent), len(sent))


class SimTransport:
    """The host's end of a `World`, as `boardprof.wire.transport.base.Transport` wants it."""

    def __init__(self, world: World) -> None:
        """Take hold of the line."""
        self.name = "simulation"
        self.byte_time_s = world.byte_us / 1e6
        self._world = world

    def write(self, data: bytes, timeout_s: float) -> None:
        """Send; see `Transport.write`."""
        self._world.send(data)
        self._check()

    def read(self, timeout_s: float) -> bytes:
        """Return what arrives; see `Transport.read`."""
        # Rounded up: who waits for a time must find that it has come.
        data = self._world.receive(int(timeout_s * 1e6) + 1)
        if not data:
            self._check()
        return data

    def _check(self) -> None:
        if self._world.faults.is_cut:
            raise LinkError("The line is gone: it was cut.", hint="plug it in again")

    def printed(self) -> str:
        """See `Transport.printed`."""
        return ""

    def close(self) -> None:
        """See `Transport.close`."""
