# SPDX-License-Identifier: Apache-2.0
"""A session with one board: the handshake, calls and channels with deadlines over a transport."""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgpack

from boardprof.channel import Receiver, Upload
from boardprof.console import Console
from boardprof.errors import (
    BoardprofError,
    BoardTimeoutError,
    BusyError,
    DeviceResetError,
    FrameError,
    LinkError,
    ProtocolMismatchError,
    UsageError,
)
from boardprof.refusal import Locate, refusal, unpack_reply
from boardprof.rpc import Channel, Progress, Reply, RpcClient
from boardprof.silence import no_welcome
from boardprof.transport.base import Transport
from boardprof_protocol.codes import (
    HELLO_MAGIC,
    PROTOCOL_VERSION,
    BuiltIn,
    FrameKind,
    ResetCause,
    WelcomeFlag,
)
from boardprof_protocol.frame import body_capacity
from boardprof_protocol.handshake import HELLO, OWNER_BYTES, WELCOME

__all__ = ["CallResult", "Session", "Welcome"]

_CANCEL_S = 1.0
"""How long an interrupted call is given to end on the board."""

_PROBE_AFTER = 3
"""Time-outs of a channel after which the board is asked whether it still knows the session."""

_WHY_S = 0.25
"""How long the board is asked why it has lost the session, where its time-out is not longer."""

_CALL, _RESULT = int(FrameKind.CALL), int(FrameKind.RESULT)
_NIL = b"\xc0"
_NEVER = float("inf")
_ARRAYS = tuple(bytes([0x91 + count]) for count in range(15))
"""Heads of CALLs with so many arguments behind the function's id."""

HOST_MTU = 65535
"""Longest encoded frame that the host takes, in bytes."""


_RESETS = {
    cause.value: f" ({cause.name.lower().replace('_', ' ')})"
    for cause in ResetCause
    if cause is not ResetCause.UNKNOWN
}
"""What a reset's cause adds to a message."""


def _owner(body: bytes) -> str:
    """Return the host that a BUSY names."""
    return body[:OWNER_BYTES].rstrip(b"\0").decode(errors="replace") or "a host without a name"


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


class CallResult(NamedTuple):
    """A call's reply.

    Attributes:
        value: the return value: None, bool, int, float, str, bytes or a list of these.
        body: the same as it came, msgpack.
        elapsed_s: host time from the first sending to the reply.
        sent: how often the request was sent.
    """

    value: object
    body: bytes
    elapsed_s: float
    sent: int = 1


