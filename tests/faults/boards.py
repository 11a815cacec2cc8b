# SPDX-License-Identifier: Apache-2.0
"""Boards for the fault matrix: each can be damaged, reset for real, and handed to another host."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from boardprof.base.errors import BoardTimeoutError
from boardprof.measure.board.board import Board
from boardprof.measure.board.line import await_guest, fetch_dictionary
from boardprof.target.arguments.passing import Block
from boardprof.target.descriptions.board import BoardSpec, board_spec
from boardprof.target.descriptions.tables import filled
from boardprof.target.toolchain.guest import guest_values
from boardprof.wire.decode.schemas import layouts_for
from boardprof.wire.link.session import Session
from boardprof.wire.transport.base import Transport
from boardprof.wire.transport.child import ANNOUNCEMENT, ChildProcess, EmulatorLine
from boardprof.wire.transport.faults import Faults, FaultyTransport
from boardprof.wire.transport.sockets import SCHEME, connect_library, connect_socket, stream_of
from tests.firmware import build
from tests.rtt_probe import RttProbe, with_rtt

__all__ = ["FUNCTIONS", "OVER_RTT", "SILENCE_S", "Line", "Rig", "Target", "hurried", "target_of"]

FUNCTIONS = Path(__file__).resolve().parents[1] / "link" / "fixtures" / "witness.c"
SILENCE_S = 900.0
"""Longest silence, in seconds of the hurried clock."""

_START_S = 20.0
_BOOT_S = 60.0
_PROCESS_TIME = 2
"""What makes a process's number the number of its clock: clock_getcpuclockid(3), in the kernel."""
_MASK = 0xFFFFFFFF


def hurried(factor: float, emulator: int | None = None) -> Callable[[], float]:
    """Return a clock that runs ``factor`` times as fast as the real one.

    The session's time-outs are made for serial lines. Here the board answers at once, and the
    session waits for what was lost and nothing else: the same code with the same numbers, sooner.
    The clock of an ``emulator``, a process, goes by the processor time it got and hardly by ours:
    else a busy machine that does not run it looks like a line that loses everything.
    """
    if emulator is None:
        return lambda: time.monotonic() * factor
    used = ~emulator << 3 | _PROCESS_TIME
    return lambda: time.clock_gettime(used) * factor + time.monotonic()


class Line:
    """A transport in hurried time, whose far end can be exchanged without a word to the host."""

    def __init__(self, inner: Transport, factor: float) -> None:
        """Wrap a transport; ``factor`` is that of `hurried`."""
        self.name, self.byte_time_s = inner.name, inner.byte_time_s
        self.inner = inner
        self.after_write: Callable[[], None] | None = None
        self._factor = factor

    def write(self, data: bytes, timeout_s: float) -> None:
        """Send; then do once what is to be done after a write."""
        self.inner.write(data, timeout_s / self._factor)
        action, self.after_write = self.after_write, None
        if action is not None:
            action()

    def read(self, timeout_s: float) -> bytes:
        """Receive, for a hurried while."""
        return self.inner.read(timeout_s / self._factor)

    def drain(self) -> None:
        """Lose what has come and was not read."""
        while self.inner.read(0.0):
            pass

    def exchange(self, inner: Transport) -> None:
        """Lead to another board from now on."""
        self.inner.close()
        self.inner = inner

    def printed(self) -> str:
        """See `Transport.printed`."""
        return self.inner.printed()

    def close(self) -> None:
        """See `Transport.close`."""
        self.inner.close()


