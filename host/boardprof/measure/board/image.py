# SPDX-License-Identifier: Apache-2.0
"""The image that a board runs: its functions, their stack, and whether the board really runs it."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from functools import cache, partial
from pathlib import Path, PurePath

from boardprof.base.errors import BoardprofError, BuildMismatchError, DeviceFaultError
from boardprof.results.record import Device, SourcePlace, Stack
from boardprof.target.cfunction import CFunction
from boardprof.target.elf.addresses import definition
from boardprof.target.elf.machine_code import MASKS, SETS_CLOCK, SETS_COUNTER, SETS_TIMER
from boardprof.target.elf.object_file import build_id_of
from boardprof.target.elf.stack_need import SMALL, Frame, ImageStack, StackNeed, image_stack
from boardprof.target.toolchain.cache import Cache, FileHashes, digest
from boardprof_protocol.codes import ErrorCode, FaultCause

_SETUP = "_setup"

_LASTING = frozenset([MASKS, SETS_CLOCK, SETS_TIMER, SETS_COUNTER])
"""What a function's set-up may do to its calls."""


_VERSION = 17
"""Version of the cached data; other versions are not read."""

_CACHE_ERRORS = (OSError, BoardprofError)
"""Cache errors are reported elsewhere; they do not prevent a measurement."""

_UNTOLD = 256
"""Bytes of stack that the image does not show, such as the red zone of x86 leaf functions."""

_HOST_GUARD = 4096  # smallest guard of an operating system below a stack, in bytes


class BoardImage:
    """What is known of a board's functions besides the board's own answers."""

    def __init__(self, functions: Iterable[str]) -> None:
        """Take the names of the board's functions."""
        self.functions = tuple(functions)
        self.file: Path | None = None
        self.is_of_this_host = False  # it uses a stack of this machine
        self.sources: dict[str, CFunction] = {}
        self._has_been_read = False

    def add_functions(self, functions: Iterable[CFunction]) -> None:
        """Add facts about functions that the board does not report: the members of structs."""
        self.sources.update((function.name, function) for function in functions)

    def symbol_of(self, function: str) -> str:
        """Return a function's name for the linker; in C++ that differs from its name."""
        is_plain = function.isidentifier() or function not in self.functions
        known = self.sources.get(function) if is_plain else self.source_of(function)
        return function if known is None else known.symbol

    def source_of(self, function: str) -> CFunction | None:
        """Return what the debug information says of a function; None if there is none."""
        if function not in self.sources:
            self.read()
        return self.sources.get(function)

    def place_of(self, function: str, files: Sequence[Path]) -> SourcePlace | None:
        """Return where a function is defined; ``files`` are the sources of the image."""
        known = self.sources.get(function)
        if known is not None and (known.line or self.file is None):
            return _source_place(known.source, known.line, files)
        # The debug information of a function that a source includes has no line in that source.
        found = None if self.file is None else definition(self.file, self.symbol_of(function))
        if found is None or not found.path or found.line < 1:
            return None
        if known is not None:
            return _source_place(os.path.normpath(found.path), found.line, files)
        return SourcePlace(_in_repository(Path(found.path)), found.line)

    def read(self) -> None:
        """Read the functions of the image once; without debug information, nothing is known."""
        if self.file is None or self._has_been_read:
            return
        from boardprof.target.elf.functions import functions  # later: reading takes a while

        with contextlib.suppress(BoardprofError):  # such as an image without symbols
            self.add_functions(
                [each for each in functions([self.file]) if each.name not in self.sources]
            )
        self._has_been_read = True  # last: another thread may ask meanwhile


