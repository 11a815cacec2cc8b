# SPDX-License-Identifier: Apache-2.0
"""One function with its arguments on the board, for as long as it is called there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from boardprof.board.board import Board
from boardprof.board.functions import RemoteFunction
from boardprof.board.placement import Placement
from boardprof.errors import UsageError
from boardprof.profiling.counted import PlacedCall

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["PlacedFunction", "measurable"]


def measurable(board: Board, name: str) -> RemoteFunction:
    """Return a function that can be measured.

    Raises:
        UnknownNameError: there is none of that name.
        UsageError: it can be called only.
    """
    remote = board.functions[name]
    if not remote.info.measurable:
        raise UsageError(f"{name} of {board.spec.name} can be called, not measured.")
    return remote


class PlacedFunction:
    """A function whose arrays are in the board's arena. Use it by ``with``.

    In/out arrays are put back to the caller's values before each call: by the board, if there is
    room for copies, or by `put_back`.

    Attributes:
        remote: the function.
        arguments: its own.
    """

    def __init__(
        self, board: Board, name: str, args: Sequence[object], named: Mapping[str, object]
    ) -> None:
        """Bind the arguments and find their places; nothing is sent yet.

        Raises:
            UsageError: they do not fit the signature or the arena; see ``Board.profile``.
            DeviceFaultError: the board's stack is too small for the function.
        """
        self.remote = measurable(board, name)
        self.arguments = self.remote.bind(args, named)
        board.stack_check.require(name)
        self._board = board
        self._placement = Placement(board.memory, self.arguments, put_back=True)

    @property
    def call(self) -> PlacedCall:
        """The function and its arguments as they are placed now."""
        return self._of(self.remote)

    @property
    def why_again(self) -> str:
        """Why the host sends in/out arrays again before each call."""
        return self._placement.why_again

    def put_back(self) -> None:
        """Send in/out arrays again, where the board has no room to do it by itself."""
        self._placement.send_again()

    def renew(self) -> None:
        """Send all arrays again as they are now; they may get other places."""
        self._placement.__exit__(None, None, None)
        self._placement = Placement(self._board.memory, self.arguments, put_back=True)
        self._placement.__enter__()

    def also(self, remote: RemoteFunction) -> None:
        """Call another function, which takes the same arguments, where they are on the board."""
        self._of(remote).value()

    def _of(self, remote: RemoteFunction) -> PlacedCall:
        return PlacedCall(self._board, remote, self.arguments, self._placement.packed)

    def call_for_outputs(self) -> tuple[object, dict[str, npt.NDArray[Any]]]:
        """Call it once, unmeasured, and read the caller's arrays back; return result and arrays."""
        self._placement.send_again()
        self._placement.renew_outputs()
        return self.call.value(), self._placement.fetch()

    def __enter__(self) -> Self:
        """Send the arrays."""
        self._placement.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Free the arrays' places."""
        self._placement.__exit__(kind, error, trace)