class Target:
    """A board that this machine can start, with the witness functions on it.

    Attributes:
        spec: the board.
        image: its firmware.
        descriptor: of the line to the board that was started last; -1 for one in this process.
    """

    def __init__(self, name: str, *more: Path) -> None:
        """Build the firmware, with ``more`` sources; the board's launch kind is not serial."""
        self.spec = self.adapted(board_spec(name))
        self.image = build(self.spec, [FUNCTIONS, *more]).image
        self.descriptor = -1
        self._emulator: ChildProcess | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="boardprof-")
        self._qmp = Path(self._folder.name) / "qmp"

    def adapted(self, spec: BoardSpec) -> BoardSpec:
        """Return the board as the matrix needs it."""
        return _with_small_ring(spec)

    @property
    def is_emulated(self) -> bool:
        """Whether an emulator runs it, which has a reset line and a monitor to pull it."""
        return self.spec.launch.listen == "host"

    @property
    def in_process(self) -> bool:
        """Whether it lives and dies with its host, and nobody else can reach it."""
        return self.spec.launch.kind == "library"

    def start(self) -> Transport:
        """Start the board and connect to it."""
        if self.in_process:
            return connect_library(self.image)
        if self.is_emulated:
            return self._accept()
        child = ChildProcess([str(self.image), "--listen", "127.0.0.1:0"], None)
        name = SCHEME + _announced(child)
        return self._stream(connect_socket(name, _START_S), name, child)

    def _stream(self, connection: socket.socket, name: str, child: ChildProcess) -> Transport:
        self.descriptor = connection.fileno()
        line = stream_of(connection, name, close=child.close)
        if not self.is_emulated:
            return line
        self._emulator = child
        return EmulatorLine(line, child)

    @property
    def emulator(self) -> int | None:
        """The process that runs it, if that is an emulator's."""
        return None if self._emulator is None else self._emulator.process_id

    def resume(self) -> None:
        """Let an emulator run on although nobody reads from it; until somebody has."""
        if self._emulator is not None:
            self._emulator.resume()

    def _accept(self) -> Transport:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.settimeout(_START_S)
            port = str(listener.getsockname()[1])
            launch = self.spec.launch
            values = {"image": str(self.image), "port": port}
            if launch.guest is not None:
                values |= guest_values(launch.guest, self.image)
            # Linux in a virtual machine is reset like any other board.
            command = [word for word in filled(launch.command, values) if word != "-no-reboot"]
            self._qmp.unlink(missing_ok=True)
            monitor = ["-qmp", f"unix:{self._qmp},server=on,wait=off"]
            child = ChildProcess([*command, *monitor], self.spec.launch.package)
            connection, _ = listener.accept()
        started = self._stream(connection, f"{SCHEME}127.0.0.1:{port}", child)
        if launch.guest is not None:
            await_guest(started, _BOOT_S)
        return started

    def reset(self, line: Line) -> None:
        """Reset the board behind ``line``: by its reset line, or by ending and starting it.

        What it had answered and nobody has read is lost.
        """
        if not self.is_emulated:
            line.exchange(self.start())
            return
        self.resume()
        with socket.socket(socket.AF_UNIX) as monitor:
            monitor.settimeout(_START_S)
            monitor.connect(str(self._qmp))
            with monitor.makefile("rw") as talk:
                _command(talk, "qmp_capabilities")
                _command(talk, "stop")
                line.drain()
                self.resume()
                _command(talk, "system_reset")
                _command(talk, "cont")
                if self.spec.launch.guest is not None:
                    await_guest(line, _BOOT_S)

    def close(self) -> None:
        """Remove what was needed to start it."""
        self._folder.cleanup()


class RttTarget(Target):
    """A board whose line is memory that a debug probe reads and writes."""

    _probe: RttProbe | None = None

    def adapted(self, spec: BoardSpec) -> BoardSpec:
        """See `Target.adapted`."""
        return with_rtt(super().adapted(spec))

    def start(self) -> Transport:
        """See `Target.start`."""
        self._probe = probe = RttProbe(self.spec, self.image)
        self._emulator = probe.child
        connection = connect_socket(SCHEME + probe.port.removeprefix("rtt://"), _START_S)
        self.descriptor = connection.fileno()
        return stream_of(connection, probe.port, close=probe.close)

    def reset(self, line: Line) -> None:
        """See `Target.reset`."""
        assert self._probe is not None
        self._probe.reset(line.drain)


_RTT = "rtt:"
OVER_RTT = (f"{_RTT}qemu-cortex-m3", f"{_RTT}qemu-rv32")
"""Boards that are also tried through a debug probe."""


def target_of(name: str, *more: Path) -> Target:
    """Return a board, or the one whose name follows ``rtt:`` through a debug probe."""
    kind = RttTarget if name.startswith(_RTT) else Target
    return kind(name.removeprefix(_RTT), *more)


