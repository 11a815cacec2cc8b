# SPDX-License-Identifier: Apache-2.0
"""Plays schedules from the command line: ``python -m tests.simulation --seed 7 --verbose``."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.simulation.agent import Agent, build_agent
from tests.simulation.play import Player
from tests.simulation.pool import Tally, blocks_of, play_ranges, replay_command
from tests.simulation.schedule import draw

__all__ = ["main"]


def main() -> int:
    """Play what is asked for; return 1 if a rule was broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--seed", type=int, help="play this one")
    what.add_argument("--seeds", type=int, nargs=2, metavar=("FROM", "BEFORE"), help="play these")
    parser.add_argument("--verbose", action="store_true", help="print all that happens")
    parser.add_argument("--jobs", type=int, help="processes; as many as cores by default")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="boardprof-simulation-") as folder:
        library = build_agent(Path(folder))
        if options.seed is not None:
            return _one(library, options.seed, verbose=options.verbose)
        return _many(library, range(*options.seeds), options.jobs)


def _one(library: Path, seed: int, *, verbose: bool) -> int:
    if verbose:
        print(draw(seed))
    player = Player(Agent(library))
    outcome = player.play(seed, traced=True, tell=print if verbose else None)
    print(f"seed {seed}: {dict(outcome.ends)}, trace {outcome.trace}")
    print(outcome.violation or "no rule was broken")
    return 1 if outcome.violation else 0


def _many(library: Path, seeds: range, jobs: int | None) -> int:
    begin = time.monotonic()
    tally = Tally()
    for _, played in play_ranges(library, blocks_of(seeds), jobs=jobs):
        tally.add(played)
        for seed, violation in played.failures.items():
            print(f"{replay_command(seed)}\n  {violation}", flush=True)
    took_s = time.monotonic() - begin
    print(f"{tally.played} schedules, {tally.played / took_s:.0f} a second, {dict(tally.ends)}")
    print(f"{len(tally.failures)} broke a rule")
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
