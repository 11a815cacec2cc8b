# SPDX-License-Identifier: Apache-2.0
"""What is at an address of an image: function, instruction, line, and the symbol near an anchor.

binutils' programs tell instructions and lines, and the names of C++.
"""

from __future__ import annotations

import bisect
import posixpath
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from boardprof.base.errors import BuildError, Location, MissingToolError, UsageError, option
from boardprof.target.elf.object_file import (
    GLOBAL,
    LOCAL,
    OBJECT,
    Symbol,
    build_id_of,
    code_address,
    functions_in,
    read_if_possible,
    symbols,
)

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

MANGLED = "_Z"
"""The beginning of mangled C++ names (Itanium C++ ABI, 5.1.2)."""

_INSTRUCTION = re.compile(r"^ *([0-9a-f]+):\t(.*)$")
_TIMEOUT_S = 60.0
# Of binutils; that of the host reads the debug information of every machine.
_ADDR2LINE = "addr2line"
_LINE_TIMEOUT_S = 10.0
_PLACE = r"(?P<path>.+):(?P<line>[1-9]\d*)(?: \(discriminator \d+\))?"


def demangled(names: Iterable[str]) -> dict[str, str]:
    """Return each name as in the source, without parameters; a clone keeps its ending."""
    found = {name: name for name in names}
    mangled = [name for name in found if name.startswith(MANGLED)]
    if not mangled:
        return found
    bases = [name.partition(".")[0] for name in mangled]
    plain = _lines(["c++filt", "-p"], "".join(f"{base}\n" for base in bases))
    if len(plain) == len(mangled):
        ends = (name[len(base) :] for name, base in zip(mangled, bases, strict=True))
        found |= {name: p + e for name, p, e in zip(mangled, plain, ends, strict=True)}
    return found


def objdump_of(compiler: str) -> str:
    """Return the name of the objdump that belongs to a compiler, such as arm-none-eabi-gcc."""
    name = re.sub(r"-(gcc|g\+\+|cc)(-[\d.]+)?$", "-objdump", compiler)
    return name if name != compiler else "objdump"


def disassembly(image: Path, objdump: str) -> dict[int, str]:
    """Return the text of each instruction by its address; empty if ``objdump`` cannot be run."""
    lines = _lines([objdump, "-d", "--no-show-raw-insn", str(image)])
    found = map(_INSTRUCTION.match, lines)
    return {int(each[1], 16): each[2].strip() for each in found if each is not None}


def _lines(command: Sequence[str], text: str = "", timeout_s: float = _TIMEOUT_S) -> list[str]:
    """Return what a program prints; [] if it cannot be run, since its output is only additional."""
    try:
        return _ran(command, text, timeout_s).stdout.splitlines()
    except (OSError, subprocess.TimeoutExpired):
        return []


def _ran(
    command: Sequence[str], text: str, timeout_s: float = _TIMEOUT_S
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, input=text, capture_output=True, text=True, errors="replace", timeout=timeout_s
    )


# -- file and line of an address ---------------------------------------------------------------


def locate(image: Path, pc: int) -> Location | None:
    """Return the place in the sources of an address of the file, None if it is unknown."""
    functions = read_if_possible(image, _functions) or []
    named = (each.name for at, each in functions if at <= pc < at + each.size)
    function = next((name.partition(".")[0] for name in named), None)  # GCC's clones: name.part.0
    # A missing source line must not hide the error itself.
    said = _lines([_ADDR2LINE, "-e", str(image), hex(pc)], timeout_s=_LINE_TIMEOUT_S)
    found = re.fullmatch(_PLACE, "".join(said).strip())
    if found is None:
        return Location("", 0, function) if function is not None else None
    return Location(found["path"], int(found["line"]), function)


@cache
def definition(image: Path, function: str) -> Location | None:
    """Return where a function of an image begins, None if it is unknown."""
    functions = read_if_possible(image, _functions) or []
    begin = next((at for at, each in functions if each.name == function), None)
    return None if begin is None else locate(image, begin)


