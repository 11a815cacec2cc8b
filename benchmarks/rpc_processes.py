# SPDX-License-Identifier: Apache-2.0
"""Peers of a benchmark: processes on a core of their own that say where they listen."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

__all__ = ["BENCH", "BOARD_CORE", "HOST_CORE", "BenchmarkError", "compiled", "pinned", "serving"]

ROOT = Path(__file__).resolve().parents[1]
BENCH = ROOT / "build" / "bench"

_CORES = sorted(os.sched_getaffinity(0))
HOST_CORE, BOARD_CORE = _CORES[0], _CORES[-1]
"""The two differ where there are two; what runs on one core has no wake-ups across cores."""

_ANNOUNCEMENT = "listening on "


class BenchmarkError(Exception):
    """What is to be measured could not be run."""


@contextlib.contextmanager
def pinned(core: int) -> Iterator[None]:
    """Run this process, and what it starts, on ``core`` alone."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def serving(command: Sequence[str | Path]) -> Iterator[str]:
    """Start a peer on the board's core; yield what it prints behind ``listening on``; end it.

    Raises:
        BenchmarkError: it ended without saying so.
    """
    with pinned(BOARD_CORE):
        process = subprocess.Popen(
            [str(part) for part in command], stdout=subprocess.PIPE, text=True
        )
    with process:
        try:
            assert process.stdout is not None
            first = process.stdout.readline()
            if not first.startswith(_ANNOUNCEMENT):
                raise BenchmarkError(f"{command[0]} did not say where it listens")
            yield first.removeprefix(_ANNOUNCEMENT).strip()
        finally:
            process.terminate()


def compiled(source: Path) -> Path:
    """Compile a C program into ``build/bench``; return it.

    Raises:
        BenchmarkError: it does not compile.
    """
    BENCH.mkdir(parents=True, exist_ok=True)
    program = BENCH / source.stem
    command = ["gcc", "-O2", "-std=c11", "-Wall", "-Wextra", str(source), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchmarkError(f"{source.name} does not compile:\n{done.stderr}")
    return program
