# SPDX-License-Identifier: Apache-2.0
"""A word on what is waited for, where a slow emulator may keep a user waiting for minutes."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from boardprof.board.measuring import QUIET_S
from boardprof.boards.board_file import ClockSpec

__all__ = ["told_after"]


@contextlib.contextmanager
def told_after(
    clock: ClockSpec,
    what: str,
    longest_s: float,
    on_note: Callable[[str], None],
    *,
    quiet_s: float = QUIET_S,
) -> Iterator[None]:
    """Tell once, when a board has been at something for a while, how long that may last.

    Only of boards whose clock is slower than ours: of the others the limit says it.

    Args:
        clock: the board's.
        what: function and board, for the note.
        longest_s: how long the host waits for an answer.
        on_note: gets the note, from a thread of its own.
        quiet_s: after how many seconds.
    """
    if clock.time_scale <= 1.0:
        yield
        return
    note = (
        f"still waiting for {what}: a function that hangs is ended by the "
        f"board, whose clock is slow, or given up within {longest_s:,.0f} s; --timeout-ms sets less"
    )
    timer = threading.Timer(quiet_s, on_note, [note])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
