# SPDX-License-Identifier: Apache-2.0
"""Plays a schedule and sees that no rule was broken."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import msgpack

from boardprof.base.errors import (
    BoardprofError,
    BoardTimeoutError,
    BusyError,
    DeviceResetError,
    LinkError,
    RpcError,
)
from boardprof.wire.link.session import Session
from boardprof.wire.transport.faults import Faults
from tests.simulation.agent import FUNCTIONS, Agent
from tests.simulation.host import Books, Host, Violation
from tests.simulation.line import HostKilled, SimTransport, World
from tests.simulation.schedule import Operation, Schedule, draw

__all__ = ["Outcome", "Player", "functions_of"]

_LONGEST_US = 60_000_000
"""No operation may take longer, and no board may need longer to come to rest."""

_LAST_S = 10.0
"""Deadline of the last call: the time-out may have grown, and the call may end an old frame."""

_POP = FUNCTIONS.index("pop")


@dataclass(frozen=True)
class Outcome:
    """What came of a schedule.

    Attributes:
        seed: of the schedule.
        violation: the rule that was broken; "" when none was.
        trace: SHA-256 over all that happened, hexadecimal; "" when nobody asked.
        ends: how often an operation ended in which way.
    """

    seed: int
    violation: str = ""
    trace: str = ""
    ends: Counter[str] = field(default_factory=Counter)


def functions_of(agent: Agent) -> dict[str, int]:
    """Return the ids of the agent's functions by name, over a line without faults."""
    world = World(agent, Faults(), latency_us=0, byte_us=0, entropy=lambda: 1)
    session = Session(SimTransport(world), timeout_s=1.0, clock=world.clock)
    session.open()
    names: dict[str, int] = {}
    while True:
        arguments = msgpack.packb(1) + msgpack.packb(len(names))
        entry = session.call(0, arguments, 2).value
        if not isinstance(entry, list):
            return names
        names[entry[0]] = len(names)


class Player:
    """Plays schedules on one agent.

    Attributes:
        session: the class of the host's session.
    """

    def __init__(self, agent: Agent, session: Callable[..., Session] = Session) -> None:
        """Take the board, and ask it for its functions."""
        self._agent = agent
        self.session = session
        self._ids = functions_of(agent)

    def play(
        self, seed: int, *, traced: bool = False, tell: Callable[[str], None] | None = None
    ) -> Outcome:
        """Play the schedule of ``seed``.

        Args:
            seed: of everything.
            traced: whether the outcome shall have a hash of the trace.
            tell: gets each line of the trace.
        """
        schedule = draw(seed)
        digest = hashlib.sha256()

        def trace(line: str) -> None:
            digest.update(line.encode() + b"\n")
            if tell is not None:
                tell(line)

        game = _Game(self, schedule, trace if traced or tell is not None else None)
        violation = ""
        try:
            game.play()
        except Violation as error:
            violation = str(error)
        return Outcome(seed, violation, digest.hexdigest() if traced else "", game.ends)

    @property
    def agent(self) -> Agent:
        """The board."""
        return self._agent

    @property
    def ids(self) -> dict[str, int]:
        """The functions' ids by name."""
        return self._ids


