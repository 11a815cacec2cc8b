# SPDX-License-Identifier: Apache-2.0
"""An agent that ssh runs on another machine: no port is open there, and no file is left."""

from __future__ import annotations

import math
import shlex
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from boardprof.base.errors import BoardError, MissingToolError, UsageError
from boardprof.base.processes import cpu_in
from boardprof.wire.transport.base import DescriptorTransport
from boardprof.wire.transport.child import end_child, printed_to

_FORM = (
    "ssh://USER@HOST starts the image there; ssh://USER@HOST/PATH-OF-AGENT runs an agent that is "
    "there, and /~/ begins a path in the home folder; ?run=PROGRAM starts it by another program"
)
_HINT = (
    "try ssh alone with this host: it must know the host and log in with a key, as ssh-copy-id "
    "sets up; without ?run, a program at the port's path must know --stdio"
)
_HINT_COPY = (
    "the folder for temporary files there (TMPDIR, or /tmp) needs {size:.1f} MB and must not be "
    "mounted with noexec; ssh://USER@HOST/PATH-OF-AGENT runs an agent that you have copied yourself"
)
_MACHINE = b"boardprof-machine "
_LISTENS = b"listening on standard input"
_MOST_BEFORE = 1 << 16
_LOGIN_S = 30.0  # a small machine takes seconds, and longer if it looks up the host's name
_CHUNK = 1 << 16
_CPUINFO = 4000  # bytes, enough for all cores of a small machine

_MACHINES = {
    40: ("armv6l", "armv7l", "armv8l", "aarch64"),
    62: ("x86_64",),
    183: ("aarch64",),
    243: ("riscv64",),
}
"""What ``uname -m`` prints where an image runs, by the e_machine of its ELF header (elf(5))."""

# The file is removed before it runs: whatever ends the connection later, nothing is left. The host
# waits for the agent's first line, so head may read ahead.
_START = """\
echo "boardprof-machine $(uname -m) $(head -c {cpuinfo} /proc/cpuinfo 2>/dev/null | tr '\\n' '|')"
umask 077
folder=$(mktemp -d "${{TMPDIR:-/tmp}}/boardprof.XXXXXXXX") || exit
trap 'rm -rf "$folder"' EXIT
head -c {size} >"$folder/agent" && chmod 500 "$folder/agent" && exec 9<"$folder/agent" || exit
[ "$(wc -c <"$folder/agent")" -eq {size} ] || exit
rm -rf "$folder"
trap - EXIT
exec {run}/proc/self/fd/9 --stdio
"""


@dataclass(frozen=True)
class SshAgent:
    """An agent's program on another machine."""

    host: str  # with the user if one is given
    number: int | None  # TCP port of its ssh server; None for ssh's own configuration
    program: str  # path of the agent there; "": the image is copied there
    run: tuple[str, ...] = ()  # the program that starts it, such as taskset, with its arguments

    def command(self, timeout_s: float, size: int = 0) -> list[str]:
        """Return the command that runs it, after an image of ``size`` bytes was sent, if any.

        ssh asks nothing: it uses keys, or fails.
        """
        options = ["-T", "-oBatchMode=yes", f"-oConnectTimeout={math.ceil(timeout_s)}"]
        options += [] if self.number is None else ["-p", f"{self.number}"]
        run = "".join(f"{shlex.quote(word)} " for word in self.run)
        script = f"exec {run}{shlex.quote(self.program)} --stdio"
        if not self.program:
            start = _START.format(size=size, run=run, cpuinfo=_CPUINFO)
            script = f"exec sh -c {shlex.quote(start)}"
        return ["ssh", *options, "--", self.host, script]


def parse_ssh_url(port: str) -> SshAgent:
    """Take ``ssh://[USER@]HOST[:PORT][/PATH][?run=PROGRAM]`` apart."""
    try:
        url = urlsplit(port)
        number = url.port
        query = dict(parse_qsl(url.query, strict_parsing=bool(url.query)))
        run = tuple(shlex.split(query.pop("run", "")))
    except ValueError as error:
        raise UsageError(f"{port!r} is not a port: {error}.", hint=_FORM) from error
    path = unquote(url.path)
    program = path if path.strip("/") else ""
    if path.startswith("/~/"):  # ssh begins there; without a slash, a shell would search PATH
        program = "." + path[2:]
    if not url.hostname or path == "/~/" or query or url.password or "\0" in path:
        raise UsageError(f"{port!r} is not a port.", hint=_FORM)
    # urlsplit gives it in lower case, but names in ~/.ssh/config may have capitals.
    at = url.netloc.lower().index(url.hostname, url.netloc.rfind("@") + 1)
    name = url.netloc[at : at + len(url.hostname)]
    host = f"{url.username}@{name}" if url.username else name
    return SshAgent(host, number, program, run)


