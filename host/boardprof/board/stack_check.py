# SPDX-License-Identifier: Apache-2.0
"""Whether a function's stack can be had, and whether what painting has seen can be all of it.

Frames that are larger than the guard below the stack may begin behind it, where nothing notices;
and an array that is written at its upper end only leaves the paint below as it was. The image says
how large frames are.
"""

from __future__ import annotations

import contextlib
import json
import resource
import threading
from collections.abc import Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path

from boardprof.boards.guard import cause_name
from boardprof.elf.frames import ImageStack, StackNeed, image_stack
from boardprof.errors import BoardprofError, DeviceFaultError
from boardprof.report.measurement import Stack
from boardprof.toolchain.cache import Cache, FileHashes, digest
from boardprof_protocol.codes import ErrorCode, FaultCause

__all__ = ["StackCheck"]

_VERSION = 4
"""Of what the cache keeps; another one is not read."""

_CACHE_ERRORS = (OSError, BoardprofError)
"""That nothing can be kept is told elsewhere: a function can be measured all the same."""

_UNSEEN = 64
"""So many bytes at a frame's lower end may be there for alignment, or are for a rarer path."""

_UNTOLD = 256
"""So many bytes a chain of frames may take that the image does not tell, as below x86's leaves."""

_HOST_GUARD = 4096
"""What an operating system denies below a stack, at least."""


class StackCheck:
    """What the functions of one board need of its stack."""

    def __init__(
        self, board: str, image: Path | None, names: Sequence[str], *, is_of_this_host: bool
    ) -> None:
        """Prepare; the image is read when it is asked for the first time.

        Args:
            board: its name, for messages.
            image: the firmware that it runs; None where that is not known: nothing is checked then.
            names: of its functions.
            is_of_this_host: whether the board was started here, and is no emulator: it has the
                stacks of this machine then.
        """
        self._board = board
        self._path = image
        self._names = tuple(names)
        self._is_of_this_host = is_of_this_host

    def require(self, function: str) -> None:
        """See that the function's frames have room.

        A chain of small frames is left to the board's guard, which catches it.

        Raises:
            DeviceFaultError: they have none; the function was not called.
        """
        need, room, guard = self._image.needs.get(function), self._image.room, self._image.guard
        if need is None or room is None or need.total <= room or need.largest <= guard:
            return
        whose = "its own frame" if need.largest_of == function else f"{need.largest_of} within it"
        raise DeviceFaultError(
            f"{function} was not called: it needs {need.total:,} bytes of stack, and {self._board} "
            f"has {room:,} ({need.largest:,} are for {whose}).",
            code=ErrorCode.FAULT,
            cause=cause_name(FaultCause.STACK_OVERFLOW),
            hint=f"make the large arrays of {need.largest_of} smaller, static, or parameters",
        )

    def figure(self, function: str, stack: Stack) -> Stack | str:
        """Return what painting has found, or why that cannot be what a call takes."""
        need, looked_at = self._image.needs.get(function), f"{stack.painted:,} are looked at"
        if need is not None and need.own > stack.painted:
            return f"{function} reserves {need.own:,} bytes; {looked_at}"
        if need is not None and need.largest > stack.painted:
            return (
                f"{need.largest_of}, which {function} may call, reserves {need.largest:,} bytes; "
                f"{looked_at}"
            )
        if stack.used + _unseen(need, stack) >= stack.painted:
            return f"{function} came to the end of the {stack.painted:,} bytes that are looked at"
        if need is not None and need.own > stack.used + _UNSEEN:
            return (
                f"{function} reserves {need.own:,} bytes, and was seen to write the upper "
                f"{stack.used:,} alone"
            )
        return stack

    @cached_property
    def _image(self) -> ImageStack:
        found = self._read() if self._path is not None else ImageStack({})
        if self._is_of_this_host and found.room is None:
            return ImageStack(found.needs, _host_room(), _HOST_GUARD)
        return found

    def _read(self) -> ImageStack:
        """Return what the image tells, from the cache if it was read before."""
        assert self._path is not None
        content = FileHashes().of(self._path)
        if content is None:
            return ImageStack({})
        place = ("functions", digest("stack", _VERSION, content, self._names) + ".json")
        known = _kept(place)
        if known is not None:
            return known
        found = image_stack(self._path, self._names)
        with contextlib.suppress(*_CACHE_ERRORS):
            Cache().write(json.dumps(asdict(found)), *place)
        return found


def _unseen(need: StackNeed | None, stack: Stack) -> int:
    """Return how much of a frame that goes on below the paint may have left the paint as it was."""
    if need is None or stack.used < need.total:
        return _UNSEEN
    # Where that is more than the image tells of, it calls itself, or others by pointers.
    return 0 if stack.used <= need.total + _UNTOLD else max(_UNSEEN, need.largest)


def _kept(place: tuple[str, ...]) -> ImageStack | None:
    """Return what was kept in the cache, None if nothing was that can be read."""
    with contextlib.suppress(*_CACHE_ERRORS, ValueError, LookupError, TypeError, AttributeError):
        text = Cache().read(*place)
        if text is not None:
            data = json.loads(text)
            needs = {name: StackNeed(**need) for name, need in data["needs"].items()}
            return ImageStack(needs, data["room"], data["guard"])
    return None


def _host_room() -> int | None:
    """Return how large the stack of a thread of this process is, None without a limit."""
    limit = threading.stack_size() or resource.getrlimit(resource.RLIMIT_STACK)[0]
    return None if limit == resource.RLIM_INFINITY else limit
