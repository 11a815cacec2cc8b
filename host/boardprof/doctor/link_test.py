# SPDX-License-Identifier: Apache-2.0
"""A test of the line to a board: how often it damages a frame, and how fast it is."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from boardprof.board.board import Board
from boardprof.board.open_board import attach, open_line
from boardprof.boards.board_file import BoardSpec
from boardprof.connection import agent_alone
from boardprof.doctor.line_counter import CountingTransport, LineCounts
from boardprof.errors import BoardTimeoutError, FrameError, LinkError
from boardprof.progress import activity
from boardprof.transport.faults import Faults
from boardprof.transport.faulty import FaultyTransport
from boardprof_protocol.codes import BuiltIn

_HELLO_S = 3.0
_START_S = 10.0
_LATE_S = 0.5
_ROUND_TRIPS = 0.3
"""Fraction of the time for round trips; the rest is for data, half of it each way."""

_MOST_ROUND_TRIPS = 2000
_LARGEST = 1 << 20
_DESCRIBE = b"\0\0"


@dataclass(frozen=True)
class Throughput:
    """Data in one direction.

    Attributes:
        size: bytes of the largest transfer.
        bytes_per_s: of the content, the best of the largest transfers.
        wire_percent: share of what the line could carry. None if its rate is not a limit.
    """

    size: int
    bytes_per_s: float
    wire_percent: float | None


@dataclass(frozen=True)
class LinkReport:
    """The result of a test of a line.

    Attributes:
        port: the line.
        baud: of a serial line, bits per second; None for others.
        counts: what passed.
        round_trips_s: of calls that were sent once, ascending, seconds.
        to_board, to_host: throughput; None where ``no_data`` tells why.
        no_data: why no data were sent, "" where they were.
        injected: faults that the test itself made.
    """

    port: str
    baud: int | None
    counts: LineCounts
    round_trips_s: tuple[float, ...]
    to_board: Throughput | None
    to_host: Throughput | None
    no_data: str
    injected: int

    @property
    def is_clean(self) -> bool:
        """Whether nothing was damaged or lost."""
        return self.counts.faults == 0

    @property
    def error_rate(self) -> float:
        """Damaged and lost frames, as a fraction of all."""
        return self.counts.faults / max(1, self.counts.sent + self.counts.received)


Tests = dict[int | None, LinkReport | LinkError | BoardTimeoutError]
"""Results by baud rate. Key None for a line without one, or for the board's own."""


