# SPDX-License-Identifier: Apache-2.0
"""Where a long run is, as lines for a log: one when it turns out to be long, then now and then."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

_LOOK_S = 1.0
"""So long is looked at how fast it goes."""

_LONG_S = 10.0
"""What ends sooner needs no word."""

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
        """Report nothing yet.

        Args:
            tell: gets each line.
            clock: in seconds.
        """
        self._tell = tell
        self._clock = clock
        self._ways: dict[str, _Way] = {}

    def __call__(self, what: str, done: int, total: int | None) -> None:
        """Record the progress of ``what``; several activities may alternate.

        Without ``total``, ``done`` is the seconds since it began; the rest is unknown.
        """
        if not what:
            return  # nothing is under way
        if total is None:
            self._take_seconds(what, done)
            return
        now_s = self._clock()
        way = self._ways.get(what)
        if way is None or done < way.done:
            # Do not report an activity that restarts soon, such as a transfer before each round.
            next_s = max(now_s + _LOOK_S, way.next_s if way is not None else 0.0)
            way = self._ways[what] = _Way(now_s, done, done, next_s)
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
        way = self._ways.get(what)
        if way is None or passed < way.done:
            way = self._ways[what] = _Way(0.0, 0, passed, _LONG_S)
        way.done = passed
        if passed >= way.next_s:
            self._tell(f"{what}: {_shown(passed)} so far")
            way.next_s = passed + _EVERY_S


def _shown(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
