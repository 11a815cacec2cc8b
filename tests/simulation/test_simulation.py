# SPDX-License-Identifier: Apache-2.0
"""The real session and the real agent under virtual time, with faults drawn from seeds."""

from __future__ import annotations

from pathlib import Path

import pytest

from boardprof.wire.transport.faults import Faults
from tests.simulation.agent import Agent, build_agent
from tests.simulation.line import World
from tests.simulation.play import Outcome, Player
from tests.simulation.pool import Tally, blocks_of, play_ranges, replay_command
from tests.simulation.schedule import draw


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_agent(tmp_path_factory.mktemp("simulation"))


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("schedules", [3_000, pytest.param(100_000, marks=pytest.mark.nightly)])
def test_thousands_of_faulty_schedules_break_no_rule(library: Path, schedules: int) -> None:
    tally = Tally()
    for _, played in play_ranges(library, blocks_of(range(schedules))):
        tally.add(played)
        told = [f"{replay_command(seed)}\n  {why}" for seed, why in tally.failures.items()]
        assert not told, "\n".join(told)
    assert tally.played == schedules
    # It is not empty, either: all that can happen has happened, many times over.
    assert tally.ends["answer"] > 2 * schedules
    for end in ("reset", "time-out", "killed", "cut"):
        assert tally.ends[end] > schedules / 100, end
    assert tally.ends["taken"] > 0
    assert set(tally.ends) == {"answer", "reset", "time-out", "killed", "cut", "taken"}


@pytest.mark.parametrize("seed", [4351986, 4696356, 5071345, 8579074, 9001192])
def test_a_board_that_is_reset_behind_slow_replies_is_asked_again_in_time(
    library: Path, seed: int
) -> None:
    """The line's time-out had become longer than the call's limit: nobody asked a second time."""
    assert Player(Agent(library)).play(seed).ends["reset"] >= 1


def test_a_seed_replays_to_the_last_bit(library: Path) -> None:
    def trace(player: Player, seed: int) -> Outcome:
        return player.play(seed, traced=True)

    first, second = Player(Agent(library)), Player(Agent(library))
    for seed in range(40):
        once = trace(first, seed)
        assert len(once.trace) == 64
        first.play(seed + 1000)  # whatever was before
        assert trace(first, seed) == once
        assert trace(second, seed) == once
    assert trace(first, 1).trace != trace(first, 2).trace


def test_a_seed_replays_in_another_process(library: Path) -> None:
    here = Player(Agent(library))
    counted = Tally()
    for seed in range(20):
        counted.ends.update(here.play(seed).ends)
    ((_, there),) = play_ranges(library, iter([range(20)]), jobs=1)
    assert there.ends == counted.ends
    assert there.played == 20


def test_the_schedule_is_the_seeds() -> None:
    assert draw(7) == draw(7)
    assert draw(7) != draw(8)


# -- the board and the line themselves ----------------------------------------------------


def calm_world(library: Path) -> World:
    return World(Agent(library), Faults(), latency_us=100, byte_us=10, entropy=lambda: 5)


def test_time_passes_for_the_host_only_as_far_as_it_waits(library: Path) -> None:
    world = calm_world(library)
    assert world.receive(2500) == b""
    assert world.now_us == 2500


def test_garbage_gets_an_answer_after_the_lines_own_time(library: Path) -> None:
    world = calm_world(library)
    world.send(b"\0garbage\0")
    nak = world.receive(1_000_000)
    # 9 bytes there and 14 back at 10 us each, and 100 us on each way
    assert len(nak) == 14
    assert world.now_us == 9 * 10 + 100 + 14 * 10 + 100


def test_a_reset_wipes_the_boards_memory_and_is_written_down(library: Path) -> None:
    world = calm_world(library)
    assert world.agent.boots == 1
    world.reset_in(50)
    assert world.receive(1000) == b""  # what it prints waits for the next delimiter
    assert world.agent.boots == 2
    assert world.agent.session == 0
    world.send(b"\0garbage\0")
    assert world.receive(1_000_000).startswith(b"boot: simulation\r\n\0")
