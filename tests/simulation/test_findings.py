# SPDX-License-Identifier: Apache-2.0
"""What the simulation once found, each fault by a plan of its own instead of a seed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgpack
import pytest

from boardprof.base.errors import BusyError, DeviceResetError, RpcError
from boardprof.wire.link.channels import Channels
from boardprof.wire.link.session import Session
from boardprof.wire.transport.faults import Fault, Faults, LateDuplicate, Lose, Way
from boardprof_protocol.codes import ErrorCode, FrameKind
from tests.simulation.agent import FUNCTIONS, Agent, build_agent
from tests.simulation.line import SimTransport, World
from tests.simulation.play import functions_of

NOTE = FUNCTIONS.index("note")


class Bench:
    """A board, a line with a plan, and whatever hosts a test makes.

    Attributes:
        world: the board and the line.
        ids: the functions' ids by name.
    """

    def __init__(self, library: Path) -> None:
        agent = Agent(library)
        self.ids = functions_of(agent)
        boots = iter((0x1111, 0x2223))
        faults = Faults()
        self.world = World(agent, faults, latency_us=100, byte_us=0, entropy=lambda: next(boots))

    def host(self, session: int, timeout_s: float = 4.0, nonce: int = 0) -> Session:
        """Return a host whose session has this id, and whose question the id behind it."""

        def drawn(bits: int) -> int:
            return session - 1 if bits == 16 else nonce

        return Session(
            SimTransport(self.world), timeout_s=timeout_s, clock=self.world.clock, random_bits=drawn
        )

    def plan(self, way: Way, kind: FrameKind, fault: Fault, later: int = 0) -> None:
        """Do this to the next frame of that kind, or to one so many later."""
        self.world.faults.add(way, fault, kind=int(kind), later=later)

    def call(self, host: Session, name: str, *arguments: object, **options: Any) -> Any:
        packed = b"".join(map(msgpack.packb, arguments))
        return host.call(self.ids[name], packed, len(arguments), name=name, **options).value

    def notes(self) -> list[int]:
        """Return the tokens of all runs of `note`."""
        return [run.token for run in self.world.agent.ran() if run.function == NOTE]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_agent(tmp_path_factory.mktemp("simulation"))


@pytest.fixture
def bench(library: Path) -> Bench:
    return Bench(library)


# -- a session that its own late HELLO begins again ---------------------------------------


def test_a_call_that_comes_once_more_behind_its_own_late_hello_runs_once(bench: Bench) -> None:
    bench.plan(Way.TO_BOARD, FrameKind.HELLO, LateDuplicate(1.0))
    bench.plan(Way.TO_BOARD, FrameKind.CALL, LateDuplicate(1.5))
    first, second = bench.host(7), bench.host(9)
    first.open()
    bench.call(first, "note", 0xAAAA)
    second.open()
    assert bench.world.agent.session == 9
    bench.world.settle(10_000_000)
    assert bench.world.agent.session == 7  # the late HELLO has won
    assert bench.notes() == [0xAAAA]
    with pytest.raises(BusyError):  # who is told so, and runs nothing either
        bench.call(second, "note", 0xBBBB)
    assert bench.notes() == [0xAAAA]


def test_so_it_is_behind_a_reset(bench: Bench) -> None:
    bench.plan(Way.TO_BOARD, FrameKind.HELLO, LateDuplicate(1.0))
    bench.plan(Way.TO_BOARD, FrameKind.CALL, LateDuplicate(1.5))
    host = bench.host(7)
    host.open()
    bench.call(host, "note", 0xAAAA)
    bench.world.reset_in(1000)
    bench.world.settle(10_000_000)
    assert (bench.world.agent.boots, bench.world.agent.session) == (2, 7)
    assert bench.notes() == [0xAAAA]
    with pytest.raises(DeviceResetError):
        bench.call(host, "note", 0xBBBB)
    assert bench.notes() == [0xAAAA]


# -- two hosts that draw the same session id ----------------------------------------------


def test_a_host_that_draws_the_present_id_begins_a_session_and_the_other_is_told(
    bench: Bench,
) -> None:
    first, second = bench.host(7, nonce=1), bench.host(7, nonce=2)
    first.open()
    block = bench.call(first, "bp.alloc", 64)
    bench.call(first, "note", 0xAAAA)
    second.open()
    with pytest.raises(RpcError) as caught:  # it has none of the other's blocks
        bench.call(second, "bp.free", block)
    assert caught.value.code == ErrorCode.BAD_HANDLE
    bench.call(second, "note", 0xBBBB)
    with pytest.raises(BusyError):
        bench.call(first, "note", 0xCCCC)
    assert bench.notes() == [0xAAAA, 0xBBBB]


# -- a reset behind PROGRESS --------------------------------------------------------------


def measure(bench: Bench, host: Session, work_us: int) -> object:
    """Measure `work`, 3 rounds; the board says PROGRESS before the first one."""
    arguments = (bench.ids["work"], 0, 0, 3, 1, 1, 0xCCCC, work_us)
    return bench.call(host, "bp.measure", *arguments)


@pytest.mark.parametrize("timeout_s", [0.6, 4.0])
def test_a_reset_behind_progress_is_told_within_the_deadline(
    bench: Bench, timeout_s: float
) -> None:
    host = bench.host(7, timeout_s)
    host.open()
    bench.world.reset_in(20_000)
    begin_s = bench.world.clock()
    with pytest.raises(DeviceResetError):
        measure(bench, host, 100_000)
    # Asked again half a deadline behind PROGRESS; then the question why, answered at once.
    assert timeout_s / 2 <= bench.world.clock() - begin_s < timeout_s / 2 + 0.1


# -- why NO_SESSION -----------------------------------------------------------------------


def test_a_late_welcome_of_the_own_session_does_not_answer_why_it_is_lost(bench: Bench) -> None:
    bench.plan(Way.TO_HOST, FrameKind.WELCOME, LateDuplicate(0.5))  # of the boot before the reset
    bench.plan(Way.TO_HOST, FrameKind.WELCOME, Lose(), later=1)  # the first answer to the question
    host = bench.host(7)
    host.open()
    bench.world.reset_in(1000)
    bench.world.rest(499_000)  # the late WELCOME comes while the host asks
    with pytest.raises(DeviceResetError, match="was reset during note"):
        bench.call(host, "note", 0xAAAA)
    assert bench.world.faults.pending == 0
    assert host.requests.session == 7


# -- a download's last ACK ----------------------------------------------------------------


def test_a_download_is_whole_although_no_ack_but_the_first_comes(bench: Bench) -> None:
    host = bench.host(7)
    welcome = host.open()
    functions = [SimpleNamespace(name=name, id=number) for name, number in bench.ids.items()]
    offered: Any = SimpleNamespace(functions=functions)
    channels = Channels(host, welcome, offered)
    content = bytes(range(256)) * 3
    handle = bench.call(host, "bp.alloc", len(content))
    channels.upload(handle, 0, content)
    for later in range(1, 40):
        bench.plan(Way.TO_BOARD, FrameKind.ACK, Lose(), later=later)
    opened = host.next_sequence
    assert channels.download(handle, 0, len(content)) == content
    assert host.next_sequence == opened + 2  # bp.download and bp.finish, once each
