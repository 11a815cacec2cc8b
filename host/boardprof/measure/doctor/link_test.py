# SPDX-License-Identifier: Apache-2.0
"""A test of the line to a board: how often it damages a frame, and how fast it is."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from boardprof.base.connection import Connection
from boardprof.base.errors import BoardTimeoutError, FrameError, LinkError
from boardprof.base.progress import activity
from boardprof.measure.board.board import Board
from boardprof.measure.connect import attach, open_line
from boardprof.target.descriptions.board import BoardSpec
from boardprof.wire.transport.base import Transport, WrappedTransport
from boardprof.wire.transport.faults import Faults, FaultyTransport
from boardprof_protocol.codes import AckFlag, BuiltIn, FrameKind
from boardprof_protocol.frame import BadFrame, Frame, decode_frame
from boardprof_protocol.messages import DATA

_HELLO_S = 3.0
_START_S = 10.0
_LATE_S = 0.5
_ROUND_TRIPS = 0.3
"""Fraction of the time for round trips; the rest is for data, half of it each way."""

_MOST_AGAIN = 0.1  # of all frames that were sent
_MOST_ROUND_TRIPS = 2000
_LARGEST = 1 << 20
_DESCRIBE = b"\0\0"
_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))

_REPLIES = frozenset({FrameKind.WELCOME, FrameKind.RESULT, FrameKind.ERROR, FrameKind.NO_SESSION})
_HELD_BACK = 1 << 17
"""Most bytes to keep without a delimiter; no frame is as long."""


@dataclass
class LineCounts:
    """The traffic since the session began."""

    sent: int = 0  # frames
    received: int = 0  # frames, but for damaged ones
    naks: int = 0  # frames to the board that it could not read
    gaps_to_board: int = 0  # times that the board asked for bulk data again
    unreadable: int = 0  # pieces from the board that were neither frames nor text
    gaps_to_host: int = 0  # how often bulk data from the board continued after a gap
    unanswered: int = 0  # requests whose answers never came, whichever way lost a frame
    again: int = 0  # requests that were sent once more
    console_bytes: int = 0  # text between the frames

    @property
    def damaged_to_board(self) -> int:
        """Frames that arrived damaged at the board, as reported by the board."""
        return max(self.naks, self.gaps_to_board)

    @property
    def damaged_to_host(self) -> int:
        """Frames that arrived damaged here, or that others show to be missing."""
        return max(self.unreadable, self.gaps_to_host)

    @property
    def lost(self) -> int:
        """Requests or answers that were lost and left no trace on either side."""
        return max(0, self.unanswered - self.naks - self.unreadable)

    @property
    def faults(self) -> int:
        """All of these; 0 on a clean line."""
        return self.damaged_to_board + self.damaged_to_host + self.lost


class CountingTransport(WrappedTransport):
    """A line whose traffic is in ``counts``."""

    def __init__(self, inner: Transport) -> None:
        """Wrap a transport, which is closed with this one."""
        super().__init__(inner)
        self.counts = LineCounts()
        self._rest = b""
        self._open: dict[tuple[int, int], int] = {}  # (session, sequence) -> answers due
        self._last: tuple[int, int, int] | None = None
        self._next_offset: dict[tuple[int, int], int] = {}
        self._whole: dict[tuple[int, int], int] = {}  # bytes received without a gap from 0 on

    def write(self, data: bytes, timeout_s: float) -> None:
        """See `Transport.write`."""
        self._inner.write(data, timeout_s)
        for piece in filter(None, data.split(b"\0")):
            self._sent(decode_frame(piece))

    def _sent(self, frame: Frame) -> None:
        self.counts.sent += 1
        if frame.kind not in (FrameKind.HELLO, FrameKind.CALL):
            return
        key = (frame.session, frame.sequence)
        self._open[key] = self._open.get(key, 0) + 1
        self.counts.unanswered += 1
        self.counts.again += (frame.kind, *key) == self._last
        self._last = (frame.kind, *key)

    def read(self, timeout_s: float) -> bytes:
        """See `Transport.read`."""
        data = self._inner.read(timeout_s)
        *pieces, self._rest = (self._rest + data).split(b"\0")
        for piece in filter(None, pieces):
            try:
                self._received(decode_frame(piece))
            except BadFrame:
                self._strange(piece)
        if len(self._rest) > _HELD_BACK:
            self._strange(self._rest)
            self._rest = b""
        return data

    def _received(self, frame: Frame) -> None:
        self.counts.received += 1
        key = (frame.session, frame.sequence)
        if frame.kind == FrameKind.NAK:
            self.counts.naks += 1
        elif frame.kind == FrameKind.DATA:
            self._data(key, frame.body)
        elif frame.kind == FrameKind.ACK and len(frame.body) > 8:
            self.counts.gaps_to_board += bool(frame.body[8] & AckFlag.RESEND)
        elif frame.kind in _REPLIES and self._open.get(key, 0) > 0:
            self._open[key] -= 1
            self.counts.unanswered -= 1

    def _data(self, key: tuple[int, int], body: bytes) -> None:
        """Note where the board's data continues; one gap counts once."""
        # If one side was slow, data is sent again needlessly, until the host acknowledges that it
        # has more. The jump from there to where the board continues is not a gap.
        offset = int.from_bytes(body[: DATA.size], "little")
        end, whole = offset + len(body) - DATA.size, self._whole.get(key, 0)
        if offset > max(whole, self._next_offset.get(key, 0)):
            self.counts.gaps_to_host += 1
        self._next_offset = {key: end}
        self._whole = {key: max(whole, end) if offset <= whole else whole}

    def _strange(self, piece: bytes) -> None:
        try:
            text = piece.decode()
        except UnicodeDecodeError:
            self.counts.unreadable += 1
            return
        if all(char.isprintable() or char in "\t\n\r\x1b" for char in text):
            self.counts.console_bytes += len(piece)
        else:
            self.counts.unreadable += 1


