# SPDX-License-Identifier: Apache-2.0
"""Named ranges in a host program, around its calls of boards."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from boardprof.errors import UsageError
from boardprof.trace.records import Kind, Open, begin_range, check_name, end_range, open_here

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
        self._open.append(begin_range(self, self.name, self._kind, self.args))
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
        mine = next((each for each in open_here() if each.owner is self), self._open[-1])
        self._open.remove(mine)
        end_range(mine, error)

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
