# SPDX-License-Identifier: Apache-2.0
"""Which steps of a program are profiled."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from enum import Enum

from boardprof.errors import UsageError

__all__ = ["ProfilerAction", "ProfilerActivity", "Schedule", "always", "schedule"]


class ProfilerActivity(Enum):
    """What a profile records."""

    CPU = "cpu"
    """The host: its calls of boards, ranges and marks."""

    BOARD = "board"
    """Boards: counters, and when what was called ran by the board's own clock."""


class ProfilerAction(Enum):
    """What a profile does in one step."""

    NONE = 0
    """Nothing."""

    WARMUP = 1
    """All that `RECORD` does, and throws it away."""

    RECORD = 2
    """Record."""

    RECORD_AND_SAVE = 3
    """Record, and hand the trace over behind the step."""


Schedule = Callable[[int], ProfilerAction]
"""From a step's number, >= 0, to what is done in it."""


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Schedule:
    """Return a schedule of cycles: wait, warm up, record; and again.

    Args:
        wait: steps of a cycle in which nothing is done, >= 0.
        warmup: steps behind these, whose events are thrown away, >= 0.
        active: steps behind these, which are recorded, >= 1.
        repeat: cycles; 0: without an end.
        skip_first: steps before the first cycle, >= 0.
        skip_first_wait: not 0: the first cycle does not wait.

    Raises:
        UsageError: a number is out of range.
    """
    for name, value, least in (
        ("wait", wait, 0),
        ("warmup", warmup, 0),
        ("active", active, 1),
        ("repeat", repeat, 0),
        ("skip_first", skip_first, 0),
    ):
        _check(name, value, least)
    if not isinstance(skip_first_wait, bool):
        _check("skip_first_wait", skip_first_wait, 0)
    if warmup == 0:
        warnings.warn(
            "warmup=0: the first recorded step also pays for starting the profile, which can skew "
            "its times.",
            stacklevel=2,
        )
    cycle = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        _check("step", step, 0)
        if step < skip_first:
            return ProfilerAction.NONE
        step = step - skip_first + (wait if skip_first_wait else 0)
        done, place = divmod(step, cycle)
        if (repeat and done >= repeat) or place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        is_last = place == cycle - 1
        return ProfilerAction.RECORD_AND_SAVE if is_last else ProfilerAction.RECORD

    return action


def always(step: int) -> ProfilerAction:
    """Record each step; what a profile without a schedule goes by."""
    return ProfilerAction.RECORD


def _check(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UsageError(f"{name}={value!r:.60} is no whole number from {least} on.")
