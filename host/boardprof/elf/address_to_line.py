# SPDX-License-Identifier: Apache-2.0
"""Find the source file and line for an address of an image."""

from __future__ import annotations

import posixpath
import re
import subprocess
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from boardprof.elf.object_file import code_address, functions_in, read_if_possible

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

_ADDR2LINE = "addr2line"
"""Of binutils; that of the host reads the debug information of every machine."""
_TIMEOUT_S = 10.0
_PLACE = r"(?P<path>.+):(?P<line>[1-9]\d*)(?: \(discriminator \d+\))?"


@dataclass(frozen=True)
class Location:
    """A place in the sources.

    Attributes:
        path: of the file, as the compiler was given it; "" if only the function is known.
        line: counted from 1; 0 if not known.
        function: its name, None if not known.
    """

    path: str
    line: int
    function: str | None

    @property
    def is_agents(self) -> bool:
        """Whether it belongs to the agent or its caller, and not to a measured function."""
        name = self.function or posixpath.basename(self.path)  # its assembly has no functions
        return name.startswith("bp_") or name == "main"

    def __str__(self) -> str:
        """Return ``crash.c:12 (in crash)``."""
        place = f"{posixpath.basename(self.path)}:{self.line}" if self.line else ""
        inside = f"(in {self.function})" if self.function else ""
        return f"{place} {inside}".strip()


class Locator:
    """`locate` in one image; each address is looked up once."""

    def __init__(self, image: Path) -> None:
        """Take the path of an ELF file: a program, position-independent or not, or a library."""
        self.image = image
        self._known: dict[int, Location | None] = {}

    def __call__(self, pc: int) -> Location | None:
        """Return the place of ``pc``, None if it is not in the image."""
        if pc not in self._known:
            self._known[pc] = locate(self.image, pc)
        return self._known[pc]


def locate(image: Path, pc: int) -> Location | None:
    """Return the place of ``pc`` in the sources, None if it is unknown.

    Args:
        image: an ELF file, best with ``-g``.
        pc: an address as in the file, wherever the image was loaded.
    """
    function = read_if_possible(image, partial(_function_at, pc))
    path, line = _line_at(image, pc)
    return Location(path, line, function) if function is not None or line else None


def _function_at(pc: int, elf: ELFFile) -> str | None:
    for symbol in functions_in(elf):
        begin = code_address(elf, symbol)
        if begin <= pc < begin + symbol["st_size"]:
            name: str = symbol.name
            return name.partition(".")[0]  # GCC's clones: name.part.0
    return None


def _line_at(image: Path, pc: int) -> tuple[str, int]:
    """Return path and line; "" and 0 if they are not known."""
    command = [_ADDR2LINE, "-e", str(image), hex(pc)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return "", 0  # a missing source line must not hide the error itself
    found = re.fullmatch(_PLACE, done.stdout.strip())
    return (found["path"], int(found["line"])) if found else ("", 0)
