# SPDX-License-Identifier: Apache-2.0
"""Ports behind which there is no board, or a bad line: each has an error of its own."""

from __future__ import annotations

import contextlib
import os
import random
import re
import select
import socket
import threading
import time
import tty
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from boardprof.base.errors import (
    BoardprofError,
    BoardTimeoutError,
    LinkError,
    speaking_of_options,
)
from boardprof.measure.connect import attach, connect
from boardprof.target.descriptions.board import board_spec
from boardprof.wire.link.no_answer import no_welcome
from boardprof.wire.transport.sockets import connect_socket, connect_tcp, stream_of
from tests.cli.command import FIXTURES, boardprof
from tests.link.peers import FaultyLine, peer, running_agent
from tests.support import AGENT, WARNINGS, requires_compiler, run

ENDLESS = FIXTURES / "endless.c"
HELD = Path(__file__).parent / "fixtures" / "held.c"
Serve = Callable[[socket.socket], None]


def saying(text: bytes) -> Serve:
    """A peer that says something when the host connects, and nothing more."""

    def serve(connection: socket.socket) -> None:
        connection.sendall(text)
        while connection.recv(65536):
            pass

    return serve


def error_of(serve: Serve, *, waits: bool = False) -> BoardprofError:
    """Return the error for a peer that speaks first, unless it ``waits``."""
    with peer(serve) as port:
        connection = connect_socket(port, 10.0)
        ready, _, _ = select.select([connection], [], [], 0.0 if waits else 30.0)
        assert waits or ready
        with pytest.raises(BoardprofError) as caught:
            attach(board_spec("linux"), stream_of(connection, port), hello_s=0.4)
        return caught.value


def test_silence_is_5_and_nothing_is_said_to_have_come() -> None:
    error = error_of(saying(b""), waits=True)
    assert type(error) is BoardTimeoutError
    assert error.exit_code == 5
    assert "did not answer HELLO for 0.4 s.\nTry: check the port and the baud rate" in str(error)


def test_of_an_emulator_that_is_silent_its_command_is_in_doubt_and_no_wire() -> None:
    with peer(saying(b"")) as port:
        line = connect_tcp(port, 5.0)
        with pytest.raises(BoardTimeoutError) as caught:
            attach(board_spec("qemu-rv32"), line, hello_s=0.4, is_started=True)
    assert "Try: check that launch.command in " in str(caught.value)
    assert "boards/qemu-rv32/board.toml starts the machine" in str(caught.value)
    assert "baud" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        b"boot: clock at 48 MHz\r\nboot: waiting for the \x1b[1mbootloader\r\n",
        "Gr\u00fc\u00dfe vom Ger\u00e4t: 21 \u00b0C\n".encode(),
        b"erasing: 50 %",
        b"\x80\xff",
        b"Price: 5 $",
    ],
)
def test_text_without_a_frame_is_5_with_the_console_shown(text: bytes) -> None:
    error = error_of(saying(text))
    assert type(error) is BoardTimeoutError
    assert error.exit_code == 5
    assert "The board's console so far:" in str(error)


@pytest.mark.parametrize("port", ["rtt://127.0.0.1:19021", "socket://127.0.0.1:7101"])
def test_noise_of_a_port_without_a_rate_advises_no_option_for_one(port: str) -> None:
    heard = bytes(range(0x80, 0xA0))
    with speaking_of_options():
        error = no_welcome(port, 2.0, heard, naks=0, echoes=False, printed="")
    assert type(error) is LinkError
    assert "--baud" not in str(error)
    assert ("baud" in str(error)) == (port[:3] != "rtt")


def test_bytes_that_are_no_text_are_4_with_their_number_and_in_hex() -> None:
    noise = random.Random(1).randbytes(200).replace(b"\0", b"\x01")
    error = error_of(saying(b"\xf8\x80\x9c\xe0" + noise))
    assert type(error) is LinkError
    assert error.exit_code == 4
    assert "sent 204 bytes in" in str(error)
    assert "but no frame and hardly any text: f8 80 9c e0 " in str(error)
    assert "Try: check the baud rate, or check whether this port speaks another" in str(error)


