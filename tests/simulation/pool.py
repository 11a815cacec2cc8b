# SPDX-License-Identifier: Apache-2.0
"""Plays ranges of seeds, in a process for each core."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.simulation.agent import Agent
from tests.simulation.play import Player
from tests.support import ROOT

__all__ = ["BLOCK", "Tally", "blocks_of", "play_range", "play_ranges", "replay_command"]

BLOCK = 500
"""Schedules that a process plays between two reports."""


@dataclass
class Tally:
    """What came of some schedules.

    Attributes:
        played: how many.
        failures: the violation by seed.
        ends: how often an operation ended in which way.
    """

    played: int = 0
    failures: dict[int, str] = field(default_factory=dict)
    ends: Counter[str] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        """Take the other's into this one."""
        self.played += other.played
        self.failures.update(other.failures)
        self.ends.update(other.ends)


def replay_command(seed: int) -> str:
    """Return the command that plays ``seed`` again and prints its trace."""
    return f"python -m tests.simulation --seed {seed} --verbose"


def play_range(player: Player, seeds: range) -> Tally:
    """Play the schedules of ``seeds``."""
    tally = Tally()
    for seed in seeds:
        outcome = player.play(seed)
        tally.played += 1
        tally.ends.update(outcome.ends)
        if outcome.violation:
            tally.failures[seed] = outcome.violation
    return tally


def play_ranges(
    library: Path,
    blocks: Iterator[range],
    *,
    jobs: int | None = None,
    silence_s: float = 120.0,
) -> Iterator[tuple[range, Tally]]:
    """Play blocks of seeds on all cores and yield what came of each, as they are done.

    Args:
        library: of `build_agent`.
        blocks: taken one by one as processes get free.
        jobs: processes; the machine's cores when None.
        silence_s: longest wait for the next block.

    Raises:
        RuntimeError: a process ended early or fell silent. Its block is not played.
    """
    workers = [_Worker(library) for _ in range(jobs or os.cpu_count() or 1)]
    try:
        with selectors.DefaultSelector() as selector:
            for worker in workers:
                if worker.begin(blocks):
                    selector.register(worker.output, selectors.EVENT_READ, worker)
            while selector.get_map():
                ready = selector.select(silence_s)
                if not ready:
                    raise RuntimeError(f"no process has played {BLOCK} schedules in {silence_s} s")
                for key, _ in ready:
                    worker = key.data
                    yield worker.result()
                    if not worker.begin(blocks):
                        selector.unregister(worker.output)
    finally:
        for worker in workers:
            worker.end()


class _Worker:
    """A process that plays one block after the other: `main`."""

    def __init__(self, library: Path) -> None:
        # In a group of its own: Ctrl-C is for whoever gives out the blocks.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.simulation.pool", str(library)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input = self._process.stdin
        self.output = self._process.stdout
        self._block = range(0)

    def begin(self, blocks: Iterator[range]) -> bool:
        block = next(blocks, None)
        if block is None:
            return False
        self._block = block
        self._input.write(json.dumps([block.start, block.stop]) + "\n")
        self._input.flush()
        return True

    def result(self) -> tuple[range, Tally]:
        line = self.output.readline()
        if not line:
            raise RuntimeError(
                f"the process that played {self._block} has ended with {self._process.wait(10)}"
            )
        told = json.loads(line)
        failures = {int(seed): violation for seed, violation in told["failures"].items()}
        return self._block, Tally(told["played"], failures, Counter(told["ends"]))

    def end(self) -> None:
        self._process.kill()
        self._input.close()
        self.output.close()
        self._process.wait(10)


def blocks_of(
    seeds: range, taken: Callable[[range], bool] = lambda block: False
) -> Iterator[range]:
    """Cut ``seeds`` into blocks, without those that are ``taken``."""
    for start in range(seeds.start, seeds.stop, BLOCK):
        block = range(start, min(start + BLOCK, seeds.stop))
        if not taken(block):
            yield block


def main() -> None:
    """Play the blocks that stand on standard input, a line each, until it ends."""
    player = Player(Agent(Path(sys.argv[1])))
    for line in sys.stdin:
        tally = play_range(player, range(*json.loads(line)))
        told = {"played": tally.played, "failures": tally.failures, "ends": tally.ends}
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
