# SPDX-License-Identifier: Apache-2.0
"""A debug probe with an RTT server, as OpenOCD has one; the board is a QEMU with its GDB stub.

The server finds the control block in the board's RAM, and then does what any probe does: it reads
the ring to the host, writes the other one, and moves its own two positions. The stub gives access
to memory only while the core is stopped, so each round stops it for a moment.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from elftools.elf.elffile import ELFFile

from boardprof.target.descriptions.board import BoardSpec
from boardprof.target.descriptions.tables import filled
from boardprof.wire.transport.child import ChildProcess

__all__ = ["GdbStub", "Ring", "RttProbe", "with_rtt"]

_START_S = 20.0
_ANSWER_S = 10.0
_MOST = 1024
"""Bytes of memory in one packet: QEMU's stub takes packets of 4096 characters."""

_SOON_S, _LATE_S = 0.0002, 0.005
"""Between two looks at the rings: while bytes come, and when none came for a while."""

_ID = b"SEGGER RTT".ljust(16, b"\0")
_HEAD = 16 + 4 + 4
_RING = struct.Struct("<6I")


def with_rtt(spec: BoardSpec, up: int = 1024) -> BoardSpec:
    """Return a board whose agent speaks through RTT, with ``up`` bytes for the ring to the host."""
    return replace(spec, build=replace(spec.build, config={**spec.build.config, "rtt": up}))


class GdbStub:
    """A GDB server: the remote protocol of GDB's manual, appendix E, as far as a probe needs it."""

    def __init__(self, path: Path) -> None:
        """Connect; the core stands still from then on."""
        self._line = _connected(path)
        self._line.settimeout(_ANSWER_S)
        self._text = b""
        self._runs = False
        answer = self.ask("qC")[0]
        if answer.startswith(b"T"):  # QEMU before 8.1 first says that it has stopped
            answer = self._reply()
        assert answer.startswith(b"QC"), answer
        # Like a real probe, it sees memory that the core denies itself.
        assert self.ask("Qqemu.PhyMemMode:1") == [b"OK"]

    def ask(self, *commands: str, then_go: bool = False) -> list[bytes]:
        """Stop the core if it runs, and return its answers to commands; let it go afterwards.

        QEMU's stub must have all of its answers confirmed before the core runs: it takes the next
        byte for a confirmation, or for what stops the core.
        """
        if self._runs:
            self._line.sendall(b"\x03")
            stopped = self._reply()
            assert stopped.startswith(b"T"), stopped
        self._line.sendall(b"".join(map(_packet, commands)))
        replies = [self._reply() for _ in commands]
        if then_go:
            self._line.sendall(b"+" + _packet("c"))
        self._runs = then_go
        return replies

    def read(self, address: int, size: int) -> bytes:
        """Return memory; the core stands still afterwards."""
        return b"".join(map(_unhex, self.ask(*reads(address, size))))

    def write(self, address: int, data: bytes) -> None:
        """Change memory; the core stands still afterwards."""
        assert set(self.ask(*writes(address, data))) <= {b"OK"}

    def reset(self) -> None:
        """Reset the board by its reset line."""
        assert self.ask(f"qRcmd,{b'system_reset'.hex()}", then_go=True) == [b"OK"]

    def close(self) -> None:
        """Hang up."""
        self._line.close()

    def _reply(self) -> bytes:
        while True:
            begin, end = self._text.find(b"$"), self._text.find(b"#")
            if end >= 0 and len(self._text) >= end + 3:
                reply, self._text = self._text[begin + 1 : end], self._text[end + 3 :]
                return reply
            data = self._line.recv(1 << 16)
            if not data:
                raise ConnectionError("the GDB stub hung up")
            self._text += data


def _connected(path: Path) -> socket.socket:
    deadline_s = time.monotonic() + _START_S
    while True:
        line = socket.socket(socket.AF_UNIX)
        try:
            line.connect(str(path))
            return line
        except OSError:
            line.close()
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.005)


def _packet(text: str) -> bytes:
    data = text.encode()
    return b"$%s#%02x" % (data, sum(data) & 0xFF)


def _unhex(reply: bytes) -> bytes:
    return bytes.fromhex(reply.decode())


def reads(address: int, size: int) -> list[str]:
    """Return the commands that read memory."""
    return [f"m{at:x},{min(_MOST, address + size - at):x}" for at in _pieces(address, size)]


def writes(address: int, data: bytes) -> list[str]:
    """Return the commands that write memory."""
    parts = [(at, data[at - address :][:_MOST]) for at in _pieces(address, len(data))]
    return [f"M{at:x},{len(part):x}:{part.hex()}" for at, part in parts]


def _ram(image: Path) -> tuple[int, int]:
    """Return address and size of the image's variables, in which a probe searches."""
    with image.open("rb") as stream:
        section = ELFFile(stream).get_section_by_name(".bss")
        assert section is not None
        return section["sh_addr"], section["sh_size"]


def _pieces(address: int, size: int) -> range:
    return range(address, address + size, _MOST)


