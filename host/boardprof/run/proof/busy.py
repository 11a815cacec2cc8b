# SPDX-License-Identifier: Apache-2.0
"""How far readings may be trusted on a machine where other programs take their turns."""

from __future__ import annotations

from collections.abc import Sequence

from boardprof.run.proof.finding import FAILED, SKIPPED, listed
from boardprof.run.proof.steps import amount

__all__ = ["better_half", "doubt"]

_BUSY = (1.5, 8.0)
"""Three times the work takes so many times as long where other programs take their turns."""

_UNEVEN = 0.1
"""Share by which two equal steps of work may differ."""


def better_half(nets: Sequence[Sequence[int]]) -> int:
    """Return how far the better half of the runs of the same work is apart, at most.

    What other programs take only ever adds: it is in the other half, unless there are many of them.

    Args:
        nets: what each run counted, by amount of work.
    """
    halves = [sorted(values)[: (len(values) + 1) // 2] for values in nets]
    return max(half[-1] - half[0] for half in halves)


def doubt(nets: Sequence[Sequence[int]], unit: str) -> tuple[str, str] | None:
    """Return verdict and text where a counter that grows is not proven to; None: it is.

    It is not where runs of the same work are further apart than more work is, or steps uneven.

    Args:
        nets: what each run counted, with one, two and three times the work.
        unit: of that.
    """
    first, second, third = least = [min(values) for values in nets]
    seen = f"{listed(least, unit)} for 1, 2, 3 times the work"
    if not _BUSY[0] <= third / max(first, 1) <= _BUSY[1]:
        return FAILED, f"does not grow evenly: {seen}"
    less, more = sorted((second - first, third - second))
    spread = better_half(nets)
    if spread > less or more - less > _UNEVEN * more:
        within = f"half of the runs within {amount(spread, unit)} of each other"
        return SKIPPED, f"the machine is too busy: {seen}, {within}"
    return None