@pytest.mark.parametrize(
    ("heard", "told"),
    [
        (b"\xff" * 3, "did not answer HELLO for 2 s."),
        (b"\xff" * 4, "p sent 4 bytes in 2 s, but no frame and hardly any text: ff ff ff ff."),
        (b"\xff" * 16, f"hardly any text:{16 * ' ff'}."),
        (b"\xff" * 17, f"hardly any text:{16 * ' ff'} ...."),
        (b"\xff" * 65_535, "p sent 65,535 bytes in 2 s, but no frame and hardly any text: "),
        (b"\xff" * 65_536, "p sent at least 65,536 bytes in 2 s, but no frame and hardly any "),
        (b"a" * 8 + b"\x01" * 4, "did not answer HELLO for 2 s."),
        (b"a" * 8 + b"\x01" * 5, "p sent 13 bytes in 2 s, but no frame and hardly any text: "),
        (b"SSH-2.0-" + b"x" * 52, f"an SSH server: it said 'SSH-2.0-{52 * 'x'}'."),
        (b"SSH-2.0-" + b"x" * 53, f"an SSH server: it said 'SSH-2.0-{52 * 'x'}'."),
    ],
)
def test_of_what_was_heard_as_much_is_shown_as_fits_a_line(heard: bytes, told: str) -> None:
    error = no_welcome("p", 2.0, heard, naks=0, echoes=False, printed="")
    assert told in error.message


def test_a_stranger_that_never_stops_talking_is_told_in_time() -> None:
    noise = random.Random(3).randbytes(4096)

    def flood(connection: socket.socket) -> None:
        while True:  # until the host hangs up, which is an OSError
            connection.sendall(noise)

    begin = time.monotonic()
    error = error_of(flood)
    assert type(error) is LinkError
    assert "but no frame and hardly any text: " in str(error)
    assert time.monotonic() - begin < 10


@pytest.mark.parametrize(
    ("greeting", "who"),
    [
        (b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", "an SSH server"),
        (b"HTTP/1.1 400 Bad Request\r\nServer: nginx\r\n\r\n<html>", "a web server"),
        (b"\xff\xfd\x18\xff\xfd\x20\xff\xfd\x23", "a Telnet server"),
        (b"\xff\xfb\x01\r\nWelcome\r\nlogin: ", "a Telnet server"),
        (b"MicroPython v1.27.0 on 2026-01-01; Pico\r\n>>> ", "a MicroPython prompt"),
        (b"\r\n>>> ", "a MicroPython prompt"),
        (b"Debian GNU/Linux 13 pi ttyS0\r\n\r\npi login: ", "a login prompt"),
        (b"pi@pi:~$ ", "a shell"),
        (b"BusyBox v1.36\r\n/ # ", "a shell"),
        (b"+$#00", "a GDB server"),
        (b"$T05thread:01;#07", "a GDB server"),
    ],
)
def test_a_known_greeting_is_named_and_4(greeting: bytes, who: str) -> None:
    error = error_of(saying(greeting))
    assert type(error) is LinkError
    assert error.exit_code == 4
    assert f"is not a boardprof agent but {who}: it said " in str(error)


def test_the_command_names_another_program_on_the_port() -> None:
    with peer(saying(b"SSH-2.0-OpenSSH_9.2p1\r\n")) as port:
        done = boardprof("info", "-b", "linux", "-p", port, "--timeout", "0.4")
    assert (done.code, done.out) == (4, "")
    assert done.err == (
        f"error: {port} is not a boardprof agent but an SSH server: it said "
        "'SSH-2.0-OpenSSH_9.2p1'.\n"
        "Try: forward the agent's own port with ssh -L\n"
    )


def test_a_line_that_sends_everything_back_is_named_and_4() -> None:
    def serve(connection: socket.socket) -> None:
        while data := connection.recv(65536):
            connection.sendall(data)

    error = error_of(serve, waits=True)
    assert type(error) is LinkError
    assert error.exit_code == 4
    assert "echoes what is sent to it, and sent nothing else in 0.4 s.\n" in str(error)
    assert "Try: look for a loop-back plug" in str(error)


def test_what_a_line_had_brought_before_it_closed_is_shown() -> None:
    def serve(connection: socket.socket) -> None:
        connection.sendall(b"panic: no agent here\r\n")
        connection.recv(65536)

    error = error_of(serve)
    assert type(error) is LinkError
    assert "is lost: " in str(error)
    assert "The board's console so far:\n  | panic: no agent here\nTry: " in str(error)


def test_a_board_that_hears_only_damage_is_4() -> None:
    """One wire of the two is bad: the board's complaints arrive, and nothing else can."""
    with running_agent(FIXTURES / "scalars.c") as (_, port), FaultyLine(port) as line:

        def damage(frame: bytes) -> bytes:
            line.change_request(damage)
            return frame[:8] + b"\x01\x01" + frame[10:]

        line.change_request(damage)
        with pytest.raises(LinkError, match="every frame sent to it") as caught:
            connect("linux", line.port, timeout_s=0.6)
    assert caught.value.exit_code == 4


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        (
            lambda frame: re.sub(rb"[\x11\x13]", b"", frame),
            "bytes 11 and 13 do not arrive: turn off software flow control (XON/XOFF; stty -ixon "
            "-ixoff)",
        ),
        (
            lambda frame: bytes(byte & 0x7F for byte in frame),
            "no byte from 80 arrives: set eight data bits and no parity",
        ),
    ],
)
def test_what_keeps_each_hello_from_the_board_is_named(
    change: Callable[[bytes], bytes], hint: str
) -> None:
    """Each HELLO has both: the byte XON, and bytes with bit 7."""
    with running_agent(FIXTURES / "scalars.c") as (_, port), FaultyLine(port) as line:

        def damage(frame: bytes) -> bytes:
            line.change_request(damage)
            return change(frame)

        line.change_request(damage)
        with pytest.raises(LinkError, match="every frame sent to it") as caught:
            connect("linux", line.port, timeout_s=0.6)
    assert caught.value.hint is not None
    assert caught.value.hint.endswith(f"the baud rate. It seems that {hint}")