class Ring:
    """One ring of a control block, as its descriptor says."""

    name: int
    buffer: int
    size: int
    write: int
    read: int

    def __init__(self, address: int, descriptor: bytes) -> None:
        """Read the descriptor, which is at ``address``."""
        self.address = address
        self.name, self.buffer, self.size, self.write, self.read, _ = _RING.unpack(descriptor)

    @property
    def is_active(self) -> bool:
        """Whether a probe would use it."""
        return max(1, self.write, self.read) < self.size

    def filled(self) -> list[tuple[int, int]]:
        """Return where the bytes are that nobody has read: addresses and lengths."""
        return self._spans(self.read, (self.write - self.read) % self.size)

    def room_for(self, data: bytes) -> list[tuple[int, bytes]]:
        """Return where as much of ``data`` goes as there is room for."""
        room = (self.read - self.write - 1) % self.size
        spans, parts, at = self._spans(self.write, min(room, len(data))), [], 0
        for address, length in spans:
            parts.append((address, data[at : at + length]))
            at += length
        return parts

    def _spans(self, begin: int, length: int) -> list[tuple[int, int]]:
        first = min(length, self.size - begin)
        spans = [(self.buffer + begin, first), (self.buffer, length - first)]
        return [span for span in spans if span[1] > 0]


class RttProbe:
    """A started board with a probe at it, whose server listens on a port of this machine.

    Attributes:
        child: the emulator.
        stub: access to the board's memory, with ``lock`` held.
        block: address of the control block; None until it is found.
        port: as boardprof takes it.
        rounds: how often the probe has looked.
    """

    def __init__(self, spec: BoardSpec, image: Path, *, greeting: bytes = b"") -> None:
        """Start ``image``, and a server that sends each host a greeting first."""
        self._folder = tempfile.TemporaryDirectory(prefix="boardprof-")
        socket_path = Path(self._folder.name) / "gdb"
        command = filled(spec.launch.command, {"image": str(image), "port": "0"})
        command[command.index("-serial") + 1] = "null"
        gdb = ["-gdb", f"unix:{socket_path},server=on,wait=off"]
        self.child = ChildProcess([*command, *gdb], spec.launch.package)
        self.lock = threading.Lock()
        self.block: int | None = None
        self.rounds = 0
        self._search = _ram(image)
        self._greeting = greeting
        self._hosts: list[socket.socket] = []
        self._down = b""
        self._ends = False
        try:
            self.stub = GdbStub(socket_path)
        except BaseException:
            self.child.close()
            raise
        self.stub.ask(then_go=True)
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.settimeout(_ANSWER_S)
        self.port = f"rtt://127.0.0.1:{self._server.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, name="RTT server", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the server and the board. May be called twice."""
        self._ends = True
        self._thread.join(_ANSWER_S)
        for line in (self._server, *self._hosts):
            line.close()
        self.stub.close()
        self.child.close()
        self._folder.cleanup()

    def reset(self, lose: Callable[[], object] = lambda: None) -> None:
        """Reset the board; ``lose`` is called while it stands still: takes what has arrived.

        What is in the ring is lost, too. It stays in RAM until the start-up code clears that.
        """
        with self.lock:
            up, _ = self.rings()
            self.stub.write(up.address + 16, up.write.to_bytes(4, "little"))
            self._down = b""
            lose()
            self.stub.reset()

    def rings(self) -> tuple[Ring, Ring]:
        """Return the rings to the host and to the board; the core stands still afterwards.

        After a reset, start-up code clears the block, its identifier first. A probe that then used
        what is left would write to address 0, which is code of some boards.
        """
        assert self.block is not None
        found = self.stub.read(self.block, _HEAD + 2 * _RING.size)
        rings = found[_HEAD:] if found.startswith(_ID) else bytes(2 * _RING.size)
        up, down = rings[: _RING.size], rings[_RING.size :]
        first = self.block + _HEAD
        return Ring(first, up), Ring(first + _RING.size, down)

    def _serve(self) -> None:
        pause_s = _SOON_S
        while not self._ends:
            waiting = [self._server, *self._hosts]
            readable, _, _ = select.select(waiting, [], [], pause_s)
            with self.lock:  # a reset forgets what was taken before
                for line in readable:
                    self._take(line)
                moved = self._find() if self.block is None else self._move()
            pause_s = _SOON_S if moved or readable else min(2 * pause_s, _LATE_S)

    def _take(self, line: socket.socket) -> None:
        if line is self._server:
            host, _ = line.accept()
            host.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            host.settimeout(_ANSWER_S)
            host.sendall(self._greeting)
            self._hosts.append(host)
            return
        data = b""
        with contextlib.suppress(OSError):
            data = line.recv(1 << 16)
        if not data:
            self._hosts.remove(line)
            line.close()
        elif self.block is not None:  # else OpenOCD loses it, too
            self._down += data

    def _find(self) -> bool:
        address, size = self._search
        at = self.stub.read(address, size).find(_ID)
        self.block = address + at if at >= 0 else None
        self.stub.ask(then_go=True)
        return False

    def _move(self) -> bool:
        """Move what is in the rings; return whether anything was."""
        self.rounds += 1
        up, down = self.rings()
        filled = up.filled() if up.is_active and self._hosts else []
        parts = down.room_for(self._down) if down.is_active and self._down else []
        commands = [command for span in filled for command in reads(*span)]
        answers = len(commands)
        if filled:
            commands += writes(up.address + 16, up.write.to_bytes(4, "little"))
        for address, part in parts:
            commands += writes(address, part)
        if parts:
            moved = sum(len(part) for _, part in parts)
            self._down = self._down[moved:]
            end = (down.write + moved) % down.size
            commands += writes(down.address + 12, end.to_bytes(4, "little"))
        replies = self.stub.ask(*commands, then_go=True)
        data = b"".join(map(_unhex, replies[:answers]))
        for host in self._hosts if data else []:
            with contextlib.suppress(OSError):  # it has gone
                host.sendall(data)
        return bool(commands)
