# SPDX-License-Identifier: Apache-2.0
"""Profiles of the calls that a program of the host makes."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgpack

from boardprof.board.call_observers import unobserved
from boardprof.errors import BoardprofError, UsageError
from boardprof.report.profile import Profile

if TYPE_CHECKING:
    from boardprof.arguments.arguments import Arguments
    from boardprof.arguments.array_argument import ArrayArgument
    from boardprof.board.call_observers import HostCall


class CallProfiles:
    """Profiles of calls. Calls of one function with equal arguments are recorded once."""

    def __init__(self) -> None:
        """Record nothing yet."""
        self._known: dict[tuple[object, ...], Profile | None] = {}
        self.lacking: dict[str, str] = {}
        """Name of a board -> why its calls cannot be recorded."""

    def of(self, call: HostCall, board: str) -> Profile | None:
        """Record a call that is about to be made; ``board`` names its board.

        None if nothing can record it, or if it fails; the call itself then says why.
        """
        if board in self.lacking:
            return None
        bound = call.bound()
        contents = tuple(map(_content, bound.parts))
        key = (id(call.board), call.function.info.name, bound.text, contents)
        if key not in self._known:
            self._known[key] = self._record(call, bound, board)
        return self._known[key]

    def _record(self, call: HostCall, bound: Arguments, board: str) -> Profile | None:
        try:
            with unobserved():
                return call.board.hotspots(call.function.info.name, named=_values(call, bound))
        except UsageError as error:
            self.lacking[board] = error.message
        except BoardprofError:
            pass
        return None


def _content(part: bytes | ArrayArgument) -> bytes | None:
    if isinstance(part, bytes):
        return part
    return None if part.array is None else part.array.tobytes()


def _values(call: HostCall, bound: Arguments) -> Mapping[str, object]:
    """Return arguments by parameter, arrays as copies: the recorded call may write them."""
    copies: dict[int, object] = {}  # one array given twice stays one
    values: dict[str, object] = {}
    for (name, _), part in zip(call.function.signature.parameters, bound.parts, strict=True):
        if isinstance(part, bytes):
            values[name] = msgpack.unpackb(part)
        else:
            values[name] = copies.setdefault(id(part.array), copy.copy(part.array))
    return values
