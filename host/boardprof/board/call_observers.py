# SPDX-License-Identifier: Apache-2.0
"""Observers of all calls of packed functions.

While `OBSERVERS` is empty, the only cost of a call is the check for that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from boardprof.measure.counted_pass import Value

if TYPE_CHECKING:
    from boardprof.arguments.arguments import Arguments
    from boardprof.board.board import Board
    from boardprof.board.functions import RemoteFunction
    from boardprof.measure.passes import Rounds
    from boardprof.report.measurement import Measurement


@dataclass(frozen=True, eq=False)
class HostCall:
    """A call that the host's program makes.

    Attributes:
        board: the called board.
        function: the called function.
        args: values by position, unless they are already bound.
        named: values by parameter name, likewise.
        arguments: the bound arguments; None if not bound yet.
        rounds: how often a measurement calls it; None for a single call.
    """

    board: Board
    function: RemoteFunction
    args: Sequence[object] = ()
    named: Mapping[str, object] = field(default_factory=dict)
    arguments: Arguments | None = None
    rounds: Rounds | None = None

    def bound(self) -> Arguments:
        """Return the arguments, bound now unless they are already.

        Raises:
            UsageError: they do not fit the function's signature.
        """
        return self.arguments or self.function.bind(self.args, self.named)


class Observation(Protocol):
    """Observation of one call, from the host's first step to the last."""

    def begin(self) -> None:
        """Note that the call begins."""

    def through(self, value: Value, is_plain: bool) -> Value:
        """Return the function that makes the call itself; the arrays are already on the board.

        This is not used for a measurement, whose windows are the board's own.

        Args:
            value: makes the call, and returns its result.
            is_plain: ``value`` does nothing else, so that a measured call may replace it.
        """

    def end(self, measurement: Measurement | None, error: BaseException | None) -> None:
        """Note that the call has ended, with its measurement or its exception."""


class Observer(Protocol):
    """Observer of the calls of all boards."""

    def prepare(self, board: Board) -> None:
        """Prepare for a board whose samples will be watched one by one.

        An observer that programs the board's slots does it now: the samples' own events are
        selected afterwards.
        """

    def watch(self, call: HostCall) -> Observation | None:
        """Return the observation of a call, or None if it is not observed."""


OBSERVERS: list[Observer] = []
"""The active observers. The code that adds one also removes it."""

_IS_UNOBSERVED: ContextVar[bool] = ContextVar("boardprof_is_unobserved", default=False)


def observe(call: HostCall, run: Callable[[Value], object], value: Value) -> object:
    """Make a call as the observers want it.

    Args:
        call: for the observers.
        run: makes the call, through the function that it gets.
        value: `Session.value`, which observers may replace.
    """
    with watched(call) as (watching, _):
        for number, each in enumerate(reversed(watching)):
            value = each.through(value, is_plain=number == 0)
        return run(value)


def observe_measurement(call: HostCall, measure: Callable[[], Measurement]) -> Measurement:
    """Make a measurement, watched as a call is."""
    with watched(call) as (_, result):
        result.append(measure())
    return result[0]


def prepare_observers(board: Board) -> None:
    """Prepare all observers for a board; see `Observer.prepare`."""
    for observer in _observers():
        observer.prepare(board)


@contextlib.contextmanager
def unobserved() -> Iterator[None]:
    """Hide calls from observers, such as calls that an observer itself makes."""
    token = _IS_UNOBSERVED.set(True)
    try:
        yield
    finally:
        _IS_UNOBSERVED.reset(token)


def _observers() -> tuple[Observer, ...]:
    return () if _IS_UNOBSERVED.get() else tuple(OBSERVERS)


@contextlib.contextmanager
def watched(call: HostCall) -> Iterator[tuple[list[Observation], list[Measurement]]]:
    """Start the observations and end them in reverse order; also yield a list for the result."""
    found = [observer.watch(call) for observer in _observers()]
    watching = [each for each in found if each is not None]
    result: list[Measurement] = []
    for each in watching:
        each.begin()
    try:
        yield watching, result
    except BaseException as error:
        for each in reversed(watching):
            each.end(None, error)
        raise
    for each in reversed(watching):
        each.end(result[0] if result else None, None)
