# SPDX-License-Identifier: Apache-2.0
"""Calls and bulk data through a line that damages frames: no answer may be wrong, time is bounded.

Run from the repository: ``python scripts/soak_link.py [--calls N] [--mib N] [--faults RATE]
[--seed N]``. Ends with 1 at the first wrong answer. The fault that a seed makes to a frame depends
on the traffic of its direction alone, and retransmissions are traffic: what is late by the clock
can change what follows.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from boardprof.measure.board.board import Board
from boardprof.measure.connect import attach
from boardprof.measure.doctor.link_test import CountingTransport
from boardprof.wire.transport.faults import Faults, FaultyTransport, Way
from tests.faults.boards import Target

__all__ = ["SoakFigures", "main", "soak"]

_MASK = 0xFFFFFFFF
_CHUNK = 1 << 20


@dataclass(frozen=True)
class SoakFigures:
    """What a run did.

    Attributes:
        calls, call_s: calls of a counting function, and how long they took.
        bytes, bulk_s: content to the board and back, both counted, and how long that took.
        longest_call_s: the slowest call.
        wrong: answers that were wrong; 0, or the run proves the link broken.
        frames: to the board and to the host.
        damaged: the faults that were made, by name.
    """

    calls: int
    call_s: float
    bytes: int
    bulk_s: float
    longest_call_s: float
    wrong: int
    frames: tuple[int, int]
    damaged: Counter[str]


def soak(
    calls: int, mib: int, *, faults: float = 0.01, seed: int = 0, board: str = "linux"
) -> SoakFigures:
    """Make ``calls`` calls, and move ``mib`` MiB, half of them each way.

    Args:
        calls: of a function whose answer tells how often it ran, and with what.
        mib: content in MiB, even.
        faults: fraction of the frames that are damaged.
        seed: of the faults and the content.
        board: the board.
    """
    target = Target(board)
    model = Faults(seed=seed, frames=faults)
    line = CountingTransport(FaultyTransport(target.start(), model))
    try:
        with attach(target.spec, line) as connected:
            began = time.monotonic()
            wrong, longest_s = _calls(connected, calls)
            called = time.monotonic()
            wrong += _bulk(connected, mib // 2, random.Random(seed))
            done = time.monotonic()
    finally:
        line.close()
        target.close()
    return SoakFigures(
        calls=calls,
        call_s=called - began,
        bytes=mib // 2 * 2 * _CHUNK,
        bulk_s=done - called,
        longest_call_s=longest_s,
        wrong=wrong,
        frames=(model.passed(Way.TO_BOARD), model.passed(Way.TO_HOST)),
        damaged=Counter(type(record.fault).__name__ for record in model.log),
    )


def _calls(board: Board, calls: int) -> tuple[int, float]:
    tally = board.functions["tally"]
    state, wrong, longest_s = 0, 0, 0.0
    for n in range(calls):
        began = time.monotonic()
        state = (state * 1000003 + n) & _MASK
        wrong += tally(n) != state
        longest_s = max(longest_s, time.monotonic() - began)
    return wrong, longest_s


def _bulk(board: Board, chunks: int, rng: random.Random) -> int:
    """Write chunks and read them back; content goes through both ways damaged independently."""
    wrong = 0
    block = board.memory.alloc(_CHUNK)
    for _ in range(chunks):
        data = rng.randbytes(_CHUNK)
        board.memory.write(block, data)
        found = board.memory.read(block)
        wrong += found != data or zlib.crc32(found) != zlib.crc32(data)
    return wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it and print the figures; return the exit status."""
    parser = argparse.ArgumentParser(description="Calls and data through a bad line.")
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--mib", type=int, default=1024, help="half of it each way")
    parser.add_argument("--faults", type=float, default=0.01, metavar="RATE")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--board", default="linux")
    options = parser.parse_args(arguments)
    done = soak(
        options.calls, options.mib, faults=options.faults, seed=options.seed, board=options.board
    )
    share = done.damaged.total() / max(1, sum(done.frames))
    rate = done.bytes / max(done.bulk_s, 1e-9) / 1e6
    print(f"seed {options.seed}: {done.wrong} wrong answers")
    print(f"{done.calls:,} calls in {done.call_s:.1f} s, the slowest {done.longest_call_s:.2f} s")
    print(f"{done.bytes:,} bytes of bulk in {done.bulk_s:.1f} s, {rate:.1f} MB/s")
    print(
        f"{done.damaged.total():,} of {sum(done.frames):,} frames damaged ({100 * share:.2f} %): "
        + ", ".join(f"{name} {count:,}" for name, count in sorted(done.damaged.items()))
    )
    return int(done.wrong != 0)


if __name__ == "__main__":
    sys.exit(main())
