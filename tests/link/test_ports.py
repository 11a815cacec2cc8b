# SPDX-License-Identifier: Apache-2.0
"""The forms of a port: auto, HOST:PORT, hwgrep://, spy://, rfc2217://, ssh://, control lines."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import serial
from serial import rfc2217
from serial.tools import list_ports
from serial.tools.list_ports_common import ListPortInfo

from boardprof.base.connection import ControlLines, host_and_port, split_lines, with_lines
from boardprof.base.errors import BoardError, DeviceResetError, LinkError, UsageError
from boardprof.measure.connect import attach, connect
from boardprof.target.descriptions.board import board_spec
from boardprof.ui.cli.boards import _find_ports
from boardprof.wire.transport import serial as serial_ports
from boardprof.wire.transport.base import DescriptorTransport
from boardprof.wire.transport.serial import connect_pyserial
from boardprof.wire.transport.sockets import parse_socket_url
from boardprof.wire.transport.ssh import connect_ssh, parse_ssh_url
from tests.cli.command import boardprof
from tests.firmware import build
from tests.link.peers import running_agent
from tests.support import requires_tool


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("lab:5000", ("lab", 5000)),
        ("127.0.0.1:65535", ("127.0.0.1", 65535)),
        ("[::1]:1", ("::1", 1)),
        ("[fe80::7%eth0]:5000", ("fe80::7%eth0", 5000)),
        *((each, None) for each in ("", ":", ":5000", "lab", "lab:", "lab:0", "lab:65536", " :1")),
        *(
            (each, None)
            for each in ("::1:5000", "[]:5000", "[::1:5000", "[::1]", "[lab]:1", "a b:1")
        ),
    ],
)
def test_an_address_has_a_host_and_a_port_and_brackets_around_ipv6(
    text: str, expected: tuple[str, int] | None
) -> None:
    assert host_and_port(text) == expected
    if expected is None:
        with pytest.raises(UsageError, match=r"is not a port.*\n.* has brackets: \[::1\]:5000"):
            parse_socket_url(f"socket://{text}")
        with pytest.raises(UsageError, match="is not a port"):
            connect_pyserial(f"rfc2217://{text}", 9600, ControlLines())


def test_an_agent_at_an_ipv6_address_answers() -> None:
    image = build(board_spec("linux")).image
    listen = ["--listen", "[::1]:0"]
    with subprocess.Popen([image, *listen], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = process.stdout.readline().removeprefix("listening on ").strip()
            assert port.startswith("[::1]:")
            for form in (port, f"socket://{port}"):
                with connect("linux", form) as board:
                    assert board.device.name == "linux"
        finally:
            process.kill()


@contextlib.contextmanager
def on_a_pty() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run an agent on a pseudo-terminal; yields it and the path."""
    image = build(board_spec("linux")).image
    with subprocess.Popen([image, "--pty"], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().removeprefix("listening on ").strip()
        finally:
            process.kill()


def listed(path: str, number: str = "") -> ListPortInfo:
    """Return a port as pyserial lists it: of a USB device, if it has a serial number."""
    port = ListPortInfo(path)
    if number:
        port.vid, port.pid, port.serial_number = 0x0483, 0x374B, number
        port.hwid = f"USB VID:PID=0483:374B SER={number}"
    return port


@pytest.fixture
def ports(monkeypatch: pytest.MonkeyPatch) -> list[ListPortInfo]:
    """The serial ports that pyserial lists on this machine; no other is there."""
    found: list[ListPortInfo] = []
    monkeypatch.setattr(list_ports, "comports", lambda include_links=False: [*found])
    monkeypatch.setattr(serial_ports, "_known", {})
    return found


def name_at(port: str, board: str | None = None) -> str:
    with connect(board, port, timeout_s=5) as connected:
        return connected.spec.name


# -- where it is --------------------------------------------------------------------------------


def test_a_bare_host_and_port_are_tcp() -> None:
    with running_agent() as (_, port):
        bare = port.removeprefix("socket://")
        assert name_at(bare) == "linux"
        done = boardprof("info", "-p", bare)
        assert (done.code, done.err) == (0, "")


def test_auto_takes_the_only_usb_port_and_asks_only_if_there_are_several(
    ports: list[ListPortInfo],
) -> None:
    with pytest.raises(BoardError, match="No serial port has a board whose agent answers"):
        connect(None, "auto")
    with on_a_pty() as (_, first):
        ports += [listed("/dev/ttyS0"), listed(first, "A1")]
        assert name_at("auto") == "linux"
        master, slave = os.openpty()  # nothing answers here
        try:
            ports.append(listed(os.ttyname(slave), "A2"))
            assert name_at("auto", "linux") == "linux"
            with on_a_pty() as (_, second):
                ports.append(listed(second, "A3"))
                with pytest.raises(UsageError, match=r"Several ports have a board: .*\(linux\)"):
                    connect(None, "auto")
        finally:
            os.close(master)
            os.close(slave)


def stranger(path: str) -> ListPortInfo:
    port = ListPortInfo(path)
    port.vid, port.pid, port.description = 0x1234, 0x5678, "a stranger's 3D printer"
    return port


def arrived(master: int) -> bytes:
    """Return what was written to the other end of a pseudo-terminal that nobody has open."""
    os.set_blocking(master, False)
    try:
        return os.read(master, 4096)
    except OSError:
        return b""


def test_a_port_of_an_unknown_vendor_gets_no_byte_unless_it_is_named(
    ports: list[ListPortInfo],
) -> None:
    master, slave = os.openpty()
    path = os.ttyname(slave)
    os.close(slave)
    ports.append(stranger(path))
    try:
        with pytest.raises(
            BoardError, match=f"USB ports: none. Not asked, .*: {path}.\n.*name its"
        ):
            connect(None, "auto")
        [unnamed] = _find_ports([], None)
        assert unnamed["state"].startswith("not asked: no known board has this USB vendor")
        with on_a_pty() as (_, board):
            ports.append(listed(board, "A1"))
            assert name_at("auto") == "linux"
        assert arrived(master) == b""
        [named] = _find_ports([path], None)
        assert named["state"] == "silent: no agent answered within 2 s"
    finally:
        os.close(master)


def test_hwgrep_finds_a_port_by_what_its_device_says(ports: list[ListPortInfo]) -> None:
    with on_a_pty() as (_, path):
        ports += [listed("/dev/ttyNONE", "B1"), listed(path, "B2")]
        assert name_at("hwgrep://SER=B2") == "linux"
        assert serial_ports.path_like("hwgrep://0483:374b&n=2") == max("/dev/ttyNONE", path)
        with pytest.raises(BoardError, match="1 of this machine's serial ports match"):
            connect(None, "hwgrep://SER=B2&n=2")
        with pytest.raises(UsageError, match="skip is not an option"):
            connect(None, "hwgrep://x&skip")


def test_spy_logs_what_goes_over_the_line(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    with on_a_pty() as (_, path):
        assert name_at(f"spy://{path}?file={log}") == "linux"
    assert " TX   " in log.read_text()
    assert " RX   " in log.read_text()


# -- control lines ------------------------------------------------------------------------------


@dataclass
class Watched:
    """A serial port behind a server: what the server sets on it."""

    line: serial.Serial
    set_lines: list[tuple[str, bool]]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.line, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("line", "set_lines"):
            object.__setattr__(self, name, value)
        elif name in ("dtr", "rts"):
            self.set_lines.append((name, bool(value)))
        else:
            setattr(self.line, name, value)

    cts = dsr = ri = cd = True


@contextlib.contextmanager
def rfc2217_server(path: str) -> Iterator[tuple[str, list[tuple[str, bool]]]]:
    """Serve a port with pyserial's RFC 2217; yields the URL, and the control lines as they come."""
    set_lines: list[tuple[str, bool]] = []
    with socket.create_server(("127.0.0.1", 0)) as listener, serial.Serial(path, timeout=0) as line:

        def serve() -> None:
            listener.settimeout(30)
            connection, _ = listener.accept()
            with connection:
                writer = SimpleNamespace(write=connection.sendall)
                manager = rfc2217.PortManager(Watched(line, set_lines), writer)
                while True:
                    ready, _, _ = select.select([connection, line], [], [], 0.2)
                    if line in ready and (data := os.read(line.fileno(), 4096)):
                        connection.sendall(b"".join(manager.escape(data)))
                    if connection in ready:
                        received = connection.recv(4096)
                        if not received:
                            return
                        os.write(line.fileno(), b"".join(manager.filter(received)))

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"rfc2217://127.0.0.1:{listener.getsockname()[1]}", set_lines
        thread.join(10)
        assert not thread.is_alive()


@pytest.mark.filterwarnings("ignore:set(Daemon|Name):DeprecationWarning")  # in pyserial
def test_a_board_behind_a_server_of_rfc_2217_is_reached_and_reset() -> None:
    with on_a_pty() as (_, path):
        with rfc2217_server(path) as (url, lines):
            assert name_at(f"{url}?dtr=off&reset=rts") == "linux"
        assert ("dtr", False) in lines
        pulse = [state for name, state in lines if name == "rts"]
        assert pulse[-2:] == [False, True]


def test_control_lines_are_told_apart_from_options_of_pyserial() -> None:
    assert split_lines("/dev/ttyUSB0") == ("/dev/ttyUSB0", ControlLines())
    assert split_lines("/dev/ttyUSB0?dtr=off&rts=on&reset=dtr") == (
        "/dev/ttyUSB0",
        ControlLines(dtr=False, rts=True, reset="dtr"),
    )
    url, lines = split_lines(with_lines("rfc2217://h:1?logging=debug", dtr="on", rts=None))
    assert (url, lines) == ("rfc2217://h:1?logging=debug", ControlLines(dtr=True))
    for wrong in ("/dev/x?dtr=1", "/dev/x?reset=both", "socket://h:1?rts=off"):
        with pytest.raises(UsageError):
            split_lines(wrong)


def test_the_options_of_the_command_line_reach_the_port() -> None:
    lines = ("--dtr", "off", "--rts", "on", "--reset-pulse", "dtr")
    with on_a_pty() as (_, path):  # which has no such lines
        done = boardprof("info", "-p", path, *lines)
        assert (done.code, done.out) == (2, "")
        assert f"{path} has no control lines: DTR and RTS cannot be set." in done.err
    done = boardprof("info", "-b", "native", *lines)
    assert (done.code, done.out) == (2, "")
    assert "--dtr, --rts and --reset-pulse need a serial port" in done.err
    done = boardprof("info", "-p", "127.0.0.1:1", "--dtr", "off")
    assert (done.code, done.out) == (2, "")
    assert "is not a serial port: it has no DTR" in done.err


# -- a port that vanishes -----------------------------------------------------------------------


def test_a_usb_port_is_found_again_by_its_serial_number_for_the_next_call(
    ports: list[ListPortInfo],
) -> None:
    with on_a_pty() as (unplugged, old):
        ports.append(listed(old, "C1"))
        board = connect("linux", old, timeout_s=5)
        assert board.memory.size > 0
        unplugged.kill()
        unplugged.wait(10)
        ports.clear()
        with pytest.raises(LinkError, match="is lost: "):
            board.memory.alloc(16)  # the call under way
        with pytest.raises(LinkError, match="the port has not come back"):
            board.memory.alloc(16)
        with on_a_pty() as (_, new):
            ports.append(listed(new, "C1"))
            # The board has lost its power, too, and says so.
            with pytest.raises(DeviceResetError):
                board.memory.alloc(16)
            board.close()
            if new != old:
                with connect("linux", old, timeout_s=5) as again:
                    assert again.device.port == new


# -- ssh ----------------------------------------------------------------------------------------


def test_an_agent_on_standard_input_and_output_answers_and_ends_with_its_host(
    tmp_path: Path,
) -> None:
    source = tmp_path / "says.c"
    source.write_text(
        "#include <stdio.h>\nint says(void);\n"
        'int says(void) { puts("heard"); fflush(stdout); return 7; }\n'
        'int hangs(void);\nint hangs(void) { for (;;) { __asm__ volatile(""); } }\n'
    )
    image = build(board_spec("linux"), [source]).image
    ours, theirs = socket.socketpair()
    with (
        theirs,
        subprocess.Popen([image, "--stdio"], stdin=theirs, stdout=theirs, stderr=-1) as process,
    ):
        theirs.close()
        line = DescriptorTransport(ours.fileno(), "stdio", ours.close)
        with attach(board_spec("linux").at_port(), line) as board:
            assert board.functions.says() == 7
            assert "heard" not in board.console
        assert process.wait(10) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b"heard\n"


def test_the_command_of_ssh_asks_nothing_and_takes_no_name_for_an_option() -> None:
    agent = parse_ssh_url("ssh://ada@lab:2222/opt/my%20agent")
    assert agent.command(4.5) == [
        *("ssh", "-T", "-oBatchMode=yes", "-oConnectTimeout=5", "-p", "2222"),
        *("--", "ada@lab", "exec '/opt/my agent' --stdio"),
    ]
    assert parse_ssh_url("ssh://lab/~/agent").program == "./agent"
    assert parse_ssh_url("ssh://Ada@MyPi:22/a").host == "Ada@MyPi"
    assert parse_ssh_url("ssh://pi@[fe80::A]:22/a").host == "pi@fe80::A"
    run = parse_ssh_url("ssh://lab/agent?run=taskset%20-c%203")
    assert run.command(4.5)[-1] == "exec taskset -c 3 /agent --stdio"
    for wrong in (
        "ssh://lab/~/",
        "ssh:///agent",
        "ssh://lab:x/a",
        "ssh://u:p@lab/a",
        "ssh://l?x=1",
    ):
        with pytest.raises(UsageError, match="is not a port"):
            parse_ssh_url(wrong)


def test_what_ssh_says_is_the_reason_if_the_machine_is_not_reached() -> None:
    requires_tool("ssh", "openssh-client")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        number = listener.getsockname()[1]
    with pytest.raises(BoardError, match=r"No board at ssh://127.0.0.1:\d+/agent: .*refused"):
        connect_ssh(f"ssh://127.0.0.1:{number}/agent", 5.0)
    done = boardprof("info", "-p", f"ssh://127.0.0.1:{number}/agent")
    assert (done.code, done.out) == (3, "")
