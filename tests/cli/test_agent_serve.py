# SPDX-License-Identifier: Apache-2.0
"""`boardprof agent serve`: an agent that hosts come to, over TCP or a pseudo-terminal."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import BOARDPROF, FIXTURES, agent, boardprof, rows, wait_until
from tests.support import ROOT

WORKLOADS = ROOT / "examples" / "workloads"
ENDLESS = FIXTURES / "endless.c"


@pytest.fixture(scope="module")
def pty() -> Iterator[str]:
    with agent("-b", "linux", WORKLOADS, "--pty") as port:
        assert port.startswith("/dev/pts/")
        yield port


def shape(file: Path) -> tuple[list[str], str, str]:
    """Return what a Report shows whatever the numbers: columns, function, device."""
    report = json.loads(file.read_text())
    (row, *others) = report["calls"]
    assert len(others) == 9
    return sorted(row), row["Name"]["string"], row["Device"]["string"]


def test_a_pty_gives_the_same_report_as_tcp_and_as_the_board_itself(
    pty: str, tmp_path: Path
) -> None:
    files = [tmp_path / name for name in ("pty.json", "tcp.json", "own.json")]
    done = boardprof("run", "-b", "linux", "-p", pty, "fir_q15", "--json", files[0])
    assert (done.code, rows(done.out)) == (0, ["fir_q15"])
    with agent("-b", "linux", WORKLOADS) as port:
        done = boardprof("run", "-b", "linux", "-p", port, "fir_q15", "--json", files[1])
        assert (done.code, rows(done.out)) == (0, ["fir_q15"])
    done = boardprof("run", "-b", "linux", f"{WORKLOADS}:fir_q15", "--json", files[2])
    assert done.code == 0
    shapes = [shape(file) for file in files]
    assert shapes[0] == shapes[1] == shapes[2]
    assert shapes[0][1:] == ("fir_q15", "linux")


def test_a_host_that_comes_back_is_served_again(pty: str) -> None:
    for _ in range(2):
        done = boardprof("run", "-b", "linux", "-p", pty, "crc32", "--repeat", "2")
        assert (done.code, rows(done.out), done.err) == (0, ["crc32"], "")


def test_the_sources_that_the_agent_was_built_of_may_be_named(pty: str) -> None:
    done = boardprof("run", "-b", "linux", "-p", pty, f"{WORKLOADS}:crc32", "--repeat", "2")
    assert (done.code, rows(done.out)) == (0, ["crc32"])


def test_without_a_board_the_sources_are_built_for_the_one_at_the_port(pty: str) -> None:
    done = boardprof("run", "-p", pty, f"{WORKLOADS}:crc32", "--repeat", "2")
    assert (done.code, rows(done.out)) == (0, ["crc32"])


def test_other_flags_than_the_agents_are_another_build(pty: str) -> None:
    done = boardprof("run", "-b", "linux", "-p", pty, f"{WORKLOADS}:crc32", "-O0")
    assert (done.code, done.out) == (4, "")
    assert f"error: The board at {pty} runs build " in done.err
    assert "these sources produce build " in done.err
    assert "Try: start or flash the board with these sources and flags" in done.err


def test_info_tells_what_the_agent_at_a_port_has(pty: str) -> None:
    done = boardprof("info", "-b", "linux", "-p", pty)
    assert done.code == 0
    assert f"port        {pty}\n" in done.out
    assert "  sha256() -> void\n" in done.out


def test_a_pty_that_another_host_has_open_is_busy() -> None:
    with agent("-b", "linux", ENDLESS, "--pty") as port:
        command = [*BOARDPROF, "run", "-b", "linux", "-p", port, "b_endless"]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as first:
            try:
                wait_until(lambda: holds(first.pid, port), "the first host holds the port")
                done = boardprof("info", "-b", "linux", "-p", port)
            finally:
                first.kill()
    assert (done.code, done.out) == (3, "")
    owner = f"another boardprof (pid {first.pid})"
    assert done.err.startswith(f"error: {port} is busy: {owner} has it open.\nTry: ")


def holds(pid: int, device: str) -> bool:
    """Tell whether a process has a device open."""
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed since it was listed
            if str(link.readlink()) == device:
                return True
    return False


def test_a_host_that_was_killed_in_a_call_leaves_the_port_free() -> None:
    with agent("-b", "linux", WORKLOADS, "--pty") as port:
        command = [*BOARDPROF, "run", "-b", "linux", "-p", port, "sha256", "--repeat", "1000000"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as first:
            wait_until(lambda: holds(first.pid, port), "the first host holds the port")
            first.kill()
        done = boardprof("info", "-b", "linux", "-p", port)
        assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["-b", "native"],
            "native cannot serve a port, because it is not a program on this machine.",
        ),
        (
            ["-b", "qemu-rv32"],
            "qemu-rv32 cannot serve a port, because it is not a program on this machine",
        ),
        ([], "Which board should the agent serve?\nTry: give -b BOARD"),
        (["-b", "linus"], "There is no board 'linus'; did you mean 'linux'?"),
        (["-b", "linux", "--listen", "here"], "cannot listen on 'here': it must be HOST:PORT"),
        (
            ["-b", "linux", "--listen", "0.0.0.0:0"],
            "cannot listen on '0.0.0.0:0': only loopback (127.x.y.z, [::1]) is allowed without a "
            "key; give a key by --key-file or BOARDPROF_KEY, or forward the port with ssh -L",
        ),
        (["-b", "linux", "--listen", "[::]:0"], "cannot listen on '[::]:0': only loopback"),
        (["-b", "linux", "--listen", "[::1:0"], "the host must be localhost, an IPv4 address or"),
        (["-b", "linux", "--listen", "box:0"], "the host must be localhost, an IPv4 address or"),
        (["-b", "linux", "--listen", "127.0.0.1:65536"], "the port must be 0..65535"),
        (["-b", "linux", "--pty", "--key-file", "k"], "other lines have no key"),
    ],
)
def test_an_agent_that_cannot_be_is_refused(arguments: list[str], message: str) -> None:
    done = boardprof("agent", "serve", *arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_an_address_that_is_taken_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = boardprof("agent", "serve", "-b", "linux", "--listen", address)
    assert done.code == 3
    assert f"cannot listen on '{address}': Address already in use" in done.err
