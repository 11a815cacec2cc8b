# SPDX-License-Identifier: Apache-2.0
"""Ranges that a program of the host marks by name, around its calls of boards."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

from boardprof.errors import UsageError
from boardprof.trace.records import Kind, Record, begin_range, now_ns

__all__ = ["pop_range", "push_range", "record_function"]

_P = ParamSpec("_P")
_T = TypeVar("_T")


class record_function:
    """A named range, by ``with`` or as a decorator; it costs next to nothing while nothing records.

    ::

        with record_function("layer 1"):
            board.functions.conv2d(x, w, y)
    """

    def __init__(self, name: str, args: object = None, *, kind: Kind = "range") -> None:
        """Name the range; it begins with the ``with``.

        Args:
            name: any text.
            args: what the trace shows of it besides: a text, or a dict.
            kind: what it is.
        """
        self.name = name
        self.args = args
        self._kind = kind
        self._open: list[Record | None] = []

    def __enter__(self) -> Self:
        """Begin the range."""
        self._open.append(begin_range(self.name, self._kind, self.args))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it."""
        _end(self._open.pop())

    def __call__(self, function: Callable[_P, _T]) -> Callable[_P, _T]:
        """Put a range around each call of ``function``."""

        @functools.wraps(function)
        def ranged(*args: _P.args, **named: _P.kwargs) -> _T:
            with record_function(self.name, self.args, kind=self._kind):
                return function(*args, **named)

        return ranged


class _Pushed(threading.local):
    """The ranges of one thread that were pushed and not popped."""

    def __init__(self) -> None:
        self.open: list[Record | None] = []


_PUSHED = _Pushed()


def push_range(name: str) -> int:
    """Begin a range on this thread; return its depth, 0 for the outermost."""
    _PUSHED.open.append(begin_range(name))
    return len(_PUSHED.open) - 1


def pop_range() -> int:
    """End the innermost range of this thread that was pushed; return its depth.

    Raises:
        UsageError: there is none.
    """
    if not _PUSHED.open:
        raise UsageError(
            "range_pop without a range: this thread has pushed none that is still open.",
            hint="one range_pop for each range_push, on the same thread",
        )
    _end(_PUSHED.open.pop())
    return len(_PUSHED.open)


def _end(record: Record | None) -> None:
    if record is not None:
        record.end_ns = now_ns()
