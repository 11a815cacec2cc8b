# SPDX-License-Identifier: Apache-2.0
"""Hosts with networks of their own: network namespaces behind a bridge, in a user namespace.

Nothing outside can be reached, and no right is needed where the kernel lets users have namespaces.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support import requires_tool, run

LAB = "10.77.0.1"
"""Address of the scheduler's and client's namespace, which has the bridge."""


class Network:
    """The lab's namespace, and one for each host."""

    def __init__(self) -> None:
        self._holders: dict[str, subprocess.Popen[bytes]] = {}

    def open(self, hosts: list[str]) -> None:
        for tool, package in (("ip", "iproute2"), ("unshare", "util-linux")):
            requires_tool(tool, package)
        self._hold("lab", ["unshare", "-r", "-n"])
        self._ip("lab", "link set lo up")
        self._ip("lab", "link add bridge0 type bridge")
        self._ip("lab", f"addr add {LAB}/24 dev bridge0")
        self._ip("lab", "link set bridge0 up")
        for host in hosts:
            self._hold(host, [*self.inside("lab"), "unshare", "-n"])
            self._ip(host, "link set lo up")
            self.connect(host)

    def inside(self, host: str) -> list[str]:
        """Return the beginning of a command that runs in the namespace of a host, or ``lab``."""
        process = str(self._holders[host].pid)
        return ["nsenter", "-t", process, "-U", "-n", "--preserve-credentials"]

    def connect(self, host: str) -> None:
        """Give a host its link, at the same address each time."""
        process, number = self._holders[host].pid, list(self._holders).index(host) + 1
        self._ip("lab", f"link add to-{host} type veth peer name up0 netns {process}")
        self._ip("lab", f"link set to-{host} master bridge0 up")
        self._ip(host, f"addr add 10.77.0.{number}/24 dev up0")
        self._ip(host, "link set up0 up")

    def cut(self, host: str) -> None:
        """Remove the link of a host: nothing is closed, and nobody answers."""
        self._ip("lab", f"link del to-{host}")

    def close(self) -> None:
        for holder in self._holders.values():
            holder.kill()
            holder.wait(10.0)

    def _hold(self, name: str, command: list[str]) -> None:
        """Start a process that keeps a new namespace, as long as this process lives."""
        words = [
            "setpriv",
            "--pdeathsig",
            "KILL",
            *command,
            "sh",
            "-c",
            "echo; exec sleep infinity",
        ]
        holder = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        self._holders[name] = holder
        assert holder.stdout is not None
        with holder.stdout:
            assert holder.stdout.readline(), f"no namespace for {name}: see unshare(1)"

    def _ip(self, host: str, words: str) -> None:
        run([*self.inside(host), "ip", *words.split()])


@contextmanager
def network(hosts: list[str]) -> Iterator[Network]:
    made = Network()
    try:
        made.open(hosts)
        yield made
    finally:
        made.close()