def test_a_board_that_can_read_no_call_says_so_in_the_message() -> None:
    with (
        running_agent(FIXTURES / "scalars.c") as (_, port),
        FaultyLine(port) as line,
        connect("linux", line.port) as board,
    ):

        def damage(frame: bytes) -> bytes:
            line.change_request(damage)
            return frame[:8] + b"\x01\x01" + frame[10:]

        line.change_request(damage)
        board.session.timeout_s = 0.6
        with pytest.raises(BoardTimeoutError) as caught:
            board.functions.count_calls()
    assert re.search(r"for 0\.6 s\. It received [\d,]+ damaged frames\.", str(caught.value))
    assert "BP_CFG_RX_BYTES and BP_CFG_MTU say" in str(caught.value)


# -- the line goes away -----------------------------------------------------------------------


@contextlib.contextmanager
def pty_to(port: str) -> Iterator[tuple[str, Callable[[], None]]]:
    """A serial line to the agent at a TCP port, and what unplugs it."""
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    name = os.ttyname(theirs)
    host, _, number = port.removeprefix("socket://").rpartition(":")
    wake, waker = os.pipe()

    def carry() -> None:
        with socket.create_connection((host, int(number))) as agent:
            while True:
                ready, _, _ = select.select([ours, agent, wake], [], [])
                if wake in ready:
                    break
                if ours in ready:
                    agent.sendall(os.read(ours, 65536))
                if agent in ready:
                    os.write(ours, agent.recv(65536))
        os.close(theirs)
        os.close(ours)

    thread = threading.Thread(target=carry, daemon=True)
    thread.start()
    try:
        yield name, lambda: os.write(waker, b"!") and None
    finally:
        os.write(waker, b"!")
        thread.join(5)
        os.close(wake)
        os.close(waker)


def test_a_cable_that_is_pulled_within_a_call_is_4_at_once() -> None:
    with (
        running_agent(ENDLESS) as (_, agent_port),
        pty_to(agent_port) as (device, unplug),
        connect("linux", device, timeout_s=20.0) as board,
    ):
        timer = threading.Timer(0.2, unplug)
        timer.start()
        begin = time.monotonic()
        with pytest.raises(LinkError, match=f"The connection to {device} is lost: ") as caught:
            board.functions.b_endless()
        assert time.monotonic() - begin < 5
        assert caught.value.exit_code == 4
        timer.join()


def test_a_host_that_never_reads_holds_the_agent_once_and_not_for_ever(tmp_path: Path) -> None:
    posix = AGENT / "arch/posix"
    names = ("posix", "door", "doorman", "doorman_frame", "hmac", "key", "listen", "peer", "sealer")
    sources = [posix / f"bp_{name}.c" for name in names]
    sources += [AGENT / "src/bp_frame.c", AGENT / "src/bp_le.c", HELD]
    includes = [f"-I{AGENT / 'include'}", f"-I{AGENT / 'src'}", f"-I{posix}"]
    compiler, program = requires_compiler("gcc"), tmp_path / "held"
    run([compiler, *WARNINGS, *includes, *sources, "-o", program])
    signals = int(run([program], timeout_s=30))  # 100 in a second
    assert 10 < signals < 1000
