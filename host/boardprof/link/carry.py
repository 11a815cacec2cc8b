# SPDX-License-Identifier: Apache-2.0
"""Carrying a block through its channel, from the first frame to the last acknowledgement."""

from __future__ import annotations

from collections.abc import Callable

from boardprof.link.channel import Receiver, Upload
from boardprof.link.line import Line, OnProgress

__all__ = ["carry"]

_PROBE_AFTER = 3
"""Time-outs of a channel after which the board is asked whether it still knows the session."""


def carry(
    line: Line,
    channel: Receiver | Upload,
    name: str,
    silence_s: float,
    is_known: Callable[[str, float], bool],
    on_progress: OnProgress | None,
) -> None:
    """Carry a block through its channel, by a line that is held.

    Args:
        line: to the board.
        channel: the open channel, of known length.
        name: for messages.
        silence_s: longest time that brings nothing new.
        is_known: asks the board, by a call of this name and in so many seconds, whether it still
            knows the session; False: no answer.
        on_progress: called with (bytes done, bytes in all) when there is something new.

    Raises:
        BoardTimeoutError: for ``silence_s`` nothing new came.
        LinkError: the line is gone.
    """
    length = channel.length or 0
    now = line.clock()
    position, deadline = channel.position, now + silence_s
    probe_after = _PROBE_AFTER
    while not channel.done:
        if outgoing := line.client.outgoing(now):
            line.transport.write(outgoing, silence_s)
            now = line.clock()
        _, now = line.turn(now, deadline, silence_s)
        if channel.position != position:
            position, deadline = channel.position, now + silence_s
            probe_after = _PROBE_AFTER
            if on_progress is not None:
                on_progress(position, length)
            continue
        answers = now < deadline
        if answers and channel.timeouts >= probe_after:
            probe_after *= 2
            answers = is_known(name, deadline - now)
            now = line.clock()
        if not answers:
            where = f" after {channel.position} of {length} bytes"
            raise line.silent(name, silence_s, where)
