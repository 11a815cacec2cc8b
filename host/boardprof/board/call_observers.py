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
    from boardprof.measure.rounds import Rounds
    from boardprof.report.measurement import Measurement


@dataclass(frozen=True, eq=False)
class HostCall:
    """A call that a program of the host makes.

    Attributes:
        board: that is called.
        function: that is called.
        args: values by position, unless they are bound already.
        named: values by parameter name, likewise.
        arguments: both, bound. None if they are not bound yet.
        rounds: how often a measurement calls it; None of a call.
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
    """What watches one call, from the host's first step of it to the last."""

    def begin(self) -> None:
        """The call begins."""

    def through(self, value: Value, is_plain: bool) -> Value:
        """Return what makes the call itself, its arrays being on the board.

        Not asked of a measurement, whose windows are the board's own.

        Args:
            value: makes it, and returns its result.
            is_plain: that does nothing else; it may be replaced by what does the same.
        """

    def end(self, measurement: Measurement | None, error: BaseException | None) -> None:
        """The call has ended, with ``measurement`` as its result or ``error`` as its exception."""


class Observer(Protocol):
    """Watches the calls of all boards."""

    def prepare(self, board: Board) -> None:
        """A board is about to be programmed for samples, which are watched one by one.

        What it takes to watch them, such as telling the board's slots what to count, comes now.
        """

    def watch(self, call: HostCall) -> Observation | None:
        """Return the observer of a call. None if there is none."""


OBSERVERS: list[Observer] = []
"""The active observers; whoever adds one also removes it."""

_IS_UNOBSERVED: ContextVar[bool] = ContextVar("boardprof_is_unobserved", default=False)


def observe(call: HostCall, run: Callable[[Value], object], value: Value) -> object:
    """Make a call as the observers want it.

    Args:
        call: for the observers.
        run: makes the call, through what it gets.
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
    """Tell whoever watches that a board is about to be programmed; see `Observer.prepare`."""
    for observer in _observers():
        observer.prepare(board)


@contextlib.contextmanager
def unobserved() -> Iterator[None]:
    """Hide calls from observers: those that an observer itself makes."""
    token = _IS_UNOBSERVED.set(True)
    try:
        yield
    finally:
        _IS_UNOBSERVED.reset(token)


def _observers() -> tuple[Observer, ...]:
    return () if _IS_UNOBSERVED.get() else tuple(OBSERVERS)


@contextlib.contextmanager
def watched(call: HostCall) -> Iterator[tuple[list[Observation], list[Measurement]]]:
    """Start the observations and end them in reverse order; yields where a result goes."""
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
