# SPDX-License-Identifier: Apache-2.0
"""Progress of slow work, from the code that does it to the code that shows it.

Slow code opens an `activity`, or calls `show_progress` where a board counts the steps; a command
chooses with `shown_by` who shows it. If nothing shows it, as in a library, it costs nothing.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TypeAlias

Show: TypeAlias = Callable[[str, int, "int | None"], None]
"""Called with (what, done, total). If total is None, done is the seconds since it began.

("", 0, None) is called when it has ended.
"""

_FIRST_S = 0.5
_TICK_S = 1.0

_QUIET_S = 2
"""Shorter waits between two rounds are not shown: how many are done is more informative."""

_show: ContextVar[Show | None] = ContextVar("boardprof_progress", default=None)


@contextlib.contextmanager
def shown_by(show: Show) -> Iterator[None]:
    """Let activities be shown while the context lasts."""
    before = _show.set(show)
    try:
        yield
    finally:
        _show.reset(before)


@contextlib.contextmanager
def part_of(text: str) -> Iterator[None]:
    """Show ``text`` after the name of each activity while the context lasts."""
    show = _show.get()
    if show is None:
        yield
        return
    with shown_by(lambda what, done, total: show(what and f"{what}; {text}", done, total)):
        yield


def show_progress(what: str, done: int, total: int | None) -> None:
    """Show how far something is; see `Show`."""
    show = _show.get()
    if show is not None:
        show(what, done, total)


@contextlib.contextmanager
def activity(
    what: str, total: int | None = None, *, seconds: float | None = None
) -> Iterator[Callable[[int], None]]:
    """Show that something is under way while the context lasts; yields a function for steps done.

    Without ``total`` there are no steps: a thread reports once a second. ``seconds`` is a rough
    guess.
    """
    show = _show.get()
    if show is None:
        yield lambda done: None
        return
    try:
        if total is not None:
            show(what, 0, total)
            yield lambda done: show(what, done, total)
            return
        end = None if seconds is None else max(1, round(seconds))
        with _each_second(lambda passed: show(what, min(passed, end or passed), end)):
            yield lambda done: None
    finally:
        show("", 0, None)


@contextlib.contextmanager
def waiting(what: str, *, once: bool = False) -> Iterator[Callable[[], None]]:
    """Show how long the board is silent; yields a function to call when something has come.

    ``once``: only until something has come for the first time.
    """
    show = _show.get()
    if show is None:
        yield lambda: None
        return
    quiet_s = 0

    def tick(passed: int) -> None:
        if passed >= quiet_s:
            show(what, passed, None)

    with _each_second(tick, once=once) as restart:

        def heard() -> None:
            nonlocal quiet_s
            quiet_s = _QUIET_S
            restart()

        yield heard


@contextlib.contextmanager
def _each_second(
    tick: Callable[[int], None], *, once: bool = False
) -> Iterator[Callable[[], None]]:
    """Call ``tick`` with the seconds since the beginning, or since the yielded function's call.

    ``once``: that call ends it.
    """
    ended, began_s = threading.Event(), time.monotonic()

    def restart() -> None:
        nonlocal began_s
        began_s = time.monotonic()

    def run() -> None:
        wait_s = _FIRST_S
        while not ended.wait(wait_s):
            wait_s = _TICK_S
            tick(int(time.monotonic() - began_s))

    thread = threading.Thread(target=run, name="boardprof-progress", daemon=True)
    thread.start()
    try:
        yield ended.set if once else restart
    finally:
        ended.set()
        thread.join()
