# SPDX-License-Identifier: Apache-2.0
"""The acts of a profile between two steps."""

from __future__ import annotations

from enum import Enum

from boardprof.trace.schedule import ProfilerAction


class Act(Enum):
    """One act between two steps."""

    PREPARE = "begin to watch"
    START = "keep what is seen"
    STOP = "watch no longer; what was kept is the trace"
    DROP = "watch no longer; what was kept is thrown away"
    READY = "tell that there is a trace"
    WARN = "warn that a cycle is thrown away"


_NONE = ProfilerAction.NONE
_WARMUP = ProfilerAction.WARMUP
_RECORD = ProfilerAction.RECORD
_SAVE = ProfilerAction.RECORD_AND_SAVE
_SAVED = (Act.STOP, Act.READY)
_DROPPED = (Act.WARN, Act.DROP)
_AGAIN = (*_SAVED, Act.PREPARE, Act.START)

_ACTS: dict[tuple[ProfilerAction, ProfilerAction | None], tuple[Act, ...]] = {
    (_NONE, _NONE): (),
    (_NONE, _WARMUP): (Act.PREPARE,),
    (_NONE, _RECORD): (Act.PREPARE, Act.START),
    (_NONE, _SAVE): (Act.PREPARE, Act.START),
    (_NONE, None): (),
    (_WARMUP, _NONE): _DROPPED,
    (_WARMUP, _WARMUP): (),
    (_WARMUP, _RECORD): (Act.START,),
    (_WARMUP, _SAVE): (Act.START,),
    (_WARMUP, None): (Act.DROP,),
    (_RECORD, _NONE): _DROPPED,
    (_RECORD, _WARMUP): (*_DROPPED, Act.PREPARE),
    (_RECORD, _RECORD): (),
    (_RECORD, _SAVE): (),
    (_RECORD, None): _SAVED,
    (_SAVE, _NONE): _SAVED,
    (_SAVE, _WARMUP): (*_SAVED, Act.PREPARE),
    (_SAVE, _RECORD): _AGAIN,
    (_SAVE, _SAVE): _AGAIN,
    (_SAVE, None): _SAVED,
}


def acts_between(before: ProfilerAction, now: ProfilerAction | None) -> tuple[Act, ...]:
    """Return the acts between two steps, in order; ``now`` is None if the profile ends."""
    return _ACTS[before, now]
