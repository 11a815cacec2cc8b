# SPDX-License-Identifier: Apache-2.0
"""Who can connect to a fleet: the user who started it, and nobody else."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from boardprof.base.errors import BoardError, UsageError
from boardprof.jobs.fleet import Fleet, Job
from boardprof.jobs.fleet.dask_worker import (
    check_address,
    host_and_port,
    run_scheduler,
    security_of,
)
from tests.fleet.cluster import Cluster, certified, cluster, until
from tests.fleet.stand_in import nap
from tests.support import ROOT

LOOPBACK = {"0100007F", "00000000000000000000000001000000"}
"""127.0.0.1 and ::1 in hexadecimal, as proc_net_tcp(5) has them: words of the machine's order."""

# -- addresses ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "told"),
    [
        ("", '""'),
        (" ", '" "'),
        ("0", "0"),
        ("0.0.0.0", "0.0.0.0"),
        ("*", "*"),
        ("::", "::"),
        ("[::]", "[::]"),
        ("::ffff:0.0.0.0", "::ffff:0.0.0.0"),
        ("10.0.0.7", "10.0.0.7"),
        ("no-such-name.invalid", "no-such-name.invalid"),
    ],
)
def test_a_scheduler_that_others_could_reach_needs_a_certificate(host: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        run_scheduler(host, 0, 30.0, print)
    assert caught.value.message.startswith(f"A scheduler at {told} needs TLS, and this machine")


def test_a_name_of_the_loopback_and_of_another_address_needs_a_certificate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Names are in files of the system; here, one has a second address."""
    named = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, 0)) for each in ("127.0.0.1", "::")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: named)
    with pytest.raises(UsageError, match="A scheduler at lab needs TLS"):
        run_scheduler("lab", 0, 30.0, print)


@pytest.mark.parametrize("host", ["tcp://127.0.0.1", "127.0.0.1:8786", "a b", "[::1", "::1::"])
def test_an_address_to_listen_at_has_neither_scheme_nor_port(host: str) -> None:
    with pytest.raises(UsageError, match="is not an address to listen at"):
        run_scheduler(host, 0, 30.0, print)


def test_an_empty_host_on_the_command_line_is_an_error_of_usage() -> None:
    command = [sys.executable, "-m", "boardprof", "fleet", "scheduler", "--host", "", "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith('error: A scheduler at "" needs TLS')


@pytest.mark.parametrize("address", ["tcp://10.0.0.7:8786", "tcp://lab.invalid:8786"])
def test_an_address_of_another_machine_is_for_tls(address: str) -> None:
    with pytest.raises(UsageError, match="would not be encrypted"):
        check_address(address)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("tcp://127.0.0.1:8786", "tls://127.0.0.1:8786"),
        ("tcp://[::1]:8786", "tls://[::1]:8786"),
        ("tls://lab.invalid:8786", "tls://lab.invalid:8786"),
    ],
)
def test_a_connection_on_this_machine_uses_tls_too(address: str, expected: str) -> None:
    assert check_address(address) == expected


@pytest.mark.parametrize(
    "address",
    [
        "",
        "lab:8786",
        "http://lab:8786",
        "tls://",
        "tls://lab",
        "tls://lab:",
        "tls://lab:0",
        "tls://lab:65536",
        "tls://lab:x",
        "tls://::1:8786",
        "tls://[::1",
        "tls://[lab]:8786",
        "tls://lab:8786/x",
        "tls://127.0.0.1@lab:8786",
    ],
)
def test_an_address_has_a_scheme_a_host_and_a_port(address: str) -> None:
    with pytest.raises(UsageError, match="is not the address of a scheduler"):
        host_and_port(address)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("tls://127.0.0.1:1", ("127.0.0.1", 1)),
        ("tls://lab-2.example:8786", ("lab-2.example", 8786)),
        ("tls://[::1]:65535", ("::1", 65535)),
        ("tls://[fe80::1%eth0]:8786", ("fe80::1%eth0", 8786)),
    ],
)
def test_an_address_with_tls_has_a_host_and_a_port(address: str, expected: tuple[str, int]) -> None:
    assert host_and_port(address) == expected


@pytest.mark.slow
@pytest.mark.parametrize("host", ["::1", "localhost"])
def test_a_fleet_at_another_name_of_this_machine_runs_jobs(tmp_path: Path, host: str) -> None:
    with cluster(tmp_path, host=host) as made:
        made.worker("ant", "linux=127.0.0.1:9#a")
        made.await_workers("ant")
        (result,) = Fleet(made.address, perform=nap).map([Job("f.c", "a")])
        assert (result.state, result.errors) == ("done", ())
        for name in ("scheduler", "ant"):
            assert {address for address, _ in listeners(made, name)} <= LOOPBACK


# -- the key ------------------------------------------------------------------------------------


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder for settings that other users can enter."""
    folder = Path(tempfile.mkdtemp(prefix="boardprof-tests-"))
    (folder / "boardprof").mkdir()
    for each in (folder, folder / "boardprof"):
        each.chmod(0o755)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    yield folder
    shutil.rmtree(folder)


def own() -> str:
    """Return the key that programs of this user use on this machine."""
    return str(security_of("client", "127.0.0.1", "tls://127.0.0.1:1").tls_client_key)


def test_programs_that_start_at_the_same_time_have_the_same_key(settings: Path) -> None:
    with ThreadPoolExecutor(8) as programs:
        keys = set(programs.map(lambda _: own(), range(8)))
    assert keys == {(settings / "boardprof/fleet.pem").read_text() + "\n"}
    assert [each.name for each in (settings / "boardprof").iterdir()] == ["fleet.pem"]


def test_only_its_user_can_read_the_key(settings: Path) -> None:
    own()
    status = (settings / "boardprof/fleet.pem").stat()
    assert (stat.S_IMODE(status.st_mode), status.st_uid) == (0o600, os.geteuid())


def test_a_key_that_others_can_read_is_refused(settings: Path) -> None:
    own()
    (settings / "boardprof/fleet.pem").chmod(0o640)
    with pytest.raises(UsageError, match="another user owns it or may read it"):
        own()


def test_a_key_of_another_user_is_refused(settings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own()
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    with pytest.raises(UsageError, match="another user owns it or may read it"):
        own()


@pytest.mark.parametrize("content", ["", "no key\n"])
def test_a_damaged_key_is_an_error_that_names_its_file(settings: Path, content: str) -> None:
    file = settings / "boardprof/fleet.pem"
    file.write_text(content)
    file.chmod(0o600)
    with pytest.raises(UsageError, match=r"fleet\.pem cannot be used"):
        own()


def test_a_folder_that_cannot_have_the_key_is_an_error(settings: Path) -> None:
    (settings / "boardprof").rmdir()
    (settings / "boardprof").write_text("")
    with pytest.raises(UsageError, match=r"fleet\.pem cannot be written") as caught:
        own()
    assert caught.value.hint == "set XDG_CONFIG_HOME to a folder of your own"


# -- strangers ----------------------------------------------------------------------------------


def listeners(made: Cluster, name: str) -> list[tuple[str, int]]:
    """Return where a process listens: hexadecimal addresses, and ports (proc_net_tcp(5))."""
    folder = Path(f"/proc/{made.process(name).pid}/fd")
    links = [os.readlink(link) for link in folder.iterdir()]
    tables = [Path("/proc/net", table).read_text().splitlines()[1:] for table in ("tcp", "tcp6")]
    listening = "0A"
    found = []
    for row in (line.split() for table in tables for line in table):
        if row[3] == listening and f"socket:[{row[9]}]" in links:
            address, _, port = row[1].partition(":")
            found.append((address, int(port, 16)))
    return found


# Modules are imported before the user changes, who may not be allowed to read them.
STRANGER = """
import asyncio, os, ssl, sys
import distributed, distributed.comm.tcp, distributed.http
user, file, *ports = sys.argv[1:]
given = sys.stdin.read()
others = distributed.Security.temporary()
names = [name for name in distributed.Security.__slots__ if name.startswith("tls_") and
    name.endswith(("file", "key", "cert"))]
own = distributed.Security(require_encryption=True, **dict.fromkeys(names, given)) if given else 0
if user != "same":
    os.setgroups([])
    os.setgid(int(user))
    os.setuid(int(user))
async def asked(what, port, scheme, security):
    arguments = security.get_connection_args("client")
    try:
        comm = await distributed.comm.connect(f"{scheme}://127.0.0.1:{port}", 4, **arguments)
        await comm.write({"op": "identity", "reply": True})
        print(what, (await asyncio.wait_for(comm.read(), 4))["type"])
    except Exception as error:
        print(what, "refused")
async def main():
    asks = []
    for port in ports:
        asks.append(asked("plain", port, "tcp", distributed.Security()))
        asks.append(asked("another key", port, "tls", others))
        if own:
            asks.append(asked("the key", port, "tls", own))
    await asyncio.gather(*asks)
asyncio.run(main())
try:
    print("file", len(open(file).read()) > 0)
except OSError as error:
    print("file", error.strerror)
"""


def stranger(ports: list[int], file: Path, key: str) -> list[str]:
    """Ask at the ports as another user, or as this one if only root can be another one."""
    user = "65534" if os.geteuid() == 0 else "same"
    done = subprocess.run(
        [sys.executable, "-c", STRANGER, user, str(file), *map(str, ports)],
        input=key,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=ROOT,
    )
    return sorted(done.stdout.splitlines())


@pytest.mark.slow
def test_a_stranger_on_this_machine_cannot_use_scheduler_and_worker(
    tmp_path: Path, settings: Path
) -> None:
    """With the key a stranger could; so what is refused is refused because the key is missing."""
    with cluster(tmp_path) as made:
        made.worker("ant", "native")
        made.await_workers("ant")
        places = [place for name in ("scheduler", "ant") for place in listeners(made, name)]
        assert [address for address, _ in places] == ["0100007F"] * 2, "one port for each program"
        file = settings / "boardprof/fleet.pem"
        told = stranger([port for _, port in places], file, file.read_text())
    readable = "Permission denied" if os.geteuid() == 0 else "True"
    assert told == [
        "another key refused",
        "another key refused",
        f"file {readable}",
        "plain refused",
        "plain refused",
        "the key Scheduler",
        "the key Worker",
    ]


@pytest.mark.slow
def test_client_and_worker_with_another_key_say_why_they_cannot_connect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They must not trust a stranger's scheduler either: they would run what it sends."""
    with cluster(tmp_path) as made:
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
        made.worker("ant", "native")
        with pytest.raises(BoardError, match="certificate does not match"):
            Fleet(made.address, perform=nap).map([Job("f.c", "a")])
        told = f"ant cannot connect to {made.address}: TLS certificate does not match"
        until(lambda: told in made.said("ant"), "the worker's note")


@pytest.mark.slow
def test_with_certificates_of_an_authority_only_their_holders_can_connect(tmp_path: Path) -> None:
    """dask's settings name them; the key of the user is not used then."""
    own = certified(tmp_path, "own")
    with cluster(tmp_path, own) as made:
        made.worker("ant", "native")
        made.await_workers("ant")
        command = [sys.executable, "-m", "boardprof", "fleet", "status", "--scheduler"]
        for variables, code, words in (
            (own, 0, "native ant:native.0: free"),
            (certified(tmp_path, "others"), 3, "cannot be reached: TLS certificate does not match"),
            ({}, 3, "cannot be reached: TLS certificate does not match"),
        ):
            done = subprocess.run(
                [*command, made.address],
                env={**os.environ, **variables},
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert (done.returncode, words in done.stdout + done.stderr) == (code, True), done
