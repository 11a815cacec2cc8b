# SPDX-License-Identifier: Apache-2.0
"""The host's session against peers that are mute, gone or of another kind, and on faulty lines."""

from __future__ import annotations

import dataclasses
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from construct import Int64ul, Struct

from boardprof.base.errors import (
    BoardError,
    BoardTimeoutError,
    DeviceEndedError,
    DeviceResetError,
    LayoutMismatchError,
    LinkError,
    ProtocolMismatchError,
)
from boardprof.measure.board.board import Board
from boardprof.measure.connect import build, connect
from boardprof.wire.transport import base
from boardprof.wire.transport.sockets import connect_tcp
from boardprof_protocol.c_header import c_header
from boardprof_protocol.codes import FrameKind
from boardprof_protocol.collectors import collector_layouts
from boardprof_protocol.layout import Layout
from tests.cli.command import FIXTURES, boardprof
from tests.link.peers import Change, FaultyLine, altered_board, peer, running_agent
from tests.support import awake, children_of

SCALARS = FIXTURES / "scalars.c"
ENDLESS = FIXTURES / "endless.c"


def mute(connection: socket.socket) -> None:
    while connection.recv(65536):
        pass


def chatty(connection: socket.socket) -> None:
    connection.sendall(b"boot: clock at 48 MHz\r\nboot: waiting for the \x1b[1mbootloader\r\n")
    mute(connection)


# -- peers that are no board ------------------------------------------------------------------


def test_a_mute_peer_is_given_up_when_the_time_is_over() -> None:
    with peer(mute) as port, awake() as elapsed_s:
        begin = time.monotonic()
        with pytest.raises(BoardTimeoutError, match="did not answer HELLO for 1 s"):
            connect("linux", port, timeout_s=1.0)
        assert time.monotonic() - begin >= 1.0
        assert elapsed_s() < 2


def test_what_a_peer_prints_instead_of_answering_is_shown() -> None:
    with peer(chatty) as port:
        done = boardprof("info", "-b", "linux", "-p", port, "--timeout", "0.5")
    assert (done.code, done.out) == (5, "")
    assert done.err.splitlines() == [
        f"error: The board at {port} did not answer HELLO for 0.5 s.",
        "The board's console so far:",
        "  | boot: clock at 48 MHz",
        "  | boot: waiting for the \\x1b[1mbootloader",
        "Try: check the port and the baud rate, check that no other host uses the board, "
        "or reset it. If a host died during a call, the board may still be running it: a board "
        "with a guard ends it after that host's --timeout (10 s by default)",
    ]


def test_a_peer_that_hangs_up_is_told_at_once() -> None:
    with peer(lambda connection: None) as port, awake() as elapsed_s:
        with pytest.raises(LinkError, match=r"The connection to socket://.* is lost: "):
            connect("linux", port, timeout_s=10)
        assert elapsed_s() < 1


def test_nothing_at_the_port_is_told_at_once() -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))  # nobody listens there, and nobody else can
        port = f"socket://127.0.0.1:{mute.getsockname()[1]}"
        with pytest.raises(BoardError, match=f"No board at {port}: Connection refused"):
            connect("linux", port, timeout_s=10)


def test_a_peer_that_takes_no_bytes_is_given_up_when_the_time_is_over() -> None:
    gone = threading.Event()
    with peer(lambda connection: gone.wait(10) and None) as port:
        line = connect_tcp(port, 1.0)
        begin = time.monotonic()
        with (
            awake() as elapsed_s,
            pytest.raises(BoardTimeoutError, match=r"accepted no bytes for 0\.5 s: nothing reads"),
        ):
            line.write(bytes(1 << 26), 0.5)
        assert time.monotonic() - begin >= 0.5
        assert elapsed_s() < 1.5
        line.close()
        gone.set()


def test_a_slow_reader_is_no_stalled_one(monkeypatch: pytest.MonkeyPatch) -> None:
    got = 0

    def clock() -> float:
        """The reader's: 10 MiB a second, however long this machine takes for them."""
        return got / (10 << 20)

    def slow(connection: socket.socket) -> None:
        nonlocal got
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        while data := connection.recv(1 << 20):
            got += len(data)
            time.sleep(0.005)

    with peer(slow) as port:
        line = connect_tcp(port, 1.0)
        with monkeypatch.context() as patch:
            patch.setattr(base, "time", SimpleNamespace(monotonic=clock))
            line.write(bytes(1 << 24), 0.3)
            took_s = clock()
        line.close()
    assert got == 1 << 24
    assert took_s > 0.3, "the reader was slower than the time-out, or this proves nothing"


