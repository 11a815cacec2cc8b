# SPDX-License-Identifier: Apache-2.0
"""From a C file to the table: with an empty cache, with a full one, and beside ``make``.

``make -j`` runs the very commands of the first build that compile and link, and nothing else: no
Python, no search for functions, no emulator. Runs take turns, each figure is a median over rounds.
What the second run takes of processors, emulator and git included, is the least of all rounds: a
busy machine only adds to it.
Run from the repository: ``python benchmarks/build.py [--json] [--rounds N]``. Ends with 7 when
something cannot be built or run, and with 0 otherwise, targets met or not.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "examples" / "workloads" / "fir_q15.c"
FUNCTION = "fir_q15"
TIMEOUT_S = 300.0
FAILED = 7

TARGETS = {
    "native": {
        "first_s": 5.0,
        "cached_s": 1.0,
        "cached_cpu_s": 0.5,
        "first_by_make": 3.0,
        "cached_by_make": 1.0,
    },
    "qemu-rv32": {
        "first_s": 10.0,
        "cached_s": 2.0,
        "cached_cpu_s": 0.5,
        "first_by_make": 3.0,
        "cached_by_make": 1.0,
    },
}
"""What each figure may be at most."""

_LABELS = {
    "first_s": "first run, s",
    "cached_s": "second run, s",
    "cached_cpu_s": "second run, s of processors",
    "make_s": "the same sources with make, s",
    "first_by_make": "first run, by make",
    "cached_by_make": "second run, by make",
}


@dataclass(frozen=True)
class Round:
    """Seconds of one round: first run, second run and what it took of processors, make."""

    first_s: float
    cached_s: float
    cached_cpu_s: float
    make_s: float


def _timed(command: Sequence[str], cache: Path) -> tuple[float, str]:
    """Run a program; return seconds and what it printed to stderr.

    Raises:
        RuntimeError: it fails.
    """
    began = time.perf_counter()
    done = subprocess.run(
        command,
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    took_s = time.perf_counter() - began
    if done.returncode != 0:
        raise RuntimeError(f"{shlex.join(command)} failed:\n{done.stderr}")
    return took_s, done.stderr


def _cpu_s() -> float:
    """Return what programs that have ended took of processors, with all that they started."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _run_command(board: str) -> list[str]:
    return [sys.executable, "-m", "boardprof", "run", "-b", board, f"{SOURCE}:{FUNCTION}", "-v"]


def _makefile(shown: str, folder: Path) -> str:
    """Return a makefile of the commands that a build has shown, its objects in ``folder``."""
    commands = [line for line in shown.splitlines() if line.startswith("cd ") and " -o " in line]
    rules, objects = [], []
    for number, line in enumerate(commands):
        words = shlex.split(line)
        place = words[1]
        # The folder that this file was to be written to is gone.
        words = [word for word in words[3:] if not word.startswith("-Wl,--dependency-file=")]
        target = folder / f"{number}.o"
        if "-c" in words:
            words[words.index("-MF") + 1] = os.devnull
            objects.append(str(target))
        else:
            target = folder / "image"
        words[words.index("-o") + 1] = str(target)
        needs = "" if "-c" in words else " ".join(objects)
        text = shlex.join(words).replace("$", "$$")
        rules.append(f"{target}: {needs}\n\tcd {shlex.quote(place)} && {text}\n")
    return f"{folder}/image:\n" + "\n".join(rules)


def measure(board: str, rounds: int) -> list[Round]:
    """Time a board's runs and make, in turns.

    Raises:
        RuntimeError: something cannot be built or run.
    """
    found = []
    with tempfile.TemporaryDirectory(prefix="boardprof-bench-") as name:
        folder = Path(name)
        for number in range(rounds):
            cache = folder / f"cache{number}"
            first_s, shown = _timed(_run_command(board), cache)
            before_s = _cpu_s()
            cached_s, _ = _timed(_run_command(board), cache)
            cached_cpu_s = _cpu_s() - before_s
            made = folder / f"made{number}"
            made.mkdir()
            (made / "Makefile").write_text(_makefile(shown, made))
            jobs = f"-j{os.cpu_count() or 1}"
            make_s, _ = _timed(["make", "-s", jobs, "-f", str(made / "Makefile")], cache)
            found.append(Round(first_s, cached_s, cached_cpu_s, make_s))
            shutil.rmtree(cache)
    return found


def figures_of(rounds: Sequence[Round]) -> dict[str, float]:
    """Return the medians; the ratios are medians of the rounds' own ratios."""
    return {
        "first_s": median(r.first_s for r in rounds),
        "cached_s": median(r.cached_s for r in rounds),
        "cached_cpu_s": min(r.cached_cpu_s for r in rounds),
        "make_s": median(r.make_s for r in rounds),
        "first_by_make": median(r.first_s / r.make_s for r in rounds),
        "cached_by_make": median(r.cached_s / r.make_s for r in rounds),
    }


def _row(board: str, key: str, value: float) -> str:
    target = TARGETS[board].get(key)
    verdict = "" if target is None else f"  <= {target:g}  {'met' if value <= target else 'MISSED'}"
    return f"{board:<12}{_LABELS[key]:<32}{value:8.2f}{verdict}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return the exit status."""
    parser = argparse.ArgumentParser(description="From a C file to the table.")
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is timed")
    options = parser.parse_args(arguments)
    found: dict[str, dict[str, float]] = {}
    for board in TARGETS:
        try:
            found[board] = figures_of(measure(board, options.rounds))
        except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
            print(f"build: {error}", file=sys.stderr)
            return FAILED
        for key, value in found[board].items():
            print(_row(board, key, value), flush=True)
    if options.json:
        print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
