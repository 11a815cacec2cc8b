# SPDX-License-Identifier: Apache-2.0
"""Where a long run is, as a bar on a terminal; it is gone when nothing is under way."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from boardprof.printable import escaped

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


_SHORT_S = 0.5
"""What ends sooner needs no bar."""

_BESIDE = 28
"""Columns of the shortest bar, the remaining time and what parts them from the counts."""


class Bar:
    """Called with (what, done, total); see `boardprof.progress.Show`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Draw nothing yet.

        Args:
            clock: in seconds.
        """
        self._clock = clock
        self._began_s: float | None = None
        self._bar: Progress | None = None
        self._tasks: dict[bool, TaskID] = {}
        self._what: dict[bool, str] = {}

    def __call__(self, what: str, done: int, total: int | None) -> None:
        """Draw the progress of ``what``."""
        if not what:
            self.end()
            return
        now_s = self._clock()
        self._began_s = now_s if self._began_s is None else self._began_s
        if now_s - self._began_s < _SHORT_S:
            return
        bar = self._bar = self._bar or self._begun()
        is_known = total is not None
        bar.update(self._tasks[not is_known], visible=False)
        task = self._tasks[is_known]
        if what != self._what.get(is_known):
            self._what[is_known] = what
            bar.reset(task)  # how fast the last one went says nothing of this one
        seconds, what = "" if is_known else f", {done} s", escaped(what)
        room = bar.console.width - _BESIDE - 2 * len(str(total)) - len(seconds)
        shown = what if len(what) <= room else what[: max(0, room - 3)] + "..."
        bar.update(task, description=shown + seconds, completed=done, total=total, visible=True)
        bar.refresh()

    def get_ready(self) -> None:
        """Load the drawing library: it takes a while."""
        import rich.console
        import rich.progress  # noqa: F401

    def end(self) -> None:
        """Take it away, for whatever is printed next."""
        if self._bar is not None:
            self._bar.stop()
        self._bar = self._began_s = None
        self._what = {}

    def _begun(self) -> Progress:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        # Braces and brackets in foreign names are plain text.
        text = TextColumn("{task.description}", markup=False)
        columns = (text, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        # No drawing thread: it would disturb the measurements of an in-process board.
        bar = Progress(
            *columns,
            console=Console(stderr=True),
            transient=True,
            auto_refresh=False,
            redirect_stdout=False,
        )
        self._tasks = {
            known: bar.add_task("", total=None, visible=False) for known in (True, False)
        }
        bar.start()
        return bar
