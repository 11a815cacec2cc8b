# SPDX-License-Identifier: Apache-2.0
"""Ports that others have, and emulators that outlive nobody."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from boardprof.base.errors import BusyError, UsageError
from boardprof.base.processes import described, lock_holders, openers
from boardprof.measure.connect import connect
from boardprof.wire.transport.serial import connect_serial
from tests.cli.command import agent, ended, wait_until
from tests.support import requires_tool

HOSTS = Path(__file__).parent / "fixtures" / "hosts.c"


# -- ports ------------------------------------------------------------------------------------

LOCKER = """
import fcntl, os, sys
port = os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY)
fcntl.flock(port, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


@contextmanager
def program(name: str, script: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run a Python script as a process of this name, once it has said that it is there."""
    named = ["bash", "-c", 'exec -a "$0" "$@"', name, sys.executable, "-c", script, *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(named, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


def comm(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def test_a_busy_port_names_the_program_that_holds_it() -> None:
    with agent("-b", "linux", HOSTS, "--pty") as port, program("minicom", LOCKER, port) as other:
        with pytest.raises(BusyError) as caught:
            connect("linux", port)
        holder = f"{comm(other.pid)} (pid {other.pid})"
        assert caught.value.owner == holder
        assert str(caught.value) == (
            f"{port} is busy: {holder} has it open.\n"
            f"Try: close it; `fuser -v {port}` shows every program that has it open"
        )


def test_a_port_that_another_boardprof_has_is_told_apart() -> None:
    with (
        agent("-b", "linux", HOSTS, "--pty") as port,
        program("boardprof", LOCKER, port) as other,
        pytest.raises(BusyError, match=rf"busy: another boardprof \(pid {other.pid}\) has it"),
    ):
        connect("linux", port)


def test_a_port_that_this_very_program_has_is_told_apart() -> None:
    with (
        agent("-b", "linux", HOSTS, "--pty") as port,
        connect("linux", port),
        pytest.raises(BusyError, match=rf"busy: this program \(pid {os.getpid()}\) has it"),
    ):
        connect("linux", port)


def test_who_has_a_device_open_is_found_with_and_without_a_lock() -> None:
    with agent("-b", "linux", HOSTS, "--pty") as port, program("other", LOCKER, port) as other:
        assert lock_holders(port) == [other.pid]
        assert other.pid in openers(port)
        assert os.getpid() not in openers(port)
    assert lock_holders("/dev/null") == []
    assert lock_holders("/dev/ttyNONE7") == []


def test_holders_are_named_in_one_line() -> None:
    assert described([]) == ""
    assert described([os.getpid()]) == f"this program (pid {os.getpid()})"
    both = described([os.getpid(), 1 << 30])
    assert both == f"this program (pid {os.getpid()}) and a program (pid {1 << 30})"


def test_a_line_that_is_no_pseudo_terminal_is_refused_while_anyone_has_it_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A real port's rule, on a pseudo-terminal that is taken for one."""
    monkeypatch.setattr("boardprof.wire.transport.serial._PTY", "/dev/none/")
    with agent("-b", "linux", HOSTS, "--pty") as port:
        # The agent itself has this end open, too.
        with pytest.raises(BusyError, match=rf"{port} is busy: .* \(pid \d+\) has it open"):
            connect_serial(port, 115200)
        assert lock_holders(port) == []


def test_a_serial_port_takes_ten_bits_a_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("boardprof.wire.transport.serial._PTY", "/dev/none/")
    monkeypatch.setattr("boardprof.wire.transport.serial.openers", lambda device: [])
    with agent("-b", "linux", HOSTS, "--pty") as port:
        line = connect_serial(port, 115200)
        assert line.byte_time_s == pytest.approx(86.8e-6, rel=1e-3)
        line.close()


def test_a_rate_that_no_port_has_is_a_mistake() -> None:
    ours, theirs = os.openpty()
    try:
        with pytest.raises(UsageError, match=r"cannot run at 99999999999 baud: "):
            connect_serial(os.ttyname(theirs), 99_999_999_999)
    finally:
        os.close(ours)
        os.close(theirs)


# -- emulators die with their host ------------------------------------------------------------

HOST = """
import sys, threading, time
from pathlib import Path
from boardprof.wire.transport.child import ChildProcess

children = []

def start():
    children.append(ChildProcess(["sleep", "300"], None))

worker = threading.Thread(target=start)
worker.start()
worker.join()
time.sleep(0.2)  # the worker has ended; its child must not have
child = children[0]
print(child._process.pid, child.running, flush=True)
time.sleep(300)
"""


@pytest.mark.parametrize("has_setpriv", [True, False])
def test_a_child_that_a_worker_thread_started_outlives_it_and_dies_with_the_killed_host(
    tmp_path: Path, has_setpriv: bool
) -> None:
    for tool in ["setpriv"] * has_setpriv + ["sleep"]:
        (tmp_path / tool).symlink_to(requires_tool(tool, "util-linux"))
    with subprocess.Popen(
        [sys.executable, "-c", HOST],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PATH": str(tmp_path)},
    ) as host:
        assert host.stdout is not None
        child, running = host.stdout.readline().split()
        host.kill()
    assert running == "True"
    wait_until(lambda: ended(int(child)), "the child has ended with its killed host", 5.0)


def test_children_can_be_started_after_a_fork() -> None:
    script = """
import os, warnings
warnings.simplefilter("ignore")
from boardprof.wire.transport.child import ChildProcess
ChildProcess(["true"], None).close()
pid = os.fork()
if pid == 0:
    child = ChildProcess(["sleep", "300"], None)
    code = 0 if child.running else 1
    child.close()
    os._exit(code)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", script], timeout=30, check=False)
    assert done.returncode == 0
