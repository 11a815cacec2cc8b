# SPDX-License-Identifier: Apache-2.0
"""A session with one board: its beginning, calls and channels with deadlines, over a transport."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import msgpack

from boardprof.base.errors import BoardprofError, BoardTimeoutError, LinkError, RpcError, UsageError
from boardprof.wire.link.line import Answer, Line, OnProgress
from boardprof.wire.link.replies import (
    HOST_MTU,
    Welcome,
    hello_body,
    in_use,
    lost_session,
    read_welcome,
    refusal,
    unpack_reply,
)
from boardprof.wire.link.requests import Requests
from boardprof.wire.link.transfer import Receiver, Upload
from boardprof.wire.transport.base import Transport
from boardprof_protocol.codes import BuiltIn, ErrorCode, FrameKind
from boardprof_protocol.frame import body_capacity

_WHY_S = 2.0
"""Time limit for asking the board why it lost the session, if its own time-out is not longer."""

_MOST_ARGUMENTS = 14


class CallResult(NamedTuple):
    """A call's reply."""

    value: object  # None, bool, int, float, str, bytes or a list of these
    body: bytes  # the same as it came, msgpack
    elapsed_s: float
    sent: int = 1


def _call_body(function_id: int, arguments: bytes, count: int) -> bytes:
    """Return a CALL's body: an array of the function's id and ``count`` packed arguments."""
    return bytes([0x90 | (count + 1) & 15]) + bytes(msgpack.packb(function_id)) + arguments


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

        ``timeout_s``: longest silence of the board; only PROGRESS with more done ends one.
        ``claim``: who we are, and whether we want the board although another host has it (SPEC.md
        3.3). ``clock``: the transport must wait by the same clock.
        """
        self._random_bits = random_bits
        self._claim = claim
        self.transport = transport
        self.timeout_s = timeout_s
        self.welcome: Welcome | None = None  # None before `open`
        # the limits for a call that were asked for: the board's time, wall time
        self.asked_s: tuple[float | None, float | None] = (None, None)
        self.calls = 0  # of functions that are not the board's own; at least, if they may be more
        self.has_counted = True  # False once a measurement ended before it told its calls
        self._body_room = body_capacity(HOST_MTU)
        self._sequence = 0
        self.requests = Requests(1 + random_bits(16) % 0xFFFF, transport.byte_time_s)
        self.line = Line(transport, self.requests, clock, on_console)

    def open(self) -> Welcome:
        """Say HELLO and take WELCOME."""
        nonce = self._random_bits(32)
        hello = hello_body(nonce) + self._claim
        with self.line.held("HELLO", self.timeout_s):
            answer = self.line.ask(FrameKind.HELLO, nonce, hello, "HELLO", self.timeout_s)
        if answer.kind == FrameKind.BUSY:
            raise in_use(self.transport.name, answer.body)
        self.welcome = read_welcome(self.transport.name, answer.body)
        self.line.is_board = True
        self.requests.expect_frames(self.welcome.mtu_tx)
        self._body_room = body_capacity(self.welcome.mtu_rx)
        self._sequence = self.welcome.last_sequence
        return self.welcome

    # -- calls ------------------------------------------------------------------------------

    def call(
        self,
        function_id: int,
        arguments: bytes = b"",
        count: int = 0,
        *,
        name: str = "",
        on_progress: OnProgress | None = None,
        timeout_s: float | None = None,
    ) -> CallResult:
        """Call a packed function, at most once on the board, with 0..14 arguments in msgpack."""
        name = name or f"function {function_id}"
        answer = self._result(function_id, arguments, count, name, on_progress, timeout_s)
        value = unpack_reply(name, answer.body)
        return CallResult(value, answer.body, answer.elapsed_s, answer.sent)

    def value(self, function_id: int, arguments: bytes, count: int, name: str) -> object:
        """Call one of the user's functions as `call` does; return the value alone."""
        answer = self._result(function_id, arguments, count, name, runs=1)
        return unpack_reply(name, answer.body)

    def invoke(self, function_id: int, name: str, *arguments: object) -> Any:
        """Call one of the agent's own, with arguments that are not packed yet."""
        packed = b"".join(map(msgpack.packb, arguments))
        return unpack_reply(name, self._result(function_id, packed, len(arguments), name).body)

    def _result(
        self,
        function_id: int,
        arguments: bytes,
        count: int,
        name: str,
        on_progress: OnProgress | None = None,
        timeout_s: float | None = None,
        *,
        runs: int = 0,
    ) -> Answer:
        """Return the RESULT of a call, or raise the error that ended it."""
        body = _call_body(function_id, arguments, count)
        if count > _MOST_ARGUMENTS or len(body) > self._body_room:
            raise UsageError(
                f"The arguments of {name} take {len(body)} bytes; the board's frames hold "
                f"{self._body_room}.",
                hint="pass large data through board.memory",
            )
        silence_s = self.timeout_s if timeout_s is None else timeout_s
        line = self.line
        line.take(name, silence_s)  # as `Line.held`, which costs a null call 1 us
        try:
            self.calls += runs
            self._sequence = sequence = (self._sequence + 1) & 0xFFFFFFFF
            answer = line.ask(FrameKind.CALL, sequence, body, name, silence_s, on_progress)
            if answer.kind == FrameKind.RESULT:
                return answer
            if answer.kind == FrameKind.NO_SESSION:
                raise self._forgotten(name)
            refused = refusal(name, answer.body, line.locate)
            if isinstance(refused, RpcError) and refused.code == ErrorCode.CANCELLED:
                line.cancelled = False
            raise refused
        except BaseException as error:
            line.give_up(error, name)
            raise
        finally:
            line.release()

    def _forgotten(self, name: str) -> BoardprofError:
        """Ask the board why it has lost the session (SPEC.md 3.4); return what that means.

        Under another id than the session's: a late duplicate of its own WELCOME is not an answer.
        """
        requests = self.requests
        requests.channel = None
        answer = None
        own = requests.session
        requests.session = 1 + (own + self._random_bits(16) % 0xFFFE) % 0xFFFF
        nonce = self._random_bits(32)
        hello = hello_body(nonce, version=0)
        silence_s = max(requests.rtt.timeout_s, _WHY_S)
        try:
            with contextlib.suppress(BoardTimeoutError, LinkError):
                answer = self.line.ask(FrameKind.HELLO, nonce, hello, "HELLO", silence_s)[:2]
        finally:
            requests.forget()
            requests.session = own
        boot_id = None if self.welcome is None else self.welcome.boot_id
        return lost_session(self.transport.name, name, boot_id, answer)

    def limit(
        self, timeout_s: float, *, limit_s: float | None, surely_s: float, wall_s: float | None
    ) -> None:
        """Set what ends a call; see `Line`."""
        self.timeout_s = timeout_s
        self.line.limit_s, self.line.surely_s, self.line.wall_s = limit_s, surely_s, wall_s

    @property
    def is_closed(self) -> bool:
        """Whether the line was released."""
        return self.line.is_closed

    def exclusive(self, name: str) -> AbstractContextManager[None]:
        """Keep other threads from the board for several calls; they wait as long as frames come."""
        return self.line.exclusive(name, self.timeout_s)

    def cancel(self) -> None:
        """Ask the board to cancel the call under way: it then ends as RpcError, CANCELLED.

        It does not wait for a turn. Only measurements can be cancelled, between their rounds; other
        calls, and older agents, go on to their end. Between two requests of one turn, the next one
        is cancelled. A measurement that is cancelled at its very end has no result either.
        """
        self.line.cancelled = True

    def check_cancelled(self, name: str) -> None:
        """Raise RpcError, CANCELLED, if `cancel` came in this turn when no call could take it."""
        if self.line.cancelled:
            self.line.cancelled = False
            raise RpcError(f"{name} was cancelled at its end.", code=ErrorCode.CANCELLED)

    # -- channels ---------------------------------------------------------------------------

    @property
    def next_sequence(self) -> int:
        """The number of the next call, and of the channel that it opens."""
        return (self._sequence + 1) & 0xFFFFFFFF

    def open_channel(
        self, channel: Receiver | Upload, function_id: int, name: str, *arguments: object
    ) -> None:
        """Call the function that opens ``channel``, which may then be open even if this raises."""
        self.requests.channel = channel  # its first frame may come right after the reply
        try:
            self.invoke(function_id, name, *arguments)
        except BaseException:
            self.requests.channel = None
            raise
        channel.begin(self.line.clock())

    def drop_channel(self) -> None:
        """Carry the channel's frames no longer; whoever opened it tells the board."""
        self.requests.channel = None

    def carry(
        self, channel: Receiver | Upload, name: str, on_progress: OnProgress | None = None
    ) -> None:
        """Carry a block of known length through its channel to the end."""
        with self.line.held(name, self.timeout_s):
            self.line.carry(channel, name, self.timeout_s, self._is_known, on_progress)

    def _is_known(self, name: str, silence_s: float) -> bool:
        """Return whether the board answers; raise the reason if it has lost the session."""
        self._sequence = self.next_sequence
        body = _call_body(BuiltIn.DESCRIBE, b"\0\0", 2)
        try:
            answer = self.line.ask(FrameKind.CALL, self._sequence, body, name, silence_s)
        except BoardTimeoutError:
            return False
        finally:
            self.requests.forget()
        if answer.kind == FrameKind.NO_SESSION:
            raise self._forgotten(name)
        return True

    def listen(self, timeout_s: float, until: Callable[[], bool], name: str) -> None:
        """Carry the open channel's frames until ``until()`` or the time is over."""
        line = self.line
        with line.held(name, self.timeout_s):
            now = line.clock()
            deadline = now + timeout_s
            while not until():
                _, now = line.pump(now, deadline, self.timeout_s)
                if now >= deadline:
                    return

    # -- the end ----------------------------------------------------------------------------

    def close(self) -> None:
        """Release the line. A call of another thread ends with a `LinkError`."""
        self.line.close()
