# SPDX-License-Identifier: Apache-2.0
"""A board that is a child process with its own TCP port: an emulator or a local agent."""

from __future__ import annotations

import contextlib
import os
import queue
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import IO

from boardprof.base.errors import BoardError, BoardTimeoutError, LinkError, MissingToolError
from boardprof.base.files import check_runnable
from boardprof.base.processes import comes_from
from boardprof.wire.transport.base import DescriptorTransport, Transport
from boardprof.wire.transport.keyed import KEY_VARIABLE
from boardprof.wire.transport.qemu_clock import QemuClock
from boardprof.wire.transport.sockets import SCHEME, connect_socket, stream_of

ANNOUNCEMENT = "listening on "
"""The text that a listening agent prints before its address, on a separate line."""

_LAST_PC = r"(?m)\bended at pc 0x([0-9a-f]+)$"
_POLL_S = 0.005
_TERMINATE_S = 2.0
_ENDING_S = 5.0
_KILL_S = 30.0
_START_S = 60.0
_BYTE_S = 0.001
"""An emulator sends the next byte of a frame sooner; what stays out for longer may never come."""
_GUEST_NICE = 5  # leaves a third of the usual share of a processor that others want, too
_FRAME_END = 0
_FRAME_BYTES = 256
"""From here on, bytes are passed on without a frame's end: a board may print for ever."""


_TIE = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""
"""What setpriv does, where it is not installed: PR_SET_PDEATHSIG, SIGKILL (prctl(2))."""

_Child = subprocess.Popen[bytes]
_Answers = queue.SimpleQueue[_Child | BaseException]


class _Spawner:
    """A thread that starts all children of this process, and lives as long as it.

    The kernel ends a child when the thread that started it ends, not the process (prctl(2),
    PR_SET_PDEATHSIG): a child of a worker thread would be killed with the worker.
    """

    def __init__(self) -> None:
        self._wanted: queue.SimpleQueue[tuple[_Answers, Callable[[], _Child]]]
        self._wanted = queue.SimpleQueue()
        threading.Thread(target=self._run, name="boardprof spawner", daemon=True).start()

    def start(self, command: list[str], output: IO[bytes], inherited: list[int]) -> _Child:
        started: _Answers = queue.SimpleQueue()
        self._wanted.put((started, partial(_popen, command, output, inherited)))
        try:
            child = started.get(timeout=_START_S)
        except queue.Empty as error:
            raise BoardError(
                f"{command[0]} did not start within {_START_S:g} s.",
                hint="check whether its file system responds",
            ) from error
        if isinstance(child, BaseException):
            raise child
        return child

    def _run(self) -> None:
        while True:
            started, start = self._wanted.get()
            try:
                started.put(start())
            except BaseException as error:
                started.put(error)
            del started, start  # or the last child would not be let go of until the next one


@cache
def _spawner_of(process: int) -> _Spawner:
    """Return the spawner of this process: a fork has no threads."""
    del process
    return _Spawner()


def _popen(command: list[str], output: IO[bytes], inherited: list[int]) -> _Child:
    # The key is for agents elsewhere: our own child does not ask for one.
    environment = {name: value for name, value in os.environ.items() if name != KEY_VARIABLE}
    # A new session: Ctrl-C reaches us, and we end the child.
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        pass_fds=inherited,
        env=environment,
    )


def _tied_to_us(command: list[str]) -> list[str]:
    """Return the command that has the kernel end the child when we are killed before we can."""
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        return [sys.executable, "-IS", "-c", _TIE, f"{os.getpid()}", *command]
    return [setpriv, "--pdeathsig", "KILL", *command]


