# SPDX-License-Identifier: Apache-2.0
"""What is done in one simulation, and what goes wrong: all of it drawn from one seed."""

from __future__ import annotations

import random
from dataclasses import dataclass

from boardprof.wire.transport.faults import ALL_FAULTS, Cut, Fault, Faults, LateDuplicate

__all__ = ["KINDS", "Operation", "Schedule", "draw"]

KINDS = ("note", "pop", "echo", "slow", "measure", "cancel", "memory", "upload", "download")
"""What a host does."""

_WEIGHTS = (6, 6, 3, 3, 2, 1, 2, 1, 1)


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing that a host does.

    Attributes:
        kind: one of `KINDS`, or ``restart``: another host takes the place of this one.
        size: bytes of what it sends, where that may differ.
        work_us: time that the called function takes.
        reset_us: when the board is reset, from the operation's begin; None: it is not.
        kill_us: when the host is killed, if it is still at it; None: it is not.
        rest_us: pause behind it.
    """

    kind: str
    size: int = 0
    work_us: int = 0
    reset_us: int | None = None
    kill_us: int | None = None
    rest_us: int = 0


@dataclass(frozen=True)
class Schedule:
    """One simulation.

    Attributes:
        seed: all else follows from it.
        frames: fraction of the frames that are damaged.
        faults: how, each as likely as the others.
        delay_s: longest delay of a frame, seconds.
        latency_us: of the line.
        byte_us: that a byte takes.
        timeout_s: the host's deadline.
        operations: what is done, in order.
    """

    seed: int
    frames: float
    faults: tuple[type[Fault], ...]
    delay_s: float
    latency_us: int
    byte_us: int
    timeout_s: float
    operations: tuple[Operation, ...]

    def line(self, number: int) -> Faults:
        """Return the faults of the ``number``th line; the first is 0."""
        return Faults(
            seed=self.seed * 16 + number,
            frames=self.frames,
            kinds=self.faults,
            delay_s=self.delay_s,
        )


def draw(seed: int) -> Schedule:
    """Draw a schedule."""
    rng = random.Random(seed)
    frames = rng.choice((0.0, 0.02, 0.1, 0.1, 0.25, 0.5))
    faults: tuple[type[Fault], ...] = ALL_FAULTS
    chosen = rng.random()
    if chosen < 0.3:
        faults = tuple(rng.sample(ALL_FAULTS, rng.randint(1, 3)))
    elif chosen < 0.5:
        faults = (LateDuplicate, *rng.sample(ALL_FAULTS, 1))
    elif chosen < 0.6:
        faults = (*ALL_FAULTS, Cut)
    # Some boards are reset again and again, some hosts die young, some live in peace.
    resets = rng.choice((0.0, 0.0, 0.1, 0.3))
    deaths = rng.choice((0.0, 0.0, 0.1, 0.3))
    return Schedule(
        seed=seed,
        frames=frames,
        faults=faults,
        delay_s=rng.choice((0.002, 0.05, 0.5, 3.0)),
        latency_us=rng.choice((20, 100, 1000, 8000)),
        byte_us=rng.choice((0, 0, 10, 87)),
        timeout_s=rng.choice((0.6, 1.5, 4.0)),
        operations=tuple(_operation(rng, resets, deaths) for _ in range(rng.randint(2, 7))),
    )


def _operation(rng: random.Random, resets: float, deaths: float) -> Operation:
    # Soon: while the request is under way, or soon after; late: between the operations.
    soon_us = rng.choice((200, 3000, 30000))
    reset_us = rng.randrange(soon_us) if rng.random() < resets else None
    kill_us = rng.randrange(soon_us) if rng.random() < deaths else None
    if rng.random() < deaths / 2:
        return Operation("restart", reset_us=reset_us)
    return Operation(
        kind=rng.choices(KINDS, _WEIGHTS)[0],
        size=rng.choice((0, 1, 3, 16, 60, 90)),
        work_us=rng.choice((0, 500, 20000, 400000)),
        reset_us=reset_us,
        kill_us=kill_us,
        rest_us=rng.choice((0, 0, 1000, 400000)),
    )