def takes_image(port: str) -> bool:
    """Return whether a port is a machine to which the image is copied."""
    return port.startswith("ssh://") and not parse_ssh_url(port).program


def connect_ssh(port: str, timeout_s: float, image: Path | None = None) -> DescriptorTransport:
    """Run an agent through ssh. It ends when the transport is closed, or the connection breaks.

    Without a path in the port, ``image`` is copied into a private folder, started and removed.
    """
    agent = parse_ssh_url(port)
    content = b""
    if not agent.program:
        if image is None:
            raise UsageError(f"{port} has no agent to run.", hint="give -b BOARD, or: " + _FORM)
        content = image.read_bytes()
    ours, theirs = socket.socketpair()
    errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the transport)
    try:
        end = theirs.fileno()
        command = agent.command(timeout_s, len(content))
        # A new session: Ctrl-C reaches us, and we end the child.
        child = subprocess.Popen(
            command, stdin=end, stdout=end, stderr=errors, start_new_session=True
        )
    except OSError as error:
        ours.close()
        errors.close()
        raise MissingToolError("ssh", "openssh-client") from error
    finally:
        theirs.close()

    def said() -> str:
        return printed_to(errors)[-_MOST_BEFORE:].replace("\r\n", "\n").strip()

    def close() -> None:
        ours.close()
        end_child(child)
        errors.close()

    try:
        start = _Start(ours, port, max(timeout_s, _LOGIN_S), said)
        commands: tuple[Sequence[str], ...] = (agent.run,) if agent.run else ()
        if content:
            commands += start.send(content)
        start.line_after(_LISTENS)
    except BaseException:
        close()
        raise
    return DescriptorTransport(
        ours,
        port,
        close,
        explain_loss=said,
        has_ended=lambda: child.poll() is not None,
        printed=lambda: printed_to(errors),
        commands=commands,
        cpu=start.cpu,
    )


class _Start:
    """What is said before the session: each step has ``timeout_s``."""

    def __init__(
        self, line: socket.socket, port: str, timeout_s: float, said: Callable[[], str]
    ) -> None:
        self._line = line
        self._port = port
        self._timeout_s = timeout_s
        self._said = said
        self._late = "no agent has started"
        self._other = ""  # another machine than that of the image
        self._hint = _HINT
        self.cpu = ""  # if it runs the image itself

    def send(self, content: bytes) -> tuple[Sequence[str], ...]:
        """Send the image; return the command line of the emulator that must run it, if any."""
        self._late = "ssh has not logged in"
        told = self.line_after(_MACHINE).decode(errors="replace").strip()
        machine, _, cores = told.partition(" ")
        self._late = "the copied agent has not started"
        fits = _MACHINES.get(int.from_bytes(content[18:20], "little"), (machine,))
        self._hint = _HINT_COPY.format(size=len(content) / 1e6)
        if machine not in fits:
            self._other = f" It is {machine}, the image for {fits[0]}."
            self._hint = "take a board for that machine: boardprof boards lists them"
        else:  # the last core may not be whole
            blocks = cores.split("||")
            self.cpu = cpu_in("\n\n".join(blocks[:-1] or blocks).replace("|", "\n"), machine)
        self._line.settimeout(self._timeout_s)
        try:
            for at in range(0, len(content), _CHUNK):
                self._line.sendall(content[at : at + _CHUNK])
        except TimeoutError:
            raise self._error(f"it took no bytes for {self._timeout_s:g} s") from None
        except OSError:
            raise self._error("ssh ended while the image was sent") from None
        return (("qemu-user",),) if self._other else ()

    def line_after(self, mark: bytes) -> bytes:
        """Return the rest of the line with the mark; a shell may print something before it."""
        deadline, seen = time.monotonic() + self._timeout_s, b""
        while mark not in seen or not seen.endswith(b"\n"):
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise self._error(f"{self._late} within {self._timeout_s:g} s")
            self._line.settimeout(left_s)
            try:
                byte = self._line.recv(1)  # what follows belongs to the session
            except TimeoutError:
                continue
            except OSError:
                byte = b""
            seen = (seen + byte)[-_MOST_BEFORE:]
            if not byte:  # a shell that refuses may say so here
                text = seen.decode(errors="replace").strip()
                raise self._error(text or "ssh ended without a message")
        return seen.rpartition(mark)[2]

    def _error(self, why: str) -> BoardError:
        return BoardError(
            f"No board at {self._port}: {(self._said() or why).rstrip('.')}.{self._other}",
            hint=self._hint,
        )
