# SPDX-License-Identifier: Apache-2.0
"""Several hosts at one agent: who has the board, who waits, who takes it over, who has gone."""

from __future__ import annotations

import itertools
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from boardprof.base.errors import (
    BoardError,
    BoardTimeoutError,
    BusyError,
    DeviceResetError,
    LinkError,
)
from boardprof.measure.connect import connect
from boardprof.target.descriptions.board import board_spec
from boardprof.wire.link.replies import make_claim, owner_name
from boardprof.wire.link.session import Session
from boardprof.wire.transport.sockets import parse_socket_url
from boardprof_protocol.codes import HELLO_MAGIC, FrameKind
from boardprof_protocol.frame import Frame, FrameDecoder, encode_frame
from boardprof_protocol.messages import HELLO, WELCOME
from tests.cli.command import (
    BOARDPROF,
    FIXTURES,
    agent,
    boardprof,
    cpu_seconds,
    ended,
    offspring,
    wait_until,
)
from tests.firmware import build
from tests.link.peers import FaultyLine, altered_board, running_agent, unprivileged
from tests.support import awake, requires_tool

HOSTS = Path(__file__).parent / "fixtures" / "hosts.c"
RING = Path(__file__).parent / "fixtures" / "ring.c"
DRAWN = itertools.count(1000)


