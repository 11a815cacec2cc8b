# SPDX-License-Identifier: Apache-2.0
"""Boards through ssh, with a real ssh server on loopback and its own keys.

The images for other machines run there under QEMU's user emulation, as nothing else here can run
them. So do their agents that listen on TCP.
"""

from __future__ import annotations

import os
import platform
import pwd
import re
import shlex
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest

from boardprof.base.errors import AuthenticationError, BoardError, UsageError
from boardprof.measure.connect import Firmware, build, connect
from boardprof.wire.transport.ssh import connect_ssh
from tests.boards.conftest import available
from tests.cli.command import boardprof
from tests.support import requires_tool

CRC32 = Path(__file__).parents[2] / "examples" / "workloads" / "crc32.c"
EMULATORS = {
    "linux-arm64": "qemu-aarch64 -cpu cortex-a57",
    "linux-armhf": "qemu-arm -cpu cortex-a15",
    "linux-riscv64": "qemu-riscv64",
}
KEY = b"a key of at least sixteen bytes"
NO_PERF = "this kernel has no perf_event_open"


@dataclass(frozen=True)
class Server:
    """A running ssh server, and where it keeps things."""

    port: str  # without a path
    folder: Path
    temporary: Path  # TMPDIR of what it runs


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("ssh")
    temporary = folder / "tmp"
    temporary.mkdir()
    sshd = next((p for p in ("/usr/sbin/sshd", "/usr/bin/sshd") if Path(p).exists()), None)
    sshd = sshd or requires_tool("sshd", "openssh-server")
    ssh = requires_tool("ssh", "openssh-client")
    for name in ("host", "user"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(command, check=True, timeout=30)
    with socket.create_server(("127.0.0.1", 0)) as free:
        number = free.getsockname()[1]
    (folder / "authorized").write_bytes((folder / "user.pub").read_bytes())
    (folder / "known").write_text(
        f"[127.0.0.1]:{number} {(folder / 'host.pub').read_text()}", encoding="utf-8"
    )
    (folder / "sshd_config").write_text(
        f"ListenAddress 127.0.0.1:{number}\nHostKey {folder}/host\nPidFile none\n"
        f"AuthorizedKeysFile {folder}/authorized\nStrictModes no\nUsePAM no\n"
        "PasswordAuthentication no\nKbdInteractiveAuthentication no\n"
        f"SetEnv TMPDIR={temporary} PATH={os.environ['PATH']}\n",
        encoding="utf-8",
    )
    (folder / "ssh_config").write_text(
        f"IdentityFile {folder}/user\nIdentitiesOnly yes\nUserKnownHostsFile {folder}/known\n"
        "GlobalKnownHostsFile /dev/null\n",
        encoding="utf-8",
    )
    programs = folder / "bin"
    programs.mkdir()
    (programs / "ssh").write_text(f'#!/bin/sh\nexec {ssh} -F {folder}/ssh_config "$@"\n')
    (programs / "ssh").chmod(0o755)
    Path("/run/sshd").mkdir(exist_ok=True)  # the server's empty folder, which its service makes
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sshd, "-D", "-e", "-f", str(folder / "sshd_config")], stdout=log, stderr=log
        )
    try:
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", number), 1).close()
                break
            except OSError:
                assert process.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.05)
        yield Server(f"ssh://127.0.0.1:{number}", folder, temporary)
    finally:
        process.terminate()
        process.wait(10)


