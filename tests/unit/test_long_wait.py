# SPDX-License-Identifier: Apache-2.0
"""A user is told of a long wait once, and only where a slow clock may make it long."""

from __future__ import annotations

import time

from boardprof.boards.board_file import ClockSpec
from boardprof.run.long_wait import told_after

SLOW = ClockSpec("simulated", 120.0)
NOTE = (
    "still waiting for fir on qemu-rv32: a function that hangs is ended by the board, whose clock "
    "is slow, or given up within 1,205 s; --timeout-ms sets less"
)


def notes(clock: ClockSpec, *, quiet_s: float, work_s: float) -> list[str]:
    heard: list[str] = []
    with told_after(clock, "fir on qemu-rv32", 1205.0, heard.append, quiet_s=quiet_s):
        deadline = time.monotonic() + work_s
        while not heard and time.monotonic() < deadline:
            time.sleep(0.01)
    return heard


def test_a_long_wait_for_a_slow_clock_is_told_once() -> None:
    assert notes(SLOW, quiet_s=0.05, work_s=30.0) == [NOTE]


def test_a_short_one_is_not() -> None:
    assert notes(SLOW, quiet_s=30.0, work_s=0.05) == []


def test_of_a_clock_that_is_no_slower_than_ours_nothing_is_told() -> None:
    assert notes(ClockSpec("measured"), quiet_s=0.0, work_s=0.2) == []
