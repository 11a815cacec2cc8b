# SPDX-License-Identifier: Apache-2.0
"""Progress of a long run: a bar on a terminal, lines in a log."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from boardprof.base.printable import escaped

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


_SHORT_S = 0.5
"""Shorter work gets no bar."""

_BESIDE = 28
"""Columns of the shortest bar, of the remaining time and of the gaps."""


class Bar:
    """Called with (what, done, total); see `boardprof.base.progress.Show`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Draw nothing yet."""
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
            bar.reset(task)  # the speed of the last activity says nothing about this one
        seconds, what = "" if is_known else f", {done} s", escaped(what)
        room = bar.console.width - _BESIDE - 2 * len(str(total)) - len(seconds)
        shown = what if len(what) <= room else what[: max(0, room - 3)] + "..."
        bar.update(task, description=shown + seconds, completed=done, total=total, visible=True)
        bar.refresh()

    def get_ready(self) -> None:
        """Load the drawing library, which takes a while."""
        import rich.console
        import rich.progress  # noqa: F401

    def end(self) -> None:
        """Remove the bar, so that other output can be printed."""
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


_LOOK_S = 1.0
"""Time in which the speed is measured."""

_LONG_S = 10.0
"""Shorter work gets no line."""

_EVERY_S = 30.0


@dataclass
class _Way:
    """Progress of one activity since it was first seen; earlier work has no known duration."""

    began_s: float
    began_at: int
    done: int
    next_s: float


class ProgressLines:
    """Called with (what, done, total), as a progress bar is."""

    def __init__(
        self, tell: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Report nothing yet."""
        self._tell = tell
        self._clock = clock
        self._ways: dict[str, _Way] = {}

    def __call__(self, what: str, done: int, total: int | None) -> None:
        """Record the progress of ``what``; several activities may alternate."""
        # What stands after a semicolon is a detail that changes while the activity goes on. Without
        # ``total``, ``done`` is the seconds since it began; the rest is unknown.
        if not what:
            return  # no activity
        if total is None:
            self._take_seconds(what, done)
            return
        now_s = self._clock()
        name = what.partition(";")[0]
        way = self._ways.get(name)
        if way is None or done < way.done:
            # Do not report an activity that restarts soon, such as a transfer before each round.
            next_s = max(now_s + _LOOK_S, way.next_s if way is not None else 0.0)
            way = self._ways[name] = _Way(now_s, done, done, next_s)
        way.done = done
        if now_s < way.next_s or done <= way.began_at:
            return
        left_s = (now_s - way.began_s) / (done - way.began_at) * (total - done)
        if left_s + now_s - way.began_s < _LONG_S or done >= total:
            way.next_s = now_s + _LOOK_S
            return
        self._tell(f"{what}: {done:,} of {total:,}, about {_shown(left_s)} left")
        way.next_s = now_s + _EVERY_S

    def _take_seconds(self, what: str, passed: int) -> None:
        name = what.partition(";")[0]
        way = self._ways.get(name)
        if way is None or passed < way.done:
            way = self._ways[name] = _Way(0.0, 0, passed, _LONG_S)
        way.done = passed
        if passed >= way.next_s:
            self._tell(f"{what}: {_shown(passed)} so far")
            way.next_s = passed + _EVERY_S


def _shown(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
