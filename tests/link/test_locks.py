# SPDX-License-Identifier: Apache-2.0
"""Ports that others have, and emulators that outlive nobody."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from boardprof.base.errors import BusyError, UsageError
from boardprof.base.processes import described, lock_holders, openers
from boardprof.measure.connect import connect
from boardprof.wire.transport.child import ChildProcess
from boardprof.wire.transport.emulator import EmulatorLock, sweep
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


def test_a_child_that_a_worker_thread_started_outlives_it_and_dies_with_the_killed_host() -> None:
    requires_tool("setpriv", "util-linux")
    with subprocess.Popen([sys.executable, "-c", HOST], stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        child, running = host.stdout.readline().split()
        host.kill()
    assert running == "True"
    wait_until(lambda: ended(int(child)), "the child has ended with its killed host", 5.0)


def test_an_emulator_dies_with_its_killed_host_and_its_file_goes_with_the_next_start(
    tmp_path: Path,
) -> None:
    requires_tool("setpriv", "util-linux")
    script = "import sys, time; from boardprof.measure.connect import connect\n"
    script += "b = connect('linux'); print('in', flush=True); time.sleep(300)"
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment
    ) as host:
        assert host.stdout is not None
        assert host.stdout.readline() == "in\n"
        running = tmp_path / "boardprof" / "running"
        (file,) = running.iterdir()
        facts = json.loads(file.read_text())
        assert facts["board"] == "linux"
        assert facts["host_pid"] == host.pid
        assert facts["command"][1:] == ["--listen", "127.0.0.1:0"]
        assert not ended(facts["pid"])
        sweep(running)  # its host lives
        assert file.exists()
        host.kill()
    wait_until(lambda: ended(facts["pid"]), "the emulator has ended with its killed host", 5.0)
    assert file.exists()
    sweep(running)
    assert list(running.iterdir()) == []


def test_without_setpriv_the_user_is_told_what_that_means(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleep = requires_tool("sleep", "coreutils")
    (tmp_path / "sleep").symlink_to(sleep)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.warns(RuntimeWarning, match=r"setpriv was not found. If this process is killed, s"):
        child = ChildProcess(["sleep", "300"], None)
    assert child.running
    child.close()
    assert not child.running


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


def test_where_no_file_can_be_written_the_user_is_told_and_the_child_is_ended(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("")
    begun: list[int] = []

    class Noted(EmulatorLock):
        def started(self, pid: int, command: Sequence[str]) -> None:
            begun.append(pid)
            super().started(pid, command)

    with pytest.raises(
        UsageError, match=r"/file/running of .* cannot be written: Not a directory\."
    ):
        ChildProcess(["sleep", "300"], None, lock=Noted(tmp_path / "file" / "running", "qemu"))
    assert len(begun) == 1
    assert ended(begun[0])


# -- what a dead host has left ----------------------------------------------------------------


@contextmanager
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["/bin/sleep", "300"]) as process:
        try:
            wait_until(lambda: comm(process.pid) == "sleep", "sleep has begun")
            yield process
        finally:
            process.kill()


def left_behind(folder: Path, process: int, **changes: Any) -> Path:
    """Write the file of a process as its host would have, and let go of the lock as a dead one."""
    lock = EmulatorLock(folder, "qemu")
    lock.started(process, ["/bin/sleep", "300"])
    (file,) = folder.glob("*.json")
    assert lock._file is not None
    lock._file.close()
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    return file


def test_an_emulator_whose_host_is_gone_is_ended_and_its_file_removed(tmp_path: Path) -> None:
    with sleeper() as process:
        file = left_behind(tmp_path, process.pid)
        sweep(tmp_path)
        assert process.wait(5) == -signal.SIGTERM
    assert not file.exists()


def test_an_emulator_that_has_ended_already_gets_no_file(tmp_path: Path) -> None:
    with subprocess.Popen(["/bin/true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it stays a zombie
        EmulatorLock(tmp_path, "qemu").started(process.pid, ["/bin/true"])
    assert list(tmp_path.iterdir()) == []


def test_an_emulator_may_remove_its_file_itself_when_it_is_ended(tmp_path: Path) -> None:
    tidy = "trap 'rm \"$0\"/*; exit 3' TERM; echo; while :; do sleep 0.02; done"
    command = ["/bin/sh", "-c", tidy, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        left_behind(tmp_path, process.pid, command=command)
        sweep(tmp_path)
        assert process.wait(5) == 3
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"start_ticks": 1},
        {"command": ["/bin/sleep", "301"]},
        {"command": ["/bin/sleep"]},
        {"boot": "00000000-0000-0000-0000-000000000000"},
    ],
)
def test_a_process_that_only_has_the_number_is_left_alone(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    with sleeper() as process:
        file = left_behind(tmp_path, process.pid, **changes)
        sweep(tmp_path)
        time.sleep(0.1)
        assert process.poll() is None
    assert not file.exists()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": 1}', '{"pid": null, "boot": ""}'])
def test_a_file_that_tells_nothing_is_removed_and_nobody_ended(
    tmp_path: Path, content: str
) -> None:
    file = tmp_path / "qemu-1.json"
    file.write_text(content)
    sweep(tmp_path)
    assert not file.exists()


def test_a_process_of_number_1_or_less_is_never_ended(tmp_path: Path) -> None:
    for pid in (1, 0, -1):
        with sleeper() as process:
            file = left_behind(tmp_path, process.pid, pid=pid)
            sweep(tmp_path)
            assert process.poll() is None
        assert not file.exists()


def test_an_emulator_whose_host_lives_is_left_alone(tmp_path: Path) -> None:
    with sleeper() as process:
        lock = EmulatorLock(tmp_path, "qemu")
        lock.started(process.pid, ["/bin/sleep", "300"])
        sweep(tmp_path)
        assert process.poll() is None
        lock.ended()
        lock.ended()
        assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_just_being_made_is_left_alone_and_an_old_one_removed(
    tmp_path: Path,
) -> None:
    young, old, locked = (tmp_path / f"{name}.new" for name in ("young", "old", "locked"))
    for file in (young, old, locked):
        file.write_text("")
    for file in (old, locked):
        os.utime(file, (1, 1))
    with locked.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        sweep(tmp_path)
    assert sorted(tmp_path.iterdir()) == [locked, young]


def test_there_is_nothing_to_sweep_where_nothing_ever_ran(tmp_path: Path) -> None:
    sweep(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_an_emulators_file_is_gone_when_its_board_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with connect("linux"):
        assert len(list((tmp_path / "boardprof" / "running").iterdir())) == 1
    assert list((tmp_path / "boardprof" / "running").iterdir()) == []
