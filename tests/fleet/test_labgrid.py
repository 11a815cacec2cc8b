# SPDX-License-Identifier: Apache-2.0
"""Leases of places in labgrid: its real coordinator, exporter and command, on loopback."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from boardprof.base.errors import BoardError, BusyError, MissingToolError
from boardprof.jobs.fleet.boards import CLIENT_VARIABLE, FleetBoard, lease
from tests.fleet.cluster import until
from tests.support import ROOT, run

BOARD = FleetBoard("linux", "bench", "labgrid:bench")

RESOURCES = """
lab:
  NetworkSerialPort:
    host: 127.0.0.1
    port: 4321
    protocol: raw
"""

HOLDER = """
import sys, time
from boardprof.jobs.fleet.boards import FleetBoard
from boardprof.jobs.fleet.boards import lease
board = FleetBoard("linux", "bench", "labgrid:bench")
with lease(board, 20.0) as port:
    print(port, flush=True)
    time.sleep(100.0)
"""


def programs() -> Path:
    """Return the folder of labgrid's commands, in an environment of its own, made once."""
    folder = ROOT / "build" / "tests" / "labgrid"
    if not (folder / "bin" / "labgrid-client").exists():
        run([sys.executable, "-m", "venv", folder], timeout_s=400.0)
        run([folder / "bin" / "pip", "install", "-q", "labgrid"], timeout_s=400.0)
    return folder / "bin"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Start labgrid with one place, ``bench``; yield its command for it."""
    folder, home = programs(), tmp_path_factory.mktemp("labgrid")
    at = f"127.0.0.1:{free_port()}"
    (home / "resources.yaml").write_text(RESOURCES)
    words = {
        "labgrid-coordinator": ["-l", at],
        "labgrid-exporter": ["-c", at, "-n", "lab", "--hostname", "127.0.0.1", "resources.yaml"],
    }
    command = [str(folder / "labgrid-client"), "-p", "bench"]
    started = []
    patch = pytest.MonkeyPatch()
    patch.setenv("LG_COORDINATOR", at)
    patch.setenv(CLIENT_VARIABLE, str(folder / "labgrid-client"))
    try:
        for name, options in words.items():
            log = (home / f"{name}.log").open("wb")
            started.append(
                subprocess.Popen([folder / name, *options], stdout=log, stderr=log, cwd=home)
            )
            log.close()
            until(lambda: call([*command[:1], "places"])[0] == 0, "the coordinator's start")
        until(lambda: call([*command[:1], "resources"])[1].strip(), "labgrid's start")
        assert call([*command, "create"])[0] == 0
        assert call([*command, "add-match", "*/lab/*"])[0] == 0
        yield command
    finally:
        patch.undo()
        for process in started:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10.0)
            process.kill()
            process.wait(10.0)


def call(command: list[str]) -> tuple[int, str]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout


def holder(client: list[str]) -> str:
    said = call([*client, "show"])[1]
    return next(line.split()[-1] for line in said.splitlines() if "acquired:" in line)


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_a_place_is_held_within_the_block_and_free_after_it(client: list[str]) -> None:
    assert holder(client) == "None"
    with lease(BOARD, 10.0) as port:
        assert port == "socket://127.0.0.1:4321"
        assert holder(client) != "None"
    assert holder(client) == "None"


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_a_place_is_free_after_its_holder_was_killed(client: list[str]) -> None:
    killed = subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True)
    try:
        assert killed.stdout is not None
        assert killed.stdout.readline() == "socket://127.0.0.1:4321\n"
        assert holder(client) != "None"
    finally:
        killed.kill()
        killed.wait(10.0)
        assert killed.stdout is not None
        killed.stdout.close()
    until(lambda: holder(client) == "None", "the release of the place")


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("user", "named"), [("ana", r"\S+/ana"), (None, "this user on this host")])
def test_a_place_of_another_holder_is_busy_and_stays_his(
    client: list[str], monkeypatch: pytest.MonkeyPatch, user: str | None, named: str
) -> None:
    if user is not None:
        monkeypatch.setenv("LG_USERNAME", user)
    assert call([*client, "acquire"])[0] == 0
    monkeypatch.delenv("LG_USERNAME", raising=False)
    try:
        before = holder(client)
        began_s = time.monotonic()
        with (
            pytest.raises(BusyError, match=f"The place bench has been acquired by {named} for"),
            lease(BOARD, 1.0),
        ):
            pass
        assert time.monotonic() - began_s < 30.0
        assert holder(client) == before
    finally:
        assert call([*client, "release", "--kick"])[0] == 0


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_a_place_that_does_not_exist_is_an_error_with_labgrids_words(client: list[str]) -> None:
    board = FleetBoard("linux", "x", "labgrid:nowhere")
    with pytest.raises(BoardError, match="nowhere"), lease(board, 1.0):
        pass


def test_without_labgrids_command_the_error_says_how_to_name_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(CLIENT_VARIABLE, "no-such-client")
    with pytest.raises(MissingToolError) as caught, lease(BOARD, 1.0):
        pass
    assert "BOARDPROF_LABGRID_CLIENT=/path/to/labgrid-client" in str(caught.value)


def test_the_port_of_a_place_at_an_ipv6_address_has_brackets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command answers as labgrid's ``show`` does for such a host."""
    command = tmp_path / "client"
    command.write_text("#!/bin/sh\necho \"{'host': 'fd00::7', 'port': 4321, 'protocol': 'raw'}\"\n")
    command.chmod(0o755)
    monkeypatch.setenv(CLIENT_VARIABLE, str(command))
    with lease(BOARD, 10.0) as port:
        assert port == "socket://[fd00::7]:4321"