class Session:
    """Calls over one transport, one at a time, and beside them at most one channel."""

    def __init__(
        self,
        transport: Transport,
        *,
        timeout_s: float,
        claim: bytes = b"",
        on_console: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        random_bits: Callable[[int], int] = secrets.randbits,
    ) -> None:
        """Prepare a session; `open` begins it.

        Args:
            transport: the line to the board; closed with the session.
            timeout_s: longest silence of the board. PROGRESS ends a silence.
            claim: who we are, and whether we want the board although another host has it
                (SPEC.md 3.3); stands behind HELLO's own fields.
            on_console: gets each line that the board prints beside its frames, as it comes.
            clock: seconds that only grow; the transport must wait by the same clock.
            random_bits: random number of so many bits; for the session id and the nonce.
        """
        self._clock = clock
        self._random_bits = random_bits
        self._claim = claim
        self.transport = transport
        self.timeout_s = timeout_s
        self.locate: Locate | None = None  # names the source lines of faults
        self.welcome: Welcome | None = None
        self._body_room = body_capacity(HOST_MTU)
        self._sequence = 0
        self._console = Console(on_console)
        self._busy = threading.Lock()
        self._cancelled = False
        self._client = RpcClient(1 + random_bits(16) % 0xFFFF, transport.byte_time_s)

    def open(self) -> Welcome:
        """Say HELLO and take WELCOME.

        Raises:
            BoardTimeoutError: no answer within the time-out; carries the console text.
            BusyError: another host has the board.
            ProtocolMismatchError: the board speaks another version.
        """
        hello = self._hello(PROTOCOL_VERSION) + self._claim
        reply, _ = self._exchange(FrameKind.HELLO, 0, hello, None, "HELLO")
        if reply.kind == FrameKind.BUSY:
            raise self._busy_board(reply.body)
        self.welcome = self._read_welcome(reply)
        self._client.expect_frames(self.welcome.mtu_tx)
        self._body_room = body_capacity(self.welcome.mtu_rx)
        self._sequence = self.welcome.last_sequence
        return self.welcome

    def _other_id(self) -> int:
        """Return a random session id that is not this session's."""
        return 1 + (self._client.session + self._random_bits(16) % 0xFFFE) % 0xFFFF

    def _hello(self, version: int) -> bytes:
        """Return a HELLO's body; of version 0 it begins no session (SPEC.md 3.4)."""
        fields = {
            "magic": HELLO_MAGIC,
            "version_min": version,
            "version_max": version,
            "mtu": HOST_MTU,
            "nonce": self._random_bits(32),
        }
        return bytes(HELLO.struct.build(fields))

    def _busy_board(self, body: bytes) -> BusyError:
        owner = _owner(body)
        return BusyError(
            f"The board at {self.transport.name} is in use by {owner}.",
            owner=owner,
            hint="wait until it is free, or take it over with --takeover",
        )

    def _taken_over(self, body: bytes | None) -> BusyError:
        owner = _owner(body) if body is not None else ""
        return BusyError(
            f"Another host took the board at {self.transport.name} over{owner and ': '}{owner}.",
            owner=owner,
            hint="connect again when it is free, or take it back with --takeover",
        )

    def _taken(self, error: LinkError) -> BusyError | None:
        """Read the last words of a line that is gone: did another host take the board over?"""
        if type(error) is LinkError:
            with contextlib.suppress(BoardprofError):
                while data := self.transport.read(0.0):
                    self._client.receive(data, self._clock())
        taken_by = self._client.taken_by
        return None if taken_by is None else self._taken_over(taken_by)

    def _read_welcome(self, reply: Reply) -> Welcome:
        body = reply.body
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
        body = (_ARRAYS[count] if count < 15 else b"") + msgpack.packb(function_id) + arguments
        if count > 14 or len(body) > self._body_room:
            raise UsageError(
                f"The arguments of {name} take {len(body)} bytes; the board's frames hold "
                f"{self._body_room}.",
                hint="pass large data through board.memory",
            )
        self._sequence = self.next_sequence
        reply, elapsed_s = self._exchange(_CALL, self._sequence, body, on_progress, name, timeout_s)
        kind, body, sent = reply
        value = None if body == _NIL and kind == _RESULT else self._value(name, reply)
        return CallResult(value, body, elapsed_s, sent)

    def _value(self, name: str, reply: Reply) -> object:
        """Return the value of a RESULT; raise what another reply stands for."""
        kind, body, _ = reply
        if kind == _RESULT:
            return unpack_reply(name, body)
        if kind == FrameKind.NO_SESSION:
            raise self._forgotten(name)
        raise refusal(name, body, self.locate)

    def _forgotten(self, name: str) -> BoardprofError:
        """Ask the board why it has lost the session (SPEC.md 3.4); return what that means.

        Under another id than the session's: a late duplicate of its own WELCOME is no answer.
        """
        self._client.channel = None
        own, self._client.session = self._client.session, self._other_id()
        try:
            return self._why(name)
        finally:
            self._client.session = own

    def _why(self, name: str) -> BoardprofError:
        cause = ""
        with contextlib.suppress(BoardTimeoutError, LinkError):
            silence_s = max(self._client.rtt.timeout_s, _WHY_S)
            hello = self._hello(0)
            reply, _ = self._until_reply(FrameKind.HELLO, 0, hello, None, "HELLO", silence_s)
            body = reply.body
            if reply.kind == FrameKind.BUSY:
                return self._taken_over(body)
            now = WELCOME.struct.parse(body[: WELCOME.size].ljust(WELCOME.size, b"\0"))
            if self.welcome is not None and now.boot_id == self.welcome.boot_id:
                return self._taken_over(None)
            cause = _RESETS.get(now.reset_cause, "")
        self._client.forget()
        return DeviceResetError(
            f"The board was reset during {name}{cause}: it no longer knows this session.",
            hint="connect again; if it happens again, the function crashes the board",
        )

    def cancel(self) -> None:
        """Ask the board to break the call under way off: it then ends as RpcError, CANCELLED.

        For an `on_progress` that wants no more, or another thread. Only measurements can be broken
        off, and only between their rounds; other calls, and older agents, go on to their end.
        """
        self._cancelled = True

    def _exchange(
        self,
        kind: int,
        sequence: int,
        body: bytes,
        on_progress: Callable[[int, int], None] | None,
        name: str,
        timeout_s: float | None = None,
    ) -> tuple[Reply, float]:
        if not self._busy.acquire(False):
            raise self._in_use(name)
        try:
            silence_s = self.timeout_s if timeout_s is None else timeout_s
            return self._until_reply(kind, sequence, body, on_progress, name, silence_s)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                self._break_off()
            self._client.forget()
            if isinstance(error, LinkError) and (taken := self._taken(error)) is not None:
                raise taken from error
            raise
        finally:
            self._busy.release()

    def _in_use(self, name: str) -> UsageError:
        return UsageError(
            f"{name} was called while another call on {self.transport.name} is under way.",
            hint="use a board from one thread at a time",
        )

    def _until_reply(
        self,
        kind: int,
        sequence: int,
        body: bytes,
        on_progress: Callable[[int, int], None] | None,
        name: str,
        silence_s: float,
    ) -> tuple[Reply, float]:
        self._cancelled = False
        client = self._client
        begin = self._clock()
        client.request(kind, sequence, body, silence_s)
        self.transport.write(client.outgoing(begin), silence_s)
        now = self._clock()
        deadline = now + silence_s
        while True:
            events, now = self._turn(now, deadline, silence_s)
            for event in events:
                if isinstance(event, Reply):
                    if self._console.quiet_at_s < _NEVER:
                        self._console.flush()
                    return event, now - begin
                deadline = now + silence_s
                self._report(name, event, on_progress)
            if now >= deadline:
                raise self._silent(name, silence_s)
            if self._cancelled:
                self._client.cancel(now)

    def _turn(
        self, now: float, deadline: float, silence_s: float
    ) -> tuple[Sequence[Reply | Progress], float]:
        """Take what comes until something is due, but not beyond ``deadline``; send what is due.

        Returns:
            What came, and the time.
        """
        client = self._client
        until = client.next_at_s
        if until > deadline:
            until = deadline
        if until > self._console.quiet_at_s:
            until = self._console.quiet_at_s
        data = self.transport.read(until - now if until > now else 0.0)
        now = self._clock()
        events = client.receive(data, now)
        if client.has_text or now >= self._console.quiet_at_s:
            self._take_console(now)
        if client.has_outgoing and now < deadline and (outgoing := client.outgoing(now)):
            self.transport.write(outgoing, silence_s)
        return events, now

    def _break_off(self) -> None:
        """Give the board a moment to end the call that the user has interrupted.

        Otherwise it would measure on, and answer no other host until it has done.
        """
        now = self._clock()
        deadline = now + _CANCEL_S
        if not self._client.cancel(now):
            return
        try:
            self.transport.write(self._client.outgoing(now), _CANCEL_S)
            while now < deadline and self._client.waits:
                _, now = self._turn(now, deadline, _CANCEL_S)
        except BoardprofError:
            return  # the interruption is what the user shall see

    def _report(
        self, name: str, event: Progress, on_progress: Callable[[int, int], None] | None
    ) -> None:
        fields = unpack_reply(f"{name} (its progress)", event.body)
        if not (isinstance(fields, list) and [type(field) for field in fields[:2]] == [int, int]):
            raise FrameError(f"The board told of its progress in {name} by {fields!r}.")
        if on_progress is not None:
            on_progress(fields[0], fields[1])

    # -- channels ---------------------------------------------------------------------------

    @property
    def client(self) -> RpcClient:
        """The state machine, for who makes channels."""
        return self._client

    @property
    def next_sequence(self) -> int:
        """The number of the next call, and of the channel that it opens."""
        return (self._sequence + 1) & 0xFFFFFFFF

    @property
    def channel(self) -> Channel | None:
        """The open channel, None: none is."""
        return self._client.channel

    def open_channel(
        self, channel: Receiver | Upload, function_id: int, arguments: bytes, count: int, name: str
    ) -> None:
        """Call the function that opens ``channel``, and carry its frames from then on.

        Raises as `call`; the channel is open nevertheless if the board has got so far.
        """
        self._client.channel = channel  # its first frame may come right behind the reply
        try:
            self.call(function_id, arguments, count, name=name)
        except BaseException:
            self._client.channel = None
            raise
        channel.begin(self._clock())

    def drop_channel(self) -> None:
        """Carry the channel's frames no longer; whoever opened it tells the board."""
        self._client.channel = None

    def carry(
        self,
        channel: Receiver | Upload,
        name: str,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Carry a block through its channel to the end.

        Args:
            channel: the open channel, of known length.
            name: for messages.
            on_progress: called with (bytes done, bytes in all) when there is something new.

        Raises:
            BoardTimeoutError: for the session's time-out nothing new came.
            DeviceResetError: the board has lost the session.
            LinkError: the line is gone.
        """
        length = channel.length or 0

        def silent() -> BoardprofError:
            where = f" after {channel.position} of {length} bytes"
            return self._silent(name, self.timeout_s, where)

        if not self._busy.acquire(False):
            raise self._in_use(name)
        try:
            now = self._clock()
            position, deadline = channel.position, now + self.timeout_s
            probe_after = _PROBE_AFTER
            while not channel.done:
                if outgoing := self._client.outgoing(now):
                    self.transport.write(outgoing, self.timeout_s)
                    now = self._clock()
                _, now = self._turn(now, deadline, self.timeout_s)
                if channel.position != position:
                    position, deadline = channel.position, now + self.timeout_s
                    probe_after = _PROBE_AFTER
                    if on_progress is not None:
                        on_progress(position, length)
                elif now >= deadline:
                    raise silent()
                elif channel.timeouts >= probe_after:
                    probe_after *= 2
                    if not self._is_known(name, deadline - now):
                        raise silent()
                    now = self._clock()
        except LinkError as error:
            if (taken := self._taken(error)) is not None:
                raise taken from error
            raise
        finally:
            self._busy.release()

    def _is_known(self, name: str, silence_s: float) -> bool:
        """See whether the board still knows the session: of a lost channel it says nothing.

        Returns:
            Whether it answers at all.

        Raises:
            DeviceResetError: it has lost the session.
        """
        self._sequence = self.next_sequence
        body = _ARRAYS[2] + msgpack.packb(int(BuiltIn.DESCRIBE)) + b"\0\0"
        try:
            reply, _ = self._until_reply(
                FrameKind.CALL, self._sequence, body, None, name, silence_s
            )
        except BoardTimeoutError:
            return False
        finally:
            self._client.forget()
        if reply.kind == FrameKind.NO_SESSION:
            raise self._forgotten(name)
        return True

    def listen(self, timeout_s: float, until: Callable[[], bool], name: str) -> None:
        """Carry the open channel's frames until ``until()`` or the time is over."""
        if not self._busy.acquire(False):
            raise self._in_use(name)
        try:
            now = self._clock()
            deadline = now + timeout_s
            while not until():
                _, now = self._turn(now, deadline, self.timeout_s)
                if now >= deadline:
                    return
        except LinkError as error:
            if (taken := self._taken(error)) is not None:
                raise taken from error
            raise
        finally:
            self._busy.release()

    # -- what is no frame -------------------------------------------------------------------

    def _take_console(self, now: float, *, everything: bool = False) -> None:
        if text := self._client.console(everything=everything, lines=True):
            self._console.feed(text, now)
        elif now >= self._console.quiet_at_s:
            self._console.flush()

    @property
    def console(self) -> str:
        """All that came and was no frame, as text."""
        return self._console.text

    def _silent(self, name: str, silence_s: float, where: str = "") -> BoardprofError:
        self._take_console(self._clock(), everything=True)
        self._console.flush()
        port, printed = self.transport.name, self.transport.printed()
        if self.welcome is None:
            return no_welcome(
                port, silence_s, self._console.data, naks=self._client.naks, printed=printed
            )
        return BoardTimeoutError(
            f"The board at {port} did not answer {name} for {silence_s:g} s{where}.",
            console=self.console + printed,
            hint=f"see whether {name} crashes or never ends; if it is only slow, "
            "give --timeout more seconds",
        )

    def close(self) -> None:
        """Let go of the line."""
        self._take_console(self._clock(), everything=True)
        self._console.flush()
        self.transport.close()
