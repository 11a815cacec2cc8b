# SPDX-License-Identifier: Apache-2.0
"""Plays millions of faulty schedules on all cores, and goes on where it was stopped.

Run from the repository: ``python scripts/soak.py`` (`make soak`). What is done stands in
``build/soak.json``; Ctrl-C stops at once and loses less than a thousand schedules. Ends with 1 when
any schedule has broken a rule, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.simulation.agent import build_agent
from tests.simulation.pool import Tally, blocks_of, play_ranges, replay_command
from tests.support import AGENT, ROOT

__all__ = ["Progress", "main", "sources"]

_STATE = ROOT / "build" / "soak.json"
_SCHEDULES = 10_000_000
_REPORT_S = 10.0


def sources() -> list[Path]:
    """Return the files that are tried: the agent's, and each module that the simulation imports."""
    folders = (AGENT / "src", AGENT / "include", ROOT / "tests" / "simulation")
    found = {path for folder in folders for path in folder.rglob("*.[ch]")}
    for module in list(sys.modules.values()):
        path = Path(getattr(module, "__file__", None) or "/")
        if path.is_relative_to(ROOT) and ".venv" not in path.parts:
            found.add(path)
    return sorted(found)


def fingerprint() -> str:
    """Return a hash of `sources`: what other code has done says nothing of this one."""
    digest = hashlib.sha256()
    for path in sources():
        digest.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:16]


@dataclass
class Progress:
    """What was done so far.

    Attributes:
        code: `fingerprint` of what was tried.
        ranges: seeds that were played, as (from, before), ascending and apart.
        failures: the violation by seed.
    """

    code: str
    ranges: list[tuple[int, int]] = field(default_factory=list)
    failures: dict[int, str] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path, code: str) -> Progress:
        """Return what ``path`` says of this code; a new beginning when it says nothing."""
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            if found["code"] != code:
                print(f"{path} is of other code; beginning again", file=sys.stderr)
                return cls(code)
            ranges = [(begin, end) for begin, end in found["ranges"]]
            return cls(code, ranges, {int(seed): why for seed, why in found["failures"].items()})
        except FileNotFoundError:
            return cls(code)
        except (ValueError, KeyError, TypeError, AttributeError):
            print(f"{path} cannot be read; beginning again", file=sys.stderr)
            return cls(code)

    def save(self, path: Path) -> None:
        """Write it whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"code": self.code, "ranges": self.ranges, "failures": self.failures})
        partial = path.with_suffix(".part")
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)

    def has(self, block: range) -> bool:
        """Whether all of the block was played."""
        return any(begin <= block.start and block.stop <= end for begin, end in self.ranges)

    def add(self, block: range, tally: Tally) -> None:
        """Take down a block that was played."""
        self.failures.update(tally.failures)
        joined: list[tuple[int, int]] = []
        for begin, end in sorted([*self.ranges, (block.start, block.stop)]):
            if joined and begin <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
            else:
                joined.append((begin, end))
        self.ranges = joined

    @property
    def played(self) -> int:
        """How many schedules."""
        return sum(end - begin for begin, end in self.ranges)

    def seeds(self) -> str:
        """Return the seeds that were played, for people."""
        return ", ".join(f"{begin}..{end - 1}" for begin, end in self.ranges) or "none"


def main(arguments: Sequence[str] | None = None) -> int:
    """Play what is left; return the exit status."""
    parser = argparse.ArgumentParser(description="Plays millions of faulty schedules, resumably.")
    parser.add_argument("--schedules", type=int, default=_SCHEDULES, help="seeds 0 to this - 1")
    parser.add_argument("--jobs", type=int, help="processes; as many as cores by default")
    parser.add_argument("--state", type=Path, default=_STATE, metavar="JSON")
    options = parser.parse_args(arguments)
    progress = Progress.load(options.state, fingerprint())
    status = 0
    try:
        print(f"Seeds done: {progress.seeds()}", flush=True)
        _soak(progress, range(options.schedules), options.jobs, options.state)
    except KeyboardInterrupt:
        print("Stopped; the same command goes on from here.")
        status = 130
    except RuntimeError as error:  # the agent has crashed its process, or hangs: a finding, too
        print(f"FAILED {error}")
        status = 1
    progress.save(options.state)
    print(f"Seeds done: {progress.seeds()}")
    for seed in sorted(progress.failures):
        print(f"FAILED {replay_command(seed)}\n  {progress.failures[seed]}")
    print(f"{len(progress.failures)} of {progress.played} schedules broke a rule.")
    return status or (1 if progress.failures else 0)


def _soak(progress: Progress, seeds: range, jobs: int | None, state: Path) -> None:
    before, begin = progress.played, time.monotonic()
    reported = begin
    with tempfile.TemporaryDirectory(prefix="boardprof-soak-") as folder:
        library = build_agent(Path(folder))
        for block, tally in play_ranges(library, blocks_of(seeds, progress.has), jobs=jobs):
            progress.add(block, tally)
            now = time.monotonic()
            for seed, why in tally.failures.items():
                print(f"FAILED {replay_command(seed)}\n  {why}", flush=True)
            if now - reported >= _REPORT_S:
                reported = now
                progress.save(state)
                rate = (progress.played - before) / (now - begin)
                print(f"Seeds done: {progress.seeds()} ({rate:.0f} a second)", flush=True)


if __name__ == "__main__":
    sys.exit(main())
