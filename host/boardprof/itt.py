# SPDX-License-Identifier: Apache-2.0
"""Markers in a program of the host, as ``torch.profiler.itt`` has them.

They stand in the traces of whatever `boardprof.profile` records meanwhile, and do nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from boardprof.trace.ranges import pop_range, push_range
from boardprof.trace.records import mark as _mark

__all__ = ["is_available", "mark", "range", "range_pop", "range_push"]


def is_available() -> bool:
    """Return True: the markers need nothing that could be missing."""
    return True


def mark(msg: str) -> None:
    """Note an instant.

    Args:
        msg: its name.
    """
    _mark(msg)


def range_push(msg: str) -> int:
    """Begin a range within those that this thread has pushed.

    Args:
        msg: its name.

    Returns:
        Its depth: 0 for the outermost.
    """
    return push_range(msg)


def range_pop() -> int:
    """End the range that this thread pushed last.

    Returns:
        The depth of the range that has ended: 0 for the outermost.

    Raises:
        UsageError: this thread has no range open.
    """
    return pop_range()


@contextmanager
def range(msg: str, *args: object, **kwargs: object) -> Iterator[None]:
    """Put a range around what stands in the ``with``, or in the function that this decorates.

    Args:
        msg: its name, with fields as `str.format` knows them.
        args: for these fields.
        kwargs: likewise.
    """
    push_range(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        pop_range()