@dataclass
class _Test:
    board: Board
    line: CountingTransport
    rng: random.Random
    round_trips_s: list[float] = field(default_factory=list)

    def measure_round_trips(self, until_s: float) -> None:
        while len(self.round_trips_s) < _MOST_ROUND_TRIPS:
            again = self.line.counts.again
            call = self.board.session.call(BuiltIn.DESCRIBE, _DESCRIBE, 2, name="bp.describe")
            if self.line.counts.again == again:
                self.round_trips_s.append(call.elapsed_s)
            if time.monotonic() >= until_s:
                return

    def measure_data(self, seconds: float) -> tuple[Throughput, Throughput]:
        """Write and read back random data of growing size.

        Raises:
            FrameError: the data read differs from the data written.
        """
        best: dict[str, tuple[int, float]] = {}
        deadline = time.monotonic() + seconds
        size, most = 1, min(self.board.memory.size // 2, _LARGEST)
        block = self.board.memory.alloc(most)
        while True:
            data = self.rng.randbytes(size)
            began = time.monotonic()
            self.board.memory.write(block, data)
            written = time.monotonic()
            found = self.board.memory.read(block, size)
            done = time.monotonic()
            if found != data:
                raise FrameError(
                    f"{size} bytes that were sent to {self.line.name} came back changed."
                )
            for way, took_s in (("write", written - began), ("read", done - written)):
                before = best.get(way, (0, 0.0))
                best[way] = max(before, (size, size / max(took_s, 1e-9)))
            # A transfer of twice the size shall still end in time.
            if done + 2 * (done - began) < deadline:
                size = min(2 * size, most)
            elif done + (done - began) >= deadline:
                break
        self.board.memory.free(block)
        byte_s = self.line.byte_time_s
        to_board, to_host = (
            Throughput(size, rate, 100 * rate * byte_s if byte_s else None)
            for size, rate in (best["write"], best["read"])
        )
        return to_board, to_host


def try_link(
    spec: BoardSpec,
    port: str | None = None,
    *,
    baud: int | None = None,
    seconds: float = 5.0,
    faults: Faults | None = None,
    key_file: str | None = None,
    seed: int = 0,
    on_note: Callable[[str], None] | None = None,
) -> LinkReport:
    """Test the line to a board.

    Args:
        spec: the board.
        port: as for `connect`; None starts the board.
        baud: of a serial port; the board's own when None.
        seconds: how long, about.
        faults: made between host and line, so that one sees what the protocol stands.
        key_file: as for `connect`.
        seed: of the random payloads.
        on_note: as for `connect`.

    Raises:
        BoardprofError: no session can be had, or it ends; see `connect`.
    """
    spec = spec if port is None else spec.at_port()
    hello_s = _START_S if port is None else _HELLO_S
    plain, _ = open_line(
        spec,
        port,
        baud=baud,
        timeout_s=hello_s,
        key_file=key_file,
        on_note=on_note,
        make_image=agent_alone,
    )
    line = CountingTransport(plain if faults is None else FaultyTransport(plain, faults))
    telling = activity(f"testing {line.name}, seconds", seconds=seconds)
    with attach(spec, line, hello_s=hello_s) as board, telling:
        test = _Test(board, line, random.Random(seed))
        test.measure_round_trips(time.monotonic() + _ROUND_TRIPS * seconds)
        why = "" if board.memory.size >= 2 else "the board's agent has no arena"
        data = None if why else test.measure_data((1 - _ROUND_TRIPS) * seconds)
        _await_late(line)
    rate = round(10 / line.byte_time_s) if line.byte_time_s else baud
    return LinkReport(
        port=line.name,
        baud=rate,
        counts=line.counts,
        round_trips_s=tuple(sorted(test.round_trips_s)),
        to_board=data[0] if data else None,
        to_host=data[1] if data else None,
        no_data=why,
        injected=len(faults.log) if faults is not None else 0,
    )


def _await_late(line: CountingTransport) -> None:
    """Take what is still in flight: a late answer is not lost."""
    deadline = time.monotonic() + _LATE_S
    while line.counts.lost and time.monotonic() < deadline:
        line.read(0.05)


def diagnose(
    spec: BoardSpec,
    port: str | None = None,
    *,
    bauds: Sequence[int] = (),
    seconds: float = 5.0,
    rate: float | None = None,
    seed: int = 0,
    key_file: str | None = None,
    on_note: Callable[[str], None] | None = None,
) -> Tests:
    """Test a line, at each of several rates if it is serial.

    The host cannot change the board's rate: with several it finds out which one the board has.

    Args:
        spec: the board.
        port: as for `connect`; None starts the board.
        bauds: the rates; none takes the board's own.
        seconds: how long at each rate, about.
        rate: fraction of the frames to damage on purpose. None to inject no faults.
        seed: of the faults and of the payloads.
        key_file: as for `connect`.
        on_note: as for `connect`.

    Returns:
        For each rate what was found. With several rates, one at which no session can be had has
        its error.

    Raises:
        BoardprofError: no session can be had; of several rates, for other reasons than the rate.
    """
    tests: Tests = {}
    for baud in bauds or (None,):
        faults = None if rate is None else Faults(seed=seed, frames=rate)
        try:
            tests[baud] = try_link(
                spec,
                port,
                baud=baud,
                seconds=seconds,
                faults=faults,
                key_file=key_file,
                seed=seed,
                on_note=on_note,
            )
        except (LinkError, BoardTimeoutError) as error:
            if len(bauds) < 2:
                raise
            tests[baud] = error
    return tests
