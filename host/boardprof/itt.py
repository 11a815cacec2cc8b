# SPDX-License-Identifier: Apache-2.0
"""Markers in a program of the host, as ``torch.profiler.itt`` has them.

They stand in the traces of whatever `boardprof.profile` records meanwhile, and do nothing else.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from boardprof.trace.ranges import pop_range, push_range, record_function
from boardprof.trace.records import check_name
from boardprof.trace.records import mark as _mark

__all__ = ["is_available", "mark", "range", "range_pop", "range_push"]


def is_available() -> bool:
    """Return True: the markers need nothing that could be missing."""
    return True


def mark(msg: str) -> None:
    """Note an instant.

    Args:
        msg: its name.

    Raises:
        UsageError: it is no text.
    """
    _mark(msg)


def range_push(msg: str) -> int:
    """Begin a range within those that this task of asyncio, or this thread, has pushed.

    Args:
        msg: its name.

    Returns:
        Its depth: 0 for the outermost.

    Raises:
        UsageError: the name is no text.
    """
    return push_range(msg)


def range_pop() -> int:
    """End the range that this task of asyncio, or this thread, pushed last.

    Returns:
        The depth of the range that has ended: 0 for the outermost.

    Raises:
        UsageError: it has pushed none that is still open.
    """
    return pop_range()


class range(record_function):
    """A range around what stands in the ``with``, or around each call of what this decorates."""

    def __init__(self, msg: str, *args: object, **kwargs: object) -> None:
        """Name the range.

        Args:
            msg: its name, with fields as `str.format` knows them.
            args: for these fields.
            kwargs: likewise.

        Raises:
            UsageError: the name is no text.
        """
        check_name(msg)
        super().__init__(msg.format(*args, **kwargs))

    def __enter__(self) -> Self:
        """Push it."""
        push_range(self.name)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Pop it."""
        pop_range(error)