def check_build(
    device: Device, image: Path, built: bytes | None, on_note: Callable[[str], None] | None
) -> None:
    """Check the build id that a board reports against one built from sources, or the file's."""
    runs, port = device.build_id, device.port
    found = (
        f"The board at {port} runs build {runs}" if runs else f"The board at {port} has no build id"
    )
    if built is not None:
        if built.hex() != runs:
            raise BuildMismatchError(
                f"{found}; these sources produce build {built.hex()}.",
                hint="start or flash the board with these sources and flags, or connect without "
                "sources to measure the image that it runs",
            )
        return
    read = build_id_of(image)
    built_here = read.hex() if read is not None and any(read) else ""
    if read is None or built_here == runs == "":
        without = image if runs else f"The board at {port}"
        if on_note is not None:
            on_note(
                f"{without} has no build id, so boardprof cannot check that "
                + (f"the board at {port} runs it" if runs else f"it runs {image}")
            )
    elif built_here != runs:
        made = f"is build {built_here}" if built_here else "has no build id"
        raise BuildMismatchError(
            f"{found}; {image} {made}.",
            hint=f"flash {image} (boardprof flash), or name the ELF of the image that runs",
        )


# -- stack --------------------------------------------------------------------------------------


class StackCheck:
    """Whether a function's stack fits, and whether painting can have seen all of its use."""

    # A frame that is larger than the guard below the stack may begin beyond the guard, where
    # nothing notices. And an array that is only written at its upper end leaves the paint below
    # intact. So the sizes of frames are read from the image. Where a frame of unknown size may be
    # active, painting only gives a lower bound, and there is a reason instead of a number.

    def __init__(self, board: str, image: BoardImage) -> None:
        """Take a board's name, for messages; its image is read when needed."""
        self._board = board
        self._image = image
        self._stack_of = cache(self._read)  # by file, which may become known later

    def require(self, function: str) -> None:
        """Check that the function's frames fit into the stack."""
        # A chain of small frames is not refused: the board's guard catches it.
        need, room, guard = self._need(function), self._stack.room, self._stack.guard
        if need is None or room is None or need.total <= room or need.largest <= guard:
            return
        whose = "its own frame" if need.largest_of == function else f"{need.largest_of} within it"
        raise DeviceFaultError(
            f"{function} was not called: it needs {need.total:,} bytes of stack, and {self._board} "
            f"has {room:,} ({need.largest:,} are for {whose}).",
            code=ErrorCode.FAULT,
            cause=FaultCause.STACK_OVERFLOW.key,
            hint=f"make the large arrays in {need.largest_of} smaller, static, or parameters",
        )

    def hazards(self, function: str) -> frozenset[str]:
        """Return what the function's code may do to clocks, as far as the image shows it."""
        # A call through a pointer may reach every function.
        need = self._need(function)
        if need is None:
            return frozenset()
        found = {*need.hazards, *(self._stack.hazards if need.calls_unknown else ())}
        setup = self._stack.needs.get(self._image.symbol_of(function) + _SETUP)
        if setup is not None:  # these may stay so during the call
            found |= _LASTING.intersection(setup.hazards)
        return frozenset(found)

    def figure(self, function: str, stack: Stack) -> Stack | str:
        """Return the stack use found by painting, or why it is not that of a call."""
        need = self._need(function)
        looked_at = f"only {stack.painted:,} are checked"
        if need is not None:
            beyond = self._beyond(function, need, stack)
            if beyond is not None:
                return f"{beyond}; {looked_at}"
        if stack.used + self._unseen(need, stack) >= stack.painted:
            return f"{function} used all of the {stack.painted:,} bytes that are checked"
        # A frame that the call has reached: what is not written at its lower end is not seen.
        if need is None:
            return stack
        unwritten = self._stack.unwritten(need.begin, stack.used)
        if unwritten is None:
            return stack
        if unwritten.function == function and not need.is_recursive:
            return (
                f"{function} reserves {unwritten.size:,} bytes, but wrote only the upper "
                f"{stack.used:,}, as far as painting shows"
            )
        return (
            f"{unwritten.function}, which {function} may call, reserves {unwritten.size:,} bytes, "
            f"and paint does not show whether it ran: a call took at least {stack.used:,} bytes"
        )

    def _beyond(self, function: str, need: StackNeed, stack: Stack) -> str | None:
        """Return which frame may reach beyond the paint without a trace in it; None if none can."""
        by_pointer = f"{function} may call functions through pointers or a library, and "
        variable = f" may reserve a variable number of bytes (at least {stack.used:,} were used)"
        if need.own > stack.painted:
            return f"{function} reserves {need.own:,} bytes"
        if need.largest > stack.painted:
            return f"{need.largest_of}, which {function} may call, reserves {need.largest:,} bytes"
        if need.variable_of == function:
            return function + variable
        if need.variable_of is not None:
            return f"{need.variable_of}, which {function} may call,{variable}"
        if not need.calls_unknown:
            return None
        if self._stack.largest > stack.painted:
            return f"{by_pointer}{self._stack.largest_of} reserves {self._stack.largest:,} bytes"
        if self._stack.variable_of is not None:
            return f"{by_pointer}{self._stack.variable_of}{variable}"
        return None

    def _unseen(self, need: StackNeed | None, stack: Stack) -> int:
        """Return the number of bytes of frames that may have left the paint intact."""
        if need is None:
            return SMALL
        if need.calls_unknown:
            return max(SMALL, 2 * self._stack.largest)
        if need.is_recursive or need.total > stack.painted:
            # A caller's frame, and below it that of a function that calls no other: all other
            # frames leave a return address.
            return max(SMALL, 2 * need.largest)
        if stack.used < need.total:
            return SMALL
        # If it used more than the image shows, some code has no call-frame information.
        return 0 if stack.used <= need.total + _UNTOLD else max(SMALL, need.largest)

    def _need(self, function: str) -> StackNeed | None:
        return self._stack.needs.get(self._image.symbol_of(function))

    @property
    def _stack(self) -> ImageStack:
        return self._stack_of(self._image.file)

    def _read(self, file: Path | None) -> ImageStack:
        found = ImageStack({}) if file is None else self._frames(file)
        if self._image.is_of_this_host and found.room is None:
            import resource  # here: a board of this host needs POSIX, others do not

            limit = threading.stack_size() or resource.getrlimit(resource.RLIMIT_STACK)[0]
            room = None if limit == resource.RLIM_INFINITY else limit
            return replace(found, room=room, guard=_HOST_GUARD)
        return found

    def _frames(self, file: Path) -> ImageStack:
        """Return the stack facts of the image, from the cache if it was read before."""
        content = FileHashes().of(file)
        if content is None:
            return ImageStack({})
        measured = [*map(self._image.symbol_of, self._image.functions)]
        symbols = (*measured, *(f"{name}{_SETUP}" for name in measured))
        read = cache(partial(image_stack, file, symbols))
        name = digest("stack", _VERSION, content, symbols)
        with contextlib.suppress(*_CACHE_ERRORS, ValueError, LookupError, TypeError):
            text = Cache().recall(lambda: json.dumps(asdict(read())), "functions", f"{name}.json")
            data = json.loads(text)
            needs = {name: StackNeed(**need) for name, need in data["needs"].items()}
            frames = {int(at): Frame(**frame) for at, frame in data["frames"].items()}
            return ImageStack(**{**data, "needs": needs, "frames": frames})
        return read()


def _source_place(source: str, line: int, files: Iterable[Path]) -> SourcePlace | None:
    """Return a function's place, if need be relative to a folder of ``files``; None if unknown."""
    if line < 1 or not source:
        return None
    parts = PurePath(source).parts
    found = {file for file in files if file.parts[-len(parts) :] == parts}
    if os.path.isabs(source):
        found = {Path(source)}
    return SourcePlace(_in_repository(found.pop()), line) if len(found) == 1 else None


def _in_repository(file: Path) -> str:
    """Return the path from the folder with ``.git`` above a file. It need not exist."""
    whole = Path(os.path.abspath(file))
    for folder in whole.parents:
        if (folder / ".git").exists():
            return whole.relative_to(folder).as_posix()
    return whole.name