def test_a_stopped_agent_is_given_up_and_one_that_goes_on_is_right_again() -> None:
    with (
        running_agent(SCALARS) as (process, port),
        connect("linux", port) as board,
    ):
        board.session.timeout_s = 1.0
        process.send_signal(signal.SIGSTOP)
        begin = time.monotonic()
        with (
            awake() as elapsed_s,
            pytest.raises(BoardTimeoutError, match="did not answer count_calls") as caught,
        ):
            board.functions.count_calls()
        assert time.monotonic() - begin >= 1.0
        assert elapsed_s() < 2
        assert "check whether count_calls crashes or never ends" in str(caught.value)
        process.send_signal(signal.SIGCONT)
        # The agent took the call that nobody waits for any more; its late reply is no answer to
        # the next one.
        assert board.functions.count_calls() == 2


# -- faults on the line -----------------------------------------------------------------------


@pytest.fixture
def faulty() -> Iterator[tuple[FaultyLine, Board]]:
    with (
        running_agent(SCALARS) as (_, port),
        FaultyLine(port) as line,
        connect("linux", line.port, timeout_s=5.0) as board,
    ):
        yield line, board


def drop(frame: bytes) -> bytes:
    return b""


def flip_a_bit(frame: bytes) -> bytes:
    middle = len(frame) // 2
    damaged = frame[middle] ^ 1 or 3  # a zero would cut the frame in two: another fault
    return frame[:middle] + bytes([damaged]) + frame[middle + 1 :]


def cut_in_two(frame: bytes) -> bytes:
    middle = len(frame) // 2
    return frame[:middle] + b"\0" + frame[middle + 1 :]


def lose_a_byte(frame: bytes) -> bytes:
    return frame[:4] + frame[5:]


def lose_the_delimiter(frame: bytes) -> bytes:
    return frame[:-1]


def send_twice(frame: bytes) -> bytes:
    return 2 * frame


def print_around(frame: bytes) -> bytes:
    return b"sensor: 21.5 C\n" + frame + b"sensor: 21.6 C\n"


FAULTS = [drop, flip_a_bit, cut_in_two, lose_a_byte, lose_the_delimiter, send_twice, print_around]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("way", ["request", "reply"])
def test_a_fault_changes_neither_the_answer_nor_how_often_it_ran(
    faulty: tuple[FaultyLine, Board], way: str, fault: Change
) -> None:
    line, board = faulty
    (line.change_request if way == "request" else line.change_reply)(fault)
    with awake() as elapsed_s:
        assert board.functions.count_calls() == 1
        assert elapsed_s() < 2
    assert board.functions.count_calls() == 2


@pytest.mark.parametrize("fault", [drop, flip_a_bit, print_around])
@pytest.mark.parametrize("way", ["request", "reply"])
def test_a_fault_in_the_handshake_is_survived(way: str, fault: Change) -> None:
    with running_agent(SCALARS) as (_, port), FaultyLine(port) as line:
        (line.change_request if way == "request" else line.change_reply)(fault)
        with connect("linux", line.port, timeout_s=5.0) as board:
            assert board.functions.count_calls() == 1


def test_text_among_frames_is_the_console(faulty: tuple[FaultyLine, Board]) -> None:
    line, board = faulty
    line.change_reply(print_around)
    assert board.functions.count_calls() == 1
    assert board.functions.count_calls() == 2
    assert board.console == "sensor: 21.5 C\nsensor: 21.6 C\n"


def test_a_damaged_request_is_answered_by_nak_and_sent_again(
    faulty: tuple[FaultyLine, Board],
) -> None:
    line, board = faulty
    board.session.requests.rtt.floor_s = 5.0  # so that only the NAK has it sent again
    line.change_request(flip_a_bit)
    assert board.functions.count_calls() == 1
    assert [frame.kind for frame in line.replies[-2:]] == [FrameKind.NAK, FrameKind.RESULT]
    assert line.requests[-1] == line.requests[-2]


def test_a_measurement_survives_a_lost_reply(faulty: tuple[FaultyLine, Board]) -> None:
    line, board = faulty
    line.change_reply(drop)
    assert len(board.profile("count_calls", repeat=3, warmup=2).calls) == 3
    # 1 + 9 calls of the calibration go to the empty function; 2 warm up, 3 are samples, one is for
    # the stack and one for the result.
    assert board.functions.count_calls() == 2 + 3 + 1 + 1 + 1


# -- boards that go away ----------------------------------------------------------------------


def test_an_agent_that_dies_in_a_call_is_told_at_once() -> None:
    with running_agent(ENDLESS) as (process, port), connect("linux", port) as board:
        threading.Timer(0.3, process.kill).start()
        with awake() as elapsed_s:
            with pytest.raises(LinkError, match=f"The connection to {port} is lost: "):
                board.functions.b_endless()
            assert elapsed_s() < 5


