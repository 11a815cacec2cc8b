# SPDX-License-Identifier: Apache-2.0
"""Starts a PostgreSQL server of Debian's, on a loopback port, in a folder of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

__all__ = ["PASSWORD", "Server", "running_server"]

PASSWORD = "s3cr\N{LATIN SMALL LETTER E WITH ACUTE}t%/@:"
_IN_URL = "s3cr%C3%A9t%25%2F%40%3A"
_OWNER = "lab"
_SETTINGS = ("--auth=scram-sha-256", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")


@dataclass(frozen=True)
class Server:
    """A running server.

    Attributes:
        port: on the loopback.
        pid: of its first process.
    """

    port: int
    pid: int

    def url(self, database: str, user: str = _OWNER, password: str = _IN_URL) -> str:
        """Return the URL of a database; without a password, it is to come from elsewhere."""
        login = f"{user}:{password}" if password else user
        return f"postgresql://{login}@127.0.0.1:{self.port}/{database}"

    def database(self, name: str) -> str:
        """Create an empty database and return its URL."""
        self.execute("postgres", f'CREATE DATABASE "{name}"')
        return self.url(name)

    def execute(self, database: str, statement: str) -> list[tuple[object, ...]]:
        """Execute a statement as the owner; return its rows."""
        with psycopg.connect(self.url(database), autocommit=True, connect_timeout=10) as link:
            found = link.execute(statement)
            return found.fetchall() if found.description else []


def _programs() -> Path:
    """Return the folder of initdb and postgres: Debian keeps them off PATH."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    assert folders, "PostgreSQL is not installed: make setup installs Debian's package postgresql"
    return folders[-1].parent


def _account() -> dict[str, Any]:
    """Return an account that may run a server, as options of Popen: root may not."""
    if os.geteuid() != 0:
        return {}
    user = pwd.getpwnam("postgres")  # from Debian's package
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def running_server() -> Iterator[Server]:
    """Run a server; it ends with the block, and with this process."""
    programs, account = _programs(), _account()
    # Not in pytest's folders, which the server's account may not enter.
    with tempfile.TemporaryDirectory(prefix="boardprof-postgres-") as made:
        folder = Path(made)
        key = folder / "key"
        key.write_text(PASSWORD, encoding="utf-8")
        if account:
            for path in (folder, key):
                os.chown(path, account["user"], account["group"])
        subprocess.run(
            [programs / "initdb", "-D", folder / "data", "-U", _OWNER, "--pwfile", key, *_SETTINGS],
            check=True,
            capture_output=True,
            timeout=120,
            cwd=folder,
            **account,
        )
        for _ in range(5):  # another program may take the port first
            port = _free_port()
            command: list[str | Path] = ["setpriv", "--pdeathsig", "QUIT"]  # with this process
            command += [programs / "postgres", "-D", folder / "data", "-p", str(port)]
            command += ["-h", "127.0.0.1", "-k", folder, "-c", "fsync=off"]
            with (folder / "log").open("wb") as log:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=folder,
                    **account,
                )
            server = Server(port, process.pid)
            try:
                if _answers(server, process):
                    yield server
                    return
            finally:
                _end(process)
        raise AssertionError((folder / "log").read_text())


def _answers(server: Server, process: subprocess.Popen[bytes], timeout_s: float = 60.0) -> bool:
    """Wait until the server answers; return whether it does, or False if it has ended."""
    deadline = time.monotonic() + timeout_s
    while process.poll() is None:
        assert time.monotonic() < deadline, f"the server does not answer within {timeout_s:g} s"
        try:
            server.execute("postgres", "SELECT 1")
        except psycopg.OperationalError:
            time.sleep(0.05)
        else:
            return True
    return False


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGQUIT)  # at once: its data are removed anyway
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(20)
