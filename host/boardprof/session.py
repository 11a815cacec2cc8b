# SPDX-License-Identifier: Apache-2.0
"""A session with one board: the handshake, and calls with deadlines over a transport."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import msgpack

from boardprof.errors import (
    BoardTimeoutError,
    DeviceResetError,
    FrameError,
    ProtocolMismatchError,
    UsageError,
)
from boardprof.refusal import refusal, unpack_reply
from boardprof.rpc import Progress, Reply, RpcClient
from boardprof.transport.base import Transport
from boardprof_protocol.codes import (
    HELLO_MAGIC,
    PROTOCOL_VERSION,
    FrameKind,
    ResetCause,
    WelcomeFlag,
)
from boardprof_protocol.frame import body_capacity
from boardprof_protocol.handshake import HELLO, WELCOME

__all__ = ["CallResult", "Session", "Welcome"]

CONSOLE_BYTES = 1 << 16
"""How much console text is kept, in bytes: the end of it."""

HOST_MTU = 65535
"""Longest encoded frame that the host takes, in bytes."""


@dataclass(frozen=True)
class Welcome:
    """What the board said of itself when the session began.

    Attributes:
        version: protocol version of the board.
        boot_id: differs from one boot to the next.
        reset_cause: why the board last started.
        mtu_rx: longest encoded frame that the board takes, bytes.
        mtu_tx: longest encoded frame that it sends, bytes.
        pointer_size: of the board's C, bytes.
        big_endian: the CPU's byte order; the wire is little-endian always.
        build_id: 8 bytes that tell one firmware from another; zeros when unknown.
        dictionary_hash: CRC-32 over the dictionary.
        last_sequence: of the last call taken in this session.
    """

    version: int
    boot_id: int
    reset_cause: ResetCause
    mtu_rx: int
    mtu_tx: int
    pointer_size: int
    big_endian: bool
    build_id: bytes
    dictionary_hash: int
    last_sequence: int


@dataclass(frozen=True)
class CallResult:
    """A call's reply.

    Attributes:
        value: the return value: None, bool, int, float, str, bytes or a list of these.
        body: the same as it came, msgpack.
        elapsed_s: host time from the first sending to the reply.
    """

    value: object
    body: bytes
    elapsed_s: float


class Session:
    """Calls over one transport, one at a time."""

    def __init__(
        self,
        transport: Transport,
        *,
        timeout_s: float,
        on_console: Callable[[bytes], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        random_bits: Callable[[int], int] = secrets.randbits,
    ) -> None:
        """Prepare a session; `open` begins it.

        Args:
            transport: the line to the board; closed with the session.
            timeout_s: longest silence of the board. PROGRESS ends a silence.
            on_console: gets bytes that are no frames, as they come.
            clock: seconds that only grow; the transport must wait by the same clock.
            random_bits: random number of so many bits; for the session id and the nonce.
        """
        self._clock = clock
        self._random_bits = random_bits
        self.transport = transport
        self.timeout_s = timeout_s
        self.on_console = on_console
        self.welcome: Welcome | None = None
        self._sequence = 0
        self._console = bytearray()
        self._busy = threading.Lock()
        self._client = RpcClient(1 + random_bits(16) % 0xFFFF, transport.byte_time_s)

    def open(self) -> Welcome:
        """Say HELLO and take WELCOME.

        Raises:
            BoardTimeoutError: no answer within the time-out; carries the console text.
            ProtocolMismatchError: the board speaks another version.
        """
        hello = HELLO.struct.build(
            {
                "magic": HELLO_MAGIC,
                "version_min": PROTOCOL_VERSION,
                "version_max": PROTOCOL_VERSION,
                "mtu": HOST_MTU,
                "nonce": self._random_bits(32),
            }
        )
        reply, _ = self._exchange(FrameKind.HELLO, 0, hello, None, "HELLO")
        self.welcome = self._read_welcome(reply)
        self._client.expect_frames(self.welcome.mtu_tx)
        self._sequence = self.welcome.last_sequence
        return self.welcome

    def _read_welcome(self, reply: Reply) -> Welcome:
        body = reply.frame.body
        if len(body) < WELCOME.size:
            raise FrameError(
                f"WELCOME of {self.transport.name} has {len(body)} bytes, {WELCOME.size} are due.",
                hint="is it a boardprof agent?",
            )
        found = WELCOME.struct.parse(body)
        if not found.version_min <= PROTOCOL_VERSION <= found.version_max:
            theirs = f"{found.version_min}"
            if found.version_max != found.version_min:
                theirs += f" to {found.version_max}"
            raise ProtocolMismatchError(
                f"The agent at {self.transport.name} speaks protocol {theirs}; "
                f"this boardprof speaks {PROTOCOL_VERSION}.",
                hint="build the firmware again with this boardprof, or install the one it was "
                "built with",
            )
        causes = set(ResetCause)
        return Welcome(
            version=PROTOCOL_VERSION,
            boot_id=found.boot_id,
            reset_cause=ResetCause(found.reset_cause if found.reset_cause in causes else 0),
            mtu_rx=found.mtu_rx,
            mtu_tx=found.mtu_tx,
            pointer_size=found.pointer_size,
            big_endian=bool(found.flags & WelcomeFlag.BIG_ENDIAN),
            build_id=bytes(found.build_id),
            dictionary_hash=found.dictionary_hash,
            last_sequence=found.last_sequence,
        )

    def call(
        self,
        function_id: int,
        arguments: bytes = b"",
        count: int = 0,
        *,
        name: str = "",
        on_progress: Callable[[int, int], None] | None = None,
        timeout_s: float | None = None,
    ) -> CallResult:
        """Call a packed function, at most once on the board.

        Args:
            function_id: its id in the dictionary.
            arguments: the arguments, each packed as msgpack, one after the other.
            count: how many arguments, 0..14.
            name: for messages.
            on_progress: called with (done, total) when the board says so.
            timeout_s: longest silence; the session's own when None.

        Raises:
            UsageError: more arguments than a call can hold.
            RpcError: the agent refused the call.
            CheckFailedError: the function ran, and its check says that the result is wrong.
            DeviceError: it trapped, or never ended and was stopped.
            DeviceResetError: the board has lost the session.
            BoardTimeoutError: silence.
            LinkError: the line is gone.
        """
        name = name or f"function {function_id}"
        body = bytes([0x91 + count]) + msgpack.packb(function_id) + arguments
        if self.welcome is not None and (
            count > 14 or len(body) > body_capacity(self.welcome.mtu_rx)
        ):
            raise UsageError(
                f"The arguments of {name} take {len(body)} bytes; the board's frames hold "
                f"{body_capacity(self.welcome.mtu_rx)}.",
                hint="pass large data through board.memory",
            )
        self._sequence += 1
        reply, elapsed_s = self._exchange(
            FrameKind.CALL, self._sequence, body, on_progress, name, timeout_s
        )
        if reply.frame.kind == FrameKind.NO_SESSION:
            raise DeviceResetError(
                f"The board was reset during {name}: it no longer knows this session.",
                hint="connect again; if it happens again, the function crashes the board",
            )
        if reply.frame.kind == FrameKind.ERROR:
            raise refusal(name, reply.frame.body)
        return CallResult(unpack_reply(name, reply.frame.body), reply.frame.body, elapsed_s)

    def _exchange(
        self,
        kind: FrameKind,
        sequence: int,
        body: bytes,
        on_progress: Callable[[int, int], None] | None,
        name: str,
        timeout_s: float | None = None,
    ) -> tuple[Reply, float]:
        if not self._busy.acquire(blocking=False):
            raise UsageError(
                f"{name} was called while another call on {self.transport.name} is under way.",
                hint="use a board from one thread at a time",
            )
        try:
            silence_s = self.timeout_s if timeout_s is None else timeout_s
            return self._until_reply(kind, sequence, body, on_progress, name, silence_s)
        finally:
            self._busy.release()

    def _until_reply(
        self,
        kind: FrameKind,
        sequence: int,
        body: bytes,
        on_progress: Callable[[int, int], None] | None,
        name: str,
        silence_s: float,
    ) -> tuple[Reply, float]:
        begin = self._clock()
        self._client.request(kind, sequence, body)
        self.transport.write(self._client.outgoing(begin), silence_s)
        deadline = self._clock() + silence_s
        while True:
            wait_s = min(self._client.next_at_s, deadline) - self._clock()
            data = self.transport.read(max(wait_s, 0.0))
            now = self._clock()
            for event in self._client.receive(data, now):
                if isinstance(event, Reply):
                    self._take_console()
                    return event, now - begin
                deadline = now + silence_s
                self._report(name, event, on_progress)
            self._take_console()
            if now >= deadline:
                raise self._silent(name, silence_s)
            if outgoing := self._client.outgoing(now):
                self.transport.write(outgoing, deadline - now)

    def _report(
        self, name: str, event: Progress, on_progress: Callable[[int, int], None] | None
    ) -> None:
        fields = unpack_reply(f"{name} (its progress)", event.body)
        if not (isinstance(fields, list) and [type(field) for field in fields[:2]] == [int, int]):
            raise FrameError(f"The board told of its progress in {name} by {fields!r}.")
        if on_progress is not None:
            on_progress(fields[0], fields[1])

    def _take_console(self, *, everything: bool = False) -> None:
        text = self._client.console(everything=everything)
        if text:
            self._console += text
            del self._console[:-CONSOLE_BYTES]
            if self.on_console is not None:
                self.on_console(text)

    @property
    def console(self) -> str:
        """All that came and was no frame, as text."""
        return self._console.decode(errors="replace")

    def _silent(self, name: str, silence_s: float) -> BoardTimeoutError:
        self._take_console(everything=True)
        hint = "check port and baud rate, see that no other host has the board, or reset it"
        if self.welcome is not None:
            hint = (
                f"see whether {name} crashes or never ends; if it is only slow, "
                "give --timeout more seconds"
            )
        return BoardTimeoutError(
            f"The board at {self.transport.name} did not answer {name} for {silence_s:g} s.",
            console=self.console + self.transport.printed(),
            hint=hint,
        )

    def close(self) -> None:
        """Let go of the line."""
        self.transport.close()
