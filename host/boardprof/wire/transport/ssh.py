# SPDX-License-Identifier: Apache-2.0
"""An agent on another Linux machine, run by ssh over its own channel: no port is open there."""

from __future__ import annotations

import contextlib
import math
import shlex
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from typing import IO
from urllib.parse import unquote, urlsplit

from boardprof.base.errors import BoardError, MissingToolError, UsageError
from boardprof.wire.transport.base import DescriptorTransport

SCHEME = "ssh://"

_FORM = "ssh://USER@HOST/PATH-OF-AGENT; /~/ begins a path in the home folder"
_FIRST_LINE = b"listening on standard input\n"
_MOST_BEFORE = 1 << 16
_END_S = 3.0


@dataclass(frozen=True)
class SshAgent:
    """An agent's program on another machine."""

    host: str  # with the user if one is given
    number: int | None  # TCP port of its ssh server; None for ssh's own configuration
    program: str  # path of the agent there

    def command(self, timeout_s: float) -> list[str]:
        """Return the command that runs it. ssh asks nothing: it uses keys, or fails."""
        options = ["-T", "-oBatchMode=yes", f"-oConnectTimeout={math.ceil(timeout_s)}"]
        options += [] if self.number is None else ["-p", f"{self.number}"]
        return ["ssh", *options, "--", self.host, f"exec {shlex.quote(self.program)} --stdio"]


def parse_ssh_url(port: str) -> SshAgent:
    """Take ``ssh://[USER@]HOST[:PORT]/PATH`` apart."""
    try:
        url = urlsplit(port)
        number = url.port
    except ValueError as error:
        raise UsageError(f"{port!r} is not a port: {error}.", hint=_FORM) from error
    path = unquote(url.path)
    program = path.removeprefix("/~/")
    if not url.hostname or not program.strip("/") or url.query or url.password or "\0" in path:
        raise UsageError(f"{port!r} is not a port.", hint=_FORM)
    host = f"{url.username}@{url.hostname}" if url.username else url.hostname
    return SshAgent(host, number, program)


def connect_ssh(port: str, timeout_s: float) -> DescriptorTransport:
    """Run an agent through ssh. It ends when the transport is closed, or the connection breaks."""
    agent = parse_ssh_url(port)
    ours, theirs = socket.socketpair()
    errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the transport)
    try:
        end = theirs.fileno()
        child = subprocess.Popen(agent.command(timeout_s), stdin=end, stdout=end, stderr=errors)
    except OSError as error:
        ours.close()
        errors.close()
        raise MissingToolError("ssh", "openssh-client") from error
    finally:
        theirs.close()

    def close() -> None:
        ours.close()
        child.terminate()
        try:
            child.wait(_END_S)
        except subprocess.TimeoutExpired:
            child.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):  # the kernel may still hold it
                child.wait(_END_S)
        errors.close()

    try:
        _await_agent(ours, port, timeout_s, errors)
    except BaseException:
        close()
        raise
    return DescriptorTransport(
        ours.fileno(),
        port,
        close,
        explain_loss=lambda: _text_of(errors),
        has_ended=lambda: child.poll() is not None,
        printed=lambda: _text_of(errors),
    )


def _await_agent(line: socket.socket, port: str, timeout_s: float, errors: IO[bytes]) -> None:
    """Wait for the agent's first line; a shell may print something before it."""
    deadline, seen = time.monotonic() + timeout_s, b""
    while not seen.endswith(_FIRST_LINE):
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise BoardError(
                f"No board at {port}: no agent has started within {timeout_s:g} s.",
                hint="check that the program is an agent that knows --stdio, and that ssh is quick",
            )
        line.settimeout(left_s)
        try:
            byte = line.recv(1)  # what follows belongs to the session
        except TimeoutError:
            continue
        seen = (seen + byte)[-_MOST_BEFORE:]
        if not byte:
            why = _text_of(errors) or "ssh ended without a message"
            raise BoardError(
                f"No board at {port}: {why}",
                hint="try ssh alone with this host; `boardprof build` builds an agent",
            )


def _text_of(file: IO[bytes]) -> str:
    if file.closed:
        return ""
    file.seek(0)
    return file.read(_MOST_BEFORE).decode(errors="replace").strip()