@pytest.fixture(autouse=True)
def no_id_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A HELLO with the id of the session before begins none: once in 65,535 times, if by chance."""
    monkeypatch.setitem(Session.__init__.__kwdefaults__, "random_bits", lambda bits: next(DRAWN))


@pytest.fixture(scope="module")
def port() -> Iterator[str]:
    with running_agent(HOSTS) as (_, port):
        yield port


def raw(port: str) -> socket.socket:
    """Connect without a word."""
    return socket.create_connection(parse_socket_url(port), timeout=10)


def hello(session: int = 7, versions: tuple[int, int] = (1, 1)) -> bytes:
    fields = {"magic": HELLO_MAGIC, "mtu": 65535, "nonce": 1}
    fields |= {"version_min": versions[0], "version_max": versions[1]}
    return encode_frame(Frame(FrameKind.HELLO, session, 0, HELLO.struct.build(fields)))


def frames(line: socket.socket, count: int = 1) -> list[Frame]:
    """Return the next frames that come."""
    decoder = FrameDecoder()
    found: list[Frame] = []
    while len(found) < count:
        data = line.recv(4096)
        assert data, "the agent has closed the line"
        found += decoder.feed(data)
    return found


def next_call(welcome: Frame, body: bytes) -> bytes:
    """Return the first CALL of the session that this WELCOME begins."""
    assert welcome.kind == FrameKind.WELCOME
    sequence = WELCOME.struct.parse(welcome.body).last_sequence + 1 & 0xFFFFFFFF
    return encode_frame(Frame(FrameKind.CALL, welcome.session, sequence, body))


# -- names ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("user", "host", "pid", "name"),
    [
        ("ada", "box", 42, "ada@box (pid 42)"),
        ("ada", "build-machine-07.lab", 4194304, "ada@build-machine- (pid 4194304)"),
        ("ada", "a" * 64, 1, "ada@" + "a" * 20 + " (pid 1)"),
        ("émilie", "été" * 9, 123, "émilie@étéétéét (pid 123)"),
        ("u" * 40, "box", 5, "u" * 24 + " (pid 5)"),
    ],
)
def test_an_owners_name_is_cut_between_characters_and_keeps_its_process(
    user: str, host: str, pid: int, name: str
) -> None:
    assert owner_name(user, host, pid).decode() == name
    assert len(owner_name(user, host, pid)) <= 32


def test_a_claim_has_33_bytes_and_says_whether_it_takes_over() -> None:
    name = make_claim(takeover=False)[1:].rstrip(b"\0").decode()
    assert len(make_claim(takeover=False)) == 33
    assert make_claim(takeover=False)[0] == 0
    assert make_claim(takeover=True)[0] == 1
    assert name.endswith(f" (pid {os.getpid()})")
    assert "@" in name


# -- busy -------------------------------------------------------------------------------------


def test_a_second_host_is_told_at_once_who_has_the_board(port: str) -> None:
    with connect("linux", port) as board:
        with awake() as elapsed_s:
            with pytest.raises(BusyError) as caught:
                connect("linux", port)
            assert elapsed_s() < 1
        assert caught.value.exit_code == 3
        assert caught.value.owner.endswith(f" (pid {os.getpid()})")
        assert str(caught.value) == (
            f"The board at {port} is in use by {caught.value.owner}.\n"
            "Try: wait until it is free, or take it over with takeover=True"
        )
        assert board.functions.rest(0) == 0  # and the first one has not noticed


def test_a_second_host_is_told_even_while_the_board_is_at_work(port: str) -> None:
    with connect("linux", port) as board, awake() as elapsed_s:
        call = threading.Thread(target=board.functions.rest, args=(2000,))
        call.start()
        time.sleep(0.2)
        with pytest.raises(BusyError, match="is in use by"):
            connect("linux", port)
        assert elapsed_s() < 1.5
        call.join()


def test_the_command_says_who_has_the_board_and_ends_with_3(port: str) -> None:
    with connect("linux", port):
        done = boardprof("info", "-b", "linux", "-p", port)
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith(f"error: The board at {port} is in use by ")
    assert f" (pid {os.getpid()}).\nTry: wait until it is free, or take it over" in done.err


def test_the_next_host_comes_in_when_the_one_before_has_gone(port: str) -> None:
    for _ in range(20):
        with connect("linux", port) as board:
            assert board.functions.rest(0) == 0


def test_hosts_that_come_at_once_get_the_board_one_at_a_time(port: str) -> None:
    inside = []
    most = []

    def visit() -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                with connect("linux", port) as board:
                    inside.append(1)
                    most.append(len(inside))
                    board.functions.rest(5)
                    inside.pop()
                return
            except BusyError:
                time.sleep(0.002)

    visitors = [threading.Thread(target=visit) for _ in range(6)]
    for visitor in visitors:
        visitor.start()
    for visitor in visitors:
        visitor.join()
    assert most == [1] * 6


# -- takeover ---------------------------------------------------------------------------------


def test_a_takeover_ends_the_other_hosts_session_and_tells_it_by_whom(port: str) -> None:
    with connect("linux", port) as old:
        old.functions.rest(0)
        with connect("linux", port, takeover=True) as new:
            assert new.functions.rest(1) == 1
            with pytest.raises(BusyError) as caught:
                old.functions.rest(0)
            assert caught.value.exit_code == 3
            assert str(caught.value) == (
                f"Another host took over the board at {port}: {caught.value.owner}.\n"
                "Try: connect again when it is free, or take it back with takeover=True"
            )
            assert caught.value.owner.endswith(f" (pid {os.getpid()})")
            assert new.functions.rest(2) == 2


def test_a_takeover_within_a_long_call_is_told_at_once_and_served_when_the_call_ends(
    port: str,
) -> None:
    told: list[tuple[float, BaseException]] = []

    def call() -> None:
        try:
            old.functions.rest(1500)
        except BoardError as error:
            told.append((elapsed_s(), error))

    with connect("linux", port) as old, awake() as elapsed_s:
        thread = threading.Thread(target=call)
        begin = time.monotonic()
        thread.start()
        time.sleep(0.3)
        with connect("linux", port, takeover=True) as new:
            served_s = time.monotonic() - begin
            thread.join()
            assert new.functions.rest(3) == 3
    ((told_s, error),) = told
    assert isinstance(error, BusyError)
    assert told_s < 1.2
    assert served_s >= 1.4


def test_a_takeover_ends_a_measurement_between_its_rounds(port: str) -> None:
    told: list[BaseException] = []

    def measure() -> None:
        try:
            old.measure("rest", 100, repeat=100, warmup=0)
        except BoardError as error:
            told.append(error)

    with connect("linux", port) as old:
        thread = threading.Thread(target=measure)
        thread.start()
        time.sleep(0.5)
        with awake() as elapsed_s, connect("linux", port, takeover=True) as new:
            assert elapsed_s() < 3  # ten seconds would be all of it
            thread.join()
            assert new.functions.rest(3) == 3
    assert [type(error) for error in told] == [BusyError]


def test_a_takeover_by_the_command(port: str) -> None:
    with connect("linux", port) as old:
        done = boardprof("info", "-b", "linux", "-p", port, "--takeover")
        assert done.code == 0, done.err
        with pytest.raises(BusyError, match=r"took over the board at .*: .* \(pid \d+\)\."):
            old.functions.rest(0)


def test_a_takeover_of_a_free_board_is_nothing_special(port: str) -> None:
    with connect("linux", port, takeover=True) as board:
        assert board.functions.rest(0) == 0


# -- hosts that vanish ------------------------------------------------------------------------

VICTIM = """
import sys
from boardprof.measure.connect import connect
from boardprof.wire.link.session import Session
Session.__init__.__kwdefaults__["random_bits"] = lambda bits: 99  # an id that no successor has
board = connect("linux", sys.argv[1])
block = board.memory.alloc(16)
print("in", flush=True)
board.functions.rest(int(sys.argv[2]))
print("done", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("ms", [0, 700])
def test_a_killed_hosts_successor_gets_a_clean_session_without_a_takeover(
    port: str, ms: int
) -> None:
    command = [sys.executable, "-c", VICTIM, port, str(ms)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as victim:
        assert victim.stdout is not None
        assert victim.stdout.readline() == "in\n"
        with pytest.raises(BusyError, match=rf"\(pid {victim.pid}\)"):
            connect("linux", port)
        victim.send_signal(signal.SIGKILL)
        victim.wait()
    with connect("linux", port) as board:
        assert board.memory.alloc(16).handle & 0xFF == 0  # the lowest slot is free again
        assert board.functions.rest(0) == 0


def test_a_killed_hosts_successor_on_a_serial_port_is_told_that_the_board_may_be_at_work() -> None:
    others = set(offspring(os.getpid()))
    with agent("-b", "linux", FIXTURES / "endless.c", "--pty") as port:
        (at_work,) = set(offspring(os.getpid())) - others
        run = [*BOARDPROF, "run", "-b", "linux", "-p", port, "b_endless", "--timeout", "8"]
        with subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as victim:
            before = cpu_seconds(at_work)
            wait_until(lambda: cpu_seconds(at_work) > before + 0.2, "the function runs")
            victim.kill()
        # Here and now: another process would take its time to start, and 8 s are soon over.
        with pytest.raises(BoardTimeoutError) as caught:
            connect("linux", port, timeout_s=0.5)
        assert f"The board at {port} did not answer HELLO for 0.5 s.\n" in str(caught.value)
        assert caught.value.hint is not None
        assert (
            "If a host died during a call, the board may still be running it" in caught.value.hint
        )
        assert caught.value.hint.endswith("after that host's timeout_s= (10 s by default)")
        assert boardprof("info", "-b", "linux", "-p", port, "--timeout", "30").code == 0


def test_a_host_that_vanishes_without_a_word_is_asked_whether_it_is_there(port: str) -> None:
    """The kernel shows the timer: kind 2 is keepalive, then when it ends (proc_net_tcp)."""
    number = parse_socket_url(port)[1]

    def timer() -> list[str]:
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        local = f"0100007F:{number:04X}"
        (found,) = (row[5] for row in rows if row[1] == local and row[3] == "01")
        return found.split(":")

    with connect("linux", port):
        wait_until(lambda: timer()[0] == "02", "all is acknowledged, and keepalive is what is left")
        assert int(timer()[1], 16) <= 5 * os.sysconf("SC_CLK_TCK")


# -- the doorman ------------------------------------------------------------------------------


def test_what_comes_before_the_first_hello_is_answered_as_without_a_session(port: str) -> None:
    with raw(port) as line:
        line.sendall(b"noise\0")
        assert frames(line)[0][:3] == Frame(FrameKind.NAK, 0, 0)[:3]
        line.sendall(b"\0" + b"x" * 5000 + b"\0")
        assert frames(line)[0].kind == FrameKind.NAK
        line.sendall(encode_frame(Frame(FrameKind.CALL, 9, 4, b"\x91\x00")))
        (answer,) = frames(line)
        assert (answer.kind, answer.session, answer.sequence) == (FrameKind.NO_SESSION, 9, 4)
        line.sendall(encode_frame(Frame(FrameKind.HELLO, 9, 0, b"short")))  # ignored
        whole = hello()
        line.sendall(whole[:9])
        time.sleep(0.05)
        line.sendall(whole[9:] + hello())
        first, again = frames(line, 2)
        assert first.kind == FrameKind.WELCOME
        assert again == first
        line.sendall(next_call(first, b"\x93\x00\x00\x00"))
        assert frames(line)[0].kind == FrameKind.RESULT


def test_a_busy_answer_has_the_hellos_session_and_a_takeover_none(port: str) -> None:
    with raw(port) as first, raw(port) as second:
        first.sendall(hello(7))
        assert frames(first)[0].kind == FrameKind.WELCOME
        second.sendall(hello(8))
        (busy,) = frames(second)
        assert (busy.kind, busy.session, busy.sequence) == (FrameKind.BUSY, 8, 0)
        assert busy.body == bytes(32)  # the first HELLO had no claim
        assert second.recv(1) == b""
        with connect("linux", port, takeover=True):
            (busy,) = frames(first)
            assert (busy.kind, busy.session, busy.sequence) == (FrameKind.BUSY, 0, 0)
            assert busy.body.rstrip(b"\0").endswith(f" (pid {os.getpid()})".encode())
            assert first.recv(1) == b""


def test_connections_that_say_nothing_keep_nobody_out(port: str) -> None:
    idle = [raw(port) for _ in range(40)]
    with connect("linux", port) as board:
        assert board.functions.rest(0) == 0
    for line in idle:
        line.close()


def test_the_agent_is_one_thread_and_its_doorman_ends_with_it() -> None:
    with running_agent(HOSTS) as (process, port):
        with connect("linux", port):
            assert os.listdir(f"/proc/{process.pid}/task") == [str(process.pid)]
            (doorman,) = offspring(process.pid)
        process.kill()
        process.wait(10.0)
        wait_until(lambda: not Path(f"/proc/{doorman}").exists(), "the doorman has ended")
        with pytest.raises(BoardError, match="No board at"):
            connect("linux", port)


@contextmanager
def limited_doorman(most: int) -> Iterator[tuple[subprocess.Popen[str], str, int]]:
    """Run an agent whose doorman may have few descriptors; yields process, port and doorman."""
    with running_agent(HOSTS) as (process, port):
        wait_until(lambda: offspring(process.pid) != [], "the doorman has begun")
        (doorman,) = offspring(process.pid)
        resource.prlimit(doorman, resource.RLIMIT_NOFILE, (most, most))
        try:
            yield process, port, doorman
        finally:
            with suppress(ProcessLookupError):
                os.kill(doorman, signal.SIGKILL)


def test_a_doorman_with_few_descriptors_lets_hosts_in_and_rests() -> None:
    # Its own are 6, with a host's, and with that of the one who comes next 7.
    with limited_doorman(8) as (_, port, doorman):
        for _ in range(3):
            with connect("linux", port) as board:
                assert board.functions.rest(0) == 0
                with pytest.raises(BusyError):
                    connect("linux", port)
        before_s = cpu_seconds(doorman)
        time.sleep(0.5)
        assert cpu_seconds(doorman) - before_s <= 0.05


def test_a_doorman_ends_with_its_agent_when_poll_fails_and_rests_until_then() -> None:
    with limited_doorman(0) as (process, port, doorman):
        with raw(port):  # which wakes it up: poll(2) fails from now on with EINVAL
            time.sleep(0.5)
        assert cpu_seconds(doorman) <= 0.1
        process.kill()
        process.wait(10.0)
        wait_until(lambda: ended(doorman), "the doorman has ended", 5.0)


def test_a_host_waits_while_a_doorman_has_no_descriptor_for_it_and_is_let_in_later() -> None:
    # Descriptors 0 to 3 are in use: accept(2) fails with EMFILE and leaves the host in the queue.
    with running_agent(HOSTS) as (process, port):
        wait_until(lambda: offspring(process.pid) != [], "the doorman has begun")
        (doorman,) = offspring(process.pid)
        before = resource.prlimit(doorman, resource.RLIMIT_NOFILE)
        resource.prlimit(doorman, resource.RLIMIT_NOFILE, (4, before[1]))
        with raw(port) as line:
            line.sendall(hello())
            line.settimeout(0.3)
            with pytest.raises(TimeoutError):
                line.recv(1)
            assert cpu_seconds(doorman) <= 0.05
            resource.prlimit(doorman, resource.RLIMIT_NOFILE, before)
            line.settimeout(10.0)
            assert frames(line)[0].kind == FrameKind.WELCOME


def test_hosts_that_no_busy_agent_can_be_told_of_are_hung_up_on_and_later_ones_are_served() -> None:
    """Each takeover is a message to the agent; while it rests, they fill the socket's buffer."""
    fields = {"magic": HELLO_MAGIC, "mtu": 65535, "nonce": 1, "version_min": 1, "version_max": 1}
    claim = HELLO.struct.build(fields) + b"\1" + bytes(32)
    with running_agent(HOSTS) as (process, port), ExitStack() as stack:
        with connect("linux", port) as board:
            assert board.functions.rest(0) == 0
            process.send_signal(signal.SIGSTOP)
            hung_up = 0
            for session in range(100, 400):  # 212,992 bytes of buffer hold about 45
                line = stack.enter_context(raw(port))
                line.sendall(encode_frame(Frame(FrameKind.HELLO, session, 0, claim)) + b"x" * 4000)
                line.settimeout(0.02)
                with suppress(TimeoutError):
                    assert line.recv(1) == b""
                    hung_up += 1
                    break
            process.send_signal(signal.SIGCONT)
            assert hung_up == 1
        # Until the agent has read them, the buffer has no room, and others are hung up on, too.
        deadline = time.monotonic() + 10.0
        while True:
            try:
                with connect("linux", port, takeover=True) as board:
                    assert board.functions.rest(1) == 1
                break
            except LinkError:
                assert time.monotonic() < deadline


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        # stdin, stdout, stderr and the listener are 4: the two ends of a pair are too many.
        ("--nofile=4:", "Too many open files"),
        ("--nproc=0", "Resource temporarily unavailable"),
    ],
)
def test_an_agent_that_cannot_have_a_doorman_says_why_and_ends_with_3(
    limit: str, reason: str
) -> None:
    prlimit = requires_tool("prlimit", "util-linux")
    with unprivileged(build(board_spec("linux"), [HOSTS]).image) as (image, options):
        done = subprocess.run(
            [prlimit, limit, str(image), "--listen", "127.0.0.1:0"],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
            **options,
        )
    assert done.returncode == 3
    assert done.stderr == f"boardprof: cannot serve 127.0.0.1:0: {reason}\n"


