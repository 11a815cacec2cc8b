# SPDX-License-Identifier: Apache-2.0
"""What no board sends: bombs, frames nobody asked for; and text where it is least expected."""

from __future__ import annotations

import copy
import os
import re
import signal
import socket
import threading
import tracemalloc

import pytest

from boardprof.base.errors import FrameError, RpcError
from boardprof.compat.tvm_profiler.program import Program, ProgramError
from boardprof.measure.connect import connect
from boardprof.wire.link.session import Session
from boardprof.wire.transport.sockets import connect_tcp
from boardprof_protocol.codes import ErrorCode, FrameKind
from boardprof_protocol.frame import Frame, FrameDecoder, encode_frame
from tests.cli.command import FIXTURES, boardprof
from tests.link.fake_agent import Answer, fake_agent, welcome
from tests.link.peers import Change, FaultyLine, peer, running_agent, same
from tests.support import awake

SCALARS = FIXTURES / "scalars.c"


# -- bombs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [FrameKind.RESULT, FrameKind.ERROR, FrameKind.PROGRESS])
@pytest.mark.parametrize(
    "body",
    [
        b"\x91" * 10_000 + b"\xc0",
        b"\x81\xc0" * 10_000,
        b"\xdd\xff\xff\xff\xff",
        b"\xdd\x00\x00\xfd\xe8" * 500,
        b"\xdf\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xffab",
        b"\xdb\xff\xff\xff\xffab",
        b"\xc9\xff\xff\xff\xff\x01",
        b"\xd8\x05" + bytes(16),
    ],
    ids=["deep", "maps", "array", "arrays", "map", "bin", "str", "ext", "fixext"],
)
def test_a_bomb_is_an_error_and_takes_no_memory(kind: FrameKind, body: bytes) -> None:
    with fake_agent(lambda _: [(kind, body)]) as port:
        session = Session(connect_tcp(port, 1.0), timeout_s=20.0)
        session.open()
        tracemalloc.start()
        try:
            with pytest.raises(FrameError, match="is not one msgpack value"):
                session.call(5, name="fir")
            assert tracemalloc.get_traced_memory()[1] < 2_000_000
        finally:
            tracemalloc.stop()
            session.close()


def test_frames_that_nobody_asked_for_change_nothing() -> None:
    nobody: list[Answer] = [
        (FrameKind.DATA, b"\0\0\0\0content"),
        (FrameKind.ACK, b"\0\0\0\0\xff\xff\xff\xff\1"),
        (FrameKind.ACK, b""),
        (FrameKind.CALL, b"\x91\x05"),
        (FrameKind.CANCEL, b""),
        (FrameKind.WELCOME, bytes(32)),
        (FrameKind.RESULT, b"\x07"),
        (FrameKind.DATA, b""),
        (FrameKind.RESULT, b"\x08"),
    ]
    with fake_agent(lambda _: nobody) as port:
        session = Session(connect_tcp(port, 1.0), timeout_s=20.0)
        session.open()
        assert [session.call(5).value for _ in range(3)] == [7, 7, 7]
        session.close()


# -- text -------------------------------------------------------------------------------------


def test_lines_are_given_out_as_they_come_and_cost_no_time() -> None:
    lines: list[str] = []
    with running_agent(SCALARS) as (_, port), FaultyLine(port) as line:
        with connect("linux", line.port, timeout_s=5.0, on_console=lines.append) as board:
            with awake() as elapsed_s:
                for number in range(20):
                    line.change_reply(lambda frame: b"before\r\n" + frame + b"heat: 2\xb0\nand so ")
                    assert board.functions.count_calls() == number + 1
                assert elapsed_s() < 1.0, "no call waited for its time-out"
            assert board.session.requests.naks == 0
            text = board.console
        assert text.count("before\r\n") == 20
        assert lines.count("before") + lines.count("and so before") == 20
        assert lines.count("heat: 2\N{REPLACEMENT CHARACTER}") == 20
        assert lines[-1] == "and so "


def test_a_line_comes_out_while_the_call_is_still_at_work() -> None:
    seen = threading.Event()

    def serve(connection: socket.socket) -> None:
        decoder = FrameDecoder()
        while data := connection.recv(65536):
            for frame in decoder.feed(data):
                if frame.kind == FrameKind.HELLO:
                    reply = Frame(FrameKind.WELCOME, frame.session, frame.sequence, welcome())
                else:
                    reply = Frame(FrameKind.RESULT, frame.session, frame.sequence, b"\x07")
                    connection.sendall(b"still here\n")  # and no delimiter behind it
                    if not seen.wait(5.0):
                        return
                connection.sendall(encode_frame(reply))

    with peer(serve) as port:
        session = Session(connect_tcp(port, 1.0), timeout_s=8.0, on_console=lambda line: seen.set())
        session.open()
        assert session.call(5).value == 7
        session.close()


@pytest.mark.parametrize("option", ["--console", "-v"])
def test_the_command_shows_what_the_board_prints(option: str) -> None:
    with running_agent(SCALARS) as (_, port), FaultyLine(port) as line:
        line.change_reply(lambda frame: b"boot: \x1b[1mready\r\n" + frame)
        done = boardprof("run", "-b", "linux", "-p", line.port, option, "count_calls")
    assert done.code == 0
    assert "  | boot: \\x1b[1mready\n" in done.err