@pytest.fixture(autouse=True)
def with_keys(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{server.folder / 'bin'}:{os.environ['PATH']}")


@pytest.fixture(scope="module", params=EMULATORS)
def other(request: pytest.FixtureRequest) -> Firmware:
    """An image for another machine with Linux."""
    emulator = EMULATORS[request.param].partition(" ")[0]
    requires_tool(emulator, "qemu-user")
    available(request.param)
    return build(CRC32, board=request.param)


def test_the_image_is_copied_started_and_removed(server: Server, other: Firmware) -> None:
    command = EMULATORS[other.board.name]
    emulator = command.partition(" ")[0]
    with other.open(f"{server.port}?run={quote(command)}") as board:
        assert list(server.temporary.iterdir()) == []
        assert board.device.clock_kind == "simulated"
        assert board.device.clock_reason == f"{emulator} runs at its port"
        lacking = {each.name: each.reason for each in board.metrics()}
        assert lacking["cycles"] == f"{emulator} has no cycle model"
        assert lacking["instructions"] == NO_PERF
        board.functions.crc32()
        with pytest.raises(UsageError, match=f"does not support cycles: {emulator} has no cycle"):
            board.profile("crc32", metrics=["cycles"])
        with pytest.raises(UsageError, match=f"does not count instructions: perf: {NO_PERF}"):
            board.profile("crc32", metrics=["instructions"])


def test_the_report_has_the_cpu_of_the_machine_behind_ssh(server: Server, other: Firmware) -> None:
    cores = Path("/proc/cpuinfo").read_text()
    name = re.search(r"(?m)^model name\s*: (.*)$", cores)
    with build(CRC32, board="linux").open(server.port) as board:
        here = board.device.cpu
    assert here.startswith(f"{platform.machine()}, ")
    assert name is None or name[1] in here
    with build(CRC32, board="linux").open() as board:
        assert board.device.cpu == here
    with other.open(f"{server.port}?run={quote(EMULATORS[other.board.name])}") as board:
        assert board.device.cpu == ""


def test_an_agent_that_already_runs_on_another_machine_asks_for_the_key(
    other: Firmware, tmp_path: Path
) -> None:
    """A static program brings all that a key needs."""
    keys = tmp_path / "key", tmp_path / "wrong"
    for path, content in zip(keys, (KEY, KEY[::-1]), strict=True):
        path.write_bytes(content)
        path.chmod(0o600)
    command = [*shlex.split(EMULATORS[other.board.name]), str(other.image)]
    command += ["--listen", "127.0.0.1:0", "--key-file", str(keys[0])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as agent:
        assert agent.stdout is not None
        try:
            port = agent.stdout.readline().removeprefix("listening on ").strip()
            with other.open(port, key_file=keys[0]) as board:
                assert board.functions.crc32() is None
            with pytest.raises(AuthenticationError, match="key"):
                other.open(port, key_file=keys[1])
            with pytest.raises(AuthenticationError, match="key"):
                other.open(port)
        finally:
            agent.kill()


def test_the_program_of_this_machine_is_measured_through_ssh_pinned_to_a_core(
    server: Server,
) -> None:
    requires_tool("taskset", "util-linux")
    core = min(os.sched_getaffinity(0))
    run = quote(f"taskset -c {core}")
    done = boardprof(
        *("run", "-q", "-b", "linux", "-p", f"{server.port}?run={run}", f"{CRC32}:crc32"),
        *("--repeat", "2"),
    )
    assert (done.code, done.err) == (0, "")
    assert "\ncrc32 " in done.out
    assert list(server.temporary.iterdir()) == []


def test_doctor_proves_a_machine_by_functions_that_it_copies_there(server: Server) -> None:
    done = boardprof("doctor", "-b", "linux", "-p", server.port, timeout_s=120)
    assert done.code == 0, done.err
    subjects = {line.partition(" ")[0] for line in done.out.splitlines()}
    assert {"frequency", "core", "interrupts", "perf"} <= subjects
    assert "proof_rounds" not in done.out


def test_an_agent_that_is_there_is_run_at_its_path(server: Server) -> None:
    image = build(CRC32, board="linux").image
    from_home = os.path.relpath(image, pwd.getpwuid(os.getuid()).pw_dir)
    for path in (image, f"/~/{from_home}"):
        with connect("linux", f"{server.port}{path}") as board:
            assert board.functions.crc32 is not None
            with pytest.raises(UsageError, match="nothing can record its calls") as caught:
                board.hotspots("crc32")
            assert caught.value.hint == (
                "give sampled=True, or leave out the port to start an emulator"
            )


def test_an_image_for_another_machine_is_an_error_with_both_machines(server: Server) -> None:
    """If Linux is set up to run it by QEMU, it runs."""
    if list(Path("/proc/sys/fs/binfmt_misc").glob("qemu-aarch64")):
        pytest.skip("this Linux runs programs of AArch64 by QEMU")
    available("linux-arm64")
    with pytest.raises(
        BoardError, match=r"Exec format error.* It is x86_64, the image for aarch64"
    ) as caught:
        build(CRC32, board="linux-arm64").open(server.port)
    assert caught.value.hint == "take a board for that machine: boardprof boards lists them"
    assert list(server.temporary.iterdir()) == []


def test_a_short_limit_for_calls_is_not_one_for_the_login(server: Server) -> None:
    late = quote("sh -c 'sleep 0.5; exec \"$@\"' late")
    with build(CRC32, board="linux").open(f"{server.port}?run={late}", timeout_s=0.1) as board:
        assert board.session.asked_s == (0.1, None)


def test_a_machine_that_cannot_keep_the_image_is_not_told_to_look_at_its_keys(
    server: Server,
) -> None:
    image = build(CRC32, board="linux").image
    server.temporary.rmdir()
    try:
        with pytest.raises(BoardError, match="No such file or directory") as caught:
            connect_ssh(server.port, 5.0, image)
    finally:
        server.temporary.mkdir()
    megabytes = f"{image.stat().st_size / 1e6:.1f} MB"
    assert caught.value.hint == (
        f"the folder for temporary files there (TMPDIR, or /tmp) needs {megabytes} and must not be "
        "mounted with noexec; ssh://USER@HOST/PATH-OF-AGENT runs an agent that you have copied "
        "yourself"
    )


def test_without_an_image_there_is_nothing_to_run(server: Server) -> None:
    with pytest.raises(UsageError, match="has no agent to run"):
        connect_ssh(server.port, 5.0)


def test_a_host_whose_key_is_unknown_is_an_error_and_no_question(
    server: Server, tmp_path: Path
) -> None:
    known = server.folder / "known"
    kept = known.read_bytes()
    known.write_bytes(b"")
    try:
        with pytest.raises(BoardError, match="Host key verification failed"):
            connect("linux", server.port)
    finally:
        known.write_bytes(kept)


def test_a_login_that_is_refused_is_an_error_and_no_question(server: Server) -> None:
    authorized = server.folder / "authorized"
    kept = authorized.read_bytes()
    authorized.write_bytes(b"")
    try:
        with pytest.raises(BoardError, match="Permission denied"):
            connect("linux", server.port)
    finally:
        authorized.write_bytes(kept)
