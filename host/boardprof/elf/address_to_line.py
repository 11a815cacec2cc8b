# SPDX-License-Identifier: Apache-2.0
"""Find the source file and line for an address of an image."""

from __future__ import annotations

import posixpath
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from boardprof.elf.binutils import MANGLED
from boardprof.elf.object_file import code_address, functions_in, read_if_possible
from boardprof.errors import BuildError, MissingToolError
from boardprof.report.profile import Frame

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

_ADDR2LINE = "addr2line"
"""Of binutils; that of the host reads the debug information of every machine."""
_TIMEOUT_S = 10.0
_BATCH_TIMEOUT_S = 60.0
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


def frames_at(image: Path, addresses: Iterable[int]) -> dict[int, tuple[Frame, ...]]:
    """Return the frames of each address, the innermost inlined function first.

    Names of C++ functions are mangled, without what the compiler adds to those of clones. An
    address without debug information has the frames that are known, maybe none with a line.

    Args:
        image: an ELF file, best with ``-g``.
        addresses: as in the file.

    Raises:
        MissingToolError: addr2line is not installed.
        BuildError: it fails.
    """
    wanted = list(dict.fromkeys(addresses))
    command = [_ADDR2LINE, "-a", "-i", "-f", "-e", str(image)]
    try:
        done = subprocess.run(
            command,
            input="".join(f"{address:#x}\n" for address in wanted),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_BATCH_TIMEOUT_S,
        )
    except FileNotFoundError as error:
        raise MissingToolError(_ADDR2LINE, "binutils") from error
    except subprocess.TimeoutExpired as error:
        raise BuildError(f"{_ADDR2LINE} took more than {_BATCH_TIMEOUT_S:g} s.") from error
    if done.returncode != 0:
        raise BuildError(f"{_ADDR2LINE} cannot read {image}: {done.stderr.strip()}")
    found: dict[int, list[Frame]] = {}
    frames: list[Frame] = []
    lines = iter(done.stdout.splitlines())
    for line in lines:
        if line.startswith("0x"):
            frames = found[int(line, 16)] = []
        else:
            frames.append(_frame("" if line == "??" else line, next(lines, "")))
    return {address: tuple(inner) for address, inner in found.items()}


def _frame(function: str, place: str) -> Frame:
    if function.startswith(MANGLED):
        function = function.partition(".")[0]
    elif function.startswith("$"):  # the assembler's mark of code (AAELF, 5.5.5)
        function = ""
    match = re.fullmatch(_PLACE, place)
    if match is None or match["path"] == "??":
        return Frame(function, "", 0)
    return Frame(function, posixpath.normpath(match["path"]), int(match["line"]))