class _Game:
    """One schedule under way."""

    def __init__(
        self, player: Player, schedule: Schedule, trace: Callable[[str], None] | None
    ) -> None:
        self._player = player
        self._schedule = schedule
        self._rng = random.Random(~schedule.seed)
        self._lines = 1
        self._trace = trace
        self._books = Books()
        self.ends: Counter[str] = Counter()
        self._world = World(
            player.agent,
            schedule.line(0),
            latency_us=schedule.latency_us,
            byte_us=schedule.byte_us,
            entropy=lambda: self._rng.getrandbits(32),
            trace=trace,
        )
        self._host: Host | None = None
        self._sessions = 0

    def play(self) -> None:
        for operation in self._schedule.operations:
            self._one(operation)
        self._end()
        self._audit()

    # -- operations -----------------------------------------------------------------------

    def _one(self, operation: Operation) -> None:
        world = self._world
        begin_us = world.now_us
        if operation.reset_us is not None:
            world.reset_in(operation.reset_us)
        if operation.kill_us is not None:
            world.kill_in(operation.kill_us)
        how = self._attempt(operation, begin_us)
        self.ends[how] += 1
        if self._trace is not None:
            self._trace(f"{world.now_us:>9} == {operation}: {how}")
        if world.now_us - begin_us > _LONGEST_US:
            raise Violation(f"{operation.kind} took {(world.now_us - begin_us) / 1e6} s")
        try:
            world.rest(operation.rest_us)
        except HostKilled:
            self._host = None

    def _attempt(self, operation: Operation, begin_us: int) -> str:
        world, host = self._world, self._host
        boot_id = 0
        try:
            if host is None or operation.kind == "restart":
                host = self._new_host()
                host.open()
                self._host = host
            boot_id = world.agent.boot_id
            if operation.kind != "restart":
                host.do(operation)
        except HostKilled:
            self._host = None
            return "killed"
        except BoardTimeoutError as error:
            self._judge_time_out(operation, error)
            return "time-out"
        except DeviceResetError as error:
            self._judge_reset(host, error)
            self._host = None
            return "reset"
        except BusyError as error:
            self._judge_taken(host, boot_id, error)
            self._host = None
            return "taken"
        except RpcError as error:
            raise Violation(f"{operation.kind}: {error}") from error
        except LinkError as error:
            if not self._world.faults.is_cut:
                # Silence, too: what came instead of an answer was beyond recognition.
                waited_us = world.now_us - begin_us
                if type(error) is not LinkError or waited_us < self._schedule.timeout_s * 1e6:
                    raise Violation(f"{operation.kind}: {error!r}") from error
                self._judge_time_out(operation, error)
                return "time-out"
            world.plug_in_again(self._schedule.line(self._lines))
            self._lines += 1
            return "cut"
        except BoardprofError as error:
            raise Violation(f"{operation.kind}: {error!r}") from error
        return "answer"

    def _new_host(self) -> Host:
        self._world.new_host()
        self._sessions += 1
        self._host = None
        return Host(
            self._world,
            self._rng,
            self._books,
            self._player.ids,
            self._schedule.timeout_s,
            self._player.session,
        )

    # -- what errors are right ------------------------------------------------------------

    def _lost(self, host: Host | None) -> bool:
        """Whether the board may be in another session than this host's, or in a later one."""
        agent = self._world.agent
        if host is None:
            return False
        return agent.boot_id != host.boot_id or agent.session != host.id or self._sessions > 1

    def _judge_reset(self, host: Host | None, error: DeviceResetError) -> None:
        if not self._lost(host):
            raise Violation(f"no reset, and yet: {error}")

    def _judge_taken(self, host: Host | None, boot_id: int, error: BusyError) -> None:
        # Of a reset under way the host may hear last: only what was before must be known.
        if host is None or boot_id != host.boot_id:
            raise Violation(f"the board was reset, and yet: {error}")
        if self._sessions < 2:
            raise Violation(f"there is no other host, and yet: {error}")

    def _judge_time_out(self, operation: Operation, error: BoardprofError) -> None:
        """A time-out is right on a line with faults, or when the function takes as long."""
        patient = operation.work_us / 1e6 < self._schedule.timeout_s
        if self._schedule.frames == 0.0 and patient:
            raise Violation(f"{operation.kind} on a line without faults: {error}")

    # -- the end --------------------------------------------------------------------------

    def _end(self) -> None:
        """Once there are no faults any more, the next call works."""
        world = self._world
        world.spare()
        world.faults.frames = 0.0
        if world.faults.is_cut:
            world.plug_in_again(self._schedule.line(self._lines))
            world.faults.frames = 0.0
        world.settle(_LONGEST_US)
        if self._host is not None and self._last_call(self._host) == "answer":
            return
        host = self._new_host()
        try:
            host.open()
        except BoardprofError as error:
            raise Violation(f"at the end, HELLO: {error!r}") from error
        how = self._last_call(host)
        if how != "answer":
            raise Violation(f"at the end, the call of a new host: {how}")

    def _last_call(self, host: Host) -> str:
        host.session.timeout_s = _LAST_S
        try:
            host.do(Operation("pop"))
        except (DeviceResetError, BusyError) as error:
            if not self._lost(host):
                raise Violation(f"at the end, nothing was reset, and yet: {error}") from error
            return "reset"
        except BoardprofError as error:
            raise Violation(f"at the end, {error!r}") from error
        return "answer"

    def _audit(self) -> None:
        """Compare what the board did with what it was asked for, call by call."""
        runs: Counter[int] = Counter()
        pops: dict[int, int] = {}
        for run in self._world.agent.ran():
            asked = self._books.asked.get(run.token)
            if asked is None or (asked.function, asked.digest) != (run.function, run.digest):
                raise Violation(f"the board ran what nobody asked for: {run}")
            runs[run.token] += 1
            if run.function == _POP:
                pops[run.token] = len(pops)
        for token, asked in self._books.asked.items():
            name, times = FUNCTIONS[asked.function], runs[token]
            if times > asked.most:
                raise Violation(f"{name} {token:#x} ran {times} times, at most {asked.most}")
            if asked.answered is not None and times != asked.answered:
                raise Violation(f"{name} {token:#x} ran {times} times, due {asked.answered}")
            if asked.popped is not None and asked.popped != pops[token]:
                raise Violation(f"pop {token:#x} gave {asked.popped}, read was {pops[token]}")
