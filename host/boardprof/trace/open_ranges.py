# SPDX-License-Identifier: Apache-2.0
"""Open ranges around a moment of the host's program, by context rather than by thread.

A task of asyncio runs in a copy of the context that made it: it has the ranges that were open
there. Ranges that either begins later belong to it alone. A thread begins without ranges, unless it
gets a context, as from `asyncio.to_thread`. A generator shares its caller's context.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from boardprof.trace.records import Record


@dataclass(slots=True, eq=False)
class Open:
    """A range that has begun in a context.

    Contexts copied since then share it, so its end is visible in all of them.

    Attributes:
        owner: the one that will end it.
        record: of it; None if nothing records.
        around: the range in which it began.
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
    """Yield the open ranges of this context, innermost first."""
    at = _not_over(_INNERMOST.get())
    while at is not None:
        yield at
        at = _not_over(at.around)


def innermost_of(owner: object) -> Open | None:
    """Return this owner's innermost range; None if it has none."""
    at = _not_over(_INNERMOST.get())
    while at is not None and at.owner is not owner:
        at = _not_over(at.around)
    return at


def innermost_record() -> Record | None:
    """Return the record of the innermost range that has one."""
    return next((each.record for each in open_here() if each.record is not None), None)


def begin(owner: object, record: Record | None) -> Open:
    """Open a range in this context, within all open ones."""
    opened = Open(owner, record, _not_over(_INNERMOST.get()))
    _INNERMOST.set(opened)
    return opened


def end(opened: Open) -> None:
    """Close a range, in any context; inner ones may still be open, such as a generator's."""
    opened.is_over = True
    # Do not keep it alive longer than needed; other contexts skip it.
    if _INNERMOST.get() is opened:
        _INNERMOST.set(_not_over(opened.around))
