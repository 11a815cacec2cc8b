# SPDX-License-Identifier: Apache-2.0
"""Whether a board's arena and its stack are what they say."""

from __future__ import annotations

from collections.abc import Iterator

from boardprof.board.board import Board
from boardprof.errors import BoardprofError
from boardprof.report.measurement import Stack
from boardprof.run.proof.finding import FAILED, OK, SKIPPED, UNSUPPORTED, Finding, listed

__all__ = ["arena", "stack"]

_FRAMES = (2, 3, 4)


def arena(board: Board) -> Finding:
    """Take all of the arena, and see that its first and its last bytes are memory."""
    size = board.memory.size
    if not size:
        return Finding("arena", SKIPPED, "the agent has none")
    marks = bytes(range(1, 65))[: min(64, size // 2)]
    try:
        block = board.memory.alloc(size - size % 16)
        try:
            ends = (0, block.size - len(marks))
            for offset in ends:
                board.memory.write(block, marks, offset=offset)
            kept = [board.memory.read(block, size=len(marks), offset=at) for at in ends]
        finally:
            board.memory.free(block)
    except BoardprofError as error:
        return Finding("arena", FAILED, f"of {size:,} bytes: {error}")
    if kept != [marks, marks]:
        return Finding("arena", FAILED, f"of {size:,} bytes forgets what is written at its ends")
    return Finding("arena", OK, f"{size:,} bytes")


def stack(board: Board, function: str) -> Iterator[Finding]:
    """See that each further frame takes as much of the stack as the one before.

    Args:
        board: with ``function``.
        function: takes how many frames it shall make.
    """
    counters = (counter.name for each in board.offer.fixed for counter in each.counters)
    one = next((name for name in counters if name not in board.device.unsupported), None)
    found = [
        board.measure(function, depth, metrics=one, warmup=0, repeat=1).stack for depth in _FRAMES
    ]
    if not all(isinstance(stack, Stack) for stack in found):
        reason = next(f"{stack}" for stack in found if not isinstance(stack, Stack))
        yield Finding("stack", UNSUPPORTED, reason)
        return
    used = [stack.used for stack in found if isinstance(stack, Stack)]
    if used[1] - used[0] != used[2] - used[1] or used[1] <= used[0]:
        yield Finding("stack", FAILED, f"{listed(used, 'bytes')} of 2, 3 and 4 equal frames")
        return
    painted = min(stack.painted for stack in found if isinstance(stack, Stack))
    yield Finding("stack", OK, f"{used[1] - used[0]} bytes a frame; {painted:,} bytes are painted")
