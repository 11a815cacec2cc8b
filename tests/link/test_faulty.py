# SPDX-License-Identifier: Apache-2.0
"""The fault model and the transport that does what it says."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from boardprof.base.errors import BusyError, LinkError
from boardprof.measure.connect import attach
from boardprof.target.descriptions.board import board_spec
from boardprof.wire.transport.faults import (
    ALL_FAULTS,
    Cut,
    Delay,
    DropByte,
    DropLeading,
    DropTrailing,
    Duplicate,
    Fault,
    FaultRecord,
    Faults,
    FaultyTransport,
    FlipBit,
    Glue,
    Inject,
    LateDuplicate,
    Lose,
    Planned,
    Truncate,
    Way,
)
from boardprof.wire.transport.sockets import connect_tcp, stream_of
from boardprof_protocol.codes import HELLO_MAGIC, FrameKind
from boardprof_protocol.frame import Frame, encode_frame
from boardprof_protocol.messages import HELLO
from tests.cli.command import FIXTURES
from tests.link.peers import running_agent

STREAM = Path(__file__).parent / "fixtures" / "stream.c"
A = b"\0\x03\x13A\0"
B = b"\0\x03\x14B\0"
C = b"\0\x03\x13C\0"


def joined(pairs: list[tuple[float, bytes]]) -> bytes:
    return b"".join(data for _, data in pairs)


# -- the model --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "out"),
    [
        (Lose(), A + C),
        (FlipBit(0), A + b"\x01\x03\x14B\0" + C),
        (FlipBit(8 + 7), A + b"\0\x83\x14B\0" + C),
        (FlipBit(39), A + b"\0\x03\x14B\x80" + C),
        (FlipBit(40), A + B + C),
        (DropByte(0), A + b"\x03\x14B\0" + C),
        (DropByte(2), A + b"\0\x03B\0" + C),
        (DropByte(5), A + B + C),
        (DropLeading(), A + b"\x03\x14B\0" + C),
        (DropTrailing(), A + b"\0\x03\x14B" + C),
        (Glue(), A + b"\0\x03\x14B" + b"\x03\x13C\0"),
        (Duplicate(), A + B + B + C),
        (Truncate(0), A + C),
        (Truncate(3), A + b"\0\x03\x14" + C),
        (Inject(b"hi", 0), A + b"hi\0\x03\x14B\0" + C),
        (Inject(b"hi", 2), A + b"\0\x03hi\x14B\0" + C),
        (Inject(b"hi", 5), A + b"\0\x03\x14B\0hi" + C),
        (Cut(2), A + b"\0\x03"),
    ],
)
def test_a_fault_of_the_plan_is_done_to_its_frame_and_no_other(fault: Fault, out: bytes) -> None:
    faults = Faults([Planned(Way.TO_BOARD, 2, fault)])
    assert joined(faults.to_board(A + B + C)) == out
    assert faults.log == [FaultRecord(Way.TO_BOARD, 2, 5, fault)]
    assert faults.is_cut == isinstance(fault, Cut)
    assert faults.pending == 0


def test_what_is_late_comes_with_its_delay() -> None:
    faults = Faults(
        [Planned(Way.TO_HOST, 1, Delay(0.5)), Planned(Way.TO_HOST, 2, LateDuplicate(2))]
    )
    assert faults.to_host(A + B + C) == [(0.5, A), (0.0, B), (2, B), (0.0, C)]


def test_a_plan_may_count_the_frames_of_one_kind() -> None:
    faults = Faults([Planned(Way.TO_BOARD, 2, Lose(), kind=3)])
    assert joined(faults.to_board(A + B + C + A)) == A + B + A
    faults.add(Way.TO_BOARD, Lose(), kind=4)
    faults.add(Way.TO_BOARD, Lose(), kind=3, later=1)
    assert joined(faults.to_board(A + B + C + A)) == A + A
    faults.add(Way.TO_HOST, Lose(), kind=4)
    assert faults.pending == 1


def test_bytes_without_faults_come_out_as_they_went_in() -> None:
    faults = Faults()
    data = b"boot\n\0" + A + B[1:] + b"text" + C + b"\0\0\0" + A
    assert joined(faults.to_host(data)) == data
    assert (faults.passed(Way.TO_HOST), faults.passed(Way.TO_BOARD)) == (6, 0)


def test_a_frame_is_kept_back_until_it_is_whole_and_text_until_the_line_is_idle() -> None:
    faults = Faults()
    assert faults.to_host(A[:3]) == []
    assert faults.idle_to_host() == b""
    assert faults.to_host(A[3:]) == [(0.0, A)]
    assert faults.to_host(b"login: ") == []
    assert faults.idle_to_host() == b"login: "
    assert faults.to_host(A[:2]) == []
    assert faults.held_back(Way.TO_HOST) == A[:2]


def test_the_same_seed_and_traffic_give_the_same_faults_however_they_are_cut() -> None:
    traffic = (A + B + C) * 200
    first, second, third = (Faults(seed=seed, frames=0.2) for seed in (7, 7, 8))
    whole = first.to_board(traffic)
    # The other direction has numbers of its own: what it does changes nothing here.
    second.to_host(traffic)
    second.log.clear()
    pieces = [
        pair for at in range(0, len(traffic), 7) for pair in second.to_board(traffic[at : at + 7])
    ]
    assert pieces == whole
    assert second.log == first.log
    third.to_board(traffic)
    assert third.log != first.log
    assert 60 < len(first.log) < 180
    assert {type(record.fault) for record in first.log} == set(ALL_FAULTS)


def test_both_ways_have_faults_of_their_own() -> None:
    faults = Faults(seed=1, frames=0.5)
    up, down = faults.to_board(A * 50), faults.to_host(A * 50)
    assert up != down


def test_no_fault_is_drawn_that_was_not_asked_for() -> None:
    faults = Faults(seed=3, frames=1.0, kinds=[Lose, Duplicate])
    faults.to_board(A * 100)
    assert {type(record.fault) for record in faults.log} == {Lose, Duplicate}
    assert Cut not in ALL_FAULTS


@pytest.mark.parametrize("frames", [-0.1, 1.1])
def test_a_rate_that_is_no_fraction_is_refused(frames: float) -> None:
    with pytest.raises(ValueError, match="a fraction, 0 to 1"):
        Faults(frames=frames)


# -- the transport ----------------------------------------------------------------------------


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host = socket.create_connection(listener.getsockname())
        board, _ = listener.accept()
        board.settimeout(5)
        with host, board:
            yield host, board


def test_both_ways_go_through_the_faults(ends: tuple[socket.socket, socket.socket]) -> None:
    host, board = ends
    faults = Faults([Planned(Way.TO_BOARD, 1, Lose()), Planned(Way.TO_HOST, 2, Duplicate())])
    line = FaultyTransport(stream_of(host, "here"), faults)
    assert (line.name, line.byte_time_s, line.printed()) == ("here", 0.0, "")
    line.write(A + B, 1.0)
    assert board.recv(100) == B
    board.sendall(A + B)
    assert line.read(1.0) == A + B + B
    assert line.read(0.01) == b""


def test_what_is_late_comes_late_and_behind_others(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    host, board = ends
    faults = Faults(
        [Planned(Way.TO_HOST, 1, LateDuplicate(0.1)), Planned(Way.TO_BOARD, 1, Delay(0.05))]
    )
    now_s = 0.0
    line = FaultyTransport(stream_of(host, "here"), faults, clock=lambda: now_s)
    line.write(A, 1.0)
    board.sendall(A)
    assert line.read(1.0) == A
    board.sendall(B)
    assert line.read(1.0) == B
    board.setblocking(False)
    with pytest.raises(BlockingIOError):
        board.recv(100)
    board.settimeout(5)
    now_s = 0.1
    assert line.read(1.0) == A
    assert board.recv(100) == A


def test_a_cut_line_is_gone_for_good(ends: tuple[socket.socket, socket.socket]) -> None:
    host, board = ends
    line = FaultyTransport(stream_of(host, "here"), Faults([Planned(Way.TO_BOARD, 2, Cut(3))]))
    line.write(A, 1.0)
    with pytest.raises(LinkError, match="The connection to here is lost: the fault plan cut it"):
        line.write(B, 1.0)
    assert board.recv(5) + board.recv(100) == A + B[:3]
    assert board.recv(1) == b""
    with pytest.raises(LinkError):
        line.read(1.0)


class Flood:
    """A line on which a frame comes each 10 ms, whoever reads."""

    name, byte_time_s = "flood", 0.0

    def __init__(self) -> None:
        self.now_s = 0.0

    def read(self, timeout_s: float) -> bytes:
        self.now_s += 0.01
        return A

    def write(self, data: bytes, timeout_s: float) -> None:
        pass

    def printed(self) -> str:
        return ""

    def close(self) -> None:
        pass


def test_a_read_ends_in_time_where_all_that_comes_is_lost() -> None:
    flood = Flood()
    faults = Faults(frames=1.0, kinds=[Lose])
    line = FaultyTransport(flood, faults, clock=lambda: flood.now_s)
    assert line.read(0.5) == b""
    assert 0.5 <= flood.now_s < 0.52


def test_a_session_stands_one_frame_in_five_damaged() -> None:
    with running_agent(FIXTURES / "scalars.c") as (_, port):
        faults = Faults(seed=7, frames=0.2)
        line = FaultyTransport(connect_tcp(port, 5.0), faults)
        with attach(board_spec("linux"), line) as board:
            assert [board.functions.count_calls() for _ in range(50)] == [*range(1, 51)]
    assert len(faults.log) >= 10


def test_why_a_session_is_lost_is_told_also_by_an_answer_that_is_late() -> None:
    """Half a second, where the line's own time-out is a fraction of that."""
    hello = {"magic": HELLO_MAGIC, "version_min": 1, "version_max": 1, "mtu": 65535, "nonce": 9}
    with running_agent(FIXTURES / "scalars.c") as (_, port):
        faults, inner = Faults(), connect_tcp(port, 5.0)
        with attach(board_spec("linux"), FaultyTransport(inner, faults)) as board:
            other = 1 + board.session.requests.session % 0xFFFF
            for number in range(10):  # behind that of the other host, all that we ask again for
                faults.add(Way.TO_HOST, Delay(0.5), kind=FrameKind.WELCOME, later=1 + number)
            begin = encode_frame(Frame(FrameKind.HELLO, other, 0, HELLO.struct.build(hello)))
            inner.write(begin, 5.0)
            with pytest.raises(BusyError, match="Another host took over the board"):
                board.functions.count_calls()
    assert len(faults.log) > 1


def test_a_slow_line_brings_a_stream_to_its_end() -> None:
    faults = Faults()
    with running_agent(STREAM) as (_, port):
        line = FaultyTransport(connect_tcp(port, 5.0), faults)
        with attach(board_spec("linux"), line) as board:
            board.session.requests.rtt.floor_s = 1.0
            faults.add(Way.TO_HOST, Delay(0.5), kind=FrameKind.DATA)
            with board.stream() as stream:
                assert board.functions.emit(3) == 3
            assert len(stream.read()) == 12
    assert [record.fault for record in faults.log] == [Delay(0.5)]
