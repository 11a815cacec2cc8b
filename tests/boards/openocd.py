# SPDX-License-Identifier: Apache-2.0
"""The real OpenOCD without a debug probe: its server runs, a script stands for what it reads."""

from __future__ import annotations

import re
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support import requires_tool

SCRIPTS = Path(__file__).parent / "fixtures" / "openocd"

_SERVERS = ("tcl", "telnet")
_LISTENING = re.compile(r"Listening on port (\d+) for (\w+) connections")


@contextmanager
def openocd(*commands: str) -> Iterator[dict[str, str]]:
    """Start OpenOCD with its dummy adapter; yields the address of each server by its name.

    Args:
        commands: Tcl that it runs first.
    """
    ports = ["gdb_port disabled", "tcl_port 0", "telnet_port 0", "noinit"]
    words = ["adapter driver dummy", "adapter speed 1000", *ports, *commands]
    tool = requires_tool("openocd", "openocd")
    with tempfile.TemporaryDirectory() as folder:
        script, log = Path(folder) / "openocd.cfg", Path(folder) / "log"
        script.write_text("\n".join(words))
        with (
            log.open("w") as printed,
            subprocess.Popen([tool, "-f", script], stdout=printed, stderr=printed) as process,
        ):
            try:
                yield _servers(process, log)
            finally:
                process.kill()


def _servers(process: subprocess.Popen[bytes], log: Path) -> dict[str, str]:
    deadline_s = time.monotonic() + 20.0
    while True:
        printed = log.read_text()
        found = {name: f"localhost:{port}" for port, name in _LISTENING.findall(printed)}
        if found.keys() >= {*_SERVERS}:
            return found
        assert process.poll() is None, printed
        assert time.monotonic() < deadline_s, printed
        time.sleep(0.01)


def asked(address: str, script: str) -> str:
    """Return what OpenOCD's Tcl server answers."""
    host, _, port = address.partition(":")
    with socket.create_connection((host, int(port)), 5.0) as line:
        line.sendall(script.encode() + b"\x1a")
        answer = b""
        while not answer.endswith(b"\x1a"):
            part = line.recv(65536)
            assert part, answer
            answer += part
    return answer[:-1].decode()


def tcl_list(values: Sequence[int]) -> str:
    """Return a Tcl list of numbers."""
    return f"{{{' '.join(map(hex, values))}}}"
