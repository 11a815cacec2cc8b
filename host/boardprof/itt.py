# SPDX-License-Identifier: Apache-2.0
"""Markers in a program of the host, as ``torch.profiler.itt`` has them.

They appear in the traces that `boardprof.profile` records meanwhile, and have no other effect.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from boardprof.trace.ranges import pop_range, push_range, record_function
from boardprof.trace.records import check_name
from boardprof.trace.records import mark as _mark

__all__ = ["is_available", "mark", "range", "range_pop", "range_push"]


def is_available() -> bool:
    """Return True: the markers have no dependencies."""
    return True


def mark(msg: str) -> None:
    """Mark an instant.

    Args:
        msg: its name.

    Raises:
        UsageError: it is not a string.
    """
    _mark(msg)


def range_push(msg: str) -> int:
    """Begin a range within those already pushed by this asyncio task or thread.

    Args:
        msg: its name.

    Returns:
        Its depth: 0 for the outermost.

    Raises:
        UsageError: the name is not a string.
    """
    return push_range(msg)


def range_pop() -> int:
    """End the range that this asyncio task or thread pushed last.

    Returns:
        The depth of the range that has ended: 0 for the outermost.

    Raises:
        UsageError: this task or thread has no open range.
    """
    return pop_range()


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
        push_range(self.name)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Pop the range."""
        pop_range(error)
