# SPDX-License-Identifier: Apache-2.0
"""Markers in a program of the host, as ``torch.profiler.itt`` has them.

They appear in the traces that `boardprof.profile` records meanwhile, and have no other effect.
"""

from __future__ import annotations

import sys
import threading
from typing import Self

from boardprof.base.errors import UsageError
from boardprof.compat.torch.host_events import (
    Open,
    begin_range,
    check_name,
    end_range,
    open_here,
    record_function,
)
from boardprof.compat.torch.host_events import mark as _mark

__all__ = ["is_available", "mark", "range", "range_pop", "range_push"]


def is_available() -> bool:
    """Return True: the markers have no dependencies."""
    return True


def mark(msg: str) -> None:
    """Mark an instant of this name.

    Raises:
        UsageError: it is not a string.
    """
    _mark(msg)


def range_push(msg: str) -> int:
    """Begin a range of this name within those already pushed by this asyncio task or thread.

    Returns:
        Its depth: 0 for the outermost.

    Raises:
        UsageError: the name is not a string.
    """
    begin_range(_pusher(), msg)
    return len(_pushed()) - 1


def range_pop() -> int:
    """End the range that this asyncio task or thread pushed last.

    Returns:
        The depth of the range that has ended: 0 for the outermost.

    Raises:
        UsageError: this task or thread has no open range.
    """
    return _pop()


class range(record_function):
    """A range around the body of a ``with``, or around each call of the decorated function."""

    def __init__(self, msg: str, *args: object, **kwargs: object) -> None:
        """Name the range.

        Args:
            msg: its name, with the fields of `str.format`.
            args: positional values for these fields.
            kwargs: named values for these fields.

        Raises:
            UsageError: the name is not a string.
        """
        check_name(msg)
        super().__init__(msg.format(*args, **kwargs))

    def __enter__(self) -> Self:
        """Push the range."""
        range_push(self.name)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Pop the range."""
        _pop(error)


def _pusher() -> tuple[int, object]:
    """Return the owner of pushed ranges: the thread, and its asyncio task or None."""
    # If asyncio is not imported, no task runs.
    asyncio = sys.modules.get("asyncio")
    try:
        task = None if asyncio is None else asyncio.current_task()
    except RuntimeError:  # no loop runs on this thread
        task = None
    return threading.get_ident(), task


def _pushed() -> list[Open]:
    """Return the ranges pushed and not popped by this task or thread, innermost first."""
    pusher = _pusher()
    return [each for each in open_here() if each.owner == pusher]


def _pop(error: BaseException | None = None) -> int:
    """End the range that was pushed last; ``error`` is the exception that ended it."""
    pushed = _pushed()
    if not pushed:
        raise UsageError(
            "range_pop without a range: this thread or task has no open range.",
            hint="one range_pop for each range_push, in the same thread or task",
        )
    end_range(pushed[0], error)
    return len(pushed) - 1
