# SPDX-License-Identifier: Apache-2.0
"""Offset and rate of the board's clock relative to the host's, from exchanges of time stamps.

This is pure arithmetic; `board.correlate` makes the exchanges. Each has four stamps: the host's
when the request left and when the reply arrived, and the board's as early and as late as the call
allowed (SPEC.md 5.7). Whatever the line did, the request left before the board got it, and the
reply arrived after the board sent it. So each exchange is a gate, and the true line from the
board's clock to the host's passes through it. Slow exchanges are wide gates and say little by
themselves. The fit is the middle of all lines through all gates. Its error bound is how far these
lines reach.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

__all__ = ["ClockFit", "Exchange", "fit_clock"]


@dataclass(frozen=True)
class Exchange:
    """One request and its reply, sent once: a retransmission leaves open which one was answered."""

    sent_s: float  # host's clock when the request left
    received: int  # board's clock when it had the request, ticks, not wrapped
    answered: int  # board's clock when it answered, likewise
    done_s: float  # host's clock when the reply was there


@dataclass(frozen=True)
class ClockFit:
    """The board's clock as a linear function of the host's."""

    hz: int  #: the clock rate that the board reports, 1/s
    tick_s: float  #: length of a tick by the host's clock, seconds
    reference: int  #: the board's clock at the first exchange, ticks
    host_s: float  #: the host's clock at ``reference``, seconds
    #: largest error of converting a reading within ``span_s``, if the board's clock ran evenly
    #: meanwhile; seconds
    error_s: float
    drift_error_ppm: float  #: greatest error of `drift_ppm`
    span_s: float  #: from the first to the last exchange, seconds
    exchanges: int  #: how many there were

    @property
    def drift_ppm(self) -> float:
        """How much faster the board's clock runs than reported, by the host's, in ppm."""
        return (1.0 / (self.tick_s * self.hz) - 1.0) * 1e6

    def to_host_s(self, ticks: int) -> float:
        """Return the host's clock at a reading of the board's clock, in seconds."""
        return self.host_s + (ticks - self.reference) * self.tick_s


_Post = tuple[int, float, int]
"""An end of a gate: ticks, the host's seconds, and 1 if the line passes above it, -1 if below."""


def fit_clock(exchanges: Sequence[Exchange], hz: int) -> ClockFit:
    """Fit the middle of all lines that two or more exchanges, in the order of time, allow.

    Raises ValueError if no line passes: the board's clock stopped, jumped or changed its rate.
    """
    if len(exchanges) < 2 or hz <= 0:
        raise ValueError("at least two exchanges and a clock rate are needed")
    reference, begin_s = exchanges[0].received, exchanges[0].sent_s
    last = exchanges[-1].answered - reference
    lines = list(_extreme_lines(_posts(exchanges, reference, begin_s), 1.0 / hz))
    if last <= 0 or not lines:
        raise ValueError("the board's clock does not run evenly by the host's")
    low_begin, high_begin = min(line[0] for line in lines), max(line[0] for line in lines)
    ends = [at_s + slope * last for at_s, slope in lines]
    slopes = [slope for _, slope in lines]
    begin, end = (low_begin + high_begin) / 2, (min(ends) + max(ends)) / 2
    return ClockFit(
        hz=hz,
        tick_s=(end - begin) / last,
        reference=reference,
        host_s=begin_s + begin,
        error_s=max(high_begin - low_begin, max(ends) - min(ends)) / 2,
        drift_error_ppm=(max(slopes) - min(slopes)) * hz * 1e6,
        span_s=exchanges[-1].done_s - begin_s,
        exchanges=len(exchanges),
    )


def _posts(exchanges: Sequence[Exchange], reference: int, begin_s: float) -> list[_Post]:
    """Return the gates' ends, counted from the first stamps: floats keep nanoseconds that way.

    A reading may stand for anything up to one tick later.
    """
    return [
        post
        for e in exchanges
        for post in (
            (e.received + 1 - reference, e.sent_s - begin_s, 1),
            (e.answered - reference, e.done_s - begin_s, -1),
        )
    ]


def _extreme_lines(posts: Sequence[_Post], tick_s: float) -> Iterator[tuple[float, float]]:
    """Yield the corners of the set of lines through all gates, as (at 0, slope).

    The set is convex, so whatever is linear in a line (its height somewhere, its slope) is greatest
    and least in a corner; in a corner two posts are touched.
    """
    slack_s = 1e-6 * tick_s
    for (ticks, host_s, _), (other_ticks, other_s, _) in itertools.combinations(posts, 2):
        if ticks == other_ticks:
            continue
        slope = (other_s - host_s) / (other_ticks - ticks)
        at_s = host_s - slope * ticks
        if all(_passes(post, at_s + slope * post[0], slack_s) for post in posts):
            yield at_s, slope


def _passes(post: _Post, line_s: float, slack_s: float) -> bool:
    _, host_s, side = post
    return side * (line_s - host_s) >= -max(slack_s, 1e-12 * math.fabs(host_s))
