# SPDX-License-Identifier: Apache-2.0
"""A host that calls the board of ``board.c`` and knows what every answer must be."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import msgpack

from boardprof.base.errors import RpcError
from boardprof.wire.link.channels import Channels
from boardprof.wire.link.session import Session
from boardprof_protocol.codes import ErrorCode
from tests.memory_board import blob_counts
from tests.simulation.agent import FUNCTIONS
from tests.simulation.line import SimTransport, World
from tests.simulation.schedule import Operation

__all__ = ["Books", "Host", "Violation", "digest_of"]

_MASK = 0xFFFFFFFF
_LEAKY = frozenset({"memory", "upload", "download"})


class Violation(AssertionError):
    """A rule of the protocol was broken."""


def expect(found: object, due: object, what: str) -> None:
    """Raise unless both are the same."""
    if found != due:
        raise Violation(f"{what}: {found!r} in place of {due!r}")


def digest_of(data: bytes) -> int:
    """FNV-1a, as board.c has it."""
    digest = 0x811C9DC5
    for byte in data:
        digest = (digest ^ byte) * 0x01000193 & _MASK
    return digest


@dataclass
class Asked:
    """A call that a host has made.

    Attributes:
        function: index in `FUNCTIONS`.
        digest: of the arguments behind the token.
        most: how often the function may run for it.
        answered: how often it must have run, once there is an answer.
        popped: the value that it got from the read-once register.
    """

    function: int
    digest: int
    most: int = 1
    answered: int | None = None
    popped: int | None = None


@dataclass
class Books:
    """What all hosts of a schedule asked for and what they got, by token."""

    asked: dict[int, Asked] = field(default_factory=dict)


class Host:
    """One host's process: one session."""

    def __init__(
        self,
        world: World,
        rng: random.Random,
        books: Books,
        ids: dict[str, int],
        timeout_s: float,
        session: Callable[..., Session] = Session,
    ) -> None:
        """Prepare; `open` says HELLO.

        Args:
            world: the line and the board.
            rng: for everything that the host draws.
            books: shared by the hosts of a schedule.
            ids: the functions' ids by name.
            timeout_s: the session's deadline.
            session: the class to be tried.
        """
        self.world = world

        def drawn(bits: int) -> int:
            """Return session ids of which many are alike; they have 16 bits."""
            number = rng.getrandbits(bits)
            return number & rng.choice([0xFFFF, 1]) if bits == 16 else number

        self.session = session(
            SimTransport(world), timeout_s=timeout_s, clock=world.clock, random_bits=drawn
        )
        self.id = self.session.requests.session
        self._rng = rng
        self._books = books
        self._ids = ids
        self._leaked = False
        self.boot_id = 0  # until WELCOME

    def open(self) -> None:
        """Say HELLO."""
        welcome = self.session.open()
        self.boot_id = welcome.boot_id
        functions = [SimpleNamespace(name=name, id=number) for name, number in self._ids.items()]
        offered: Any = SimpleNamespace(functions=functions)
        self._channels = Channels(self.session, welcome, offered)

    def do(self, operation: Operation) -> None:
        """Do one of `KINDS`.

        Raises:
            Violation: an answer was wrong.
            BoardprofError: there was none.
        """
        leaked, self._leaked = self._leaked, self._leaked or operation.kind in _LEAKY
        try:
            getattr(self, f"_{operation.kind}")(operation)
        except RpcError as error:
            if not (leaked and error.code == ErrorCode.NO_MEMORY):
                raise
        else:
            self._leaked = leaked

    def _call(self, name: str, *arguments: object, **options: Any) -> Any:
        packed = b"".join(map(msgpack.packb, arguments))
        number = self._ids[name]
        return self.session.call(number, packed, len(arguments), name=name, **options).value

    def _ask(self, name: str, digest: int, most: int = 1) -> tuple[int, Asked]:
        token = self._rng.getrandbits(32)
        asked = self._books.asked[token] = Asked(FUNCTIONS.index(name), digest, most)
        return token, asked

    # -- functions ------------------------------------------------------------------------

    def _note(self, operation: Operation) -> None:
        token, asked = self._ask("note", 0)
        expect(self._call("note", token), token ^ _MASK, "note")
        asked.answered = 1

    def _pop(self, operation: Operation) -> None:
        token, asked = self._ask("pop", 0)
        answer = self._call("pop", token)
        if not (isinstance(answer, list) and len(answer) == 2):
            raise Violation(f"pop: {answer!r}")
        expect(answer[0], token, "pop")
        asked.answered, asked.popped = 1, answer[1]

    def _echo(self, operation: Operation) -> None:
        data = self._rng.randbytes(operation.size)
        token, asked = self._ask("echo", digest_of(data))
        expect(self._call("echo", token, data), data, "echo")
        asked.answered = 1

    def _slow(self, operation: Operation) -> None:
        token, asked = self._ask("slow", operation.work_us)
        expect(self._call("slow", token, operation.work_us), token ^ _MASK, "slow")
        asked.answered = 1

    # -- measurements ---------------------------------------------------------------------

    def _measure(self, operation: Operation, cancel: bool = False) -> None:
        warmup, repeat, number = self._rng.randint(0, 2), self._rng.randint(1, 3), 2
        work_us = operation.work_us // 8
        token, asked = self._ask("work", work_us, most=warmup + repeat * number)
        arguments = (self._ids["work"], 0, warmup, repeat, number, 1, token, work_us)

        def stop(done: int, total: int) -> None:
            if cancel:
                self.session.cancel()

        answer = self._call("bp.measure", *arguments, on_progress=stop)
        if not (isinstance(answer, list) and len(answer) == 2):
            raise Violation(f"bp.measure: {answer!r}")
        samples, blobs = answer
        if not 1 <= samples <= repeat:
            raise Violation(f"bp.measure: {samples} samples of {repeat}")
        expect(blob_counts(blobs), [number] * samples + [number * samples], "runs in the windows")
        asked.answered = warmup + samples * number

    def _cancel(self, operation: Operation) -> None:
        try:
            self._measure(operation, cancel=True)
        except RpcError as error:
            if error.code != ErrorCode.CANCELLED:
                raise

    # -- memory ---------------------------------------------------------------------------

    def _memory(self, operation: Operation) -> None:
        size = max(operation.size, 1)
        handle = self._call("bp.alloc", size)
        for _ in range(2):
            data = self._rng.randbytes(size)
            expect(self._call("bp.write", handle, 0, data), None, "bp.write")
        expect(self._call("bp.read", handle, 0, size), data, "bp.read")
        expect(self._call("bp.free", handle), None, "bp.free")

    def _upload(self, operation: Operation) -> None:
        content = self._rng.randbytes(1 + 9 * operation.size)
        handle = self._call("bp.alloc", len(content))
        self._channels.upload(handle, 0, content)
        tail = content[-90:]
        read = self._call("bp.read", handle, len(content) - len(tail), len(tail))
        expect(read, tail, "bp.read behind bp.upload")
        expect(self._call("bp.free", handle), None, "bp.free")

    def _download(self, operation: Operation) -> None:
        content = self._rng.randbytes(1 + 9 * operation.size)
        handle = self._call("bp.alloc", len(content))
        self._channels.upload(handle, 0, content)
        found = self._channels.download(handle, 0, len(content))
        expect(found, content, "bp.download")
        expect(self._call("bp.free", handle), None, "bp.free")