class ChildProcess:
    """A running child that does not outlive this process.

    Its output goes to a file, because a full pipe would stop it.
    """

    def __init__(self, command: Sequence[str], package: str | None) -> None:
        """Start ``command``, a program of this Debian package."""
        program = shutil.which(command[0])
        if program is None:
            check_runnable(command[0])
            raise MissingToolError(command[0], package or command[0])
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as we do
        self.clock = QemuClock.of(command)  # None if it has none to ask
        whole = [program, *command[1:], *(self.clock.arguments if self.clock else ())]
        inherited = [self.clock.inherited] if self.clock else []
        try:
            spawner = _spawner_of(os.getpid())
            self._process = spawner.start(_tied_to_us(whole), self._output, inherited)
        finally:
            if self.clock is not None:
                self.clock.started()
        self._finalizer = weakref.finalize(self, _end, self._process, os.getpid())
        self.name = Path(command[0]).name
        self.command = tuple(command)  # what it does, without what is for us alone

    @property
    def process_id(self) -> int:
        """The child's, also after its end."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the child has not ended."""
        return self._process.poll() is None

    def output(self) -> str:
        """Return what the child has printed so far."""
        return printed_to(self._output)

    def explain(self) -> str:
        """Return what the child printed, and how it ended, as lines for an error message."""
        lines = self.output().strip().splitlines()
        printed = "\n".join(line for line in lines if not line.startswith(ANNOUNCEMENT))
        # The line may break before the process has ended: a moment, or seconds on a loaded machine.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDING_S)
        ended = "" if self.running else f"{self.name} ended {_how(self._process.returncode)}."
        return "\n".join(part for part in (ended, printed) if part)

    def board_s(self) -> float | None:
        """Return what `QemuClock.now_s` does; None of other programs."""
        return None if self.clock is None else self.clock.now_s()

    def pc(self) -> int | None:
        """Return what `QemuClock.pc` does; None of other programs."""
        return None if self.clock is None else self.clock.pc()

    def last_pc(self) -> int | None:
        """Return where the board was when its simulator ended, if that says so and ends soon."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_TERMINATE_S)
        told = re.findall(_LAST_PC, self.output())
        return int(told[-1], 16) if told and not self.running else None

    def yield_to_line(self) -> None:
        """Lower the priority of all its threads but the first, which serves QEMU's lines.

        The guest waits for bytes in a loop, and would use up its turn while the thread that brings
        them has no processor. Linux may weigh sessions against each other before it looks at their
        threads (autogroup, sched(7)), so its session is lowered too.
        """
        with contextlib.suppress(OSError):  # it has ended; who reads its line will hear of it
            for thread in map(int, os.listdir(f"/proc/{self._process.pid}/task")):
                if thread != self._process.pid:
                    with contextlib.suppress(OSError):  # this thread has, and others go on
                        nice = os.getpriority(os.PRIO_PROCESS, thread) + _GUEST_NICE
                        os.setpriority(os.PRIO_PROCESS, thread, nice)
            session = Path(f"/proc/{self._process.pid}/autogroup")  # if this Linux has it
            session.write_text(str(_GUEST_NICE), encoding="ascii")

    def pause(self) -> None:
        """Stop the child until `resume`."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let the child go on."""
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End the child and wait for it."""
        self._finalizer()
        self._output.close()
        if self.clock is not None:
            self.clock.close()


def _how(code: int) -> str:
    return f"with code {code}" if code >= 0 else f"by signal {-code} ({signal.strsignal(-code)})"


def printed_to(file: IO[bytes]) -> str:
    """Return what a child has written to a file so far; "" if the file is closed."""
    if file.closed:
        return ""
    # Not seek and read: the position is the child's too, and it would go on writing there.
    descriptor = file.fileno()
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode(errors="replace")


def _end(process: subprocess.Popen[bytes], parent: int) -> None:
    if os.getpid() == parent:  # not a fork of it, which is not the parent of the child
        end_child(process)


def end_child(process: subprocess.Popen[bytes]) -> None:
    """End a process and wait for it, first without force."""
    if process.poll() is None:
        process.terminate()
        process.send_signal(signal.SIGCONT)  # a child that is paused would not hear of it
        try:
            process.wait(_TERMINATE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            # A stalled machine may take seconds; it ends in any case.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_KILL_S)


class EmulatorLine:
    """The line to an emulator, which runs only while we wait for it.

    The agent polls its line and never sleeps, so an emulator would use a whole processor between
    calls. The board does not notice: its time goes by what it executes.
    """

    def __init__(
        self,
        line: DescriptorTransport,
        child: ChildProcess,
        hang_up: Callable[[], object] | None = None,
    ) -> None:
        """Take the open line to ``child``, and pause it; ``hang_up`` ends the connection."""
        self.name, self.byte_time_s = line.name, line.byte_time_s
        self.printed, self.close = line.printed, line.close
        self._line = line
        self._child = child
        self._hang_up = hang_up
        self._has_yielded = False
        child.pause()

    def write(self, data: bytes, timeout_s: float) -> None:
        """See `Transport.write`; the emulator goes on until the next `read` has ended."""
        self._child.resume()
        self._line.write(data, timeout_s)

    def read(self, timeout_s: float) -> bytes:
        """Read to the end of a frame: a pause costs as much as several bytes."""
        self._child.resume()
        try:
            data = self._line.read(timeout_s)
            with contextlib.suppress(LinkError):  # the next read will meet it again
                while 0 < len(data) < _FRAME_BYTES and data[-1] != _FRAME_END:
                    more = self._line.read(_BYTE_S)
                    if not more:
                        break
                    data += more
            if data and not self._has_yielded:  # before that, its threads may not have begun
                self._has_yielded = True
                self._child.yield_to_line()
            return data
        finally:
            self._child.pause()

    def board_s(self) -> float | None:
        """See `Clocked.board_s`: it is the emulator that tells."""
        self._child.resume()
        return self._line.board_s()

    def pc(self) -> int | None:
        """See `Emulator.pc`; QEMU goes on until the next `read` has ended, others may end."""
        self._child.resume()
        pc = self._child.pc()
        if pc is not None or self._hang_up is None:
            return pc
        with contextlib.suppress(OSError):  # it was hung up before
            self._hang_up()
        return self._child.last_pc()


def spawn_and_accept(
    command: Sequence[str], package: str | None, timeout_s: float, *, is_emulator: bool = False
) -> Transport:
    """Listen, start a child that connects to ``{port}``, and accept it.

    The host listens, so that no byte is lost before someone reads and no two boards can want the
    same port.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(_POLL_S)
        port = listener.getsockname()[1]
        name = f"{SCHEME}127.0.0.1:{port}"
        command = [part.replace("{port}", str(port)) for part in command]
        child = ChildProcess(command, package)
        with contextlib.ExitStack() as on_error:
            on_error.callback(child.close)
            connection = _accept(listener, child, timeout_s)
            on_error.pop_all()
    return _stream(child, connection, name, is_emulator)


