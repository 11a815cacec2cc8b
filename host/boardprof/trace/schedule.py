# SPDX-License-Identifier: Apache-2.0
"""Schedules: which steps of a program are profiled."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from enum import Enum

from boardprof.errors import UsageError


class ProfilerActivity(Enum):
    """What a profile records."""

    CPU = "cpu"
    """The host: its calls of boards, ranges and marks."""

    BOARD = "board"
    """Boards: counters, and the times of calls by the board's own clock."""


class ProfilerAction(Enum):
    """What a profile does in one step."""

    NONE = 0
    """Nothing."""

    WARMUP = 1
    """Do the same as `RECORD`, but discard the events."""

    RECORD = 2
    """Record."""

    RECORD_AND_SAVE = 3
    """Record, and deliver the trace after the step."""


Schedule = Callable[[int], ProfilerAction]
"""Function from a step's number, >= 0, to its action."""


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
        wait: idle steps at the start of a cycle, >= 0.
        warmup: steps after these, whose events are discarded, >= 0.
        active: steps after these, which are recorded, >= 1.
        repeat: number of cycles; 0 for no end.
        skip_first: steps before the first cycle, >= 0.
        skip_first_wait: if not 0, the first cycle does not wait.

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
    """Record each step: the schedule of a profile without one."""
    return ProfilerAction.RECORD


def _check(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UsageError(f"{name}={value!r:.60} is not a whole number of {least} or more.")
