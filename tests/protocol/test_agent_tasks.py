# SPDX-License-Identifier: Apache-2.0
"""The real C agent's table of tasks, and bp.trace_tasks (SPEC.md 5.12)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.memory_board import CHANNELS, MemoryBoard

Boards = Callable[[dict[str, int]], MemoryBoard]

NOT_FILLED = -1
FILL = 0xA5


class Tasks:
    """The table of a board that has three places."""

    def __init__(self, board: MemoryBoard) -> None:
        """Make a stack of 64 bytes. A task has used the upper 24, since stacks grow down."""
        self._board = board
        self.stack = board.ffi.new("uint8_t[64]", [FILL] * 40 + [1] * 24)

    def add(self, task: int, name: str, stack: Any = None, size: int = 0, fill: int = -1) -> None:
        ffi = self._board.ffi
        place = ffi.NULL if stack is None else stack
        self._board.lib.bp_task_add(ffi.cast("void *", task), name.encode(), place, size, fill)

    def rename(self, task: int, name: str) -> None:
        self._board.lib.bp_task_rename(self._board.ffi.cast("void *", task), name.encode())

    def remove(self, task: int) -> None:
        self._board.lib.bp_task_remove(self._board.ffi.cast("void *", task))

    def listed(self) -> list[list[object]]:
        found = []
        while (row := self._board.call("bp.trace_tasks", len(found))) is not None:
            found.append(row)
        return found


def test_the_table_has_the_tasks_that_there_are_and_those_that_ended_last(boards: Boards) -> None:
    """One test, since nothing empties the table but a reset."""
    board = boards({**CHANNELS, "BP_CFG_TRACE": 256, "BP_CFG_TASKS": 3})
    board.hello()
    tasks = Tasks(board)
    assert tasks.listed() == []
    tasks.add(0x100, "a name of 16 cha", tasks.stack, 64, FILL)
    tasks.add(0x200, "idle")
    assert tasks.listed() == [
        [0x100, b"a name of 16 ch", 64, 24],
        [0x200, b"idle", None, None],
    ]
    tasks.rename(0x100, "motor")
    tasks.rename(0x900, "unknown")
    # An ended task keeps its name as long as another place is free.
    tasks.remove(0x100)
    tasks.remove(0x900)
    assert tasks.listed() == [[0x100, b"motor", 64, None], [0x200, b"idle", None, None]]
    tasks.add(0x300, "radio", tasks.stack, 64, NOT_FILLED)
    assert tasks.listed() == [
        [0x100, b"motor", 64, None],
        [0x200, b"idle", None, None],
        [0x300, b"radio", 64, None],
    ]
    for task, name in ((0x400, "next"), (0x200, "again"), (0x500, "one too many")):
        tasks.add(task, name)
    assert tasks.listed() == [
        [0x400, b"next", None, None],
        [0x200, b"again", None, None],
        [0x300, b"radio", 64, None],
    ]