def test_the_agents_sockets_wait_so_that_a_round_trip_is_two_system_calls() -> None:
    """Else each wait for a host would be a recv that comes back empty, a poll and a recv."""
    with running_agent(HOSTS) as (process, own), connect("linux", own) as board:
        board.functions.rest(0)
        folder = Path(f"/proc/{process.pid}/fd")
        links = {link.name: str(link.readlink()) for link in folder.iterdir()}
        sockets = [name for name, target in links.items() if target.startswith("socket:")]
        assert len(sockets) == 2  # the host's and the doorman's
        for name in sockets:
            lines = Path(f"/proc/{process.pid}/fdinfo/{name}").read_text().splitlines()
            (flags,) = (int(line.split()[1], 8) for line in lines if line.startswith("flags:"))
            assert not flags & os.O_NONBLOCK


def test_an_agent_that_has_lost_its_doorman_ends_too() -> None:
    with running_agent(HOSTS) as (process, port):
        with connect("linux", port):
            (doorman,) = offspring(process.pid)
            os.kill(doorman, signal.SIGKILL)
        assert process.wait(10) == 3


# -- point-to-point lines ---------------------------------------------------------------------


def test_on_a_line_without_connections_the_host_that_was_ousted_is_told_so() -> None:
    with agent("-b", "linux", HOSTS, "--pty") as port, connect("linux", port) as board:
        assert board.functions.rest(0) == 0
        other = os.open(port, os.O_RDWR | os.O_NOCTTY)  # a program that heeds no lock
        os.write(other, hello(session=1 + board.session.requests.session % 0xFFFF))
        os.close(other)
        with pytest.raises(BusyError, match=rf"Another host took over the board at {port}\.\n"):
            board.functions.rest(0)


