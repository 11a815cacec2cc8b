# SPDX-License-Identifier: Apache-2.0
"""One point from which all calls of packed functions can be watched, by whoever asks to.

While nobody does, `OBSERVERS` is empty, and a call looks at nothing but that.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol

if TYPE_CHECKING:
    from boardprof.arguments.arguments import Arguments
    from boardprof.board.board import Board
    from boardprof.board.functions import RemoteFunction
    from boardprof.board.measuring import Rounds
    from boardprof.board.passes import Pass
    from boardprof.report.measurement import Measurement

__all__ = ["OBSERVERS", "HostCall", "Observation", "Observer", "Value"]
__all__ += ["observe", "observed_measurement", "prepare_observers", "watched"]


Value = Callable[[int, bytes, int, str], object]
"""`Session.value`."""


@dataclass(frozen=True, eq=False)
class HostCall:
    """A call that a program of the host makes.

    Attributes:
        board: that is called.
        function: that is called.
        args: values by position, unless they are bound already.
        named: values by parameter name, likewise.
        arguments: both, bound; None: they are not yet.
        rounds: how often a measurement calls it; None of a call.
    """

    board: Board
    function: RemoteFunction
    args: Sequence[object] = ()
    named: Mapping[str, object] = field(default_factory=dict)
    arguments: Arguments | None = None
    rounds: Rounds | None = None


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
        """The call has ended; ``measurement`` is what it gave, ``error`` what it raised."""


class Observer(Protocol):
    """Watches the calls of all boards."""

    def prepare(self, board: Board) -> None:
        """A board is about to be programmed for samples, which are watched one by one.

        What it takes to watch them, such as telling the board's slots what to count, comes now.
        """

    def watch(self, call: HostCall) -> Observation | None:
        """Return what watches a call, None: nothing does."""


OBSERVERS: list[Observer] = []
"""Those who watch; whoever adds one takes it out again."""

Run = Callable[[Sequence[object], Mapping[str, object], Value], object]
"""Makes a call: with these values, and through this."""

_P = ParamSpec("_P")


def observe(call: HostCall, run: Run, value: Value) -> object:
    """Make a call as whoever watches wants it.

    Args:
        call: what is called.
        run: makes it.
        value: calls the board.
    """
    with watched(call) as (watching, _):
        for number, each in enumerate(reversed(watching)):
            value = each.through(value, is_plain=number == 0)
        return run(call.args, call.named, value)


_Measure = Callable[
    Concatenate["Board", "RemoteFunction", "Arguments", "Sequence[Pass]", "Rounds", _P],
    "Measurement",
]


def observed_measurement(measure: _Measure[_P]) -> _Measure[_P]:
    """Let a function that measures be watched as a call is."""

    @functools.wraps(measure)
    def measured(
        board: Board,
        remote: RemoteFunction,
        arguments: Arguments,
        passes: Sequence[Pass],
        rounds: Rounds,
        /,
        *args: _P.args,
        **options: _P.kwargs,
    ) -> Measurement:
        if not OBSERVERS:
            return measure(board, remote, arguments, passes, rounds, *args, **options)
        call = HostCall(board, remote, arguments=arguments, rounds=rounds)
        with watched(call) as (_, result):
            result.append(measure(board, remote, arguments, passes, rounds, *args, **options))
        return result[0]

    return measured


def prepare_observers(board: Board) -> None:
    """Tell whoever watches that a board is about to be programmed; see `Observer.prepare`."""
    for observer in tuple(OBSERVERS):
        observer.prepare(board)


@contextlib.contextmanager
def watched(call: HostCall) -> Iterator[tuple[list[Observation], list[Measurement]]]:
    """Begin the observations, and end them, the last to begin first; yields where a result goes."""
    found = [observer.watch(call) for observer in tuple(OBSERVERS)]
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
