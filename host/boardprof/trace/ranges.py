# SPDX-License-Identifier: Apache-2.0
"""Named ranges in a host program, around its calls of boards."""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple, ParamSpec, Self, TypeVar

from boardprof.errors import UsageError
from boardprof.trace.open_ranges import Open, begin, end, innermost_of, open_here
from boardprof.trace.records import Kind, begin_range, check_name, now_ns

_P = ParamSpec("_P")
_T = TypeVar("_T")


class record_function:
    """A named range, as a ``with`` or a decorator; almost free while nothing records.

    ::

        with record_function("layer 1"):
            board.functions.conv2d(x, w, y)
    """

    def __init__(self, name: str, args: object = None, *, kind: Kind = "range") -> None:
        """Name the range; it begins with the ``with``.

        Args:
            name: any text.
            args: shown with it in the trace: a string or a dict.
            kind: kind of the event.

        Raises:
            UsageError: the name is not a string.
        """
        check_name(name)
        self.name = name
        self.args = args
        self._kind = kind
        self._open: list[Open] = []  # in all contexts

    def __enter__(self) -> Self:
        """Begin the range."""
        record = begin_range(self.name, self._kind, self.args)
        self._open.append(begin(self, record))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it.

        Raises:
            UsageError: it has not begun.
        """
        if not self._open:
            raise UsageError(
                f"The range {self.name!r:.60} cannot end: it has not begun.",
                hint="use record_function in a `with` statement",
            )
        # A range may end in another context: a generator closed elsewhere, or a step.
        mine = innermost_of(self) or self._open[-1]
        self._open.remove(mine)
        _end(mine, error)

    def __call__(self, function: Callable[_P, _T]) -> Callable[_P, _T]:
        """Put a range around each call of ``function``; for a coroutine, until it returns.

        Raises:
            UsageError: it is a generator, whose call only creates it; or not a function.
        """
        if not callable(function):
            raise UsageError(
                f"{function!r:.60} is not a function, so it cannot have a range around it."
            )
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise UsageError(
                f"{function.__qualname__} is a generator: calling it only creates one, and its "
                "work happens later.",
                hint="put `with record_function(...)` around what takes time in it",
            )
        if inspect.iscoroutinefunction(function):
            return self._awaited(function)
        return self._called(function)

    def _called(self, function: Callable[_P, _T]) -> Callable[_P, _T]:
        @functools.wraps(function)
        def ranged(*args: _P.args, **named: _P.kwargs) -> _T:
            with record_function(self.name, self.args, kind=self._kind):
                return function(*args, **named)

        return ranged

    def _awaited(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        async def ranged(*args: object, **named: object) -> object:
            with record_function(self.name, self.args, kind=self._kind):
                return await function(*args, **named)

        return ranged


class _Pusher(NamedTuple):
    """The owner of pushed ranges: an asyncio task, or a thread outside of tasks."""

    thread: int
    task: object


def _pushed() -> list[Open]:
    """Return the ranges pushed and not popped by this task or thread, innermost first."""
    pusher = _pusher()
    return [each for each in open_here() if each.owner == pusher]


def _pusher() -> _Pusher:
    # If asyncio is not imported, no task runs.
    asyncio = sys.modules.get("asyncio")
    try:
        task = None if asyncio is None else asyncio.current_task()
    except RuntimeError:  # no loop runs on this thread
        task = None
    return _Pusher(threading.get_ident(), task)


def push_range(name: str) -> int:
    """Begin a range in this task or thread; return its depth, 0 for the outermost."""
    begin(_pusher(), begin_range(name))
    return len(_pushed()) - 1


def pop_range(error: BaseException | None = None) -> int:
    """End the innermost range that this task or thread has pushed; return its depth.

    Args:
        error: the exception that ended it.

    Raises:
        UsageError: there is no open range.
    """
    pushed = _pushed()
    if not pushed:
        raise UsageError(
            "range_pop without a range: this thread or task has no open range.",
            hint="one range_pop for each range_push, in the same thread or task",
        )
    _end(pushed[0], error)
    return len(pushed) - 1


def _end(opened: Open, error: BaseException | None) -> None:
    ended_ns = now_ns()
    end(opened)
    if opened.record is not None:
        opened.record.end_ns = ended_ns
        opened.record.error = "" if error is None else type(error).__name__
