# SPDX-License-Identifier: Apache-2.0
"""A null call against an echo of the same number of bytes, round by round, over TCP and a pty."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import termios
import time
import tty
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import msgpack

from benchmarks.rpc_processes import HOST_CORE, compiled, pinned, serving
from boardprof.measure.connect import connect
from boardprof_protocol.codes import FrameKind
from boardprof_protocol.frame import Frame, encode_frame

__all__ = ["FUNCTION", "NullCall", "measure_null_call"]

FUNCTION = "nothing"
"""The board's function that does nothing."""

ROUNDS = 15
CALLS = 400
_WARM_UP = 200
_TIMEOUT_MS = 30_000
_READ_SIZE = 1 << 16


@dataclass(frozen=True)
class NullCall:
    """Round trips over one line.

    Attributes:
        line: ``tcp`` or ``pty``.
        request_bytes: of the CALL on the line, and of what the echo is sent.
        reply_bytes: of the RESULT, and of what the echo gives back.
        calls_us: the median of each round.
        echoes_us: likewise, of the echo.
    """

    line: str
    request_bytes: int
    reply_bytes: int
    calls_us: tuple[float, ...]
    echoes_us: tuple[float, ...]

    @property
    def ratios(self) -> list[float]:
        """Call by echo of each round."""
        return [call / echo for call, echo in zip(self.calls_us, self.echoes_us, strict=True)]

    @property
    def ratio(self) -> float:
        """Their median."""
        return median(self.ratios)


def measure_null_call(line: str, image: Path) -> NullCall:
    """Measure over ``line`` with the agent ``image``, whose functions include `FUNCTION`."""
    agent: list[str | Path] = (
        [image, "--pty"] if line == "pty" else [image, "--listen", "127.0.0.1:0"]
    )
    echo = compiled(Path(__file__).with_name("rpc_echo.c"))
    with serving(agent) as where, pinned(HOST_CORE):
        port = where if line == "pty" else f"socket://{where}"
        with connect("linux", port) as board:
            function = board.functions[FUNCTION]
            request_bytes, reply_bytes = _lengths(function.info.id)
            command: list[str | Path] = [echo, line, str(request_bytes), str(reply_bytes)]
            with serving(command) as place, _echo(line, place, request_bytes, reply_bytes) as ping:
                calls, echoes = _rounds(lambda: board.functions.nothing(), ping)
    return NullCall(line, request_bytes, reply_bytes, tuple(calls), tuple(echoes))


def _lengths(function_id: int) -> tuple[int, int]:
    """Return the bytes on the line of a call without arguments and of its nil."""
    call = Frame(FrameKind.CALL, 0x1234, 1, b"\x91" + msgpack.packb(function_id))
    result = Frame(FrameKind.RESULT, 0x1234, 1, b"\xc0")
    return len(encode_frame(call)), len(encode_frame(result))


def _rounds(
    call: Callable[[], object], ping: Callable[[], object]
) -> tuple[list[float], list[float]]:
    calls, echoes = [], []
    for one in (call, ping):
        _median_us(one, _WARM_UP)
    for number in range(ROUNDS):
        if number % 2:  # neither always runs on what the other left in the caches
            calls.append(_median_us(call, CALLS))
            echoes.append(_median_us(ping, CALLS))
        else:
            echoes.append(_median_us(ping, CALLS))
            calls.append(_median_us(call, CALLS))
    return calls, echoes


def _median_us(one: Callable[[], object], count: int) -> float:
    clock = time.perf_counter_ns
    taken = []
    for _ in range(count):
        begin = clock()
        one()
        taken.append(clock() - begin)
    return median(taken) / 1000


@contextlib.contextmanager
def _echo(
    line: str, place: str, request_bytes: int, reply_bytes: int
) -> Iterator[Callable[[], object]]:
    """Yield a function that makes one round trip by the calls that a transport makes."""
    with contextlib.ExitStack() as stack:
        if line == "pty":
            descriptor = os.open(place, os.O_RDWR | os.O_NOCTTY)
            stack.callback(os.close, descriptor)
            tty.setraw(descriptor, termios.TCSANOW)
        else:
            host, _, port = place.rpartition(":")
            connection = stack.enter_context(socket.create_connection((host, int(port))))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            descriptor = connection.fileno()
        os.set_blocking(descriptor, False)
        readable = select.poll()
        readable.register(descriptor, select.POLLIN)
        request = b"x" * request_bytes
        poll, write, read = readable.poll, os.write, os.read

        def ping() -> None:
            write(descriptor, request)
            left = reply_bytes
            while left:
                poll(_TIMEOUT_MS)
                left -= len(read(descriptor, _READ_SIZE))

        yield ping