def _functions(elf: ELFFile) -> list[tuple[int, Symbol]]:
    return [(code_address(elf, each), each) for each in functions_in(elf)]


def frames_at(image: Path, addresses: Iterable[int]) -> dict[int, tuple[Location, ...]]:
    """Return the frames of each address, the innermost inlined function first.

    Names of C++ functions are mangled, without what the compiler adds to those of clones. An
    address without debug information has the frames that are known, maybe none with a line.
    """
    wanted = list(dict.fromkeys(addresses))
    command = [_ADDR2LINE, "-a", "-i", "-f", "-e", str(image)]
    try:
        done = _ran(command, "".join(f"{address:#x}\n" for address in wanted))
    except FileNotFoundError as error:
        raise MissingToolError(_ADDR2LINE, "binutils") from error
    except subprocess.TimeoutExpired as error:
        raise BuildError(f"{_ADDR2LINE} took more than {_TIMEOUT_S:g} s.") from error
    if done.returncode != 0:
        raise BuildError(f"{_ADDR2LINE} cannot read {image}: {done.stderr.strip()}")
    found: dict[int, list[Location]] = {}
    frames: list[Location] = []
    lines = iter(done.stdout.splitlines())
    for line in lines:
        if line.startswith("0x"):
            frames = found[int(line, 16)] = []
        else:
            frames.append(_frame("" if line == "??" else line, next(lines, "")))
    return {address: tuple(inner) for address, inner in found.items()}


def _frame(function: str, place: str) -> Location:
    if function.startswith(MANGLED):
        function = function.partition(".")[0]
    elif function.startswith("$"):  # the assembler's mark of code (AAELF, 5.5.5)
        function = ""
    match = re.fullmatch(_PLACE, place)
    if match is None or match["path"] == "??":
        return Location("", 0, function or None)
    return Location(posixpath.normpath(match["path"]), int(match["line"]), function or None)


# -- calls ---------------------------------------------------------------------------------------


def call_sites_of_build(image: str, build_id: str, returns: Iterable[int]) -> dict[int, str]:
    """Return `call_sites` of the image that ran, if it is still there."""
    if not image:
        raise UsageError(
            "No image is known.", hint=f"{option('--image')} ELF, when the firmware is recorded"
        )
    if not build_id:
        raise UsageError(
            f"The board that ran it has no build id, so {image} may be another image.",
            hint="let `boardprof glue` write the firmware's table of functions, with a build id",
        )
    # It may have been built again.
    if not Path(image).is_file() or (build_id_of(Path(image)) or b"").hex() != build_id:
        raise UsageError(f"{image} is not the image that ran.")
    return call_sites(Path(image), returns)


def call_sites(image: Path, returns: Iterable[int]) -> dict[int, str]:
    """Return ``file.c:12 (function)`` by known return address; on Arm, bit 0 marks Thumb code."""
    # A call ends one byte before the address to which it returns; with Thumb's bit, two.
    inside = {address: (address & ~1) - 1 for address in returns if address > 1}
    frames = frames_at(image, inside.values())
    found = {a: frames[at][0] for a, at in inside.items() if frames.get(at)}
    names = demangled(frame.function for frame in found.values() if frame.function)

    def text(frame: Location) -> str:
        place = f"{posixpath.basename(frame.path)}:{frame.line}" if frame.line else ""
        function = f"({names[frame.function]})" if frame.function else ""
        return f"{place} {function}".strip()

    return {address: text(frame) for address, frame in found.items() if text(frame)}


# -- functions by address ------------------------------------------------------------------------


_EXECUTABLE = 4  # SHF_EXECINSTR
_NOTYPE, _FUNC = 0, 2  # STT_NOTYPE, STT_FUNC
_UNNAMED = (".L", "$", "L0\x01")
"""Labels of compilers and assemblers, and marks of code and data (AAELF, 5.5.5)."""