def test_a_child_that_dies_in_a_call_is_told_with_how_it_ended(tmp_path: Path) -> None:
    source = tmp_path / "crash.c"
    source.write_text(
        "#include <signal.h>\n#include <stdio.h>\n"
        'void crash(void) { puts("out of coffee"); raise(SIGKILL); }\n'
    )
    done = boardprof("run", "-b", "linux", f"{source}:crash")
    assert (done.code, done.out) == (6, "")
    ended, printed, hint = done.err.splitlines()  # and not where it had listened
    assert ended == "error: The board ended during crash: linux.elf ended by signal 9 (Killed)."
    assert printed == "out of coffee"
    assert hint.startswith("Try: check crash for stack overflow")


def test_a_child_that_dies_between_calls_blames_no_function() -> None:
    before = {*children_of(os.getpid())}
    with build(SCALARS, board="linux").open() as board:
        board.functions.count_calls()
        for child in {*children_of(os.getpid())} - before:
            os.kill(child, signal.SIGKILL)
        with pytest.raises(DeviceEndedError, match=r"ended by signal 9 \(Killed\)") as caught:
            board.memory.alloc(16)
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("find out who ended it")


def test_a_board_that_was_reset_says_so_and_runs_nothing() -> None:
    with running_agent(SCALARS) as (first, port), running_agent(SCALARS) as (_, other):
        with FaultyLine(port) as line, connect("linux", line.port) as board:
            assert board.functions.count_calls() == 1
            first.kill()
            line.reconnect(other)
            with pytest.raises(DeviceResetError, match="was reset during count_calls") as caught:
                board.functions.count_calls()
            assert caught.value.exit_code == 6
            assert "if it happens again, count_calls crashes the board" in str(caught.value)
            boot_id = board.welcome.boot_id
        with connect("linux", other) as board:
            assert board.functions.count_calls() == 1
            assert board.welcome.boot_id != boot_id


# -- boards of another kind -------------------------------------------------------------------


def test_an_agent_of_another_protocol_is_named_with_both_versions(tmp_path: Path) -> None:
    spec = altered_board(tmp_path, "-DBP_PROTOCOL_VERSION=2")
    with running_agent(spec=spec) as (_, port):
        with pytest.raises(ProtocolMismatchError, match="speaks protocol 2; this boardprof speaks"):
            connect("linux", port, timeout_s=5)
        done = boardprof("info", "-b", "linux", "-p", port)
    assert (done.code, done.out) == (4, "")
    assert f"The agent at {port} speaks protocol 2; this boardprof speaks 1.\nTry: " in done.err


def header_folder(folder: Path, layouts: list[Layout]) -> Path:
    """Write the C header that these layouts generate where it comes before the agent's own."""
    header = folder / "include" / "boardprof" / "bp_wire.h"
    header.parent.mkdir(parents=True)
    header.write_text(c_header(layouts))
    return header.parents[1]


def test_an_agent_with_another_layout_is_named_with_both_sides(tmp_path: Path) -> None:
    changed = Struct("start" / Int64ul * "pages", "stop" / Int64ul * "pages")
    layouts = [
        dataclasses.replace(layout, struct=changed) if layout.name == "linux_faults" else layout
        for layout in collector_layouts()
    ]
    spec = altered_board(tmp_path, f"-I{header_folder(tmp_path, layouts)}")
    with running_agent(spec=spec) as (_, port):
        with pytest.raises(LayoutMismatchError) as caught:
            connect("linux", port, timeout_s=5)
        done = boardprof("info", "-b", "linux", "-p", port)
    # The CRCs of "start:u64:1:pages\nstop:u64:1:pages\n" and of the same with faults.
    assert "lays its blob out as linux_faults version 1, CRC 0x071d1f55; " in str(caught.value)
    assert "this boardprof has version 1, CRC 0xae850245." in str(caught.value)
    assert (done.code, done.out) == (4, "")
    assert str(caught.value) in done.err


def test_an_agent_of_another_board_is_named() -> None:
    with running_agent() as (_, port):
        done = boardprof("info", "-b", "native", "-p", port)
    assert (done.code, done.out) == (3, "")
    assert (
        f"The agent at {port} belongs to the board 'linux', not 'native', the default without "
        "-b.\n"
        "Try: give -b linux, or the port of the other board\n" in done.err
    )


def test_closing_twice_is_allowed_and_calls_after_it_are_told() -> None:
    with running_agent(SCALARS) as (_, port):
        board = connect("linux", port)
        descriptors = len(os.listdir("/proc/self/fd"))
        board.close()
        board.close()
        assert len(os.listdir("/proc/self/fd")) == descriptors - 1
        with pytest.raises(LinkError, match="is closed"):
            board.functions.count_calls()