@dataclass(frozen=True)
class Throughput:
    """Data in one direction."""

    size: int  # bytes of the largest transfer
    bytes_per_s: float  # the best of the largest transfers
    # share of what the line could carry; None if its rate is not a limit
    wire_percent: float | None


@dataclass(frozen=True)
class LinkReport:
    """The result of a test of a line."""

    board: str
    port: str
    baud: int | None  # None if the line is not serial
    counts: LineCounts
    round_trips_s: tuple[float, ...]  # of calls that were sent once, ascending
    to_board: Throughput | None  # None if `no_data` has a reason
    to_host: Throughput | None
    no_data: str  # why no data was sent
    injected: int  # faults that the test itself made

    @property
    def is_slow(self) -> bool:
        """Whether many answers came so late that they were asked for again."""
        return self.counts.again > _MOST_AGAIN * self.counts.sent

    @property
    def is_clean(self) -> bool:
        """Whether nothing was damaged or lost, and answers came in time."""
        return self.counts.faults == 0 and not self.is_slow

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
        """Write and read back random data of growing size."""
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
            # A transfer of twice the size must still end in time.
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
    connection: Connection,
    *,
    seconds: float = 5.0,
    faults: Faults | None = None,
    seed: int = 0,
) -> LinkReport:
    """Test the line to a board, with ``faults`` between host and line."""
    is_started = connection.port is None
    spec = spec if is_started else spec.at_port()
    hello_s = _START_S if is_started else _HELLO_S
    plain, _ = open_line(spec, connection, timeout_s=hello_s)
    line = CountingTransport(plain if faults is None else FaultyTransport(plain, faults))
    telling = activity(f"testing {line.name}, seconds", seconds=seconds)
    with attach(spec, line, hello_s=hello_s) as board, telling:
        test = _Test(board, line, random.Random(seed))
        test.measure_round_trips(time.monotonic() + _ROUND_TRIPS * seconds)
        why = "" if board.memory.size >= 2 else "the board's agent is compiled without BP_CFG_ARENA"
        data = None if why else test.measure_data((1 - _ROUND_TRIPS) * seconds)
        deadline_s = time.monotonic() + _LATE_S
        while line.counts.lost and time.monotonic() < deadline_s:
            line.read(0.05)  # what is still under way: a late answer is not lost
        name = board.device.name
    rate = round(10 / line.byte_time_s) if line.byte_time_s else connection.baud
    return LinkReport(
        board=name,
        port=line.name,
        baud=rate,
        counts=line.counts,
        round_trips_s=tuple(sorted(test.round_trips_s)),
        to_board=data[0] if data else None,
        to_host=data[1] if data else None,
        no_data=why,
        injected=len(faults.log) if faults is not None else 0,
    )


def diagnose(
    spec: BoardSpec,
    connection: Connection,
    *,
    bauds: Sequence[int] = (),
    seconds: float = 5.0,
    rate: float | None = None,
    seed: int = 0,
) -> Tests:
    """Test a line, at each of several rates if it is serial."""
    # ``rate`` is the fraction of frames to damage on purpose. A rate at which the board does not
    # answer has the error.
    # The host cannot change the board's rate. With several rates it finds out which one is right.
    tests: Tests = {}
    for baud in bauds or (None,):
        faults = None if rate is None else Faults(seed=seed, frames=rate)
        try:
            at_rate = replace(connection, baud=baud)
            tests[baud] = try_link(spec, at_rate, seconds=seconds, faults=faults, seed=seed)
        except (LinkError, BoardTimeoutError) as error:
            if len(bauds) < 2:
                raise
            tests[baud] = error
    return tests