def test_the_command_keeps_silent_about_it_when_not_asked() -> None:
    with running_agent(SCALARS) as (_, port), FaultyLine(port) as line:
        line.change_reply(lambda frame: b"boot: ready\r\n" + frame)
        done = boardprof("info", "-b", "linux", "-p", line.port)
        assert (done.code, "boot" in done.err) == (0, False)
        line.change_reply(lambda frame: b"boot: ready\r\n" + frame)
    assert done.code == 0


# -- results ----------------------------------------------------------------------------------


def returning(line: FaultyLine, right: bytes, wrong: bytes) -> Change:
    """Return a change that lets each RESULT that is ``right`` have the body ``wrong``."""

    def change(encoded: bytes) -> bytes:
        line.change_reply(change)
        (frame,) = FrameDecoder().feed(encoded)
        if (frame.kind, frame.body) != (FrameKind.RESULT, right):
            return encoded
        return encode_frame(Frame(frame.kind, frame.session, frame.sequence, wrong))

    return change


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"\xa4text", "'text'"),
        (b"\xcb\x7f\xf8\0\0\0\0\0\0", "nan"),
        (b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff", "18446744073709551615"),
        (b"\xc0", "None"),
    ],
)
def test_a_result_that_is_no_value_of_the_declared_type_is_an_error(
    body: bytes, shown: str
) -> None:
    told = re.escape(f"take_u32(value: u32) -> u32 returned {shown}, which is not of type u32.")
    with (
        running_agent(SCALARS) as (_, port),
        FaultyLine(port) as line,
        connect("linux", line.port) as board,
    ):
        line.change_reply(returning(line, b"\xce\xff\xff\xff\xff", body))
        with pytest.raises(FrameError, match=told):
            board.functions.take_u32(0xFFFFFFFF)
        with pytest.raises(FrameError, match=told):
            board.profile("take_u32", 0xFFFFFFFF, warmup=0, repeat=1)
        program = Program(board)
        program.add("take_u32", 0xFFFFFFFF)
        with pytest.raises(ProgramError, match=told) as caught:
            program.run()
        assert isinstance(caught.value.__cause__, FrameError)
        line.change_reply(same)
        assert board.functions.take_u32(0xFFFFFFFF) == 0xFFFFFFFF


def test_a_result_is_held_against_its_type_at_each_call_without_arguments() -> None:
    with (
        running_agent(SCALARS) as (_, port),
        FaultyLine(port) as line,
        connect("linux", line.port) as board,
    ):
        assert board.functions.count_calls() == 1
        line.change_reply(returning(line, b"\2", b"\xff"))
        with pytest.raises(FrameError, match="returned -1, which is not of type u32"):
            board.functions.count_calls()


def test_a_measurement_in_progress_has_no_more_rounds_than_were_asked_for() -> None:
    def more_rounds(encoded: bytes) -> bytes:
        line.change_reply(more_rounds)
        (frame,) = FrameDecoder().feed(encoded)
        if frame.kind != FrameKind.PROGRESS:
            return encoded
        body = b"\x92\1\xce\xff\xff\xff\xff"
        return encode_frame(Frame(frame.kind, frame.session, frame.sequence, body))

    with (
        running_agent(SCALARS) as (_, port),
        FaultyLine(port) as line,
        connect("linux", line.port) as board,
    ):
        line.change_reply(more_rounds)
        with pytest.raises(FrameError, match=r"4,294,967,295 rounds of count_calls .* asked for"):
            board.profile("count_calls", warmup=2, repeat=3)


# -- breaking off -----------------------------------------------------------------------------


def test_a_measurement_that_is_cancelled_ends_and_the_next_call_works() -> None:
    with running_agent(SCALARS) as (_, port), connect("linux", port) as board:
        with awake() as elapsed_s, pytest.raises(RpcError) as caught:
            board.profile(
                "count_calls",
                warmup=1 << 30,
                on_progress=lambda done, total: board.session.cancel() if done > 10 else None,
            )
        assert caught.value.code == ErrorCode.CANCELLED
        assert elapsed_s() < 5.0
        assert isinstance(board.functions.count_calls(), int)


def test_ctrl_c_frees_the_board_for_the_next_host() -> None:
    with running_agent(SCALARS) as (_, port):
        with connect("linux", port) as board:
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
            with pytest.raises(KeyboardInterrupt):
                board.profile("count_calls", warmup=1 << 30)
            assert isinstance(board.functions.count_calls(), int)
        with awake() as elapsed_s:
            with connect("linux", port) as board:
                assert isinstance(board.functions.count_calls(), int)
            assert elapsed_s() < 2.0


# -- the functions ----------------------------------------------------------------------------


def test_the_functions_can_be_copied_and_are_the_same_each_time() -> None:
    with running_agent(SCALARS) as (_, port), connect("linux", port) as board:
        assert copy.copy(board.functions).count_calls() == 1
        assert board.functions.count_calls is board.functions["count_calls"]
        assert board.functions.count_calls() == 2
        with pytest.raises(AttributeError):
            _ = board.functions.__wrapped__
