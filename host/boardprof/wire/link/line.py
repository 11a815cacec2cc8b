# SPDX-License-Identifier: Apache-2.0
"""A line in use: requests go out until their replies come, and every wait has a deadline."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from boardprof.base.errors import (
    BoardprofError,
    BoardTimeoutError,
    DeviceEndedError,
    DeviceTimeoutError,
    FrameError,
    LinkError,
    UsageError,
)
from boardprof.wire.link.no_answer import (
    MANY_NAKS,
    Overdue,
    find_hang,
    lost_board,
    no_reply,
    no_welcome,
    with_changes,
)
from boardprof.wire.link.replies import Locate, hello_body, taken_over, unpack_reply
from boardprof.wire.link.requests import Console, Requests
from boardprof.wire.link.transfer import Receiver, Upload
from boardprof.wire.transport.base import Clocked, Emulator, Transport, unknown_time
from boardprof_protocol.codes import PROTOCOL_VERSION, FrameKind
from boardprof_protocol.frame import Frame, encode_frame

OnProgress = Callable[[int, int], None]
"""Called with (done, total)."""

_CANCEL_S = 0.25  # seconds that an interrupted call has to end on the board
_LAST_WORDS_S = 0.25  # seconds to read the last bytes of a lost connection
_PRINTS_S = 1.0  # a board that printed within this time counts as still printing
_PLAIN_TRIES = 20
"""Nonces to try; three of four will do."""

_PLAIN_S = 0.3
"""Longest wait for the answer to a last HELLO, which is sent only to find out about the line."""

_WATCH_S = 0.1
"""Longest time until a wait notices that another thread cancels the call or closes the line."""

_CLOSE_S = 2.0  # seconds that closing waits for another thread's call to end
_LOOK_S = 0.01  # seconds that a hanging board runs between two reads of its pc
_PROBE_AFTER = 3
"""Time-outs of a channel after which the board is asked whether it still knows the session."""

_GRACE_S = 5.0
"""Extra seconds that a waiting thread allows: the one that holds the line times out first."""

_NEVER = float("inf")


class ThreadLock:
    """A reentrant lock on one board, with a deadline.

    A thread waits as long as the other one's work goes on: each frame from the board renews the
    deadline. A thread that works in a loop does not overtake one that waits.
    """

    def __init__(self, port: str) -> None:
        """Lock nothing yet; ``port`` is for messages."""
        self._port = port
        self._lock = threading.RLock()  # not a Lock: only its owner can release it
        # Held by the thread that is next, whose deadline ends the wait of those behind it, too.
        self._next = threading.Lock()
        self._depth = self._holder = 0
        self._name = ""
        self._heard_s = 0.0

    def acquire(self, name: str, silence_s: float) -> bool:
        """Take the board; return whether a turn of this thread begins. Each needs its `release`.

        Raises UsageError if the other thread hears nothing from the board for ``silence_s``.
        """
        thread = threading.get_ident()
        if self._holder == thread:
            self._depth += 1
            return False
        try:
            if self._next.locked() or not self._lock.acquire(blocking=False):
                self._wait(name, silence_s)
        except BaseException:
            with contextlib.suppress(RuntimeError):  # not taken, unless Ctrl-C came just after it
                self._lock.release()
            raise
        self._holder, self._depth, self._name = thread, 1, name
        return True

    def acquire_within(self, limit_s: float) -> bool:
        """Take the board without queueing; return False if it is not free after ``limit_s``."""
        thread = threading.get_ident()
        if self._holder != thread:
            if not self._lock.acquire(timeout=limit_s):
                return False
            self._holder = thread
        self._depth += 1
        return True

    def release(self) -> None:
        """Undo one `acquire`; after the first one's, the turn is over."""
        self._depth -= 1
        if not self._depth:
            self._holder = 0
            self._lock.release()

    def tell_frames(self, count: int) -> None:
        """Note that frames came from the board."""
        if count:
            self._heard_s = time.monotonic()

    def _wait(self, name: str, silence_s: float) -> None:
        limit_s = min(silence_s + _GRACE_S, threading.TIMEOUT_MAX)
        began_s = time.monotonic()
        with self._next:
            while True:
                left_s = max(began_s, self._heard_s) + limit_s - time.monotonic()
                if self._lock.acquire(timeout=max(left_s, 0)):
                    self._heard_s = time.monotonic()  # those behind wait for this thread from now
                    return
                if left_s <= 0:
                    names = {each.ident: each.name for each in threading.enumerate()}
                    owner = names.get(self._holder, "unknown")
                    raise UsageError(
                        f"{name} waited {limit_s:g} s for thread {owner}, which holds "
                        f"{self._port} for {self._name} and hears nothing from it.",
                        hint="let that thread end its work on the board first",
                    )