def spawn_and_connect(
    command: Sequence[str], package: str | None, timeout_s: float, *, is_emulator: bool = False
) -> Transport:
    """Start a child that listens and says where, and connect to it; see `spawn_and_accept`."""
    child = ChildProcess(command, package)
    with contextlib.ExitStack() as on_error:
        on_error.callback(child.close)
        name = SCHEME + _announced(child, timeout_s)
        connection = connect_socket(name, timeout_s)
        on_error.pop_all()
    return _stream(child, connection, name, is_emulator)


def _stream(
    child: ChildProcess, connection: socket.socket, name: str, is_emulator: bool
) -> Transport:
    line = stream_of(
        connection,
        name,
        close=child.close,
        explain_loss=child.explain,
        has_ended=lambda: not child.running,
        printed=child.output,
        board_s=child.board_s,
    )
    if not is_emulator:
        return line
    return EmulatorLine(line, child, lambda: connection.shutdown(socket.SHUT_RDWR))


def _accept(listener: socket.socket, child: ChildProcess, timeout_s: float) -> socket.socket:
    deadline = time.monotonic() + timeout_s
    closed: socket.socket | None = None  # at its other end: of a child that has ended, maybe
    try:
        while time.monotonic() < deadline:
            with contextlib.suppress(TimeoutError):
                connection, _ = listener.accept()
                is_childs = comes_from(connection, child.process_id)
                if is_childs:
                    return connection
                if is_childs is None and closed is None:
                    closed = connection
                else:  # it looks for a server that had this port before, or is another user's
                    connection.close()
            if not child.running:
                if closed is None:
                    raise _ended(child)
                connection, closed = closed, None
                return connection
    finally:
        if closed is not None:
            closed.close()
    raise BoardTimeoutError(
        f"{child.name} did not connect within {timeout_s:g} s.", console=child.output()
    )


def _announced(child: ChildProcess, timeout_s: float) -> str:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        running = child.running
        for line in child.output().splitlines(keepends=True):
            if line.startswith(ANNOUNCEMENT) and line.endswith("\n"):
                return line.removeprefix(ANNOUNCEMENT).strip()
        if not running:
            raise _ended(child)
        time.sleep(_POLL_S)
    raise BoardTimeoutError(
        f"{child.name} did not print its address within {timeout_s:g} s.", console=child.output()
    )


def _ended(child: ChildProcess) -> BoardError:
    return BoardError(
        f"{child.name} ended before a board could be reached.\n{child.explain()}",
        hint="run it by hand: " + " ".join(child.command),
    )