def test_a_board_that_was_reset_is_asked_why() -> None:
    with (
        running_agent(HOSTS) as (first, port),
        running_agent(HOSTS) as (_, other),
        FaultyLine(port) as line,
        connect("linux", line.port) as board,
    ):
        board.session.requests.rtt.floor_s = 5.0  # nothing is asked twice because it took its time
        first.kill()
        line.reconnect(other)  # whose process has just begun
        with pytest.raises(DeviceResetError, match=r"was reset during rest \(power on\), so this"):
            board.functions.rest(0)
        assert [frame.kind for frame in line.requests[-2:]] == [FrameKind.CALL, FrameKind.HELLO]


def test_a_pseudo_terminal_has_no_byte_time() -> None:
    with agent("-b", "linux", HOSTS, "--pty") as port, connect("linux", port) as board:
        assert board.session.transport.byte_time_s == 0.0


# -- a receiver of 64 bytes -------------------------------------------------------------------


def test_a_small_receive_ring_loses_what_does_not_fit_and_counts_it(tmp_path: Path) -> None:
    spec = altered_board(tmp_path, "-DBP_POSIX_RING=64")
    with running_agent(HOSTS, RING, spec=spec) as (_, port):
        with connect("linux", port) as board:
            assert board.functions.ring_dropped() == 0
            for _ in range(100):
                board.functions.rest(0)
            assert board.functions.ring_dropped() == 0
        with raw(port) as line:
            # In one piece, of which the ring keeps 64 bytes before the agent has any. [rest, 0]
            line.sendall(hello())
            (welcome,) = frames(line)
            rest = next(f.id for f in board.dictionary.functions if f.name == "rest")
            call = next_call(welcome, bytes([0x92, rest, 0]))
            line.sendall(call + b"x" * 1000 + b"\0")
            assert frames(line)[0].kind == FrameKind.RESULT
        with connect("linux", port) as board:
            assert board.functions.ring_dropped() == len(call) + 1001 - 64
