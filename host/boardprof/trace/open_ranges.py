# SPDX-License-Identifier: Apache-2.0
"""What is open around a moment of the host's program: that of its context, not of its thread.

A task of asyncio runs in a copy of the context that made it: it has the ranges that were open there
then, and what either begins later is not the other's. A thread begins with none, unless it is given
a context, as `asyncio.to_thread` does. A generator shares that of its caller.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from boardprof.trace.records import Record

__all__ = ["Open", "begin", "end", "innermost_of", "innermost_record", "open_here"]


@dataclass(slots=True, eq=False)
class Open:
    """Something that has begun in a context.

    Contexts that were copied meanwhile share it, so that its end shows in all of them.

    Attributes:
        owner: who will end it.
        record: of it; None where nothing records.
        around: what it began in.
        is_over: it has ended.
    """

    owner: object
    record: Record | None
    around: Open | None
    is_over: bool = False


_INNERMOST: ContextVar[Open | None] = ContextVar("boardprof_innermost", default=None)


def _not_over(at: Open | None) -> Open | None:
    while at is not None and at.is_over:
        at = at.around
    return at


def open_here() -> Iterator[Open]:
    """Yield what is open in this context, the innermost first."""
    at = _not_over(_INNERMOST.get())
    while at is not None:
        yield at
        at = _not_over(at.around)


def innermost_of(owner: object) -> Open | None:
    """Return the innermost that is this owner's, None: none is."""
    at = _not_over(_INNERMOST.get())
    while at is not None and at.owner is not owner:
        at = _not_over(at.around)
    return at


def innermost_record() -> Record | None:
    """Return the record of the innermost that has one."""
    return next((each.record for each in open_here() if each.record is not None), None)


def begin(owner: object, record: Record | None) -> Open:
    """Open something in this context, within all that is open there."""
    opened = Open(owner, record, _not_over(_INNERMOST.get()))
    _INNERMOST.set(opened)
    return opened


def end(opened: Open) -> None:
    """Close it, in whatever context; what began within may be open still, as by a generator."""
    opened.is_over = True
    # Not kept alive longer than it takes; another context passes it over.
    if _INNERMOST.get() is opened:
        _INNERMOST.set(_not_over(opened.around))
