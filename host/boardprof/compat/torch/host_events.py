# SPDX-License-Identifier: Apache-2.0
"""Records of the host's activity while a profile records: ranges, marks and calls.

What is around a record depends on its context, not on its thread. A task of asyncio runs in a copy
of the context that made it: it has the ranges that were open there. Ranges that either begins later
belong to it alone. A thread begins without ranges, unless it gets a context, as from
`asyncio.to_thread`. A generator shares its caller's context.
"""

from __future__ import annotations

import functools
import inspect
import posixpath
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, ParamSpec, Self, TypeVar

from boardprof.base.errors import UsageError
from boardprof.base.metrics import Metric
from boardprof.compat.torch.board_activity import CallProbes, DeviceSpan
from boardprof.results.report.profile import Profile

Kind = Literal["range", "step", "mark", "call", "measurement", "function", "device_range"]


class Thread(NamedTuple):
    """A thread of the host: its identifier as the system has it, and its name."""

    id: int
    name: str


@dataclass(slots=True, eq=False)
class HostEvent:
    """A range or call that began, and ended unless `end_ns` is None."""

    name: str
    kind: Kind
    thread: Thread
    start_ns: int  # the host's clock
    end_ns: int | None = None
    # the innermost open range of its context
    around: HostEvent | None = field(default=None, repr=False)
    # the user's facts about a range, or facts about a call
    args: dict[str, object] = field(default_factory=dict)
    board: str = ""  # the called one; "" if none
    input_shapes: str | None = None  # as Reports show them; None if not known
    # of the arrays among them, by parameter
    dims: Mapping[str, tuple[int, ...]] = field(default_factory=dict, repr=False)
    # of the scalars among them, by parameter
    values: Mapping[str, float] = field(default_factory=dict, repr=False)
    count: int = 1  # calls: those in a measurement's samples, else 1
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    is_raw: bool = False  # the counters include more than the function
    device_spans: tuple[DeviceSpan, ...] = ()
    untimed: str = ""  # why its time on the board is not known; "" if it is
    error: str = ""  # name of the exception that ended it; "" for none
    profile: Profile | None = field(default=None, repr=False)
    source: str = ""  # file and line of the called function, with ``with_stack``
    inputs: tuple[tuple[str, tuple[int, ...]], ...] = ()  # type and shape of each argument
    probes: CallProbes | None = field(default=None, repr=False)  # None if not asked for
    # the host refused the call and did not call the board
    is_refused: bool = field(default=False, repr=False)


RECORDINGS: list[list[HostEvent]] = []
"""Targets of ranges and marks, one for each profile that records the host; usually empty."""


def now_ns() -> int:
    """Return the host's clock in ns, the one that `ClockFit` uses."""
    return time.monotonic_ns()


def this_thread() -> Thread:
    """Return the current thread."""
    return Thread(threading.get_native_id(), threading.current_thread().name)


def place_text(file: str, line: int) -> str:
    """Return ``file.c:12``; "" if a place is not known."""
    return f"{posixpath.basename(file)}:{line}" if file and line else ""


def check_name(name: object) -> None:
    """Raise UsageError unless the name of a range or a mark is a string."""
    if not isinstance(name, str):
        raise UsageError(f"{name!r:.60} is not the name of a range or a mark: it must be a string.")


def begin_range(owner: object, name: str, kind: Kind = "range", args: object = None) -> Open:
    """Begin a range in this context, and record it if anything records."""
    return begin(owner, _recorded(name, kind, args))


def end_range(opened: Open, error: BaseException | None = None) -> None:
    """End a range and its record; ``error`` is the exception that ended it."""
    ended_ns = now_ns()
    end(opened)
    if opened.record is not None:
        opened.record.end_ns = ended_ns
        opened.record.error = "" if error is None else type(error).__name__


def mark(name: str) -> None:
    """Mark an instant, if anything records."""
    record = _recorded(name, "mark")
    if record is not None:
        record.end_ns = record.start_ns


def _recorded(name: str, kind: Kind, args: object = None) -> HostEvent | None:
    """Record what begins now, inside the open ranges of this context; None if nothing records."""
    check_name(name)
    if not RECORDINGS:
        return None
    around = innermost_record()
    record = HostEvent(name, kind, this_thread(), now_ns(), around=around, args=_args(args))
    for recording in tuple(RECORDINGS):
        recording.append(record)
    return record


def _args(args: object) -> dict[str, object]:
    if args is None:
        return {}
    if isinstance(args, Mapping):
        return {str(key): value for key, value in args.items()}
    return {"args": args}


# -- open ranges --------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Open:
    """A range that has begun in a context."""

    # Contexts copied since then share it, so its end is visible in all of them.

    owner: object  # what will end it
    record: HostEvent | None  # None if nothing records
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


def innermost_record() -> HostEvent | None:
    """Return the record of the innermost range that has one."""
    return next((each.record for each in open_here() if each.record is not None), None)


def begin(owner: object, record: HostEvent | None) -> Open:
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


# -- ranges of users ---------------------------------------------------------------------------

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

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """End it."""
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
