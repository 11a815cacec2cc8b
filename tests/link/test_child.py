# SPDX-License-Identifier: Apache-2.0
"""Child processes that are boards: how they begin, what they print, and how they fail to."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from boardprof.base.errors import BoardError, BoardTimeoutError, LinkError, MissingToolError
from boardprof.wire.transport.base import DescriptorTransport
from boardprof.wire.transport.child import ChildProcess, spawn_and_accept, spawn_and_connect
from tests.cli.command import offspring
from tests.support import awake

Spawn = Callable[[Sequence[str], str | None, float], DescriptorTransport]


def shell(script: str) -> list[str]:
    return ["sh", "-c", script]


def test_what_a_child_prints_is_whole_however_often_it_is_looked_at(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    count = 'i={}; while [ $i -lt {} ]; do echo "line $i"; i=$((i+1)); done'
    wait = f"until [ -e {gate} ]; do sleep 0.01; done"
    child = ChildProcess(
        shell("; ".join([count.format(0, 1000), wait, count.format(1000, 2000)])), None
    )
    whole = "".join(f"line {i}\n" for i in range(2000))
    deadline = time.monotonic() + 20
    while not child.output().endswith("line 999\n"):
        assert whole.startswith(child.output())
        assert time.monotonic() < deadline
    gate.touch()
    while child.running:
        assert whole.startswith(child.output())
        assert time.monotonic() < deadline
    assert child.output() == whole
    child.close()


@pytest.mark.parametrize("spawn", [spawn_and_accept, spawn_and_connect])
def test_a_child_that_ends_is_told_with_how_and_what_it_said(spawn: Spawn) -> None:
    with awake() as elapsed_s:
        with pytest.raises(BoardError) as caught:
            spawn(shell("echo no such machine >&2; exit 3"), None, 20.0)
        assert elapsed_s() < 5
    assert "sh ended with code 3.\nno such machine" in str(caught.value)
    assert "Try: run it by hand: sh -c " in str(caught.value)


@pytest.mark.parametrize("spawn", [spawn_and_accept, spawn_and_connect])
def test_a_child_that_never_comes_is_ended_when_the_time_is_over(spawn: Spawn) -> None:
    others = offspring(os.getpid())
    begin = time.monotonic()
    with (
        awake() as elapsed_s,
        pytest.raises(BoardTimeoutError, match=r"for|within 2 s") as caught,
    ):
        spawn(shell("echo booting; exec sleep 60"), None, 2.0)
    assert time.monotonic() - begin >= 2.0
    assert elapsed_s() < 3.5
    assert caught.value.console == "booting\n"
    assert offspring(os.getpid()) == others


def test_half_a_line_is_no_announcement() -> None:
    with pytest.raises(BoardTimeoutError):
        spawn_and_connect(shell("printf 'listening on 127.0.0.1:1'; exec sleep 60"), None, 0.3)


def test_a_child_that_announces_what_is_not_there_is_told_and_ended() -> None:
    others = offspring(os.getpid())
    with pytest.raises(
        BoardError, match=r"No board at socket://127\.0\.0\.1:1: Connection refused"
    ):
        spawn_and_connect(shell("echo listening on 127.0.0.1:1; exec sleep 60"), None, 5.0)
    assert offspring(os.getpid()) == others


def test_half_a_frame_that_an_emulator_sent_before_it_ended_is_not_lost() -> None:
    program = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1]))).send"
    command = [sys.executable, "-c", f"{program}(b'half')", "{port}"]
    line = spawn_and_accept(command, None, 20.0, is_emulator=True)
    assert line.read(20.0) == b"half"
    with pytest.raises(LinkError, match="ended with code 0"):
        line.read(20.0)
    line.close()


def test_a_program_that_looks_for_a_server_that_had_the_port_is_not_taken_for_the_child(
    tmp_path: Path,
) -> None:
    """As a client of a server that has died does, which tries its address again and again."""
    connect = "import socket, sys; line = socket.create_connection(('127.0.0.1', int(sys.argv[1])))"
    turned_away = tmp_path / "turned away"
    wait = f"line.settimeout(20); line.recv(1) or open('{turned_away}', 'w')"
    stranger = f'{sys.executable} -c "{connect}; {wait}" {{port}}'
    child = f"{sys.executable} -c \"{connect}; line.send(b'right')\" {{port}}"
    script = f"({stranger} &); until [ -e '{turned_away}' ]; do sleep 0.01; done; {child}; exit 0"
    line = spawn_and_accept(shell(script), None, 20.0)
    assert line.read(20.0) == b"right"
    line.close()


def test_a_child_that_ignores_the_signal_to_end_is_killed() -> None:
    child = ChildProcess(shell("trap '' TERM; echo ready; while :; do sleep 0.1; done"), None)
    deadline = time.monotonic() + 10
    while child.output() != "ready\n" and time.monotonic() < deadline:
        time.sleep(0.01)
    child.close()
    assert not child.running


# A process that its fork traces: PTRACE_SEIZE of ptrace(2), allowed by PR_SET_PTRACER of prctl(2).
# When it is killed, its parent cannot reap it until the tracer has gone, which takes 6 s here.
HELD = """
import ctypes, os, time
libc = ctypes.CDLL(None)
libc.prctl(0x59616D61, ctypes.c_long(-1), 0, 0, 0)
traced = os.getpid()
if os.fork() == 0:
    print("refused" if libc.ptrace(0x4206, traced, 0, 0) else "held", flush=True)
    time.sleep(6)
else:
    time.sleep(60)
"""


def test_a_killed_child_that_takes_seconds_to_end_is_awaited() -> None:
    child = ChildProcess([sys.executable, "-c", HELD], None)
    deadline = time.monotonic() + 20
    while not child.output():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    if child.output() == "refused\n":
        child.close()
        pytest.skip("this machine does not let a process trace another")
    child.close()
    assert not child.running


@pytest.mark.parametrize("spawn", [spawn_and_accept, spawn_and_connect])
def test_a_missing_program_is_named_with_its_package(spawn: Spawn) -> None:
    with pytest.raises(MissingToolError, match="qemu-system-none was not found on PATH") as caught:
        spawn(["qemu-system-none"], "qemu-system-misc", 1.0)
    assert "qemu-system-misc" in str(caught.value)
