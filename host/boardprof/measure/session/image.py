# SPDX-License-Identifier: Apache-2.0
"""The image that a board runs: what it says of functions, and whether the board really runs it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from boardprof.base.errors import BoardprofError, BuildMismatchError
from boardprof.results.record import Device, SourcePlace
from boardprof.results.report.source_place import place_of_line, source_place
from boardprof.target.cfunction import CFunction
from boardprof.target.elf.binutils import definition
from boardprof.target.elf.identity import build_id_of


class BoardImage:
    """What is known of a board's functions besides the board's own answers.

    Until the file is known, it is only what the board's sources say.
    """

    def __init__(self, functions: Iterable[str]) -> None:
        """Take the names of the board's functions."""
        self.functions = tuple(functions)
        self.file: Path | None = None
        self.is_of_this_host = False  # it uses a stack of this machine
        self.sources: dict[str, CFunction] = {}
        self._has_been_read = False

    def know(self, functions: Iterable[CFunction]) -> None:
        """Add facts about functions that the board does not report: the members of structs."""
        self.sources.update((function.name, function) for function in functions)

    def symbol_of(self, function: str) -> str:
        """Return a function's name for the linker; in C++ that differs from its name."""
        is_plain = function.isidentifier() or function not in self.functions
        known = self.sources.get(function) if is_plain else self.source_of(function)
        return function if known is None else known.symbol

    def source_of(self, function: str) -> CFunction | None:
        """Return what the debug information says of a function; None if there is none.

        A board that runs an image of its own has the types of structs in that image.
        """
        if function not in self.sources:
            self.read()
        return self.sources.get(function)

    def place_of(self, function: str, files: Sequence[Path]) -> SourcePlace | None:
        """Return where a function is defined; ``files`` are the sources of the image."""
        known = self.sources.get(function)
        if known is not None:
            return source_place(known.source, known.line, files)
        found = None if self.file is None else definition(self.file, function)
        return None if found is None else place_of_line(found.path, found.line)

    def read(self) -> None:
        """Read the functions of the image once; without debug information, nothing is known."""
        if self.file is None or self._has_been_read:
            return
        from boardprof.target.elf.functions import functions  # later: reading takes a while

        with contextlib.suppress(BoardprofError):  # such as an image without symbols
            self.know([each for each in functions([self.file]) if each.name not in self.sources])
        self._has_been_read = True  # last: another thread may ask meanwhile


_NONE = "00" * 8
"""The build id of a table that was written by hand without one."""


def check_build(
    device: Device, image: Path, built: bytes | None, on_note: Callable[[str], None] | None
) -> None:
    """Check the build id that a board reports.

    ``built`` is the build id of an image built from the user's sources; None reads it from the
    file.
    """
    runs, port = device.build_id, device.port
    found = f"The board at {port} runs build {runs}"
    if runs == _NONE:
        found = f"The board at {port} reports no build id"
    if built is not None:
        if built.hex() != runs:
            raise BuildMismatchError(
                f"{found}; these sources produce build {built.hex()}.",
                hint="start or flash the board with these sources and flags, or connect without "
                "sources to measure the image that it runs",
            )
        return
    read = (build_id_of(image) or b"").hex()
    if not read or read == runs == _NONE:
        if on_note is not None:
            on_note(
                f"{image} has no build id, so boardprof cannot check that the board at {port} "
                "runs it"
            )
    elif read != runs:
        made = f"is build {read}" if read != _NONE else "has no build id"
        raise BuildMismatchError(
            f"{found}; {image} {made}.",
            hint=f"flash {image} (boardprof flash), or name the ELF of the image that runs",
        )