class Answer(NamedTuple):
    """The frame that ended a request."""

    kind: int
    body: bytes
    sent: int
    elapsed_s: float  # from the first sending


class Line:
    """A transport and the state machine that it serves; threads take turns on it."""

    def __init__(
        self,
        transport: Transport,
        requests: Requests,
        clock: Callable[[], float],
        on_console: Callable[[str], None] | None,
    ) -> None:
        """Begin with nothing sent; ``on_console`` gets each line that is not a frame."""
        self.transport = transport
        self.requests = requests
        self.clock = clock  # seconds; the transport waits by the same clock
        self.is_board = False  # a board has answered: its silence is not the line's
        self.cancelled = False  # ends this turn's call under way, or its next one
        self.turns = 0  # of all threads so far
        self.limit_s: float | None = None  # after which the board ends a call, on its clock
        self.surely_s = _NEVER  # wall seconds after which a living board has ended it
        self.wall_s: float | None = None  # longest silence; None derives it from the other limit
        self.locate: Locate | None = None  # None where the image is not known
        self.is_closed = False
        self.called: str | None = None  # the last function of the user's that was called
        self._board_s = transport.board_s if isinstance(transport, Clocked) else unknown_time
        self.console = Console(requests.decoder, on_console, transport.printed)
        self._threads = ThreadLock(transport.name)
        self._is_busy = False
        self._process = os.getpid()

    # -- requests ---------------------------------------------------------------------------

    def ask(
        self,
        kind: FrameKind,
        sequence: int,
        body: bytes,
        name: str,
        silence_s: float,
        on_progress: OnProgress | None = None,
    ) -> Answer:
        """Send a request and return what ends it; the caller has the line, by `take`.

        ``silence_s``: longest silence of the board. PROGRESS ends it only if more is done than
        before.
        """
        requests = self.requests
        if kind == FrameKind.CALL and not name.startswith("bp."):  # not the agent's own
            self.called = name
        encoded = requests.encode(kind, sequence, body)
        begin = self.clock()
        self.transport.write(encoded, silence_s)
        requests.request(kind, sequence, encoded, begin, silence_s)
        now = self.clock()
        if requests.channel is not None and (more := requests.outgoing(now)):
            self.transport.write(more, silence_s)
        end, now = self._await_end(kind, name, now, silence_s, on_progress)
        return Answer(end.kind, end.body, requests.sent, now - begin)

    def _await_end(
        self,
        kind: FrameKind,
        name: str,
        now: float,
        silence_s: float,
        on_progress: OnProgress | None,
    ) -> tuple[Frame, float]:
        """Return the frame that ends the request under way, and the time."""
        deadline = now + silence_s
        overdue = Overdue(self.limit_s, self._board_s, now)
        most_done, began_s, printed_at_s = -1, now, -_NEVER
        while True:
            frames, now = self.pump(now, min(deadline, overdue.look_at_s), silence_s)
            for frame in frames:
                if frame.kind != FrameKind.PROGRESS:
                    self.console.end_call(now)
                    return frame, now
                done, total = _progress(name, frame)
                if most_done < done <= total:  # otherwise a board could keep us here for ever
                    most_done = done
                    deadline = now + silence_s
                    overdue.renew(now)
                self.console.follow(now)
                if on_progress is not None:
                    on_progress(done, total)
            if self.console.printed_at_s > max(began_s, printed_at_s):
                printed_at_s = self.console.printed_at_s
                overdue.renew(now)
            if overdue.is_certain(now):
                raise self._unended(name, None, overdue, prints=False)
            if now >= deadline:
                if kind == FrameKind.CALL and isinstance(self.transport, Emulator):
                    prints = now - printed_at_s < _PRINTS_S
                    raise self._unended(name, silence_s, overdue, prints=prints)
                raise self._silent(name, silence_s)
            if self.cancelled:
                self.requests.cancel(now)

    def carry(
        self,
        channel: Receiver | Upload,
        name: str,
        silence_s: float,
        is_known: Callable[[str, float], bool],
        on_progress: OnProgress | None,
    ) -> None:
        """Carry a block through its channel to the last acknowledgement, within `held`.

        ``silence_s``: longest time that brings nothing new. ``is_known``: asks the board, by a call
        of this name with a limit in seconds, whether it still knows the session; False if it does
        not answer.
        """
        length = channel.length or 0
        now = self.clock()
        position, deadline = channel.position, now + silence_s
        probe_after = _PROBE_AFTER
        while not channel.done:
            if outgoing := self.requests.outgoing(now):
                self.transport.write(outgoing, silence_s)
                now = self.clock()
            _, now = self.pump(now, deadline, silence_s)
            if channel.position != position:
                position, deadline = channel.position, now + silence_s
                probe_after = _PROBE_AFTER
                if on_progress is not None:
                    on_progress(position, length)
                continue
            answers = now < deadline
            if answers and channel.timer.count >= probe_after:
                probe_after *= 2
                answers = is_known(name, deadline - now)
                now = self.clock()
            if not answers:
                where = f" after {channel.position} of {length} bytes"
                raise self._silent(name, silence_s, where)

    def pump(self, now: float, deadline: float, silence_s: float) -> tuple[Sequence[Frame], float]:
        """Take what comes until something is due, but not beyond ``deadline``; send what is due."""
        data = self._read(now, deadline)
        now = self.clock()
        frames = self.requests.receive(data, now)
        self._threads.tell_frames(len(frames))
        self.console.take(now)
        if now < deadline and (outgoing := self.requests.outgoing(now)):
            self.transport.write(outgoing, silence_s)
        return frames, now

    def _read(self, now: float, deadline: float) -> bytes:
        """Read until something is due, but not beyond ``deadline``."""
        if self.is_closed:
            raise self._closed()
        until = min(self.requests.next_at_s, deadline, self.console.quiet_at_s, now + _WATCH_S)
        try:
            return self.transport.read(max(until - now, 0.0))
        except LinkError as error:
            if not self.is_board:
                error.add_console(self.console.take_all(self.clock()))
            raise

    def _break_off(self) -> None:
        """Give the board a moment to end the interrupted call; it answers no other host before."""
        now = self.clock()
        deadline = now + _CANCEL_S
        if not self.requests.cancel(now):
            return
        try:
            self.transport.write(self.requests.outgoing(now), _CANCEL_S)
            while now < deadline and self.requests.waits:
                _, now = self.pump(now, deadline, _CANCEL_S)
        except BoardprofError:
            return  # show the user the interruption

    # -- one at a time ----------------------------------------------------------------------

    @contextlib.contextmanager
    def held(self, name: str, silence_s: float) -> Iterator[None]:
        """Take the line in a ``with``, for one request or more; raises as `take` and `give_up`."""
        self.take(name, silence_s)
        try:
            yield
        except BaseException as error:
            self.give_up(error, name)
            raise
        finally:
            self.release()

    def take(self, name: str, silence_s: float) -> None:
        """Take the line for requests, or wait for the thread that has it; then `release` it."""
        self._begin_turn(name, silence_s)
        if self._is_busy or self.is_closed:
            self._threads.release()
            if self.is_closed:
                raise self._closed()
            raise UsageError(
                f"{name} was called while another call on {self.transport.name} is under way.",
                hint="call the board after that call, not within its on_progress",
            )
        self._is_busy = True

    def release(self) -> None:
        """Undo `take`."""
        self._is_busy = False
        self._threads.release()

    @contextlib.contextmanager
    def exclusive(self, name: str, silence_s: float) -> Iterator[None]:
        """Keep other threads from the line, while this one makes several requests."""
        self._begin_turn(name, silence_s)
        try:
            yield
        finally:
            self._threads.release()

    def _begin_turn(self, name: str, silence_s: float) -> None:
        if os.getpid() != self._process:
            raise UsageError(
                f"{name} was called in a different process from the one that connected to "
                f"{self.transport.name}: two processes would mix their bytes on one line.",
                hint="connect after the fork, in the process that uses the board",
            )
        if self._threads.acquire(name, silence_s):
            self.cancelled = False
            self.turns += 1

    def give_up(self, error: BaseException, name: str) -> None:
        """End what is under way; replace an error of the line by a more specific one, if any."""
        if isinstance(error, KeyboardInterrupt):
            self._break_off()
        self.requests.forget()
        if isinstance(error, LinkError):
            self._explain(error, name)

    def _explain(self, error: LinkError, name: str) -> None:
        """Read the last bytes of a lost connection: did another host take over the board?"""
        if type(error) is LinkError:
            # The line may still work: a peer that never stops sending causes this error, too.
            deadline = self.clock() + _LAST_WORDS_S
            with contextlib.suppress(BoardprofError):
                while self.clock() < deadline and (data := self.transport.read(0.0)):
                    self.requests.receive(data, self.clock())
        if self.requests.taken_by is not None:
            raise taken_over(self.transport.name, self.requests.taken_by) from error
        if self.is_board and error.ended:
            hint = f"check {name} for stack overflow and for writes through invalid pointers"
            if name.startswith("bp."):  # the agent's own function, and not the one to blame
                hint = "find out who ended it, or what an earlier call has overwritten"
            raise DeviceEndedError(
                f"The board ended during {name}: {error.ended}", hint=f"{hint}; then connect again"
            ) from error

    # -- what ends a wait -------------------------------------------------------------------

    def _silent(self, name: str, silence_s: float, where: str = "") -> BoardprofError:
        """Return the error for a board that says nothing; ``where`` it stopped, for messages."""
        text, printed = self.console.take_all(self.clock()), self.console.unfollowed
        asked = self.requests
        port, naks = self.transport.name, asked.naks
        if not self.is_board:
            heard, echoes = self.console.data, asked.echoes
            error = no_welcome(port, silence_s, heard, naks=naks, echoes=echoes, printed=printed)
            damaged = self._try_plain_hello() if naks >= MANY_NAKS else asked.pending
            return with_changes(error, naks, damaged, asked.arrived, asked.decoder.refused)
        is_wall = silence_s == self.wall_s
        console = text + printed
        lost = no_reply(port, name, silence_s, where, is_wall=is_wall, naks=naks, console=console)
        return with_changes(lost, naks, asked.pending, asked.arrived, asked.decoder.refused)

    def _try_plain_hello(self) -> bytes:
        """Send a HELLO that flow control lets pass; return a frame that did not arrive.

        Each HELLO of our version begins with XON. A board also answers one of another version. If
        it asks for version 0, it begins no session (SPEC.md 3.1, 3.4).
        """
        nonce, encoded = 0, b""
        for nonce in range(0x41414141, 0x41414141 + _PLAIN_TRIES):
            body = hello_body(nonce, version=0)
            hello = Frame(FrameKind.HELLO, 1, nonce, body, PROTOCOL_VERSION + 1)
            encoded = encode_frame(hello, self.requests.decoder.cobs)
            if not any(byte in encoded for byte in b"\x11\x13\r"):  # XON, XOFF, CR
                break
        until = self.clock() + _PLAIN_S
        self.transport.write(encoded, _PLAIN_S)
        while self.clock() < until:
            for frame in self.requests.decoder.feed(self.transport.read(_PLAIN_S / 10)):
                if frame.kind == FrameKind.WELCOME and frame.sequence == nonce:
                    self.requests.arrived.update(encoded)
                    return self.requests.pending
        return encoded

    def _unended(
        self, name: str, wall_s: float | None, overdue: Overdue, *, prints: bool
    ) -> BoardTimeoutError | DeviceTimeoutError:
        """Return the error for a call that has not ended; end an emulator of ours that hangs.

        ``wall_s``: the wall-time limit that passed. None if the limit on the board's clock passed.
        """
        emulator = self.transport
        if isinstance(emulator, Emulator):
            hang = find_hang(emulator, self.locate, self._go_on, prints=prints)
            # If the clock cannot be read, treat it as a hang while the board might still end it.
            if hang is not None and (hang.is_seen or prints or (wall_s or _NEVER) < self.surely_s):
                self.close()
                return hang.error(name, self.limit_s, overdue.passed_s, wall_s)
        console = self.console.take_all(self.clock()) + self.console.unfollowed
        return lost_board(emulator.name, name, self.limit_s, wall_s, console, called=self.called)

    def _go_on(self) -> None:
        """Let an emulator go on for a moment, unless it has ended."""
        with contextlib.suppress(LinkError):
            self.transport.read(_LOOK_S)

    def close(self) -> None:
        """Let go of the line: a call of another thread fails. Do nothing in a forked process."""
        if self.is_closed:
            return
        self.is_closed = True
        if os.getpid() != self._process:
            return
        has_line = self._threads.acquire_within(_CLOSE_S)  # not if that thread is in a callback
        try:
            if has_line:
                self.console.take(self.clock(), everything=True)
                self.console.end_call(self.clock())
            self.transport.close()
        finally:
            if has_line:
                self._threads.release()

    def _closed(self) -> LinkError:
        return LinkError(f"{self.transport.name} is closed", hint="connect again")


def _progress(name: str, event: Frame) -> tuple[int, int]:
    """Return how much of ``name`` is done, and how much there is in all."""
    fields = unpack_reply(f"{name} (its progress)", event.body)
    if not (isinstance(fields, list) and [type(field) for field in fields[:2]] == [int, int]):
        raise FrameError(
            f"The board reported its progress in {name} as {fields!r}, not as two numbers."
        )
    return fields[0], fields[1]
