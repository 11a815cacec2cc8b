# SPDX-License-Identifier: Apache-2.0
"""A scheduler and workers of ``boardprof`` in processes of their own, on loopback."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.fleet.network import LAB, Network
from tests.support import ROOT, requires_tool, run

DEADLINE_S = 60.0


def until(is_so: Callable[[], object], what: str, timeout_s: float = DEADLINE_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < deadline, f"{what} did not happen within {timeout_s:g} s"
        time.sleep(0.05)


class Cluster:
    """Processes by name; all of them end with the test.

    Attributes:
        address: of the scheduler.
        network: of the hosts. None if all are on the loopback.
    """

    def __init__(
        self, folder: Path, variables: Mapping[str, str], network: Network | None, host: str
    ) -> None:
        self._folder, self._variables, self.network = folder, variables, network
        self._host = host if network is None else LAB
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.address = ""

    def open(self) -> None:
        """Start the scheduler; again at the same address if it has ended."""
        port = self.address.rpartition(":")[2] or "0"
        options = ("--host", self._host, "--port", port, "--silence", "5s")
        self.start("scheduler", "fleet", "scheduler", *options)
        until(lambda: "scheduler at" in self.said("scheduler"), "the scheduler's start")
        found = re.search(r"tls://\S+:\d+", self.said("scheduler"))
        assert found is not None
        self.address = found[0]

    def start(self, name: str, *words: str, host: str = "lab") -> subprocess.Popen[bytes]:
        """Start a ``boardprof`` with a home and a cache of its own."""
        home = self._folder / name
        home.mkdir(exist_ok=True)
        own = {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
        (self._folder / f"{name}.log").unlink(missing_ok=True)
        return self.start_program(name, ["-m", "boardprof", *words], home, own, host)

    def start_program(
        self,
        name: str,
        words: Sequence[str],
        folder: Path,
        variables: Mapping[str, str] | None = None,
        host: str = "lab",
    ) -> subprocess.Popen[bytes]:
        """Start Python on a host; what it prints is added to its log."""
        environment = {
            **os.environ,
            **(variables or {}),
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            **self._variables,
        }
        place = [] if self.network is None else self.network.inside(host)
        with (self._folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [*place, sys.executable, *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=folder,
                start_new_session=True,
            )
        self._processes[name] = process
        return process

    def process(self, name: str) -> subprocess.Popen[bytes]:
        """Return what was started with this name."""
        return self._processes[name]

    def worker(self, name: str, *boards: str) -> subprocess.Popen[bytes]:
        """Start a worker; it may take a second until it is connected."""
        options = [word for board in boards for word in ("-b", board)]
        return self.start(name, "worker", self.address, "--name", name, *options, host=name)

    def await_workers(self, *names: str) -> None:
        for name in names:
            until(lambda name=name: " serves " in self.said(name), f"the start of {name}")  # type: ignore[misc]

    def status(self) -> str:
        """Return what ``boardprof fleet status`` prints; workers report twice a second."""
        command = [sys.executable, "-m", "boardprof", "fleet", "status", "--scheduler"]
        return run([*command, self.address])

    def said(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text(errors="replace")

    def close(self) -> None:
        for process in self._processes.values():
            process.send_signal(signal.SIGCONT)  # a test may have stopped it
            process.terminate()
        for process in self._processes.values():
            try:
                process.wait(10.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10.0)


@contextmanager
def cluster(
    folder: Path,
    variables: Mapping[str, str] | None = None,
    network: Network | None = None,
    host: str = "127.0.0.1",
) -> Iterator[Cluster]:
    made = Cluster(folder, variables or {}, network, host)
    try:
        made.open()
        yield made
    finally:
        made.close()


def certified(folder: Path, name: str) -> dict[str, str]:
    """Make a certificate that is its own authority; return dask's settings for it."""
    key, certificate = str(folder / f"{name}.key"), str(folder / f"{name}.pem")
    requires_tool("openssl", "openssl")
    options = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=x -days 2"
    run(["openssl", *options.split(), "-keyout", key, "-out", certificate])
    settings = {"CA_FILE": certificate}
    for part in ("SCHEDULER", "WORKER", "CLIENT"):
        settings |= {f"{part}__KEY": key, f"{part}__CERT": certificate}
    return {f"DASK_DISTRIBUTED__COMM__TLS__{name}": value for name, value in settings.items()}