def link_facts(report: LinkReport) -> dict[str, Any]:
    """Return one test of a line as plain data for JSON; null if not measured."""
    counts, times = report.counts, report.round_trips_s
    return {
        "board": report.board,
        "port": report.port,
        "baud": report.baud,
        "error": None,
        "clean": report.is_clean,
        "frames_to_board": counts.sent,
        "frames_to_host": counts.received,
        "damaged_to_board": counts.damaged_to_board,
        "damaged_to_host": counts.damaged_to_host,
        "lost": counts.lost,
        "error_rate": report.error_rate,
        "naks": counts.naks,
        "requests_sent_again": counts.again,
        "unreadable_from_board": counts.unreadable,
        "console_bytes": counts.console_bytes,
        "injected_faults": report.injected,
        "round_trips": len(times),
        "round_trip_min_s": times[0] if times else None,
        "round_trip_median_s": statistics.median(times) if times else None,
        "round_trip_p99_s": _p99(times) if times else None,
        "to_board": report.to_board and asdict(report.to_board),
        "to_host": report.to_host and asdict(report.to_host),
        "no_data": report.no_data or None,
    }


def _p99(times: Sequence[float]) -> float:
    return times[-(-99 * len(times) // 100) - 1]


def best_baud(tests: Tests) -> int | None:
    """Return the fastest clean rate, else the least damaging one. None if none answers."""
    answered = {
        baud: test
        for baud, test in tests.items()
        if isinstance(test, LinkReport) and baud is not None
    }

    def rank(baud: int) -> tuple[bool, float, int]:
        return answered[baud].is_slow, answered[baud].error_rate, -baud

    return min(answered, key=rank, default=None)


def exit_code(tests: Tests) -> int:
    """Return exit code 0 if a rate loses nothing, 4 if all do, the error's if no board answers."""
    # A slow link is not a failure, since the host's own machine may be busy.
    reports = [test for test in tests.values() if isinstance(test, LinkReport)]
    errors = [test for test in tests.values() if not isinstance(test, LinkReport)]
    if not reports:
        return max(error.exit_code for error in errors)
    return 0 if any(report.counts.faults == 0 for report in reports) else LinkError.exit_code


def links_facts(tests: Tests) -> dict[str, Any]:
    """Return all tests of a line as JSON shows them."""
    return {
        "schema_version": 1,
        "best_baud": best_baud(tests),
        "tests": [
            link_facts(test)
            if isinstance(test, LinkReport)
            else {"baud": baud, "error": test.message}
            for baud, test in tests.items()
        ],
    }


def links_text(tests: Tests) -> str:
    """Return all tests of a line as text; if there are several, the best rate comes last."""
    parts = [
        link_text(test) if isinstance(test, LinkReport) else f"{baud:,} baud: {test.message}"
        for baud, test in tests.items()
    ]
    if len(tests) > 1:
        best = best_baud(tests)
        parts.append(f"Best: {best:,} baud" if best else "The board answers at none of these.")
    return "\n\n".join(parts)


def link_text(report: LinkReport) -> str:
    """Return one test of a line as text."""
    counts, times = report.counts, report.round_trips_s
    total = counts.sent + counts.received
    rate = f", {report.baud:,} baud" if report.baud is not None else ""
    trips = "every call needed a retry"
    if times:
        shown = (times[0], statistics.median(times), _p99(times))
        trips = f"{' … '.join(map(_time_text, shown))}    {len(times):,} calls"
    lines = [
        f"Link: {report.board} at {report.port}{rate}",
        f"  Frames      {counts.sent:,} to the board, {counts.received:,} to the host",
        f"  Damaged     {counts.damaged_to_board:,} to the board ({counts.naks:,} NAKs), "
        f"{counts.damaged_to_host:,} to the host, {counts.lost:,} lost",
        f"  Error rate  {100 * report.error_rate:.3g} %  ({counts.faults:,} of {total:,} frames)",
        f"  Sent again  {counts.again:,} requests",
        f"  Console     {counts.console_bytes:,} bytes of text between the frames",
        f"  Round trip (min … median … p99):  {trips}",
        f"  To the board:  {_throughput_text(report.to_board, report.no_data)}",
        f"  To the host:   {_throughput_text(report.to_host, report.no_data)}",
    ]
    if report.injected:
        lines.append(
            f"  Injected    {report.injected:,} faults by --faults; every answer was correct"
        )
    return "\n".join([*lines, "", verdict(report)])


def verdict(report: LinkReport) -> str:
    """Return the result of the test in one line."""
    if report.is_clean:
        return "The link is clean: nothing was damaged or lost."
    whole = "Every call still got the correct answer"
    if report.counts.faults == 0:
        return (
            f"The link is slow: {report.counts.again:,} of {report.counts.sent:,} frames were sent "
            f"again before an answer came. {whole}. Look for what holds bytes back, such as a "
            "bridge."
        )
    if report.injected:
        return f"The link loses frames, as requested with --faults. {whole}."
    return (
        f"The link loses frames. {whole}. Try a lower baud rate, a shorter cable or a better "
        "ground."
    )


def _time_text(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} µs"


def _throughput_text(found: Throughput | None, why_not: str) -> str:
    if found is None:
        return f"not measured: {why_not}"
    factor, unit = next(entry for entry in _UNITS if found.bytes_per_s >= entry[0] or entry[0] == 1)
    wire = "" if found.wire_percent is None else f", {found.wire_percent:.1f} % of the wire"
    return f"{found.bytes_per_s / factor:.1f} {unit}/s{wire}    {found.size:,} bytes at a time"