@dataclass(frozen=True, order=True)
class CodeRange:
    """The code of a function."""

    low: int  # without the bit that marks Thumb code
    high: int
    name: str  # of several, the one that a user most likely knows


class SymbolTable:
    """The functions of an image, by address."""

    def __init__(self, functions: Sequence[CodeRange], entries: Mapping[str, int]) -> None:
        """Take functions in the order of their addresses, and the address of every name."""
        self.functions = functions
        self.entries = entries
        self._lows = [each.low for each in functions]

    def at(self, address: int) -> CodeRange | None:
        """Return the function whose code is at an address; None if no function is there."""
        index = bisect.bisect_right(self._lows, address) - 1
        if index < 0 or address >= self.functions[index].high:
            return None
        return self.functions[index]


def symbol_table(image: Path) -> SymbolTable:
    """Return the functions of an image; empty if it is stripped or is not a linked ELF file."""
    return read_if_possible(image, _read) or SymbolTable([], {})


def _read(elf: ELFFile) -> SymbolTable | None:
    if elf.get_section_by_name(".symtab") is None:
        return None
    sections = enumerate(elf.iter_sections())
    code = {n: s["sh_addr"] + s["sh_size"] for n, s in sections if s["sh_flags"] & _EXECUTABLE}
    named = (each for each in symbols(elf) if each.name and not each.name.startswith(_UNNAMED))
    of_code = (each for each in named if each.section in code and each.kind in (_NOTYPE, _FUNC))
    found = [(code_address(elf, each), each) for each in of_code]
    return SymbolTable(list(_ranges(found, code)), {each.name: low for low, each in found})


def _rank(symbol: Symbol) -> tuple[object, ...]:
    """Return a key that is lowest for the name to show: with type and size, global, as in C."""
    name, bind = symbol.name, symbol.bind
    is_less = (symbol.kind != _FUNC, not symbol.size, bind == LOCAL, bind != GLOBAL)
    return (*is_less, name.startswith("_"), len(name), name)


def _ranges(found: Sequence[tuple[int, Symbol]], ends: Mapping[int, int]) -> Iterator[CodeRange]:
    """Yield the code of each address that has a symbol; ``ends``: those of the sections."""
    named: dict[int, list[Symbol]] = {}
    for low, each in found:
        named.setdefault(low, []).append(each)
    lows = sorted(named)
    for low, following in zip(lows, [*lows[1:], None], strict=True):
        symbol = min(named[low], key=_rank)
        end = ends[symbol.section]
        high = end if following is None else min(following, end)
        yield CodeRange(low, min(low + symbol.size, high) if symbol.size else high, symbol.name)


_HEAP = r"heap\.\d+"  # of libc/bp_libc_end.h
_ANCHORS = {1: "bp_firmware", 2: "bp_agent"}


def anchored_symbols(image: Path) -> Callable[[int, int], str | None]:
    """Return a function from an anchor and a distance (SPEC.md 5.9) to a symbol: ``table+8``."""
    ranges = cache(lambda: read_if_possible(image, _named_ranges) or [])

    def symbol_at(anchor: int, distance: int) -> str | None:
        start = next((each.low for each in ranges() if each.name == _ANCHORS.get(anchor)), None)
        if start is None:
            return None
        address = start + distance
        found = next((each for each in ranges() if each.low <= address < each.high), None)
        if found is None:
            return None
        if re.fullmatch(_HEAP, found.name):
            return "heap"  # where in it depends on earlier calls, and on the board
        return found.name if found.low == address else f"{found.name}+{address - found.low}"

    return symbol_at


def _named_ranges(elf: ELFFile) -> list[CodeRange]:
    """Return the functions and variables of an image, in the order of the table."""
    found = (each for each in symbols(elf) if each.is_in_section)
    places = ((code_address(elf, s) if s.is_function else s.value, s) for s in found)
    return [
        CodeRange(at, at + s.size, s.name) for at, s in places if s.kind == OBJECT or s.is_function
    ]
