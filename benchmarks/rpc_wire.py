# SPDX-License-Identifier: Apache-2.0
"""How much of a slow line is payload: 64 KiB through a proxy that passes bytes at 115200 baud."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import select
import time
import tty
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.rpc_processes import BOARD_CORE, HOST_CORE, BenchmarkError, pinned, serving
from boardprof.measure.board.board import Board
from boardprof.measure.connect import attach
from boardprof.target.descriptions.board import board_spec
from boardprof.wire.transport.serial import connect_serial

__all__ = ["BAUD", "Throttled", "measure_wire"]

BAUD = 115200
_BITS_PER_BYTE = 10
_BYTE_TIME_S = _BITS_PER_BYTE / BAUD
_CHUNK = 16
"""Bytes that the proxy holds back at once: the FIFO of a UART."""

_PAYLOAD = 1 << 16


@dataclass(frozen=True)
class Throttled:
    """One transfer over the slow line."""

    payload_bytes: int
    elapsed_s: float

    @property
    def efficiency(self) -> float:
        """Payload bits, start and stop bits included, by those that the line could carry."""
        return self.payload_bytes * _BYTE_TIME_S / self.elapsed_s


def measure_wire(image: Path) -> Throttled:
    """Read 64 KiB of random bytes from the agent ``image`` through the slow line.

    Raises:
        BenchmarkError: what came is not what was written.
    """
    content = os.urandom(_PAYLOAD)
    with (
        serving([image, "--pty"]) as where,
        _proxy(where) as port,
        pinned(HOST_CORE),
        _connect(port) as board,
    ):
        # The content takes the same way in: blocks end with the session that made them.
        block = board.memory.alloc(len(content))
        board.memory.write(block, content)
        begin = time.perf_counter()
        found = board.memory.read(block)
        elapsed_s = time.perf_counter() - begin
    if found != content:
        raise BenchmarkError("the slow line gave back other bytes than were written")
    return Throttled(len(content), elapsed_s)


def _connect(port: str) -> Board:
    """Connect as to a wire: a pty has no rate of its own, and this one has a wire behind it."""
    transport = connect_serial(port, BAUD)
    transport.byte_time_s = _BYTE_TIME_S
    return attach(board_spec("linux"), transport)


@contextlib.contextmanager
def _proxy(agent: str) -> Iterator[str]:
    """Yield a pty that reaches the agent, on a pty too, at the speed of the line."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(agent, theirs), daemon=True)
    with pinned(BOARD_CORE):
        process.start()
    try:
        yield ours.recv()
    finally:
        process.terminate()
        process.join()


def _serve(agent: str, ready: Connection) -> None:
    far = os.open(agent, os.O_RDWR | os.O_NOCTTY)
    master, slave = os.openpty()
    tty.setraw(slave)
    ready.send(os.ttyname(slave))
    lanes = [_Lane(master, far), _Lane(far, master)]
    while all(lane.is_open for lane in lanes):
        now_s = time.monotonic()
        for lane in lanes:
            lane.pass_on(now_s)
        _sleep(lanes)


class _Lane:
    """One direction. A byte leaves when the one before it and its own time have passed."""

    def __init__(self, source: int, sink: int) -> None:
        self.source = source
        self.is_open = True
        self.due_s: float | None = None
        self._sink = sink
        self._held = b""
        self._full = False

    def pass_on(self, now_s: float) -> None:
        """Send what is due; take what comes next."""
        if self.due_s is not None:
            if now_s < self.due_s:
                return
            os.write(self._sink, self._held)
        self._take(now_s)

    def _take(self, now_s: float) -> None:
        ready, _, _ = select.select([self.source], [], [], 0)
        if not ready:
            self.due_s, self._full = None, False
            return
        self._held = os.read(self.source, _CHUNK)
        self.is_open = bool(self._held)
        # After a full chunk more was waiting already: the line has not rested in between, however
        # late this process was. After a pause the time begins anew.
        start_s = self.due_s if self._full and self.due_s is not None else now_s
        self.due_s = start_s + len(self._held) * _BYTE_TIME_S
        self._full = len(self._held) == _CHUNK


def _sleep(lanes: list[_Lane]) -> None:
    """Wait until a lane has something to do."""
    due = [lane.due_s for lane in lanes if lane.due_s is not None]
    idle = [lane.source for lane in lanes if lane.due_s is None]
    timeout_s = max(0.0, min(due) - time.monotonic()) if due else None
    select.select(idle, [], [], timeout_s)