def _with_small_ring(spec: BoardSpec) -> BoardSpec:
    """Return a board whose ring for probes fills up: an emulated one may have megabytes."""
    if "trace_at" not in spec.build.config:
        return spec
    config = {**spec.build.config, "trace": 8192, "trace_at": 0, "stream": 4096}
    return replace(spec, build=replace(spec.build, config=config))


def _announced(child: ChildProcess) -> str:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        line, newline, _ = child.output().partition("\n")
        if newline and line.startswith(ANNOUNCEMENT):
            return line.removeprefix(ANNOUNCEMENT)
        time.sleep(0.005)
    raise BoardTimeoutError(f"{child.name} did not say where it listens.", console=child.output())


def _command(monitor: TextIO, name: str) -> None:
    """Have QEMU's monitor (QMP) execute a command."""
    monitor.write(json.dumps({"execute": name}) + "\n")
    monitor.flush()
    while '"return"' not in (line := monitor.readline()):
        if not line:
            raise BoardTimeoutError("The emulator's monitor hung up.")


class Rig:
    """One board under test, its line, and what its witness functions must answer next.

    Attributes:
        board: the session with it.
        line: below the faults.
        faults: what happens to the frames.
    """

    def __init__(self, target: Target, factor: float) -> None:
        """Start the board and begin a session."""
        self.target = target
        self.factor = factor
        self.line = Line(target.start(), factor)
        self.clock = hurried(factor, None if factor == 1.0 else target.emulator)
        self.faults = Faults()
        self.transport = FaultyTransport(self.line, self.faults, clock=self.clock)
        self._state = self._popped = self._turn = 0
        self._last_id = 0
        self._block: Block | None = None
        try:
            self.board = self.begin()
            # Two calls on, all answers have 32 bits, and all frames of a kind the same length.
            assert not self.tally() + self.tally()
        except BaseException:
            self.close()
            raise

    def session(self) -> Session:
        """Return a session on the line that is not yet open, and has another id than the last."""
        while True:
            session = Session(self.transport, timeout_s=SILENCE_S, clock=self.clock)
            if session.requests.session != self._last_id:
                self._last_id = session.requests.session
                return session

    def begin(self) -> Board:
        """Begin a session: say HELLO, read the dictionary."""
        session = self.session()
        welcome = session.open()
        layouts = layouts_for(self.target.spec.folder)
        board = Board(self.target.spec, session, welcome, fetch_dictionary(session, None), layouts)
        board.link.image.file = self.target.image  # has the names of probes
        return board

    def renew(self, session: Session) -> None:
        """Go on with another session, which is open."""
        assert session.welcome is not None
        old = self.board
        self.board = Board(old.spec, session, session.welcome, old.dictionary, old.link.layouts)

    def argument(self) -> int:
        """Return the next argument for ``tally``, small and never twice the same in a row."""
        self._turn += 1
        return self._turn * 37 % 100 + 20

    def tallied(self, n: int) -> int:
        """Note that ``tally(n)`` ran once more; returns what it must have answered."""
        self._state = (self._state * 1000003 + n) & _MASK
        return self._state

    def block(self, size: int) -> Block:
        """Return the block of the board's arena that all positions use."""
        if self._block is None:
            self._block = self.board.memory.alloc(size)
        return self._block

    def tally(self) -> str:
        """Call ``tally``; returns what is wrong with the answer, "" when nothing is."""
        n = self.argument()
        return differs(self.board.functions["tally"](n), self.tallied(n))

    def pop(self) -> str:
        """Call ``pop``; returns what is wrong with the answer, "" when nothing is."""
        self._popped += 1
        return differs(self.board.functions["pop"](), 7 * self._popped)

    def was_reset(self) -> None:
        """Expect what a board answers that has just started."""
        self._state = self._popped = 0

    def resume(self) -> str:
        """Begin a new session after an error; the board's state goes on."""
        session = self.session()
        session.open()
        self.renew(session)
        return self.tally()

    def close(self) -> None:
        """Let go of the board."""
        with contextlib.suppress(OSError):
            self.transport.close()


def differs(found: object, due: object) -> str:
    """Return how an answer differs from the right one, "" when it does not."""
    return "" if found == due else f"answered {found!r}, {due!r} is right (process {os.getpid()})"
