# SPDX-License-Identifier: Apache-2.0
"""A line in use: requests go out until their replies come, and every wait has a deadline."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence

from boardprof.errors import (
    BoardprofError,
    BoardTimeoutError,
    DeviceEndedError,
    DeviceTimeoutError,
    FrameError,
    LinkError,
    UsageError,
)
from boardprof.link.console import Console
from boardprof.link.handshake import taken_over
from boardprof.link.hang import find_hang
from boardprof.link.overdue import Overdue
from boardprof.link.refusal import Locate, unpack_reply
from boardprof.link.rpc import Progress, Reply, RpcClient
from boardprof.link.silence import no_welcome
from boardprof.transport.base import Clocked, Emulator, Transport, nobody_knows
from boardprof_protocol.codes import FrameKind

__all__ = ["Answer", "Line", "OnProgress"]

Answer = tuple[int, bytes, int, float]
"""Kind and body of a reply, how often its request was sent, and the seconds since the first time.

A plain tuple: a null call takes about as long as its bytes take through the kernel twice, and what
stands on its way is kept short.
"""

OnProgress = Callable[[int, int], None]
"""Called with (done, total)."""

_CANCEL_S = 1.0
"""How long an interrupted call is given to end on the board."""

_MANY_NAKS = 10
"""In a session; a few come of any line."""

_LAST_WORDS_S = 0.25
"""How long is read what a line that is gone has still brought."""

_PRINTS_S = 1.0
"""Who has printed so lately, prints on."""

_LOOK_S = 0.01
"""How long a board that hangs goes on between two looks at where it is."""

_NEVER = float("inf")
_CALL, _RESULT = int(FrameKind.CALL), int(FrameKind.RESULT)


class Line:
    """A transport and the state machine that it serves, for one thread at a time.

    Attributes:
        transport: carries the bytes.
        client: the state machine.
        clock: seconds that only grow; the transport waits by the same clock.
        is_board: whether a board has answered: its silence is its own then, not the line's.
        cancelled: ends the call under way as soon as the board lets it.
        limit_s: after which the board itself ends a call, on its clock; None: it does not.
        surely_s: wall seconds after which a board that lives has ended a call by that limit.
        wall_s: longest silence where it is a limit in wall time; None: it follows from the other.
        locate: finds the source lines of addresses; None where the image is not known.
        is_closed: whether the line was let go of.
    """

    def __init__(
        self,
        transport: Transport,
        client: RpcClient,
        clock: Callable[[], float],
        on_console: Callable[[str], None] | None,
    ) -> None:
        """Begin with nothing sent; ``on_console`` gets each line that is no frame."""
        self.transport = transport
        self.client = client
        self.clock = clock
        self.is_board = False
        self.cancelled = False
        self.limit_s: float | None = None
        self.surely_s = _NEVER
        self.wall_s: float | None = None
        self.locate: Locate | None = None
        self.is_closed = False
        self._board_s = transport.board_s if isinstance(transport, Clocked) else nobody_knows
        self._has_printed = False
        self._console = Console(on_console)
        self._follows = on_console is not None
        self._taken = len(transport.printed()) if self._follows else 0  # characters
        self._busy = threading.Lock()
        self._process = os.getpid()

    # -- requests ---------------------------------------------------------------------------

    def exchange(
        self,
        kind: int,
        sequence: int,
        body: bytes,
        on_progress: OnProgress | None,
        name: str,
        silence_s: float,
    ) -> Answer:
        """Send a request and return what ends it.

        Args:
            kind: of the request's frame.
            sequence: its number.
            body: of the frame.
            on_progress: see `OnProgress`.
            name: for messages.
            silence_s: longest silence of the board. PROGRESS ends a silence if more is done than
                before.

        Raises:
            UsageError: another thread is at it, or the line is of the process that forked this one.
            BoardTimeoutError: silence.
            DeviceTimeoutError: silence of an emulator in which the function hangs; it has ended.
            BusyError: another host has taken the board over.
            DeviceEndedError: the program that is the board has ended.
            LinkError: the line is gone.
        """
        self._take_line(name)
        try:
            return self.ask(kind, sequence, body, name, silence_s, on_progress)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                self._break_off()
            self.client.forget()
            if isinstance(error, LinkError):
                self._explain(error, name)
            raise
        finally:
            self._busy.release()

    def ask(
        self,
        kind: int,
        sequence: int,
        body: bytes,
        name: str,
        silence_s: float,
        on_progress: OnProgress | None = None,
    ) -> Answer:
        """Do the same for who has the line already: within `held`, or behind an `exchange`."""
        self.cancelled = False
        client = self.client
        begin = self.clock()
        self.transport.write(client.request(kind, sequence, body, silence_s), silence_s)
        client.sent(begin)
        now = self.clock()
        if client.channel is not None and (more := client.outgoing(now)):
            self.transport.write(more, silence_s)
        deadline = now + silence_s
        data = self._read(now, deadline)
        now = self.clock()
        result = client.result(data, now)
        if result is not None:  # as most calls end
            self._end_call(now)
            return _RESULT, result, 1, now - begin
        events = self._take(data, now, deadline, silence_s)
        overdue = Overdue(self.limit_s, self._board_s, now)
        most_done, printed_at_s = -1, -_NEVER
        while True:
            for event in events:
                if isinstance(event, Reply):
                    self._end_call(now)
                    return event.kind, event.body, event.sent, now - begin
                done, total = _progress(name, event)
                if most_done < done <= total:  # else a board could hold us for ever
                    most_done = done
                    deadline = now + silence_s
                    overdue.renew(now)
                self._follow(now)
                if on_progress is not None:
                    on_progress(done, total)
            if self._has_printed:
                self._has_printed = False
                printed_at_s = now
                overdue.renew(now)
            if overdue.is_certain(now):
                raise self._unended(name, None, overdue, prints=False)
            if now >= deadline:
                if kind == _CALL and isinstance(self.transport, Emulator):
                    prints = now - printed_at_s < _PRINTS_S
                    raise self._unended(name, silence_s, overdue, prints=prints)
                raise self.silent(name, silence_s)
            if self.cancelled:
                client.cancel(now)
            until = min(deadline, overdue.look_at_s)
            events, now = self.turn(now, until, silence_s)

    def turn(
        self, now: float, deadline: float, silence_s: float
    ) -> tuple[Sequence[Reply | Progress], float]:
        """Take what comes until something is due, but not beyond ``deadline``; send what is due.

        Returns:
            What came, and the time.
        """
        data = self._read(now, deadline)
        now = self.clock()
        return self._take(data, now, deadline, silence_s), now

    def _read(self, now: float, deadline: float) -> bytes:
        until = self.client.next_at_s
        if until > deadline:
            until = deadline
        if until > self._console.quiet_at_s:
            until = self._console.quiet_at_s
        try:
            return self.transport.read(until - now if until > now else 0.0)
        except LinkError as error:
            if not self.is_board:
                self._take_console(self.clock(), everything=True)
                error.add_console(self.console)
            raise

    def _take(
        self, data: bytes, now: float, deadline: float, silence_s: float
    ) -> Sequence[Reply | Progress]:
        events = self.client.receive(data, now)
        if self.client.has_text or now >= self._console.quiet_at_s:
            self._take_console(now)
        if now < deadline and (outgoing := self.client.outgoing(now)):
            self.transport.write(outgoing, silence_s)
        return events

    def _break_off(self) -> None:
        """Give the board a moment to end the call that the user has interrupted.

        Otherwise it would measure on, and answer no other host until it has done.
        """
        now = self.clock()
        deadline = now + _CANCEL_S
        due = self.client.outgoing(now)  # the CALL, if it is not noted yet that it was sent
        if not self.client.cancel(now):
            return
        try:
            self.transport.write(due + self.client.outgoing(now), _CANCEL_S)
            while now < deadline and self.client.waits:
                _, now = self.turn(now, deadline, _CANCEL_S)
        except BoardprofError:
            return  # the interruption is what the user shall see

    # -- one at a time ----------------------------------------------------------------------

    @contextlib.contextmanager
    def held(self, name: str) -> Iterator[None]:
        """Have the line for more than one exchange; raises as `exchange`."""
        self._take_line(name)
        try:
            yield
        except LinkError as error:
            self._explain(error, name)
            raise
        finally:
            self._busy.release()

    def _take_line(self, name: str) -> None:
        if self._is_forked:
            raise UsageError(
                f"{name} was called in another process than the one that connected to "
                f"{self.transport.name}: two would mix up their bytes on one line.",
                hint="connect after the fork, in the process that uses the board",
            )
        if not self._busy.acquire(False):
            raise UsageError(
                f"{name} was called while another call on {self.transport.name} is under way.",
                hint="use a board from one thread at a time",
            )

    @property
    def _is_forked(self) -> bool:
        return os.getpid() != self._process

    def _explain(self, error: LinkError, name: str) -> None:
        """Read the last words of a line that is gone: did another host take the board over?

        Raises:
            BusyError: it did.
            DeviceEndedError: no, but the program that is the board has ended.
        """
        if type(error) is LinkError:
            # The line may not be gone: a stranger that never stops talking is such an error, too.
            deadline = self.clock() + _LAST_WORDS_S
            with contextlib.suppress(BoardprofError):
                while self.clock() < deadline and (data := self.transport.read(0.0)):
                    self.client.receive(data, self.clock())
        if self.client.taken_by is not None:
            raise taken_over(self.transport.name, self.client.taken_by) from error
        if self.is_board and error.ended:
            raise DeviceEndedError(
                f"The board ended during {name}: {error.ended}",
                hint=f"look in {name} for a stack that grows too large and for writes through wild "
                "pointers; then connect again",
            ) from error

    # -- what is no frame -------------------------------------------------------------------

    def _take_console(self, now: float, *, everything: bool = False) -> None:
        if text := self.client.console(everything=everything, lines=True):
            self._has_printed = True
            self._console.feed(text, now)
        elif now >= self._console.quiet_at_s:
            self._console.flush()

    def _end_call(self, now: float) -> None:
        if self._follows:
            self._follow(now)
        if self._console.quiet_at_s < _NEVER:
            self._console.flush()

    def _follow(self, now: float) -> None:
        """Take what the program behind the line has printed, if someone looks."""
        if self._follows and (text := self._unseen()):
            self._taken += len(text)
            self._console.feed(text.encode(), now)

    def _unseen(self) -> str:
        return self.transport.printed()[self._taken :]

    @property
    def console(self) -> str:
        """All that came and was no frame, as text."""
        return self._console.text

    def silent(self, name: str, silence_s: float, where: str = "") -> BoardprofError:
        """Return the error for a board that says nothing; ``where`` it stopped, for messages."""
        self._take_console(self.clock(), everything=True)
        self._console.flush()
        port, printed = self.transport.name, self._unseen()
        if not self.is_board:
            return no_welcome(
                port,
                silence_s,
                self._console.data,
                naks=self.client.naks,
                echoes=self.client.echoes,
                printed=printed,
            )
        is_wall = silence_s == self.wall_s
        limit = " of wall time (--wall-timeout)" if is_wall else ""
        text = f"The board at {port} did not answer {name} for {silence_s:g} s{limit}{where}."
        option = "--wall-timeout" if is_wall else "--timeout"
        hint = (
            f"see whether {name} crashes or never ends; if it is only slow, give {option} more "
            "seconds"
        )
        if self.client.naks >= _MANY_NAKS:
            text += f" {self.client.naks:,} times it could not read what came."
            hint = (
                "check the wire to the board's receiver and the baud rate, and that its receiver "
                "holds what rx_bytes and mtu of its board.toml say"
            )
        return BoardTimeoutError(text, console=self.console + printed, hint=hint)

    def _unended(
        self, name: str, wall_s: float | None, overdue: Overdue, *, prints: bool
    ) -> BoardTimeoutError | DeviceTimeoutError:
        """Return the error for a call that has neither ended nor been stopped by the board.

        An emulator of ours in which the function hangs is ended.

        Args:
            name: of the function.
            wall_s: the limit in wall time that is over; None: the one on the board's clock is.
            overdue: what is known of that clock.
            prints: the board prints still.
        """
        emulator = self.transport
        if isinstance(emulator, Emulator):
            hang = find_hang(emulator, self.locate, self._go_on, prints=prints)
            # Where nobody can look, it is a hang as long as the board might still end it itself.
            if hang is not None and (hang.is_seen or prints or (wall_s or _NEVER) < self.surely_s):
                self.close()
                return hang.error(name, self.limit_s, overdue.passed_s, wall_s)
        return self._lost(name, wall_s)

    def _go_on(self) -> None:
        """Let an emulator go on for a moment, unless it has ended."""
        with contextlib.suppress(LinkError):
            self.transport.read(_LOOK_S)

    def _lost(self, name: str, wall_s: float | None) -> BoardTimeoutError:
        """Return the error for a board that does not even end a call that lasts too long."""
        self._take_console(self.clock(), everything=True)
        self._console.flush()
        over = (
            f"by its own clock the {self.limit_s:g} s that {name} may take are over"
            if wall_s is None
            else f"the {wall_s:g} s of wall time (--wall-timeout) that {name} may take are over"
        )
        return BoardTimeoutError(
            f"The board at {self.transport.name} is lost: {over}, and it has neither answered nor "
            f"stopped {name}.",
            console=self.console + self._unseen(),
            hint=f"see whether {name} writes beyond its arrays, over the agent's stack or data, or "
            "never ends with interrupts off; then connect again",
        )

    def close(self) -> None:
        """Let go of the line; in a forked process nothing happens, since it is the parent's."""
        if self.is_closed:
            return
        self.is_closed = True
        if self._is_forked:
            return
        self._take_console(self.clock(), everything=True)
        self._follow(self.clock())
        self._console.flush()
        self.transport.close()


def _progress(name: str, event: Progress) -> tuple[int, int]:
    """Return how much of ``name`` is done, and how much there is in all."""
    fields = unpack_reply(f"{name} (its progress)", event.body)
    if not (isinstance(fields, list) and [type(field) for field in fields[:2]] == [int, int]):
        raise FrameError(f"The board told of its progress in {name} by {fields!r}.")
    return fields[0], fields[1]
